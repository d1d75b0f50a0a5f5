"""What has no C code or does not fit is refused at once, with all that is in the way; where tensors lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from example_programs import EXAMPLES, chain, codes, single
from hypothesis import given, settings
from hypothesis import strategies as st

from calib8.arena import Life
from calib8.errors import UnsupportedModelError, UsageError
from calib8.exporting.c.export import to_c
from calib8.exporting.c.memory import ALIGNMENT, Tensors, arena, tensors
from calib8.exporting.c.text import identifier, number, prefix, said
from calib8.model.load import load_model
from calib8.program import instructions as op
from calib8.program.lower.lower import lower
from calib8.program.program import Port, Program, State
from small_nets import clean


def refusal(program: Program, **options: Any) -> str:
    with pytest.raises(UnsupportedModelError) as caught:
        to_c(program, "net", **options)
    return str(caught.value)


def joined(*programs: Program) -> Program:
    """Programs beside each other, as one."""
    slots: list[Any] = []
    steps: list[op.Instruction] = []
    inputs, outputs = [], []
    for number_, program in enumerate(programs):
        first = len(slots)
        slots += program.slots
        steps += [
            replace(
                step, name=f"{step.name}{number_}",
                inputs=tuple(slot + first for slot in step.inputs),
                outputs=tuple(slot + first for slot in step.outputs),
            )
            for step in program.instructions
        ]  # fmt: skip
        inputs += [Port(f"{port.name}{number_}", port.slot + first) for port in program.inputs]
        outputs += [Port(f"{port.name}{number_}", port.slot + first) for port in program.outputs]
    return Program(programs[0].profile, tuple(slots), tuple(steps), tuple(inputs), tuple(outputs), "net")


def test_all_that_has_no_form_is_listed_at_once() -> None:
    names = ("LayerNorm", "ResizeLinear", "ConvTranspose", "MaxPool")
    text = refusal(joined(*(EXAMPLES[name, "tflite"] for name in names)))
    assert text.startswith("model: 3 parts have no form in C: ")
    assert "'node0' (LayerNorm), 'node1' (ResizeLinear), 'node2' (ConvTranspose): it has no C code" in text
    assert "MaxPool" not in text


def test_a_state_is_refused_by_name() -> None:
    program = EXAMPLES["MaxPool", "tflite"]
    port, given_ = program.inputs[0], program.outputs[0]
    state = State(port.name, given_.name)
    assert f"state '{port.name}': C code keeps nothing between two runs" in refusal(
        replace(program, states=(state,))
    )


def test_an_output_that_never_changes_is_refused() -> None:
    assert "it is the same in every run" in refusal(EXAMPLES["Constant", "tflite"])


def test_borders_that_the_program_does_not_have_are_refused() -> None:
    program = EXAMPLES["MaxPool", "tflite"]
    text = refusal(program, inputs="float32")
    assert "it cannot be float32: it is uint8 in the model" in text
    assert "Leave inputs and outputs out, or quantize the float model with target='tflite'" in text


@pytest.mark.parametrize(
    ("stem", "options", "text"),
    [
        ("a b", {}, "is no name for a file that C code includes"),
        ('a"', {}, "is no name for a file that C code includes"),
        ("stdint", {}, "in place of the header stdint.h that C code needs"),
        ("arm_nnfunctions", {}, "in place of the header arm_nnfunctions.h"),
        ("net", {"inputs": "int16"}, "is not a type of inputs and outputs"),
        ("net", {"arena_limit": 0}, "is no number of bytes"),
        ("net", {"flash_limit": -1}, "is no number of bytes"),
    ],
)
def test_options_that_mean_nothing(stem: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        to_c(chain("tflite"), stem, **options)


def test_what_does_not_fit_is_listed_with_its_sizes() -> None:
    program = lower(load_model(clean("residual", "tflite")), profile="tflite")
    exported = to_c(program, "net")
    arena_bytes, flash_bytes = exported.arena_bytes, exported.flash_bytes
    to_c(program, "net", arena_limit=arena_bytes, flash_limit=flash_bytes)
    text = refusal(program, arena_limit=arena_bytes - 1, flash_limit=flash_bytes - 1)
    assert f"the arena takes {arena_bytes:,} bytes, more than arena_limit={arena_bytes - 1}" in text
    assert f"constants take {flash_bytes:,} bytes of flash, more than flash_limit={flash_bytes - 1}" in text
    sizes = [slot for slot in program.slots if slot.dtype == "float32"]
    assert f"{4 * int(np.prod(sizes[0].shape)):,}" in text
    weights = [step.weight.size for step in program.instructions if isinstance(step, op.Conv)]
    assert "_weight of '" in text and f" {max(weights):,}" in text


LIVES = st.lists(
    st.tuples(st.integers(1, 300), st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=14
)


@given(LIVES)
@settings(derandomize=True, deadline=None)
def test_tensors_that_live_together_lie_apart(drawn: list[tuple[int, int, int]]) -> None:
    lives = {key: Life(size, first, first + length) for key, (size, first, length) in enumerate(drawn)}
    placed = arena(Tensors({key: key for key in lives}, lives), {0: 0, 3: 40})
    spans = {key: (placed.of[key], placed.of[key] + life.size) for key, life in lives.items()}
    spans[-1], lives[-1] = (placed.scratch[3], placed.scratch[3] + 40), Life(40, 4, 4)
    for key, (begin, end) in spans.items():
        assert begin % ALIGNMENT == 0 and end <= placed.total
        for other, (low, high) in spans.items():
            meet = lives[key].first <= lives[other].last and lives[other].first <= lives[key].last
            assert key == other or not meet or end <= low or high <= begin
    assert placed.total <= sum(-(-life.size // ALIGNMENT) * ALIGNMENT for life in lives.values())


def test_a_place_lower_than_by_size_alone_is_found() -> None:
    """Three tensors in a row, the largest one last: by size they would lie on top of each other."""
    lives = {0: Life(27648, 0, 1), 1: Life(18432, 1, 2), 2: Life(18432, 2, 3), 3: Life(36864, 3, 4)}
    assert arena(Tensors({key: key for key in lives}, lives), {}).total == 36864 + 18432


def test_elementwise_results_take_the_place_of_what_nothing_reads_any_more() -> None:
    x = codes("x", 1, 4, 4, 8, dtype="int8")
    table = np.arange(-128, 128).astype(np.int8)
    steps = (
        op.Lookup("a", (0,), (1,), table, "Relu"),
        op.Maximum("b", (0, 1), (2,)),
        op.Reshape("c", (2,), (3,)),
        op.Lookup("d", (3,), (4,), table, "Relu"),
    )
    slots = (x, x, x, codes("r", 128, dtype="int8"), codes("y", 128, dtype="int8"))
    program = Program("tflite", slots, steps, (Port("x", 0),), (Port("y", 4),), "net")
    found = tensors(program)
    assert found.root[1] == 1, "x is read once more"
    assert {found.root[slot] for slot in (2, 3, 4)} == {0}
    assert to_c(program, "net").arena_bytes == 256


def test_names_and_numbers_of_c() -> None:
    assert identifier("model/conv2d_1/BiasAdd;model/conv", "t") == "biasadd"
    assert identifier("für", "t") == "f_r" and identifier("///", "t") == "t"
    assert [prefix(stem) for stem in ("kws", "2net", "double", "a-b", "__")] == [
        "kws", "net_2net", "net_double", "a_b", "net",
    ]  # fmt: skip
    assert "*/" not in said("a*/b/*c") and "\n" not in said("a\nb") and len(said("x" * 300)) <= 90
    assert [number(value) for value in (-(1 << 31), 1 << 31, 5, 0.1)] == [
        "INT32_MIN", "INT64_C(2147483648)", "5", "0x1.999999999999ap-4f",
    ]  # fmt: skip


def test_the_example_has_what_the_numbers_say() -> None:
    x, y = codes("x", 1, 4, 4, 2, dtype="int8"), codes("y", 1, 2, 2, 2, dtype="int8")
    window = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    exported = to_c(single(op.MaxPool, [x], y, "tflite", **window), "net")
    assert (exported.arena_bytes, exported.by_cmsis_nn, exported.instructions) == (48, 1, {"MaxPool": 1})
    assert exported.cmsis_nn_bytes == (48, 48)
