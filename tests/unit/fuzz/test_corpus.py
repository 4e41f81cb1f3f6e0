"""What must hold of everything that is read: of samples, of inputs that have broken it once, and of damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fuzz_targets import TARGETS, folders

FILES = [(target, file) for target in TARGETS for folder in folders(target) for file in sorted(folder.iterdir())]
_MOST_BYTES = 50_000
"""Of all samples: they are read in every run."""


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("target", "file"), FILES, ids=[f"{target}-{file.name}" for target, file in FILES])
def test_every_sample_is_read_or_refused(target: str, file: Path) -> None:
    """In a time that nobody waits for; what a fuzzer has found stays fixed."""
    TARGETS[target](file.read_bytes())


def test_the_samples_are_few() -> None:
    """Of those that a fuzzer makes, the ones that say something new are kept."""
    sizes = [file.stat().st_size for _, file in FILES if file.parent.parent.name == "corpus"]
    assert {target for target, _ in FILES} == set(TARGETS)
    assert sum(sizes) < _MOST_BYTES


TEXT = st.text(st.characters(), max_size=12)
"""Halves of surrogate pairs, too."""
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 1e-320, 1e300, 10**400])
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every container in it with each of its keys."""
    keys = list(document) if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    return [place for key in keys for place in ((document, key), *places(document[key]))]


@pytest.mark.parametrize("target", ["baselines", "reports"])
@given(data=st.data())
def test_a_damaged_document_is_read_or_refused(target: str, data: st.DataObject) -> None:
    """A merge gone wrong, an editor that slipped, a program that writes something like it."""
    samples = [file for folder in folders(target) for file in folder.glob("*.json") if folder.parent.name == "corpus"]
    content = data.draw(st.sampled_from(sorted(samples))).read_text(encoding="utf-8")
    if not content.startswith("{"):
        return
    document = json.loads(content)
    for _ in range(data.draw(st.integers(1, 3))):
        found = places(document)
        if not found:
            break
        container, key = found[data.draw(st.integers(0, len(found) - 1))]
        if data.draw(st.booleans()):
            container[key] = data.draw(VALUES)
        elif isinstance(container, dict):
            container[data.draw(TEXT)] = container.pop(key)
        else:
            container.insert(key, data.draw(VALUES))
    TARGETS[target](json.dumps(document).encode())


PIECES = {
    "thresholds": [
        "produce.latency.p99",
        "client.cpu_per_record",
        "<=",
        ">=",
        "max(",
        ")",
        ",",
        "baseline",
        "+",
        "-",
        "%",
        "ms",
    ],
    "units": ["->", "over", "for", ",", "k", "records/s", "MiB/s", "ms", "zipf:", "uniform:", ":", "e", ".", "{", '"'],
    "client-properties": [
        "sasl.mechanism",
        "ssl.keystore.key",
        "=",
        "\\u00",
        "\\\n",
        "\n",
        "PLAIN",
        "-----BEGIN A-----",
    ],
    "outputs": ["records sent, ", "records/sec (", "MB/sec", "nMsg.sec", "data.consumed.in.nMsg", ",", "\n", "{", "ms"],
}


@pytest.mark.parametrize("target", PIECES)
@given(data=st.data())
def test_any_text_is_read_or_refused(target: str, data: st.DataObject) -> None:
    """Made of what it could be made of: plain random text seldom gets beyond the first character."""
    piece = st.sampled_from(PIECES[target]) | st.integers(0, 10**6).map(str) | st.just(" ") | TEXT
    text = data.draw(st.lists(piece, max_size=12).map("".join))
    TARGETS[target](text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("target", TARGETS)
@given(content=st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(target: str, content: bytes) -> None:
    """A file of another kind."""
    TARGETS[target](content)
