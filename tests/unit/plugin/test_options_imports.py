"""The markers as decorators: what `from pytest_kafkaperf import ...` accepts."""

from __future__ import annotations

import importlib

import pytest

import pytest_kafkaperf
from pytest_kafkaperf import kafka_cluster, kafka_scenario, kafka_threshold


def test_decorators_make_the_markers_of_the_same_names() -> None:
    """Both forms mean the same."""
    assert kafka_scenario(rate="5k/s").mark == pytest.mark.kafka_scenario(rate="5k/s").mark
    assert kafka_threshold("errors == 0").mark == pytest.mark.kafka_threshold("errors == 0").mark
    assert kafka_cluster(brokers=3).mark == pytest.mark.kafka_cluster(brokers=3).mark


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("kafka_thresholds", "did you mean 'kafka_threshold'?"),
        ("kafka_senario", "did you mean 'kafka_scenario'?"),
        ("KafkaScenario", "did you mean 'kafka_scenario'?"),
        ("kafka_foo", "the decorators are kafka_cluster, kafka_scenario, kafka_threshold"),
        *(
            (name, "it is a fixture; add it to the arguments of the test function, without an import")
            for name in ("kafka_perf", "kafka_app", "kafka_app_factory", "kafka_cluster_factory")
        ),
    ],
)
def test_an_import_of_a_name_that_does_not_exist_gets_a_hint(name: str, hint: str) -> None:
    """Python's own text only repeats the name."""
    with pytest.raises(ImportError) as caught:
        exec(f"from pytest_kafkaperf import {name}")  # noqa: S102 - an import as users write it
    assert str(caught.value) == f"cannot import name '{name}' from 'pytest_kafkaperf': {hint}"


@pytest.mark.parametrize("name", ["foo", "scenarios", "__path_hooks__"])
def test_other_names_are_missing_as_in_any_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hasattr` and imports of packages depend on it."""
    monkeypatch.delattr(pytest_kafkaperf, name, raising=False)
    assert not hasattr(pytest_kafkaperf, name)
    assert importlib.import_module("pytest_kafkaperf.scenarios")
