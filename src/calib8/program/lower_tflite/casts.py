"""CAST: the numbers of a tensor as another type, whatever its codes stand for.

    codes → codes        a table of all codes; 200 as int8 is −56
    codes → float32      Dequantize with scale 1 and zero point 0
    float32 → integers   without the fraction, saturated; not-a-number as the largest
    all others           Cast of ONNX

The last two are Float instructions.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from calib8.errors import NoFormError
from calib8.program.instructions import Dequantize, Float
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.chain import reinterpret, same_meaning
from calib8.program.program import Slot
from calib8.tflite.graph import Operator

TYPES: Final = {
    "float32": TensorProto.FLOAT,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}
"""Types that ONNX Runtime casts as LiteRT does."""

OPSET: Final = 13
IR_VERSION: Final = 8


def cast(builder: Builder, operator: Operator) -> None:
    """Plain numbers of the other type."""
    source, target = builder.number(operator.inputs[0]), builder.number(operator.outputs[0])
    old, new = builder.slots[source], builder.slots[target]
    if old.shape != new.shape:
        raise NoFormError(f"it makes {list(new.shape)} of {list(old.shape)}")
    if old.is_codes and new.is_codes:
        reinterpret(builder, operator, source, target)
    elif old.is_codes and new.dtype == "float32":
        _to_float(builder, operator, source, target)
    else:
        builder.steps.append(_float(builder.name(operator), (source, old), (target, new)))


def _to_float(builder: Builder, operator: Operator, source: int, target: int) -> None:
    """Through codes of scale 1, which stand for themselves."""
    old = builder.slots[source]
    plain = Slot(f"{builder.name(operator)}/plain", old.shape, old.dtype, np.ones(1, np.float32))
    if not same_meaning(old, plain):
        number = builder.add(plain)
        reinterpret(builder, operator, source, number)
        source = number
    axes = tuple(range(len(old.shape)))
    builder.steps.append(Dequantize(builder.name(operator), (source,), (target,), axes))


def _float(name: str, source: tuple[int, Slot], target: tuple[int, Slot]) -> Float:
    """The Float instruction between two slots, each given with its number.

    Raises:
        NoFormError: a type that is not cast, or names that a sub-model cannot have.
    """
    (old_number, old), (new_number, new) = source, target
    for slot in (old, new):
        if slot.dtype not in TYPES:
            raise NoFormError(f"it casts {old.dtype} to {new.dtype}")
    if not old.name or not new.name or old.name == new.name:
        raise NoFormError(
            f"its tensors are called '{old.name}' and '{new.name}': give each a name of its own"
        )
    nodes, constants = [_cast(old.name, new.name, new.dtype)], list[onnx.TensorProto]()
    if old.dtype == "float32" and np.dtype(new.dtype).kind in "iu":
        nodes, constants = _saturated(old, new)
    ports = [helper.make_tensor_value_info(slot.name, TYPES[slot.dtype], slot.shape) for slot in (old, new)]
    graph = helper.make_graph(nodes, "cast", ports[:1], ports[1:], constants)
    opsets = [helper.make_operatorsetid("", OPSET)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    data = model.SerializeToString(deterministic=True)
    reason = f"no instruction casts {old.dtype} to {new.dtype}"
    return Float(name, (old_number,), (new_number,), data, (name or "cast",), (reason,))


def _cast(source: str, target: str, dtype: str) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], to=TYPES[dtype])


def _saturated(old: Slot, new: Slot) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Nodes and constants: ``x < largest + 1 ? int(max(x, smallest)) : largest``."""
    limits, prefix = np.iinfo(new.dtype), f"{new.name}/"
    values: dict[str, npt.NDArray[Any]] = {
        "smallest": np.array(limits.min, np.float32),
        "beyond": np.array(float(limits.max) + 1, np.float32),
        "largest": np.array(limits.max, np.int64),
    }
    nodes = [
        helper.make_node("Less", [old.name, prefix + "beyond"], [prefix + "inside"]),
        helper.make_node("Max", [old.name, prefix + "smallest"], [prefix + "above"]),
        _cast(prefix + "above", prefix + "whole", "int64"),
        helper.make_node(
            "Where", [prefix + "inside", prefix + "whole", prefix + "largest"], [prefix + "wide"]
        ),
        _cast(prefix + "wide", new.name, new.dtype),
    ]
    return nodes, [numpy_helper.from_array(array, prefix + name) for name, array in values.items()]
