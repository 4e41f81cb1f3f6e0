"""The number of an application's instances, and what has to be different for each of them."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.core.errors import UsageError

SHARED = (
    "3 instances cannot listen on the same port; write {instance} where the instance's number belongs, for example "
    "'port:808{instance}'"
)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"instances": 0}, "instances=0: must be greater than or equal to 1"),
        ({"instances": 101}, "instances=101: must be less than or equal to 100"),
        ({"instances": True}, "instances=True: must be a number, not True or False"),
        ({"instances": 3, "ready": "port:8080"}, f"ready='port:8080': {SHARED}"),
        (
            {"instances": 11, "ready": "port:808{instance}"},
            "ready='port:808{instance}': the port of instance 10 would be 80810, must be 1 to 65535",
        ),
        (
            {"instances": 3, "ready": "group:shop-{instance}"},
            "ready='group:shop-{instance}': all instances must be members of one group, so its name must not contain",
        ),
        ({"ready": "port:{instance}{instance}"}, "ready='port:{instance}{instance}': must be 'group:NAME', "),
        ({"instance": 3}, "unknown field 'instance': "),
    ],
)
def test_instances_that_cannot_run_are_refused(fields: dict[str, Any], problem: str) -> None:
    """Before anything is started, in the words of the markers."""
    with pytest.raises(UsageError) as caught:
        Recipe.of({"command": ["x"], "ready": "line:x", **fields}, where="kafka_app: ")
    assert str(caught.value).startswith(f"kafka_app: {problem}")


@pytest.mark.parametrize(
    ("ready", "kind", "signs"),
    [
        ("group:shop", "group", ["shop", "shop"]),
        ("line:worker {instance} up", "line", ["worker 0 up", "worker 1 up"]),
        ("port:808{instance}", "port", ["8080", "8081"]),
        ("port:9{instance}80", "port", ["9080", "9180"]),
        (print, "call", ["", ""]),
    ],
)
def test_a_signal_may_depend_on_the_instance(ready: object, kind: str, signs: list[str]) -> None:
    """A line and a port; a group belongs to all of them, and a function asks for all."""
    recipe = Recipe.of({"command": ["x"], "instances": 2, "ready": ready})
    assert (recipe.kind, [recipe.sign_of(number) for number in range(2)]) == (kind, signs)


def test_an_application_can_have_as_many_instances_as_ports() -> None:
    """It is scaled within a round, so the fields cannot be checked for the number before."""
    one, many = (
        Recipe.of({"command": ["x"], "instances": number, "ready": ready})
        for number, ready in ((1, "port:8080"), (10, "port:808{instance}"))
    )
    assert one.problem_of(3) == SHARED
    assert many.problem_of(11) == "the port of instance 10 would be 80810, must be 1 to 65535"
    assert one.problem_of(1) is many.problem_of(10) is None
