"""Every command takes data as users have them: the table of docs/data.md, each object with each command.

An object that works gives the same as an array of its samples; one that is refused is so in one line, with
the cure that the table states.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import astuple, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import calib8
from calib8.errors import Calib8Error
from objects_as_data import ARRAYS, COUNT, LABELS, PICTURES, PIXELS, RECIPE, REFUSED, VALUES, write_files
from small_models import normal, onnx_model

PAGE = Path(__file__).parents[1] / "docs" / "data.md"
OBJECTS = {**ARRAYS, **PICTURES, **REFUSED}
WORKS, LABELLED, REFUSAL = "works", "works, labels count", "refused: "


class Models(NamedTuple):
    """Files of a float model and of its INT8 form, and the folder of ``write_files``."""

    fp32: Path
    int8: Path
    folder: Path


def network() -> onnx.ModelProto:
    body = "c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c) p = GlobalAveragePool(r) f = Flatten(p) y = Gemm(f, v)"
    weights = {"w": normal(8, 3, 3, 3, seed=1), "v": normal(8, 4, seed=2)}
    return onnx_model("float[N,3,6,6] x", "float[N,4] y", body, weights)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder = tmp_path_factory.mktemp("models")
    found = Models(folder / "net.onnx", folder / "net.int8.onnx", folder)
    onnx.save(network(), found.fp32)
    calib8.quantize(found.fp32, VALUES, effort="fast").save(found.int8)
    write_files(folder)
    return found


def collected(models: Models, data: Any, **options: Any) -> Any:
    found = calib8.collect_statistics(models.fp32, data, **options).statistics.tensors
    return found_statistics(found)


def found_statistics(tensors: Any) -> Any:
    return {
        name: [part.tolist() if isinstance(part, np.ndarray) else part for part in astuple(one)]
        for name, one in tensors.items()
    }


def calibrated(models: Models, data: Any, **options: Any) -> Any:
    table = calib8.calibrate(models.fp32, data, method="minmax", **options).table
    return {tensor: entry.range for tensor, entry in table.entries.items()}


def quantized(models: Models, data: Any, **options: Any) -> Any:
    made = calib8.quantize(models.fp32, data, effort="fast", **options)
    graph = ir.to_proto(made.model).graph
    return [one.SerializeToString() for one in (*graph.initializer, *graph.node)]


def evaluated(models: Models, data: Any, **options: Any) -> Any:
    found = calib8.evaluate([models.fp32, models.int8], data, **options)
    return [(one.images, one.agreement, one.sqnr_db, one.top1, one.top5) for one in found]


def looked_at(models: Models, data: Any, **options: Any) -> Any:
    found = calib8.preflight(models.fp32, data, **options)
    sums = [(one.input, one.rows, one.minimum, one.maximum, one.not_finite) for one in found.inputs]
    return sums, None if found.evaluation is None else found.evaluation.top1


def compared(models: Models, data: Any, **options: Any) -> Any:
    found = calib8.compare(models.fp32, models.int8, data, **options)
    return found.images, {row.tensor: (row.observed, row.saturated) for row in found.tensors}


def diagnosed(models: Models, data: Any, **options: Any) -> Any:
    found = calib8.diagnose(models.fp32, models.int8, data, **options)
    causes = [(one.node, one.reason.cause) for one in found.diagnosis.findings]
    return found.diagnosis.comparison.images, found.tried, round(found.diagnosis.sqnr_db, 6), causes


COMMANDS: dict[str, Callable[..., Any]] = {
    "collect_statistics": collected,
    "calibrate": calibrated,
    "quantize": quantized,
    "evaluate": evaluated,
    "preflight": looked_at,
    "compare": compared,
    "diagnose": diagnosed,
}


@cache
def page_table() -> dict[str, dict[str, str]]:
    """Object → command → what docs/data.md says of them."""
    text = PAGE.read_text(encoding="utf-8").split("### Each object with each command\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").replace("`", "").split(" | ")] for line in lines]
    groups = [re.findall(r"\w+", cell) for cell in cells[0][1:]]
    return {
        row[0]: {command: cell for group, cell in zip(groups, row[1:], strict=True) for command in group}
        for row in cells[2:]
    }


def test_the_page_lists_these_objects_and_commands() -> None:
    table = page_table()
    assert set(table) == set(OBJECTS) and len(ARRAYS) + len(PICTURES) >= 25
    for name, row in table.items():
        assert set(row) == {*COMMANDS, "tune"}
        said = set(row.values())
        assert said <= {WORKS, LABELLED} if name not in REFUSED else any(REFUSAL in cell for cell in said)


@pytest.fixture(scope="module")
def wanted(models: Models) -> Callable[[str, bool, bool], Any]:
    """What a command gives for an array, by (command, of pixels, with labels)."""

    @cache
    def found(command: str, pixels: bool, labelled: bool) -> Any:
        data: dict[str, Any] = {"images": PIXELS} if pixels else {"x": VALUES}
        given = {**data, "labels": LABELS} if labelled else data
        return COMMANDS[command](models, given, **({"preprocess": RECIPE} if pixels else {}))

    return found


QUICK_DIAGNOSES = ("generator of arrays", "CalibrationDataReader", "DataLoader that shuffles", *REFUSED)
"""Objects whose diagnosis is no slow test: those that diagnose reads in a way of its own, and quick ones."""

CELLS = [
    pytest.param(name, command, id=f"{name}-{command}", marks=[pytest.mark.slow] if slow else [])
    for name in OBJECTS
    for command in COMMANDS
    for slow in [command == "diagnose" and name not in QUICK_DIAGNOSES]
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "command"), CELLS)
def test_as_the_table_says(name: str, command: str, models: Models, wanted: Callable[..., Any]) -> None:
    said, pixels = page_table()[name][command], name in PICTURES
    needs_recipe = pixels or "path" in name or "pattern" in name
    options: dict[str, Any] = {"preprocess": RECIPE} if needs_recipe else {}
    data = OBJECTS[name](models.folder)
    if said.startswith(REFUSAL):
        with pytest.raises(Calib8Error) as caught:
            COMMANDS[command](models, data, **options)
        assert said.removeprefix(REFUSAL) in str(caught.value) and "\n" not in str(caught.value)
        return
    found = COMMANDS[command](models, data, **options)
    if name in REFUSED:  # by other commands
        assert found == wanted(command, False, False)
        return
    assert found == wanted(command, pixels, said == LABELLED)
    if said == LABELLED and command == "evaluate":
        assert found[0][3] is not None


MANY = np.random.default_rng(7).standard_normal((40, 3, 6, 6)).astype(np.float32)
CLASSES = np.arange(40) % 4
TUNED: dict[str, Callable[[], Any]] = {
    "array": lambda: MANY,
    "generator of arrays": lambda: (row for row in MANY),
    "DataLoader of (x, y)": lambda: DataLoader(
        TensorDataset(torch.from_numpy(MANY), torch.from_numpy(CLASSES)), batch_size=16
    ),
    "(array, integers)": lambda: (MANY, CLASSES),
}


@pytest.mark.parametrize("name", TUNED)
def test_tune(name: str, models: Models, tmp_path: Path) -> None:
    tuned = calib8.tune(models.fp32, TUNED[name](), tmp_path / "tuned.onnx", min_agreement=50, effort="fast")
    assert tuned.kept and tuned.calibrated + tuned.judged == len(MANY)
    assert (tuned.float_top1 is not None) == (page_table()[name]["tune"] == LABELLED)


@pytest.mark.parametrize("name", [name for name in REFUSED if "beyond" not in name])
def test_tune_refuses(name: str, models: Models, tmp_path: Path) -> None:
    options: dict[str, Any] = {"preprocess": RECIPE} if "path" in name or "pattern" in name else {}
    with pytest.raises(Calib8Error) as caught:
        data = REFUSED[name](models.folder)
        calib8.tune(models.fp32, data, tmp_path / "t.onnx", min_sqnr=5, effort="fast", **options)
    assert page_table()[name]["tune"].removeprefix(REFUSAL) in str(caught.value)
    assert not (tmp_path / "t.onnx").exists()


def test_tune_refuses_labels_beyond_the_classes(models: Models, tmp_path: Path) -> None:
    said = page_table()["list of (array, label beyond the classes)"]["tune"]
    with pytest.raises(Calib8Error) as caught:
        calib8.tune(models.fp32, [(row, 99) for row in MANY], tmp_path / "t.onnx", min_agreement=50)
    assert said.removeprefix(REFUSAL) in str(caught.value) and said.startswith(REFUSAL)


def test_what_quantize_says_of_itself(models: Models) -> None:
    made = calib8.quantize(models.fp32, (row for row in MANY))
    assert made.verdict is not None and repr(made).startswith("<Quantization: ") and len(repr(made)) < 400
    assert made.verdict.text.split(":")[0] in repr(made) and "\x0e" not in repr(made)
    assert "; 2 tensors of 16 bits" in repr(replace(made, spots=frozenset("ab")))


def test_what_calibration_says_of_itself(models: Models) -> None:
    counted = calib8.collect_statistics(models.fp32, VALUES)
    assert repr(counted) == f"<Collection: {len(counted.statistics.tensors)} tensors, {COUNT} samples>"
    found = calib8.calibrate(models.fp32, VALUES, method="minmax")
    assert repr(found) == f"<Calibration: {len(found.table.entries)} ranges by minmax from {COUNT} samples>"
