"""The table of ops against the standard: what its schemas say, and what its reference runtime computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, defs, helper
from onnx.reference import ReferenceEvaluator

from calib8.ops import groups
from calib8.ops.table import TABLE

Floats = npt.NDArray[np.float32]

OPSET: Final = 24
"""The first that has all ops of the table."""

OF_ONNX_RUNTIME: Final = frozenset(
    {
        "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QAttention",
        "QEmbedLayerNormalization", "QGemm",
    }
)  # fmt: skip

BY_ONNX_RUNTIME: Final = frozenset({"LRN"})
"""Of which the reference runtime takes axis 0 for the channels."""

ATTRIBUTES: Final[Mapping[str, Mapping[str, Any]]] = {
    "AveragePool": {"kernel_shape": [2, 2]},
    "Concat": {"axis": 1},
    "DepthToSpace": {"blocksize": 2},
    "LRN": {"size": 3},
    "LpPool": {"kernel_shape": [2, 2]},
    "MaxPool": {"kernel_shape": [2, 2]},
    "Resize": {"mode": "nearest"},
    "SpaceToDepth": {"blocksize": 2},
    "Split": {"num_outputs": 2, "axis": 1},
}

PARAMETERS: Final[Mapping[str, tuple[Any, ...]]] = {
    "BatchNormalization": tuple(np.array([1.5, 0.5, 2.0, 1.0], np.float32) + k for k in range(4)),
    "Clip": (np.float32(-0.5), np.float32(0.75)),
    "Conv": (np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 4, 2, 2),),
    "ConvTranspose": (np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 2, 2, 2),),
    "Expand": (np.array([2, 4, 2, 6], np.int64),),
    "Gather": (np.array([1, 0, 1], np.int64),),
    "GatherElements": (np.ones((2, 4, 2, 6), np.int64),),
    "GatherND": (np.array([[1, 3], [0, 0]], np.int64),),
    "GroupNormalization": (np.array([1.0, 2, 3, 4], np.float32), np.zeros(4, np.float32)),
    "InstanceNormalization": (np.array([1.0, 2, 3, 4], np.float32), np.zeros(4, np.float32)),
    "PRelu": (np.array([0.25, -0.5, 2, 0], np.float32).reshape(4, 1, 1),),
    "Pad": (np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), np.float32(0.0)),
    "Reshape": (np.array([0, -1], np.int64),),
    "Resize": (np.array([], np.float32), np.array([1, 1, 2, 2], np.float32)),
    "Slice": (np.array([1], np.int64), np.array([5], np.int64), np.array([3], np.int64)),
    "Tile": (np.array([1, 1, 2, 1], np.int64),),
    "Unsqueeze": (np.array([1], np.int64),),
}
"""Inputs behind the data, for data [N, 4, 2, 6]."""

ON_NUMBERS: Final = (groups.FUNCTIONS | groups.ARITHMETIC | groups.POOLS | groups.REDUCTIONS) - {
    "Pow",
    "ReduceLogSum",
}
"""Ops that compute numbers of any numbers."""

DRAWN: Final = np.random.default_rng(23)


def computed(name: str, *data: Floats) -> npt.NDArray[Any]:
    """The first output of a node of the op."""
    attributes = dict(ATTRIBUTES.get(name, {}))
    if name == "GroupNormalization":
        attributes["num_groups"] = 2
    inputs = [*data, *(np.asarray(one) for one in PARAMETERS.get(name, ()))]
    names = [f"x{place}" for place in range(len(inputs))]
    outputs = [f"y{place}" for place in range(attributes.get("num_outputs", 1))]
    node = helper.make_node(name, names, outputs, **attributes)
    values = [
        helper.make_tensor_value_info(one, helper.np_dtype_to_tensor_dtype(array.dtype), None)
        for one, array in zip(names, inputs, strict=True)
    ]
    results = [helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in outputs]
    graph = helper.make_graph([node], "g", values, results)
    opset = 17 if name in BY_ONNX_RUNTIME else OPSET
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    run = open_session(model) if name in BY_ONNX_RUNTIME else ReferenceEvaluator(model)
    with np.errstate(all="ignore"):
        return np.asarray(run.run(None, dict(zip(names, inputs, strict=True)))[0])


def open_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def values(rows: int = 2) -> Floats:
    return DRAWN.normal(0.0, 2.0, (rows, 4, 2, 6)).astype(np.float32)


def operands(name: str) -> list[Floats]:
    return [values() for _ in range(2 if TABLE[name].data in (None, (0, 1)) else 1)]


def schema_of(name: str) -> defs.OpSchema:
    return defs.get_schema(name, OPSET)


def types_of(name: str, place: int) -> set[str]:
    """Types that the standard takes at a place of the inputs."""
    schema = schema_of(name)
    formal = schema.inputs[min(place, len(schema.inputs) - 1)]
    return set(formal.types)


STANDARD: Final = sorted(TABLE.keys() - OF_ONNX_RUNTIME)


@pytest.mark.parametrize("name", STANDARD)
def test_the_standard_has_every_op_and_place_of_the_table(name: str) -> None:
    op, schema = TABLE[name], schema_of(name)
    places = [*(op.data or ()), *op.bounds, *op.settings]
    places += [place for place in (op.weight, op.bias) if place is not None]
    if op.family not in ("control", "recurrent"):
        assert max(places, default=0) < len(schema.inputs)
    variadic = bool(schema.inputs) and schema.inputs[0].option == defs.OpSchema.FormalParameterOption.Variadic
    assert (op.data is None) == (variadic and op.family != "control")


PLACES: Final = {
    "Conv": "W B", "ConvTranspose": "W B", "Gemm": "B C", "MatMul": "B", "ConvInteger": "w",
    "MatMulInteger": "B", "QLinearConv": "w B", "QLinearMatMul": "b", "Clip": "min max", "Where": "X Y",
    "Pad": "constant_value", "Resize": "roi scales", "QuantizeLinear": "y_scale y_zero_point",
    "DequantizeLinear": "x_scale x_zero_point",
}  # fmt: skip
"""What the standard calls weight and bias, bounds and settings, and data that are not the first input."""


def test_places_are_those_that_the_standard_names() -> None:
    for name in STANDARD:
        op, inputs = TABLE[name], [formal.name for formal in schema_of(name).inputs]
        named = [op.weight, op.bias, *op.bounds, *op.settings]
        named += op.data if name == "Where" and op.data is not None else ()
        found = [inputs[place] for place in named if place is not None]
        assert found == PLACES.get(name, "").split(), name
        assert (op.data == (0, 1)) == (op.family == "arithmetic" and len(inputs) == 2)


def test_a_function_reads_one_tensor_and_parameters() -> None:
    for name in groups.FUNCTIONS:
        assert TABLE[name].data == (0,)
        assert schema_of(name).min_input == (2 if name == "PRelu" else 1)


@pytest.mark.parametrize("name", sorted(groups.FUNCTIONS))
def test_a_function_sees_the_value_at_its_own_place_alone(name: str) -> None:
    x = values()
    np.testing.assert_array_equal(computed(name, x[..., ::-1].copy()), computed(name, x)[..., ::-1])


def test_what_works_on_codes_takes_8_bit_integers_and_other_moves_do_not() -> None:
    for name in groups.DATA_ON_CODES:
        place = (TABLE[name].data or (0,))[0]
        assert "tensor(int8)" in types_of(name, place), name
    assert "tensor(int8)" not in types_of("GlobalMaxPool", 0)
    assert {"GlobalMaxPool"} == groups.FLOAT_ONLY


@pytest.mark.parametrize("name", sorted(groups.LIMITED))
def test_limits_hold_and_are_reached_but_for_a_little(name: str) -> None:
    low, high = groups.LIMITED[name]
    inside = name in ("Acos", "Asin")
    x = np.linspace(-1, 1, 48) if inside else np.linspace(-100, 100, 48)
    y = computed(name, x.astype(np.float32).reshape(1, 4, 2, 6))
    assert y.min() >= np.float32(low) and y.max() <= np.float32(high)
    assert (y.max() - y.min()) >= 0.98 * (high - low)


@pytest.mark.parametrize("name", sorted(ON_NUMBERS))
def test_a_positive_factor_goes_through_those_that_scale_and_no_others(name: str) -> None:
    data = operands(name)
    twice = computed(name, *(4.0 * one for one in data)) - 4.0 * computed(name, *data)
    scales = bool(np.all(np.abs(np.nan_to_num(twice)) < 1e-4))
    assert scales == (name in groups.SCALING)


@pytest.mark.parametrize("name", sorted(groups.MOVES | groups.KEEPING - {"Dropout"}))
def test_what_moves_yields_values_of_its_data_as_its_kind_says(name: str) -> None:
    data = operands(name)
    found = computed(name, *data).reshape(-1)
    before = np.concatenate([one.reshape(-1) for one in data])
    kind = TABLE[name].moves
    known = np.isin(found, before)
    assert known.all() if kind != "padded" else set(found[~known]) == {0.0}
    if kind in ("same", "reshaped"):
        assert np.array_equal(found, before)
    if name in groups.SAME_VALUES or kind in ("joined", "padded"):
        assert np.isin(before, found).all()
    if name in groups.ARRANGING_OPS:
        assert np.unique(found).size == found.size


@pytest.mark.parametrize("name", sorted(groups.ROW_BY_ROW))
def test_rows_come_one_by_one(name: str) -> None:
    first, second = values(1), values(1)
    both = computed(name, np.concatenate([first, second]))
    apart = np.concatenate([computed(name, first), computed(name, second)])
    np.testing.assert_allclose(both, apart, rtol=1e-5, atol=1e-6)


def test_neutral_numbers_leave_the_other_operand() -> None:
    for name, number in groups.NEUTRAL.items():
        x = values()
        np.testing.assert_array_equal(computed(name, x, np.full_like(x, number)), x)


def test_groups_that_name_ops_themselves_hold_ops_of_their_family() -> None:
    assert groups.CLAMPS < groups.FUNCTIONS
    assert groups.MATRIX_PRODUCTS < groups.WEIGHTED_OPS
    assert groups.AVERAGE_POOLS | groups.GLOBAL_POOLS < groups.POOLS
    assert groups.SAME_VALUES.isdisjoint(groups.COMPARING)
