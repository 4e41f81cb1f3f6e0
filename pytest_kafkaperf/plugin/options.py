"""Names and help texts of options, ini keys and markers, for pytest and for the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import pytest


class Option(NamedTuple):
    """An option `--kafka-NAME`, its ini key `kafka_NAME`, or both."""

    metavar: str
    """Form of the value; empty for a switch."""
    text: str
    default: str
    kind: Literal["string", "int", "bool", "linelist"] = "string"
    """Type of the ini key. An option of the kind `linelist` is repeatable."""
    place: Literal["both", "command line", "ini"] = "both"


REPORTS = {
    "html": "kafka-report.html",
    "json": "kafka-report.json",
    "markdown": "kafka-report.md",
    "gitlab": "kafka-metrics.txt",
    "history": "kafka-history.jsonl",
    "perftest": None,
}
"""Default path of each kind of report; None: the terminal. `reports/writing.py` has the writers."""
TARGET = "auto[:VERSION]|local[:VERSION]|docker[:VERSION or IMAGE]|HOST:PORT[,...]"
"""Form of a cluster."""
OPTIONS = {
    "cluster": Option(
        TARGET,
        "brokers that the session starts (auto: docker if a daemon answers, otherwise local) or an external cluster",
        "auto",
    ),
    "brokers": Option("N", "number of brokers that the session starts, or that an external cluster must have", "1"),
    "client-config": Option(
        "FILE", "client.properties of an external cluster, in the format of Kafka's own tools", "none"
    ),
    "workers": Option(
        "N|dask://SCHEDULER[:PORT]",
        "N worker processes of each kind, or a Dask cluster (pytest-kafkaperf[dask])",
        "as many as needed",
    ),
    "rounds": Option("N", "rounds of every scenario", "the marker's, or 5"),
    "duration": Option(
        "TIME", "duration of every round, for example '10 s'; also replaces 'records'", "the marker's, or 2 s"
    ),
    "warmup": Option("TIME", "duration of the load before each round, for example '2 s'", "the marker's, or 500 ms"),
    "preheat": Option(
        "TIME", "broker warm-up: maximum load on new brokers before the first round of a scenario", "5 s"
    ),
    "baselines": Option("DIR", "folder of the baseline files", "kafka-baselines"),
    "environment": Option("NAME", "environment whose baselines are used", "derived from machine and cluster"),
    "update-baselines": Option(
        "all|new|improved|append",
        "write baselines: all (without a value), new (without a baseline), improved (on two dates), append (add to "
        "the others)",
        "baselines are not written",
    ),
    "calibrate": Option(
        "N", "measure the noise of tests with a threshold on the baseline, in N fresh sessions each", "tests are judged"
    ),
    "prune-baselines": Option("", "delete the baselines of deleted tests after a run of all tests", "off", "bool"),
    "reference": Option(
        TARGET,
        "compare with this cluster instead of stored baselines, in short sessions on both until the evidence decides",
        "none",
    ),
    "reference-config": Option(
        "NAME=VALUE", "broker property of the reference, such as num.io.threads=1; repeatable", "none", "linelist"
    ),
    "reference-client-config": Option("FILE", "client.properties of an external reference cluster", "none"),
    "time-budget": Option(
        "TIME", "maximum duration of the run, for example 10m; the plugin skips rounds to stay within it", "none"
    ),
    "report": Option(
        "KIND[:PATH]",
        f"write a report: {', '.join(REPORTS)}; repeatable, for example --kafka-report=html:out/kafka.html",
        "none",
        "linelist",
    ),
    "strict": Option("", "fail tests that are INCONCLUSIVE, for example without a baseline", "off", "bool"),
    "no-confirm": Option(
        "",
        "judge tests after one session; do not run suspects again in fresh sessions (not with a reference)",
        "off",
        "bool",
    ),
    "allow-unlimited": Option(
        "",
        "allow tests without a rate, and capacity searches, on clusters that the session did not start",
        "off",
        "bool",
    ),
    "low-noise": Option(
        "", "start brokers for comparisons: logs in memory, and the JVM's quick compiler only", "off", "bool"
    ),
    "jmx": Option(
        "",
        "collect JMX metrics, such as broker.handlers.idle, from brokers that the session starts",
        "off",
        "bool",
    ),
    "metrics-url": Option("URL[,URL...]", "URLs of the JMX exporters of an external cluster's brokers", "none"),
    "connect-timeout": Option("TIME", "maximum wait until an external cluster is ready, for example 1m", "15 s"),
    "session-gap": Option(
        "TIME", "pause before each fresh session, at most 1 h, for clusters that do not restart", "0 s"
    ),
    "topic-prefix": Option("PREFIX", "prefix of the topics, groups and transactional ids of the run", "kafkaperf-"),
    "log-dirs": Option(
        "DIR[,DIR...]", "folders for the logs of local brokers; tests that name no folder use the first", "a new folder"
    ),
    "thresholds": Option(
        "EXPRESSION", "thresholds for every test that measures their metrics", "none", "linelist", "ini"
    ),
}
MARKERS = (
    "kafka_scenario(**fields): the workload of a perf test, for example rate='5k records/s', producers=2",
    "kafka_threshold(*expressions): thresholds, for example 'produce.latency.p99 <= 25 ms'",
    "kafka_cluster(**fields): the cluster that the test needs, for example version='4.1.0'",
)
UPDATE_OPTION = "--kafka-update-baselines"


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
    """Return how argparse reads the option's value."""
    if option.kind == "bool":
        return {"action": "store_true"}
    optional = {"nargs": "?", "const": "all"} if f"--kafka-{name}" == UPDATE_OPTION else {}
    return {"metavar": option.metavar, "action": "append" if option.kind == "linelist" else "store", **optional}


def from_command_line(config: pytest.Config) -> dict[str, Any]:
    """Return the options on the command line, by name without `--kafka-`."""
    values = {name: config.getoption(key_of(name)) for name, each in OPTIONS.items() if each.place != "ini"}
    return {name: value for name, value in values.items() if value is not None}


def from_ini(config: pytest.Config) -> dict[str, Any]:
    """Return the values of all ini keys, by the same names."""
    return {name: config.getini(key_of(name)) for name, each in OPTIONS.items() if each.place != "command line"}


def key_of(name: str) -> str:
    """Return the ini key of an option."""
    return f"kafka_{name.replace('-', '_')}"
