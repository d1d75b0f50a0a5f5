"""``calib8.write_report``: from what functions return to a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.analysis.cpu_limits import processor_here
from calib8.errors import Calib8Error, OutputError, UsageError
from calib8.remedies import diagnose
from calib8.run_report.environment import environment
from calib8.run_report.of_tune import pareto_front, weight_bytes, weight_counts
from calib8.run_report.side_by_side import sqnr_of_samples
from calib8.run_report.stage_times import StageTimes
from calib8.tasks.branches import Branch, Meaning, Piece
from small_nets import classifier, conv_chain


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, np.ndarray]:
    """A float model, its int8 form, data."""
    folder, proto = tmp_path_factory.mktemp("models"), classifier()
    sizes = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim[1:]]
    data = np.random.default_rng(0).normal(size=(40, *sizes)).astype(np.float32)
    onnx.save(proto, folder / "fp32.onnx")
    calib8.quantize(folder / "fp32.onnx", data, effort="fast").save(folder / "int8.onnx")
    return folder / "fp32.onnx", folder / "int8.onnx", data


def sections(page: Path) -> list[str]:
    return re.findall(r'<section id="(\w+)"', page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def results(files: tuple[Path, Path, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    fp32, int8, data = files
    tuned = tmp_path_factory.mktemp("tuned") / "tuned.onnx"
    return {
        "compare": calib8.compare(fp32, int8, data),
        "evaluate": calib8.evaluate([fp32, int8], data),
        "diagnose": diagnose(fp32, int8, data),
        "tune": calib8.tune(fp32, data, tuned, min_sqnr=10, effort="fast"),
    }


INSIDE = {"layers", "network", "tensors"}


def test_a_quantization_knows_its_data(files: tuple[Path, Path, np.ndarray], tmp_path: Path) -> None:
    made = calib8.quantize(files[0], files[2], effort="fast")
    calib8.write_report(made, tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert {"verdict", "work", "samples", "surroundings"} | INSIDE == set(sections(tmp_path / "run.html"))
    assert "32 samples held back" in text and "data-local" in text
    assert made.verdict is not None
    assert f"verdict {made.verdict.state}" in text


def test_results_of_other_functions_take_data(
    results: dict[str, Any], files: tuple[Path, Path, np.ndarray], tmp_path: Path
) -> None:
    fp32, _, data = files
    for name, result in results.items():
        page = tmp_path / f"{name}.html"
        calib8.write_report(result, page, data=data, fp32=fp32)
        assert {"verdict", "samples"} | INSIDE <= set(sections(page)), name
        assert "<title>" in page.read_text() and f"calib8 {name}" in page.read_text()
        calib8.write_report(result, page)
        assert "samples" not in sections(page) and "layers" in sections(page), name


def test_models_that_are_gone_leave_their_parts_out(
    files: tuple[Path, Path, np.ndarray], tmp_path: Path
) -> None:
    found = calib8.evaluate([str(files[0])], files[2])
    calib8.write_report([replace(found[0], model="gone.onnx")], tmp_path / "run.html", data=files[2])
    assert sections(tmp_path / "run.html") == ["verdict", "models", "surroundings"]


def used_up(data: np.ndarray) -> Iterator[np.ndarray]:
    rows = iter(data)
    assert len(list(rows)) == len(data)
    return rows


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (used_up, "gave no samples"),
        (lambda data: iter(()), "gave no samples"),
        (lambda data: data[:, :1], "has float32 1×1×"),
        (lambda data: data[:, 0], "has float32 1×"),
        (lambda data: [*data[:3], data[0, :1]], "sample 3: has float32 1×8×8"),
        (lambda data: {"y": data}, "but no 'x'"),
    ],
)
@pytest.mark.parametrize("command", ["compare", "evaluate", "diagnose", "tune"])
def test_data_that_cannot_be_used_are_refused(
    command: str, make: Any, problem: str, results: dict[str, Any], files: Any, tmp_path: Path
) -> None:
    fp32, _, data = files
    with pytest.raises(Calib8Error, match=problem):
        calib8.write_report(results[command], tmp_path / "run.html", data=make(data), fp32=fp32)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("result", [None, [], "model.onnx", [1]])
def test_other_values_are_refused(result: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="of which no report is known"):
        calib8.write_report(result, tmp_path / "run.html")
    assert list(tmp_path.iterdir()) == []


def test_paths_are_checked_first(tmp_path: Path) -> None:
    paths = {tmp_path / "run.pdf": "not the name of a page", tmp_path: "is a folder", 3: "not a path"}
    for path, problem in paths.items():
        with pytest.raises((UsageError, OutputError), match=problem):
            calib8.write_report(None, path)  # type: ignore[arg-type]


def test_equal_results_give_equal_pages(files: tuple[Path, Path, np.ndarray], tmp_path: Path) -> None:
    found = calib8.compare(files[0], files[1], files[2])
    for name in "ab":
        calib8.write_report(found, tmp_path / f"{name}.html", data=files[2])
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_the_front_is_what_none_beats() -> None:
    points = [(0.0, 5.0), (1.0, 7.0), (1.0, 6.0), (2.0, 7.0), (3.0, 9.0), (3.0, 9.0), (4.0, 1.0)]
    assert pareto_front(points) == {0, 1, 4, 5}
    assert pareto_front([]) == frozenset()


def test_times_of_stages_are_added() -> None:
    now = iter([0.0, 2.0, 5.0, 6.0, 9.0])
    seen: list[tuple[str, int, int | None]] = []
    times = StageTimes(lambda: next(now))
    watched = times.watching(lambda *step: seen.append(step))
    for step in (("a", 0, 2), ("a", 1, 2), ("b", 0, None), ("a", 0, 1)):
        watched(*step)
    assert seen == [("a", 0, 2), ("a", 1, 2), ("b", 0, None), ("a", 0, 1)]
    assert times.told() == (("opening", 2.0), ("a", 6.0), ("b", 1.0))


def test_the_environment_is_told() -> None:
    told = {figure.label: figure.value for figure in environment(2)}
    assert told["onnxruntime"].count(".") >= 1 and told["threads"].startswith("2 of ")
    assert told["processor"] == processor_here().name


@pytest.mark.slow
def test_what_cannot_be_run_once_more_is_told(files: tuple[Path, Path, np.ndarray], tmp_path: Path) -> None:
    fp32, int8, data = files
    found = calib8.compare(fp32, int8, data)
    other = onnx.load(int8)
    del other.graph.node[-1]
    other.graph.output[0].name = other.graph.node[-1].output[0]
    onnx.save(other, tmp_path / "other.onnx")
    page = tmp_path / "run.html"
    calib8.write_report(replace(found, int8=str(tmp_path / "other.onnx")), page, data=data)
    assert "layers" in sections(page)
    judged = calib8.evaluate([fp32, int8], data)
    calib8.write_report(judged, page, data=data, task="segment")
    text = page.read_text(encoding="utf-8")
    assert judged[1].verdict is not None
    assert "samples" not in sections(page) and f"verdict {judged[1].verdict.state}" in text
    assert "The layers could not be compared: task=&#x27;segment&#x27;" in text


def test_weights_of_a_candidate_are_counted() -> None:
    counts = {"a": (100, False), "b": (10, True), "c": (1, True)}
    assert weight_bytes(counts, ("b",), ("b",)) == 100 + 40 + 4
    assert weight_bytes(counts, ("b",), ()) == 100 + 10 + 4  # c is in float whatever is chosen
    assert weight_bytes(counts, ("b",), ("a",)) == 400 + 10 + 4
    proto = classifier()
    size_ = [8, *(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim[1:])]
    data = np.random.default_rng(0).normal(size=size_).astype(np.float32)
    names = [node.name for node in proto.graph.node if node.op_type in ("Conv", "Gemm")]
    made = calib8.quantize(proto, data, repair=("none",), keep_float=names[:1])
    found = weight_counts(made.model)
    arrays = {one.name: onnx.numpy_helper.to_array(one).size for one in proto.graph.initializer}
    wanted = {node.name: arrays[node.input[1]] for node in proto.graph.node if node.name in names}
    assert found == {name: (count, name == names[0]) for name, count in wanted.items()}


def test_quiet_samples_are_no_bad_ones() -> None:
    parts = (
        Branch("a", "other", (Piece("a", 0),), "sure", ""),
        Branch("b", "other", (Piece("b", 1),), "sure", ""),
    )
    loud, quiet = np.full((1, 4), 10.0), np.full((1, 4), 1e-3)
    expected = [[loud, loud], [quiet, loud], [quiet, quiet], [loud, loud]]
    noise = [[0.1, 1.0], [5.0, 0.1], [9.0, 9.0], [np.nan, 0.0]]
    found = [
        [one + n for one, n in zip(pair, ns, strict=True)] for pair, ns in zip(expected, noise, strict=True)
    ]
    assert sqnr_of_samples(expected, found, Meaning(parts)) == pytest.approx([20.0, 40.0, 120.0, -np.inf])
    assert sqnr_of_samples([], [], Meaning(())) == []


@pytest.mark.slow
def test_normalizations_that_a_repair_estimated_are_compared_as_it_made_them(tmp_path: Path) -> None:
    proto = conv_chain()
    data = np.random.default_rng(0).normal(2, 3, size=(40, 4, 8, 8)).astype(np.float32)
    made = calib8.quantize(proto, data, repair=("bn",))
    assert made.repaired is not None and made.repaired.estimated is not None
    calib8.write_report(made, tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "Compared with the float model on 19 of the 20 samples held back" in text
    figures = [float(one) for one in re.findall(r'data-cumulative="([\d.]+)"', text)]
    assert len(figures) == 4 and min(figures) > 30.0  # beside the own ones of the model 3.1 at most


@pytest.mark.slow
def test_the_page_of_a_real_network_is_small(shared_data: Path, tmp_path: Path) -> None:
    made = calib8.quantize(
        shared_data / "models/mobilenet_v2_torchvision.onnx", shared_data / "imagenet/calib",
        preprocess="torchvision", samples=8, method="mse", repair=("none",),
    )  # fmt: skip
    page = tmp_path / "run.html"
    calib8.write_report(made, page)
    text = page.read_text(encoding="utf-8")
    assert text.count('id="tensor-data-') >= 60 and text.count("data:image/jpeg") == 8
    assert page.stat().st_size < 600_000
