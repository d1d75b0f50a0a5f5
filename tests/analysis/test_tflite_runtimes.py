"""TFLite models in every runtime that takes them, beside ONNX models of the same network."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import calib8
from calib8 import ModelError, Preprocess, UnsupportedModelError, UsageError
from calib8.analysis.litert import LITERT
from calib8.analysis.real_session import to_codes, to_real
from calib8.analysis.runtimes import OWN, RUNTIMES, is_float_model, open_in_runtime
from calib8.qparams import QParams
from calib8.tflite.metadata import PREPROCESS
from calib8.tflite.write import write_tflite
from tflite_nets import (
    INPUT_SCALE,
    OUTPUT_SCALE,
    float_classifier,
    hybrid_classifier,
    onnx_classifier,
    quantized_classifier,
    weights,
)

PIXELS = Preprocess(mean=(128.0,), scale=(1 / 128,))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tflite")
    graphs = {
        "float": float_classifier(),
        "int8": quantized_classifier("int8", {PREPROCESS: PIXELS.to_json().encode()}),
        "uint8": quantized_classifier("uint8"),
        "hybrid": hybrid_classifier(),
    }
    for name, graph in graphs.items():
        write_tflite(graph, folder / f"{name}.tflite")
    onnx.save(onnx_classifier(), folder / "net.onnx")
    paths = {name: folder / f"{name}.tflite" for name in graphs}
    return {**paths, "onnx": folder / "net.onnx"}


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    """Images whose labels are the float network's classes."""
    images = np.random.default_rng(5).integers(0, 256, (40, 8, 8, 3), np.uint8)
    scores = np.einsum("nhwc,ohwc->no", (images / 128.0) - 1, weights())
    return {"images": images, "labels": scores.argmax(1)}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["int8", "uint8"])
@pytest.mark.parametrize("runtime", [*OWN, *LITERT])
def test_real_numbers_go_in_and_out(models: dict[str, Path], runtime: str, name: str) -> None:
    session = open_in_runtime(models[name], runtime, 1)
    assert session.runtime.partition("/")[0] == runtime
    assert [str(spec) for spec in session.inputs] == ["image: float32 1×8×8×3"]
    assert [str(spec) for spec in session.outputs] == ["scores: float32 1×10"]
    image = np.random.default_rng(1).uniform(-1, 1, (1, 8, 8, 3)).astype(np.float32)
    steps = np.rint(image / INPUT_SCALE) * INPUT_SCALE
    expected = np.einsum("nhwc,ohwc->no", steps, weights()).clip(-128 * OUTPUT_SCALE, 127 * OUTPUT_SCALE)
    for [scores] in (session.run({"image": image}), session.run({"image": image}, ["scores"])):
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, expected, atol=0.6 * OUTPUT_SCALE)


def test_the_runtimes_of_calib8_give_the_bits_of_the_reference_kernels(models: dict[str, Path]) -> None:
    image = np.random.default_rng(2).uniform(-1.5, 1.5, (1, 8, 8, 3)).astype(np.float32)
    expected = open_in_runtime(models["int8"], "litert-reference").run({"image": image})
    for runtime in OWN:
        got = open_in_runtime(models["int8"], runtime).run({"image": image})
        np.testing.assert_array_equal(got, expected)


def test_codes_are_rounded_away_from_zero_at_ties() -> None:
    meaning, dtype = QParams(0.5, 3), np.dtype(np.int8)
    values = np.array([0.25, -0.25, 0.24, -0.75, 1e9, -np.inf, np.nan], np.float32)
    codes = to_codes(values, meaning, dtype)
    assert codes.tolist() == [4, 2, 3, 1, 127, -128, -128]
    assert to_real(codes, meaning).tolist() == [0.5, -0.5, 0.0, -1.0, 62.0, -65.5, -65.5]


@pytest.mark.slow
def test_one_list_of_onnx_and_tflite_models(models: dict[str, Path], data: dict[str, np.ndarray]) -> None:
    for runtime in ("calib8", "reference", "litert", "litert-reference"):
        paths = [models["onnx"], models["int8"], models["uint8"]]
        found = calib8.evaluate(paths, data, runtime=runtime)
        assert [row.runtime.partition("/")[0] for row in found] == ["onnxruntime", runtime, runtime]
        assert found[0].agreement is None
        for row in found:
            assert row.top1 is not None and row.top1 >= 0.95
            assert row.images == 40
        for row in found[1:]:
            assert row.agreement is not None and row.agreement >= 0.95
            assert row.sqnr_db is not None and row.sqnr_db > 35
    assert found[1].sqnr_db == pytest.approx(found[2].sqnr_db, abs=0.2), "the same codes, shifted by 128"


def test_a_tflite_model_may_come_first(models: dict[str, Path], data: dict[str, np.ndarray]) -> None:
    found = calib8.evaluate([models["int8"], models["onnx"]], data, runtime="calib8")
    assert [row.runtime for row in found] == ["calib8/tflite", "onnxruntime"]
    assert found[0].agreement is not None and found[0].agreement >= 0.95 and found[1].agreement is None


