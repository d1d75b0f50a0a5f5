"""Plans that somebody tampered with and sealed again: told when they are opened, or harmless."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from generated import CASES, to_float
from wide_programs import WIDE

from bits import with_fields
from calib8 import InferenceSession, ModelError, _core
from calib8.engine import plan_file
from calib8.engine.compile import compile_program
from calib8.engine.emitter import aligned_bytes
from calib8.engine.fields import FIRST_PORT
from calib8.engine.plan import FloatCall, Plan, Stored
from calib8.engine.plan_file import save_plan
from calib8.engine.run import available_isas
from calib8.profiles import Profile
from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.rounding.resize import linear_axis
from calib8.program.rules import FloatProduct
from program.example_programs import EXAMPLES, chain, codes, single

SCRIPT = Path(__file__).with_name("plan_mutations.py")


def plan_of(name: str) -> Plan:
    return compile_program(EXAMPLES[name, "single"])


def depthwise(size: tuple[int, int], kernel: int, dilation: int) -> Program:
    """The example's layer of 8 channels with another window, as large as its input."""
    example, pad = EXAMPLES["DepthwiseConv", "onnx"], dilation * (kernel // 2)
    step = example.instructions[0]
    assert isinstance(step, op.DepthwiseConv)
    weight = np.random.default_rng(0).integers(-127, 128, (kernel, kernel, 8)).astype(np.int8)
    window = {"strides": (1, 1), "pads": (pad,) * 4, "dilations": (dilation,) * 2}
    slots = (codes("x", 2, *size, 8), codes("y", 2, *size, 8))
    return replace(example, slots=slots, instructions=(replace(step, weight=weight, **window),))  # type: ignore[arg-type]


def resized(rows: int, columns: int) -> Program:
    """A Resize that gives float32, twice as high and wide."""
    x, y = codes("x", 1, rows, columns, 3), codes("y", 1, 2 * rows, 2 * columns, 3)
    along, across = (linear_axis("onnx", size, 2 * size, 2.0, "half_pixel") for size in (rows, columns))
    return to_float(single(op.ResizeLinear, [x], y, "onnx", rows=along, columns=across))


def gated() -> Program:
    """Channels with gates."""
    slots = [codes("x", 2, 3, 4, 24), codes("gate", 2, 1, 1, 24)]
    rule = FloatProduct(0.01)
    return single(op.Mul, slots, codes("y", 2, 3, 4, 24), "onnx", rescale=rule, low=0, high=255)


@pytest.mark.parametrize("bits", [8, pytest.param(16, marks=pytest.mark.slow)])
def test_changed_numbers_never_end_the_process(bits: int, tmp_path: Path) -> None:
    """A signal, or an error that is none of a broken plan, would end the script at once."""
    programs = [program for (name, _), program in EXAMPLES.items() if name != "Float"]
    programs += [chain(), resized(5, 20), depthwise((9, 10), 3, 2), depthwise((12, 11), 5, 2), gated()]
    if bits == 16:
        programs = [program for (_, profile), program in WIDE.items() if profile != "tflite"]
    files = [tmp_path / f"{number}.c8" for number in range(len(programs))]
    for program, file in zip(programs, files, strict=True):
        save_plan(compile_program(program), file)
    count = (25 if bits == 8 else 10) * CASES
    result = subprocess.run(
        [sys.executable, str(SCRIPT), "7", str(count), *map(str, files)], capture_output=True, text=True
    )
    assert result.returncode == 0, (result.stdout[-20:], result.stderr[-2000:])
    refused, run = map(int, re.findall(r"\d+", result.stdout.splitlines()[-1]))
    assert refused + run == count
    assert min(refused, run) > count // 10


def test_fields_of_what_a_step_does_not_do_are_refused() -> None:
    """Some instruction sets took such a step for one that does it, and read beside the constants."""
    plan = compile_program(WIDE["DepthwiseConv of a curve, 8 to 16", "single"])
    opcodes = [row.opcode for row in plan.rows]
    for opcode, name, value in (
        ("depthwise", "narrow", 2),
        ("depthwise", "activation.negative", 0),
        ("finish", "activation.negative", (1 << 63) - 1),
        ("finish", "activation.negative_shift", 64),
    ):
        assert opcode in opcodes
        with pytest.raises(ModelError, match=r"bounds of sums|factors that nothing reads"):
            InferenceSession(with_fields(plan, opcode, {name: value}))
    with pytest.raises(ModelError, match="bounds of sums"):
        InferenceSession(with_fields(plan_of("DepthwiseConv"), "depthwise", {"narrow": 3}))
    InferenceSession(plan)


@pytest.mark.parametrize("isa", _core.engine.available_isas())
def test_rows_that_all_lie_in_one_place(isa: str) -> None:
    """No instruction set divides by what rows are apart."""
    plan = compile_program(depthwise((9, 10), 1, 1))
    session = InferenceSession(with_fields(plan, "depthwise", {"input.row_stride": 0}), isa=isa)
    session.run(None, {"x": np.ones((2, 9, 10, 8), np.uint8)})


@pytest.mark.parametrize("isa", _core.engine.available_isas())
def test_rows_that_lie_in_front_of_each_other(isa: str) -> None:
    """Every place of a row is one, also −1."""
    plan = compile_program(resized(3, 40))
    fields = _core.engine.schemas()["resize_to_float"]
    offset = next(row for row in plan.rows if row.opcode == "resize_to_float").fields[
        fields.index("input.offset")
    ]
    changed = with_fields(plan, "resize_to_float", {"input.row_stride": -1, "input.offset": int(offset) + 2})
    feeds = {"x": np.random.default_rng(0).integers(0, 256, (1, 3, 40, 3)).astype(np.uint8)}
    wanted = InferenceSession(changed, isa="reference").run(None, feeds)[0]
    np.testing.assert_array_equal(InferenceSession(changed, isa=isa).run(None, feeds)[0], wanted)


@pytest.mark.parametrize(("name", "opcode"), [("Conv", "conv"), ("DepthwiseConv", "depthwise")])
@pytest.mark.parametrize("isa", _core.engine.available_isas())
def test_weights_that_are_not_aligned_are_refused(name: str, opcode: str, isa: str) -> None:
    plan = plan_of(name)
    place = next(row for row in plan.rows if row.opcode == opcode)
    weights = int(place.fields[_core.engine.schemas()[opcode].index("weights")])
    longer = np.zeros(plan.constants.size + 64, np.uint8)
    start = -longer.ctypes.data % 64
    constants = longer[start : start + plan.constants.size]
    constants[:] = plan.constants
    for distance in (1, 4, 32):
        moved = replace(with_fields(plan, opcode, {"weights": weights + distance}), constants=constants)
        with pytest.raises(ModelError, match="weights that are not aligned"):
            InferenceSession(moved, isa=isa)


def test_a_plan_that_writes_into_an_input_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    sizes = {f"sizes.{axis}": 1 for axis in range(6)}
    changes = {"target_buffer": FIRST_PORT, "target_offset": 0, "source_offset": 0, "run": 1, **sizes}
    save_plan(with_fields(plan_of("Conv"), "copy", changes), tmp_path / "w.c8")
    with pytest.raises(ModelError, match=r"w\.c8: cannot be run \(.*writes into an input"):
        InferenceSession(tmp_path / "w.c8")


@pytest.mark.parametrize(
    ("name", "opcode", "prefix"),
    [
        ("MaxPool", "max_pool", "input."),
        ("AveragePool", "average_pool", "input."),
        ("Softmax", "softmax", "source_"),
        ("LayerNorm", "layer_norm", "input."),
        ("GroupNorm", "group_norm", "input."),
        ("ReduceMax", "reduce", "source_"),
        ("ArgMax", "arg_max", "source_"),
    ],
)
def test_kernels_that_load_whole_vectors_never_read_an_array_of_the_caller(
    name: str, opcode: str, prefix: str
) -> None:
    """Nothing lies behind it, unlike behind the arena; where the array itself goes on, they may."""
    plan = plan_of(name)
    read = with_fields(plan, opcode, {f"{prefix}buffer": FIRST_PORT, f"{prefix}offset": 0})
    with pytest.raises(ModelError, match="may read beyond an array of the caller"):
        InferenceSession(read)
    port = plan.inputs[0]
    for more, fits in ((63, False), (64, True)):
        longer = port._replace(shape=(math.prod(port.shape) + more,))
        changed = replace(read, inputs=(longer, *plan.inputs[1:]))
        if fits:
            InferenceSession(changed)
        else:
            with pytest.raises(ModelError, match="may read beyond an array of the caller"):
                InferenceSession(changed)


def first_input(call: FloatCall, **changes: Any) -> FloatCall:
    (name, part), *others = call.inputs
    return call._replace(inputs=((name, part._replace(**changes)), *others))


def first_output(call: FloatCall, **changes: Any) -> FloatCall:
    (name, part), *others = call.outputs
    return call._replace(outputs=((name, part._replace(**changes)), *others))


CALLS: dict[str, Callable[[FloatCall], FloatCall]] = {
    "before the first step": lambda call: call._replace(before=-1),
    "behind the last step": lambda call: call._replace(before=100),
    "a buffer that does not exist": lambda call: first_input(call, buffer=9),
    "the constants": lambda call: first_input(call, buffer=1),
    "beyond the arena": lambda call: first_input(call, buffer=0, offset=1 << 40),
    "before the arena": lambda call: first_input(call, buffer=0, offset=-64),
    "another shape": lambda call: first_input(call, buffer=FIRST_PORT, offset=0, shape=(3,)),
    "a type that no tensor has": lambda call: first_input(call, dtype="object"),
    "another shift": lambda call: first_input(call, shift=64),
    "an input that is written": lambda call: call._replace(
        outputs=tuple((name, Stored(FIRST_PORT, 0, part.dtype, part.shape, 0)) for name, part in call.outputs)
    ),
    "an output of another type": lambda call: first_output(call, dtype="uint64"),
}


@pytest.mark.parametrize("what", CALLS)
def test_float_calls_that_lead_outside_are_refused(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a plan made in Python, and in the file that somebody else writes of it."""
    plan = compile_program(EXAMPLES["Float", "single"])
    changed = replace(plan, floats=tuple(map(CALLS[what], plan.floats)))
    for take in (InferenceSession, lambda found: save_plan(found, tmp_path / "f.c8")):
        with pytest.raises(ModelError, match="is not a plan that can run"):
            take(changed)
    assert not (tmp_path / "f.c8").exists()
    with monkeypatch.context() as unchecked:
        unchecked.setattr(plan_file, "check_plan", lambda plan, name: None)
        save_plan(changed, tmp_path / "f.c8")
    with pytest.raises(ModelError, match=r"f\.c8: holds a header that makes no plan"):
        InferenceSession(tmp_path / "f.c8")


@pytest.mark.parametrize("changes", [{"fraction_bits": 48}, {"fraction_bits": -1}, {"integer_factor": -1}])
def test_a_softmax_that_divides_by_zero_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ModelError, match="out of range"):
        InferenceSession(with_fields(plan_of("Softmax"), "softmax", changes))


@pytest.mark.parametrize(
    ("profile", "changes", "told"),
    [
        ("single", {"whole_epsilon": -1}, "an epsilon out of range"),
        ("single", {"whole_epsilon": (1 << 62) + 1}, "an epsilon out of range"),
        ("single", {"kind": 3}, "an unknown LayerNorm"),
        ("single", {"shift": 1 << 40}, "a step leaves its buffer"),
        ("onnx", {"factor": -64}, "a step leaves its buffer"),
        ("onnx", {"offset": 1 << 40}, "a step leaves its buffer"),
        ("onnx", {"input.channels": 4}, "a LayerNorm that changes its shape"),
        ("onnx", {"centre": 256}, "a centre that is no code"),
        ("single", {"centre": -2}, "a centre that is no code"),
        ("onnx", {"zero_point": 256}, "a zero point that is no code"),
        ("onnx", {"low": 200, "high": 199}, "a clamp that is none of codes"),
    ],
)
def test_a_layer_norm_out_of_range_is_refused(profile: Profile, changes: dict[str, int], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        InferenceSession(with_fields(compile_program(EXAMPLES["LayerNorm", profile]), "layer_norm", changes))


@pytest.mark.parametrize(
    ("profile", "changes", "told"),
    [
        ("single", {"whole_epsilon": -1}, "an epsilon out of range"),
        ("single", {"whole_epsilon": (1 << 62) + 1}, "an epsilon out of range"),
        ("single", {"epsilon_bits": 40}, "fraction bits out of range"),
        ("single", {"epsilon_bits": 3}, "fraction bits out of range"),
        ("single", {"kind": 3}, "an unknown GroupNorm"),
        ("single", {"factor_shift": 1 << 40}, "a step leaves its buffer"),
        ("single", {"offset_shift": -64}, "a step leaves its buffer"),
        ("onnx", {"factor": -64}, "a step leaves its buffer"),
        ("onnx", {"offset": 1 << 40}, "a step leaves its buffer"),
        ("onnx", {"input.channels": 4}, "a GroupNorm that changes its shape"),
        ("onnx", {"groups": 0}, "groups that are none"),
        ("onnx", {"groups": 4}, "groups that are none"),
        ("onnx", {"groups": 12}, "groups that are none"),
        ("onnx", {"zero_point": 256}, "a zero point that is no code"),
        ("onnx", {"low": 200, "high": 199}, "a clamp that is none of codes"),
    ],
)
def test_a_group_norm_out_of_range_is_refused(profile: Profile, changes: dict[str, int], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        InferenceSession(with_fields(compile_program(EXAMPLES["GroupNorm", profile]), "group_norm", changes))


@pytest.mark.parametrize(
    ("profile", "changes", "told"),
    [
        ("single", {"kind": 3}, "an unknown quotient"),
        ("single", {"multiplier": 1 << 40}, "a step leaves its buffer"),
        ("tflite", {"shift": -64}, "a step leaves its buffer"),
        ("onnx", {"divisor": -64}, "a step leaves its buffer"),
        ("onnx", {"kind": 0}, "an unknown quotient"),
        ("onnx", {"lhs_zero": 256}, "a zero point that is no code"),
        ("onnx", {"zero_point": -1}, "a zero point that is no code"),
        ("onnx", {"low": 200, "high": 199}, "a clamp that is none of codes"),
    ],
)
def test_a_quotient_out_of_range_is_refused(profile: Profile, changes: dict[str, int], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        InferenceSession(with_fields(compile_program(EXAMPLES["Div", profile]), "div", changes))


@pytest.mark.parametrize(
    ("profile", "changes", "told"),
    [
        ("onnx", {"kind": 4}, "an unknown reduction"),
        ("onnx", {"zero_point": 1 << 62}, "a zero point that is no code"),
        ("single", {"zero_point": -1}, "a zero point that is no code"),
        ("onnx", {"rescale.kind": 0}, "makes no codes"),
        ("single", {"rescale.kind": 2}, "a length of two roundings"),
        ("single", {"rescale.shift": 1 << 40}, "a step leaves its buffer"),
    ],
)
def test_a_length_out_of_range_is_refused(profile: Profile, changes: dict[str, int], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        InferenceSession(with_fields(compile_program(EXAMPLES["ReduceL2", profile]), "reduce", changes))


@pytest.mark.parametrize("name", ["LayerNorm", "GroupNorm"])
@pytest.mark.parametrize("epsilon", [-1.0, float("nan")])
def test_a_norm_with_an_epsilon_below_0_is_refused(epsilon: float, name: str) -> None:
    plan = compile_program(EXAMPLES[name, "onnx"])
    bits = int(np.float64(epsilon).view(np.int64))
    with pytest.raises(ModelError, match="an epsilon below 0"):
        InferenceSession(with_fields(plan, f"{name[:5].lower()}_norm", {"~epsilon": bits}))


@pytest.mark.parametrize(
    ("name", "profile", "field", "value", "told"),
    [
        ("LayerNorm", "single", "shift", 63, "a shift"),
        ("LayerNorm", "single", "factor", -(1 << 31), "a factor"),
        ("GroupNorm", "single", "factor_shift", 127, "a shift"),
        ("GroupNorm", "single", "offset_shift", 0, "a shift"),
        ("GroupNorm", "tflite", "offset", -(1 << 31), "a factor"),
        ("GroupNorm", "onnx", "factor", int(np.float32(1e30).view(np.int32)), "a factor"),
        ("GroupNorm", "onnx", "offset", int(np.float32(np.inf).view(np.int32)), "a factor"),
        ("GroupNorm", "onnx", "factor", int(np.float32(np.nan).view(np.int32)), "a factor"),
    ],
)
def test_constants_of_a_norm_out_of_range_are_refused(
    name: str, profile: Profile, field: str, value: int, told: str
) -> None:
    plan, opcode = compile_program(EXAMPLES[name, profile]), f"{name[:5].lower()}_norm"
    row = next(row for row in plan.rows if row.opcode == opcode)
    place = int(row.fields[_core.engine.schemas()[opcode].index(field)])
    constants = aligned_bytes(plan.constants.size - 64)
    constants[:] = plan.constants
    constants[place : place + 4].view(np.int32)[0] = value
    with pytest.raises(ModelError, match=f"{told}.* out of range"):
        InferenceSession(replace(plan, constants=constants))


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("stride", [-1, 0, 2])
def test_a_reduction_reads_along_any_stride(isa: str, stride: int) -> None:
    count = 32
    reduction = single(op.ReduceMax, [codes("x", 1, 64)], codes("y", 1, 1), "onnx", axes=(1,))
    plan = compile_program(reduction)
    row = next(row for row in plan.rows if row.opcode == "reduce")
    first = int(row.fields[_core.engine.schemas()["reduce"].index("source_offset")])
    sizes, strides = {"inner_sizes.5": count}, {"inner_strides.5": stride}
    if stride == 0:  # an element once, whatever the stride
        sizes = {"inner_sizes.5": 1}
    begin = 40 if stride < 0 else 1
    changed = with_fields(plan, "reduce", {"source_offset": first + begin, **sizes, **strides})
    x = np.random.default_rng(stride + 1).integers(0, 256, (1, 64), np.uint8)
    places = begin + stride * np.arange(sizes["inner_sizes.5"])
    [found] = InferenceSession(changed, isa=isa).run(None, {"x": x})
    assert int(found.item()) == int(x[0, places].max())


def test_a_mean_without_a_rescale_is_refused() -> None:
    with pytest.raises(ModelError, match="a mean or a length that makes no codes"):
        InferenceSession(with_fields(plan_of("ReduceMax"), "reduce", {"kind": 0}))


@pytest.mark.parametrize("profile", ["tflite", "single"])
def test_exponentials_that_add_up_to_nothing_are_refused(profile: Profile) -> None:
    plan = compile_program(EXAMPLES["Softmax", profile])
    zeros = aligned_bytes(plan.constants.size - 64)
    with pytest.raises(ModelError, match="an exponential of 0 that is not 1"):
        InferenceSession(replace(plan, constants=zeros))
