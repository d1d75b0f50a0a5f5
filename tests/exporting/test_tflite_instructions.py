"""All other instructions written as TFLite: the same codes in LiteRT's reference kernels."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from cases_elementwise import squared_difference
from cases_functions import rsqrt
from cases_indices import gather_nd
from example_programs import EXAMPLES, codes, plain, single
from exported import CASES, assert_exported_exactly, litert_gives, random_feeds
from litert import Kernels
from test_tflite_layers import BOUNDS, sizes, slot
from test_tflite_layers import plain as ints

from calib8.errors import UnsupportedModelError
from calib8.exporting.tflite.export import to_tflite
from calib8.program import instructions as op
from calib8.program.expressions import Apply, Constant, Source
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.program.program import Program, Slot
from calib8.program.rounding.linear import clamp, product_rule, sum_rule
from calib8.program.rounding.pools import mean_rule
from calib8.program.rounding.resize import linear_axis, nearest_indices
from calib8.program.rounding.softmax import softmax_rule
from calib8.program.rounding.tables import table
from calib8.program.rules import CodeAverage
from calib8.qparams import QParams


def shaped(rng: np.random.Generator, rank: int = 4) -> tuple[int, ...]:
    return tuple(rng.integers(1, 8, rank).tolist())


def like(source: Slot, name: str, *shape: int) -> Slot:
    return replace(source, name=name, shape=shape)


def signed(found: Slot) -> Slot:
    """int8: averages of uint8 codes round ties the other way."""
    return found if found.dtype == "int8" else replace(found, dtype="int8", zero_point=found.zero_point - 128)


def limits(rng: np.random.Generator, y: Slot) -> dict[str, int]:
    low, high = clamp("tflite", y, *BOUNDS[rng.integers(len(BOUNDS))])
    return {"low": low, "high": high}


def qparams(found: Slot) -> QParams:
    return QParams(found.scale, found.zero_point)


def binary(kind: Any) -> Any:
    def make(rng: np.random.Generator) -> Program:
        shape = shaped(rng)
        small = tuple(int(size if rng.random() < 0.7 else 1) for size in shape)
        a, b, y = slot(rng, "a", *shape), slot(rng, "b", *small), slot(rng, "y", *shape)
        if rng.random() < 0.3:
            a, b = b, a
        if kind is op.Mul:
            rule: Any = {"rescale": product_rule("tflite", a.scale, b.scale, y.scale)}
        else:
            name: Any = "add" if kind is op.Add else "sub"
            rule = {"rule": sum_rule("tflite", name, qparams(a), qparams(b), qparams(y))}
        return single(kind, [a, b], y, "tflite", **rule, **limits(rng, y))

    return make


def selection(rng: np.random.Generator) -> Program:
    shape = shaped(rng)
    a = slot(rng, "a", *shape)
    b = like(a, "b", *(int(size if rng.random() < 0.7 else 1) for size in shape))
    kind = op.Maximum if rng.random() < 0.5 else op.Minimum
    return single(kind, [a, b], like(a, "y", *shape), "tflite")


def mean(rng: np.random.Generator) -> Program:
    shape = shaped(rng)
    axes = tuple(sorted(rng.choice(4, int(rng.integers(1, 4)), replace=False).tolist()))
    kept = rng.random() < 0.5
    out = tuple(1 if axis in axes else size for axis, size in enumerate(shape) if kept or axis not in axes)
    x, y = slot(rng, "x", *shape), slot(rng, "y", *out)
    count = math.prod(shape[axis] for axis in axes)
    rule = mean_rule("tflite", x.scale, y.scale, count, "mean")
    return single(op.Mean, [x], y, "tflite", axes=axes, rescale=rule, **limits(rng, y))


def total(rng: np.random.Generator) -> Program:
    """A sum over any axes, its scale fit for it."""
    shape = shaped(rng, int(rng.integers(1, 6)))
    axes = tuple(sorted(rng.choice(len(shape), int(rng.integers(1, len(shape) + 1)), replace=False).tolist()))
    kept = rng.random() < 0.5
    out = tuple(1 if axis in axes else size for axis, size in enumerate(shape) if kept or axis not in axes)
    x, y = slot(rng, "x", *shape), slot(rng, "y", *out)
    count = math.prod(shape[axis] for axis in axes)
    y = replace(y, scales=np.float32([x.scale * math.sqrt(count) * rng.uniform(0.7, 2)]))
    rule = mean_rule("tflite", x.scale, y.scale, count, "sum")
    return single(op.Mean, [x], y, "tflite", axes=axes, rescale=rule, **limits(rng, y))


def extreme(rng: np.random.Generator) -> Program:
    shape, axis = shaped(rng), int(rng.integers(4))
    out = tuple(1 if place == axis else size for place, size in enumerate(shape))
    x = slot(rng, "x", *shape)
    kind = op.ReduceMax if rng.random() < 0.5 else op.ReduceMin
    return single(kind, [x], like(x, "y", *out), "tflite", axes=(axis,))


def arg_extreme(rng: np.random.Generator) -> Program:
    shape, axis = shaped(rng), int(rng.integers(4))
    kind = op.ArgMax if rng.random() < 0.5 else op.ArgMin
    rest = tuple(size for place, size in enumerate(shape) if place != axis)
    out = rest if rng.random() < 0.5 else (*shape[:axis], 1, *shape[axis + 1 :])
    x = slot(rng, "x", *shape)
    return single(kind, [x], plain("y", *out, dtype="int64"), "tflite", axis=axis, last=False)


def pool(kind: Any) -> Any:
    def make(rng: np.random.Generator) -> Program:
        found = sizes(rng)
        found["dilations"] = np.ones(2, int)
        kernel = found["kernel"] + 1
        pads = np.minimum(found["pads"], np.tile(kernel - 1, 2))
        count_pads = bool(rng.random() < 0.5)
        if kind is op.AveragePool and not count_pads:
            pads = np.zeros(4, int)
        image = np.maximum(found["image"], kernel)
        out = (image + pads[:2] + pads[2:] - kernel) // found["strides"] + 1
        x = signed(slot(rng, "x", 1, *ints(image), int(rng.integers(1, 9))))
        y = like(x, "y", 1, *ints(out), x.shape[3])
        fields = {"kernel": ints(kernel), "strides": ints(found["strides"]), "pads": ints(pads)}
        if kind is op.MaxPool:
            return single(op.MaxPool, [x], y, "tflite", **fields, dilations=(1, 1))
        return single(
            op.AveragePool, [x], y, "tflite", **fields, **limits(rng, y),
            count_pads=count_pads, rule=CodeAverage(),
        )  # fmt: skip

    return make


def softmax(rng: np.random.Generator) -> Program:
    shape = shaped(rng, int(rng.integers(1, 5)))
    x = slot(rng, "x", *shape)
    lowest = int(np.iinfo(x.dtype).min)
    y = codes("y", *shape, scale=1 / 256, zero_point=lowest, dtype=x.dtype)
    rule = softmax_rule("tflite", x.scale, x.dtype, qparams(y), y.dtype, shape[-1])
    return single(op.Softmax, [x], y, "tflite", rule=rule)


def concat(rng: np.random.Generator) -> Program:
    shape, axis = shaped(rng), int(rng.integers(4))
    x = slot(rng, "x0", *shape)
    parts = [shape[axis], *rng.integers(1, 4, int(rng.integers(1, 4))).tolist()]
    inputs = [like(x, f"x{n}", *shape[:axis], size, *shape[axis + 1 :]) for n, size in enumerate(parts)]
    y = like(x, "y", *shape[:axis], sum(parts), *shape[axis + 1 :])
    return single(op.Concat, inputs, y, "tflite", axis=axis)


def resize_nearest(rng: np.random.Generator) -> Program:
    have, out = rng.integers(1, 8, 2), rng.integers(1, 16, 2)
    mode = str(rng.choice(["asymmetric", "half_pixel", "align_corners", "tf_half_pixel_for_nn"]))
    rounding = str(rng.choice(["floor", "round_prefer_ceil", "round_prefer_floor", "ceil"]))
    rows, columns = (
        nearest_indices(int(a), int(b), float(np.float32(b) / np.float32(a)), mode, rounding)
        for a, b in zip(have, out, strict=True)
    )
    x = slot(rng, "x", 2, *ints(have), 3)
    y = like(x, "y", 2, *ints(out), 3)
    return single(op.ResizeNearest, [x], y, "tflite", rows=rows, columns=columns)


def resize_linear(rng: np.random.Generator) -> Program:
    have, out = rng.integers(1, 8, 2), rng.integers(1, 16, 2)
    mode = str(rng.choice(["asymmetric", "half_pixel", "align_corners"]))
    rows, columns = (
        linear_axis("tflite", int(a), int(b), float(np.float32(b) / np.float32(a)), mode)
        for a, b in zip(have, out, strict=True)
    )
    x = signed(slot(rng, "x", 2, *ints(have), 3))
    y = like(x, "y", 2, *ints(out), 3)
    return single(op.ResizeLinear, [x], y, "tflite", rows=rows, columns=columns)


def pad(rng: np.random.Generator) -> Program:
    shape, before, after = shaped(rng), rng.integers(0, 3, 4), rng.integers(0, 3, 4)
    x = slot(rng, "x", *shape)
    info = np.iinfo(x.dtype)
    value = x.zero_point if rng.random() < 0.5 else int(rng.integers(info.min, info.max, endpoint=True))
    y = like(x, "y", *ints(np.array(shape) + before + after))
    return single(op.Pad, [x], y, "tflite", before=ints(before), after=ints(after), value=value)


def transpose(rng: np.random.Generator) -> Program:
    rank = int(rng.integers(2, 6))
    shape, axes = shaped(rng, rank), tuple(rng.permutation(rank).tolist())
    x = slot(rng, "x", *shape)
    return single(op.Transpose, [x], like(x, "y", *(shape[axis] for axis in axes)), "tflite", axes=axes)


def reshape(rng: np.random.Generator) -> Program:
    shape = shaped(rng, 3)
    x = slot(rng, "x", *shape)
    return single(op.Reshape, [x], like(x, "y", shape[0] * shape[1], 1, shape[2]), "tflite")


def slice_(rng: np.random.Generator) -> Program:
    shape = shaped(rng)
    starts, steps, out = [], [], []
    backwards = rng.random() < 0.4
    for size in shape:
        step = int(rng.integers(1, 4)) * (-1 if backwards and rng.random() < 0.5 else 1)
        start = int(rng.integers(size))
        most = (size - 1 - start) // step if step > 0 else start // -step
        starts.append(start)
        steps.append(step if rng.random() < 0.6 or step < 0 else 1)
        out.append(int(rng.integers(0, most + 1)) + 1)
    x = slot(rng, "x", *shape)
    return single(op.Slice, [x], like(x, "y", *out), "tflite", starts=tuple(starts), steps=tuple(steps))


def gather(rng: np.random.Generator) -> Program:
    shape, axis = shaped(rng), int(rng.integers(4))
    indices = rng.integers(0, shape[axis], int(rng.integers(1, 9)), dtype=np.int32)
    x = slot(rng, "x", *shape)
    y = like(x, "y", *shape[:axis], indices.size, *shape[axis + 1 :])
    return single(op.Gather, [x], y, "tflite", axis=axis, indices=indices)


def drawn_table(rng: np.random.Generator) -> Program:
    shape = shaped(rng)
    x, y = slot(rng, "x", *shape), slot(rng, "y", *shape)
    rows = (256,) if rng.random() < 0.5 else (shape[-1], 256)
    info = np.iinfo(y.dtype)
    entries = rng.integers(info.min, info.max, rows, y.dtype, endpoint=True)
    return single(op.Lookup, [x], y, "tflite", table=entries, function="Mystery")


MAKERS = {
    "add": binary(op.Add), "sub": binary(op.Sub), "mul": binary(op.Mul), "selection": selection,
    "mean": mean, "total": total, "extreme": extreme, "arg_extreme": arg_extreme,
    "max_pool": pool(op.MaxPool), "average_pool": pool(op.AveragePool), "softmax": softmax, "concat": concat,
    "resize_nearest": resize_nearest, "resize_linear": resize_linear, "pad": pad, "transpose": transpose,
    "reshape": reshape, "slice": slice_, "gather": gather, "table": drawn_table,
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_instructions(name: str) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        assert_exported_exactly(MAKERS[name](rng), rng)


@pytest.mark.parametrize(
    ("size", "stride", "pads"), [(5, 1, (1, 1, 1, 1)), (6, 2, (0, 0, 1, 1)), (5, 2, (1, 1, 1, 1))]
)
@pytest.mark.parametrize("count_pads", [True, False])
def test_a_mean_of_a_padded_window_counts_what_the_program_counts(
    size: int, stride: int, pads: tuple[int, int, int, int], count_pads: bool
) -> None:
    """These pads are those of SAME, with which LiteRT divides by the pixels inside alone."""
    x = codes("x", 1, size, size, 3, dtype="int8", scale=0.05, zero_point=-20)
    out = (size + pads[0] + pads[2] - 3) // stride + 1
    window = {"kernel": (3, 3), "strides": (stride, stride), "pads": pads, "low": -128, "high": 127}
    program = single(
        op.AveragePool, [x], like(x, "y", 1, out, out, 3), "tflite", **window, count_pads=count_pads,
        rule=CodeAverage(),
    )  # fmt: skip
    assert_exported_exactly(program, np.random.default_rng(2))


CLIP = (Constant(np.array(0.0, np.float32)), Constant(np.array(6.0, np.float32)))
FUNCTIONS: dict[str, tuple[Any, str]] = {
    "Requantize": (Source(), "QUANTIZE"),
    "Relu": (Apply("Relu", (Source(),)), ""),
    "Clip": (Apply("Clip", (Source(), *CLIP)), ""),
    "LeakyRelu": (Apply("LeakyRelu", (Source(),), {"alpha": 0.1}), "LEAKY_RELU"),
    "HardSwish": (Apply("HardSwish", (Source(),)), ""),
    "Sigmoid": (Apply("Sigmoid", (Source(),)), ""),
    "Tanh": (Apply("Tanh", (Source(),)), ""),
    "Erf": (Apply("Erf", (Source(),)), "GATHER"),
}
"""Function → expression, and the operator that it mostly becomes; a table of few codes may need less."""


def test_every_set_of_kernels_sums_int8_codes() -> None:
    """SUM itself reads them as uint8 in LiteRT's reference kernels; the sum here is taken of real values."""
    x = codes("x", 1, 7, 5, 6, dtype="int8", scale=0.05, zero_point=-20)
    y = codes("y", 1, 6, dtype="int8", scale=0.4, zero_point=11)
    rule = mean_rule("tflite", x.scale, y.scale, 35, "sum")
    program = single(op.Mean, [x], y, "tflite", axes=(1, 2), rescale=rule, low=-128, high=127)
    fed = random_feeds(program, np.random.default_rng(5))["x"]
    real = ((fed.astype(np.float64) + 20) * 0.05).sum(axis=(1, 2))
    wanted = np.clip(np.rint(real / 0.4) + 11, -128, 127)
    exported = to_tflite(program)
    for kernels in get_args(Kernels):
        [given] = litert_gives(exported, [fed], kernels)
        assert np.abs(given - wanted).max() <= 1, kernels


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_become_operators_where_they_are_the_very_same(function: str) -> None:
    expression, mostly = FUNCTIONS[function]
    found: list[str] = []
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        shape = shaped(rng)
        x, y = slot(rng, "x", *shape), slot(rng, "y", *shape)
        entries = table("tflite", expression, x, y)
        program = single(op.Lookup, [x], y, "tflite", table=entries, function=function)
        found += assert_exported_exactly(program, rng).operators
    assert not mostly or found.count(mostly) > CASES / 2


