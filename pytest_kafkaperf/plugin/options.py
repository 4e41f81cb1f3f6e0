"""Names and help texts of options and markers, for pytest and for the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

REPORTS = {
    "json": ("PATH", "write the JSON report"),
    "html": ("PATH", "write an HTML report with charts; needs pytest-kafkaperf[html]"),
    "markdown": ("PATH", "write a summary in Markdown, for a CI job or a pull request comment"),
    "gitlab-metrics": ("PATH", "write all metrics as OpenMetrics text, for GitLab's metrics report"),
}
"""Options that each name a file to write; `reports/writing.py` has their writers."""
OPTIONS: dict[str, tuple[str, str]] = {
    "cluster": (
        "auto|local|docker|HOST:PORT[,...]",
        "brokers that the session starts (auto: docker if a daemon answers, otherwise local) or an external cluster",
    ),
    "client-config": ("FILE", "client.properties of an external cluster, in the format of Kafka's own tools"),
    "connect-timeout": ("TIME", "maximum wait until an external cluster is ready, for example 1m (default: 15 s)"),
    "metrics-url": ("URL[,URL...]", "URLs of the JMX exporters of an external cluster's brokers"),
    "topic-prefix": ("PREFIX", "prefix of the topics, groups and transactional ids of the run (default: kafkaperf-)"),
    "version": ("VERSION", "Kafka version of the brokers that the session starts, for example 4.1.0"),
    "image": ("IMAGE", "Docker image of the brokers that the session starts, for example confluentinc/cp-kafka:8.0.0"),
    "brokers": ("N", "number of brokers that the session starts, or that an external cluster must have"),
    "workers": (
        "N|dask://SCHEDULER[:PORT]",
        "N worker processes of each kind (default: as many as needed), or a Dask cluster (pytest-kafkaperf[dask])",
    ),
    "log-dirs": ("DIR[,DIR...]", "folders for the logs of local brokers; tests that name no folder use the first"),
    "rounds": ("N", "rounds of every scenario"),
    "duration": ("TIME", "duration of every round, for example '10 s'; also replaces 'records'"),
    "warmup": ("TIME", "duration of the load before each round, for example '2 s'"),
    "preheat": (
        "TIME",
        "broker warm-up: maximum load on new brokers before the first round of a scenario (default: 5 s)",
    ),
    "session-gap": (
        "TIME",
        "pause before each fresh session, at most 1 h, for clusters that do not restart (default: 0 s)",
    ),
    "baselines": ("DIR", "folder of the baseline files (default: kafka-baselines)"),
    "environment": ("NAME", "environment whose baselines are used (default: derived from machine and cluster)"),
    "reference": (
        "local[:VERSION]|docker[:IMAGE]|HOST:PORT[,...]",
        "compare with this cluster instead of stored baselines, in short sessions on both until the evidence decides",
    ),
    "reference-client-config": ("FILE", "client.properties of an external reference cluster"),
    "calibrate": ("N", "measure the noise of tests with a threshold on the baseline, in N fresh sessions each"),
    "time-budget": ("TIME", "maximum duration of the run, for example 10m; the plugin skips rounds to stay within it"),
    **REPORTS,
    "history": ("FILE", "append one JSON line per test and session, to find change points over weeks"),
}
MARKERS = (
    "kafka_scenario(**fields): the workload of a perf test, for example rate='5k records/s', producers=2",
    "kafka_threshold(*expressions): thresholds, for example 'produce.latency.p99 <= 25 ms'",
    "kafka_cluster(**fields): the cluster that the test needs, for example version='4.1.0'",
    "kafka_perf: set by the plugin on every test that uses the fixture kafka_perf; -m 'not kafka_perf' leaves them out",
)
SWITCHES = {
    "allow-unlimited": "allow tests without a rate, and capacity searches, on clusters that the session did not start",
    "strict": "fail tests that are INCONCLUSIVE, for example without a baseline",
    "no-confirm": "judge tests after one session; do not run suspects again in fresh sessions (not with a reference)",
    "prune-baselines": "delete the baselines of deleted tests after a run of all tests",
    "compat": "print each round in the format of kafka-producer-perf-test and kafka-consumer-perf-test",
    "low-noise": "start brokers for comparisons: logs in memory, and the JVM's quick compiler only",
    "jmx": "collect JMX metrics, such as broker.handlers.idle, from brokers that the session starts",
}
UPDATE_OPTION = "--kafka-update-baselines"
UPDATE = (
    "all|new|improved|append",
    "write baselines: all (default), new (without a baseline), improved (on two dates), append (add to the others)",
)
"""Metavar and help of `UPDATE_OPTION`; its value is optional."""
REFERENCE_CONFIG = ("NAME=VALUE", "broker property of the reference, such as num.io.threads=1; repeatable")
"""Metavar and help of `--kafka-reference-config`."""
THRESHOLDS = "thresholds for every test that measures their metrics"
"""Help of the ini key `kafka_thresholds`, which has no option."""


def declare(parser: pytest.Parser) -> None:
    """Declare every option, each also as an ini key."""
    group = parser.getgroup("kafkaperf", "Kafka performance regression tests")
    for name, (metavar, text) in OPTIONS.items():
        group.addoption(f"--kafka-{name}", metavar=metavar, default=None, help=text)
        parser.addini(_key(name), text, default="")
    metavar, text = UPDATE
    group.addoption(UPDATE_OPTION, nargs="?", const="all", default=None, metavar=metavar, help=text)
    parser.addini("kafka_update_baselines", text, default="")
    metavar, text = REFERENCE_CONFIG
    group.addoption("--kafka-reference-config", action="append", default=None, metavar=metavar, help=text)
    parser.addini("kafka_reference_config", text, type="linelist", default=[])
    for name, text in SWITCHES.items():
        group.addoption(f"--kafka-{name}", action="store_true", default=None, help=text)
        parser.addini(_key(name), text, type="bool", default=False)
    parser.addini("kafka_thresholds", THRESHOLDS, type="linelist", default=[])


def from_command_line(config: pytest.Config) -> dict[str, Any]:
    """Return the options on the command line, by name without `--kafka-`."""
    values = {name: config.getoption(_key(name)) for name in _NAMES}
    return {name: value for name, value in values.items() if value is not None}


def from_ini(config: pytest.Config) -> dict[str, Any]:
    """Return the values of all ini keys but `kafka_thresholds`, by the same names."""
    return {name: config.getini(_key(name)) for name in _NAMES}


_NAMES = (*OPTIONS, *SWITCHES, "update-baselines", "reference-config")


def _key(name: str) -> str:
    return f"kafka_{name.replace('-', '_')}"
