"""Options that say how a verdict comes about, and those that contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.target import Reference, parse_reference
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.settings import Settings

HERE = Path("/project")


def settings(**given: str | bool | list[str]) -> Settings:
    line = {name.replace("_", "-"): value for name, value in given.items()}
    return read_settings(line, {}, [], invocation_folder=HERE, root=HERE)


def refused(**given: str | bool | list[str]) -> str:
    with pytest.raises(UsageError) as raised:
        settings(**given)
    return str(raised.value)


def test_what_is_shown_of_options_has_no_secret_in_it() -> None:
    """`-v` prints them at the top of every log; a plug-in's property may be a password."""
    given = settings(
        metrics_url="http://me:hunter2@k1:9404/metrics,http://k2:9404/metrics",
        reference="local",
        reference_config=["num.io.threads=1", "plugin.sasl.password=hunter2", "plugin.key=hunter2"],
    )
    shown = given.describe_sources()
    assert "hunter2" not in shown
    assert "metrics-url=http://k1:9404/metrics,http://k2:9404/metrics (command line)" in shown
    assert "reference-config=num.io.threads=1, plugin.sasl.password=***, plugin.key=*** (command line)" in shown


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("local", Reference(target="local")),
        ("local:4.0.0", Reference(target="local", version="4.0.0")),
        ("docker", Reference(target="docker")),
        ("docker:apache/kafka:4.0.0", Reference(target="docker", image="apache/kafka:4.0.0")),
        ("a:9092, b:9093", Reference(target="a:9092,b:9093")),
    ],
)
def test_a_reference_is_what_to_start_or_where_it_is(text: str, reference: Reference) -> None:
    """The three kinds of a cluster."""
    assert parse_reference(text) == reference


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("local:4", "a Kafka version has three numbers, such as local:4.0.0"),
        (
            "docker:9092",
            "'9092' is not an image, such as docker:apache/kafka:4.0.0; a server that is called docker is named by its "
            "address",
        ),
        (
            "auto",
            "valid are local[:VERSION], docker[:IMAGE] and HOST:PORT[,HOST:PORT...], such as local:4.0.0, "
            "docker:apache/kafka:4.0.0 or broker1:9092",
        ),
        ("4.0.0", None),
        ("", None),
        ("a:9092,b:0", "port 0 of 'b:0' is not one of 1 to 65535"),
    ],
)
def test_a_reference_that_cannot_be_is_refused_with_what_is_valid(text: str, problem: str | None) -> None:
    """When pytest starts, before any load."""
    told = refused(reference=text)
    assert told.startswith(f"--kafka-reference={text}: ")
    assert problem is None or told == f"--kafka-reference={text}: {problem}"


def test_properties_of_the_reference_are_given_one_by_one() -> None:
    """Values may hold commas and equals signs."""
    given = settings(reference="local", reference_config=["num.io.threads=1", "sasl.x = a=b,c"])
    assert given.reference_config == {"num.io.threads": "1", "sasl.x": "a=b,c"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reference-config": ["a=1"]}, "add --kafka-reference"),
        ({"reference-seed": "1"}, "add --kafka-reference"),
        ({"reference": "local", "reference-config": ["threads"]}, "NAME=VALUE is needed"),
        ({"reference": "a:9092", "reference-config": ["a=1"]}, "configure those servers themselves"),
        ({"reference": "local", "reference-client-config": "f"}, "it is for a running cluster"),
        ({"reference": "local", "reference-seed": "-1"}, "a whole number of at least 0 is needed"),
        ({"reference": "local", "update-baselines": "all"}, "leave one of them out"),
        ({"reference": "local", "calibrate": "3"}, "leave one of them out"),
        ({"calibrate": "1"}, "a whole number of at least 2 is needed"),
        ({"calibrate": "many"}, "a whole number of at least 2 is needed"),
        ({"calibrate": "5", "update-baselines": "improved"}, "use all, new or append"),
        ({"calibrate": "5", "time-budget": "10m"}, "leave one of them out"),
        ({"time-budget": "ten"}, "for example 10m"),
        ({"time-budget": "0 s"}, "a time of at least 1 s is needed"),
        ({"time-budget": "-5m"}, "--kafka-time-budget=-5m: "),
    ],
)
def test_options_that_cannot_be_are_refused_with_what_to_do(given: dict[str, str], words: str) -> None:
    """When pytest starts; a contradiction is no choice that we make for the user."""
    assert words in refused(**{name.replace("-", "_"): value for name, value in given.items()})


@pytest.mark.parametrize(("text", "seconds"), [("10m", 600.0), ("90 s", 90.0), ("1h", 3600.0), ("2 min", 120.0)])
def test_a_budget_is_a_time_as_ci_systems_write_it(text: str, seconds: float) -> None:
    """`10m` are minutes there."""
    assert settings(time_budget=text).time_budget_s == seconds


def test_folders_for_logs_start_where_pytest_was_called_or_at_the_ini_file() -> None:
    """As with all paths."""
    assert settings(log_dirs="/mnt/a, b").log_dirs == (Path("/mnt/a"), HERE / "b")
    assert read_settings({}, {"log-dirs": "c"}, [], invocation_folder=HERE, root=HERE / "d").log_dirs == (
        HERE / "d" / "c",
    )
    assert settings().log_dirs == ()
    assert refused(log_dirs="/mnt/a,") == (
        "--kafka-log-dirs=/mnt/a,: a folder has no name; give paths, separated by commas"
    )
