"""The CPU time of compiler threads."""

from __future__ import annotations

import os
import sys

import pytest

from pytest_kafkaperf.clusters.monitoring.compiler import Log, ThreadFiles, Usage, jcmd_threads

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc")

PRINTED = """
"main" #1 [42] prio=5 os_prio=0 cpu=61.17ms elapsed=9.10s tid=0x1 nid=42 waiting on condition
"C2 CompilerThread0" #20 [51] daemon prio=9 os_prio=0 cpu=1234.50ms elapsed=9.00s tid=0x2 nid=51 runnable
"C1 CompilerThread0" #28 [52] daemon prio=9 os_prio=0 cpu=300.00ms elapsed=9.00s tid=0x3 nid=52 waiting
"JIT Compilation Thread-000" #2 daemon prio=10 cpu=0.25ms tid=0x4 nid=53 waiting
"C2H5OH" #99 prio=5 os_prio=0 cpu=7777.00ms elapsed=9.10s tid=0x5 nid=54 waiting on condition
"""


def test_compiler_threads_are_found_in_what_jcmd_prints() -> None:
    """On macOS there is no other way to see them."""
    assert list(jcmd_threads(PRINTED)) == [(20, 1.2345), (28, 0.3), (2, 0.00025)]


def test_the_share_is_that_of_the_period() -> None:
    """Work before the window opened does not count."""
    usage = Usage(at_ns=(0, 1_000_000_000, 2_000_000_000), cpu_s=(5.0, 5.75, 5.75))
    assert usage.share(0, 1_000_000_000) == pytest.approx(0.75)
    assert usage.share(500_000_000, 1_500_000_000) == pytest.approx(0.375)
    assert usage.share(1_000_000_000, 2_000_000_000) == 0


def test_a_period_that_was_hardly_observed_is_unknown() -> None:
    """Unknown is not idle."""
    usage = Usage(at_ns=(0, 1_000_000_000), cpu_s=(0.0, 0.0))
    assert usage.share(500_000_000, 3_000_000_000) is None
    assert usage.share(2_000_000_000, 3_000_000_000) is None
    assert usage.share(500_000_000, 1_500_000_000) == 0


def test_a_thread_that_ends_keeps_its_last_value() -> None:
    """HotSpot stops compiler threads that it does not need at the moment."""
    log = Log()
    for threads in ({(7, 1): 2.0, (8, 1): 1.0}, {(7, 1): 2.5}, {(7, 1): 2.5, (7, 9): 0.25}):
        log.add(threads)
    assert log.cpu_s == [3.0, 3.5, 3.75]


def test_a_program_is_unknown_until_it_shows_a_compiler_thread() -> None:
    """A zero would mean that its compiler is idle."""
    log = Log()
    log.add({})
    assert log.usage() is None
    log.add({(7, 1): 2.0})
    assert log.usage() is None
    log.add({(7, 1): 2.0})
    assert log.usage() is not None


@linux
def test_a_program_without_a_compiler_has_no_thread() -> None:
    """A service in Python or Go is not warm because no compiler of it is busy."""
    assert ThreadFiles(os.getpid(), with_children=True).read() == {}
