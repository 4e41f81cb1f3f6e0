"""Options that pytest would take for unknown ones or for paths."""

from __future__ import annotations

import pytest

from tests.support.project import RunPytest

TEST = "def test_one(kafka_perf): ...\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--kafka-max-rate=5k"],
            "--kafka-max-rate is not an option: set kafka_max_rate in the ini file, or pass -o 'kafka_max_rate=5k' "
            "for a single run",
        ),
        (
            ["--kafka-thresholds=errors == 0"],
            "--kafka-thresholds is not an option: set kafka_thresholds in the ini file, or pass "
            "-o 'kafka_thresholds=errors == 0' for a single run",
        ),
        (
            ["--kafka-jmx"],
            "--kafka-jmx is not an option: set kafka_jmx in the ini file, or pass -o 'kafka_jmx=true' for a single run",
        ),
        (
            ["--kafka-broker-warmup", "5 s"],
            "--kafka-broker-warmup is not an option: set kafka_broker_warmup in the ini file, or pass "
            "-o 'kafka_broker_warmup=...' for a single run",
        ),
        (
            ["--kafka-update-baselines", "new"],
            "--kafka-update-baselines new: the mode needs an equals sign: --kafka-update-baselines=new",
        ),
        (
            ["--kafka-update-baselines", "add", "test_perf.py"],
            "--kafka-update-baselines add: the mode needs an equals sign: --kafka-update-baselines=add",
        ),
    ],
)
def test_a_misplaced_option_is_answered_with_its_place(run_pytest: RunPytest, arguments: list[str], told: str) -> None:
    """Pytest would say `unrecognized arguments` or `file or directory not found`."""
    status, out = run_pytest(TEST, *arguments)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {told}" in out.splitlines()


def test_what_is_suggested_works(run_pytest: RunPytest) -> None:
    """It is the only way to give an ini key for a single run."""
    status, out = run_pytest(TEST, "--collect-only", "-o", "kafka_max_rate=5k", "-o", "kafka_jmx=true")
    assert status == pytest.ExitCode.OK, out


def test_a_folder_with_the_name_of_a_mode_is_a_path(run_pytest: RunPytest, pytester: pytest.Pytester) -> None:
    """It was there before the option."""
    pytester.mkdir("new")
    status, out = run_pytest(TEST, "--collect-only", "--kafka-update-baselines", "new")
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED, out
