"""A regression that a fixture causes, confirmed on fresh trials."""

from __future__ import annotations

from tests.support.project import ROOT, Project, guard


def test_what_a_fixture_did_to_the_cluster_stays_through_confirmation(project: Project) -> None:
    """A quota on a broker that the plugin started: its regression is confirmed on fresh trials, three times."""
    project.write(
        "conftest.py",
        "import contextlib, os, pytest\n"
        "from tests.support.quotas import quota\n"
        "@pytest.fixture\n"
        "def kafka_cluster(kafka_cluster):\n"
        "    slow = 'SLOW' in os.environ\n"
        "    with quota(kafka_cluster, producer_byte_rate=250_000) if slow else contextlib.nullcontext():\n"
        "        yield kafka_cluster\n",
    )
    cluster = '@pytest.mark.kafka_cluster(config={"quota.window.num": "2"})'
    project.test(f"{cluster}{guard()}")
    first = project.run("--kafka-cluster=local", "--kafka-update-baselines", PYTHONPATH=str(ROOT))
    assert first.verdicts == {"test_guard": "MEASURED"}, first.out
    slow = project.run("--kafka-cluster=local", "--kafka-rounds=4", SLOW="yes", PYTHONPATH=str(ROOT))
    assert slow.verdicts == {"test_guard": "REGRESSED"}, slow.out
    assert len(slow.report["tests"][0]["trials"][1:]) == 3
    assert "confirmed: 3 fresh trials" in slow.out
