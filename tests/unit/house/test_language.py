"""The code describes itself in plain English."""

from __future__ import annotations

import ast
import inspect

from tests.unit.house.size import ROOT, docstrings, modules

RIDDLES = {"What", "Of", "Whether", "Where", "How", "That"}
"""First words of a clause that has no subject yet: the reader would have to guess it."""


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    """A docstring is understood at the first reading, without context."""
    found = [
        f"{path.relative_to(ROOT)}:{each.lineno}: {text.splitlines()[0]}"
        for path in modules()
        for each in docstrings(ast.parse(path.read_text(encoding="utf-8")))
        if (text := inspect.cleandoc(ast.literal_eval(each.value))) and text.split()[0].strip(",.:") in RIDDLES
    ]
    assert found == []
