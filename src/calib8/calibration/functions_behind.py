"""The functions that alone read a tensor, as what they make of values: run by ONNX Runtime.

    t ─► Sigmoid ─► Mul(t, ·) ─► …        t → x · sigmoid(x)
    t ─► PRelu ─► …                       t → one function per slope, of many slopes a sample
    t ─► HardSwish ─► Mul v ─► …          t → HardSwish; the layers behind take a factor per channel back

Only where every value goes the same way: slopes of a PRelu may differ from channel to channel, as a histogram
of all channels says enough of what lies left and right of 0. What else differs (a factor before the function,
an addend) would need a histogram of each. Multiples and sums with a number are no functions of interest: the
error behind them is the error before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.calibration.decide import AUTO
from calib8.calibration.ranges import BEHIND
from calib8.calibration.ranges.mse_behind import Floats, Function
from calib8.model.graph import activation_inputs, constant, opset_version
from calib8.model.runtime import Session, open_session
from calib8.ops.groups import BINARY_OPS
from calib8.ops.questions import has_slopes, multiplies
from calib8.passes.functions import TensorFunction, tensor_functions

VERSIONS: Final = 16
"""Most slopes that are looked at, evenly among the sorted ones."""

_LINEAR: Final = BINARY_OPS | {"Neg"}


def functions_for(method: str, model: ir.Model) -> Mapping[str, Function]:
    """What ``functions_behind`` finds, for the methods that want it; else none."""
    return functions_behind(model) if method in (BEHIND, AUTO) else {}


def functions_behind(model: ir.Model) -> Mapping[str, Function]:
    """Tensor → the function that alone reads it, where there is one of interest.

    Args:
        model: a prepared float graph.
    """
    version = opset_version(model)
    found = {
        one.source.name or "": _Behind(*_of_interest(one), version)
        for one in tensor_functions(model)
        if one.is_sole_reader
    }
    return {name: function for name, function in found.items() if function.nodes}


def _of_interest(function: TensorFunction) -> tuple[ir.Value, tuple[ir.Node, ...]]:
    """Source and nodes of what is to be looked at; no nodes where that is a straight line or no function."""
    nodes = list(function.nodes)
    while nodes and _is_factor_per_channel(nodes[-1]):
        nodes.pop()
    bent = any(node.op_type not in _LINEAR or len(list(activation_inputs(node))) > 1 for node in nodes)
    differing = [
        (node, index) for node in nodes for index, value in enumerate(node.inputs) if _size(value) > 1
    ]
    alike = all(has_slopes(node) and index == 1 for node, index in differing)
    return function.source, tuple(nodes) if bent and alike and len(differing) < 2 else ()


def _is_factor_per_channel(node: ir.Node) -> bool:
    return multiplies(node) and any(_size(value) > 1 for value in node.inputs)


def _size(value: ir.Value | None) -> int:
    array = constant(value)
    return 0 if array is None else array.size


@dataclass(frozen=True, eq=False)
class _Behind:
    """A function as a model [points, versions] → [points, versions] of its own."""

    source: ir.Value
    nodes: tuple[ir.Node, ...]
    opset: int

    def __call__(self, values: Floats) -> Floats:
        """What becomes of the values, [versions, points]."""
        rows = values.astype(np.float32)[:, None]
        [found] = self._session.run({"x": np.repeat(rows, self._versions, axis=1)})
        return np.ascontiguousarray(found.T, np.float64)

    @cached_property
    def _differing(self) -> npt.NDArray[np.float32]:
        """The slopes of the versions; one number that is none where there is one version."""
        for array in (constant(value) for node in self.nodes for value in node.inputs):
            if array is not None and array.size > 1:
                places = np.linspace(0, array.size - 1, min(array.size, VERSIONS)).round().astype(np.int64)
                return np.sort(array.reshape(-1))[places].astype(np.float32)
        return np.ones(1, np.float32)

    @property
    def _versions(self) -> int:
        return self._differing.size

    @cached_property
    def _session(self) -> Session:
        source = ir.Value(name="x", shape=ir.Shape([None, self._versions]), type=_FLOAT)
        values: dict[ir.Value, ir.Value] = {self.source: source}
        nodes: list[ir.Node] = []
        constants: list[ir.Value] = []
        for node in self.nodes:
            inputs: list[ir.Value | None] = []
            for value in node.inputs:
                if value is not None and value not in values:
                    values[value] = self._constant(value, len(constants))
                    constants.append(values[value])
                inputs.append(None if value is None else values[value])
            made = ir.Node("", node.op_type, inputs, list(node.attributes.values()), num_outputs=1)
            made.outputs[0].name = f"y{len(nodes)}"
            values[node.outputs[0]] = made.outputs[0]
            nodes.append(made)
        result = nodes[-1].outputs[0]
        result.type, result.shape = _FLOAT, ir.Shape([None, self._versions])
        graph = ir.Graph(
            [source], [result], nodes=nodes, initializers=constants, opset_imports={"": self.opset}, name="f"
        )
        return open_session(ir.Model(graph, ir_version=_IR_VERSION), threads=1, name="function")

    def _constant(self, value: ir.Value, number: int) -> ir.Value:
        array = constant(value)
        assert array is not None
        found = np.asarray(array.reshape(()) if array.size == 1 else self._differing)
        tensor = ir.tensor(found, name=f"k{number}")
        kind, shape = ir.TensorType(tensor.dtype), ir.Shape(found.shape)
        return ir.Value(name=tensor.name, shape=shape, type=kind, const_value=tensor)


_FLOAT: Final = ir.TensorType(ir.DataType.FLOAT)
_IR_VERSION: Final = 8
