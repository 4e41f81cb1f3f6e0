"""The other pytest of a comparison of code, as this one sees it: here, a program that speaks as one."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterLostError, UsageError
from pytest_kafkaperf.plugin.peer_side import PeerSide
from pytest_kafkaperf.runner import peer
from pytest_kafkaperf.runner.checkout import Checkout
from pytest_kafkaperf.runner.peer import IncomparableTestError, NewTestError, Peer
from pytest_kafkaperf.runner.peer_messages import INTERPRETER, ORIGIN, PROTOCOL, SOCKET
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.settings import parse_revision

OWN = Cluster(bootstrap_servers="127.0.0.1:1", brokers=1, provider="local", version="4.1.0")
NEW = "tests/test_b.py::test_new"


@contextlib.contextmanager
def opened(folder: Path, hello: Mapping[str, object] | None, *, before: bytes = b"") -> Iterator[Peer]:
    """A peer that says this, or nothing, and then waits for the end of the connection."""
    program, said = folder / "python", before + f"{json.dumps(hello)}\n".encode()
    lines = [
        f"#!{sys.executable}",
        "import os, socket",
        f"end = socket.socket(fileno=int(os.environ[{SOCKET!r}]))",
        *([] if hello is None else [f"end.sendall({said!r})"]),
        "end.recv(1)",
    ]
    program.write_text("\n".join(lines))
    program.chmod(0o700)
    revision = parse_revision("path:other", start=folder)
    assert revision is not None
    one = Peer(revision, Checkout(root=folder, python=str(program), commit=None), [], files=[], root=folder)
    try:
        yield one
    finally:
        one.close()


def test_an_interpreter_that_cannot_run_is_an_error_of_the_option(tmp_path: Path) -> None:
    """Such as a script of an environment that was moved: its first line names a program that is gone."""
    program = tmp_path / "python"
    program.write_text("#!/nowhere/python\n")
    program.chmod(0o700)
    revision = parse_revision("path:other", start=tmp_path)
    assert revision is not None
    checkout = Checkout(root=tmp_path, python=str(program), commit=None)
    with pytest.raises(UsageError, match="^--kafka-compare=path:.*: cannot run .*python: .*No such file"):
        Peer(revision, checkout, [], files=[], root=tmp_path)


def test_a_live_baseline_that_hangs_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each later test would wait as long again, and a run has many."""
    with opened(tmp_path, None) as hanging:
        monkeypatch.setattr(peer, "_HELLO_TIMEOUT_S", 0.2)
        with pytest.raises(ClusterLostError, match="did not start within"):
            hanging.hello()
        monkeypatch.setattr(peer, "_HELLO_TIMEOUT_S", 5)
        with pytest.raises(ClusterLostError, match="has exited"):
            hanging.begin(NEW, [])


def test_a_test_is_new_only_if_everything_in_its_file_was_collected(tmp_path: Path) -> None:
    """An error or a plugin there may hide a test, which would no longer be gated; errors elsewhere do not."""
    hello = {
        "protocol": PROTOCOL,
        "packages": {},
        "collected": [],
        "problems": {
            "tests/test_a.py": "ImportError: no module named orders",
            "tests/test_c.py::test_left_out": "deselected",
        },
        "refused": None,
    }
    with opened(tmp_path, hello) as other:
        other.begin(NEW, [])
        for nodeid in (NEW, "tests/test_c.py::test_left"):
            with pytest.raises(NewTestError, match="^the test is new: .*, does not have it$"):
                other.test(nodeid, Side.of(OWN))
        problem = "could not collect the test: ImportError: no module named orders$"
        with pytest.raises(IncomparableTestError, match=problem):
            other.test("tests/test_a.py::test_one", Side.of(OWN))
        with pytest.raises(IncomparableTestError, match="could not collect the test: deselected$"):
            other.test("tests/test_c.py::test_left_out", Side.of(OWN))


@pytest.mark.parametrize("collector", ["", ".", "tests"])
def test_an_error_of_a_folder_counts_for_all_tests_in_it(tmp_path: Path, collector: str) -> None:
    """Such as that of a package, whose files are then not collected."""
    problems = {collector: "SyntaxError"}
    hello = {"protocol": PROTOCOL, "packages": {}, "collected": [], "problems": problems, "refused": None}
    with opened(tmp_path, hello) as other, pytest.raises(IncomparableTestError, match="SyntaxError$"):
        other.test(NEW, Side.of(OWN))


def test_one_that_imports_this_sides_code_is_refused_at_once(tmp_path: Path) -> None:
    """Before any of its brokers starts."""
    hello = {"protocol": PROTOCOL, "packages": {}, "collected": [NEW], "problems": {}, "refused": "it uses orders"}
    with opened(tmp_path, hello) as other, pytest.raises(UsageError, match="^the baseline, .*: it uses orders$"):
        other.begin(NEW, [])


def test_a_test_that_is_repeated_there_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another plugin may run it again, after an error in its teardown; this side waits for no second reply."""
    ours, theirs = socket.socketpair()
    monkeypatch.setenv(SOCKET, str(theirs.detach()))
    monkeypatch.setenv(ORIGIN, "/elsewhere")
    monkeypatch.setenv(INTERPRETER, sys.executable)
    side = PeerSide()
    with ours, pytest.raises(pytest.skip.Exception, match="the other side has already measured this test"):
        side.serve(Side.of(OWN))


NOISE = [
    b"DEBUG connected\n",
    b"\xff\xfe\n",
    b"[1, 2]\n",
    b'"text"\n',
    b"[" * 100_000 + b"\n",
    b'{"id": 7}\n',
    b'{"id": []}\n',
    b"{}\n",
]


@pytest.mark.parametrize("noise", NOISE, ids=[repr(each[:12]) for each in NOISE])
def test_a_line_that_is_no_message_changes_nothing(tmp_path: Path, noise: bytes) -> None:
    """A test there may close a file twice, and then write into the connection; this side waited for ten minutes."""
    hello = {"protocol": PROTOCOL, "packages": {}, "collected": [], "problems": {}, "refused": None}
    with opened(tmp_path, hello, before=noise) as other:
        assert other.hello() == hello


def test_lines_that_are_no_messages_are_told_where_an_answer_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them may have been half of the answer."""
    monkeypatch.setattr(peer, "_HELLO_TIMEOUT_S", 2)
    with (
        opened(tmp_path, {"id": 9}, before=b"noise\n") as other,
        pytest.raises(ClusterLostError, match="wrote 2 lines"),
    ):
        other.hello()
