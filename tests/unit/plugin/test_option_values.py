"""Parsing of option values, and options that exclude each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.target import Auto, External
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.plugin.options import OPTIONS
from pytest_kafkaperf.runner.settings import Settings
from pytest_kafkaperf.scenarios.threshold import parse_threshold

HERE = Path("/project")


def settings(**given: str | bool | list[str]) -> Settings:
    named = {name.replace("_", "-"): value for name, value in given.items()}
    ini = {name: value for name, value in named.items() if OPTIONS[name].place == "ini"}
    line = {name: value for name, value in named.items() if name not in ini}
    return read_settings(line, ini, invocation_folder=HERE, root=HERE)


def refused(**given: str | bool | list[str]) -> str:
    with pytest.raises(UsageError) as raised:
        settings(**given)
    return str(raised.value)


def test_the_description_of_options_contains_no_secret() -> None:
    """`-v` prints it in every log, and a property of a broker plug-in may be a password."""
    given = settings(
        metrics_url="http://me:hunter2@k1:9404/metrics,http://k2:9404/metrics",
        compare="local",
        compare_config=["num.io.threads=1", "plugin.sasl.password=hunter2", "plugin.key=hunter2"],
    )
    shown = given.describe_sources()
    assert "hunter2" not in shown
    assert "metrics-url=http://k1:9404/metrics,http://k2:9404/metrics (ini)" in shown
    assert "compare-config=num.io.threads=1, plugin.sasl.password=***, plugin.key=*** (command line)" in shown


def test_an_empty_value_of_the_command_line_is_an_error() -> None:
    """In a script, the variable of `--kafka-cluster=$SERVERS` may be empty; other brokers must not take the load."""
    assert refused(cluster="").startswith(
        "--kafka-cluster=: '' is not HOST:PORT with a port from 1 to 65535; valid values: auto[:VERSION]"
    )
    assert refused(compare="").startswith(
        "--kafka-compare=: '' is not HOST:PORT with a port from 1 to 65535; valid values: auto[:VERSION]"
    )
    assert refused(baselines="") == ("--kafka-baselines=: the path is empty; give a file or folder, or omit the option")
    assert refused(report=[""]).startswith("--kafka-report=: expected one of 'gitlab', 'history', 'html', ")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("main", "did you mean 'git:main' or 'main:9092'?"),
        ("origin/main", "did you mean 'git:origin/main'?"),
        ("HEAD~1", "did you mean 'git:HEAD~1'?"),
        ("merge-base", "did you mean 'git:merge-base' or 'merge-base:9092'?"),
        ("old", "did you mean 'path:old' or 'old:9092'?"),
        ("broker1:0", "'broker1:0' is not HOST:PORT with a port from 1 to 65535;"),
    ],
)
def test_a_revision_without_its_kind_gets_it_and_all_that_is_valid(tmp_path: Path, given: str, hint: str) -> None:
    """A branch is the first thing that people compare with."""
    (tmp_path / "old").mkdir()
    with pytest.raises(UsageError) as raised:
        read_settings({"compare": given}, {}, invocation_folder=tmp_path, root=tmp_path)
    assert str(raised.value) == (
        f"--kafka-compare={given}: {hint} valid values: auto[:VERSION], local[:VERSION], docker[:VERSION or :IMAGE] "
        "and HOST:PORT[,HOST:PORT...], such as local:4.0.0, docker:apache/kafka:4.0.0, broker1:9092,broker2:9092 or "
        "[::1]:9092; or a revision: git:REF[,tests=ref|head] or path:DIR[,python=PATH], such as git:origin/main"
    )


def test_each_property_of_the_live_baseline_has_its_own_option() -> None:
    """Values may contain commas and equals signs."""
    given = settings(compare="local", compare_config=["num.io.threads=1", "sasl.x = a=b,c"])
    assert given.compare_config == {"num.io.threads": "1", "sasl.x": "a=b,c"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"compare-config": ["a=1"]}, "add --kafka-compare"),
        ({"compare": "local", "compare-config": ["threads"]}, "must be NAME=VALUE, for example num.io.threads=1"),
        ({"compare": "local", "compare-config": ["a=1", "a=2"]}, "a has two different values; set it once"),
        ({"compare": "a:9092", "compare-config": ["a=1"]}, "configure those servers yourself"),
        ({"compare": "local", "update-baselines": "replace"}, "omit one of them"),
        ({"compare": "local", "calibrate": "3"}, "omit one of them"),
        ({"compare": "local", "no-confirm": True}, "omit one of them"),
        ({"calibrate": "1"}, "--kafka-calibrate=1: must be an integer ≥ 2"),
        ({"calibrate": "many"}, "must be an integer ≥ 2"),
        ({"calibrate": "5", "time-budget": "10m"}, "omit one of them"),
        ({"time-budget": "ten"}, "--kafka-time-budget=ten: cannot read 'ten' as a time; use one of ns, us,"),
        ({"time-budget": "10"}, "--kafka-time-budget=10: a time needs a unit: '10 ms' or '10 s'"),
        ({"broker-warmup": "5"}, "kafka_broker_warmup = 5: a time needs a unit: '5 ms' or '5 s'"),
        ({"connect-timeout": "5"}, "kafka_connect_timeout = 5: a time needs a unit: '5 ms' or '5 s'"),
        ({"connect-timeout": "500 ms"}, "kafka_connect_timeout = 500 ms: must be at least 1 s, for example 10m"),
        ({"time-budget": "0 s"}, "must be at least 1 s"),
        ({"time-budget": "-5m"}, "--kafka-time-budget=-5m: "),
        ({"trial-gap": "ten"}, "kafka_trial_gap = ten: cannot read 'ten' as a time"),
        ({"trial-gap": "2 h"}, "kafka_trial_gap = 2 h: must be at most 1 h, for example 10m"),
    ],
)
def test_the_error_for_invalid_options_says_what_to_do(given: dict[str, str], words: str) -> None:
    """Only the user can decide which of two contradicting options is meant."""
    assert words in refused(**{name.replace("-", "_"): value for name, value in given.items()})


def test_an_option_sets_aside_what_it_excludes_in_the_ini_file() -> None:
    """The command that accepts a regression must run where the ini file has a time budget."""
    line, ini = {"calibrate": "3", "update-baselines": "replace"}, {"time-budget": "10m", "workers": "2"}
    given = read_settings(line, ini, invocation_folder=HERE, root=HERE)
    assert (given.calibrate, given.time_budget_s, given.ini) == (3, None, {"workers": "2"})


@pytest.mark.parametrize(("text", "seconds"), [("10m", 600.0), ("90 s", 90.0), ("1h", 3600.0), ("2 min", 120.0)])
def test_a_time_budget_is_written_as_in_ci_systems(text: str, seconds: float) -> None:
    """`10m` means minutes there."""
    assert settings(time_budget=text).time_budget_s == seconds


def test_an_external_cluster_gets_the_time_to_connect_that_is_given() -> None:
    """15 s are enough nearly everywhere, and not through a slow VPN."""
    assert (settings().connect_timeout_s, settings(connect_timeout="1m").connect_timeout_s) == (15, 60)


def test_log_folders_are_relative_to_the_root_folder() -> None:
    """All paths of the ini file are."""
    read = read_settings({}, {"log-dirs": ["/mnt/a, b", "c"]}, invocation_folder=HERE, root=HERE / "d")
    assert read.log_dirs == (Path("/mnt/a"), HERE / "d" / "b", HERE / "d" / "c")
    assert settings().log_dirs == ()
    assert refused(log_dirs="/mnt/a,") == (
        "kafka_log_dirs = /mnt/a,: a folder name is empty; write one path per line, or separate paths with commas"
    )


def test_reports_are_named_by_kind_and_path() -> None:
    """As with pytest-cov, one option writes all kinds; the last path of a kind counts."""
    ini = {"report": ["json", "html:site/index.html"]}
    line = {"report": ["html:a.html", "html:b:c.html", "history:/var/past.jsonl"]}
    assert read_settings(line, ini, invocation_folder=HERE / "here", root=HERE).reports == {
        "json": HERE / "kafka-report.json",
        "html": HERE / "here" / "b:c.html",
        "history": Path("/var/past.jsonl"),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("htm", "did you mean 'html'?"),
        ("pdf:a.pdf", "expected one of 'gitlab', 'history', 'html', 'json', 'markdown'"),
        ("perftest", "expected one of 'gitlab', 'history', 'html', 'json', 'markdown'"),
        ("html:", "the path after the colon is empty"),
    ],
)
def test_the_error_for_an_invalid_report_names_the_kinds(text: str, problem: str) -> None:
    """A path alone, without a kind, is the usual mistake."""
    assert refused(report=[text]) == (
        f"--kafka-report={text}: {problem}; must be KIND[:PATH], for example html or html:reports/kafka.html"
    )


def test_two_reports_in_one_file_are_refused() -> None:
    """The last one would replace the others, and with them a history of months."""
    assert refused(report=["history:perf.json", "json:x/../perf.json"]) == (
        "--kafka-report: history and json would be the same file, /project/x/../perf.json; give each its own path"
    )


def test_an_external_live_baseline_keeps_the_login_of_the_ini_file() -> None:
    """The command line replaces the cluster that the file names, not the live baseline's way in."""
    ini = {"cluster": "prod:9093", "client-config": "client.properties"}
    line = {"cluster": "local", "compare": "prod:9093"}
    found = read_settings(line, ini, invocation_folder=HERE / "here", root=HERE)
    assert (found.client_config, found.compare_client_config) == (None, HERE / "client.properties")
    own = read_settings(line, {**ini, "compare-client-config": "own"}, invocation_folder=HERE / "here", root=HERE)
    assert own.compare_client_config == HERE / "own"
    assert read_settings({"cluster": "local"}, ini, invocation_folder=HERE, root=HERE).compare_client_config is None


