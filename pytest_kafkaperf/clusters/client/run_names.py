"""Names of what a run creates on a cluster, and which of them a later run may remove.

    kafkaperf-20261121T140509Z-0123456789ab         the run
    kafkaperf-20261121T140509Z-0123456789ab-3       round 3, and its topic where it creates one
    kafkaperf-20261121T140509Z-0123456789ab-3-0     round 3, consumer group 0

The time is UTC, when the run is bound to be over at the latest.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

PREFIX = "kafkaperf-"
"""Of every topic and group that a run creates; only those are ever removed."""
KEPT = datetime.timedelta(hours=1)
"""Beyond the time in its name, what is found is left alone for this long: clocks differ."""
SUFFIX_BYTES = 6
"""Of random in a name, written as hex digits."""

_TIME = "%Y%m%dT%H%M%SZ"
_RUN = rf"{PREFIX}(?P<time>[0-9]{{8}}T[0-9]{{6}}Z)-[0-9a-f]{{{2 * SUFFIX_BYTES}}}"
_TOPIC = re.compile(rf"{_RUN}(-[0-9]+)?")
"""Of a round; earlier versions had one for all rounds."""
_GROUP = re.compile(rf"{_RUN}-[0-9]+-[0-9]+")


def run_name(over: datetime.datetime, suffix: bytes) -> str:
    """The name of a run that is over by then; `over` knows its time zone, `suffix` has `SUFFIX_BYTES`."""
    return f"{PREFIX}{over.astimezone(datetime.UTC).strftime(_TIME)}-{suffix.hex()}"


def round_name(run: str, number: int) -> str:
    """A round's own topic, and what its groups and transactional ids begin with."""
    return f"{run}-{number}"


def group_names(run: str, *, rounds: int, groups: int) -> list[str]:
    """The consumer groups of a run's first rounds."""
    return [f"{round_name(run, number)}-{group}" for number in range(1, rounds + 1) for group in range(groups)]


def stale_topics(names: Iterable[str], now: datetime.datetime) -> list[str]:
    """Of these topics, those that a run created and did not live to remove."""
    return [name for name in names if _is_stale(_TOPIC.fullmatch(name), now)]


def stale_groups(names: Iterable[str], now: datetime.datetime) -> list[str]:
    """Of these groups, those that a run created and did not live to remove."""
    return [name for name in names if _is_stale(_GROUP.fullmatch(name), now)]


def _is_stale(match: re.Match[str] | None, now: datetime.datetime) -> bool:
    if match is None:
        return False
    try:
        over = datetime.datetime.strptime(match["time"], _TIME).replace(tzinfo=datetime.UTC)
    except ValueError:  # no time that there is: a run did not make that name
        return False
    return now - over > KEPT
