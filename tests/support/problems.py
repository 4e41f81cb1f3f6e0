"""Problems, warnings and events with any text, for tests of what becomes of them, or of what users read."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_kafkaperf.core.notices import Instant, Notice, Remark
from pytest_kafkaperf.core.problems import Cause, Problem, ProblemKind
from pytest_kafkaperf.runner.rounds.round import RoundEvent


@dataclass(frozen=True, slots=True, eq=False)
class ToldProblem(Problem):
    """A problem that equals any other with the same kind, text and metric."""

    words: str = ""

    @property
    def _message(self) -> str:
        """The text without advice."""
        return self._placed(self.words.partition(";")[0])

    @property
    def advice(self) -> str:
        """What follows the fact."""
        return self.words.partition(";")[2].strip()

    @property
    def text(self) -> str:
        """The text with the place."""
        return self._placed(self.words)

    def __eq__(self, other: object) -> bool:
        """Compare what programs and users see."""
        if not isinstance(other, Problem):
            return NotImplemented
        return (self.kind, self.text, self.metric) == (other.kind, other.text, other.metric)

    def __hash__(self) -> int:
        """Hash what is compared."""
        return hash((self.kind, self.text, self.metric))


def problem_told(kind: ProblemKind, words: str, metric: str | None = None) -> Problem:
    """Return a problem of this kind with this text."""
    cause = next(each for each in Cause if each.kind is kind)
    return ToldProblem(cause, metric=metric, words=words)


def notice_told(words: str) -> Notice:
    """Return a warning or a note with this text, which is like no other."""
    return Notice(Remark.UNDECIDED, {"reason": words, "expression": words})


def event_told(at_s: float, words: str) -> RoundEvent:
    """Return an event of a round with this text after its time."""
    return RoundEvent(at_s, Notice(Remark.ACTION, {"at": Instant(at_s), "event": words, "what": words}))


BUSY = Notice(Remark.BUSY_MACHINE, {"used": 1.5, "cores": 2})
"""The warning that other programs used this machine."""
