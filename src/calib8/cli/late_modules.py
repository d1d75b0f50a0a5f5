"""Heavy modules that others import in case they need them, loaded at their first use instead.

onnx-ir imports SymPy for arithmetic with sizes of unknown length. SymPy takes a third of a second and 30 MB,
and hardly any command calculates with such sizes.

    import onnx_ir → import sympy         the module is there, empty
    sympy.Max                             now it is loaded

Only the command line does this: which modules a process loads, and when, is not for a library to decide.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Final

LATE: Final = frozenset({"sympy", "onnx_ir._symbolic_shapes"})
"""SymPy, and the one module of onnx-ir that uses it while it is imported."""


class LateModules(MetaPathFinder):
    """Finds the modules of ``LATE`` and loads them when something of them is first asked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As the import system asks for it; None for every other module, and for one that is not there."""
        if fullname not in LATE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def load_late() -> None:
    """From now on the modules of ``LATE`` that are not loaded yet wait for their first use."""
    if not any(isinstance(finder, LateModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, LateModules())