def test_values_are_parsed_once() -> None:
    """Later code gets values instead of texts that it would have to parse again."""
    parsed = read_settings(
        {"cluster": "a:9092, b:9093", "workers": "2"},
        {"thresholds": ["errors == 0"]},
        invocation_folder=HERE,
        root=HERE,
    )
    assert parsed.cluster == External(("a:9092", "b:9093"))
    assert parsed.workers == WorkerAllocation(producing=2, consuming=2, reason="--kafka-workers=2")
    assert parsed.thresholds == (parse_threshold("errors == 0"),)
    assert settings().cluster == Auto()


def test_an_invalid_threshold_of_the_ini_file_is_an_error() -> None:
    """One error for the run, instead of one for each test."""
    with pytest.raises(UsageError, match="did you mean 'errors'"):
        read_settings({}, {"thresholds": ["erors == 0"]}, invocation_folder=HERE, root=HERE)


@pytest.mark.parametrize("prefix", ["__perf-", "a b", "team/perf-", "é", "x" * 181])
def test_a_prefix_that_no_topic_can_have_is_refused(prefix: str) -> None:
    """The cluster would refuse the topic later, without the name of the option."""
    with pytest.raises(UsageError) as raised:
        read_settings({}, {"topic-prefix": prefix}, invocation_folder=HERE, root=HERE)
    assert str(raised.value) == (
        f"kafka_topic_prefix = {prefix}: must be 1 to 180 of the characters that topic names may have (a-z, A-Z, 0-9, "
        "'.', '_' and '-'), and must not start with '__', for example team-a.perf-"
    )


