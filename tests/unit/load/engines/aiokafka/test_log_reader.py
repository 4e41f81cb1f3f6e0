"""What no audit can read."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.engines.aiokafka.log_reader import audit
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.audit_task import UNREADABLE


@pytest.mark.parametrize("fields", [{"record_size": 8}, {"record_size": {"8 B": 0.001, "1 KiB": 0.999}}], ids=str)
def test_records_without_a_tag_cannot_be_audited(fields: dict[str, Any]) -> None:
    """If one value is too short for it, none has one: the filling of the others would be read as names."""
    with pytest.raises(LoadError, match="^records smaller than 16 B carry no tag, so an audit cannot identify them$"):
        audit(dataclasses.replace(UNREADABLE, scenario=Scenario.of(fields)))
