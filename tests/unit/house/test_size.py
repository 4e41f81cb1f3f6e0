"""The size of the code: modules that a reader takes in at once, and names that mean one thing."""

from __future__ import annotations

from tests.unit.house.size import MOST_MODULE_LINES, ROOT, code_lines, modules, public_classes

MOST_CODE_LINES = 19_800
"""Of the whole package. To raise it, say in the commit what users get for it."""


def test_no_module_is_too_long_for_one_concept() -> None:
    """Whoever opens a file should know at once what it is for."""
    lengths = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_MODULE_LINES} == {}


def test_the_package_stays_small() -> None:
    """Every line is read many times."""
    assert sum(code_lines(path.read_text(encoding="utf-8")) for path in modules()) <= MOST_CODE_LINES


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
