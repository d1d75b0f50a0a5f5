"""What is known of ops is asked of ``calib8.ops``: no other room keeps a table of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from calib8.ops.groups import FUNCTIONS
from calib8.ops.table import TABLE
from calib8.program.expressions import UNARY_FUNCTIONS

SOURCE: Final = Path(__file__).parents[2] / "src" / "calib8"
SEVERAL: Final = 3

OWN: Final = {
    "analysis/rules/onnxruntime.py": 2,  # what ONNX Runtime fuses, and what it does not
    "analysis/rules/tflite.py": 2,  # what the specification of TensorFlow Lite says of scales
    "engine/emit/recurrent.py": 1,  # numbers of the functions inside cells
    "exporting/qoperator/functions.py": 1,  # attributes of ONNX Runtime's operators on codes
    "exporting/tmfile/hand_back.py": 1,  # Tengine's operators that hand scales back
    "exporting/tmfile/quantized.py": 1,  # Tengine's operators without a kernel for int8
    "exporting/tmfile/spread.py": 1,  # Tengine's operators whose results lie within what they read
    "model/from_tmfile/operators.py": 2,  # names of Tengine's operators and of ONNX's
    "model/work.py": 1,  # forms of a convolution
    "passes/functions.py": 2,  # how Mish and Gelu are spelled
    "passes/norm_terms.py": 1,  # what puts back axes that were reduced
    "passes/plain.py": 1,  # operator set since which an op means what it means
    "passes/quotients.py": 1,  # what stands before a divisor
    "passes/prepare.py": 1,  # beginnings of names
    "passes/recurrent_nodes.py": 2,  # functions inside cells
    "passes/resolve_ranges.py": 1,  # whose limits are taken for those of codes
    "passes/rewrite_leftovers.py": 1,  # what a sign is followed through
    "program/lower_tmfile/operators.py": 1,  # Tengine's operators that copy codes
    "program/lower/operators.py": 1,  # what the engine does with integers as such
    "program/cell_rules.py": 1,  # functions inside cells
    "scheme.py": 1,  # what OpenVINO fuses
    "tasks/characters.py": 1,  # what keeps the steps of a sequence
    "tasks/composition.py": 1,  # what leaves values in their places at the end of a network
    "tasks/natures.py": 2,  # what outputs went through
    "tmfile/sizes.py": 1,  # Tengine's operators whose results have the sizes of what they read
}
"""File → how many tables it may keep, and of what: none is a trait of an op. The numbers become smaller."""


def tables(path: Path) -> Iterator[int]:
    """Lines of literals that name several ops; tables of functions, one per op, are none."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Dict):
            if not all(isinstance(value, ast.Constant | ast.Tuple | ast.UnaryOp) for value in node.values):
                continue
            parts = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Set | ast.Tuple | ast.List):
            parts = node.elts
        else:
            continue
        names = {part.value for part in parts if isinstance(part, ast.Constant)}
        if len(names & TABLE.keys()) >= SEVERAL:
            yield node.lineno


def test_no_room_keeps_a_table_of_ops_beside_those_that_are_listed() -> None:
    paths = (path for path in sorted(SOURCE.rglob("*.py")) if path.parent.name != "ops")
    found = {str(path.relative_to(SOURCE)): len(list(tables(path))) for path in paths}
    assert {name: count for name, count in found.items() if count} == OWN


def test_every_function_of_the_table_has_a_formula() -> None:
    assert UNARY_FUNCTIONS.keys() == FUNCTIONS | {"Identity"}
