"""Pin the jars of the default version of Kafka and of the JMX exporter: `python .ci/pins.py`, after a change of either.

Everything is fetched anew, from the repository that jgo's settings name. What changes in `pins.json` is for a person to
review, best against what another machine on another network writes: whatever stands there is trusted from then on.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from pytest_kafkaperf.clusters.local import maven
from pytest_kafkaperf.clusters.local.maven import FILE, sha256
from pytest_kafkaperf.clusters.monitoring import jmx_exporter
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION


def main() -> None:
    """Write the file, and tell how many jars it has."""
    with tempfile.TemporaryDirectory(prefix="kafkaperf-pins-") as scratch:
        folder = Path(scratch)
        kafka = maven.resolve(DEFAULT_VERSION, scratch=folder / "kafka", target=FILE)
        name = jmx_exporter.COORDINATE
        agent = maven.fetch_one(name, name, scratch=folder / "agent", target=FILE)
        pins = {
            maven.coordinate(DEFAULT_VERSION): {name: sha256(jar) for name, jar in kafka.items()},
            jmx_exporter.COORDINATE: {jmx_exporter.COORDINATE: sha256(agent)},
        }
    FILE.write_text(json.dumps(pins, indent=1) + "\n", encoding="ascii")
    print(f"{FILE}: {', '.join(f'{len(each)} of {name}' for name, each in pins.items())}; see git diff")


if __name__ == "__main__":
    main()
