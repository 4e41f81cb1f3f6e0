"""Lost, duplicated and reordered records are counted exactly, whatever happens to the broker under load.

Each kind of retries, of load and of faults is in one of these tests; `tests/nightly` has all combinations.
"""

from __future__ import annotations

import pytest

from tests.support.exactness import (
    ConsumedLog,
    restart_under_load,
    swallow_answers,
    swallow_answers_without_consumers,
)
from tests.support.proxy import ProxiedBroker
from tests.support.rounds import Load

pytestmark = pytest.mark.usefixtures("patient")


@pytest.mark.parametrize(
    ("retries", "loop", "end"),
    [pytest.param("idempotent", "open", "killed", marks=pytest.mark.story), ("plain", "closed", "stopped")],
)
def test_a_restarted_broker_loses_nothing(
    restartable: ProxiedBroker, load: Load, consumed_log: ConsumedLog, *, retries: str, loop: str, end: str
) -> None:
    """Clients send again what was not acknowledged; with idempotence the broker drops the copies."""
    restart_under_load(restartable, load, consumed_log, retries=retries, loop=loop, end=end)


@pytest.mark.parametrize(("retries", "loop"), [("idempotent", "open"), ("one by one", "closed"), ("plain", "open")])
def test_records_whose_answers_are_lost_stand_twice_in_the_log_but_for_idempotence(
    restartable: ProxiedBroker, load: Load, consumed_log: ConsumedLog, *, retries: str, loop: str
) -> None:
    """The broker has the records, the client cannot know that, and sends them again."""
    swallow_answers(restartable, load, consumed_log, retries=retries, loop=loop)


def test_duplicates_are_counted_without_a_tag_in_each_record(
    restartable: ProxiedBroker, load: Load, consumed_log: ConsumedLog
) -> None:
    """Without consumers only batches have tags."""
    swallow_answers_without_consumers(restartable, load, consumed_log, loop="open")
