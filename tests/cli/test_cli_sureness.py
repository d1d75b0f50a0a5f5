"""A verdict from few samples says that it is not sure, and how many samples would do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


def arrays(folder: Path, samples: int) -> Path:
    image = np.random.default_rng(2).normal(0, 1, (samples, 3, 16, 16)).astype(np.float32)
    np.savez(folder / f"{samples}.npz", image=image)
    return folder / f"{samples}.npz"


def lines(output: str) -> dict[str, str]:
    return {line.split()[0]: line for line in output.splitlines() if line.strip()}


@pytest.mark.parametrize(("samples", "held"), [(30, 22), (32, 24), (50, 32)])
def test_the_least_effort_holds_back_enough_to_count(
    cli, model: Path, out: Path, samples: int, held: int
) -> None:
    made = cli("quantize", model, "--data", arrays(out, samples), "--effort", "fast", "-o", out / "q.onnx")
    assert made.exit_code == 0, made.output
    told = lines(made.output)
    assert f"of {held}) of the samples keep their class; on {held} samples held back" in told["accuracy"]
    assert "probably" not in told["accuracy"] and "samples" not in told


def test_too_few_are_not_sure_and_say_how_many_would_do(cli, model: Path, out: Path) -> None:
    made = cli("quantize", model, "--data", arrays(out, 20), "--effort", "fast", "-o", out / "q.onnx")
    assert made.exit_code == 0, made.output
    told = lines(made.output)
    assert told["accuracy"].split()[1] == "probably"
    assert (
        "12 of the samples are too few to count (22 are needed); on 12 samples held back" in told["accuracy"]
    )
    expected = "12 samples were held back, 22 would be enough to count: calibrate with 44 or more"
    assert told["samples"].endswith(expected)
    enough = cli("quantize", model, "--data", arrays(out, 44), "-o", out / "b.onnx")
    assert enough.exit_code == 0 and "(22 of 22)" in lines(enough.output)["accuracy"], enough.output


def test_what_is_not_judged_says_how_many_in_the_words_of_the_command_line(
    cli, model: Path, out: Path
) -> None:
    made = cli("quantize", model, "--data", arrays(out, 8), "--effort", "fast", "-o", out / "q.onnx")
    told = lines(made.output)["accuracy"]
    assert "8 samples are too few to prove a repair on (16): none was tried; give about 100" in told
    assert told.endswith("or name repairs with --repair")
