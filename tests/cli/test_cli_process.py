"""The command line as a process: start-up, pipes, terminals, Ctrl-C, unexpected errors."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_models import FLAGS

from calib8.analysis.runtimes import RUNTIMES
from calib8.calibration.ranges import METHODS
from calib8.data.presets import PRESETS
from calib8.demo import CALIBRATION_PATH, HELDOUT_PATH, MODEL_PATH
from calib8.scheme import ACTIVATION_TYPES, TARGETS

DIGITS = ("--mean", "128", "--scale", "1/128", "--color", "gray")

HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "PIL", "openvino", "calib8._core")


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("quantize", "--help"), ("quantize",)])
def test_start_up_loads_no_heavy_library(process, arguments: tuple[str, ...]) -> None:
    report = f"import atexit, sys; atexit.register(lambda: print([n for n in {HEAVY} if n in sys.modules]))"
    result = process(*arguments, before=report)
    assert result.stdout.splitlines()[-1] == "[]", result.stdout


def test_python_m_calib8_is_the_same() -> None:
    command = [sys.executable, "-m", "calib8", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"calib8 \d+\.\d+\.\d+\n", result.stdout)


def test_the_help_names_every_choice(cli) -> None:
    shown = " ".join(cli("quantize", "--help").stdout.split()).replace("- ", "-")  # broken behind a hyphen
    for choice in (*TARGETS, *METHODS, *PRESETS, *ACTIVATION_TYPES):
        assert choice in shown, choice
    assert all(runtime in " ".join(cli("evaluate", "--help").stdout.split()) for runtime in RUNTIMES)
    assert all(target in " ".join(cli("inspect", "--help").stdout.split()) for target in TARGETS)


def test_a_pipe_gets_plain_text(process, tmp_path: Path) -> None:
    result = process(
        "demo", "--output", tmp_path / "a folder with quite a long name, longer than eighty columns" / "x"
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", result.stdout)
    rows = [line for line in result.stdout.splitlines() if "onnxruntime  " in line]
    assert len(rows) == 2
    assert all(str(tmp_path) in row and row.rstrip().endswith("kB") for row in rows)


def test_a_terminal_gets_a_bar_with_rate_and_remaining_time(tmp_path: Path) -> None:
    watcher, terminal = pty.openpty()
    command = [sys.executable, "-m", "calib8", "evaluate", MODEL_PATH, "--data", HELDOUT_PATH, *DIGITS]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, env=env) as running:
        os.close(terminal)
        seen = b""
        while chunk := read_until_closed(watcher):
            seen += chunk
        assert running.stdout is not None
        assert b"99.80" in running.stdout.read()
    assert running.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())
    assert re.search(r"evaluating .* 500/500  \d+\.\d/s \d:\d\d:\d\d \d:\d\d:\d\d", text)


def read_until_closed(watcher: int) -> bytes:
    """What a pseudo terminal shows; nothing once it is closed, which Linux calls an error."""
    try:
        return os.read(watcher, 65536)
    except OSError:
        return b""


def hear_ctrl_c() -> None:
    """What a shell starts in the background ignores it, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, out: Path) -> None:
    data = tmp_path / "many.npz"
    np.savez(data, images=np.random.default_rng(0).integers(0, 256, (60_000, 16, 16, 1), dtype=np.uint8))
    arguments = [MODEL_PATH, "--data", data, *DIGITS, "-o", out / "q.onnx", "--table", out / "t.json"]
    command = [sys.executable, "-m", "calib8", "quantize", *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        # The preflight is printed: now it calibrates, which takes a minute.
        assert running.stdout.readline().startswith("input 'input', 32 samples")
        running.send_signal(signal.SIGINT)
        assert running.stderr.read() == "interrupted: no file is left half-written\n"
    assert running.returncode == 130
    assert list(out.iterdir()) == []


def test_ctrl_c_says_how_to_go_on(cli, monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    checkpoint, samples = out / "run.part", np.zeros((40, 16, 16, 1), np.uint8)
    data = out.parent / "data.npz"
    np.savez(data, images=samples)

    def interrupted(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    command = ("calibrate", MODEL_PATH, "--data", data, *DIGITS, "-o", out / "t.json", "--method", "minmax")
    saving = (*command, "--checkpoint", checkpoint, "--checkpoint-every", 4)
    with monkeypatch.context() as patch:
        patch.setattr("calib8.table.CalibrationTable.save", interrupted)
        result = cli(*saving)
    assert result.exit_code == 130
    line = "interrupted: no file is left half-written; the same command goes on with what is in"
    assert result.stderr == f"{line} {checkpoint}\n"
    assert "40 samples taken from the checkpoint" in cli(*saving).stdout
    with monkeypatch.context() as patch:
        patch.setattr("calib8.judge.preflight", interrupted)
        nothing_yet = cli(*saving)
    assert nothing_yet.stderr == "interrupted: no file is left half-written\n"


def test_ctrl_c_in_a_search_names_its_folder(cli, monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    folder = out / "q.onnx.tune"

    def interrupted(*arguments: object, **named: object) -> None:
        folder.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr("calib8.tuning.tune.tune", interrupted)
    data = ("--data", CALIBRATION_PATH, *DIGITS, "--min-sqnr", 20)
    result = cli("tune", MODEL_PATH, *data, "-o", out / "q.onnx")
    assert result.exit_code == 130
    assert result.stderr.endswith(f"the same command goes on with what is in {folder}\n")


def test_ctrl_c_before_a_command(process) -> None:
    before = "import calib8.cli\ndef stop(**k): raise KeyboardInterrupt\ncalib8.cli.app = stop"
    result = process("doctor", before=before)
    assert (result.returncode, result.stderr) == (130, "interrupted: no file is left half-written\n")


@pytest.mark.parametrize("loading", [False, True])
@pytest.mark.parametrize("place", ["outcomes.save_model", "autorange.chosen_table.choose_automatically"])
def test_ctrl_c_while_results_are_made(
    cli, monkeypatch: pytest.MonkeyPatch, model: Path, images: Path, out: Path, place: str, loading: bool
) -> None:
    def interrupted(*arguments: object, **named: object) -> None:
        if loading:  # what an extension module makes of it
            raise ImportError("initialization failed") from KeyboardInterrupt()
        raise KeyboardInterrupt

    monkeypatch.setattr(f"calib8.{place}", interrupted)
    result = cli("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx")
    assert result.exit_code == 130
    assert result.stderr == "interrupted: no file is left half-written\n"
    assert list(out.iterdir()) == []


INTERRUPTED = """
import calib8.judge
from calib8.cli import main
def interrupted(*a, **k): exec('raise KeyboardInterrupt')
calib8.judge.preflight = interrupted
main()
"""


def test_ctrl_c_while_a_dataclass_is_made_has_the_same_exit_code(tmp_path: Path, out: Path) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    arguments = ["quantize", str(MODEL_PATH), "--data", str(HELDOUT_PATH), *DIGITS, "-o", str(out / "q.onnx")]
    done = subprocess.run(
        [sys.executable, "-m", "interrupted", *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (130, "interrupted: no file is left half-written\n")


BROKEN = """
import calib8.judge
def broken(*a, **k): raise ZeroDivisionError('a\\nb')
calib8.judge.preflight = broken
"""


def test_an_unexpected_error_is_one_line(process, model: Path, images: Path, out: Path) -> None:
    arguments = ("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx")
    result = process(*arguments, before=BROKEN)
    assert result.returncode == 1
    assert result.stderr == (
        "error: unexpected ZeroDivisionError: a b. Please report this as a bug; "
        "CALIB8_TRACEBACK=1 shows where it happened.\n"
    )
    shown = process(*arguments, before=f"import os; os.environ['CALIB8_TRACEBACK'] = '1'\n{BROKEN}")
    assert shown.returncode == 1
    assert "Traceback (most recent call last)" in shown.stderr
    assert "in broken" in shown.stderr


def test_an_error_is_one_line_even_with_tracebacks_on(process, tmp_path: Path) -> None:
    result = process(
        "inspect", tmp_path / "none.onnx", before="import os; os.environ['CALIB8_TRACEBACK'] = '1'"
    )
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        f"error: {tmp_path / 'none.onnx'}: no such file. Give the path of an .onnx, .tflite or .tmfile, "
        "a saved program or a plan."
    ]


def test_a_closed_pipe_is_no_bug(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "calib8", "run", MODEL_PATH, "--data", CALIBRATION_PATH, *DIGITS]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert "report" not in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_name_that_is_no_text(process, tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.onnx")
    result = process("inspect", path)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {tmp_path}/caf\\udce9.onnx: no such file")
