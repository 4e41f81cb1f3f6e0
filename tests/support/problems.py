"""Problems with any text, for tests of what happens to a problem, and for those that compare what users read."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_kafkaperf.core.notices import Cause, Problem, ProblemKind


@dataclass(frozen=True, slots=True, eq=False)
class ToldProblem(Problem):
    """A problem that equals any other with the same kind, text and metric."""

    words: str = ""

    @property
    def fact(self) -> str:
        """The text without advice."""
        return self._placed(self.words.partition(";")[0])

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
