"""Checks for misspelled or misplaced options, ini keys and imports, which pytest and Python would misread."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.core.errors import nearest, suggestion
from pytest_kafkaperf.plugin.options import ACCEPT_OPTION, OPTIONS, UPDATE_MODES, UPDATE_OPTION, key_of

if TYPE_CHECKING:
    from pathlib import Path

_DECORATORS = ("kafka_cluster", "kafka_scenario", "kafka_threshold")
_FIXTURES = ("kafka_app", "kafka_app_factory", "kafka_cluster_factory", "kafka_perf")


def check_arguments(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Reject misplaced options, and allow a path after the update option, which argparse would read as its value.

    Raises:
        pytest.UsageError: there is a misplaced option; the message suggests what to write.

    """
    _refuse_misplaced(args, early_config.invocation_params.dir)
    for position, argument in enumerate(args):
        if argument == UPDATE_OPTION:
            args[position] = f"{UPDATE_OPTION}=replace"
            # pytest parsed them earlier, and next loads the conftest.py of each such path.
            early_config.known_args_namespace.file_or_dir = parser.parse_known_args(args).file_or_dir


def _refuse_misplaced(args: list[str], folder: Path) -> None:
    """Reject ini keys given as options, and a mode without `=`, which pytest would mistake for a path.

    Raises:
        pytest.UsageError: there is such an option; the message suggests what to write.

    """
    for argument, following in itertools.pairwise([*args, ""]):
        option, _, value = str(argument).partition("=")
        name = option.removeprefix("--kafka-")
        if name != option and name in OPTIONS and OPTIONS[name].place == "ini":
            example = value or ("true" if OPTIONS[name].kind == "bool" else "...")
            raise pytest.UsageError(
                f"{option} is not an option: set {key_of(name)} in the ini file, or pass "
                f"-o '{key_of(name)}={example}' for a single run"
            )
        if argument == UPDATE_OPTION and following in UPDATE_MODES and not (folder / following).exists():
            raise pytest.UsageError(f"{option} {following}: the mode needs an equals sign: {option}={following}")


def refuse_misspelt_keys(config: pytest.Config) -> None:
    """Reject unknown `kafka_` keys in the ini file; pytest would only warn and would ignore their thresholds.

    Raises:
        pytest.UsageError: there is an unknown key; the message suggests the most similar key.

    """
    names = {key_of(name): name for name in OPTIONS}
    for key in config._get_unknown_ini_keys():  # noqa: SLF001 - no public way
        if key in names:
            raise pytest.UsageError(
                f"{key} is not an ini key: use --kafka-{names[key]} on the command line of a single run"
            )
        if key.startswith("kafka_"):
            known = [key_of(name) for name, option in OPTIONS.items() if option.place != "command line"]
            raise pytest.UsageError(f"{key} in the ini file: {nearest(key, known)}")


def refuse_lasting_acceptance(config: pytest.Config) -> None:
    """Reject options that accept results without judging them if they would apply to every later run.

    Raises:
        pytest.UsageError: `addopts` or `PYTEST_ADDOPTS` has such an option.

    """
    given = [str(argument).partition("=")[0] for argument in config.invocation_params.args]
    for option in (ACCEPT_OPTION, UPDATE_OPTION, "--kafka-calibrate"):
        if config.getoption(key_of(option.removeprefix("--kafka-"))) is not None and option not in given:
            raise pytest.UsageError(
                f"{option} in addopts or PYTEST_ADDOPTS would accept every later slowdown as well; pass it on the "
                "command line of the run that may be slower"
            )


def hint_for_import(name: str) -> str:
    """Return a suggestion for an import of a name that does not exist."""
    if name in _FIXTURES:
        return "it is a fixture; add it to the arguments of the test function, without an import"
    return suggestion(name.lower(), _DECORATORS, similarity=0.8) or f"the decorators are {', '.join(_DECORATORS)}"
