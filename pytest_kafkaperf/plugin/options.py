"""Names and help texts for options, ini keys and markers.

PYTEST_DONT_REWRITE: pytest would otherwise look for assertions here in every run without cached bytecode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    Kind: TypeAlias = Literal["string", "int", "bool", "linelist"]
    Place: TypeAlias = Literal["both", "command line", "ini"]

INI_VALUES = {
    "string": "quoted string",
    "int": "integer",
    "bool": "`true` or `false`",
    "linelist": "list of strings",
}
"""Syntax of an ini value in TOML, by kind."""


class Option:
    """An option (`--kafka-NAME`), its ini key (`kafka_NAME`), or both. A plain class, because every run creates it."""

    def __init__(self, metavar: str, text: str, default: str, kind: Kind = "string", place: Place = "both") -> None:
        self.metavar = metavar
        """Syntax of the value; empty for a switch."""
        self.text = text
        self.default = default
        """Default value, or a description of it."""
        self.kind = kind
        """Type of the ini key. A `linelist` option is repeatable on the command line."""
        self.place = place


REPORTS = {
    "html": "kafka-report.html",
    "json": "kafka-report.json",
    "markdown": "kafka-report.md",
    "gitlab": "kafka-metrics.txt",
    "history": "kafka-history.jsonl",
}
"""Default path for each kind of report. The writers are in `reports/writing.py`."""
TARGET = "auto[:VERSION]|local[:VERSION]|docker[:VERSION or IMAGE]|HOST:PORT[,...]"
"""Syntax of a cluster value."""
OPTIONS = {
    "cluster": Option(
        TARGET,
        "where to run: on brokers that the plugin starts (auto: local if jgo is installed, otherwise docker) or on an "
        "external cluster",
        "auto",
    ),
    "brokers": Option(
        "N", "number of brokers to start; an external cluster must have at least this many", "the marker's, or 1", "int"
    ),
    "client-config": Option(
        "FILE", "client.properties file for an external cluster, in the format of Kafka's own tools", "none"
    ),
    "workers": Option(
        "N|dask://SCHEDULER[:PORT]",
        "number of worker processes of each kind, or a Dask cluster to run them on (extra dask)",
        "as many as needed",
    ),
    "insecure-workers": Option(
        "",
        "send passwords, access tokens and private keys to Dask workers even if the Dask cluster does not use TLS",
        "off",
        "bool",
        "command line",
    ),
    "rounds": Option("N", "number of rounds in each test", "the marker's, or 5", "int"),
    "duration": Option(
        "TIME", "duration of each round, for example '10 s'; overrides 'records' as well", "the marker's, or 2 s"
    ),
    "warmup": Option("TIME", "duration of the load before each round, for example '2 s'", "the marker's, or 500 ms"),
    "baselines": Option("DIR", "folder of the baseline files", "kafka-baselines"),
    "environment": Option(
        "NAME", "name of the environment whose baselines are used", "derived from the machine and the cluster"
    ),
    "update-baselines": Option(
        "replace|new|add",
        "write baselines: replace them (the default without a value), create missing ones (new), or add this run's "
        "trials to them (add)",
        "baselines are not written",
        place="command line",
    ),
    "calibrate": Option(
        "N", "run N trials to measure how noisy each test is", "tests are judged", place="command line"
    ),
    "prune-baselines": Option(
        "",
        "after a run of all tests, delete the baselines of tests that no longer exist",
        "off",
        "bool",
        "command line",
    ),
    "compare": Option(
        f"{TARGET}|git:REF[,tests=ref|head]|path:DIR[,python=PATH]",
        "compare side by side with this cluster, or with this revision of the code (git:merge-base: where the branch "
        "started), instead of with stored baselines; short trials run on both sides until the result is clear",
        "none",
    ),
    "compare-setup": Option(
        "COMMAND",
        "shell command that installs the revision of --kafka-compare=git:REF into a separate virtual environment, "
        "for example 'pip install -e .'",
        "the revision uses this virtual environment",
        place="command line",
    ),
    "compare-config": Option(
        "NAME=VALUE",
        "broker property for the live baseline, for example num.io.threads=1; repeatable",
        "none",
        "linelist",
    ),
    "time-budget": Option(
        "TIME", "maximum duration of the run, for example 10m; rounds are skipped to stay within it", "none"
    ),
    "report": Option(
        "KIND[:PATH]",
        f"write a report: {', '.join(REPORTS)}; repeatable, for example --kafka-report=html:out/kafka.html",
        "none",
        "linelist",
    ),
    "strict": Option("", "fail tests that are INCONCLUSIVE, for example because they have no baseline", "off", "bool"),
    "accept": Option(
        "regressed",
        "do not fail tests that are REGRESSED; VIOLATED and INVALID tests still fail, and baselines do not change; "
        "valid only on the command line itself, not in addopts",
        "no regression is accepted",
        place="command line",
    ),
    "no-confirm": Option(
        "", "judge each test after one trial, and do not re-test suspected regressions", "off", "bool", "command line"
    ),
    "allow-unlimited": Option("", "allow load at any rate, or without a rate, on external clusters", "off", "bool"),
    "max-rate": Option(
        "RATE[,RATE]",
        "maximum rate on external clusters, in records and in bytes, for example '200k records/s, 100 MB/s'",
        "50k records/s, 50 MB/s",
        place="ini",
    ),
    "writable-topics": Option(
        "TOPIC", "existing topics on external clusters that tests may write to", "none", "linelist", "ini"
    ),
    "quick-compiler": Option(
        "",
        "use only the JVM's quick compiler in brokers: they are warm within seconds and less noisy, but slower",
        "off; decided per test in comparisons of code",
        "bool",
    ),
    "broker-warmup": Option(
        "TIME",
        "maximum time to warm up newly started brokers, for each side; with '0 s', cold brokers are measured",
        "60 s",
        place="ini",
    ),
    "jmx": Option("", "collect JMX metrics from brokers that the plugin starts", "off", "bool", "ini"),
    "metrics-url": Option(
        "URL", "URLs of the JMX exporters of an external cluster's brokers", "none", "linelist", "ini"
    ),
    "connect-timeout": Option(
        "TIME", "maximum time to wait until an external cluster is ready, for example 1m", "15 s", place="ini"
    ),
    "compare-client-config": Option(
        "FILE", "client.properties file for an external live baseline", "kafka_client_config", place="ini"
    ),
    "trial-gap": Option(
        "TIME",
        "pause before each new trial, at most 1 h, on clusters that the plugin does not restart",
        "0 s",
        place="ini",
    ),
    "topic-prefix": Option(
        "PREFIX",
        "prefix of the topics, consumer groups and transactional ids that a run creates",
        "kafkaperf-",
        place="ini",
    ),
    "log-dirs": Option(
        "DIR",
        "folders for the logs of local brokers; tests use the first one by default",
        "the user's cache folder",
        "linelist",
        "ini",
    ),
    "thresholds": Option(
        "EXPRESSION", "thresholds that apply to every test that measures their metric", "none", "linelist", "ini"
    ),
}
MARKERS = (
    "kafka_scenario(**fields): set the workload of a perf test, for example rate='5k records/s', producers=2",
    "kafka_threshold(*expressions): set thresholds for a perf test, for example 'produce.latency.p99 <= 25 ms'",
    "kafka_cluster(**fields): set the cluster that the test requires, for example version='4.1.0'",
    "kafka_perf: set by the plugin on tests that use the kafka_perf fixture; deselect them with -m 'not kafka_perf'",
)
UPDATE_OPTION = "--kafka-update-baselines"
UPDATE_MODES = {
    "replace": "it replaces the baselines of all tests and does not judge thresholds relative to the baseline",
    "new": "it creates baselines for tests that have none",
    "add": "it adds its trials to the baselines",
}
"""Valid values of `--kafka-update-baselines`, each with its effect."""
ACCEPT_OPTION = "--kafka-accept"


def declare(parser: pytest.Parser) -> None:
    """Declare the options and the ini keys."""
    group = parser.getgroup("kafkaperf", "Kafka performance regression tests")
    for name, option in OPTIONS.items():
        text = f"{option.text} (default: {option.default})"
        if option.place != "ini":
            group.addoption(f"--kafka-{name}", default=None, help=text, **_action(name, option))
        if option.place != "command line":
            parser.addini(key_of(name), text, type=option.kind, default=None)


def _action(name: str, option: Option) -> dict[str, Any]:
    """Return the arguments with which argparse reads the option's value."""
    if option.kind == "bool":
        return {"action": "store_true"}
    optional = {"nargs": "?", "const": "replace"} if f"--kafka-{name}" == UPDATE_OPTION else {}
    return {"metavar": option.metavar, "action": "append" if option.kind == "linelist" else "store", **optional}


def from_command_line(config: pytest.Config) -> dict[str, Any]:
    """Return the options from the command line, by name without `--kafka-`."""
    values = {name: config.getoption(key_of(name)) for name, each in OPTIONS.items() if each.place != "ini"}
    return {name: value for name, value in values.items() if value is not None}


def from_ini(config: pytest.Config) -> dict[str, Any]:
    """Return the values of all ini keys, by the same names.

    Raises:
        pytest.UsageError: a value has the wrong type; the message contains the key and the expected type.

    """
    return {name: ini_value(config, name) for name, each in OPTIONS.items() if each.place != "command line"}


def ini_value(config: pytest.Config, name: str) -> Any:
    """Return the value of one ini key, by the same name; raises the same error as `from_ini`."""
    key = key_of(name)
    try:
        return config.getini(key)
    except (TypeError, ValueError, pytest.UsageError) as error:  # depends on pytest's version
        expected = INI_VALUES[OPTIONS[name].kind].replace("`", "")
        raise pytest.UsageError(f"{key} in the ini file: {error}; expected: {expected}") from None


def key_of(name: str) -> str:
    """Return the ini key of an option."""
    return f"kafka_{name.replace('-', '_')}"
