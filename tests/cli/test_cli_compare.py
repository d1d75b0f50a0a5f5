"""``calib8 compare``: its table, its JSON document, and what it refuses."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from json_output import load
from onnx import numpy_helper
from tiny_models import FLAGS, cnn, save

from calib8.analysis.compare import compare


def finite(value: float | None) -> float | None:
    """As JSON has it: the pixels of these images are codes already, and lose nothing."""
    return None if value is None or math.isinf(value) else value


def table(text: str) -> list[str]:
    """Lines of the table, without the header."""
    return text.strip("\n").split("\n\n")[0].splitlines()[1:]


def test_the_table_shows_the_worst_layers_first(cli, model: Path, int8: Path, images: Path) -> None:
    result = cli("compare", model, int8, "--data", images)
    assert result.exit_code == 0, result.output
    found = compare(model, int8, images)
    lines = table(result.stdout)
    assert len(lines) == len(found.tensors)
    for line, tensor in zip(lines, found.tensors, strict=True):
        assert line.startswith(tensor.node or f"input '{tensor.tensor}'")
        for value in (tensor.local.sqnr_db, tensor.cumulative.sqnr_db):
            assert f" {value:.2f} ".replace("inf", "∞") in line
        assert f" {tensor.local.cosine:.5f} " in line and f" {tensor.cumulative.cosine:.5f} " in line
    summary = result.stdout.splitlines()
    assert f"{len(lines)} of {len(lines)} tensors shown, worst local SQNR first" in summary
    outputs = f"outputs: SQNR {found.outputs.sqnr_db:.2f} dB, cosine {found.outputs.cosine:.5f}"
    assert f"{outputs}, agreement {100 * found.agreement:.2f} % on 6 samples" in summary


def test_the_document_holds_everything(cli, model: Path, int8: Path, images: Path, out: Path) -> None:
    result = cli("compare", model, int8, "--data", images, "--top", 1, "--json", out / "c.json")
    assert result.exit_code == 0, result.output
    assert len(table(result.stdout)) == 1
    document, found = load(out / "c.json"), compare(model, int8, images)
    assert (document["fp32"], document["int8"], document["images"]) == (str(model), str(int8), 6)
    assert document["outputs"] == {
        "sqnr_db": found.outputs.sqnr_db, "cosine": found.outputs.cosine, "agreement": found.agreement,
    }  # fmt: skip
    assert [entry["tensor"] for entry in document["tensors"]] == [tensor.tensor for tensor in found.tensors]
    for entry, tensor in zip(document["tensors"], found.tensors, strict=True):
        assert (entry["node"], entry["op_type"]) == (tensor.node, tensor.op_type)
        assert entry["local"] == {"sqnr_db": finite(tensor.local.sqnr_db), "cosine": tensor.local.cosine}
        assert entry["cumulative"] == {
            "sqnr_db": finite(tensor.cumulative.sqnr_db),
            "cosine": tensor.cumulative.cosine,
        }
        assert entry["observed"] == list(tensor.observed) and entry["values"] == tensor.values
        assert entry["scale"] == (None if tensor.scale is None else list(tensor.scale))
        assert entry["weight_sqnr_db"] == tensor.weight_sqnr_db and entry["saturated"] == tensor.saturated


def test_options_of_the_order(cli, model: Path, int8: Path, images: Path, out: Path) -> None:
    for sort in ("local", "cumulative"):
        target = out / f"{sort}.json"
        result = cli("compare", model, int8, "--data", images, "--sort", sort, "--json", target, "--quiet")
        assert (result.exit_code, result.output) == (0, "")
        figures = [entry[sort]["sqnr_db"] for entry in load(target)["tensors"]]
        assert figures[-1] is None and figures[:-1] == sorted(figures[:-1])
    orders = [
        [entry["tensor"] for entry in load(out / f"{sort}.json")["tensors"]]
        for sort in ("local", "cumulative")
    ]
    assert orders[0] != orders[1]


def test_samples_and_preprocessing_reach_the_comparison(
    cli, model: Path, int8: Path, images: Path, out: Path
) -> None:
    data = ("compare", model, int8, "--data", images)
    assert cli(*data, "--samples", 2, "--batch", 2, "--threads", 1, "--json", out / "two.json").exit_code == 0
    assert load(out / "two.json")["images"] == 2
    assert cli(*data, "--json", out / "stored.json").exit_code == 0
    assert cli(*data, *FLAGS, "--json", out / "given.json").exit_code == 0
    assert cli(*data, "--mean", 0, "--json", out / "other.json").exit_code == 0
    stored, given, other = (load(out / f"{name}.json") for name in ("stored", "given", "other"))
    assert stored == given != other
    (images / "a" / "bad.png").write_bytes(b"no image")
    result = cli(*data, "--skip-bad", "--json", out / "skipped.json")
    assert "warning: 1 bad image skipped" in result.stdout
    assert load(out / "skipped.json")["images"] == 6


def test_infinite_figures_are_null(cli, model: Path, int8: Path, tmp_path: Path, out: Path) -> None:
    data = tmp_path / "zeros.npz"
    np.savez(data, image=np.zeros((2, 3, 16, 16), np.float32))
    result = cli("compare", model, int8, "--data", data, "--json", out / "c.json")
    assert result.exit_code == 0, result.output
    line = next(line for line in table(result.stdout) if line.startswith("input 'image'"))
    assert line.split()[3:7] == ["∞", "∞", "–", "–"]
    [entry] = [entry for entry in load(out / "c.json")["tensors"] if entry["tensor"] == "image"]
    assert entry["local"] == entry["cumulative"] == {"sqnr_db": None, "cosine": None}


def test_what_is_not_compared_is_told(cli, model: Path, int8: Path, images: Path, out: Path) -> None:
    proto = onnx.load(int8)
    for node in proto.graph.node:
        node.input[:] = ["other" if name == "features" else name for name in node.input]
        node.output[:] = ["other" if name == "features" else name for name in node.output]
    onnx.save(proto, int8)
    result = cli("compare", model, int8, "--data", images, "--json", out / "c.json")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    index = lines.index("warning: 1 quantized tensor not compared, their loss counts as that of the next")
    assert lines[index + 1] == "  other: the float model has no tensor of this name"
    assert load(out / "c.json")["left_out"] == [
        {"tensor": "other", "reason": "the float model has no tensor of this name"}
    ]


def test_a_planted_fault_comes_out_on_top(cli, model: Path, int8: Path, images: Path) -> None:
    proto = onnx.load(int8)
    scales = next(tensor for tensor in proto.graph.initializer if tensor.name == "w2/codes/scale")
    values = numpy_helper.to_array(scales).copy()
    values[np.argmax(values)] *= 8
    scales.CopyFrom(numpy_helper.from_array(values, scales.name))
    onnx.save(proto, int8)
    result = cli("compare", model, int8, "--data", images, "--top", 1)
    assert table(result.stdout)[0].startswith("conv2 ")


@pytest.mark.usefixtures("nothing_left")
def test_refusals(cli, refused, model: Path, int8: Path, images: Path, tmp_path: Path, out: Path) -> None:
    data = ("--data", images, *FLAGS, "--json", out / "c.json")
    refused(cli("compare", int8, model, *data), 2, "wrong way round", "Give the float model first.")
    refused(cli("compare", model, model, *data), 2, "is a float model", "Give the quantized model second.")
    refused(cli("compare", int8, int8, *data), 2, "is quantized", "Give the float model first.")
    refused(
        cli("compare", model, int8, *data, "--sort", "size"),
        2,
        "--sort size: unknown order",
        "one of local, ",
    )
    refused(cli("compare", model, int8, *data, "--top", 0), 2, "--top 0: must be at least 1")
    refused(cli("compare", model, tmp_path / "none.onnx", *data), 1, "none.onnx: no such file")
    refused(cli("compare", model, int8, "--data", tmp_path / "none"), 1, "none: does not exist")
    refused(cli("compare", model, int8, "--data", images, "--json", int8), 2, "--json", "an input")
    other = save(cnn(classes=7), tmp_path / "other.onnx")
    refused(cli("compare", other, int8, *data), 1, "its output 'scores' has shape", "instead of [1, 7]")
    (images / "a" / "0.png").write_bytes(b"no image")
    refused(cli("compare", model, int8, *data), 1, "a/0.png")


@pytest.mark.usefixtures("nothing_left")
def test_nan_is_named(cli, refused, model: Path, int8: Path, tmp_path: Path, out: Path) -> None:
    values = np.zeros((3, 3, 16, 16), np.float32)
    values[2, 0, 0, 0] = math.nan
    np.savez(tmp_path / "nan.npz", image=values)
    result = cli("compare", model, int8, "--data", tmp_path / "nan.npz", "--json", out / "c.json")
    refused(result, 1, "nan.npz[2]: the float model has NaN", "'image'", "Check the preprocessing")
