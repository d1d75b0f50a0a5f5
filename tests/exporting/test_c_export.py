"""Programs as C: compiled under sanitizers and run, they give what the reference gives, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import numpy.typing as npt
import pytest
import test_tflite_instructions as instructions
import test_tflite_layers as layers
from c_runs import SANITIZERS, WARNINGS, Network, called, run_natively
from example_programs import EXAMPLES, chain, codes, plain, single
from exported import random_feeds

from calib8.errors import UnsupportedModelError
from calib8.exporting.c.export import EMIT, CExport, to_c
from calib8.model.load import load_model
from calib8.program import instructions as op
from calib8.program.lower.lower import lower
from calib8.program.program import Port, Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import FixedRescale, Profile
from calib8.program.verify import verify
from needed import needed_program
from small_nets import clean

CASES: Final = 2
"""Random programs per instruction; scripts/check_c_export.py takes more."""

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]
MAKERS: Final[Mapping[str, Callable[[np.random.Generator], Program]]] = {
    **{name: make for name, make in instructions.MAKERS.items() if name != "resize_linear"},
    "conv": layers.conv,
    "depthwise": layers.depthwise,
    "dense": layers.fully_connected,
}
ROUNDINGS: Final = ("double", "single", "away")
SHIFTS: Final = ((-8, -2), (-15, -9), (-8, 8), (-31, -16), (0, 20), (-31, 20))
WHOLE: Final[tuple[Profile, ...]] = ("tflite", "single")


def no_form(program: Program) -> str | None:
    """Why a program is refused, None where it is not."""
    try:
        to_c(program, "net")
    except UnsupportedModelError as error:
        return str(error)
    return None


def check(folder: Path, programs: Mapping[str, Program], runs: int = 2, **options: str) -> None:
    """All programs as one program of C: the outputs of each run are those of the reference."""
    compiler, networks, wanted = needed_program("gcc", "clang"), [], []
    for name, program in programs.items():
        verify(program)
        exported = to_c(program, name, **options)
        feeds = [random_feeds(program, np.random.default_rng([run, len(name)])) for run in range(runs)]
        networks.append(Network(exported, [[fed[port.name] for port in program.inputs] for fed in feeds]))
        wanted.append([run_program(program, fed) for fed in feeds])
    given = run_natively(compiler, folder, networks, ("-O1", *SANITIZERS))
    for network, want, got in zip(networks, wanted, given, strict=True):
        for outputs, results in zip(want, got, strict=True):
            for one, other in zip(outputs, results, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=network.exported.name)


@pytest.mark.slow  # scripts/check_c_export.py has more of them
def test_random_instructions(tmp_path: Path) -> None:
    """Both types of codes, all zero points, pads, strides, broadcasting …"""
    programs, refused = {}, []
    for name, make in MAKERS.items():
        for seed in range(CASES):
            program = make(np.random.default_rng(seed))
            reason = no_form(program)
            if reason is None:
                programs[f"{name}_{seed}"] = program
            else:
                refused.append(reason)
    assert all("do not lie together" in reason or "too far" in reason for reason in refused)
    assert len(refused) <= len(MAKERS) * CASES / 8
    check(tmp_path, programs)


def test_an_example_of_every_instruction(tmp_path: Path) -> None:
    """In both profiles of whole numbers; what is not there has no C code at all, or one of the reasons."""
    programs, refused = {}, {}
    for (name, profile), program in EXAMPLES.items():
        if profile in WHOLE:
            reason = no_form(program)
            if reason is None:
                programs["".join(sign if sign.isalnum() else "_" for sign in f"{name}_{profile}")] = program
            else:
                refused[name, profile] = reason
    done = {type(program.instructions[0]) for program in programs.values()}
    assert done == set(EMIT) - {op.Constant}
    for (name, _), reason in refused.items():
        unknown = type(EXAMPLES[name, "single"].instructions[0]) not in EMIT
        known = ("16 bits", "function behind it", "too far", "has no C code", "same in every run")
        assert "has no C code" in reason if unknown else any(part in reason for part in known), reason
    check(tmp_path, programs)


def near_ties(rounding: Any, shifts: tuple[int, int], seed: int) -> Program:
    """A layer whose sums, as codes add to biases, lie on both sides of ties."""
    rng, count = np.random.default_rng(seed), 48
    multiplier = rng.integers(1 << 30, 1 << 31, count)
    multiplier[::3] = rng.choice([1 << 30, (1 << 30) + 1, (1 << 31) - 1, 3 << 29], len(multiplier[::3]))
    shift = rng.integers(shifts[0], shifts[1], count, endpoint=True)
    codes_ = 2 * rng.integers(0, 300, count) + 1
    parts = zip(codes_.tolist(), shift.tolist(), multiplier.tolist(), strict=True)
    ties = [min((one << (30 - left)) // factor, (1 << 31) - 600) for one, left, factor in parts]
    bias = np.array(ties) * rng.choice([-1, 1], count)
    rule = FixedRescale(multiplier.astype(np.int32), shift.astype(np.int32), rounding)
    x, y = codes("x", 256, 1, dtype="int8", zero_point=0), codes("y", 256, count, dtype="int8", zero_point=-3)
    return single(
        op.FullyConnected, [x], y, "single" if rounding == "single" else "tflite",
        weight=np.ones((count, 1), np.int8), weight_zero_point=np.zeros(1, np.int32),
        bias=bias.astype(np.int32), rescale=rule, low=-128, high=127,
    )  # fmt: skip


def test_sums_near_ties_and_at_the_ends_of_int32(tmp_path: Path) -> None:
    programs = {
        f"{rounding}_{number}": near_ties(rounding, shifts, number)
        for rounding in ROUNDINGS
        for number, shifts in enumerate(SHIFTS)
    }
    compiler = needed_program("gcc", "clang")
    fed = np.arange(-128, 128, dtype=np.int8)[:, None]
    networks = [Network(to_c(program, name), [[fed]]) for name, program in programs.items()]
    given = run_natively(compiler, tmp_path, networks, ("-O1", *SANITIZERS))
    varied = 0
    assert all(verify(program) is None for program in programs.values())
    for program, network, [[got]] in zip(programs.values(), networks, given, strict=True):
        [want] = run_program(program, {"x": fed})
        np.testing.assert_array_equal(got, want, err_msg=network.exported.name)
        varied += len(np.unique(want))
    assert varied > 1000


@pytest.mark.one_in(2)
@pytest.mark.parametrize("profile", WHOLE)
def test_networks_of_other_instructions_share_an_arena(tmp_path: Path, profile: Profile) -> None:
    """From float32 to float32: borders, layers, sums, tables, Concat, several outputs."""
    programs = {"chain": chain(profile)}
    for name in ("conv_chain", "residual", "concat", "classifier", "squeeze_excite", "heads"):
        programs[name] = lower(load_model(clean(name, "tflite")), profile=profile)
    check(tmp_path, programs, runs=3)


@pytest.mark.parametrize("wanted", ["int8", "uint8"])
def test_codes_at_the_border_are_those_of_the_quantizers(tmp_path: Path, wanted: str) -> None:
    program = lower(load_model(clean("residual", "tflite")), profile="tflite")
    exported = to_c(program, "net", inputs=wanted, outputs=wanted)
    assert [port.dtype for port in (*exported.inputs, *exported.outputs)] == [wanted, wanted]
    [real] = [random_feeds(program, np.random.default_rng(3))[port.name] for port in program.inputs]
    quantize, dequantize = program.instructions[0], program.instructions[-1]
    assert isinstance(quantize, op.Quantize) and isinstance(dequantize, op.Dequantize)
    seen: dict[int, Array] = {}
    [want] = run_program(
        program, {program.inputs[0].name: real}, lambda slot, values: seen.update({slot: values})
    )
    inner = program.slots[quantize.outputs[0]]
    fed = seen[quantize.outputs[0]].astype(np.int16) + (np.iinfo(wanted).min - np.iinfo(inner.dtype).min)
    network = Network(exported, [[fed.astype(wanted)]])
    [[[got]]] = run_natively(needed_program("gcc", "clang"), tmp_path, [network])
    outer = program.slots[dequantize.inputs[0]]
    moved = np.iinfo(wanted).min - np.iinfo(outer.dtype).min
    np.testing.assert_array_equal(got, seen[dequantize.inputs[0]].astype(np.int16) + moved)
    steps = got.astype(np.float32) - np.float32(outer.zero_point + moved)
    real_values = (steps * np.float32(outer.scale)).transpose(dequantize.axes)
    np.testing.assert_array_equal(real_values.reshape(want.shape), want)


HOSTILE: Final = (
    'int main(){}*/ #error "',
    "\\\n#error",
    "??/",
    "/* /*",
    "für/öß\x00",
    "a" * 500,
    "static",
    "0",
    "",
    "a/b;c*/d",
)


def test_names_of_a_model_are_no_code(tmp_path: Path) -> None:
    """Whatever tensors, nodes and files are called, C reads comments and names of its own."""
    programs = {}
    for number, name in enumerate(HOSTILE):
        slots = [codes(name, 3, 4, dtype="int8"), codes(f"{name} ", 3, 4, dtype="int8")]
        step = op.Maximum(name, (0, 1), (2,))
        ports = [codes(name, 3, 4, dtype="int8")]
        two = single(op.Maximum, slots, ports[0], "tflite")
        programs[("static", "9a", "a-b.c")[number] if number < 3 else f"n{number}"] = Program(
            two.profile, two.slots, (step,), two.inputs, two.outputs, name
        )
    compiler, networks, wanted = needed_program("gcc", "clang"), [], []
    for stem, program in programs.items():
        fed = [np.full((3, 4), value, np.int8) for value in (5, -7)]
        exported = to_c(program, stem, name=f"dir/{program.name}")
        assert exported.source.isascii() and exported.header.isascii()
        if stem == exported.name:
            networks.append(Network(exported, [fed]))
            wanted.append(np.full((3, 4), 5, np.int8))
        else:
            assert exported.name == {"static": "net_static", "9a": "net_9a", "a-b.c": "a_b_c"}[stem]
    assert len(networks) == len(HOSTILE) - 3
    for [[got]], want in zip(run_natively(compiler, tmp_path, networks), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_header_is_c_plus_plus_too(tmp_path: Path) -> None:
    exported = to_c(chain("tflite"), "net")
    (tmp_path / "net.h").write_text(exported.header)
    (tmp_path / "a.cc").write_text('#include "net.h"\n#include "net.h"\nint size = NET_ARENA_BYTES;\n')
    called([needed_program("g++", "clang++"), "-Wall", "-Wextra", "-Werror", "-c", "a.cc"], tmp_path)


def test_the_example_of_the_page_compiles(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "microcontrollers.md").read_text()
    program = lower(load_model(clean("classifier", "tflite")), profile="tflite")
    exported = to_c(program, "net", inputs="int8", outputs="int8")
    (tmp_path / "net.h").write_text(exported.header)
    (tmp_path / "net.c").write_text(exported.source)
    example = page.split("```c\n")[1].split("```")[0]
    (tmp_path / "example.c").write_text(
        f"{example}\nint main(void) {{ return classify(net_input(memory.bytes)) < 0; }}\n"
    )
    compiler = needed_program("gcc", "clang")
    called([compiler, *WARNINGS, *SANITIZERS, "example.c", "net.c", "-o", "example"], tmp_path)
    called([str(tmp_path / "example")], tmp_path)


def test_the_same_program_gives_the_same_bytes() -> None:
    first, second = (
        to_c(lower(load_model(clean("residual", "tflite")), profile="tflite"), "net") for _ in range(2)
    )
    assert isinstance(first, CExport)
    assert (first.source, first.header) == (second.source, second.header)


def test_constants_stay_in_flash(tmp_path: Path) -> None:
    """They are read where they are, turned into another shape too."""
    table = np.random.default_rng(5).integers(-128, 128, (2, 6)).astype(np.int8)
    x = codes("x", 3, 4, dtype="int8")
    slots = (
        x,
        codes("c", 2, 6, dtype="int8"),
        codes("r", 3, 4, dtype="int8"),
        codes("y", 3, 4, dtype="int8"),
    )
    steps = (op.Constant("c", (), (1,), table), op.Reshape("r", (1,), (2,)), op.Minimum("y", (0, 2), (3,)))
    program = Program("tflite", slots, steps, (Port("x", 0),), (Port("y", 3),), "net")
    assert to_c(program, "net").arena_bytes == 16
    check(tmp_path, {"net": program})


def test_indices_come_as_they_are(tmp_path: Path) -> None:
    x = codes("x", 2, 5, 3, dtype="int8")
    programs = {
        f"arg_{dtype}_{last:d}": single(
            op.ArgMax, [x], plain("y", 2, 3, dtype=dtype), "tflite", axis=1, last=last
        )
        for dtype in ("int32", "int64")
        for last in (False, True)
    }
    check(tmp_path, programs, runs=4)


def test_profiles_of_whole_numbers_are_what_can_be_written() -> None:
    assert set(get_args(Profile)) >= set(WHOLE)
    assert "--profile tflite" in str(no_form(chain("onnx"))) or "profile='tflite'" in str(
        no_form(chain("onnx"))
    )
