"""libcalib8 from C programs: the bits of ``InferenceSession``, and codes for whatever is wrong.

Slow, for the whole engine is compiled once more: ``scripts/check-full`` runs it.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from c_programs import ROOT, command, compilers, flags
from hostile_plans import joined, parts_of, write_hostile

import calib8
from calib8 import InferenceSession
from calib8.demo import CALIBRATION_PATH, MODEL_PATH, PIXEL_MEAN, PIXEL_SCALE
from calib8.engine.plan_file import load_plan
from calib8.errors import ModelError
from calib8.session.ports import Array
from stream_nets import quantized

pytestmark = pytest.mark.slow

Programs = dict[str, Path]
MOST_BYTES = 11_000_000
"""With the kernels of all sets of x86-64, stripped."""
MOST_SMALL_BYTES = 3_000_000
"""Without those of AVX-512 and AVX-VNNI."""


def feeds_of(session: InferenceSession, seed: int = 0) -> dict[str, Array]:
    """Codes over their whole range, floats around 0."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for spec in session.inputs:
        shape = tuple(int(size) for size in spec.shape or () if size is not None)
        if spec.dtype.kind == "f":
            feeds[spec.name] = (4 * rng.standard_normal(shape)).astype(spec.dtype)
        elif spec.dtype.kind == "b":
            feeds[spec.name] = rng.integers(0, 2, shape).astype(bool)
        else:
            low, high = (
                (-9000, 9000)
                if spec.dtype.itemsize > 2
                else (np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max)
            )
            feeds[spec.name] = rng.integers(low, high + 1, shape).astype(spec.dtype)
    if "lengths" in feeds:  # of the sequences in the first input, beyond which a run is refused
        most = len(next(iter(feeds.values())))
        feeds["lengths"] = rng.integers(0, most + 1, feeds["lengths"].shape).astype(np.int32)
    return feeds


def outputs_of(
    run: Path,
    plan: Path,
    feeds: dict[str, Array],
    folder: Path,
    options: Sequence[str] = (),
    suffix: str = ".npy",
) -> list[Array]:
    """What ``calib8-run`` writes."""
    folder.mkdir(exist_ok=True)
    words: list[str] = []
    for number, array in enumerate(feeds.values()):
        np.save(folder / f"in{number}.npy", array)
        words += ["--input", str(folder / f"in{number}.npy")]
    command(run, plan, *words, "--dump", folder, *options)
    names = sorted(folder.glob("[0-9]*.npy"), key=lambda path: int(path.stem))
    return [np.load(name) for name in names]


def assert_same_bits(run: Path, plan: Path, folder: Path, isa: str | None = None, threads: int = 1) -> None:
    session = InferenceSession(plan, isa=isa, threads=1)
    feeds = feeds_of(session)
    options = ("--threads", str(threads), *(("--isa", isa) if isa else ()))
    got = outputs_of(run, plan, feeds, folder, options)
    wanted = session.run(None, feeds)
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert one.tobytes() == other.tobytes(), plan


def test_every_instruction_gives_the_bits_of_a_session(
    programs: Programs, examples: list[Path], tmp_path: Path
) -> None:
    count = 0
    for plan in examples:
        if not load_plan(plan).floats:
            assert_same_bits(programs["calib8-run"], plan, tmp_path / plan.stem)
            count += 1
    assert count > 130


def test_every_set_gives_the_bits_of_a_session(
    programs: Programs, examples: list[Path], tmp_path: Path
) -> None:
    [plan] = [path for path in examples if path.stem == "chain"]
    isas = [line.split()[0] for line in command(programs["library_check"], "sets").splitlines()]
    assert isas[-1] == "reference"
    for isa in isas:
        for threads in (1, 2, 3):
            assert_same_bits(programs["calib8-run"], plan, tmp_path / f"{isa}{threads}", isa, threads)


def test_raw_bytes_in_and_out(programs: Programs, examples: list[Path], tmp_path: Path) -> None:
    [plan] = [path for path in examples if path.stem == "Conv_tflite"]
    session = InferenceSession(plan)
    feeds = feeds_of(session)
    [(name, array)] = feeds.items()
    (tmp_path / "x.bin").write_bytes(array.tobytes())
    words = ("--input", tmp_path / "x.bin", "--dump", tmp_path, "--raw", "--time", "3")
    printed = command(programs["calib8-run"], plan, *words)
    assert (tmp_path / "0.bin").read_bytes() == session.run(None, feeds)[0].tobytes()
    port = load_plan(plan).inputs[0]
    assert (
        f"input '{name}': uint8 2x9x8x4, scale {port.scales[0]:.9g}, zero point {port.zero_point}" in printed
    )
    assert re.search(r"^opened in [\d.]+ ms, first run [\d.]+ ms$", printed, re.MULTILINE)
    assert re.search(r"^3 runs: median [\d.]+ ms, fastest [\d.]+ ms$", printed, re.MULTILINE)


