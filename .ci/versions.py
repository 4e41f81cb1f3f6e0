"""Whether the plugin works with each version of Kafka: the newest pinned patch of each minor version.

    python .ci/versions.py                 all of them, one after the other
    python .ci/versions.py 4.2.2 4.4.0     these
    python .ci/versions.py --write ...     and write what came of it to .ci/versions.json, for docs/generate.py
    python .ci/versions.py --list          their names, one a line

Each runs the tests of `TESTS` on brokers of that version, which takes three or four minutes on two cores.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
PINS = ROOT / "pytest_kafkaperf/clusters/brokers/pins.json"
FILE = Path(__file__).with_name("versions.json")
VARIABLE = "PYTEST_KAFKAPERF_VERSION"
"""Read by `tests/support/versions.py`."""
TESTS = (
    "tests/broker/clusters/test_contract.py",  # starts, kills and restarts a broker
    "tests/broker/clusters/test_jmx_exporter.py::test_the_agent_in_a_real_broker_shows_the_load[chosen]",
    "tests/broker/clusters/test_local.py::test_logs_are_on_the_disks_that_were_named_and_leave_them_again",
    "tests/broker/clusters/test_local.py::test_the_facts_hold_what_was_changed_and_no_secret",
    "tests/broker/load/test_engine_contract.py",
    "tests/broker/load/test_integrity.py",  # kills, restarts, lost answers, idempotence
    "tests/broker/load/test_preflight.py",
    "tests/broker/load/test_transactions.py::test_committed_records_count_and_aborted_ones_are_read_as_isolation_says",
    "tests/broker/load/test_watched_group.py::test_the_drain_ends_with_the_last_record[records]",
    "tests/broker/plugin/test_story.py::test_a_regression_fails_the_build_and_only_a_regression",
    "tests/nightly/clusters/test_contract.py::test_a_cluster_lives_its_life[local-1-sasl_scram+tls]",
    "tests/nightly/clusters/test_contract.py::test_a_cluster_lives_its_life[local-3-None]",
)
"""What depends on the broker's version: start, logins, requests of the clients, tools, metrics."""
_TEST_S = 900
_LAST_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One version, and what came of it."""

    version: str
    day: str
    passed: int
    failed: int
    skipped: int
    took_s: int

    @property
    def is_good(self) -> bool:
        """Whether all tests passed."""
        return self.passed > 0 and self.failed == self.skipped == 0


def main() -> None:
    """Run the tests, print the table, and fail with any of the versions."""
    parser = argparse.ArgumentParser(description="Run the tests that depend on the version of Kafka on each of them.")
    parser.add_argument(
        "versions", nargs="*", metavar="VERSION", help="default: the newest patch of each minor version"
    )
    parser.add_argument("--write", action="store_true", help=f"write the results to {FILE.name}")
    parser.add_argument("--list", action="store_true", help="print the versions and do nothing else")
    given = parser.parse_args()
    pinned = pinned_versions(json.loads(PINS.read_text(encoding="ascii")))
    unknown = sorted({*given.versions} - {*pinned})
    if unknown:
        parser.error(f"not pinned: {', '.join(unknown)}; pinned versions: {', '.join(pinned)}")
    wanted = given.versions or newest_patches(pinned)
    if given.list:
        print(*wanted, sep="\n")
        return
    rows = [attempt(version) for version in wanted]
    if given.write:
        known = json.loads(FILE.read_text(encoding="ascii")) if FILE.exists() else []
        FILE.write_text(json.dumps(merged(known, rows, newest_patches(pinned)), indent=1) + "\n", encoding="ascii")
        print(f"{FILE} is written; run docs/generate.py")
    for row in rows:
        print(f"Kafka {row.version}: {row.passed} passed, {row.failed} failed, {row.skipped} skipped, {row.took_s} s")
    if not all(row.is_good for row in rows):
        sys.exit(1)


def pinned_versions(pins: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The versions of the pins, oldest first."""
    return sorted(pins["storage"], key=numbers)


def newest_patches(versions: Iterable[str]) -> list[str]:
    """The newest version of each minor version, oldest first."""
    return sorted({numbers(version)[:2]: version for version in sorted(versions, key=numbers)}.values(), key=numbers)


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, which order as releases do."""
    return tuple(map(int, version.split(".")))


def merged(
    known: Sequence[Mapping[str, object]], rows: Iterable[Row], wanted: Sequence[str]
) -> list[Mapping[str, object]]:
    """The results of the wanted versions, oldest version first; new ones replace those that are known."""
    found: dict[object, Mapping[str, object]] = {one["version"]: one for one in known}
    found |= {row.version: asdict(row) for row in rows}
    return [found[version] for version in wanted if version in found]


def attempt(version: str) -> Row:
    """Run the tests on brokers of one version; the end of what they print is shown if they fail."""
    print(f"-- Kafka {version}", flush=True)
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kafkaperf-versions-") as folder:
        report = Path(folder, "junit.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "worksteal"]
        try:
            done = subprocess.run(
                [*command, f"--junitxml={report}", *TESTS],
                cwd=ROOT,
                env={**os.environ, VARIABLE: version},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_TEST_S,
                check=False,
            )
            printed = done.stdout
        except subprocess.TimeoutExpired:
            printed = f"not done within {_TEST_S} s"
        counts = counted(report.read_text(encoding="utf-8")) if report.exists() else {"failed": 1}
    row = Row(
        version=version,
        day=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        passed=counts.get("passed", 0),
        failed=counts.get("failed", 0),
        skipped=counts.get("skipped", 0),
        took_s=round(time.monotonic() - begun_s),
    )
    lines = printed.strip().splitlines() or [""]
    print("\n".join(lines[-1:] if row.is_good else lines[-_LAST_LINES:]), flush=True)
    return row


def counted(junit: str) -> dict[str, int]:
    """The numbers of tests that passed, failed and were skipped, by pytest's own report."""
    suites = list(ElementTree.fromstring(junit).iter("testsuite"))  # noqa: S314 - pytest wrote it
    total, failures, errors, skipped = (
        sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return {"passed": total - failures - errors - skipped, "failed": failures + errors, "skipped": skipped}


if __name__ == "__main__":
    main()