def test_the_command_line_sets_aside_what_belongs_to_other_values_of_the_ini_file() -> None:
    """Nobody would know how to leave out an option that stands in a file."""

    def read(line: dict[str, str], **ini: str | list[str]) -> Settings:
        return read_settings(
            line, {name.replace("_", "-"): one for name, one in ini.items()}, invocation_folder=HERE, root=HERE
        )

    side_by_side: dict[str, str | list[str]] = {"compare": "local:4.0.0", "compare_config": ["num.io.threads=1"]}
    assert read({}, **side_by_side).compare_config == {"num.io.threads": "1"}
    assert read({"update-baselines": "replace"}, **side_by_side).compare_config == {}
    assert read({"compare": "k2:9092"}, **side_by_side).compare_config == {}
    assert read({"compare": "git:main"}, **side_by_side).compare_config == {}
    assert read({"compare": "local:3.9.1"}, **side_by_side).compare_config == {"num.io.threads": "1"}  # it fits
    theirs = {"cluster": "k1:9092", "client_config": "client.properties", "metrics_url": "http://k1:9404/metrics"}
    mine = read({"cluster": "local"}, **theirs)
    assert (mine.client_config, mine.metrics_urls) == (None, ())
    assert read({"cluster": "k2:9092"}, **theirs).client_config == HERE / "client.properties"
    for elsewhere in ("k2:9092", "docker"):
        assert read({"cluster": elsewhere}, cluster="local", log_dirs="/disk").log_dirs == ()
