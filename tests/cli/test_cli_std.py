"""``--std`` and ``--units``: the numbers of a training recipe, as they are printed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from calib8.calibration.statistics import Statistics
from calib8.data.preprocess import Preprocess
from calib8.data.presets import PRESETS

RECIPE = ("--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225")


def table(cli, model: Path, images: Path, path: Path, *flags: object) -> str:
    """What was calibrated with, as it is stored."""
    command = ("calibrate", model, "--data", images, *flags, "--stats", path)
    result = cli(*command)
    assert result.exit_code == 0 and "warning: input" not in result.stdout, result.output
    return Statistics.load(path).preprocess or ""


def test_the_recipe_of_torchvision(cli, model: Path, images: Path, out: Path) -> None:
    told = table(cli, model, images, out / "told", *RECIPE)
    assert told == table(cli, model, images, out / "named", *RECIPE, "--units", "0-1")
    found, preset = Preprocess.from_json(told, "told"), PRESETS["torchvision"]
    assert found.mean == pytest.approx(preset.mean) and found.scale == pytest.approx(preset.scale)
    pixels = table(cli, model, images, out / "pixels", "--mean", "127.5", "--std", "127.5")
    assert pixels == table(cli, model, images, out / "scale", "--mean", "127.5", "--scale", "1/127.5")


def test_a_preset_keeps_what_is_not_named(cli, model: Path, images: Path, out: Path) -> None:
    flags = ("--preprocess", "tf_inception", *RECIPE)
    found = Preprocess.from_json(table(cli, model, images, out / "s", *flags), "s")
    assert found.filter == "opencv-bilinear" and found.mean == pytest.approx(PRESETS["torchvision"].mean)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (
            ("--mean", "0", "--std", "1"),
            ("may be of pixels 0 … 1 or 0 … 255", "--units 0-1 or --units 0-255"),
        ),
        (("--std", "0.229"), ("--std 0.229: needs --mean in the same units",)),
        ((*RECIPE, "--scale", "1/255"), ("contradicts --scale", "Give one of them")),
        (("--mean", "0.5", "--scale", "2", "--units", "0-1"), ("--units 0-1: says what", "Give --std")),
        (("--mean", "0.5", "--std", "zero"), ("--std zero: is not a list of numbers",)),
        (("--mean", "0.5", "--std", "0"), ("std cannot be (0.0,)",)),
        (
            (*RECIPE, "--units", "255"),
            ("units cannot be '255'", "Did you mean '0-255'?"),
        ),
    ],
)
def test_what_is_refused(cli, refused, model: Path, images: Path, out: Path, flags, parts) -> None:
    refused(cli("quantize", model, "--data", images, *flags, "-o", out / "q.onnx"), 2, *parts)


def test_numbers_for_0_to_1_as_scale_are_told_of(cli, model: Path, images: Path, out: Path) -> None:
    flags = ("--mean", "0.485,0.456,0.406", "--scale", "1/0.229,1/0.224,1/0.225")
    result = cli("quantize", model, "--data", images, *flags, "--effort", "fast", "-o", out / "q.onnx")
    assert result.exit_code == 0
    assert "warning: input 'image': mean and scale turn pixels into -2.118 … 1136" in result.stdout
    assert " ".join(RECIPE) + " --units 0-1" in result.stdout


def test_plans_carry_it(cli, made_once: Path, out: Path) -> None:
    command = ("compile", next(made_once.glob("*.onnx")), "--pixels", *RECIPE, "-o", out / "p.c8")
    result = cli(*command)
    assert result.exit_code == 0, result.output
