"""The reader of plans in C++ beside the one in Python: what the one accepts, the other does, and alike.

The reader is compiled alone, with sanitizers, by whatever C++ compiler is here.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from example_plans import example
from hostile_plans import joined, parts_of, write_hostile

from calib8 import InferenceSession, ModelError
from calib8.engine.plan import Plan, PlanPort, PlanState
from calib8.engine.plan_file import load_plan, save_plan
from calib8.qparams import FLOAT32_MAX
from needed import needed_program
from plan_headers import HEADERS, changed_header

ROOT = Path(__file__).parents[2]
SOURCES = (
    *("tests/native/plan_check.cc", "csrc/engine/checksum.cc", "csrc/engine/limits.cc"),
    "csrc/platform_posix.cc",
    *(f"csrc/plan/{name}.cc" for name in ("file", "json", "parts", "plan", "ports")),
)


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = needed_program("g++", "clang++")
    program = tmp_path_factory.mktemp("reader") / "plan_check"
    flags = ("-std=c++17", "-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    subprocess.run(
        [compiler, *flags, *SOURCES, "-iquotecsrc/engine", "-o", str(program)], cwd=ROOT, check=True
    )
    return program


def read(reader: Path, files: list[Path]) -> list[str]:
    """A line per file."""
    result = subprocess.run([str(reader), *map(str, files)], capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode(errors="replace")[-3000:]
    lines = result.stdout.decode().splitlines()
    assert len(lines) == len(files)
    return lines


def printable(name: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", "?", name)


def told(plan: Plan) -> str:
    """A plan as ``plan_check`` tells it."""
    numbers = sum(row.fields.size for row in plan.rows)
    parts = [f"ok {plan.profile} {plan.arena_bytes} {len(plan.rows)} {numbers}"]
    for port in (*plan.inputs, *plan.outputs):
        shape, scales = "".join(f"{n}," for n in port.shape), "".join(f"{s:.9g}," for s in port.scales)
        parts.append(f"{printable(port.name)} {port.dtype} {shape} {scales} {port.zero_point}")
    ports = {port.name: port for port in plan.inputs}
    for state in plan.states:
        port = ports[state.input]
        begun = state.initial or np.full(port.shape, state.fill, port.dtype).tobytes()
        names = f"{printable(state.input)} {printable(state.output)}"
        parts.append(f"state {names} {sum(begun)}")
    return " | ".join(parts)


def test_every_kind_of_plan_is_read_as_in_python(reader: Path, examples: list[Path]) -> None:
    floats = 0
    for path, line in zip(examples, read(reader, examples), strict=True):
        plan = load_plan(path)
        floats += bool(plan.floats)
        named = "float-parts has nodes that have no integer form and need ONNX Runtime: conv, relu. "
        assert line.startswith(named) if plan.floats else line == told(plan), path
    assert floats == 3 and len(examples) > 130
    assert any(len(port.scales) > 1 for path in examples for port in load_plan(path).inputs)


@pytest.mark.parametrize("what", HEADERS)
def test_headers_that_make_no_plan(what: str, reader: Path, tmp_path: Path) -> None:
    path = tmp_path / "conv.c8"
    shutil.copy(example("Conv", tmp_path), path)
    line, *_ = read(reader, [changed_header(HEADERS[what], path)])
    # What kinds of steps there are, and how long their rows, the engine knows.
    later = what in ("an unknown step", "one step too many")
    assert line.startswith("ok" if later and not line.startswith("broken") else "broken holds a header"), line


def accepted(path: Path) -> Plan | None:
    """What Python makes of a file."""
    try:
        return load_plan(path)
    except ModelError:
        return None


@pytest.mark.parametrize("seed", range(3))
def test_hostile_files(seed: int, reader: Path, examples: list[Path], tmp_path: Path) -> None:
    files = write_hostile(tmp_path, 400, seed, examples, rows=0)
    lines = read(reader, files)
    both = 0
    for path, line in zip(files, lines, strict=True):
        if line.startswith("ok "):
            plan = accepted(path)
            if plan is None:  # of steps the reader knows no more than that they are rows
                with pytest.raises(ModelError, match=r"a step '.*' of -?\d+ numbers"):
                    load_plan(path)
                continue
            both += 1
            assert not plan.floats and line == told(plan)
        elif line.startswith("float-parts"):
            continue
        elif accepted(path) is not None:  # numbers written as text or with a fraction, names of one letter …
            assert line.startswith(("broken holds a header", "newer")), line
    assert both > 20
    assert len({line.split()[0] for line in lines}) >= 4


def changed_port(plan: Plan, **changes: object) -> Plan:
    return replace(plan, inputs=(plan.inputs[0]._replace(**changes), *plan.inputs[1:]))  # type: ignore[arg-type]


SCALES = {
    "of floats": {"dtype": "float32", "scales": (0.5,), "zero_point": 0},
    "of another number": {"scales": (0.5,) * 7},
    "0": {"scales": (0.0,)},
    "negative": {"scales": (-1.0,)},
    "infinite": {"scales": (math.inf,)},
    "no number": {"scales": (math.nan,)},
    "beyond float32": {"scales": (2 * FLOAT32_MAX,)},
    "between float32 values": {"scales": (0.1,)},
    "none, with a zero point": {"scales": (), "zero_point": 3},
    "a zero point that is no code": {"zero_point": 256},
}


@pytest.mark.parametrize("what", SCALES)
def test_scales_that_are_none(
    what: str, reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = load_plan(example("Conv", tmp_path))
    assert plan.inputs[0].dtype == "uint8" and plan.inputs[0].zero_point == 3
    changed, path = changed_port(plan, **SCALES[what]), tmp_path / "s.c8"
    with pytest.raises(ModelError, match=r"not a plan that can run \((.*scales|zero point)"):
        save_plan(changed, path)
    if not math.isfinite(sum(changed.inputs[0].scales)):
        return  # JSON has no such numbers
    with monkeypatch.context() as unchecked:
        unchecked.setattr("calib8.engine.plan_file.check_plan", lambda plan, name: None)
        unchecked.setattr("calib8.engine.plan_file._of_port", PlanPort._asdict)
        save_plan(changed, path)
    assert accepted(path) is None
    assert read(reader, [path])[0].startswith("broken holds a header")


def test_files_of_before_are_read_without_scales(reader: Path, tmp_path: Path) -> None:
    whole = example("Conv", tmp_path)
    plan = load_plan(whole)
    inputs, outputs = (tuple(PlanPort(*port[:3]) for port in ports) for ports in (plan.inputs, plan.outputs))
    path = tmp_path / "b.c8"
    save_plan(replace(plan, inputs=inputs, outputs=outputs), path)
    assert b"scales" not in path.read_bytes()
    assert read(reader, [path]) == [told(load_plan(path))]


def test_axes_of_samples_are_passed_over(reader: Path, tmp_path: Path) -> None:
    plan = load_plan(example("Conv", tmp_path))
    for axis in (None, -1, 0, 1):
        path = tmp_path / "b.c8"
        save_plan(changed_port(plan, counted=axis), path)
        assert (b"counted" in path.read_bytes()) == (axis is not None)
        assert load_plan(path).inputs[0].counted == axis
        assert read(reader, [path]) == [told(plan)]


def test_states(reader: Path, tmp_path: Path) -> None:
    whole = example("Conv", tmp_path)
    plan = load_plan(whole)
    kept = PlanPort("kept", "int16", (2, 3))
    begins = [{"fill": -3}, {"initial": bytes(range(12))}, {"fill": 1 << 14}]
    for changes in begins:
        state = PlanState("kept", "kept", **changes)  # type: ignore[arg-type]
        made = replace(plan, inputs=(*plan.inputs, kept), outputs=(*plan.outputs, kept), states=(state,))
        save_plan(made, tmp_path / "s.c8")
        assert read(reader, [tmp_path / "s.c8"]) == [told(made)]


def test_what_is_no_file(reader: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.c8").write_bytes(b"")
    lines = read(reader, [tmp_path, tmp_path / "none.c8", tmp_path / "empty.c8"])
    assert lines[0].startswith("no-file") and "no regular file" in lines[0]
    assert "none.c8: cannot be read (No such file or directory)" in lines[1]
    assert lines[2].startswith("not-a-plan")


def test_deep_and_long_headers_end(reader: Path, tmp_path: Path) -> None:
    whole = example("Conv", tmp_path)
    version, (_, *rest) = parts_of(whole.read_bytes())
    texts = (b"[" * 2_000_000, b'{"a":' * 100_000, b"[" + b"0," * 5_000_000 + b"0]", b'"' + b"x" * 3_000_000)
    files = [tmp_path / f"{number}.c8" for number in range(len(texts))]
    for path, text in zip(files, texts, strict=True):
        path.write_bytes(joined(version, [text, *rest]))
    for line, why in zip(
        read(reader, files), ("brackets", "brackets", "too many values", "early end"), strict=True
    ):
        assert line.startswith("broken holds a header") and why in line


def test_scales_of_a_session_are_those_of_its_program(tmp_path: Path) -> None:
    from program.example_programs import EXAMPLES

    program = EXAMPLES["Conv", "tflite"]
    InferenceSession(program).save(tmp_path / "p.c8")
    plan = load_plan(tmp_path / "p.c8")
    for ports, wanted in ((plan.inputs, program.inputs), (plan.outputs, program.outputs)):
        for port, one in zip(ports, wanted, strict=True):
            slot = program.slots[one.slot]
            assert (np.array(port.scales, np.float32), port.zero_point) == (slot.scales, slot.zero_point)
