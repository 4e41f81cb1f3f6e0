"""One scenario of pytest-kafkaperf in a separate process: `python run_ours.py SERVERS SCENARIO_AS_JSON`.

A payload function is given by its module and name: `"payload": "tests.support.generated:order"`.

Prints `{"metrics": {name: value}, "cpu_s": seconds}` in one line. The load runs in the workers that `measure`
starts, as under pytest. `cpu_s` is the CPU of children that are still running and that this process does not wait for
(multiprocessing's resource tracker); the parent of this process counts the rest.
"""

from __future__ import annotations

import json
import os
import pkgutil
import sys
from pathlib import Path

import psutil

from pytest_kafkaperf import measure


def main() -> None:
    """Run the scenario and print its metrics."""
    servers, fields = sys.argv[1:]
    scenario = json.loads(fields)
    if "payload" in scenario:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        scenario["payload"] = pkgutil.resolve_name(scenario["payload"])
    workers = str(os.cpu_count())  # given, so that no load has to find it
    measured = measure(scenario, servers, workers=workers, allow_unlimited=True)
    for warning in measured.warnings:
        print(warning, file=sys.stderr)
    spent = [child.cpu_times() for child in psutil.Process().children()]
    print(
        json.dumps(
            {"metrics": dict(measured.rounds[0].metrics), "cpu_s": sum(each.user + each.system for each in spent)}
        )
    )


if __name__ == "__main__":
    main()
