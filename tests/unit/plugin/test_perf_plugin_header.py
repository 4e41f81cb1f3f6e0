"""The lines after the collection, and the help."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.plugin.options import OPTIONS, key_of
from tests.support.project import RunPytest

SKIPPED = "pytestmark = pytest.mark.skip\ndef test_one(kafka_perf): ...\n"


@pytest.mark.parametrize(
    ("mode", "does"),
    [
        ("replace", "it replaces the baselines of all tests and does not judge thresholds relative to the baseline"),
        ("new", "it creates baselines for tests that have none"),
        ("add", "it adds its trials to the baselines"),
    ],
)
def test_a_run_that_accepts_results_says_so_in_red(run_pytest: RunPytest, mode: str, does: str) -> None:
    """In the log of a CI job that everybody takes for a gate."""
    option = f"--kafka-update-baselines={mode}"
    for arguments, red, end in (((), "", ""), (("-q", "--color=yes"), "\x1b[31m", "\x1b[0m")):
        _, out = run_pytest(SKIPPED, option, *arguments)
        assert f"{red}kafkaperf: this run accepts its results: {does} ({option}){end}" in out.splitlines()


def test_a_run_that_accepts_nothing_does_not_say_so(run_pytest: RunPytest) -> None:
    """Neither does a smoke test, which writes no baseline."""
    for arguments in ((), ("--kafka-update-baselines", "--benchmark-disable")):
        _, out = run_pytest(SKIPPED, *arguments)
        assert "accepts its results" not in out


@pytest.mark.parametrize(
    ("limit", "arguments", "shown"),
    [
        ("produce.throughput >= baseline - 10%", (), True),
        ("produce.latency.p99 <= 1 s", (), False),
        ("produce.latency.p99 <= 1 s", ("--kafka-update-baselines",), True),
    ],
)
def test_the_folder_of_baselines_is_shown_only_if_the_run_uses_it(
    run_pytest: RunPytest, limit: str, arguments: tuple[str, ...], *, shown: bool
) -> None:
    """A new user with absolute limits has not heard of baselines yet."""
    limits = (
        f"import pytest\n@pytest.mark.kafka_threshold({limit!r})\n@pytest.mark.skip\ndef test_one(kafka_perf): ...\n"
    )
    _, out = run_pytest(limits, "--kafka-cluster=local", *arguments)
    assert "kafkaperf: cluster local, Kafka " in out
    assert (", baselines kafka-baselines, environment " in out) == shown


@pytest.mark.parametrize("key", ["kafka_update_baselines=all", "kafka_calibrate=3", "kafka_prune_baselines=true"])
def test_no_file_makes_a_run_accept_results(run_pytest: RunPytest, key: str) -> None:
    """A committed key would rewrite the baselines in each run."""
    status, out = run_pytest(SKIPPED, "-o", key)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert f"{key.partition('=')[0]} is not an ini key: use --kafka-" in out


def test_the_help_states_each_default(run_pytest: RunPytest) -> None:
    """Otherwise one has to look for it in the guide."""
    _, out = run_pytest("", "--help")
    words = " ".join(out.split())
    for name, option in OPTIONS.items():
        default = f"{option.text} (default: {option.default})"
        assert words.count(" ".join(default.split())) == (2 if option.place == "both" else 1), name
        assert (f" --kafka-{name}" in words, f" {key_of(name)} (" in words) == (
            option.place != "ini",
            option.place != "command line",
        ), name
