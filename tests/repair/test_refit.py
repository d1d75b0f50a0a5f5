"""Ranges of changed tensors are chosen anew by the method they had; all others stay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from small_candidates import candidate_of

from calib8.autorange.by_tensor import choose_by_tensor
from calib8.calibration.choose import choose_table
from calib8.calibration.collect import collect
from calib8.calibration.ranges import BEHIND, METHODS
from calib8.data.opening import open_dataset
from calib8.data.samples import Dataset, Skipped
from calib8.errors import TableError
from calib8.model.graph import add_constant, constant, model_hash
from calib8.model.runtime import Arrays
from calib8.pipeline import calibrate
from calib8.quantization.corrections import LayerCorrection
from calib8.repair import refit
from calib8.repair.candidate import Candidate
from calib8.repair.refit import refitted, without_corrections
from calib8.table import CalibrationTable, Range, TableEntry
from calib8.tensors import TensorSpec
from small_models import Array, normal, onnx_model

RUNS = tuple({"x": normal(1, 3, 6, 6, seed=seed)} for seed in range(6))
NET = onnx_model(
    "float[N,3,6,6] x", "float[N,2,6,6] y", "a = Conv(x, w) r = Relu(a) y = Conv(r, v)",
    {"w": normal(4, 3, 1, 1), "v": normal(2, 4, 1, 1, seed=1)},
)  # fmt: skip


@pytest.mark.parametrize(
    ("method", "asked", "percent"),
    [
        ("mse", "mse", None),
        ("percentile 99.9", "percentile", 99.9),
        ("minmax power-of-two", "minmax", None),
        ("ema", "mse", None),
    ],
)
def test_the_method_is_the_one_the_tensor_had(method: str, asked: str, percent: float | None) -> None:
    made, data = candidate_of(NET, RUNS)
    entries = dict(made.table.entries)
    entries["r"] = replace(entries["r"], method=method)
    made = replace(made, table=CalibrationTable(made.table.model_hash, entries))
    model = tripled(made)
    found = refitted(made, model, {"a", "r"}, data)
    assert found.table.model_hash == model_hash(model) and found.model is model
    assert {name for name in entries if found.table.entries[name] != entries[name]} == {"r"}
    entry = found.table.entries["r"]
    wanted = choose_table(collect(model, ["r"], RUNS), made.scheme.activations, asked, percent).entries["r"]
    assert entry.observed == wanted.observed
    if method.endswith("power-of-two"):
        scale = entry.range.max / 255
        assert np.log2(scale) == pytest.approx(round(np.log2(scale))) and entry.range.max >= wanted.range.max
    else:
        assert entry.range == wanted.range
    stand_in = method if method != "ema" else "mse"
    assert entry.method == stand_in
    assert found.quantized().qparams["r"].scale > made.quantized().qparams["r"].scale * 2


def tripled(made: Candidate) -> ir.Model:
    """The model with weights of three times the size in front of r."""
    model = made.model.clone()
    first = next(iter(model.graph))
    first.replace_input_with(1, add_constant(model.graph, "w3", 3 * normal(4, 3, 1, 1)))
    return model


def dataset_of(runs: Iterable[dict[str, Array]]) -> Dataset:
    spec = TensorSpec("x", np.dtype(np.float32), ("N", 3, 6, 6))
    return open_dataset(list(runs), [spec], None)


EVERY = (*RUNS, *({"x": np.float32(1 + seed) * normal(1, 3, 6, 6, seed=seed)} for seed in range(6, 24)))


@pytest.mark.parametrize("method", ["mse", "entropy-tengine", "entropy-smooth"])
def test_ranges_come_from_all_samples_and_not_from_those_that_repair(method: str) -> None:
    made, data = candidate_of(NET, RUNS)
    entries = dict(made.table.entries)
    entries["r"] = replace(entries["r"], method=method)
    made, model = replace(made, table=CalibrationTable(made.table.model_hash, entries)), tripled(made)
    found = refitted(made, model, {"a", "r"}, replace(data, dataset=dataset_of(EVERY)))
    entry = found.table.entries["r"]
    anew = calibrate(ir.to_proto(model), list(EVERY), method=method).table.entries["r"]  # type: ignore[arg-type]
    assert (entry.range, entry.observed, entry.count) == (anew.range, anew.observed, anew.count)
    assert entry.method == method and entry.reason == "chosen anew behind a repair"
    assert entry.count == len(EVERY) * 4 * 36
    assert entry.range.max > 2 * refitted(made, model, {"r"}, data).table.entries["r"].range.max


def test_auto_scores_its_old_method_the_old_range_and_all_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    made, data = candidate_of(NET, RUNS)
    old = replace(made.table.entries["r"], method="auto: percentile 99.5")
    made = replace(made, table=CalibrationTable(made.table.model_hash, {**made.table.entries, "r": old}))
    seen: dict[str, list[TableEntry]] = {}

    def recorded(*arguments: object, **named: object) -> dict[str, dict[str, TableEntry]]:
        seen.update(arguments[1])  # type: ignore[call-overload]
        return choose_by_tensor(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(refit, "choose_by_tensor", recorded)
    model = tripled(made)
    entry = refitted(made, model, {"r"}, replace(data, dataset=dataset_of(EVERY))).table.entries["r"]
    first, kept, *others = seen["r"]
    statistics = collect(model, ["r"], EVERY)
    spec = made.scheme.activations
    assert first.range == choose_table(statistics, spec, "percentile", 99.5).entries["r"].range
    assert kept.range == old.range and kept.count == first.count and kept.clipped > 0.1
    assert [one.method for one in others] == [
        *(name for name in METHODS if name != BEHIND),
        "percentile 99.99",
    ]
    assert entry.method in {f"auto: {one.method.removeprefix('auto: ')}" for one in seen["r"]}
    assert entry.reason.startswith("chosen anew behind a repair: error behind 1 reader")
    ranges = {one.range for one in seen["r"]}
    best = min(ranges, key=lambda one: error_behind(model, one, data.runs))
    assert entry.range == best


@pytest.mark.parametrize("hope", [False, True])
def test_without_hope_nothing_is_scored(monkeypatch: pytest.MonkeyPatch, hope: bool) -> None:
    """Asked is about what there would be: the new model, with ranges by the method that auto had taken."""
    made, data = candidate_of(NET, RUNS)
    made = replace_methods(made, {"r": "auto: percentile 99.5"})
    asked, scored = list[Candidate](), list[object]()

    def recorded(*arguments: object, **named: object) -> dict[str, dict[str, TableEntry]]:
        scored.append(arguments[0])
        return choose_by_tensor(*arguments, **named)  # type: ignore[arg-type]

    def promises(candidate: Candidate) -> bool:
        asked.append(candidate)
        return hope

    monkeypatch.setattr(refit, "choose_by_tensor", recorded)
    model = tripled(made)
    found = refitted(made, model, {"r"}, replace(data, promises=promises))
    [one] = asked
    wanted = refitted(replace_methods(made, {"r": "percentile 99.5"}), model, {"r"}, data).table.entries["r"]
    assert one.model is model and one.table.entries["r"].range == wanted.range
    assert one.table.entries["r"].method == "auto: percentile 99.5"
    assert bool(scored) == hope
    assert hope or found.table.entries == one.table.entries


def test_without_scores_auto_is_stood_in_for_by_mse() -> None:
    made, data = candidate_of(NET, RUNS)
    entries = {
        "x": replace(made.table.entries["x"], method="minmax"),
        "r": replace(made.table.entries["r"], method="auto: percentile 99.5 power-of-two"),
    }
    made = replace(made, table=CalibrationTable(made.table.model_hash, {**made.table.entries, **entries}))
    model = tripled(made)
    found = refitted(made, model, {"x", "r"}, data, scored=False).table.entries
    wanted = refitted(replace_methods(made, {"r": "mse power-of-two"}), model, {"x", "r"}, data).table.entries
    assert found == wanted
    assert found["x"].method == "minmax" and found["r"].method == "mse power-of-two"


def replace_methods(made: Candidate, methods: Mapping[str, str]) -> Candidate:
    """The candidate, its ranges by other methods."""
    entries = {
        name: replace(entry, method=methods.get(name, entry.method))
        for name, entry in made.table.entries.items()
    }
    return replace(made, table=CalibrationTable(made.table.model_hash, entries))


def error_behind(model: ir.Model, chosen: Range, runs: Sequence[Arrays]) -> float:
    """Mean logarithm of the relative error of y with r in codes of a range, in plain NumPy."""
    weights = {node.outputs[0].name: constant(node.inputs[1]) for node in model.graph if len(node.inputs) > 1}
    scale = np.float32(chosen.max / 255)
    found = []
    for feeds in runs:
        r = np.maximum(np.einsum("oc,ncyx->noyx", weights["a"][:, :, 0, 0], feeds["x"]), 0.0)  # type: ignore[index]
        coded = np.clip(np.rint(r / scale), 0, 255) * scale
        y, z = (np.einsum("oc,ncyx->noyx", weights["y"][:, :, 0, 0], one) for one in (r, coded))  # type: ignore[index]
        found.append(np.log(np.sum((y - z) ** 2) / np.sum(y**2)))
    return float(np.mean(found))


def test_neither_their_order_nor_threads_nor_batches_make_a_difference() -> None:
    made, data = candidate_of(NET, RUNS)
    model = tripled(made)
    tables = [
        refitted(made, model, {"r"}, replace(data, dataset=dataset_of(runs), threads=threads)).table.to_json()
        for runs, threads in ((EVERY, 1), (EVERY[::-1], 2), ([batch_of(EVERY[:7]), *EVERY[7:]], 2))
    ]
    assert tables[0] == tables[1] == tables[2]


def batch_of(runs: Sequence[dict[str, Array]]) -> dict[str, Array]:
    return {"x": np.concatenate([feeds["x"] for feeds in runs])}


def test_samples_are_read_as_they_are_needed() -> None:
    made, data = candidate_of(NET, RUNS)
    read = ahead = 0

    def items() -> Iterator[dict[str, Array]]:
        nonlocal read
        for index in range(200):
            read += 1
            yield {"x": np.full((1, 3, 6, 6), np.float32(index))}

    def watch(stage: str, done: int, total: int | None) -> None:
        nonlocal ahead
        ahead = max(ahead, read - done)

    spec = TensorSpec("x", np.dtype(np.float32), ("N", 3, 6, 6))
    data = replace(data, dataset=open_dataset(items, [spec], None), progress=watch)
    found = refitted(made, tripled(made), {"r"}, data)
    assert found.table.entries["r"].count == 200 * 4 * 36 and read == 200
    assert 0 < ahead <= 16


def test_bad_images_that_were_passed_over_are_still_told_afterwards() -> None:
    made, data = candidate_of(NET, RUNS)
    dataset = dataset_of(EVERY)
    dataset.skipped.append(Skipped("bad.png", "is broken"))
    refitted(made, tripled(made), {"r"}, replace(data, dataset=dataset))
    assert dataset.skipped == [Skipped("bad.png", "is broken")]


@pytest.mark.parametrize(
    "method", ["percentile many", "percentile 12", "mse 5", "auto: minmax 3 power-of-two"]
)
def test_a_method_that_cannot_be_is_told(method: str) -> None:
    made, data = candidate_of(NET, RUNS)
    entries = {**made.table.entries, "r": replace(made.table.entries["r"], method=method)}
    made = replace(made, table=CalibrationTable(made.table.model_hash, entries))
    with pytest.raises(TableError, match=f"tensor 'r': its range is by '{method}'"):
        refitted(made, tripled(made), {"r"}, data)


@pytest.mark.parametrize("method", ["somebody's own", "tensorrt", "entropy-tengine 5"])
def test_methods_that_are_not_known_are_stood_in_for(method: str) -> None:
    made, data = candidate_of(NET, RUNS)
    entries = {**made.table.entries, "r": replace(made.table.entries["r"], method=method)}
    made = replace(made, table=CalibrationTable(made.table.model_hash, entries))
    assert refitted(made, tripled(made), {"r"}, data).table.entries["r"].method == "mse"


def test_corrections_of_changed_layers_are_dropped() -> None:
    made, _ = candidate_of(NET, RUNS)
    corrected = replace(made, corrections={"a": LayerCorrection(), "b": LayerCorrection()})
    kept, notes = without_corrections(corrected, ["b", "c"])
    assert set(kept.corrections) == {"a"} and notes[0].endswith("changed: 1")
    assert without_corrections(kept, ["c"]) == (kept, ())
