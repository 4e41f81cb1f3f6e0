"""The hash of a payload function's source."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.runner.rounds.samples import with_content
from pytest_kafkaperf.scenarios.payloads import Generated
from pytest_kafkaperf.scenarios.scenario import Scenario

Write = Callable[[str, str], Path]
ORDER = "def order(index, random): return b'%d' % index\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a module that can be imported until the test ends."""
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        importlib.invalidate_caches()
        return path

    return written


def content(module: str) -> Generated:
    """Return the function `order` of a module as a load gets it."""
    function: Any = importlib.import_module(module).order
    payload = with_content(Scenario.of({"payload": function})).payload
    assert isinstance(payload, Generated)
    return payload


def test_a_payload_function_has_a_hash_and_a_mean_size(write: Write) -> None:
    """A baseline stores the hash; both stay the same in every load."""
    write("kp_orders.py", ORDER)
    found = content("kp_orders")
    assert found == content("kp_orders")
    assert found.sha256 is not None
    assert (len(found.sha256), found.mean_bytes) == (64, 1.9)  # 10 indexes of one digit, and 90 of two


LAYOUTS = {
    "own": ("kp_orders", {"kp_orders.py": ORDER}, "kp_orders.py"),
    "import": ("kp_orders", {"kp_orders.py": f"import kp_prices\n{ORDER}", "kp_prices.py": ""}, "kp_prices.py"),
    "from": (
        "kp_orders",
        {"kp_orders.py": f"from kp_prices import PRICE\n{ORDER}", "kp_prices.py": "PRICE = 1\n"},
        "kp_prices.py",
    ),
    "indirect": (
        "kp_orders",
        {"kp_orders.py": f"import kp_prices\n{ORDER}", "kp_prices.py": "import kp_taxes\n", "kp_taxes.py": ""},
        "kp_taxes.py",
    ),
    "in the function": (
        "kp_orders",
        {
            "kp_orders.py": "def order(index, random):\n    import kp_prices\n    return b'1'\n",
            "kp_prices.py": "",
        },
        "kp_prices.py",
    ),
    "circular": (
        "kp_orders",
        {"kp_orders.py": f"import kp_prices\n{ORDER}", "kp_prices.py": "import kp_orders\n"},
        "kp_prices.py",
    ),
    "relative": (
        "kp_shop.orders",
        {"kp_shop/__init__.py": "", "kp_shop/orders.py": f"from . import prices\n{ORDER}", "kp_shop/prices.py": ""},
        "kp_shop/prices.py",
    ),
    "relative from": (
        "kp_shop.orders",
        {
            "kp_shop/__init__.py": "",
            "kp_shop/orders.py": f"from .prices import PRICE\n{ORDER}",
            "kp_shop/prices.py": "PRICE = 1\n",
        },
        "kp_shop/prices.py",
    ),
    "absolute": (
        "kp_shop.orders",
        {
            "kp_shop/__init__.py": "",
            "kp_shop/orders.py": f"from kp_shop.prices import PRICE\n{ORDER}",
            "kp_shop/prices.py": "PRICE = 1\n",
        },
        "kp_shop/prices.py",
    ),
    "package": (
        "kp_shop",
        {"kp_shop/__init__.py": f"from .prices import PRICE\n{ORDER}", "kp_shop/prices.py": "PRICE = 1\n"},
        "kp_shop/prices.py",
    ),
    "imported package": (
        "kp_orders",
        {
            "kp_orders.py": f"import kp_shop\n{ORDER}",
            "kp_shop/__init__.py": "from .prices import PRICE\n",
            "kp_shop/prices.py": "PRICE = 1\n",
        },
        "kp_shop/prices.py",
    ),
}


@pytest.mark.parametrize(("module", "files", "changed"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_change_of_what_the_function_uses_changes_the_hash(
    write: Write, module: str, files: dict[str, str], changed: str
) -> None:
    """The records may be others, so values of a baseline are no longer comparable."""
    for name, text in files.items():
        write(name, text)
    before = content(module)
    write(changed, f"{files[changed]}# changed\n")
    assert content(module).sha256 != before.sha256


def test_a_change_of_another_file_does_not_change_the_hash(write: Write) -> None:
    """A baseline would otherwise expire with each change of the tests next to it."""
    write("kp_orders.py", f"import json, kp_prices\n{ORDER}")
    write("kp_prices.py", "")
    write("kp_test_other.py", "")
    importlib.import_module("kp_test_other")
    before = content("kp_orders")
    write("kp_test_other.py", "# changed\n")
    write("kp_prices.txt", "changed")
    assert content("kp_orders") == before


def test_a_file_outside_the_functions_folder_does_not_change_the_hash(write: Write) -> None:
    """Installed libraries differ between machines; their versions are not part of the workload."""
    write("kp_shop/__init__.py", "")
    write("kp_library.py", "")
    write("kp_shop/orders.py", f"import kp_library\n{ORDER}")
    before = content("kp_shop.orders")
    write("kp_library.py", "# changed\n")
    assert content("kp_shop.orders") == before


def test_a_library_in_a_virtual_environment_does_not_change_the_hash(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an environment is often in the project's folder, next to the module."""
    libraries = ".venv/lib/python3/site-packages"
    (tmp_path / libraries).mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / libraries)
    write(f"{libraries}/kp_library.py", "")
    write("kp_orders.py", f"import kp_library\n{ORDER}")
    before = content("kp_orders")
    write(f"{libraries}/kp_library.py", "# changed\n")
    assert content("kp_orders") == before


def test_a_compiled_module_in_the_functions_folder_is_tolerated(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a project's virtual environment is in the same folder, every library that the function imports is."""
    native = types.ModuleType("kp_native")
    native.__file__ = str(tmp_path / "kp_native.so")
    (tmp_path / "kp_native.so").write_bytes(b"\x7fELF\x00\xff")
    monkeypatch.setitem(sys.modules, "kp_native", native)
    write("kp_orders.py", f"import kp_native\n{ORDER}")
    assert content("kp_orders").mean_bytes == 1.9


def test_a_function_that_fails_is_an_error_before_the_load(write: Write) -> None:
    """Brokers would otherwise be started for nothing."""
    write("kp_orders.py", "def order(index, random): return index\n")
    with pytest.raises(ScenarioError, match=r"^kafka_scenario: payload: kp_orders\.order returned the value 0; return"):
        content("kp_orders")
