"""The Kafka version of the brokers that tests start: the default one, or the one that `.ci/versions.py` chooses."""

from __future__ import annotations

import os

from pytest_kafkaperf.clusters.target import DEFAULT_VERSION

CHOSEN: str | None = os.environ.get("PYTEST_KAFKAPERF_VERSION")
"""None where nobody has chosen one."""
VERSION = CHOSEN or DEFAULT_VERSION
