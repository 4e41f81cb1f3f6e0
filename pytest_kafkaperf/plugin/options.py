"""Names and texts of options and markers: the one list, for pytest and for the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

REPORTS = {
    "json": ("PATH", "write the JSON report"),
    "html": ("PATH", "write a page of charts; needs pytest-kafkaperf[html]"),
    "markdown": ("PATH", "write a summary in Markdown, for a job's page or a comment"),
    "gitlab-metrics": ("PATH", "write all figures as OpenMetrics text, for GitLab's metrics report"),
}
"""The options that each name a file to write; `reports/writing.py` has their writers."""
OPTIONS: dict[str, tuple[str, str]] = {
    "cluster": (
        "auto|local|docker|HOST:PORT[,...]",
        "where the brokers are: started here (auto: in Docker where a daemon answers), or an existing cluster",
    ),
    "client-config": ("FILE", "client.properties of an existing cluster, as Kafka's own tools take it"),
    "metrics-url": ("URL[,URL...]", "JMX exporters of an existing cluster's brokers, as Prometheus reads them"),
    "version": ("VERSION", "Kafka version of the brokers that are started, for example 4.1.0"),
    "image": ("IMAGE", "Docker image of the brokers that are started, for example confluentinc/cp-kafka:8.0.0"),
    "brokers": ("N", "number of brokers that are started, or that an existing cluster must have"),
    "workers": (
        "N|dask://SCHEDULER[:PORT]",
        (
            "worker processes that make the load: so many of each kind on this machine (default: as many as it takes), "
            "or on the machines of a Dask cluster; needs pytest-kafkaperf[dask]"
        ),
    ),
    "log-dirs": (
        "DIR[,DIR...]",
        "folders for the logs of brokers that 'local' starts; the first one, but for tests that name another",
    ),
    "rounds": ("N", "rounds of every scenario"),
    "duration": ("TIME", "length of every round, for example '10 s'; replaces 'records', too"),
    "warmup": ("TIME", "load before each round, for example '2 s'"),
    "preheat": ("TIME", "load on brokers that were started here, before the first round of a scenario (default: 6 s)"),
    "baselines": ("DIR", "folder of the baseline files (default: kafka-baselines)"),
    "environment": (
        "NAME",
        "name of this environment; baselines count only within one (default: the machine's)",
    ),
    "reference": (
        "local[:VERSION]|docker[:IMAGE]|HOST:PORT[,...]",
        "compare with this cluster instead of stored baselines, rounds on both in turns",
    ),
    "reference-client-config": ("FILE", "client.properties of a reference that runs already"),
    "reference-seed": ("N", "repeat the order in which rounds took turns; a report with a reference names it"),
    "calibrate": ("N", "run every test in N fresh sessions, and tell how much they differ and what changes are found"),
    "time-budget": ("TIME", "bound of the whole run, for example 10m: rounds are left out where it would be longer"),
    **REPORTS,
    "history": ("FILE", "append one JSON line a test and session, for change points over weeks"),
}
MARKERS = (
    "kafka_scenario(**fields): the workload of a perf test, for example rate='5k records/s', producers=2",
    "kafka_threshold(*expressions): limits, for example 'produce.latency.p99 <= 25 ms'",
    "kafka_cluster(**fields): the cluster that the test needs, for example version='4.1.0'",
)
SWITCHES = {
    "strict": "fail tests that are INCONCLUSIVE, for example without a baseline",
    "no-confirm": "do not run suspects again on fresh sessions: one session decides",
    "prune-baselines": "delete the baselines of tests that are gone, after a run of all tests",
    "compat": "print each round as kafka-producer-perf-test and kafka-consumer-perf-test would",
    "jmx": "let brokers that are started tell of their work, through the JMX exporter: broker.handlers.idle, ...",
}
UPDATE_OPTION = "--kafka-update-baselines"
UPDATE = (
    "all|new|improved|append",
    (
        "write baselines: all (accept today's figures), new (only of tests without one), improved (only of tests that "
        "got better beyond noise), append (add this session; the newest 10 are kept)"
    ),
)
"""Of `UPDATE_OPTION`, whose mode may be left out."""
REFERENCE_CONFIG = ("NAME=VALUE", "a broker property of the reference, such as num.io.threads=1; again for each")
"""`--kafka-reference-config`, which may be given again."""
THRESHOLDS = "limits for every test that has those metrics"
"""`kafka_thresholds`, of the ini file alone, one a line."""


def declare(parser: pytest.Parser) -> None:
    """Make them known to pytest, each also as an ini key."""
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


def given(config: pytest.Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the command line says and what the ini file does, by the options' names without `--kafka-`."""
    names = [*OPTIONS, *SWITCHES, "update-baselines", "reference-config"]
    return {name: config.getoption(_key(name)) for name in names}, {name: config.getini(_key(name)) for name in names}


def _key(name: str) -> str:
    return f"kafka_{name.replace('-', '_')}"