MISTAKES = {
    "no model": ((), 2, "usage: calib8-run MODEL.c8"),
    "no option": (("--fast", "1"), 2, "--fast is no option"),
    "an option without a value": (("--time",), 2, "--time needs a value"),
    "no number": (("--time", "many"), 2, "--time takes a whole number"),
    "too many threads": (("--threads", "257"), 2, "--threads takes a whole number, 0 to 256"),
    "raw alone": (("--raw",), 2, "--raw goes with --dump"),
    "an unknown set": (("--isa", "sse9"), 1, "instruction set 'sse9' is unknown or not available"),
    "another array": (("--input", "{other}.npy"), 1, "has another shape than the input"),
    "another type": (("--input", "{type}.npy"), 1, "has elements of another type"),
    "too few bytes": (("--input", "{short}.bin"), 1, "another number of bytes than the input"),
    "one input too many": (("--input", "{short}.bin") * 2, 1, "more often than there are inputs"),
    "no folder": (("--dump", "no/such/folder"), 1, "no/such/folder/0.npy cannot be written"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_on_the_command_line(what: str, prefix: Path, examples: list[Path], tmp_path: Path) -> None:
    [plan] = [path for path in examples if path.stem == "Conv_tflite"]
    np.save(tmp_path / "other.npy", np.zeros((2, 8, 9, 4), np.uint8))
    np.save(tmp_path / "type.npy", np.zeros((2, 9, 8, 4), np.int8))
    (tmp_path / "short.bin").write_bytes(bytes(3))
    words, status, told = MISTAKES[what]
    filled = [word.format(**{name: tmp_path / name for name in ("other", "type", "short")}) for word in words]
    run = [str(prefix / "bin" / "calib8-run"), *([] if what == "no model" else [str(plan)]), *filled]
    result = subprocess.run(run, capture_output=True, text=True)
    assert result.returncode == status and told in result.stderr, result


def test_codes_and_texts(programs: Programs, examples: list[Path], tmp_path: Path) -> None:
    for name in ("Conv_tflite", "chain", "Quantize_onnx"):
        [plan] = [path for path in examples if path.stem == name]
        command(programs["library_check"], "codes", plan, tmp_path)


@pytest.mark.parametrize(
    ("rows", "here", "in_python"),
    [
        (1, "no step fills the output y", "no step fills the output y"),
        (1 << 44, "the shape of y", r"makes no plan \(shape .* of y\)"),
    ],
)
def test_a_larger_output_than_is_written(
    rows: int, here: str, in_python: str, prefix: Path, examples: list[Path], tmp_path: Path
) -> None:
    [plan] = [path for path in examples if path.stem == "Conv_tflite"]
    version, [text, *others] = parts_of(plan.read_bytes())
    header = json.loads(text)
    header["outputs"][0]["shape"][0] += rows
    (tmp_path / "larger.c8").write_bytes(joined(version, [json.dumps(header).encode("ascii"), *others]))
    run = [str(prefix / "bin" / "calib8-run"), str(tmp_path / "larger.c8")]
    result = subprocess.run(run, capture_output=True, text=True)
    assert result.returncode == 1 and here in result.stderr, result
    with pytest.raises(ModelError, match=in_python):
        InferenceSession(tmp_path / "larger.c8")


def test_a_file_for_which_there_is_no_room(prefix: Path, examples: list[Path], tmp_path: Path) -> None:
    """It is there and can be read: memory is what lacks."""
    [plan] = [path for path in examples if path.stem == "Conv_tflite"]
    (tmp_path / "large.c8").write_bytes(plan.read_bytes())
    os.truncate(tmp_path / "large.c8", 1 << 31)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    run = [str(prefix / "bin" / "calib8-run"), str(tmp_path / "large.c8")]
    result = subprocess.run(run, capture_output=True, text=True, preexec_fn=limited)
    assert result.returncode == 1 and "there is not enough memory" in result.stderr, result


@pytest.mark.parametrize("length", [4, -1])
def test_lengths_beyond_a_sequence(
    length: int, programs: Programs, examples: list[Path], tmp_path: Path
) -> None:
    [plan] = [path for path in examples if path.stem == "Recurrent_onnx"]
    feeds = feeds_of(InferenceSession(plan))
    assert len(feeds["x"]) == 3
    feeds["lengths"] = np.array([3, length], np.int32)
    words: list[str] = []
    for name, array in feeds.items():
        np.save(tmp_path / f"{name}.npy", array)
        words += ["--input", str(tmp_path / f"{name}.npy")]
    result = subprocess.run([str(programs["calib8-run"]), str(plan), *words], capture_output=True, text=True)
    told = f"'lengths': sample 1 has the length {length} and 3 steps. Give lengths in 0 … 3"
    assert result.returncode == 1 and told in result.stderr, result


def test_parts_in_float_are_named(programs: Programs, examples: list[Path]) -> None:
    [plan] = [path for path in examples if path.stem == "Float_onnx"]
    result = subprocess.run([str(programs["calib8-run"]), str(plan)], capture_output=True, text=True)
    assert result.returncode == 1 and "Float_onnx.c8: has nodes that have no integer form" in result.stderr
    assert "need ONNX Runtime: conv, relu." in result.stderr


def test_sixteen_threads_on_one_model(programs: Programs, examples: list[Path]) -> None:
    [plan] = [path for path in examples if path.stem == "chain"]
    command(programs["library_check"], "threads", plan, "60")


def test_children_of_a_fork_go_on(programs: Programs, examples: list[Path]) -> None:
    [plan] = [path for path in examples if path.stem == "chain"]
    command(programs["library_check"], "forks", plan, "20")


def frames_of(plan: Path, count: int) -> list[str]:
    """The sums that ``library_check stream`` prints, from Python."""
    session = InferenceSession(plan)
    feeds: dict[str, Array] = {}
    for number, spec in enumerate(session.inputs):
        shape = tuple(int(size) for size in spec.shape or () if size is not None)
        values = (np.arange(np.prod(shape)) * 37 % 101 - 50) / np.float32(250)
        assert spec.dtype == np.float32 and number == 0
        feeds[spec.name] = values.astype(np.float32).reshape(shape)
    sums = []
    for _ in range(count):
        total = 1469598103934665603
        for output in session.run(None, feeds):
            for byte in output.tobytes():
                total = (total ^ byte) * 1099511628211 % (1 << 64)
        sums.append(f"{total:016x}")
    return sums


def test_a_stream_carries_its_state(programs: Programs, tmp_path: Path) -> None:
    plan = tmp_path / "stream.c8"
    InferenceSession(quantized(), state={"state": "stateN"}, integer_only=False).save(plan)
    assert load_plan(plan).states and not load_plan(plan).floats
    wanted = frames_of(plan, 7)
    assert len(set(wanted)) > 1
    assert command(programs["library_check"], "stream", plan, "7").split() == wanted


def test_hostile_files(prefix: Path, programs: Programs, examples: list[Path], tmp_path: Path) -> None:
    whole = [path for path in examples if not load_plan(path).floats]
    files = write_hostile(tmp_path, 600, 5, whole)
    printed = command(programs["library_check"], "files", *files)
    codes = dict(line.split() for line in printed.splitlines())
    assert {"CALIB8_OK", "CALIB8_BROKEN_PLAN", "CALIB8_NOT_A_PLAN", "CALIB8_NEWER_PLAN"} <= set(codes)
    assert int(codes["CALIB8_OK"]) > 60


@pytest.mark.skipif(not shutil.which("valgrind"), reason="there is no valgrind")
def test_valgrind_finds_nothing(programs: Programs, examples: list[Path], tmp_path: Path) -> None:
    [plan] = [path for path in examples if path.stem == "chain"]
    options = (
        "--quiet",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite,indirect,possible",
    )
    check = programs["library_check"]
    command("valgrind", *options, check, "codes", plan, tmp_path)
    command("valgrind", *options, check, "threads", plan, "3")
    command("valgrind", *options, programs["calib8-run"], plan, "--dump", tmp_path, "--threads", "2")


def test_the_shared_library_shows_its_functions_alone(prefix: Path, tmp_path: Path) -> None:
    library = prefix / "lib" / "libcalib8.so"
    header = (prefix / "include" / "calib8.h").read_text(encoding="utf-8")
    wanted = set(re.findall(r"CALIB8_API [^;(]*?\b(calib8_\w+)\(", header))
    shown = {
        line.split()[-1].partition("@")[0]
        for line in command("nm", "-D", "--defined-only", library).splitlines()
    }
    assert shown - {"CALIB8_1"} == wanted and len(wanted) > 20
    for name in ("libcalib8.so", "libcalib8.a"):
        undefined = command(
            "nm", "--undefined-only", *(("-D",) if name.endswith("so") else ()), prefix / "lib" / name
        )
        assert not re.search(r"\bPy[A-Z_]|nanobind", undefined), name
    assert stripped_size(prefix, tmp_path) <= MOST_BYTES


def stripped_size(prefix: Path, folder: Path) -> int:
    """Bytes of the shared library without its symbols."""
    command("strip", "-o", folder / "stripped.so", prefix / "lib" / "libcalib8.so")
    return (folder / "stripped.so").stat().st_size


def test_the_small_library(small_prefix: Path, examples: list[Path], tmp_path: Path) -> None:
    assert stripped_size(small_prefix, tmp_path) <= MOST_SMALL_BYTES
    [plan] = [path for path in examples if path.stem == "chain"]
    found = (*flags(small_prefix), f"-Wl,-rpath,{small_prefix / 'lib'}")
    check = tmp_path / "library_check"
    command(compilers()[0], ROOT / "tests/native/library_check.c", "-pthread", "-o", check, *found)
    isas = [line.split()[0] for line in command(check, "sets").splitlines()]
    assert isas[-1] == "reference" and not {"amx", "avx512vnni", "avxvnni"} & set(isas)
    command(check, "codes", plan, tmp_path)
    for isa in isas:
        assert_same_bits(small_prefix / "bin" / "calib8-run", plan, tmp_path / isa, isa)


def test_other_sets_are_not_left_out(tmp_path: Path) -> None:
    words = ("cmake", "-S", ROOT, "-B", tmp_path, "-DCALIB8_C_LIBRARY=ON", "-DCALIB8_LEAVE_OUT=avx2")
    result = subprocess.run([*map(str, words)], capture_output=True, text=True)
    assert result.returncode != 0
    assert "CALIB8_LEAVE_OUT takes amx, avx512vnni and avxvnni, not avx2" in result.stderr


PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(user LANGUAGES {languages})
find_package(calib8 0.1 REQUIRED CONFIG)
find_package(Threads REQUIRED)
add_executable(shared {source})
target_link_libraries(shared PRIVATE calib8::calib8 Threads::Threads)
add_executable(static {source})
target_link_libraries(static PRIVATE calib8::static Threads::Threads)
"""


@pytest.mark.parametrize("languages", ["C", "C CXX"])
def test_cmake_and_pkg_config_find_both_libraries(
    languages: str, prefix: Path, examples: list[Path], tmp_path: Path
) -> None:
    [plan] = [path for path in examples if path.stem == "chain"]
    source = ROOT / "tests" / "native" / "library_check.c"
    (tmp_path / "CMakeLists.txt").write_text(
        PROJECT.format(source=source, languages=languages), encoding="utf-8"
    )
    command("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    command("cmake", "--build", tmp_path / "build")
    shared, static = tmp_path / "build" / "shared", tmp_path / "build" / "static"
    needed = {path: command("objdump", "-p", path) for path in (shared, static)}
    assert "libcalib8.so.1" in needed[shared] and "libcalib8" not in needed[static]
    by_hand = tmp_path / "by_hand"
    libraries = [word for word in flags(prefix, "--static") if word != "-lcalib8"]
    archive = prefix / "lib" / "libcalib8.a"
    command(compilers()[0], "-DCALIB8_STATIC", source, archive, *libraries, "-o", by_hand)
    for program in (shared, static, by_hand):
        command(program, "codes", plan, tmp_path)


def digits(folder: Path) -> tuple[Path, str]:
    """A plan of the network that comes with calib8, and what the example prints of it."""
    with np.load(CALIBRATION_PATH) as found:
        pixels = found["images"].transpose(0, 3, 1, 2)[:20]
    images = ((pixels - np.float32(PIXEL_MEAN)) * np.float32(PIXEL_SCALE)).astype(np.float32)
    made = calib8.quantize(MODEL_PATH, {"input": images}, effort="fast")
    InferenceSession(ir.to_proto(made.model)).save(folder / "digits.c8")
    session = InferenceSession(folder / "digits.c8")
    [logits] = session.run(None, {"input": np.zeros((1, 1, 16, 16), np.float32)})
    lines = ("input input: float32 1 1 16 16", "output logits: float32 1 10", f"class {int(logits.argmax())}")
    return folder / "digits.c8", "".join(f"{line}\n" for line in lines)


def test_the_example_of_the_page(prefix: Path, tmp_path: Path) -> None:
    """Compiled by every C compiler, and by one for C++; run on a model of codes and one of floats."""
    page = (ROOT / "docs" / "c_library.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "first.c").write_text(example, encoding="utf-8")
    plan, wanted = digits(tmp_path)
    for compiler in compilers():
        found = (*flags(prefix), f"-Wl,-rpath,{prefix / 'lib'}")
        command(
            compiler,
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Werror",
            tmp_path / "first.c",
            "-o",
            tmp_path / "first",
            *found,
        )
        assert command(tmp_path / "first", plan) == wanted
