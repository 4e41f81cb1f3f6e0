"""Which test files a run has collected whole: of those alone it is known that a test is gone. Pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field


@dataclass(slots=True)
class Collection:
    """What is seen of it while it grows."""

    seen: set[str] = field(default_factory=set)
    """Every test that was collected, by nodeid, whatever became of it later."""
    _left_out: set[str] = field(default_factory=set)

    def leave_out(self, nodeid: str) -> None:
        """Note that of this test's file something is missing, or may be."""
        self._left_out.add(file_of(nodeid))

    def partly(self, kept: AbstractSet[str]) -> set[str]:
        """The files of which some tests were left out, where so many are to run."""
        return self._left_out | {file_of(nodeid) for nodeid in self.seen - kept}

    def whole_files(self, kept: AbstractSet[str]) -> set[str]:
        """The files all of whose tests are to run."""
        return {file_of(nodeid) for nodeid in kept} - self.partly(kept)


def file_of(nodeid: str) -> str:
    """The part of a nodeid that names the file."""
    return nodeid.partition("::")[0]


def without_folders(nodeid: str) -> str:
    """A nodeid without the folders of its file; parameters may have slashes, too: `test_a.py::test_rate[5k/s]`."""
    return nodeid[file_of(nodeid).rfind("/") + 1 :]
