"""The shape of the code: functions that a reader takes in at once, and names that mean one thing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.unit.house.size import ROOT, code_lines, decision_points, modules, public_classes

MOST_DECISION_POINTS = 18
"""Of one function. ruff counts statements, but this code also decides in expressions. The bound only goes down."""
ABOVE = ("load/engines/aiokafka/consumer.py:_receive",)
"""The function above this bound: it runs once for each batch of the load."""
MOST_LINES = 450
"""Of one module."""


def test_no_function_decides_too_much() -> None:
    """A reader can follow a function whose decisions fit in the head."""
    found = {name: points for name, points in _functions() if points > MOST_DECISION_POINTS and name not in ABOVE}
    assert found == {}


def test_no_module_is_too_long() -> None:
    """A module is one concept, which a reader sees as a whole."""
    lengths = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in modules()}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_no_two_public_classes_share_a_name() -> None:
    """One word, one thing: a reader who has met a name elsewhere knows what it is."""
    assert [name for name, number in public_classes().items() if number > 1] == []


def test_documentation_is_no_code() -> None:
    """Docstrings, those of attributes too, comments and blank lines count for nothing."""
    source = '''"""A."""

X = 1  # one
"""Of X."""

# why
def f() -> str:
    """F

    G."""
    return "a"
'''
    assert code_lines(source) == 3


def test_decisions_in_expressions_count() -> None:
    """A conditional expression or a filter is a branch, although it is no statement."""
    function = ast.parse("def f(x):\n    return [a for a in x if a and a > 1] if x else None\n").body[0]
    assert decision_points(function) == 4


def _functions() -> Iterator[tuple[str, int]]:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.name}", decision_points(node)
