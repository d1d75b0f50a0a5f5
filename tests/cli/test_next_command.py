"""The command behind a verdict: what fits the word, with the user's own files and options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from calib8.analysis.evaluation import Evaluation
from calib8.cli.options import RangeOptions, ReadingOptions
from calib8.cli.terminal import open_terminal
from calib8.cli.verdict import Asked, next_command, say_next
from calib8.data.preprocess import Preprocess
from calib8.tasks.limits import FIGURE_LIMITS, State
from calib8.tasks.task_verdicts import TaskVerdict
from calib8.tasks.verdict import BranchVerdict, Verdict
from small_models import normal, onnx_model

RANGES = RangeOptions(method="mse", power_of_two=True, range=["a=0,1", "b=-1,1"])
READ = ["--samples", "60", "--threads", "1"]
MEANT = ["--color", "bgr", "--mean", "0", "--branch", "y[0:4]=boxes"]
TUNE = "calib8 tune net.onnx --data pics --judge-data OTHER_IMAGES"
MADE = ["--target", "calib8", "--weights", "per-tensor", "--power-of-two", "--range", "a=0,1", "--range",
        "b=-1,1", "--keep-float", "n1"]  # fmt: skip


def asked(effort: str = "balanced", data: str | None = "pics", target: str = "calib8") -> Asked:
    return Asked(
        Path("net.onnx"), Path("out.onnx"), data, ReadingOptions(samples=60, batch=4, threads=1),
        Preprocess(color="bgr", mean=(0.0,)), None, {"y[0:4]": "boxes"}, target, "per-tensor",
        Path("labels.txt"), RANGES, ["n1"], ["t1"], effort,
    )  # fmt: skip


def verdict(state: State, task: str = "detect", decided_by: str = "recall") -> Verdict:
    told = TaskVerdict("objects", task, ("boxes",), state, {decided_by: 0.9}, 99, "", decided_by)
    branch = BranchVerdict("boxes", "boxes", "kept", 40.0, "40.0 dB")
    return Verdict(state, (branch,), 64, tasks=(told,))


def words(*parts: str | list[str]) -> list[str]:
    return [word for part in parts for word in (part.split() if isinstance(part, str) else part)]


def test_what_is_kept_is_evaluated_by_its_task() -> None:
    read = ["--batch", "4", *READ[2:]]  # of other images all
    told = words("calib8 evaluate net.onnx out.onnx --data OTHER_IMAGES", read, MEANT[:4])
    assert next_command(verdict("kept"), asked()) == [*told, "--task", "detect", *MEANT[4:]]
    assert next_command(verdict("kept", "classify", "agreement"), asked()) == [*told, *MEANT[4:]]
    without = next_command(verdict("ruined"), asked(data=None))
    assert without[:2] == ["calib8", "evaluate"] and "--samples" not in without


def test_what_is_ruined_is_diagnosed() -> None:
    read = [*READ[:2], "--batch", "4", *READ[2:]]
    expected = words("calib8 diagnose net.onnx out.onnx --data pics", read, MEANT)
    assert next_command(verdict("ruined"), asked()) == expected


@pytest.mark.parametrize(
    ("state", "models", "told"),
    [
        ("kept", ["a.onnx", "b c.onnx"], "next       calib8 benchmark a.onnx 'b c.onnx'\n"),
        ("damaged", ["a.onnx", "b.onnx"], "next       calib8 diagnose …\n"),
        ("ruined", ["a.onnx", "b.onnx"], "next       calib8 diagnose …\n"),
        ("unknown", ["a.onnx", "b.onnx"], ""),
        ("kept", ["a.onnx", "b.onnx", "c.onnx"], ""),
    ],
)
def test_an_evaluation_of_two_is_followed_by_speed_or_by_a_cure(
    state: State, models: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = [Evaluation(model, "onnxruntime", 9, None, None, None, None, None) for model in models]
    figures[1] = replace(figures[1], verdict=verdict(state))
    say_next(open_terminal(False), list(map(Path, models)), figures, ["calib8", "diagnose", "…"])
    assert capsys.readouterr().out.replace("'…'", "…") == told


def test_what_an_evaluation_was_told_of_outputs_stays_in_its_next_command(
    cli: Callable[..., Any], out: Path
) -> None:
    """Without them the map would be read as regions."""
    graph = onnx_model(
        "float[N,3,16,16] x",
        "float[N,4,16,16] y",
        "y = Conv<pads=[1,1,1,1]>(x, w)",
        {"w": normal(4, 3, 3, 3)},
    )
    onnx.save(graph, out / "net.onnx")
    np.savez(out / "data.npz", x=np.random.default_rng(0).normal(size=(40, 3, 16, 16)).astype(np.float32))
    narrow = ("--effort", "fast", "--range", "x=-0.1,0.1")
    made = cli("quantize", out / "net.onnx", "--data", out / "data.npz", *narrow, "-o", out / "q.onnx")
    assert made.exit_code == 0, made.output
    named = ("--task", "keypoints", "--branch", "y=keypoints")
    told = cli("evaluate", out / "net.onnx", out / "q.onnx", "--data", out / "data.npz", *named)
    assert told.exit_code == 0, told.output
    [last] = [line for line in told.output.splitlines() if line.startswith("next")]
    assert last.endswith("--task keypoints --branch y=keypoints"), last


def test_what_is_damaged_is_tuned_to_the_figure_that_fell_short() -> None:
    start = words(TUNE, READ, MEANT, MADE, "--runtime calib8")
    for effort in ("balanced", "best"):
        command = next_command(verdict("damaged"), asked(effort))
        assert command == [*start, "--min-recall", "0.97", "-o", "out.tuned.onnx"]
    command = next_command(verdict("damaged", decided_by="precision"), asked())
    assert command == [*start, "--min-precision", "0.97", "-o", "out.tuned.onnx"]
    command = next_command(verdict("damaged", decided_by="map50"), asked(target="onnxruntime"))
    made = words(MADE[2:], "--min-map-ratio 0.99 -o out.tuned.onnx")
    assert command == [*words(TUNE, READ, MEANT), *made]


def test_less_than_the_usual_effort_is_followed_by_the_best() -> None:
    read = [*READ[:2], "--batch", "4", *READ[2:]]
    rest = words(MEANT, MADE, "--labels labels.txt --method mse --spot t1 --effort best -o out.best.onnx")
    for effort in ("fast", ""):
        command = next_command(verdict("damaged"), asked(effort))
        assert command == [*words("calib8 quantize net.onnx --data pics", read), *rest]
    by_branch = Verdict("damaged", (BranchVerdict("y", "other", "damaged", 15.0, ""),), 64)
    assert next_command(by_branch, asked("balanced"))[1] == "quantize"
    assert next_command(by_branch, asked("best"))[-4:] == ["--min-sqnr", "25", "-o", "out.tuned.onnx"]


@pytest.mark.parametrize("effort", ["fast", "balanced", "best"])
@pytest.mark.parametrize("name", ["out.onnx", "out.int8.onnx", "folder/out.best.tflite"])
def test_what_was_written_is_not_written_over(name: str, effort: str) -> None:
    command = next_command(verdict("damaged"), replace(asked(effort), output=Path(name)))
    written = Path(command[command.index("-o") + 1])
    assert written != Path(name)
    assert (written.parent, written.suffix) == (Path(name).parent, Path(name).suffix)
    assert written.name.startswith(Path(name).stem)


@pytest.mark.parametrize("figure", FIGURE_LIMITS)
@pytest.mark.parametrize("effort", ["fast", "balanced"])
def test_every_command_is_one_that_is_taken(cli, tmp_path: Path, figure: str, effort: str) -> None:
    """Up to the model, which is none."""
    command = next_command(verdict("damaged", decided_by=figure), asked(effort))
    (tmp_path / "net.onnx").write_bytes(b"")
    files = ("net.onnx", "out.best.onnx", "out.tuned.onnx")
    found = cli(*(str(tmp_path / word) if word in files else word for word in command[1:]))
    assert found.exit_code == 1 and "is not an ONNX model" in found.output, found.output
