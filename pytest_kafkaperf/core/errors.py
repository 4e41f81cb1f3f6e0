"""User-facing exceptions raised by the plugin.

::

    KafkaPerfError
    ├── UsageError                      invalid option or marker; raised before any broker starts
    │   ├── UnitError                   invalid quantity
    │   ├── ScenarioError               invalid scenario, cluster or threshold
    │   └── BaselineError               damaged, unwritable or too new baseline file
    ├── ClusterError                    cluster that did not start or is not reachable
    │   ├── NotReadyError               cluster that was not ready in time
    │   ├── TopicExistsError            topic that should be created but already exists
    │   ├── TopicRefusedError           topic that this client is not permitted to create
    │   ├── TopicGoneError              deleted topic
    │   └── ClusterLostError            cluster that became unavailable during the run
    │       └── ApplicationError        application under test that did not start, or exited unexpectedly
    ├── LoadError                       round that failed
    ├── NewTestError                    test that does not exist in the other revision
    ├── IncomparableTestError           test that the other revision cannot run
    └── NotMeasuredError                metric without a value in a result

Every message shows the given value, the valid values and how to fix the problem.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterable, Sequence

END_OF_LOG = "the end of its log:"
"""Line above the last lines of a log."""

_MAX_ALIKE = 5
"""Maximum number of suggested names."""


class KafkaPerfError(Exception):
    """Base class of the plugin's errors, whose messages are shown without a traceback."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        """The message without the log that it may end with."""

    @property
    def facts(self) -> dict[str, str]:
        """Further facts, by the name of the constructor's argument."""
        return {}


class UsageError(KafkaPerfError):
    """Invalid option or marker; raised before any broker starts."""


class UnitError(UsageError, ValueError):
    """Invalid quantity. The error is also a ValueError, so pydantic adds the field name."""


class ScenarioError(UsageError):
    """Invalid scenario, cluster or threshold."""


class BaselineError(UsageError):
    """Baseline file that is damaged, was written by a newer version, or cannot be written."""


class ClusterError(KafkaPerfError):
    """Cluster that did not start or is not reachable.

    `log` is the end of the log of the program that failed; None if no log explains the error.
    """

    def __init__(self, reason: str = "", *, log: str | None = None) -> None:
        super().__init__(reason)
        self.log = log

    def __str__(self) -> str:
        """Return the reason and the end of the log."""
        return with_log(self.reason, self.log)

    @property
    def facts(self) -> dict[str, str]:
        """The end of the log, if there is one."""
        return {} if self.log is None else {"log": self.log}


class ClusterLostError(ClusterError):
    """Cluster that became unavailable during the run."""


class ApplicationError(ClusterLostError):
    """Application under test that did not start, or exited unexpectedly.

    `program` is its name in other messages, such as `application shop`.
    """

    def __init__(self, reason: str = "", *, log: str | None = None, program: str = "") -> None:
        super().__init__(reason, log=log)
        self.program = program

    @property
    def facts(self) -> dict[str, str]:
        """The program's name and the end of its log, if there is one."""
        return super().facts | {"program": self.program}


class LoadError(KafkaPerfError):
    """Round that failed."""


def with_log(reason: str, log: str | None) -> str:
    """Append the last lines of a log to a reason; None if no log explains it."""
    if log is None:
        return reason
    return f"{reason}; {END_OF_LOG}\n{log}" if log else f"{reason}; its log is empty"


def warn(text: str) -> None:
    """Show a warning in pytest's summary.

    It remains a warning even with `-W error`, because an error would mask an exception that is being raised.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(text, stacklevel=2)


def shortened(text: str, characters: int) -> str:
    """Truncate text to the given number of characters, and append `...` if anything was cut off."""
    return text if len(text) <= characters else f"{text[:characters]}..."


def innermost(error: BaseException) -> str:
    """Format the root cause of a chained exception; `requests`, for example, wraps it four times."""
    inner: BaseException | None = error
    while inner is not None:
        error = inner
        inner = error.__cause__
        if inner is None and not error.__suppress_context__:
            inner = error.__context__
    return f"{type(error).__name__}: {error}"


class NotMeasuredError(KafkaPerfError, LookupError):
    """Metric without a value in a result."""


def nearest(given: str, valid: Iterable[str]) -> str:
    """Suggest the valid choices that resemble `given`, or list all choices if none does.

    >>> nearest("acs", ["acks", "rate"])
    "did you mean 'acks'?"
    >>> nearest("p99", ["e2e.latency.p99", "lost"])
    "did you mean 'e2e.latency.p99'?"
    >>> nearest("xyz", ["acks", "rate"])
    "expected one of 'acks', 'rate'"
    """
    choices = list(valid)
    return nearest_if_alike(given, choices) or f"expected one of {', '.join(map(repr, sorted(choices)))}"


def nearest_if_alike(given: str, valid: Sequence[str]) -> str | None:
    """Suggest the valid choices that resemble `given`, as `nearest` does; return None if none does."""
    alike = ending_alike(given, valid)
    return did_you_mean(alike) if alike else suggestion(given, valid)


def suggestion(given: str, choices: Sequence[str], *, similarity: float = 0.6) -> str | None:
    """Suggest the choices whose spelling is closest to `given`; return None if none is similar enough."""
    near = difflib.get_close_matches(given, choices, n=3, cutoff=similarity)
    return did_you_mean(near) if near else None


def ending_alike(given: str, choices: Iterable[str]) -> list[str]:
    """Return the choices whose last word is that of `given` and whose words are a subset or superset of its words."""
    words = words_of(given)
    found = []
    for choice in choices:
        other = words_of(choice)
        is_part = {*words} <= {*other} or {*other} <= {*words}
        if other[-1] == words[-1] and is_part:
            found.append(choice)
    return found


def words_of(name: str) -> list[str]:
    """Split a name into words: `["lag", "max"]` for `lag.max` and `lag_max`."""
    return re.split(r"[ ._-]", name.lower())


def did_you_mean(names: Sequence[str]) -> str:
    """Suggest the first few names in a question, such as `did you mean 'acks' or 'rate'?`."""
    *others, last = map(repr, names[:_MAX_ALIKE])
    return f"did you mean {' or '.join(filter(None, (', '.join(others), last)))}?"
