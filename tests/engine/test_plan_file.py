"""Plan files: the same plan again, mapped; whatever is wrong with a file is told before it is used."""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decode import steps_of

from bits import random_feeds
from calib8 import InferenceSession, ModelError, OutputError, UnsupportedModelError, UsageError, _core
from calib8.engine import plan_file
from calib8.engine.compile import compile_program
from calib8.engine.plan import Plan, PlanPort, Row
from calib8.engine.plan_file import (
    FORMAT_VERSION,
    MAGIC,
    PREFIX,
    claims_to_be_plan,
    is_plan_file,
    load_plan,
    save_plan,
)
from calib8.engine.run import Engine
from calib8.program.file import is_program_file, load_program
from calib8.program.program import Program
from plan_headers import HEADERS, changed_header, sealed
from program.example_programs import EXAMPLES

NAMES = ("Conv", "FullyConnected to sums", "Transpose")


def example(name: str) -> Program:
    return EXAMPLES[name, "onnx"]


@pytest.fixture
def plan() -> Plan:
    return compile_program(example("Conv"))


@pytest.fixture
def saved(plan: Plan, tmp_path: Path) -> Path:
    path = tmp_path / "conv.c8"
    save_plan(plan, path)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    program = example(name)
    plan = replace(compile_program(program), isa="avx2")
    save_plan(plan, tmp_path / "a.c8")
    again = load_plan(tmp_path / "a.c8")
    assert steps_of(again) == steps_of(plan)
    for field in ("name", "profile", "step_names", "step_macs", "arena_bytes", "inputs", "outputs",
                  "weight_bytes", "isa"):  # fmt: skip
        assert getattr(again, field) == getattr(plan, field), field
    np.testing.assert_array_equal(again.constants, plan.constants)
    save_plan(again, tmp_path / "b.c8")
    assert (tmp_path / "a.c8").read_bytes() == (tmp_path / "b.c8").read_bytes()
    feeds = random_feeds(program, np.random.default_rng(0))
    for got, want in zip(Engine(again).run(feeds), Engine(plan).run(feeds), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_plan_with_a_float_part_comes_back(tmp_path: Path) -> None:
    program = example("Float")
    plan = compile_program(program)
    save_plan(plan, tmp_path / "f.c8")
    again = load_plan(tmp_path / "f.c8")
    for call, wanted in zip(again.floats, plan.floats, strict=True):
        assert call == wanted
    assert again.float_nodes == ("conv", "relu")
    feeds = random_feeds(program, np.random.default_rng(0))
    [want] = InferenceSession(program, runtime="reference").run(None, feeds)
    [got] = InferenceSession(tmp_path / "f.c8").run(None, feeds)
    np.testing.assert_array_equal(got, want)
    with pytest.raises(UnsupportedModelError, match=r"f\.c8: is not integer only.* conv, relu"):
        InferenceSession(tmp_path / "f.c8", integer_only=True)


def test_constants_are_mapped_read_only_and_aligned(saved: Path) -> None:
    plan = load_plan(saved)
    assert not plan.constants.flags.writeable
    assert not plan.constants.flags.owndata
    assert plan.constants.ctypes.data % 64 == 0


def test_the_mapping_outlives_the_file(saved: Path, plan: Plan) -> None:
    feeds = random_feeds(example("Conv"), np.random.default_rng(0))
    session = InferenceSession(saved)
    saved.unlink()
    for got, want in zip(session.run(None, feeds), Engine(plan).run(feeds), strict=True):
        np.testing.assert_array_equal(got, want)


def test_plans_are_known_by_their_first_bytes(saved: Path, tmp_path: Path) -> None:
    assert is_plan_file(saved)
    other = tmp_path / "other"
    other.write_bytes(b"\x08\x08\x12\x00")
    assert not is_plan_file(other)
    assert not is_plan_file(tmp_path / "none")
    assert not is_plan_file(tmp_path)
    named = tmp_path / "named.c8"
    named.write_bytes(b"\x08\x08\x12\x00")
    assert claims_to_be_plan(named) and not is_plan_file(named)
    assert not claims_to_be_plan(tmp_path / "none.c8")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.c8"
    os.mkfifo(pipe)
    writer = "from pathlib import Path; import sys; Path(sys.argv[1]).write_bytes(b'x')"
    with subprocess.Popen(
        [sys.executable, "-c", writer, str(pipe)]
    ) as process:  # else a fault waits for ever
        try:
            assert not claims_to_be_plan(pipe) and not is_program_file(pipe)
            for opener in (load_plan, load_program, InferenceSession):
                with pytest.raises(ModelError, match="is a pipe, no file"):
                    opener(pipe)
        finally:
            process.kill()


CHANGES: dict[str, dict[str, Any]] = {
    "profile": {"profile": "bogus"},
    "isa": {"isa": "xx"},
    "rows": {"rows": ()},
    "step_names": {"step_names": ("one", "two", "three", "four", "five")},
    "step_macs": {"step_macs": ()},
    "arena": {"arena_bytes": -1},
    "weights": {"weight_bytes": "many"},
    "constants": {"constants": np.ones(128, np.uint8)},
    "no constants": {"constants": None},
    "inputs": {"inputs": (PlanPort("x", "float99", (1,)),)},
    "more than a port holds": {"inputs": (PlanPort("x", "uint8", (1 << 62, 5)),)},
    "axis of samples": {"inputs": (PlanPort("x", "uint8", (1, 4), counted=2),)},
    "no axis": {"inputs": (PlanPort("x", "uint8", (1, 4), counted=-2),)},
    "opcode": {"rows": (Row("dance", np.zeros(3, np.int64)),), "step_names": ("a",), "step_macs": (0,)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_plan_is_neither_saved_nor_opened(plan: Plan, tmp_path: Path, change: str) -> None:
    changed = replace(plan, **CHANGES[change])
    with pytest.raises(ModelError, match=r"is not a plan that can run .*Compile it again"):
        save_plan(changed, tmp_path / "a.c8")
    assert not (tmp_path / "a.c8").exists()
    with pytest.raises(ModelError, match=r"is not a plan that can run .*Compile it again"):
        InferenceSession(changed)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.5, 0.9, 0.9999])
def test_a_truncated_file(saved: Path, share: float) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelError, match=r"conv\.c8: is (truncated: \d+|not a plan)"):
        load_plan(saved)


