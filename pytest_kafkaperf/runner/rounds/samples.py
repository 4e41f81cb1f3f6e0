"""A scenario's sample file: located at collection, read before the load. Its content is part of the workload."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BufferedReader
from pathlib import Path

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.scenarios.payloads import Samples
from pytest_kafkaperf.scenarios.scenario import Scenario


def with_path(scenario: Scenario, folder: Path, where: str) -> Scenario:
    """Return the scenario with the path to its sample file; error messages start with `where`.

    Raises:
        ScenarioError: the file cannot be read or is empty.

    """
    samples = scenario.payload
    if not isinstance(samples, Samples):
        return scenario
    path = folder / samples.file
    with _opened(samples, path, where) as file:
        empty = not file.read(1)
    if empty:
        raise ScenarioError(f"{where}payload: the sample file {str(path)!r} is empty; write at least one sample to it")
    return scenario.model_copy(update={"payload": replace(samples, path=str(path))})


def with_content(scenario: Scenario) -> Scenario:
    """Return the scenario with the current size and hash of its sample file.

    They can differ from the values at collection, because a fixture may have written the file in the meantime.

    Raises:
        ScenarioError: the file cannot be read.

    """
    samples = scenario.payload
    if not isinstance(samples, Samples) or samples.path is None:
        return scenario
    with _opened(samples, Path(samples.path), "kafka_scenario: ") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size_bytes = file.tell()
    return scenario.model_copy(update={"payload": replace(samples, size_bytes=size_bytes, sha256=digest)})


@contextmanager
def _opened(samples: Samples, path: Path, where: str) -> Iterator[BufferedReader]:
    try:
        with path.open("rb") as file:
            yield file
    except (OSError, ValueError) as error:  # ValueError: a file cannot have this name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        start = "" if Path(samples.file).is_absolute() else "; paths are relative to the folder of the test's file"
        raise ScenarioError(f"{where}payload: cannot read the samples {str(path)!r}: {reason}{start}") from None
