"""What would go wrong under load is told before it, with what was asked for, what there is, and what to do."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient

from pytest_kafkaperf.clusters.admin.preflight import Preflight
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.rounds import run_scenario
from tests.support.strangers import drop_topic, make_topic, topics_of_runs


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"topic_config": {"cleanup.policy": "compact"}},
            "the topic of this scenario is compacted (cleanup.policy=compact), so the cluster refuses records",
        ),
        ({"record_size": "2 MiB"}, "the topic of this scenario takes batches of up to 1048588 B (max.message.bytes)"),
    ],
)
def test_properties_of_a_runs_own_topic_are_looked_at_and_nothing_stays(
    broker: Cluster, fields: dict[str, Any], expected: str
) -> None:
    """Those that it sets, and those that it has by the broker's defaults."""
    with pytest.raises(ClusterError) as raised:
        run_scenario(Scenario.of(fields), broker)

    assert str(raised.value).startswith(expected)
    assert topics_of_runs(broker) == []


def test_looking_is_cheap(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs before every test, so a cluster without logins is not asked about the permissions of groups."""
    sent: list[str] = []
    send = AIOKafkaClient.send

    async def noted(self: AIOKafkaClient, node: Any, request: Any, **given: Any) -> Any:
        sent.append(type(request).__name__)
        return await send(self, node, request, **given)

    monkeypatch.setattr(AIOKafkaClient, "send", noted)
    make_topic(broker, "glance")
    preflight = Preflight(broker.bootstrap_servers, broker.access)
    preflight.check(Scenario.of({"topic": "glance", "consumers": 1}), "glance", "kafkaperf-x-1-0", guarded=False)
    assert "DescribeTopic" in sent
    assert "FindCoordinatorRequest" not in sent
    drop_topic(broker, "glance")