def test_any_changed_byte_is_noticed(saved: Path) -> None:
    content = saved.read_bytes()
    places = np.random.default_rng(0).choice(len(content), 400, replace=False)
    for place in (*range(PREFIX.size), *places.tolist(), len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        saved.write_bytes(changed)
        with pytest.raises(ModelError, match=r"conv\.c8: (is|was) "):
            load_plan(saved)


def test_exchanged_words_are_noticed(saved: Path) -> None:
    content = saved.read_bytes()
    words = np.frombuffer(content[: len(content) // 8 * 8], "<u8").copy()
    rng = np.random.default_rng(1)
    for _ in range(50):
        first, second = rng.choice(np.arange(PREFIX.size // 8, words.size), 2, replace=False)
        if words[first] == words[second]:
            continue
        words[[first, second]] = words[[second, first]]
        saved.write_bytes(words.tobytes() + content[words.nbytes :])
        with pytest.raises(ModelError, match="checksum"):
            load_plan(saved)
        words[[first, second]] = words[[second, first]]


def test_a_longer_file_is_damaged(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes() + bytes(64))
    with pytest.raises(ModelError, match="is damaged"):
        load_plan(saved)


def test_a_newer_version(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    struct.pack_into("<I", content, len(MAGIC), FORMAT_VERSION + 1)
    saved.write_bytes(content)
    with pytest.raises(
        ModelError, match=rf"newer calib8 \(format {FORMAT_VERSION + 1}.*Install that version"
    ):
        load_plan(saved)


@pytest.mark.parametrize("name", ["Conv", "DepthwiseConv", "Transpose"])
def test_a_plan_of_the_first_format_is_still_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers had no activation there: the last eight numbers of their rows."""
    plan = compile_program(example(name))
    short = tuple(
        row._replace(fields=row.fields[:-8]) if row.opcode in ("conv", "depthwise") else row
        for row in plan.rows
    )
    old = tmp_path / "old.c8"
    with monkeypatch.context() as patch:
        patch.setattr(plan_file, "check_plan", lambda plan, name: None)
        save_plan(replace(plan, rows=short), old)
    content = bytearray(old.read_bytes()[:-8])
    struct.pack_into("<I", content, len(MAGIC), 1)
    loaded = load_plan(sealed(bytes(content), old))
    for row, wanted in zip(loaded.rows, plan.rows, strict=True):
        np.testing.assert_array_equal(row.fields, wanted.fields)


def test_a_plan_of_the_second_format_is_still_read(saved: Path) -> None:
    """It knew no 16-bit codes; its rows are those of today."""
    wanted = load_plan(saved)
    content = bytearray(saved.read_bytes()[:-8])
    struct.pack_into("<I", content, len(MAGIC), 2)
    for row, same in zip(load_plan(sealed(bytes(content), saved)).rows, wanted.rows, strict=True):
        assert row.opcode == same.opcode
        np.testing.assert_array_equal(row.fields, same.fields)


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.c8: no such file\. Give the path of a compiled plan"):
        load_plan(tmp_path / "none.c8")
    with pytest.raises(ModelError, match="is a folder"):
        load_plan(tmp_path)


@pytest.mark.parametrize("what", HEADERS)
def test_headers_that_make_no_plan(what: str, saved: Path) -> None:
    path = changed_header(HEADERS[what], saved)
    with pytest.raises(ModelError, match=r"conv\.c8: holds a header that makes no plan \("):
        load_plan(path)


def test_the_sealed_header_itself_is_fine(saved: Path) -> None:
    before = steps_of(load_plan(saved))
    assert steps_of(load_plan(changed_header(lambda header: None, saved))) == before


def test_absurd_sizes_are_refused_before_memory_is_taken(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    struct.pack_into("<Q", content, 16, 1 << 62)
    saved.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match="is damaged: it states"):
        load_plan(saved)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10_000


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the pages are written")
def test_memory_that_no_step_uses_is_not_taken(plan: Plan) -> None:
    feeds = random_feeds(example("Conv"), np.random.default_rng(1))
    expected = InferenceSession(plan).run(None, feeds)
    before = resident()
    session = InferenceSession(replace(plan, arena_bytes=1 << 30))
    found = session.run(None, feeds)
    assert resident() - before < 1 << 28
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def resident() -> int:
    """Bytes of the process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    plan: Plan, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()
    with pytest.raises(OutputError, match="cannot be written"):
        save_plan(plan, tmp_path / "none" / "a.c8")

    def full(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match="No space left"):
        save_plan(plan, saved)
    assert saved.read_bytes() == before
    assert list(tmp_path.iterdir()) == [saved]


def test_what_is_asked_of_a_plan(saved: Path) -> None:
    session = InferenceSession(saved)
    assert (session.name, session.rounding) == (str(saved), "onnx")
    assert [arg.shape for arg in session.get_inputs()] == [[2, 9, 8, 4]]
    assert [(arg.shape, arg.type) for arg in session.get_outputs()] == [([2, 5, 6, 6], "tensor(uint8)")]
    with pytest.raises(ModelError, match=r"conv\.c8: is a plan without its program"):
        _ = session.program
    with pytest.raises(UsageError, match=r"profile 'single': .* profile 'onnx', which is fixed"):
        InferenceSession(saved, profile="single")
    with pytest.raises(UnsupportedModelError, match=r"is not integer only, it has float32 multipliers"):
        InferenceSession(saved, integer_only=True)
    with pytest.raises(UsageError, match=r"runtime 'reference': .* is a plan.* Use the runtime calib8"):
        InferenceSession(saved, runtime="reference")
    with pytest.raises(UsageError, match=r"shape of 'x': 1×9×8×4 does not fit"):
        InferenceSession(saved, shapes={"x": (1, 9, 8, 4)})


def test_the_checksum_is_that_of_the_format() -> None:
    """Known values: a file that was written once must open for ever."""
    text = np.frombuffer(b"the quick brown fox jumps over the lazy dog, twice: " * 3, np.uint8)
    values = [_core.engine.checksum([text[:size].copy()]) for size in (0, 1, 8, 64, 65, 156)]
    assert values == CHECKSUMS
    assert len(set(values)) == 6


@pytest.mark.parametrize("cuts", [(0,), (1, 2, 3), (63, 64, 65), (64, 128), (10, 100, 101, 200)])
def test_a_checksum_of_pieces_is_that_of_the_whole(cuts: tuple[int, ...]) -> None:
    content = np.random.default_rng(0).integers(0, 256, 300).astype(np.uint8)
    pieces = [piece.copy() for piece in np.split(content, cuts)]
    assert _core.engine.checksum(pieces) == _core.engine.checksum([content])


CHECKSUMS = [
    2034129204524067389,
    18328689045150424528,
    15109323613718535882,
    4727142217053259927,
    16626582685461418020,
    7814491878335288001,
]
