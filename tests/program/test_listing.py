"""The listing shows every instruction on one line; the summary counts what can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from example_programs import EXAMPLES, chain, codes, float_model, plain, with_slot, with_step
from onnx import TensorProto, helper

from calib8.program import instructions as op
from calib8.program.listing import listing, summary
from calib8.program.program import Port, Program
from calib8.program.rules import PROFILES, Profile


def line_of(program: Program, number: int = 0) -> str:
    """The line of one instruction."""
    (line,) = (line for line in listing(program).splitlines() if line.startswith(f"{number:>4}  "))
    return line


def test_a_listing_from_top_to_bottom() -> None:
    lines = listing(chain("tflite")).splitlines()
    assert lines[0] == 'program "chain", profile tflite, 6 instructions, 7 slots'
    assert lines[1] == 'input   %0 "image" float32 1×3×8×8'
    first = '0 Quantize %0 → %1 "image" uint8 1×8×8×3 (0.05, 3) axes 0 2 3 1, rounding away'
    assert " ".join(lines[2].split()) == first
    assert lines[5].split()[:6] == ["3", "FullyConnected", "%3", "→", "%4", '"head"']
    assert "int32 1×5 (0.1 … 0.5)" in lines[5]
    assert lines[8] == 'output  %6 "scores" float32 1×5'
    assert len(lines) == 9


@pytest.mark.parametrize(("name", "profile"), EXAMPLES)
def test_every_instruction_has_one_line_with_its_slots(name: str, profile: Profile) -> None:
    program = EXAMPLES[name, profile]
    step, output = program.instructions[0], program.slots[program.instructions[0].outputs[0]]
    assert len(listing(program).splitlines()) == 2 + len(program.inputs) + len(program.outputs)
    line = line_of(program)
    assert line.split()[1] == type(step).__name__
    sizes = "×".join(map(str, output.shape))
    assert f'%{step.outputs[0]} "y" {output.dtype} {sizes}' in line
    assert all(f"%{number}" in line for number in step.inputs)


@pytest.mark.parametrize(
    ("name", "profile", "shown"),
    [
        ("Conv", "onnx", "weight int8 6×3×3×2 (-124 … 127), bias int32 6 (-6 … 4), × 0.01, clamp 3 … 200"),
        ("Conv", "onnx", "strides 2 1, pads 1 0 1 2, dilations 1 2, groups 2"),
        ("Conv of uint8", "onnx", "weight zero point int32 6 (9)"),
        ("Conv", "tflite", "× 0.015625 (shift -5, double)"),
        ("Conv", "single", "× 0.015625 (shift -5, single)"),
        ("Mul", "onnx", "× 0.25, clamp 0 … 255"),
        ("Add", "single", "AlignedSum(lhs 1048576, rhs 524288, shift 20)"),
        ("Softmax", "tflite", "FixedSoftmax(multiplier 1717986944, shift 22, diff_min -496)"),
        (
            "LayerNorm",
            "onnx",
            "rule FloatNorm(factor float32 5 (-12.5 … 31.25), offset float32 5 (-7 … 100), ",
        ),
        ("LayerNorm", "onnx", "epsilon 0.25), clamp -120 … 127"),
        ("LayerNorm", "single", "shift int32 5 (47), epsilon 16384), clamp -120 … 127"),
        ("GroupNorm", "onnx", "groups 2, rule FloatGroupNorm(factor float32 6 (-12.5 … 31.25), "),
        ("GroupNorm", "single", "offset_shift int32 6 (20), epsilon 16384), clamp -120 … 127"),
        ("Recurrent", "onnx", "cell LSTM, directions forward reverse, weight int8 2×16×5 ("),
        ("Recurrent", "onnx", "CellFunction(name HardSigmoid, alpha 0.25, beta 0.5)"),
        ("Recurrent", "onnx", "clip 2.5, coupled False, reset after False, extras h c lengths"),
        ("IntegerLstm", "single", "time first True, coupled False, weight int8 4×4×5 ("),
        ("IntegerGru", "single", "time first True, reverse True, reset after True, weight int8 3×4×5 ("),
        ("IntegerLstm", "single", "cell bits 3, cell clip 30000, hidden Multipliers(multiplier int32 1 ("),
        ("MaxPool", "onnx", "kernel 3 2, strides 2 2, pads 1 0 0 0"),
        ("Lookup", "onnx", "table int8 3×256 (-128 … 127), Sigmoid"),
        ("Slice", "onnx", "starts 1 0 3, steps 1 2 -1"),
        ("Float", "onnx", "nodes conv relu"),
    ],
)
def test_parameters_are_shown(name: str, profile: Profile, shown: str) -> None:
    assert shown in line_of(EXAMPLES[name, profile])


def test_the_range_of_multipliers_is_shown() -> None:
    conv = EXAMPLES["Conv", "onnx"]
    rescale = replace(
        conv.instructions[0].rescale,  # type: ignore[attr-defined]
        factor=np.array([0.5, 0.25, 0.125, 2, 1, 1], np.float32),
    )
    assert "× 0.125 … 2, clamp" in line_of(with_step(conv, rescale=rescale))


def test_what_changes_nothing_is_left_out() -> None:
    line = line_of(EXAMPLES["FullyConnected to sums", "onnx"])
    assert "clamp" not in line and "weight zero point" not in line and "rescale" not in line
    assert "dilations" not in line_of(EXAMPLES["MaxPool", "onnx"])
    assert "count pads" not in line_of(EXAMPLES["AveragePool", "onnx"])
    assert "count pads True" in line_of(with_step(EXAMPLES["AveragePool", "onnx"], count_pads=True))


def test_names_with_line_breaks_stay_on_their_line() -> None:
    program = with_slot(chain(), 2, name="a\nb")
    assert '"a b"' in listing(program)
    assert len(listing(program).splitlines()) == len(listing(chain()).splitlines())


def test_ports_named_otherwise_than_their_slot() -> None:
    program = replace(chain(), outputs=(Port("probabilities", 6),))
    assert listing(program).splitlines()[-1] == 'output  "probabilities" is %6 "scores" float32 1×5'


@pytest.mark.parametrize("profile", PROFILES)
def test_the_summary_of_a_chain(profile: Profile) -> None:
    found = summary(chain(profile))
    assert found.profile == profile
    steps = ("Quantize", "Conv", "Reshape", "FullyConnected", "Requantize", "Dequantize")
    assert found.instructions == dict.fromkeys(steps, 1)
    assert found.integer_macs == 4 * 4 * 6 * 3 * 3 * 3 + 5 * 96
    assert (found.float_macs, found.float_nodes) == (0, ())
    assert found.weight_bytes == 6 * 27 + 6 * 4 + 5 * 96 + 5 * 4
    # The float image and its codes live at the same time; everything later is smaller.
    assert found.peak_bytes == 3 * 8 * 8 * 4 + 3 * 8 * 8


@pytest.mark.parametrize(
    ("name", "macs"),
    [
        ("Conv", (2 * 5 * 6 * 6) * (2 * 3 * 3)),
        ("DepthwiseConv", (2 * 5 * 6 * 8) * (3 * 3)),
        ("ConvTranspose", (2 * 9 * 8 * 4) * (3 * 3 * 3)),
        ("FullyConnected", (2 * 5) * 7),
        ("MatMul", (3 * 2 * 5) * 4),
        ("Add", 0),
    ],
)
def test_multiplications_are_counted(name: str, macs: int) -> None:
    assert summary(EXAMPLES[name, "onnx"]).integer_macs == macs


def test_float_nodes_are_counted_and_listed() -> None:
    found = summary(EXAMPLES["Float", "onnx"])
    assert (found.integer_macs, found.float_macs) == (0, 2 * 2 * 2 * 27)
    assert found.float_nodes == ("conv", "relu")
    assert found.instructions == {"Float": 1}


def float_node(
    kind: str, inputs: dict[str, tuple[int, ...]], output: tuple[int, ...], **attributes: int
) -> Program:
    """One node whose inputs are all fed."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(kind, list(inputs), ["y"], "n", **attributes)
    graph = helper.make_graph([node], "part", ports, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    slots = (*(plain(name, *shape) for name, shape in inputs.items()), plain("y", *output))
    numbers = tuple(range(len(inputs)))
    step = op.Float("n", numbers, (len(inputs),), model.SerializeToString(), ("n",))
    fed = tuple(Port(name, number) for number, name in enumerate(inputs))
    return Program("onnx", slots, (step,), fed, (Port("y", len(inputs)),))


@pytest.mark.parametrize(
    ("program", "macs"),
    [
        (float_node("MatMul", {"a": (2, 3, 4), "b": (4, 5)}, (2, 3, 5)), 2 * 3 * 5 * 4),
        (float_node("Gemm", {"a": (4, 3), "b": (4, 5)}, (3, 5), transA=1), 3 * 5 * 4),
        (float_node("Gemm", {"a": (3, 4), "b": (5, 4)}, (3, 5), transB=1), 3 * 5 * 4),
        (float_node("ConvTranspose", {"a": (1, 2, 4, 4), "b": (2, 3, 3, 3)}, (1, 3, 6, 6)), 32 * 27),
        (float_node("Relu", {"a": (2, 3)}, (2, 3)), 0),
        (
            float_node("LSTM", {"a": (3, 1, 4), "w": (1, 8, 4), "r": (1, 8, 2)}, (3, 1, 1, 2), hidden_size=2),
            3 * 8 * (4 + 2),
        ),
    ],
    ids=["MatMul", "Gemm, A transposed", "Gemm, B transposed", "ConvTranspose", "Relu", "LSTM"],
)
def test_multiplications_of_float_nodes(program: Program, macs: int | None) -> None:
    assert summary(program).float_macs == macs


def test_unknown_sizes_inside_a_float_node_are_said_to_be_unknown() -> None:
    model = onnx.ModelProto.FromString(float_model())
    model.graph.node[0].input[0] = "late"
    model.graph.node.insert(0, helper.make_node("Reshape", ["x", "s"], ["late"], "reshape"))
    model.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, [4]))
    program = EXAMPLES["Float", "onnx"]
    slots = (program.slots[0], plain("s", 4, dtype="int64"), program.slots[1])
    step = replace(program.instructions[0], inputs=(0, 1), outputs=(2,), model=model.SerializeToString())
    inputs = (Port("x", 0), Port("s", 1))
    program = replace(program, slots=slots, instructions=(step,), inputs=inputs, outputs=(Port("y", 2),))
    assert summary(program).float_macs is None


@pytest.mark.parametrize(
    ("last_reads", "outputs", "peak"),
    [
        (2, (3,), 160),  # x and a, while the first runs
        (1, (3,), 200),  # a and c, while the last runs
        (1, (2, 3), 210),  # b as well
        (2, (0, 3), 250),  # x, b and c
    ],
)
def test_tensors_live_until_their_last_reader_or_to_the_end(
    last_reads: int, outputs: tuple[int, ...], peak: int
) -> None:
    """x → a → b, then c of a or b: 100, 60, 10 and 140 bytes."""
    table = {"table": np.zeros(256, np.uint8), "function": "f"}
    steps = tuple(op.Lookup("f", (source,), (number,), **table) for number, source in ((1, 0), (2, 1)))
    last = op.Lookup("f", (last_reads,), (3,), **table)
    slots = (codes("x", 100), codes("a", 60), codes("b", 10), codes("c", 140))
    ports = tuple(Port(str(slot), slot) for slot in outputs)
    assert summary(Program("onnx", slots, (*steps, last), (Port("x", 0),), ports)).peak_bytes == peak
