"""The results: claims against measurements, as a table in the terminal and in README.md."""

from __future__ import annotations

import datetime
import importlib.metadata
import statistics
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from workloads import LIBRDKAFKA, OURS, UNITS

from pytest_kafkaperf.core.environment import fingerprint
from pytest_kafkaperf.core.units import format_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from contenders import Values
    from workloads import Claim, Workload

    from pytest_kafkaperf.clusters.cluster import Cluster

BEGIN = "<!-- results: written by compare.py --write -->"
END = "<!-- /results -->"

_COLUMNS = ("metric", "against", "ours", "theirs", "ratio", "target", "met")
_WIDTHS = {"metric": 15, "against": 24, "ours": 5, "theirs": 5, "ratio": 5, "target": 8}
"""The lengths of the longest texts, so that all tables align."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The runs of the contenders with one workload."""

    workload: Workload
    runs: Mapping[str, Sequence[Values]]
    """Runs by contender, one entry for each repeat; none if it failed."""
    failures: Mapping[str, str]
    """The reason for having no runs, by contender."""


def tables(outcomes: Sequence[Outcome]) -> Group:
    """Return all claims by their medians, for the terminal: a table for each workload."""
    return Group(*map(_table, outcomes))


def write(readme: Path, outcomes: Sequence[Outcome], *, cluster: Cluster, command: str, repeats: int) -> None:
    """Replace the text between the marker comments.

    Raises:
        ValueError: the markers are not there.

    """
    before, begin, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{readme} has no {BEGIN} and {END} to write between")
    preamble = textwrap.fill(_preamble(cluster, command, repeats), 120, break_on_hyphens=False)
    lines = [preamble, "", *_markdown(outcomes)]
    lines += [
        f"\nNot measured: {outcome.workload.title}: {_brief(reason)}"
        for outcome in outcomes
        for reason in outcome.failures.values()
    ]
    readme.write_text("\n".join([before + begin, "", *lines, "", end + after]), encoding="utf-8")


def _table(outcome: Outcome) -> Table:
    shown = Table(title=f"\n{outcome.workload.title}", title_justify="left", box=None, padding=(0, 1, 0, 0))
    for column in _COLUMNS:
        is_text = column in ("metric", "against", "met")
        shown.add_column(column, no_wrap=True, justify="left" if is_text else "right", min_width=_WIDTHS.get(column))
    for claim in outcome.workload.claims:
        shown.add_row(*_cells(outcome, claim, with_range=False))
    return shown


def _markdown(outcomes: Sequence[Outcome]) -> list[str]:
    rows = [("workload", *_COLUMNS), ("---",) * (1 + len(_COLUMNS))]
    rows += [
        (outcome.workload.title, *_cells(outcome, claim, with_range=True))
        for outcome in outcomes
        for claim in outcome.workload.claims
    ]
    return [f"| {' | '.join(row)} |" for row in rows]


def _cells(outcome: Outcome, claim: Claim, *, with_range: bool) -> tuple[str, ...]:
    """Return one claim as `_COLUMNS` has it."""
    rival_name = claim.rival_name or claim.name
    ours = [values[claim.name] for values in outcome.runs.get(OURS, ())]
    theirs = [values[rival_name] for values in outcome.runs.get(claim.rival, ())]
    ratio = statistics.median(ours) / statistics.median(theirs) if ours and theirs else None
    met = None if ratio is None else claim.is_met(ratio)
    return (
        rival_name,
        claim.rival,
        _shown(ours, claim.name, with_range=with_range),
        _shown(theirs, rival_name, with_range=with_range),
        "" if ratio is None else f"{ratio:.2f}x",
        claim.target(),
        "" if met is None else ("yes" if met else "no"),
    )


def number(value: float, name: str) -> str:
    """Format as `1.42M`, without the unit, which is in the name."""
    unit = UNITS[name]
    return format_quantity(value, unit).removesuffix(f" {unit}")


def _shown(values: Sequence[float], name: str, *, with_range: bool) -> str:
    """Format as `1.42M (1.3M to 1.5M)`: the median, and the lowest and the highest value."""
    if not values:
        return "-"
    median, low, high = (number(value, name) for value in (statistics.median(values), min(values), max(values)))
    return f"{median} ({low} to {high})" if with_range and len(values) > 1 else median


def _preamble(cluster: Cluster, command: str, repeats: int) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    facts = fingerprint({"kafka": cluster.version, **cluster.facts, LIBRDKAFKA: _version(LIBRDKAFKA)})
    told = ", ".join(f"{name} {text}" for name, text in facts.items())
    return f"{today}, `{command}`, medians of {repeats} (lowest to highest). On: {told}."


def _brief(reason: str) -> str:
    """Return the first line and, if the child wrote more, the last."""
    first, *rest = reason.splitlines()
    return f"{first}: {rest[-1].strip()}" if rest else first


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
