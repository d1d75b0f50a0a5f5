"""What the linter checks: one pure function per rule, from a graph to its findings.

A rule is named after its function. It yields ``(node, problem, cure)`` for every node that breaks it and
judges only what no other rule judges, so that one mistake gives one finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import onnx_ir as ir

Finding: TypeAlias = tuple[str, str, str]
"""Node, what is wrong with it (with the value), what to do."""

Rule: TypeAlias = Callable[[ir.Model], Iterable[Finding]]
