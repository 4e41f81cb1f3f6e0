"""A cache that somebody else could write to, and that a later job restores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pytest_kafkaperf.clusters.brokers import distribution
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec


def test_a_broker_loads_nothing_from_a_folder_that_a_manifest_names(
    kafka: distribution.Distribution, cache: Path, tmp_path: Path
) -> None:
    """`:` ends an entry of Java's class path: what is before it would be a folder of somebody else's classes."""
    trace = tmp_path / "loaded"
    folder = cache / "kafka" / kafka.version
    evil = folder / "evil"
    evil.mkdir()
    (evil / "simplelogger.properties").write_text(f"org.slf4j.simpleLogger.logFile={trace}\n", encoding="ascii")
    (folder / "evil:").mkdir()
    genuine = next(jar for jar in kafka.classpath if jar.name.startswith("kafka-clients-"))
    shutil.copyfile(genuine, folder / "evil:" / genuine.name)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    name = f"evil:/{genuine.name}"
    sums = {each: distribution.file_sum(folder / each) for each in (name, *manifest["files"])}
    path.unlink()  # it shares its content with the user's cache
    path.write_text(json.dumps({"files": {name: 1, **manifest["files"]}, "sha256": sums}), encoding="utf-8")

    with provision(ClusterSpec(config={"group.initial.rebalance.delay.ms": "1"}), target="local") as cluster:
        cluster.check()

    assert not trace.exists()
