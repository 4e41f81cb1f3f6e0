"""The entry point: imports the hooks with Python's own importer, because every pytest run waits for it.

pytest's importer looks for assertions in a plugin's modules. For this, it parses them into Python objects, and it does
not use the bytecode that pip compiles during the installation.

PYTEST_DONT_REWRITE: pytest would otherwise look for assertions here in every run without cached bytecode.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING

from pytest_kafkaperf import plugin

if TYPE_CHECKING:
    from types import ModuleType


def _imported(module: str) -> ModuleType:
    """Return a module of this package, which later `import` statements find in `sys.modules`."""
    name = f"{plugin.__name__}.{module}"
    if name in sys.modules:
        return sys.modules[name]
    spec = PathFinder.find_spec(name, plugin.__path__)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"the installation of pytest-kafkaperf is incomplete: {name} is missing", name=name)
    found = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(found)
    except BaseException:
        sys.modules.pop(name, None)  # as Python's importer does; otherwise, later imports would get half a module
        raise
    setattr(plugin, module, found)
    return found


for _module in ("items", "options"):  # the modules that the hooks import
    _imported(_module)
hooks = _imported("hooks")
