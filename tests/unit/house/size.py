"""The size of the package: `python -m tests.unit.house.size [FOLDER]`.

A line of code is one that is neither blank, nor a comment, nor part of a docstring; the strings below attributes and
constants are docstrings, too.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest_kafkaperf

ROOT = Path(pytest_kafkaperf.__file__).parent
FRAGMENT_LINES = 100
_DECISIONS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case, ast.IfExp, ast.comprehension)


def modules(root: Path = ROOT) -> list[Path]:
    """Every module of the package."""
    return sorted(root.rglob("*.py"))


def code_lines(source: str) -> int:
    """Count the lines of code of a module."""
    documented = {
        line
        for each in docstrings(ast.parse(source))
        for line in range(each.lineno, (each.end_lineno or each.lineno) + 1)
    }
    return sum(
        1
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#") and number not in documented
    )


def decision_points(function: ast.AST) -> int:
    """Count the places where a function decides: branches, loops, conditional expressions, `and` and `or`, filters."""
    nodes = list(ast.walk(function))
    operators = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    filters = sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    return sum(isinstance(node, _DECISIONS) for node in nodes) + operators + filters


def public_classes(root: Path = ROOT) -> Counter[str]:
    """Count the public classes by name."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in modules(root))
    return Counter(
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def docstrings(tree: ast.Module) -> Iterator[ast.Expr]:
    """Give all docstrings, also those of attributes and constants."""
    for node in ast.walk(tree):
        for each in getattr(node, "body", None) or [] if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield each


def report(root: Path) -> str:
    """Describe the package under `root`, one number a line."""
    texts = {path: path.read_text(encoding="utf-8") for path in modules(root)}
    lengths = {path.relative_to(root).as_posix(): text.count("\n") for path, text in texts.items()}
    longest = max(lengths, key=lengths.__getitem__)
    top = [path for path in root.iterdir() if path.name not in ("__pycache__", "__init__.py", "py.typed")]
    shared = [name for name, number in public_classes(root).items() if number > 1]
    return "\n".join(
        [
            f"modules                  {len(texts)}",
            f"of at most 100 lines     {sum(length <= FRAGMENT_LINES for length in lengths.values())}",
            f"longest module           {longest}, {lengths[longest]} lines",
            f"entries at the top       {len(top)}",
            f"lines of code            {sum(map(code_lines, texts.values())):,}",
            f"noqa, type: ignore       {_count(texts, '# noqa')}, {_count(texts, '# type: ignore')}",
            f"classes that share names {', '.join(shared) or 'none'}",
        ]
    )


def _count(texts: dict[Path, str], word: str) -> int:
    return sum(text.count(word) for text in texts.values())


if __name__ == "__main__":
    sys.stdout.write(f"{report(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)}\n")
