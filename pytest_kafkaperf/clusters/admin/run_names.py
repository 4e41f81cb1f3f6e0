"""Names of the topics and groups that a run creates, and the rules for removing them in a later run.

    kafkaperf-20261121T140509Z-0123456789ab         the run
    kafkaperf-20261121T140509Z-0123456789ab-3       round 3, and its topic if it creates one
    kafkaperf-20261121T140509Z-0123456789ab-3-0     round 3, consumer group 0

The time is the latest end of the run, in UTC. The ini key `kafka_topic_prefix` overrides `kafkaperf-`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

PREFIX = "kafkaperf-"
"""Default prefix of a run's topics, groups and transactional ids; nothing else is ever removed."""
LEGAL_PREFIX = re.compile(r"(?!__)[a-zA-Z0-9._-]{1,180}")
"""Pattern of valid prefixes. A topic name has at most 249 of these characters; Kafka's own names start with `__`."""
_RETAINED = datetime.timedelta(hours=1)
"""Time after the latest end of a run during which brokers keep the records in its topics."""
KEPT = datetime.timedelta(days=1)
"""Time that a run's topics and groups are kept after its latest end. The end is based on a client's clock, which is up
to 14 hours fast if it is set to local time instead of UTC."""
SUFFIX_BYTES = 6
"""Number of random bytes in a name, written as hexadecimal digits."""

_TIME = "%Y%m%dT%H%M%SZ"
_RUN = rf"(?P<prefix>{LEGAL_PREFIX.pattern})(?P<time>[0-9]{{8}}T[0-9]{{6}}Z)-[0-9a-f]{{{2 * SUFFIX_BYTES}}}"
_TOPIC = re.compile(rf"{_RUN}(-[0-9]+)?")
"""Pattern of a round's topic, or of a run's topic, because earlier versions used one topic for all rounds."""
_GROUP = re.compile(rf"{_RUN}-[0-9]+-[0-9]+")


def run_name(end: datetime.datetime, suffix: bytes, prefix: str = PREFIX) -> str:
    """Return the name of a run that ends by `end` (with a time zone); `suffix` consists of `SUFFIX_BYTES`."""
    return f"{prefix}{end.astimezone(datetime.UTC).strftime(_TIME)}-{suffix.hex()}"


def round_name(run: str, number: int) -> str:
    """Return the name of a round's topic, which is also the prefix of its groups and transactional ids."""
    return f"{run}-{number}"


def group_names(run: str, *, rounds: int, groups: int) -> list[str]:
    """Return the consumer groups of a run's first rounds."""
    return [f"{round_name(run, number)}-{group}" for number in range(1, rounds + 1) for group in range(groups)]


def prefix_of(name: str) -> str:
    """Return the prefix of a name that belongs to a run; for any other name, return the name itself."""
    match = _TOPIC.fullmatch(name) or _GROUP.fullmatch(name)
    return name if match is None else match["prefix"]


def stale_topics(names: Iterable[str], now: datetime.datetime, prefix: str = PREFIX) -> list[str]:
    """Return the topics that a run with this prefix created and did not remove."""
    return [name for name in names if _is_stale(_TOPIC.fullmatch(name), now, prefix)]


def stale_groups(names: Iterable[str], now: datetime.datetime, prefix: str = PREFIX) -> list[str]:
    """Return the groups that a run with this prefix created and did not remove."""
    return [name for name in names if _is_stale(_GROUP.fullmatch(name), now, prefix)]


def retention(topic: str, now: datetime.datetime) -> dict[str, str]:
    """Return a run topic's retention as a topic property, so that brokers delete its records if the run is killed.

    The result is empty for other names. The size is not limited, because the audit reads the entire log.
    """
    match = _TOPIC.fullmatch(topic)
    end = None if match is None else _end(match)
    if end is None:
        return {}
    return {
        "retention.ms": str((max(end - now, datetime.timedelta(0)) + _RETAINED) // datetime.timedelta(milliseconds=1))
    }


def _is_stale(match: re.Match[str] | None, now: datetime.datetime, prefix: str) -> bool:
    end = None if match is None or match["prefix"] != prefix else _end(match)
    return end is not None and now - end > KEPT


def _end(match: re.Match[str]) -> datetime.datetime | None:
    """Return the latest end of a run; None for an impossible time, which cannot be part of a run name."""
    try:
        return datetime.datetime.strptime(match["time"], _TIME).replace(tzinfo=datetime.UTC)
    except ValueError:
        return None
