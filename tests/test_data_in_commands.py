"""Every command takes data as users have them: the same figures whatever object holds the samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

import calib8
from calibration_reader import CalibrationReader
from small_models import normal, onnx_model

COUNT = 40
VALUES = np.random.default_rng(5).standard_normal((COUNT, 3, 6, 6)).astype(np.float32)
PIXELS = np.random.default_rng(6).integers(0, 256, (COUNT, 6, 6, 3), dtype=np.uint8)
LABELS = np.arange(COUNT) % 4
RECIPE = calib8.Preprocess(mean=(127.5,), scale=(1 / 64,))


OBJECTS: dict[str, Callable[[], Any]] = {
    "array": lambda: VALUES,
    "tensor": lambda: torch.from_numpy(VALUES),
    "list of arrays": lambda: list(VALUES),
    "generator": lambda: (row for row in VALUES),
    "calibration reader": lambda: CalibrationReader(VALUES),
    "DataLoader of x": lambda: DataLoader(torch.from_numpy(VALUES), batch_size=16),  # type: ignore[arg-type]
    "TensorDataset of (x, y)": lambda: TensorDataset(torch.from_numpy(VALUES), torch.from_numpy(LABELS)),
    "DataLoader of (x, y)": lambda: DataLoader(
        TensorDataset(torch.from_numpy(VALUES), torch.from_numpy(LABELS)), batch_size=16
    ),
}
PICTURES: dict[str, Callable[[], Any]] = {
    "Pillow images": lambda: [Image.fromarray(row) for row in PIXELS],
    "rows of Hugging Face": lambda: [
        {"image": Image.fromarray(row), "label": int(label)}
        for row, label in zip(PIXELS, LABELS, strict=True)
    ],
    "pixels": lambda: list(PIXELS),
}
LABELLED = ("TensorDataset of (x, y)", "DataLoader of (x, y)", "rows of Hugging Face")


def network() -> onnx.ModelProto:
    body = "c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c) p = GlobalAveragePool(r) f = Flatten(p) y = Gemm(f, v)"
    weights = {"w": normal(8, 3, 3, 3, seed=1), "v": normal(8, 4, seed=2)}
    return onnx_model("float[N,3,6,6] x", "float[N,4] y", body, weights)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The float model and an INT8 one of it."""
    folder = tmp_path_factory.mktemp("models")
    onnx.save(network(), folder / "net.onnx")
    made = calib8.quantize(folder / "net.onnx", VALUES, effort="fast")
    made.save(folder / "net.int8.onnx")
    return [folder / "net.onnx", folder / "net.int8.onnx"]


def options_of(name: str) -> dict[str, Any]:
    return {"preprocess": RECIPE} if name in PICTURES else {}


@pytest.mark.parametrize("name", [*OBJECTS, *PICTURES])
def test_ranges_and_accuracy(name: str, files: list[Path]) -> None:
    make, first = {**OBJECTS, **PICTURES}[name], VALUES if name in OBJECTS else {"images": PIXELS}
    counted = calib8.collect_statistics(files[0], make(), **options_of(name))
    assert repr(counted) == f"<Collection: {len(counted.statistics.tensors)} tensors, {COUNT} samples>"
    found = calib8.calibrate(files[0], make(), method="minmax", **options_of(name))
    table = found.table
    assert repr(found) == f"<Calibration: {len(table.entries)} ranges by minmax from {COUNT} samples>"
    wanted = calib8.calibrate(files[0], first, method="minmax", **options_of(name)).table
    assert {tensor: entry.range for tensor, entry in table.entries.items()} == {
        tensor: entry.range for tensor, entry in wanted.entries.items()
    }
    float32, int8 = calib8.evaluate(files, make(), **options_of(name))
    assert int8.images == COUNT and int8.agreement is not None and int8.agreement > 0.9
    assert (float32.top1 is not None) == (name in LABELLED)


@pytest.mark.parametrize("name", ["generator", "DataLoader of (x, y)", "rows of Hugging Face"])
def test_the_other_commands(name: str, files: list[Path], tmp_path: Path) -> None:
    make, options = {**OBJECTS, **PICTURES}[name], options_of(name)
    made = calib8.quantize(files[0], make(), **options)
    assert made.verdict is not None and repr(made).startswith("<Quantization: ") and len(repr(made)) < 400
    assert made.verdict.text.split(":")[0] in repr(made) and "\x0e" not in repr(made)
    assert "; 2 tensors of 16 bits" in repr(replace(made, spots=frozenset("ab")))
    assert calib8.compare(*files, make(), **options).tensors
    assert calib8.preflight(files[0], make(), **options).inputs[0].rows > 0
    tuned = calib8.tune(files[0], make(), tmp_path / "tuned.onnx", min_agreement=50, **options)
    assert tuned.kept and tuned.calibrated + tuned.judged == COUNT
