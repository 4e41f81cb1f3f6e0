"""Pin the jars of Kafka's supported versions and of the JMX exporter: `python .ci/pins.py`, after a release of either.

Everything is downloaded again, from the repository in jgo's settings, which takes some minutes. Review each change in
`pins.json`, best by comparing it with the output on another machine in another network: whatever it contains is trusted
from then on.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from pytest_kafkaperf.clusters.brokers import downloads, java, jmx_exporter
from pytest_kafkaperf.clusters.brokers.distribution import file_sum, format_storage, storage_files
from pytest_kafkaperf.clusters.brokers.downloads import FILE, sha256

VERSIONS = (
    *("3.9.0", "3.9.1", "3.9.2"),
    *("4.0.0", "4.0.1", "4.0.2"),
    *("4.1.0", "4.1.1", "4.1.2"),
    *("4.2.0", "4.2.1", "4.2.2"),
    *("4.3.0", "4.3.1"),
    "4.4.0",
)
"""The releases of Kafka from the first supported one on; add new ones."""


def main() -> None:
    """Write the file, and print the number of jars of each version."""
    runtime = java.find()
    jars, storage = {}, {}
    for version in VERSIONS:
        with tempfile.TemporaryDirectory(prefix="kafkaperf-pins-") as scratch:
            folder = Path(scratch)
            kafka = downloads.resolve(version, scratch=folder / "kafka", target=FILE)
            format_storage(folder, [*kafka.values()], version, runtime)
            jars[downloads.coordinate(version)] = {name: sha256(jar) for name, jar in kafka.items()}
            storage[version] = {name: file_sum(folder / name) for name in storage_files(folder)}
        print(f"Kafka {version}: {len(kafka)} jars", flush=True)
    with tempfile.TemporaryDirectory(prefix="kafkaperf-pins-") as scratch:
        name = jmx_exporter.COORDINATE
        jars[name] = {name: sha256(downloads.fetch_one(name, name, scratch=Path(scratch) / "agent", target=FILE))}
    FILE.write_text(json.dumps({"jars": jars, "storage": storage}, indent=1) + "\n", encoding="ascii")
    print(f"{FILE} is written; see git diff")


if __name__ == "__main__":
    main()