def test_a_float_tflite_model_is_the_reference_in_litert(
    models: dict[str, Path], data: dict[str, np.ndarray]
) -> None:
    found = calib8.evaluate([models["int8"], models["float"], models["hybrid"]], data, runtime="litert")
    assert [row.agreement is None for row in found] == [False, True, False]
    assert found[0].sqnr_db is not None and found[0].sqnr_db > 35
    assert is_float_model(models["float"]) and not is_float_model(models["hybrid"])


def test_a_float_tflite_model_runs_in_onnx_runtime(
    models: dict[str, Path], data: dict[str, np.ndarray]
) -> None:
    found = calib8.evaluate([models["float"], models["int8"]], data, runtime="calib8")
    assert [row.runtime for row in found] == ["onnxruntime", "calib8/tflite"]
    assert found[1].sqnr_db is not None and found[1].sqnr_db > 35


def test_labels_without_the_background_class_are_noticed(
    models: dict[str, Path], data: dict[str, np.ndarray]
) -> None:
    for shift, side, offset in ((-1, "higher", 1), (1, "lower", -1)):
        kept = (data["labels"] + shift >= 0) & (data["labels"] + shift < 10)
        shifted = {"images": data["images"][kept], "labels": data["labels"][kept] + shift}
        [row] = calib8.evaluate([models["int8"]], shifted, runtime="calib8")
        assert row.top1 is not None and row.top1 < 0.1
        [warning] = row.warnings
        assert f"one {side} than the label" in warning and f"label_offset={offset}" in warning
        [mended] = calib8.evaluate([models["int8"]], shifted, runtime="calib8", label_offset=offset)
        assert mended.top1 is not None and mended.top1 >= 0.95 and mended.warnings == ()


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_quantized_tflite_models_have_their_runtimes(models: dict[str, Path], runtime: str) -> None:
    with pytest.raises(
        UsageError, match=rf"runtime='{runtime}': .*int8\.tflite is a .*TFLite.*calib8.*litert"
    ):
        open_in_runtime(models["int8"], runtime)
    with pytest.raises(UsageError, match=rf"runtime='{runtime}': .*hybrid\.tflite is a .*TFLite.*litert"):
        open_in_runtime(models["hybrid"], runtime)


@pytest.mark.parametrize("runtime", OWN)
def test_no_program_without_codes(models: dict[str, Path], runtime: str) -> None:
    with pytest.raises(UnsupportedModelError, match=r"float\.tflite: is a float model"):
        open_in_runtime(models["float"], runtime)
    with pytest.raises(UnsupportedModelError, match=r"hybrid\.tflite: is a hybrid"):
        open_in_runtime(models["hybrid"], runtime)
    with pytest.raises(UsageError, match=r"threads=1000: is more than"):
        open_in_runtime(models["int8"], runtime, 1000)


@pytest.mark.parametrize("runtime", LITERT)
def test_litert_takes_tflite_models_only(models: dict[str, Path], runtime: str) -> None:
    assert runtime in RUNTIMES
    with pytest.raises(UsageError, match=rf"runtime='{runtime}': .*net\.onnx is not a TFLite model"):
        open_in_runtime(models["onnx"], runtime)
    with pytest.raises(UsageError, match=r"none of the models is a TFLite model"):
        calib8.evaluate([models["onnx"]], [], runtime=runtime)
    with pytest.raises(UsageError, match=r"profile='tflite': does not go with the runtime litert"):
        open_in_runtime(models["int8"], runtime, profile="tflite")


def test_litert_that_is_missing_is_told_with_its_install_line(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with pytest.raises(UsageError, match=r"LiteRT is not installed\. .*pip install 'calib8\[litert\]'"):
        open_in_runtime(models["int8"], "litert")


def test_what_litert_cannot_load_is_told(models: dict[str, Path], tmp_path: Path) -> None:
    graph = quantized_classifier()
    shape = graph.tensors[5]
    wrong = (*graph.tensors[:5], type(shape)(**{**vars(shape), "shape": (1, 11)}))
    operators = (graph.operators[0], type(graph.operators[1])("CUSTOM", (3,), (5,), {}, 1, "Unheard"))
    write_tflite(type(graph)(wrong, operators, (0,), (5,)), tmp_path / "custom.tflite")
    with pytest.raises(ModelError, match=r"custom\.tflite: LiteRT cannot load it \(.*Unheard"):
        open_in_runtime(tmp_path / "custom.tflite", "litert")
    (tmp_path / "text.tflite").write_text("no model at all")
    for runtime in RUNTIMES:
        with pytest.raises((ModelError, UsageError), match=r"text\.tflite"):
            open_in_runtime(tmp_path / "text.tflite", runtime)


def test_models_of_other_networks_are_refused(models: dict[str, Path], tmp_path: Path) -> None:
    graph = quantized_classifier()
    image = type(graph.tensors[0])(**{**vars(graph.tensors[0]), "shape": (1, 9, 9, 3)})
    write_tflite(type(graph)((image, *graph.tensors[1:]), graph.operators, (0,), (5,)), tmp_path / "o.tflite")
    with pytest.raises(calib8.Calib8Error, match=r"o\.tflite"):
        calib8.evaluate([models["onnx"], tmp_path / "o.tflite"], {"images": np.zeros((1, 8, 8, 3), np.uint8)},
                        preprocess=PIXELS, runtime="calib8")  # fmt: skip
