"""Tables of accuracy by method, and the pages they stand on: figures come from the records alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
import methods
from accuracy_tables import (
    choice_rows,
    document_page,
    figure_rows,
    method_rows,
    part_rows,
    results_section,
    sweep_rows,
)
from engine import joined
from methods import ALL, Network, Setting, measure, partly_float
from results import machine, page
from small_models import normal, onnx_model


def run_of(network: str, method: str, samples: int = 100, **more: Any) -> dict[str, Any]:
    figures = {"judged": 400, "top1": 0.9, "agreement": 0.975, "sqnr_db": 18.6}
    return {"network": network, "samples": samples, "method": method, **figures, **more}


RECORDS = [
    run_of("a", "float32", agreement=None, sqnr_db=None),
    run_of("a", "mse"),
    run_of("a", "auto", sqnr_db=19.0, chosen="mse", wins={"mse": 3, "aciq": 1}),
    run_of("detector", "float32", top1=None, agreement=None, sqnr_db=None),
    run_of("detector", "mse", top1=None, agreement=None, sqnr_db=6.7),
]
SWEEP_RECORDS = [run_of("a", "float32", 5, sqnr_db=None), run_of("a", "mse", 5, sqnr_db=12.0)]
PART = {"network": "detector", "first": 0, "last": 10, "nodes": 197, "judged": 400, "sqnr_db": 9.9}
FOUND = {"methods": RECORDS, "images": SWEEP_RECORDS, "parts": [PART]}


def test_a_line_per_method_and_a_column_per_network() -> None:
    assert method_rows(RECORDS) == [
        "| method | a | detector |",
        "| --- | --- | --- |",
        "| FP32 | 90.00 / – / – | – / – / – |",
        "| mse | 90.00 / 97.50 / 18.60 | – / – / 6.70 |",
        "| **auto** | 90.00 / 97.50 / 19.00 | – / – / – |",
    ]


def test_networks_and_methods_without_a_figure_are_left_out() -> None:
    top1 = figure_rows(RECORDS, "top1")
    assert top1[0] == "| method | a |"
    assert top1[2:] == ["| FP32 | 90.00 |", "| mse | 90.00 |", "| **auto** | 90.00 |"]
    assert figure_rows(RECORDS, "sqnr_db")[2:] == ["| mse | 18.60 | 6.70 |", "| **auto** | 19.00 | – |"]


def test_a_column_per_number_of_samples_the_main_one_among_them() -> None:
    assert sweep_rows(RECORDS, SWEEP_RECORDS) == [
        "| network | samples judged | method | 5 | 100 |",
        "| --- | --- | --- | --- | --- |",
        "| a | 400 | mse | 90.00 / 97.50 / 12.00 | 90.00 / 97.50 / 18.60 |",
    ]


def test_what_auto_chose_and_what_float_parts_bring() -> None:
    assert choice_rows(RECORDS)[2:] == ["| a | mse | mse 3, aciq 1 |"]
    assert part_rows([PART, {**PART, "last": 0}])[2:] == [
        "| detector | nodes 1 to 10 of 197 | 400 | 9.90 |",
        "| detector | nothing | 400 | 9.90 |",
    ]


def test_pages_hold_the_tables() -> None:
    text = document_page(FOUND)
    assert "\n".join(sweep_rows(RECORDS, SWEEP_RECORDS)) in text
    assert "| a | 100 | 400 |" in text and "--images 5 " in text
    assert "## Partly in float" in text and "## Partly" not in document_page({**FOUND, "parts": []})
    document = {"machine": machine([1]), "results": [], "accuracy": FOUND}
    assert results_section(FOUND) in page(document)


def test_figures_from_different_samples_are_not_put_side_by_side() -> None:
    with pytest.raises(SystemExit, match=r"a, aciq: judged with 200 samples, FP32 with 400"):
        document_page({**FOUND, "methods": [*RECORDS, run_of("a", "aciq", judged=200)]})


def test_files_of_several_runs_are_joined_and_the_first_names_the_machine(tmp_path: Path) -> None:
    files = [tmp_path / "speed.json", tmp_path / "one.json", tmp_path / "two.json"]
    for index, file in enumerate(files):
        found = {"accuracy": {"methods": [RECORDS[index]]}} if index else {"calibration": {"images": []}}
        peaks = {"processor": "one", "peak_gmacs": {"1": 100.0 + index}}
        file.write_text(json.dumps({"machine": peaks, "results": [], **found}))
    made = joined(files)
    assert made["accuracy"]["methods"] == RECORDS[1:3]
    assert made["machine"]["peak_gmacs"] == {"1": 100.0} and made["calibration"] == {"images": []}


def small_network(folder: Path) -> Network:
    model = onnx_model(
        "float[N,3,8,8] x",
        "float[N,4] y",
        "c = Conv <pads = [1, 1, 1, 1]> (x, v) r = Relu (c) g = GlobalAveragePool (r) f = Flatten (g)"
        " y = MatMul (f, w)",
        {"v": normal(16, 3, 3, 3), "w": normal(16, 4, seed=1)},
    )
    onnx.save(model, folder / "small.onnx")
    np.savez(folder / "data.npz", images=np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), np.uint8))
    data = folder / "data.npz"
    preprocess = calib8.Preprocess(resize="none", mean=(127.0,), scale=(1 / 64,))
    return Network("small", folder / "small.onnx", data, data, preprocess, ((0, 0), (0, 2)))


@pytest.mark.slow
def test_every_method_of_a_network_is_measured(tmp_path: Path) -> None:
    network = small_network(tmp_path)
    records = measure(network, tmp_path, 6, ALL, Setting(4, 1))
    assert [record["method"] for record in records] == ["float32", *ALL]
    assert {record["judged"] for record in records} == {4}
    figures = {record["method"]: record["sqnr_db"] for record in records[1:]}
    assert figures["mse"] > 20 and figures["entropy-tensorrt-exact"] > 0
    assert len(set(figures.values())) > 8, "methods differ"
    assert sum(records[-1]["wins"].values()) > 0
    whole, part = partly_float(network, tmp_path, 6, Setting(4, 1))
    assert whole["sqnr_db"] == figures["mse"] != part["sqnr_db"]
    assert (part["first"], part["last"]) == (0, 2) and part["nodes"] >= 5


@pytest.mark.parametrize("flags", [[], ["data", "--from", "a.json"], ["data", "--images", "few"]])
def test_what_is_refused(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        methods.arguments(flags)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err