NATIVE = {"Sigmoid": (1 / 256, -128, "LOGISTIC"), "Tanh": (1 / 128, 0, "TANH")}


@pytest.mark.parametrize("function", NATIVE)
def test_functions_with_a_scale_of_their_own(function: str) -> None:
    scale, zero_point, wanted = NATIVE[function]
    rng = np.random.default_rng(0)
    x = codes("x", 3, 5, scale=0.05, zero_point=7, dtype="int8")
    y = codes("y", 3, 5, scale=scale, zero_point=zero_point, dtype="int8")
    entries = table("tflite", Apply(function, (Source(),)), x, y)
    program = single(op.Lookup, [x], y, "tflite", table=entries, function=function)
    assert assert_exported_exactly(program, rng).operators == {wanted: 1}


@pytest.mark.parametrize("name", ["LayerNorm", "GroupNorm", "ReduceL2", "Div"])
def test_what_tflite_has_no_operator_for_is_refused_by_name(name: str) -> None:
    told = rf"1 part has no form in TFLite: 'node' \({name}\): there is no operator for it"
    with pytest.raises(UnsupportedModelError, match=told):
        to_tflite(EXAMPLES[name, "tflite"])


@pytest.mark.parametrize("op", ["GATHER_ND", "RSQRT", "SQUARED_DIFFERENCE"])
def test_operators_of_tflite_files_come_back(op: str) -> None:
    """Read, lowered and written once more; an operator against a constant is a table."""
    makes = {"GATHER_ND": gather_nd, "RSQRT": rsqrt, "SQUARED_DIFFERENCE": squared_difference}
    written = set()
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        exported = assert_exported_exactly(lower_tflite(makes[op](rng, "int8")), rng)
        written.update(exported.operators)
    assert op in written or op == "GATHER_ND"
