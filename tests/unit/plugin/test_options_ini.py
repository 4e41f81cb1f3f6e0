"""Ini keys: every type, in every file that pytest reads, with the oldest and the newest pytest (`.ci/ranges.py`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_kafkaperf.plugin.options import OPTIONS, from_ini, key_of
from tests.unit.docs.pages import blocks

NATIVE = pytest.version_tuple >= (9, 0)
"""True if pytest reads `[tool.pytest]`, with TOML's own types."""


def sample() -> tuple[str, dict[str, Any]]:
    """Return the guide's sample and its values."""
    (text,) = [block.text for block in blocks("toml") if "kafka_workers" in block.text]
    return text, tomllib.loads(text)["tool"]["pytest"]


def as_ini(values: Mapping[str, Any]) -> str:
    texts = {key: "\n  ".join(["", *value]) if isinstance(value, list) else value for key, value in values.items()}
    return "[pytest]\n" + "".join(f"{key} = {text}\n" for key, text in texts.items())


def test_the_sample_has_every_key() -> None:
    """A key that no sample has may be of a type that no file can give."""
    keys = {key_of(name) for name, option in OPTIONS.items() if option.place != "command line"}
    assert sample()[1].keys() == keys


def test_there_are_at_most_23_options_and_27_keys() -> None:
    """Nobody reads a longer list."""
    places = [option.place for option in OPTIONS.values()]
    assert (len(places) - places.count("ini"), len(places) - places.count("command line")) == (23, 27)


@pytest.mark.parametrize("file", ["pytest.ini", "ini_options", "native", "override"])
def test_every_key_is_read_with_its_type(pytester: pytest.Pytester, file: str) -> None:
    """Native TOML must not say `expects a string, got int`."""
    text, values = sample()
    arguments = []
    if file == "pytest.ini":
        pytester.makeini(as_ini(values))
    elif file == "ini_options":
        pytester.makepyprojecttoml(text.replace("[tool.pytest]", "[tool.pytest.ini_options]"))
    elif file == "native":
        if not NATIVE:
            pytest.skip("since pytest 9")
        pytester.makepyprojecttoml(text)
    else:
        pytester.makeini("[pytest]\n")
        texts = {key: "\n".join(value) if isinstance(value, list) else value for key, value in values.items()}
        arguments = [word for key, text in texts.items() for word in ("-o", f"{key}={text}")]
    read = from_ini(pytester.parseconfigure("-p", "no:asyncio", *arguments))
    assert {key_of(name): value for name, value in read.items()} == values


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('kafka_rounds = "three"', "integer"),
        ('kafka_strict = "maybe"', "true or false"),
        pytest.param("kafka_workers = 2", "quoted string", marks=pytest.mark.skipif(not NATIVE, reason="pytest 9")),
        pytest.param(
            'kafka_report = "json"', "list of strings", marks=pytest.mark.skipif(not NATIVE, reason="pytest 9")
        ),
    ],
)
def test_a_value_of_another_type_is_a_usage_error_with_the_key(
    pytester: pytest.Pytester, line: str, problem: str
) -> None:
    """Some versions of pytest raise a bare `ValueError`, which ends in a traceback of pytest's own."""
    pytester.makepyprojecttoml(f"[tool.pytest{'' if NATIVE else '.ini_options'}]\n{line}\n")
    pytester.makepyfile("def test_one(kafka_perf): ...")
    ended = pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:asyncio")
    key = line.partition(" ")[0]
    out = f"{ended.stdout}\n{ended.stderr}"
    assert ended.ret == pytest.ExitCode.USAGE_ERROR, out
    assert f"{key} in the ini file: " in out
    assert f"; expected: {problem}" in out
    assert "Traceback" not in out
