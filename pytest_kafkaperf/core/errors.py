"""The exceptions that users meet.

::

    KafkaPerfError
    ├── UsageError                      what was asked for cannot be: refused before any load
    │   ├── UnitError                   a quantity that cannot be read
    │   ├── ScenarioError               a scenario, cluster or threshold that cannot be
    │   └── BaselineError               a baseline file that is damaged or from a newer version
    ├── ClusterError                    a cluster that did not start, or is not reachable
    │   └── ClusterLostError            a cluster that was up and is gone
    └── LoadError                       a round that could not be run to its end

Every text says what was given, what was expected and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class KafkaPerfError(Exception):
    """Base of all errors of this plugin; its text is meant for the user, without a traceback."""


class UsageError(KafkaPerfError):
    """What was asked for cannot be; nothing has been started."""


class UnitError(UsageError, ValueError):
    """A quantity that cannot be read; a ValueError too, so that pydantic names the field."""


class ScenarioError(UsageError):
    """A scenario, a cluster or a threshold that cannot be."""


class BaselineError(UsageError):
    """A baseline file that is damaged, from a newer version, or that cannot be written."""


class ClusterError(KafkaPerfError):
    """A cluster that did not start or cannot be reached."""


class ClusterLostError(ClusterError):
    """A cluster that was up and is gone."""


class LoadError(KafkaPerfError):
    """A round of load that could not be run to its end."""


def shortened(text: str, characters: int) -> str:
    """A text that others wrote, cut where it is long."""
    return text if len(text) <= characters else f"{text[:characters]}..."


def innermost(error: BaseException) -> str:
    """The reason at the bottom: `requests` wraps it four deep."""
    while (inner := error.__cause__ or (None if error.__suppress_context__ else error.__context__)) is not None:
        error = inner
    return f"{type(error).__name__}: {error}"


def nearest(given: str, valid: Iterable[str]) -> str:
    """Name the valid choices nearest to `given`, or all of them when none is near.

    >>> nearest("acs", ["acks", "rate"])
    "did you mean 'acks'?"
    >>> nearest("xyz", ["acks", "rate"])
    "valid are 'acks', 'rate'"
    """
    choices = sorted(valid)
    return suggestion(given, choices) or f"valid are {', '.join(map(repr, choices))}"


def suggestion(given: str, choices: Sequence[str]) -> str | None:
    """Name the choices nearest to `given`, or return None when none is near."""
    import difflib  # noqa: PLC0415 - costs start-up time, and errors are rare

    near = [repr(choice) for choice in difflib.get_close_matches(given, choices, n=3, cutoff=0.6)]
    return f"did you mean {' or '.join(filter(None, (', '.join(near[:-1]), near[-1])))}?" if near else None
