"""Print the tests that were skipped because the machine was too busy for their load, from a JUnit file.

Run as a script: `.ci/too_slow.py JUNIT_FILE`.
"""

import sys
from xml.etree import ElementTree as ET

REASON = "this machine is too slow"


def skipped(junit: str) -> list[str]:
    """Return the tests' node IDs. In this project, tests are functions, so a class name is the path of a file."""
    cases = ET.parse(junit).iter("testcase")  # noqa: S314 - written by pytest
    return [
        f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"
        for case in cases
        if any(REASON in one.get("message", "") for one in case.iter("skipped"))
    ]


if __name__ == "__main__":
    print("\n".join(skipped(sys.argv[1])))
