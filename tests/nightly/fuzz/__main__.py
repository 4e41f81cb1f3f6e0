"""Look for an input that breaks a target: `python -m tests.nightly.fuzz TARGET [OPTIONS OF LIBFUZZER]`.

Runs until it has found one, or as long as `-max_total_time=SECONDS` says. What it makes stays in `.fuzz/TARGET`: its
corpus, to go on from, and the input that it has found.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["pytest_kafkaperf", "javaproperties"]):
    from tests.support.fuzz_targets import TARGETS, folders

_OPTIONS = ("-timeout=10", "-max_len=4096", f"-dict={Path(__file__).with_name('words.dict')}")
"""Seconds that one input may take, and bytes of it."""


def main(arguments: list[str]) -> None:
    """Run one target; libFuzzer ends the process."""
    if not arguments or arguments[0] not in TARGETS:
        sys.exit(f"usage: python -m tests.nightly.fuzz {{{','.join(TARGETS)}}} [OPTIONS OF LIBFUZZER]")
    target, *options = arguments
    made = Path(".fuzz", target)
    corpus = made / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    alone = any(not option.startswith("-") for option in options)  # files to run once
    seeds = [] if alone else [str(folder) for folder in (corpus, *folders(target))]

    def keeping(content: bytes) -> None:
        try:
            TARGETS[target](content)
        except Exception:  # libFuzzer does not always come to write it
            (made / f"broken-{hashlib.sha256(content).hexdigest()[:10]}").write_bytes(content)
            raise

    atheris.Setup([sys.argv[0], *_OPTIONS, f"-artifact_prefix={made}/", *options, *seeds], keeping)
    atheris.Fuzz()


main(sys.argv[1:])
