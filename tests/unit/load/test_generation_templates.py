"""Records from a template file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.load.generation import INDEXES, first_records
from pytest_kafkaperf.runner.rounds.samples import with_content, with_path
from pytest_kafkaperf.scenarios.payloads import Generated
from pytest_kafkaperf.scenarios.scenario import Scenario

ORDER = """{"id": "o-{{ index }}", "cart": "{{ uuid }}", "at": "{{ now }}", "number": {{ int(1, 9) }},
"color": "{{ choice("red", "green") }}", "weight": {{ random() }}}
"""


def read(tmp_path: Path, text: str) -> Generated:
    (tmp_path / "order.json").write_text(text, encoding="utf-8")
    scenario = Scenario.of({"payload": "template:order.json"})
    found = with_content(with_path(scenario, tmp_path, "kafka_scenario: ")).payload
    assert isinstance(found, Generated)
    return found


def test_a_template_is_filled_in_for_each_record(tmp_path: Path) -> None:
    """What is drawn is the same in each run, as with a function."""
    template = read(tmp_path, ORDER)
    records: list[dict[str, Any]] = [json.loads(one.value) for one in first_records(template, 50, load=2)]
    again = [json.loads(one.value) for one in first_records(template, 50, load=2)]
    drawn = ("id", "cart", "number", "color", "weight")
    assert [[one[name] for name in drawn] for one in records] == [[one[name] for name in drawn] for one in again]
    assert [one["id"] for one in records] == [f"o-{2 * INDEXES + index}" for index in range(50)]
    assert len({one["cart"] for one in records}) == 50
    assert {one["color"] for one in records} == {"red", "green"}
    assert {one["number"] for one in records} <= {*range(1, 10)}


def test_a_template_belongs_to_the_workload(tmp_path: Path) -> None:
    """A changed payload must not look like a regression."""
    first, other = read(tmp_path, ORDER), read(tmp_path, ORDER.replace("red", "blue"))
    assert first.sha256 != other.sha256
    assert str(first) == "template:order.json"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "payload: the template '{path}' is empty; write a value with placeholders to it"),
        ("{{ indx }}", "payload: template:order.json failed: UndefinedError: 'indx' is undefined (index 0)"),
        ("a\n{{ index", "payload: template:order.json, line 2: unexpected end of template"),
    ],
)
def test_a_template_with_a_mistake_is_refused(tmp_path: Path, text: str, told: str) -> None:
    """Before any record is sent."""
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"kafka_scenario: {told.format(path=tmp_path / 'order.json')}")


def test_without_jinja_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not installed with the plugin."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, ORDER)
    told = "payload: template:order.json requires Jinja2; run: pip install 'pytest-kafkaperf[template]'"
    assert str(caught.value) == f"kafka_scenario: {told}"


def test_a_template_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """The path is relative to the test."""
    with pytest.raises(ScenarioError, match="cannot read the template '.*missing.json': No such file"):
        with_path(Scenario.of({"payload": "template:missing.json"}), tmp_path, "kafka_scenario: ")
