"""``--data`` as a pattern, ``--odd-margin``, and names that are nearly right."""

from __future__ import annotations

from pathlib import Path

import pytest

from calib8.calibration.statistics import Statistics
from calib8.data.preprocess import Preprocess

FLAGS = ("--mean", "127.5", "--scale", "1/64")


def statistics(cli, model: Path, data: object, path: Path, *flags: object) -> Statistics:
    result = cli("calibrate", model, "--data", data, *FLAGS, *flags, "--stats", path)
    assert result.exit_code == 0, result.output
    return Statistics.load(path)


def test_a_pattern_is_the_folder(cli, model: Path, images: Path, out: Path) -> None:
    folder = statistics(cli, model, images, out / "folder")
    for number, pattern in enumerate(("*/*", "**/*")):
        found = statistics(cli, model, images / pattern, out / f"{number}")
        assert found.digests == folder.digests and found.samples == folder.samples


@pytest.mark.usefixtures("nothing_left")
def test_a_pattern_without_images(cli, refused, model: Path, images: Path, out: Path) -> None:
    result = cli("quantize", model, "--data", images / "*.tif", *FLAGS, "-o", out / "q.onnx")
    refused(result, 1, "*.tif: matches no file", "Images are")


def test_the_odd_margin_is_stored(cli, model: Path, images: Path, out: Path) -> None:
    found = statistics(cli, model, images, out / "s", "--odd-margin", "even").preprocess
    assert found is not None and Preprocess.from_json(found).odd_margin == "even"


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("flags", "meant"),
    [
        (("--method", "MinMax"), "Did you mean 'minmax'?"),
        (("--target", "trt"), "Did you mean 'tensorrt'?"),
        (("--effort", "ballanced"), "Did you mean 'balanced'?"),
        (("--repair", "bais"), "Did you mean 'bias'?"),
        (("--preprocess", "torch-vision"), "Did you mean 'torchvision'?"),
        (("--activations", "INT8"), "Did you mean 'int8'?"),
        (("--task", "detection"), "Did you mean 'detect'?"),
    ],
)
def test_names_nearly_right(cli, refused, model: Path, images: Path, out: Path, flags, meant: str) -> None:
    refused(cli("quantize", model, "--data", images, *FLAGS, *flags, "-o", out / "q.onnx"), 2, meant)
