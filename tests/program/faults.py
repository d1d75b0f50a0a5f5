"""The faults that the verifier has to find, and what it has to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import example_programs as make
import integer_gru_faults
import integer_lstm_faults
import norm_faults
import numpy as np
import real_function_faults
import recurrent_faults
import time_filter_faults
from example_programs import EXAMPLES, fixed, floats, ints, plain, single, sums, with_slot, with_step
from onnx import TensorProto
from planting import Fault, axis, of, rule, slot, step, with_classes

from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Port, Program
from calib8.program.rules import Profile


def reordered(program: Program) -> Program:
    first, second, *rest = program.instructions
    return replace(program, instructions=(second, first, *rest))


def dangling(program: Program) -> Program:
    return replace(program, slots=(*program.slots, plain("nobody", 1)))


def two_inputs(program: Program) -> Program:
    slots = (*program.slots, plain("other", 1))
    return replace(program, slots=slots, inputs=(*program.inputs, Port("image", len(program.slots))))


def writes_nothing(program: Program) -> Program:
    without = replace(program, slots=program.slots[:1], outputs=(Port("x", 0),))
    return with_step(without, outputs=())


class Unheard(op.Instruction):
    """An instruction that no engine knows."""


FIELDS = [
    of(lambda p: replace(p, profile="exact"), "profile is 'exact', not one of onnx, tflite, single, tengine"),  # type: ignore[arg-type]
    of(lambda p: replace(p, slots=list(p.slots)), "slots is a list, not a tuple"),  # type: ignore[arg-type]
    of(lambda p: replace(p, instructions=("Conv",)), r"instructions\[0\] is 'Conv', not Instruction"),  # type: ignore[arg-type]
    step("Conv", r"strides\[0\] is a float32, not int", strides=(np.float32(1), 1)),
    step("Conv", r"strides\[1\] is True, not int", strides=(1, True)),
    step("Conv", "strides has 3 elements, not 2", strides=(1, 1, 1)),
    step("Conv", "low does not fit 64 bits", low=-(1 << 63)),
    step("Conv", "bias is a int64 array, not int32", bias=np.zeros(6, np.int64)),
    step("Conv", "weight is a int16 array, not a uint8 array or a int8 array", weight=np.zeros(6, np.int16)),
    step("Conv", r"weight_zero_point is 0, not a int32 array", weight_zero_point=0),
    step(
        "Conv",
        "rescale is 0.5, not FloatRescale or FixedRescale or TwoSidedRescale or CurveRescale or None",
        rescale=0.5,
    ),
    rule(
        "Conv", r"instructions\[0\].rescale.factor is a float64 array, not float32", "onnx", factor=np.ones(6)
    ),
    rule("Add", "rule.lhs is nan, not a finite number", "onnx", lhs=float("nan")),
    rule("Conv", "rounding is 'up', not one of double, single, away", "tflite", rounding="up"),
    step("Float", "model is 'text', not bytes", model="text"),
    step("AveragePool", "count_pads is 1, not bool", count_pads=1),
    step("Conv", "clamps to -9223372036854775807", low=-(1 << 63) + 1),
    step("Conv", "low is None, not int", low=None),
    step("Quantize", "rounding is array", rounding=np.zeros(2)),
]

SLOTS = [
    slot("Conv", 0, r"slot 0 \"x\": has shape \[2, 0, 8, 4\]", shape=(2, 0, 8, 4)),
    slot("Reshape", 0, "2147483648 elements", shape=(1 << 16, 1 << 15)),
    slot("Reshape", 0, "has 33 axes", shape=(1,) * 33),
    slot("Float", 0, "unknown type 'int4'", dtype="int4"),
    slot("Conv", 0, r"scales of shape \[1\], \[0.\]", scales=floats(0)),
    slot("Conv", 0, "nan", scales=floats(np.nan)),
    slot("Conv", 0, "inf", scales=floats(np.inf)),
    slot("Conv", 0, r"scales of shape \[1, 1\]", scales=np.ones((1, 1), np.float32)),
    slot("Conv", 0, "holds codes and has 2 scales", scales=floats(1, 2)),
    slot("Conv", 0, "holds codes and has 0 scales", scales=floats()),
    slot("Conv", 0, "zero point 256", zero_point=256),
    slot("FullyConnected", 0, "zero point -129", zero_point=-129),
    slot("Requantize", 0, "holds int32 and has the zero point 1", zero_point=1),
    slot("Quantize", 0, "holds float32 and has 1 scales", scales=floats(1)),
    slot("AddSums", 0, r"has 3 scales for shape \[2, 3, 4\]", scales=floats(1, 2, 3)),
    slot("AddSums", 0, r"has 2 scales for shape \[\]", shape=(), scales=floats(1, 2)),
]

ORDER = [
    of(lambda p: replace(p, inputs=(Port("image", 7),)), 'input "image": names slot 7'),
    of(lambda p: replace(p, outputs=(Port("scores", -1),)), 'output "scores": names slot -1'),
    step("Conv", r'instruction 0 \(Conv "node"\): names slot 2', inputs=(2,)),
    step("Conv", "names slot -1", outputs=(-1,)),
    of(reordered, r'instruction 0 \(Conv "stem"\): reads slot 1 "image" before it is written'),
    step("Conv", 'writes slot 0 "x" a second time', outputs=(0,)),
    of(
        lambda p: replace(p, inputs=(*p.inputs, Port("b", 0))),
        'input "b": writes slot 0 "image" a second time',
    ),
    of(lambda p: replace(p, inputs=()), 'reads slot 0 "image" before'),
    of(
        lambda p: replace(p, instructions=p.instructions[:-1]),
        'output "scores": reads slot 6 "scores" before',
    ),
    of(dangling, 'slot 7 "nobody": is never written'),
    of(lambda p: replace(p, outputs=()), "has no outputs"),
    of(lambda p: replace(p, outputs=p.outputs * 2), 'several outputs called "scores"'),
    of(two_inputs, 'several inputs called "image"'),
]

KINDS = [
    of(lambda p: replace(p, instructions=(Unheard("x", (0,), (1,)),)), "is of an unknown type", "Reshape"),
    of(writes_nothing, "writes no slot", "Float"),
    step("Add", "reads 1 slots and writes 1. It reads 2", inputs=(0,)),
    step("Concat", "reads 0 slots and writes 1. It reads 1 or more", inputs=()),
    of(writes_nothing, "writes 0. It reads 1 and writes 1", "Reshape"),
    slot("Quantize", 0, '"x", which holds plain float64. It takes float32', dtype="float64"),
    slot("Conv", 0, "holds plain int32. It takes 8-bit codes", dtype="int32", scales=floats(), zero_point=0),
    slot("Requantize", 0, "holds plain int32. It takes sums", scales=floats()),
    slot("Dequantize", 1, "holds plain float16. It takes float32", dtype="float16"),
    slot("ArgMax", 1, "holds plain int16. It takes int64 or int32", dtype="int16"),
    slot("ArgMin", 1, "holds plain int16. It takes int64 or int32", dtype="int16"),
    step("Conv", r"no rescaling and writes .* uint8 codes \(scale 0.05, zero point 3\)", rescale=None),
    slot("MatMul", 2, "a rescaling and writes .* sums", dtype="int32", zero_point=0),
    slot("AddSums", 0, "adds codes to codes", dtype="uint8", scales=floats(1)),
    *(slot(name, 0, "Both must have the same", scales=floats(0.06)) for name in
      ("MaxPool", "ReduceMax", "ReduceMin", "Maximum", "Minimum", "Concat", "ResizeNearest", "Pad",
        "Transpose", "Reshape", "Slice", "Gather")),
    slot("Concat", 1, "Both must have the same", zero_point=4),
    slot("Reshape", 1, "Both must have the same", dtype="int8"),
    slot("AveragePool", 1, "Both must have the same", "tflite", zero_point=4),
    slot("ResizeLinear", 1, "Both must have the same", "tflite", zero_point=4),
    slot("ResizeLinear", 1, "Both must have the same", "single", scales=floats(0.06)),
]  # fmt: skip

SUMS_MOVED = single(op.Reshape, [sums("x", 1, 4, scales=[1, 2, 3, 4])], sums("y", 2, 4, scales=[1, 2, 3, 4]))
NAMES = sorted({name for name, profile in EXAMPLES if profile == "onnx"})
OWN_SHAPES = ("Float", "Reshape", "Slice")
"""Their output slot is what says which shape is meant."""


def written(name: str) -> int:
    return EXAMPLES[name, "onnx"].instructions[0].outputs[0]


SHAPES = [
    of(lambda p: SUMS_MOVED, "sums with 4 scales", "Reshape"),
    *(slot(name, written(name), "but computes", shape=(7, 7)) for name in NAMES if name not in OWN_SHAPES),
    slot("Reshape", 1, r"makes \[5, 5\] of \[2, 3, 4\]", shape=(5, 5)),
    slot("Slice", 1, r"for \[2, 3, 4\] → \[7, 7\]", shape=(7, 7)),
    step("Quantize", r"axes \[0, 2, 3\] for rank 4", axes=(0, 2, 3)),
    step("Quantize", r"axes \[0, 2, 3, 3\]", axes=(0, 2, 3, 3)),
    slot("Conv", 0, 'reads "x" of shape .* rank 4', shape=(9, 8, 4)),
    step("Conv", r"weight of shape \[6, 3, 3\]", weight=make.weights(6, 3, 3)),
    step("Conv", r"weight of shape \[6, 0, 3, 2\]", weight=make.weights(6, 0, 3, 2)),
    step("Conv", r"bias of shape \[5\]. It must be \[6\]", bias=ints(*range(5))),
    step("Conv", r"weight zero points of shape \[2\]", weight_zero_point=ints(0, 0)),
    step("Conv", "stride 0", strides=(0, 1)),
    step("Conv", "dilation 0", dilations=(1, 0)),
    step("Conv", "padding -1, 1", pads=(-1, 0, 1, 2)),
    step("Conv", "3 groups, 4 input channels and a weight for 2 → 6", groups=3),
    step("Conv", "0 groups", groups=0),
    step("Conv", "4 groups", groups=4, weight=make.weights(6, 3, 3, 1)),
    step("Conv", "a kernel that spans 12 of 11", weight=make.weights(6, 12, 3, 2), strides=(1, 1)),
    step("DepthwiseConv", "makes 6 channels of 4", weight=make.weights(3, 3, 6), bias=ints(*[0] * 6)),
    step("DepthwiseConv", "a kernel that spans 17 of 10", dilations=(1, 8)),
    slot("ConvTranspose", 1, r"but computes \[2, 17, 10, 6\]", shape=(2, 19, 10, 6)),
    slot("ConvTranspose", 1, r"but computes \[2, 17, 10, 6\]", shape=(2, 16, 10, 6)),
    slot("ConvTranspose", 1, r"but computes \[2, 17, 10, 6\]", shape=(2, 18, 12, 6)),
    slot("ConvTranspose", 1, r"but computes \[2, 17, 10, 6\]", shape=(7, 17)),
    step("ConvTranspose", "3 groups", groups=3),
    step("FullyConnected", r'weight for 8 inputs and reads "x" of shape \[2, 7\]', weight=make.weights(5, 8)),
    slot("FullyConnected", 0, r"of shape \[\]", shape=()),
    slot("MatMul", 1, r"multiplies \[1, 2, 4\] by \[3, 5, 5\]", shape=(3, 5, 5)),
    slot("MatMul", 0, r"multiplies \[4\]", shape=(4,)),
    slot("MatMul", 0, r"joins \[2\] and \[3\]", shape=(2, 2, 4)),
    slot("Add", 1, r"joins \[2, 3, 4\] and \[3, 3\]", shape=(3, 3)),
    step("Lookup", r"table of shape \[2, 256\]. Give \[256\] or \[3, 256\]", table=make.weights(2, 256)),
    slot("MaxPool", 1, r"but computes \[1, 3, 3, 4\] or \[1, 4, 3, 4\]", shape=(1, 5, 3, 4)),
    step("MaxPool", "nothing but padding under window 0", pads=(3, 0, 0, 0), strides=(3, 2)),
    step("MaxPool", "kernel 0", kernel=(0, 1)),
    step("AveragePool", "a kernel that spans 20", kernel=(20, 2), strides=(1, 2)),
    step("Mean", r"axes \[\] for rank 4", axes=()),
    step("Mean", r"axes \[1, 1\]", axes=(1, 1)),
    step("Mean", r"axes \[1, 4\]", axes=(1, 4)),
    step("ReduceL2", r"axes \[1, 4\]", axes=(1, 4)),
    step("ArgMax", r"axes \[-1\]", axis=-1),
    step("ArgMin", r"axes \[2\]", axis=2),
    of(lambda p: with_slot(with_slot(p, 0, shape=()), 1, shape=()), "reads a scalar", "Softmax"),
    of(lambda p: with_slot(with_slot(p, 0, shape=()), 1, shape=()), "reads a scalar", "LayerNorm"),
    step("Concat", "axis 3 for rank 3", axis=3),
    step("Concat", "along axis 0. All other axes", axis=0),
    step("ResizeNearest", "rows with index 2. Indices must be in 0 … 1", rows=ints(0, 2, 1)),
    step("ResizeNearest", "columns with index -1", columns=ints(0, -1, 1)),
    step("ResizeNearest", r"rows of shape \[1, 3\]", rows=ints(0, 1, 1).reshape(1, 3)),
    axis("rows.low with index 5", low=ints(0, 0, 5)),
    axis("rows.high with index -5", high=ints(-5, 0, 1)),
    axis("has 2 low and 3 high rows", low=ints(0, 0)),
    axis("has 2 low and 3 high rows", low=ints(0, 0), fraction=floats(0, 1)),
    axis(r"fractions of shape \[2\]", fraction=floats(0, 1)),
    step("Pad", r"pads \[2, 3, 4\] by \[0, 1\]", before=(0, 1)),
    step("Pad", r"by \[0, 2, -2\]", before=(0, 2, -2)),
    step("Transpose", r"axes \[1, 2, 3\]", axes=(1, 2, 3)),
    step("Slice", "has 2 starts", starts=(1, 0)),
    step("Slice", "takes 2 from 2 in steps of 2 along axis 1 of size 3", starts=(1, 2, 3)),
    step("Slice", "takes 4 from 4 in steps of -1", starts=(1, 0, 4)),
    step("Slice", "takes 2 from 1 in steps of 2 along axis 1 of size 3", starts=(1, 1, 3)),
    step("Slice", "takes 4 from -1 in steps of -1", starts=(1, 0, -1)),
    step("Slice", "takes 4 from 3 in steps of 1", steps=(1, 2, 1)),
    step("Slice", "takes 4 from 3 in steps of 0", steps=(1, 2, 0)),
    step("Gather", "axis 4 for rank 3", axis=4),
    step("Gather", "indices with index 3", indices=ints(2, 0, 3, 1, 2)),
]  # fmt: skip

CONSTANTS = [
    step("Conv", "weight zero point 128. int8 needs -128 … 127", weight_zero_point=ints(128)),
    step("Conv of uint8", "weight zero point -1. uint8", weight_zero_point=ints(*[0] * 5, -1)),
    *(step(name, "clamps to 9 … 8", low=9, high=8) for name in
      ("Conv", "DepthwiseConv", "ConvTranspose", "FullyConnected", "MatMul", "Requantize", "Add", "Sub",
       "AddSums", "Mul", "Div", "AveragePool", "Mean", "ReduceL2", "LayerNorm", "GroupNorm")),
    step("Conv", "clamps to -1 … 200", low=-1),
    step("Conv", "clamps to 3 … 256", high=256),
    slot("Lookup", 1, 'a table of int8 for "y" of uint8', dtype="uint8"),
    step("Pad", "pads with 256. uint8 needs 0 … 255", value=256),
    step("Pad", "pads with -1", value=-1),
]  # fmt: skip

FOREIGN: list[tuple[str, Profile, Profile, str]] = [
    ("Conv", "onnx", "tflite", "FloatRescale in profile tflite. Lower the model for tflite again"),
    ("Conv", "onnx", "single", "FloatRescale"),
    ("Conv", "tflite", "onnx", "FixedRescale"),
    ("Conv", "tflite", "single", "rounding double in profile single"),
    ("Conv", "single", "tflite", "rounding single"),
    ("Mul", "onnx", "single", "FloatProduct"),
    ("Add", "onnx", "tflite", "FloatSum"),
    ("Add", "tflite", "single", "ScaledSum"),
    ("Add", "single", "onnx", "AlignedSum"),
    ("Sub", "onnx", "single", "DequantizedSum"),
    ("AddSums", "onnx", "tflite", "no rule in profile tflite"),
    ("AddSums", "single", "onnx", "AlignedSums in profile onnx"),
    ("AveragePool", "onnx", "single", "FloatAverage"),
    ("AveragePool", "tflite", "onnx", "CodeAverage"),
    ("Softmax", "tflite", "single", "FixedSoftmax"),
    ("Softmax", "onnx", "tflite", "TableSoftmax"),
    ("Softmax", "onnx", "single", "a table of float32 and a float factor in profile single"),
    ("Softmax", "single", "onnx", "a table of int32 and an int factor"),
    ("Div", "onnx", "single", "FloatQuotient"),
    ("Div", "tflite", "onnx", "FixedQuotient"),
    ("ReduceL2", "single", "tflite", "rounding single"),
    ("LayerNorm", "onnx", "tflite", "FloatNorm"),
    ("LayerNorm", "single", "onnx", "FixedNorm"),
    ("GroupNorm", "onnx", "tflite", "FloatGroupNorm"),
    ("GroupNorm", "single", "onnx", "FixedGroupNorm"),
    ("Quantize", "onnx", "tflite", "rounding even"),
    ("Quantize", "tflite", "single", "rounding away"),
    ("ResizeLinear", "onnx", "single", "rounding even"),
    ("ResizeLinear", "single", "tflite", "rounding up"),
    ("RealRescale", "tengine", "onnx", "RealRescale in profile onnx"),
    ("RealPair", "tengine", "single", "RealPair"),
    ("AveragePool", "tengine", "onnx", "RealAverage"),
    ("AveragePool", "onnx", "tengine", "FloatAverage"),
    ("Softmax", "tengine", "tflite", "RealSoftmax"),
    ("Conv", "single", "tengine", "FixedRescale"),
]
"""Example, its profile, the profile that it is declared to have, and what is wrong then."""


def declared(profile: Profile) -> Callable[[Program], Program]:
    return lambda program: replace(program, profile=profile)


TWO_SIDED, CURVE = "Conv of two sides", "DepthwiseConv of a curve"
BELOW, BEYOND = (1 << 30) - 1, (1 << 21) + 1

RULES = [
    *(Fault(name, declared(other), problem, own) for name, own, other, problem in FOREIGN),
    step("Conv", "rounding away in profile single", "single", rescale=fixed(6, "away")),
    rule("Conv", r"factors of shape \[5\]. Give \[1\] or \[6\]", "onnx", factor=floats(*[1] * 5)),
    rule("Conv", r"factors of shape \[1, 6\]", "onnx", factor=np.ones((1, 6), np.float32)),
    rule("Conv", "the factor -1", "onnx", factor=floats(-1)),
    rule("Conv", "the factor inf", "onnx", factor=floats(np.inf)),
    rule("Conv", "the factor nan", "onnx", factor=floats(np.nan)),
    rule("Requantize", r"factors of shape \[2\]", "onnx", factor=floats(1, 1)),
    rule("Mean", r"factors of shape \[4\]. Give \[1\]", "onnx", factor=floats(1, 1, 1, 1)),
    step("Conv", r"multipliers of shape \[2\]", "single", rescale=fixed(2, "single")),
    step("AveragePool", r"multipliers of shape \[5\]. Give \[6\]", "single", rule=fixed(5, "single")),
    rule("Conv", "has 1 shifts. Give one per multiplier: 6", "single", shift=ints(-5)),
    rule("Conv", f"the multiplier {BELOW}", "single", multiplier=ints(*[0] * 5, BELOW)),
    rule("Conv", f"the multiplier {BELOW}", "tflite", multiplier=ints(*[0] * 5, BELOW)),
    rule("Conv", "the multiplier -1", "tflite", multiplier=ints(*[0] * 5, -1)),
    step("Mean", f"the multiplier {BELOW}", "single", rescale=fixed(1, "single", BELOW)),
    step("Mean", "the multiplier 536870911", "tflite", rescale=fixed(1, "double", (1 << 29) - 1)),
    step("Conv", "the shift -32. It must be in -31 … 30", "single", rescale=fixed(6, "single", shift=-32)),
    step("Conv", "the shift 31", "single", rescale=fixed(6, "single", shift=31)),
    rule(TWO_SIDED, "the factor -1", "onnx", positive=rules.FloatRescale(floats(-1))),
    rule(TWO_SIDED, "the factor inf", "onnx", negative=rules.FloatRescale(floats(np.inf))),
    rule(TWO_SIDED, r"factors of shape \[2\]", "onnx", negative=rules.FloatRescale(floats(1, 1))),
    rule(TWO_SIDED, "FixedRescale below 0 in profile onnx", "onnx", negative=fixed(1, "single")),
    rule(TWO_SIDED, "rounding away below 0 only", "tflite", negative=fixed(1, "away")),
    rule(TWO_SIDED, f"the multiplier -{BELOW}", "single", negative=fixed(1, "single", -BELOW)),
    rule(TWO_SIDED, f"the multiplier {-(1 << 31)}", "single", negative=fixed(1, "single", -(1 << 31))),
    rule(CURVE, r"factors of shape \[2\]", "onnx", steps=rules.FloatRescale(floats(1, 1))),
    rule(CURVE, "FixedRescale in profile onnx", "onnx", steps=fixed(1, "single")),
    rule(CURVE, "the segment shift 12. It must be in 0 … 11", "onnx", shift=12),
    rule(CURVE, "the segment shift -1", "single", shift=-1),
    rule(CURVE, "the first segment -33. It must be in -32 … 0", "onnx", first=-33),
    rule(CURVE, "the first segment 1", "onnx", first=1),
    rule(CURVE, r"slopes of shape \[31\]", "onnx", slope=np.zeros(31, np.int16)),
    rule(
        CURVE,
        "slope and bend 32968",
        "onnx",
        slope=np.full(32, -32768, np.int16),
    ),
    rule(
        CURVE,
        "slope and bend 32768",
        "onnx",
        slope=np.full(32, 32767, np.int16),
        bend=np.full(32, -1, np.int16),
    ),
    rule(CURVE, "before the first segment -32768", "onnx", below=-32768),
    rule(CURVE, "behind the last segment 32768", "onnx", above=32768),
    rule("Mul", "the factor -0.5", "onnx", factor=-0.5),
    rule("Mul", "the factor 0.1. It must be a float32", "onnx", factor=0.1),
    rule("Mul", r"the factor 1e\+60", "onnx", factor=1e60),
    *(
        step("RealRescale", problem, "tengine", **fields)
        for problem, fields in (
            (r"factors of shape \[2\]. Give \[1\] or \[3\]", {"factor": floats(1, 1)}),
            ("the factor -1", {"factor": floats(1, -1, 1)}),
            ("the factor inf", {"factor": floats(1, 1, np.inf)}),
            ("the first factor 0.1. It must be a float32 value above 0", {"input": 0.1}),
            ("the first factor 0.0", {"input": 0.0}),
            ("output is inf, not a finite number", {"output": float("inf")}),
            ("the divisor -1.0", {"output": -1.0}),
        )
    ),
    step("RealPair", "kind is 'quotient', not one of sum, difference, product", "tengine", kind="quotient"),
    rule("Softmax", r"a table of shape \[256\]. Give \[256, 256\]", "tengine", table=floats(*[1] * 256)),
    rule("Softmax", "entries outside 0 … 1, or none of 1", "tengine", table=np.zeros((256, 256), np.float32)),
    rule("Add", "left factor 0.1", "onnx", lhs=0.1),
    rule("Add", "right factor -1.0", "onnx", rhs=-1.0),
    rule("Add", "constant 0.1", "onnx", fixed=0.1),
    step("Sub", "Only Add has one", rule=make.SUM_RULES["onnx"]),
    rule("Sub", 'the scale 1.0 for "a", whose scale is 0.05', "onnx", lhs=1.0),
    rule("Sub", 'for "b"', "onnx", rhs=1.0),
    rule("Sub", 'for "y"', "onnx", output=1.0),
    rule("Div", 'for "a"', "onnx", lhs=1.0),
    rule("Div", 'for "y"', "onnx", output=1.0),
    rule("Div", r"divisors of shape \[255\]. Give \[256\]", "onnx", divisor=floats(*[1] * 255)),
    rule("Div", "a divisor that is not-a-number", "onnx", divisor=floats(*[1] * 255, np.nan)),
    rule("Div", r"multipliers of shape \[1\]", "single", multiplier=ints(1 << 30)),
    rule("Div", r"shifts of shape \[1, 256\]", "tflite", shift=ints(*[0] * 256).reshape(1, 256)),
    rule("Div", f"the multiplier {BELOW}", "single", multiplier=ints(*[-BELOW] * 256)),
    rule("Div", f"the multiplier {1 << 31}", "single", multiplier=ints(*[-(1 << 31)] * 256)),
    rule("Div", "the shift 31. It must be in -31 … 30", "tflite", shift=ints(*[31] * 256)),
    rule("ReduceL2", r"factors of shape \[2\]. Give \[1\]", "onnx", factor=floats(1, 1)),
    rule("AveragePool", 'for "x"', "onnx", input=1.0),
    rule("AveragePool", 'for "y"', "onnx", output=1.0),
    rule("Add", "the left shift 19", "tflite", left_shift=19),
    rule("Add", f"left multiplier {BELOW}", "tflite", lhs=(BELOW, 0)),
    rule("Add", "right multiplier 2147483648", "tflite", rhs=(1 << 31, 0)),
    rule("Add", "output multiplier 1", "tflite", output=(1, 0)),
    rule("Add", "left shift 1. It must be in -31 … 0", "tflite", lhs=(1 << 30, 1)),
    rule("Add", "right shift -32", "tflite", rhs=(1 << 30, -32)),
    rule("Add", "output shift 31", "tflite", output=(1 << 30, 31)),
    rule("Add", "the shift 0. It must be in 1 … 62", "single", shift=0),
    rule("Add", "the shift 63", "single", shift=63),
    rule("Add", f"larger multiplier {(1 << 20) - 1}", "single", lhs=(1 << 20) - 1),
    rule("Add", f"larger multiplier {BEYOND}", "single", rhs=BEYOND),
    rule("Add", "smaller multiplier -1", "single", rhs=-1),
    rule("Add", "larger multiplier -1", "single", lhs=-1, rhs=-1, shift=62),
    rule("AddSums", r"right parameters of shape \[3\]", "single", rhs=ints(1, 1, 1)),
    rule("AddSums", r"shift parameters of shape \[4\]", "single", shift=ints(40, 40, 40, 40)),
    rule(
        "AddSums",
        r"left parameters of shape \[3\]",
        "single",
        lhs=ints(1, 1, 1),
        rhs=ints(1, 1, 1),
        shift=ints(1, 1, 1),
    ),
    rule("AddSums", "the shift 63", "single", shift=ints(63)),
    rule("AddSums", f"larger multiplier {1 << 28}", "single", lhs=ints(1 << 28)),
    rule("AddSums", f"larger multiplier {BELOW + 2}", "single", lhs=ints(BELOW + 2)),
    rule("AddSums", f"larger multiplier {BELOW + 2}", "single", lhs=ints(BELOW + 2), shift=ints(62)),
    rule("AddSums", "smaller multiplier -1", "tflite", rhs=ints(-1)),
    rule("Softmax", "the multiplier 0", "tflite", multiplier=0),
    rule("Softmax", "the shift -1", "tflite", shift=-1),
    rule("Softmax", "the shift 32", "tflite", shift=32),
    rule("Softmax", "the diff_min -512. It must be in -511 … 0", "tflite", diff_min=-512),
    rule("Softmax", "the diff_min 1", "tflite", diff_min=1),
    slot("Softmax", 1, "writes scale 0.5", "tflite", scales=floats(0.5)),
    slot("Softmax", 1, "zero point -127", "tflite", zero_point=-127),
    rule("Softmax", r"a table of shape \[255\]", "onnx", table=np.ones(255, np.float32)),
    rule("Softmax", "negative or infinite", "onnx", table=np.full(256, np.inf, np.float32)),
    rule("Softmax", "negative or infinite", "onnx", table=np.linspace(-1, 1, 256, dtype=np.float32)),
    rule("Softmax", "0 at its end", "onnx", table=np.zeros(256, np.float32)),
    rule("Softmax", "a table of float32 and an int factor", "onnx", factor=256),
    rule("Softmax", "the factor 0.1", "onnx", factor=0.1),
    rule("Softmax", "number of fraction bits 16", "onnx", fraction_bits=16),
    rule("Softmax", f"table entry {(1 << 24) + 1}", "single", table=np.full(256, (1 << 24) + 1, np.int32)),
    rule("Softmax", f"the factor {(1 << 37) + 1}", "single", factor=(1 << 37) + 1),
    rule("Softmax", "number of fraction bits 15", "single", fraction_bits=15),
    Fault("Softmax", with_classes((1 << 20) + 1), "number of classes 1048577", "single"),
    *norm_faults.RULES,
    *recurrent_faults.PARAMETERS,
    *integer_lstm_faults.PARAMETERS,
    *real_function_faults.PARAMETERS,
    *time_filter_faults.PARAMETERS,
    *integer_gru_faults.PARAMETERS,
    axis("the fraction 1.5. It must be in 0 … 1", "onnx", fraction=floats(0, 0.5, 1.5)),
    axis("the fraction -0.5", "onnx", fraction=floats(0, -0.5, 1)),
    axis("the fraction nan", "onnx", fraction=floats(0, np.nan, 1)),
    axis("the fraction 1025. It must be in 0 … 1024", "single", fraction=ints(0, 1, 1025)),
    axis("fractions of float32", "tflite", fraction=floats(0, 0, 1)),
]

FLOAT = [
    step("Float", "5 bytes that are no ONNX model", model=b"x\xff\xff\xff\xff"),
    step("Float", "has no nodes", nodes=()),
    step("Float", "2 nodes and 1 reasons", reasons=("why",)),
    step(
        "Float", r"inputs \['x', 'b'\]. They must be the slots: \['x'\]", model=make.float_model(("x", "b"))
    ),
    step("Float", r"outputs \['z'\]", model=make.float_model(output="z")),
    step("Float", 'takes "x" as float64', model=make.float_model(kind=TensorProto.DOUBLE)),
]

FAULTS = [*FIELDS, *SLOTS, *ORDER, *KINDS, *SHAPES, *CONSTANTS, *RULES, *FLOAT]
