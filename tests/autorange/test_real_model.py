"""A real network on images that nothing has seen: auto keeps up with the best single method."""

from __future__ import annotations

from pathlib import Path

import pytest

from calib8.autorange.choose import choose_automatically
from calib8.autorange.plain import plain_tables
from calib8.data.preprocess import Preprocess
from calib8.judge import evaluate
from calib8.pipeline import calibrate, quantize
from calib8.qparams import UINT8
from calib8.scheme import TARGETS

NOISE_DB = 0.5


@pytest.mark.slow
def test_auto_is_near_the_best_method(shared_data: Path, tmp_path: Path) -> None:
    model = shared_data / "models" / "resnet8_cifar10_mlperftiny.onnx"
    data = shared_data / "cifar10" / "train1024.npz"
    preprocess = Preprocess(resize="none")
    found = calibrate(model, data, preprocess=preprocess, samples=96, method="minmax")
    assert found.dataset is not None
    tables = plain_tables(found.statistics, UINT8)
    tables["auto"], report = choose_automatically(
        found.prepared.model, tables, found.dataset, TARGETS["onnxruntime"]
    )
    assert (report.scored, report.held_back, report.notes) == (32, 64, ())
    files = {"float": model}
    for name, table in tables.items():
        files[name] = tmp_path / f"{name}.onnx"
        quantize(model, table=table).save(files[name])
    results = evaluate(
        list(files.values()),
        shared_data / "cifar10" / "test5000.npz",
        preprocess=preprocess,
        samples=500,
        batch=20,
    )
    figures = {name: result.sqnr_db for name, result in zip(files, results, strict=True) if result.sqnr_db}
    assert figures["auto"] > max(figures.values()) - NOISE_DB
    assert figures["auto"] > min(figures.values()) + 1
