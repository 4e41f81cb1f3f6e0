"""Java's own tool for certificates and stores."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pytest_kafkaperf.clusters.brokers import java
from tests.support.patience import PATIENCE_S


def keytool(*arguments: str | Path) -> str:
    """Run that of the Java which runs brokers; gives what it prints."""
    tool = java.find().path.with_name("keytool")
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
