"""Models DQ → operator → Q with random parameters, as ONNX Runtime and the reference run them.

ONNX Runtime fuses them as it does with any quantized model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

from calib8.program.expressions import Attributes
from calib8.program.instructions import Instruction
from calib8.program.ops.operand import Operand
from calib8.program.program import Slot
from calib8.qparams import QParams

Array = npt.NDArray[Any]
CASES = 200
TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


@dataclass(frozen=True)
class Case:
    """One random set of quantization parameters and the generator of the rest."""

    rng: np.random.Generator
    dtype: str
    x: QParams
    y: QParams

    def codes(self, *shape: int) -> Array:
        info = np.iinfo(self.dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(self.dtype)


def cases(*, same: bool = False, output: tuple[float, float] | None = None, count: int = CASES) -> list[Case]:
    """Alternating types; every third case keeps scale and zero point, as ``same`` makes all of them."""
    found = []
    for number in range(count):
        rng = np.random.default_rng(number)
        dtype = ("uint8", "int8")[number % 2]
        info = np.iinfo(dtype)
        x = QParams(float(np.float32(10 ** rng.uniform(-3, 0))), int(rng.integers(info.min, info.max + 1)))
        low, high = output or (x.scale / 4, x.scale * 2)
        y = QParams(float(np.float32(rng.uniform(low, high))), int(rng.integers(info.min, info.max + 1)))
        found.append(Case(rng, dtype, x, x if same or (output is None and number % 3 == 0) else y))
    return found


def quantized(
    case: Case, op: str, shape: Sequence[int], attributes: Attributes, constants: Mapping[str, Array]
) -> ModelProto:
    """DQ → op → Q; an empty array stands for an omitted input."""
    parameters = {
        "x_scale": np.float32(case.x.scale),
        "x_zero_point": np.array(case.x.zero_point, case.dtype),
        "y_scale": np.float32(case.y.scale),
        "y_zero_point": np.array(case.y.zero_point, case.dtype),
    }
    given = {name: array for name, array in constants.items() if array.size}
    names = [name if name in given else "" for name in constants]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero_point"], ["x_real"]),
        helper.make_node(op, ["x_real", *names], ["y_real"], **attributes),
        helper.make_node("QuantizeLinear", ["y_real", "y_scale", "y_zero_point"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in {**parameters, **given}.items()]
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", TYPES[case.dtype], list(shape))],
        [helper.make_tensor_value_info("y", TYPES[case.dtype], None)],
        tensors,
    )
    opset, ir_version = (23, 11) if op == "RMSNormalization" else (20, 10)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def run_onnx(
    case: Case,
    op: str,
    data: Array,
    attributes: Attributes | None = None,
    constants: Mapping[str, Array] | None = None,
    *,
    fused: bool = True,
) -> Array:
    """What ONNX Runtime makes of the codes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    if not fused:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = quantized(case, op, data.shape, attributes or {}, constants or {})
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": data})[0])


def slot(case: Case, name: str, parameters: QParams, shape: Sequence[int]) -> Slot:
    scale = np.array([parameters.scale], np.float32)
    return Slot(name, tuple(shape), case.dtype, scale, parameters.zero_point)


def kernel(case: Case, function: Any, step: Instruction, data: Array, shape: Sequence[int]) -> Array:
    """One instruction of the reference."""
    operand = Operand(slot(case, "x", case.x, data.shape), data)
    result = function(step, [operand], slot(case, "y", case.y, shape))
    assert result.shape == tuple(shape)
    return np.asarray(result)


def nhwc(data: Array) -> Array:
    return np.ascontiguousarray(data.transpose(0, 2, 3, 1))


def scalar(value: float) -> Array:
    return np.array(value, np.float32)
