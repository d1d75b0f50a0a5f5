"""One small sound program per instruction and profile, and ways to spoil them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Port, Program, Slot
from calib8.program.rules import PROFILES, Profile


def codes(name: str, *shape: int, scale: float = 0.05, zero_point: int = 3, dtype: str = "uint8") -> Slot:
    return Slot(name, shape, dtype, np.array([scale], np.float32), zero_point)


def sums(name: str, *shape: int, scales: Sequence[float] = (0.001,)) -> Slot:
    return Slot(name, shape, "int32", np.array(scales, np.float32))


def plain(name: str, *shape: int, dtype: str = "float32") -> Slot:
    return Slot(name, shape, dtype)


def single(
    kind: Any, inputs: Sequence[Slot], output: Slot, profile: Profile = "onnx", /, **fields: Any
) -> Program:
    """One instruction whose inputs are fed and whose output comes out."""
    numbers = tuple(range(len(inputs)))
    step = kind(name="node", inputs=numbers, outputs=(len(inputs),), **fields)
    ports = tuple(Port(slot.name, number) for number, slot in enumerate(inputs))
    return Program(profile, (*inputs, output), (step,), ports, (Port(output.name, len(inputs)),), "net")


def wide_state(name: str, samples: int, units: int, scale: float) -> Slot:
    return codes(name, samples, units, scale=scale, zero_point=0, dtype="int16")


def with_ports(
    kind: Any, inputs: Sequence[Slot], outputs: Sequence[Slot], profile: Profile, /, **fields: Any
) -> Program:
    """One instruction that reads all inputs and writes all outputs."""
    first = len(inputs)
    numbers = tuple(range(first)), tuple(range(first, first + len(outputs)))
    step = kind(name="node", inputs=numbers[0], outputs=numbers[1], **fields)
    fed, given = (
        tuple(Port(slot.name, number) for slot, number in zip(slots, places, strict=True))
        for slots, places in zip((inputs, outputs), numbers, strict=True)
    )
    return Program(profile, (*inputs, *outputs), (step,), fed, given, "net")


def with_step(program: Program, /, **changes: Any) -> Program:
    """The program with other fields of its first instruction."""
    first, *rest = program.instructions
    return replace(program, instructions=(replace(first, **changes), *rest))


def with_slot(program: Program, number: int, /, **changes: Any) -> Program:
    """The program with other fields of one slot."""
    slots = list(program.slots)
    slots[number] = replace(slots[number], **changes)
    return replace(program, slots=tuple(slots))


def ints(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)


def floats(*values: float) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32)


def fixed(count: int, rounding: Any, multiplier: int = 1 << 30, shift: int = -5) -> rules.FixedRescale:
    return rules.FixedRescale(ints(*[multiplier] * count), ints(*[shift] * count), rounding)


def rescale(profile: Profile, count: int = 1) -> rules.Rescale:
    if profile == "onnx":
        return rules.FloatRescale(floats(*[0.01] * count))
    return fixed(count, "double" if profile == "tflite" else "single")


def curve(profile: Profile, count: int = 1) -> rules.CurveRescale:
    """A bent line through most codes."""
    row = np.arange(32, dtype=np.int16)
    ends = {"below": 200, "above": 9000}
    return rules.CurveRescale(
        rescale(profile, count), 10, -20, 400 * row, row * 9, row + 200, **ends, error=50
    )


SUM_RULES: dict[Profile, rules.SumRule] = {
    "onnx": rules.FloatSum(1.0, 0.5, 3.0),
    "tflite": rules.ScaledSum(20, (1 << 30, 0), (1 << 30, -1), (1 << 30, -18)),
    "single": rules.AlignedSum(1 << 20, 1 << 19, 20),
}
HALF = float(np.float32(0.05))
LINEAR_ROUNDING = {"onnx": "even", "tflite": "away", "single": "up"}


def weights(*shape: int, dtype: str = "int8") -> npt.NDArray[Any]:
    rng = np.random.default_rng(shape)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def layer(profile: Profile, outputs: int, weight: npt.NDArray[Any]) -> dict[str, Any]:
    """Fields that all layers have."""
    return {
        "weight": weight,
        "weight_zero_point": ints(0),
        "bias": ints(*range(-outputs, outputs, 2)),
        "rescale": rescale(profile, outputs),
        "low": 3,
        "high": 200,
    }


def images(profile: Profile) -> dict[str, Program]:
    """Layers with weights."""
    x, window = codes("x", 2, 9, 8, 4), {"strides": (2, 1), "pads": (1, 0, 1, 2), "dilations": (1, 2)}
    conv = single(
        op.Conv,
        [x],
        codes("y", 2, 5, 6, 6),
        profile,
        **layer(profile, 6, weights(6, 3, 3, 2)),
        **window,
        groups=2,
    )
    depthwise = single(
        op.DepthwiseConv,
        [x],
        codes("y", 2, 5, 6, 8),
        profile,
        **layer(profile, 8, weights(3, 3, 8)),
        **window,
    )
    transpose = single(
        op.ConvTranspose,
        [x],
        codes("y", 2, 18, 10, 6),
        profile,
        **layer(profile, 6, weights(6, 3, 3, 2)),
        **window,
        groups=2,
    )
    connected = single(
        op.FullyConnected,
        [codes("x", 2, 7, dtype="int8", zero_point=-3)],
        codes("y", 2, 5),
        profile,
        **layer(profile, 5, weights(5, 7)),
    )
    to_sums = with_step(with_slot(connected, 1, dtype="int32", zero_point=0), rescale=None)
    two_sided = rules.TwoSidedRescale(rescale(profile, 6), rescale(profile, 1))
    unsigned = with_step(conv, weight=weights(6, 3, 3, 2, dtype="uint8"), weight_zero_point=ints(*[9] * 6))
    return {
        "Conv": conv,
        "Conv of uint8": unsigned,
        "Conv of two sides": with_step(conv, rescale=two_sided),
        "DepthwiseConv": depthwise,
        "DepthwiseConv of a curve": with_step(depthwise, rescale=curve(profile, 8)),
        "ConvTranspose": transpose,
        "FullyConnected": connected,
        "FullyConnected to sums": to_sums,
    }


def pairs(profile: Profile) -> dict[str, Program]:
    """Two inputs."""
    a, b, y = codes("a", 2, 3, 4), codes("b", 3, 1, scale=0.025), codes("y", 2, 3, 4)
    clamp = {"low": 0, "high": 255}
    aligned = rules.AlignedSums(ints(1 << 29), ints(1 << 28), ints(40))
    sub = rules.DequantizedSum(HALF, HALF / 2, HALF)
    product = rules.FloatProduct(0.25) if profile == "onnx" else rescale(profile)
    deep = codes("b", 3, 4, 5)
    return {
        "Add": single(op.Add, [a, b], y, profile, rule=SUM_RULES[profile], **clamp),
        "Sub": single(
            op.Sub, [a, b], y, profile, rule=sub if profile == "onnx" else SUM_RULES[profile], **clamp
        ),
        "AddSums": single(
            op.AddSums,
            [sums("a", 2, 3, 4, scales=[0.1, 0.2, 0.3, 0.4]), b],
            y,
            profile,
            rule=None if profile == "onnx" else aligned,
            **clamp,
        ),
        "Mul": single(op.Mul, [a, b], y, profile, rescale=product, **clamp),
        "MatMul": single(
            op.MatMul,
            [codes("a", 1, 2, 4), deep],
            codes("y", 3, 2, 5),
            profile,
            rescale=rescale(profile),
            **clamp,
        ),
        "Div": single(op.Div, [a, b], y, profile, rule=quotient(profile), **clamp),
        "Maximum": single(op.Maximum, [a, codes("b", 3, 1)], y, profile),
        "Minimum": single(op.Minimum, [a, codes("b", 3, 1)], y, profile),
    }


def quotient(profile: Profile) -> rules.QuotientRule:
    """Of codes of scale 0.05 by codes of 0.025 that are 3 above their lowest, and a little more."""
    divisor = (0.025 * (np.arange(256) - 3) + 0.0625).astype(np.float32)
    if profile == "onnx":
        return rules.FloatQuotient(HALF, HALF, divisor)
    factors, shifts = np.frexp(1 / divisor.astype(np.float64))
    multiplier = np.clip(np.rint(factors * (1 << 31)), -(1 << 31) + 1, (1 << 31) - 1)
    return rules.FixedQuotient(multiplier.astype(np.int32), shifts.astype(np.int32))


def singles(profile: Profile) -> dict[str, Program]:
    """Elementwise, borders, pools and reductions."""
    x, image = codes("x", 2, 3), codes("x", 1, 7, 6, 4)
    border: Any = "away" if profile == "tflite" else "even"
    clamp, pool = {"low": 0, "high": 255}, {"kernel": (3, 2), "strides": (2, 2), "pads": (1, 0, 0, 0)}
    average: dict[Profile, rules.AverageRule] = {
        "onnx": rules.FloatAverage(HALF, HALF),
        "tflite": rules.CodeAverage(),
        "single": fixed(6, "single"),
    }
    mean = fixed(1, "double", 1 << 29) if profile == "tflite" else rescale(profile)
    pooled = codes("y", 1, 4, 3, 4)
    return {
        "Quantize": single(
            op.Quantize,
            [plain("x", 1, 3, 5, 5)],
            codes("y", 1, 5, 5, 3),
            profile,
            axes=(0, 2, 3, 1),
            rounding=border,
        ),
        "Dequantize": single(
            op.Dequantize, [sums("x", 1, 5, 3)], plain("y", 1, 3, 5), profile, axes=(0, 2, 1)
        ),
        "Requantize": single(
            op.Requantize, [sums("x", 2, 3)], codes("y", 2, 3), profile, rescale=rescale(profile, 3), **clamp
        ),
        "Lookup": single(
            op.Lookup, [x], codes("y", 2, 3, dtype="int8"), profile, table=weights(3, 256), function="Sigmoid"
        ),
        "MaxPool": single(op.MaxPool, [image], pooled, profile, **pool, dilations=(1, 1)),
        "AveragePool": single(
            op.AveragePool, [image], pooled, profile, **pool, count_pads=False, rule=average[profile], **clamp
        ),
        "Mean": single(op.Mean, [image], codes("y", 1, 4), profile, axes=(1, 2), rescale=mean, **clamp),
        "ReduceL2": single(
            op.ReduceL2,
            [image],
            codes("y", 1, 7, 1, 1),
            profile,
            axes=(3, 2),
            rescale=length(profile),
            **clamp,
        ),
        "ReduceMax": single(op.ReduceMax, [image], codes("y", 1, 1, 1, 4), profile, axes=(2, 1)),
        "ReduceMin": single(op.ReduceMin, [image], codes("y", 1, 7, 6), profile, axes=(3,)),
        "ArgMax": single(op.ArgMax, [x], plain("y", 2, 1, dtype="int64"), profile, axis=1, last=False),
        "ArgMin": single(op.ArgMin, [x], plain("y", 2, 1, dtype="int64"), profile, axis=1, last=False),
        "Softmax": softmax(profile),
        "LayerNorm": layer_norm(profile),
        "Constant": constant(profile),
        "GroupNorm": group_norm(profile),
    }


def length(profile: Profile) -> rules.Rescale:
    """Of a length of some hundred steps of the input."""
    if profile == "onnx":
        return rules.FloatRescale(floats(0.25))
    return fixed(1, "away" if profile == "tflite" else "single", shift=-1)


def softmax(profile: Profile) -> Program:
    steps = np.exp(0.05 * (np.arange(256) - 255))
    rule: dict[Profile, rules.SoftmaxRule] = {
        "onnx": rules.TableSoftmax(steps.astype(np.float32), 256.0),
        "tflite": rules.FixedSoftmax(1717986944, 22, -496),
        "single": rules.TableSoftmax(np.rint(steps * (1 << 24)).astype(np.int32), 256 << 16, 16),
    }
    output = codes("y", 2, 10, scale=1 / 256, zero_point=-128, dtype="int8")
    return single(op.Softmax, [codes("x", 2, 10)], output, profile, rule=rule[profile])


def constant(profile: Profile) -> Program:
    """Beside what is fed, which nothing reads."""
    program = single(
        op.Constant, [codes("x", 2, 3)], codes("y", 3, 4), profile, values=weights(3, 4, dtype="uint8")
    )
    return with_step(program, inputs=())


def layer_norm(profile: Profile) -> Program:
    """Rows of five codes, two of which have no spread to speak of after their factor."""
    factors, offsets = floats(25, -12.5, 0, 31.25, 0.5), floats(0, 3.5, -7, 100, 0.25)
    shift = ints(*[47] * 5)
    multiplier = np.ldexp(factors.astype(np.float64), 25).astype(np.int32)
    offset = np.ldexp(offsets.astype(np.float64), 17).astype(np.int32)
    rule: rules.NormRule = rules.FloatNorm(factors, offsets, 0.25)
    if profile != "onnx":
        rule = rules.FixedNorm(multiplier, offset, shift, 1 << 14)
    output = codes("y", 2, 3, 5, zero_point=-9, dtype="int8")
    return single(op.LayerNorm, [codes("x", 2, 3, 5)], output, profile, rule=rule, low=-120, high=127)


def group_norm(profile: Profile) -> Program:
    """Two groups of three channels, of which two have no spread to speak of after their factor."""
    factors, offsets = floats(25, -12.5, 0, 31.25, 0.5, 1), floats(0, 3.5, -7, 100, 0.25, 1)
    multiplier = np.ldexp(factors.astype(np.float64), 25).astype(np.int32)
    offset = np.ldexp(offsets.astype(np.float64), 20).astype(np.int32)
    rule: rules.GroupNormRule = rules.FloatGroupNorm(factors, offsets, 0.25)
    if profile != "onnx":
        rule = rules.FixedGroupNorm(multiplier, ints(*[25] * 6), offset, ints(*[20] * 6), 1 << 14)
    output = codes("y", 2, 3, 4, 6, zero_point=-9, dtype="int8")
    source = codes("x", 2, 3, 4, 6)
    return single(op.GroupNorm, [source], output, profile, groups=2, rule=rule, low=-120, high=127)


def recurrent(profile: Profile) -> Program:
    """An LSTM of both directions with everything that it may have: T 3, N 2, I 5, H 4."""
    rng = np.random.default_rng(28)
    usual = (rules.CellFunction("Sigmoid"), rules.CellFunction("Tanh"), rules.CellFunction("Tanh"))
    hard = (rules.CellFunction("HardSigmoid", 0.25, 0.5), *usual[1:])
    state = (2, 2, 4)
    extras = [plain("h", *state), plain("c", *state), plain("lengths", 2, dtype="int32")]
    return single(
        op.Recurrent,
        [plain("x", 3, 2, 5), *extras],
        plain("y", 5, *state),
        profile,
        cell="LSTM",
        directions=("forward", "reverse"),
        weight=rng.integers(-127, 128, (2, 16, 5)).astype(np.int8),
        weight_scale=rng.uniform(0.001, 0.01, (2, 16)).astype(np.float32),
        recurrent=rng.integers(-127, 128, (2, 16, 4)).astype(np.int8),
        recurrent_scale=rng.uniform(0.001, 0.01, (2, 16)).astype(np.float32),
        bias=rng.normal(0, 0.5, (2, 16)).astype(np.float32),
        inner_bias=floats(),
        peephole=rng.normal(0, 0.5, (2, 12)).astype(np.float32),
        functions=(*usual, *hard),
        clip=2.5,
        coupled=False,
        reset_after=False,
        extras=("h", "c", "lengths"),
    )


def integer_lstm(profile: Profile) -> Program:
    """An LSTM of integers with everything that it may have: T 3, N 2, I 5, C 4, H 3."""
    rng = np.random.default_rng(29)

    def weight(*shape: int) -> npt.NDArray[np.int8]:
        return rng.integers(-127, 128, shape).astype(np.int8)

    def words(*shape: int) -> npt.NDArray[np.int16]:
        return rng.integers(-32767, 32768, shape).astype(np.int16)

    def by(count: int, shift: int) -> rules.Multipliers:
        multipliers = rng.integers(1 << 30, 1 << 31, count, dtype=np.int64).astype(np.int32)
        return rules.Multipliers(multipliers, ints(*[shift] * count))

    return single(
        op.IntegerLstm,
        [codes("x", 3, 2, 5, zero_point=-7, dtype="int8")],
        codes("y", 3, 2, 3, scale=0.0078125, zero_point=4, dtype="int8"),
        profile,
        time_first=True,
        coupled=False,
        weight=weight(4, 4, 5),
        weight_multipliers=by(4, -1),
        recurrent=weight(4, 4, 3),
        recurrent_multipliers=by(4, 0),
        bias=rng.integers(-(1 << 22), 1 << 22, (4, 4)).astype(np.int32),
        peephole=words(3, 4),
        peephole_multipliers=by(3, -16),
        norm=words(4, 4),
        norm_multipliers=by(4, -14),
        norm_guard=ints(1, 2, 1, 3),
        cell_bits=3,
        cell_clip=30000,
        hidden=by(1, -22),
        hidden_zero_point=-3,
        projection=weight(3, 4),
        projection_bias=ints(100, -200, 300),
        projection_multipliers=by(1, -8),
        projection_clip=120,
    )


def time_filter(profile: Profile) -> Program:
    """Four filters of three values, two per unit; sums that reach beyond int32."""
    rng = np.random.default_rng(30)
    return single(
        op.TimeFilter,
        [codes("x", 2, 12, scale=0.001, zero_point=0, dtype="int16")],
        codes("y", 2, 2, scale=0.1, zero_point=-7, dtype="int8"),
        profile,
        weight=rng.integers(-32767, 32768, (4, 3)).astype(np.int16),
        bias=ints(100000, -200000),
        factor=rules.Multipliers(ints(1518500250), ints(-22)),
        low=-128,
        high=120,
    )


def integer_gru(profile: Profile) -> Program:
    """A GRU of integers with everything that it may have: T 3, N 2, I 5, C 4."""
    rng = np.random.default_rng(30)

    def by(count: int, shift: int) -> rules.Multipliers:
        multipliers = rng.integers(1 << 30, 1 << 31, count, dtype=np.int64).astype(np.int32)
        return rules.Multipliers(multipliers, ints(*[shift] * count))

    last = wide_state("last", 2, 4, 2.0**-15)
    return with_ports(
        op.IntegerGru,
        [codes("x", 3, 2, 5, zero_point=-7, dtype="int8"), replace(last, name="h")],
        [codes("y", 3, 2, 4, scale=0.0078125, zero_point=4, dtype="int8"), last],
        profile,
        time_first=True,
        reverse=True,
        reset_after=True,
        weight=rng.integers(-127, 128, (3, 4, 5)).astype(np.int8),
        weight_multipliers=by(3, -1),
        recurrent=rng.integers(-127, 128, (3, 4, 4)).astype(np.int8),
        recurrent_multipliers=by(3, 0),
        bias=rng.integers(-9999, 9999, (3, 4)).astype(np.int32),
        inner_bias=ints(100, -200, 300, -400),
        hidden=by(1, -8),
        first=("h",),
    )


def moves(profile: Profile) -> dict[str, Program]:
    """What keeps scale and zero point."""
    x, image = codes("x", 2, 3, 4), codes("x", 1, 2, 2, 3)
    fraction = floats(0, 0.25, 1) if profile == "onnx" else ints(0, 256, 1024)
    axis = rules.LinearAxis(ints(0, 0, 1), ints(1, 1, 1), fraction, LINEAR_ROUNDING[profile])  # type: ignore[arg-type]
    resized, indices = codes("y", 1, 3, 3, 3), ints(0, 1, 1)
    return {
        "Concat": single(op.Concat, [x, codes("b", 2, 1, 4)], codes("y", 2, 4, 4), profile, axis=1),
        "ResizeNearest": single(op.ResizeNearest, [image], resized, profile, rows=indices, columns=indices),
        "ResizeLinear": single(op.ResizeLinear, [image], resized, profile, rows=axis, columns=axis),
        "Pad": single(op.Pad, [x], codes("y", 2, 4, 6), profile, before=(0, 1, 0), after=(0, 0, 2), value=3),
        "Transpose": single(op.Transpose, [x], codes("y", 4, 2, 3), profile, axes=(2, 0, 1)),
        "Reshape": single(op.Reshape, [x], codes("y", 6, 4), profile),
        "Slice": single(op.Slice, [x], codes("y", 1, 2, 4), profile, starts=(1, 0, 3), steps=(1, 2, -1)),
        "Gather": single(op.Gather, [x], codes("y", 2, 5, 4), profile, axis=1, indices=ints(2, 0, 0, 1, 2)),
        "Recurrent": recurrent(profile),
        "IntegerLstm": integer_lstm(profile),
        "TimeFilter": time_filter(profile),
        "RealFunction": single(
            op.RealFunction,
            [plain("x", 3, 7)],
            plain("y", 3, 7),
            profile,
            function=rules.CellFunction("ScaledTanh", 1.5, -0.75),
        ),
        "IntegerGru": integer_gru(profile),
        "Float": float_program(profile),
    }


def float_model(inputs: Sequence[str] = ("x",), output: str = "y", kind: int = TensorProto.FLOAT) -> bytes:
    """A Conv of x [1, 3, 4, 4] with a constant weight [2, 3, 3, 3], and a Relu."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2, 3, 3, 3], [0.5] * 54)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], [output], "relu"),
    ]
    ports = [helper.make_tensor_value_info(name, kind, [1, 3, 4, 4]) for name in inputs]
    graph = helper.make_graph(
        nodes, "part", ports, [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)], [weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


def float_program(profile: Profile) -> Program:
    fields = {
        "model": float_model(),
        "nodes": ("conv", "relu"),
        "reasons": ("float weights", "not quantized"),
    }
    return single(op.Float, [plain("x", 1, 3, 4, 4)], plain("y", 1, 2, 2, 2), profile, **fields)


def reals() -> dict[tuple[str, Profile], Program]:
    """What goes by way of real numbers, in the only profile that does."""
    profile: Profile = "tengine"
    clamp: dict[str, Any] = {"low": -127, "high": 127}
    window: dict[str, Any] = {"kernel": (3, 2), "strides": (2, 2), "pads": (1, 0, 1, 1), "count_pads": True}

    def int8(name: str, *shape: int, scale: float = HALF) -> Slot:
        return codes(name, *shape, scale=scale, zero_point=0, dtype="int8")

    factor = floats(0.25, 0.0, 1.5)
    below = np.minimum(np.arange(256)[None, :] - np.arange(256)[:, None], 0).astype(np.float32)
    programs = {
        "RealRescale": single(
            op.RealRescale, [sums("x", 2, 3)], int8("y", 2, 3), profile,
            input=0.125, factor=factor, output=HALF, **clamp,
        ),
        "RealPair": single(
            op.RealPair, [int8("a", 2, 3, 4, scale=0.25), int8("b", 3, 1)], int8("y", 2, 3, 4), profile,
            kind="sum", **clamp,
        ),
        "AveragePool": single(
            op.AveragePool, [int8("x", 1, 7, 6, 4)], int8("y", 1, 4, 3, 4), profile, **window,
            rule=rules.RealAverage(), **clamp,
        ),
        "Softmax": single(
            op.Softmax, [int8("x", 2, 5)], int8("y", 2, 5, scale=2.0**-7), profile,
            rule=rules.RealSoftmax(np.exp2(below)),
        ),
    }  # fmt: skip
    return {(name, profile): program for name, program in programs.items()}


EXAMPLES: dict[tuple[str, Profile], Program] = {
    (name, profile): program
    for profile in PROFILES
    for make in (images, pairs, singles, moves)
    for name, program in make(profile).items()
} | reals()
"""(Instruction, profile) → a sound program of that one instruction."""


def chain(profile: Profile = "onnx") -> Program:
    """Quantize → Conv → Reshape → FullyConnected to sums → Requantize → Dequantize."""
    slots = (
        plain("image", 1, 3, 8, 8),
        codes("image", 1, 8, 8, 3),
        codes("stem", 1, 4, 4, 6),
        codes("flat", 1, 96),
        sums("head", 1, 5, scales=[0.1, 0.2, 0.3, 0.4, 0.5]),
        codes("scores", 1, 5),
        plain("scores", 1, 5),
    )
    border: Any = "away" if profile == "tflite" else "even"
    stem, head = layer(profile, 6, weights(6, 3, 3, 3)), layer(profile, 5, weights(5, 96))
    window = {"strides": (2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1), "groups": 1}
    steps: tuple[op.Instruction, ...] = (
        op.Quantize("image", (0,), (1,), (0, 2, 3, 1), border),
        op.Conv("stem", (1,), (2,), **stem, **window),
        op.Reshape("flatten", (2,), (3,)),
        op.FullyConnected("head", (3,), (4,), **{**head, "rescale": None}),
        op.Requantize("head", (4,), (5,), rescale(profile, 5), 0, 255),
        op.Dequantize("head", (5,), (6,), (0, 1)),
    )
    return Program(profile, slots, steps, (Port("image", 0),), (Port("scores", 6),), "chain")
