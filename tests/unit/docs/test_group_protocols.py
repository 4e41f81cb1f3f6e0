"""The page about group protocols stands alone: its commands run its files, and its variables are those there are."""

from __future__ import annotations

import re

from tests.unit.docs.pages import ROOT, blocks, files_of

PAGE = ROOT / "docs" / "how-to" / "compare-group-protocols.md"
TEXT = PAGE.read_text(encoding="utf-8")
FROM_THE_TEST = {"GROUP_PROTOCOL"}


def test_commands_run_files_of_the_page() -> None:
    """A reader who has copied all files has everything that a command needs, and each test has a command."""
    written = files_of(PAGE)
    run = {
        word
        for block in blocks("sh")
        if block.page == PAGE
        for words in block.commands
        for word in words
        if word.endswith(".py")
    }
    assert run == {name for name in written if "/test_" in name}
    assert '["python", "orders_sink.py"]' in TEXT
    assert "orders_sink.py" in written


def test_variables_of_the_service_are_listed_with_all_others() -> None:
    """The table is a short form of the one that lists all variables."""
    markers = (ROOT / "docs" / "reference" / "markers.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([A-Z]+_[A-Z_]+)` \|", TEXT, re.MULTILINE))
    assert {"KAFKA_BOOTSTRAP_SERVERS", "KAFKAPERF_SIDE", "KAFKAPERF_INSTANCE"} <= listed
    assert {name for name in listed - FROM_THE_TEST if f"`{name}`" not in markers} == set()
