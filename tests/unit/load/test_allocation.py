"""Who makes the load: what `--kafka-workers` takes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.load.allocation import WorkerAllocation, parse_workers
from pytest_kafkaperf.plugin.option_values import read_settings

HERE = Path("/project")


@pytest.mark.parametrize(
    ("text", "allocation"),
    [
        ("1", WorkerAllocation(producing=1, consuming=1, reason="--kafka-workers=1")),
        (" 12 ", WorkerAllocation(producing=12, consuming=12, reason="--kafka-workers=12")),
        ("dask://scheduler", WorkerAllocation(scheduler="scheduler:8786", reason="--kafka-workers=dask://scheduler")),
        ("dask://10.0.0.3:80", WorkerAllocation(scheduler="10.0.0.3:80", reason="--kafka-workers=dask://10.0.0.3:80")),
        ("dask://[::1]:8786", WorkerAllocation(scheduler="[::1]:8786", reason="--kafka-workers=dask://[::1]:8786")),
    ],
)
def test_workers_are_a_number_or_a_dask_cluster(text: str, allocation: WorkerAllocation) -> None:
    """The port is Dask's own where none is named."""
    assert parse_workers(text) == allocation


@pytest.mark.parametrize(
    "text",
    [
        *("0", "1001", "-1", "many", "", "scheduler:8786", "dask://", "dask://a:b", "dask://a/b", "dask://::1"),
        *("dask://user:word@a", "dask://a:0", "dask://a:65536"),
    ],
)
def test_anything_else_is_refused_with_what_is_valid(text: str) -> None:
    """Before any load, and by its name."""
    with pytest.raises(UsageError) as raised:
        parse_workers(text)
    assert str(raised.value) == (
        f"--kafka-workers={text}: must be 1 to 1000 worker processes of each kind, such as 4, or a Dask scheduler, "
        "dask://HOST[:PORT], such as dask://scheduler:8786 or dask://[::1]:8786"
    )


def test_without_dask_the_option_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra, and asked for at once, not after the brokers have started."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError) as raised:
        read_settings({"workers": "dask://a"}, {}, invocation_folder=HERE, root=HERE)
    assert str(raised.value) == (
        "--kafka-workers=dask://a: Dask is not installed; install it with: pip install 'pytest-kafkaperf[dask]'"
    )
    assert read_settings({"workers": "2"}, {}, invocation_folder=HERE, root=HERE).workers == parse_workers("2")


def test_the_command_line_outranks_the_ini_file() -> None:
    """As with every option."""
    read = read_settings({"workers": "2"}, {"workers": "3"}, invocation_folder=HERE, root=HERE)
    assert read.workers == parse_workers("2")
    assert read_settings({}, {"workers": "3"}, invocation_folder=HERE, root=HERE).workers == parse_workers("3")
    assert read_settings({}, {}, invocation_folder=HERE, root=HERE).workers == WorkerAllocation()
