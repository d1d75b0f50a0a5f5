"""TFLite files on the command line: run, compiled, measured, inspected, refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from json_output import load

from calib8 import InferenceSession, Preprocess
from calib8.analysis import benchmark
from calib8.tflite.graph import Graph, Tensor
from calib8.tflite.metadata import PREPROCESS
from calib8.tflite.write import write_tflite
from tflite_nets import (
    coded,
    depthwise_without_bias,
    float_classifier,
    hybrid_classifier,
    onnx_classifier,
    quantized_classifier,
    softmax_of_many,
    with_batch_free,
    written,
)

PIXELS = ("--mean", "128", "--scale", "1/128")
MACS = 10 * 8 * 8 * 3


@pytest.fixture
def int8(tmp_path: Path) -> Path:
    stored = Preprocess(mean=(128.0,), scale=(1 / 128,)).to_json().encode()
    write_tflite(quantized_classifier("int8", {PREPROCESS: stored}), tmp_path / "int8.tflite")
    return tmp_path / "int8.tflite"


@pytest.fixture
def files(tmp_path: Path, int8: Path) -> dict[str, Path]:
    graphs = {
        "float": float_classifier(),
        "hybrid": hybrid_classifier(),
        "uint8": quantized_classifier("uint8"),
    }
    for name, graph in graphs.items():
        write_tflite(graph, tmp_path / f"{name}.tflite")
    onnx.save(onnx_classifier(), tmp_path / "net.onnx")
    paths = {name: tmp_path / f"{name}.tflite" for name in graphs}
    return {**paths, "int8": int8, "onnx": tmp_path / "net.onnx"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    images = np.random.default_rng(5).integers(0, 256, (12, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "data.npz", images=images)
    return tmp_path / "data.npz"


def test_evaluate_takes_the_preprocessing_that_the_file_has_stored(
    cli, files: dict[str, Path], data: Path, out: Path
) -> None:
    paths = (files["onnx"], files["int8"])
    for runtime in ("calib8", "litert-reference"):
        command = ("evaluate", *paths, "--data", data, "--runtime", runtime)
        results = [cli(*command, *flags, "--json", out / f"{len(flags)}.json") for flags in ((), PIXELS)]
        assert [result.exit_code for result in results] == [0, 0], results[0].output
        stored, given = (load(out / f"{count}.json")["models"] for count in (0, len(PIXELS)))
        for one, other in zip(stored, given, strict=True):
            assert {**one, "seconds": 0} == {**other, "seconds": 0}
        assert stored[1]["sqnr_db"] > 35 and stored[1]["agreement"] >= 0.9
        assert stored[1]["warnings"] == []


def test_run_shows_scores_as_real_numbers(cli, int8: Path, data: Path, out: Path) -> None:
    result = cli("run", int8, "--data", data, "--samples", "2", "--top", "1", "--runtime", "calib8",
                 "--json", out / "run.json")  # fmt: skip
    assert result.exit_code == 0, result.output
    first = load(out / "run.json")["results"][0]
    images = np.load(data)["images"][:1]
    codes = (images.astype(np.int16) - 128).astype(np.int8)
    [scores] = InferenceSession(int8).run(None, {"image": codes})
    assert first["classes"] == [int(scores.argmax())]
    assert first["scores"] == [int(scores.max()) / 64]


def test_compile_writes_a_plan_that_takes_codes(cli, int8: Path, out: Path) -> None:
    result = cli("compile", int8, "-o", out / "net.c8", "--json", out / "c.json")
    assert result.exit_code == 0, result.output
    document = load(out / "c.json")
    assert (document["profile"], document["integer_macs"], document["float_nodes"]) == ("tflite", MACS, [])
    codes = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 3), np.int8)
    plan, model = InferenceSession(out / "net.c8"), InferenceSession(int8)
    np.testing.assert_array_equal(plan.run(None, {"image": codes}), model.run(None, {"image": codes}))
    result = cli("compile", int8, "-o", out / "part.c8", "--until", "conv")
    assert result.exit_code == 0, result.output
    assert [port.name for port in InferenceSession(out / "part.c8").get_outputs()] == ["conv"]


def test_benchmark_beside_litert(
    cli, files: dict[str, Path], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "REST_SECONDS", 0.0)
    monkeypatch.setattr(benchmark, "VISIT_SECONDS", 0.0)
    free = written(with_batch_free(float_classifier()), out / "free.tflite")
    command = ("benchmark", files["int8"], files["hybrid"], free, files["onnx"])
    result = cli(*command, "--threads", "1", "--rounds", "1", "--json", out / "b.json")
    assert result.exit_code == 0, result.output
    found = [(Path(entry["model"]).name, entry["runtime"]) for entry in load(out / "b.json")["results"]]
    assert found == [
        ("int8.tflite", "calib8"),
        ("int8.tflite", "litert"),
        ("hybrid.tflite", "litert"),
        ("free.tflite", "litert"),
        ("net.onnx", "onnxruntime"),
        ("net.onnx", "openvino"),
    ]
    for entry in load(out / "b.json")["results"]:
        assert entry["gmacs"] * entry["min_ms"] * 1e6 == pytest.approx(MACS)


@pytest.mark.slow
def test_benchmark_leaves_out_what_litert_crashes_on(
    cli, refused, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "REST_SECONDS", 0.0)
    monkeypatch.setattr(benchmark, "VISIT_SECONDS", 0.0)
    command = ("benchmark", written(depthwise_without_bias(), out / "d.tflite"), "--threads", "1,2")
    result = cli(*command, "--rounds", "1", "--json", out / "b.json")
    assert result.exit_code == 0, result.output
    assert [entry["runtime"] for entry in load(out / "b.json")["results"]] == ["calib8", "calib8"]
    assert result.stdout.count(f"note: {out / 'd.tflite'}: LiteRT crashes when it") == 1
    refused(cli(*command, "--runtime", "litert"), 1, "d.tflite: LiteRT crashes when it", "another --runtime")


def test_scores_on_which_the_reference_kernel_aborts_are_one_line(cli, refused, out: Path) -> None:
    path = written(softmax_of_many(), out / "s.tflite")
    rows = np.zeros((3, 600), np.float32)
    rows[0, 5] = 12.0
    np.savez(out / "rows.npz", x=rows[:, None])
    for command in ("run", "evaluate"):
        result = cli(command, path, "--data", out / "rows.npz", "--runtime", "litert-reference")
        refused(result, 1, "s.tflite: LiteRT crashes when it runs it (litert-reference, SIGABRT)")
        result = cli(command, path, "--data", out / "rows.npz", "--runtime", "calib8")
        assert result.exit_code == 0, result.output


def test_inspect_tells_all_that_is_in_the_file(cli, int8: Path, out: Path) -> None:
    result = cli("inspect", int8, "--json", out / "i.json")
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert 'int8.tflite: quantized TFLite model, "made for tests"' in text
    assert "input image: int8 1×8×8×3, scale 0.0078125, zero point 0" in text
    assert f"1,930 parameters, {MACS:,} multiply-accumulates per run, 2.0 kB of constants" in text
    assert "operators: 1 CONV_2D, 1 RESHAPE\n2 operators: 2 on codes" in text
    assert f"{PREPROCESS}: {{" in text
    assert "padding VALID" in text and "fused_activation_function" not in text
    assert "note: profile 'tflite' gives the bits of LiteRT's reference kernels" in text
    document = load(out / "i.json")
    assert (document["kind"], document["tflite"]["kind"]) == ("tflite", "quantized")
    conv, reshape = document["tflite"]["operators"]
    assert (conv["op"], conv["version"], conv["macs"], conv["works_on"]) == ("CONV_2D", 3, MACS, "codes")
    assert (conv["inputs"], conv["outputs"]) == (["image", "w", "b"], ["conv"])
    assert (conv["options"]["padding"], reshape["options"]["new_shape"]) == ("VALID", [-1, 10])
    weight = next(tensor for tensor in document["tflite"]["tensors"] if tensor["name"] == "w")
    assert weight == {
        "name": "w", "type": "int8", "shape": "10×8×8×3", "scales": [1 / 512], "zero_points": [0],
        "axis": None, "bytes": 1920,
    }  # fmt: skip


def test_inspect_of_each_kind_has_its_caveats(cli, files: dict[str, Path], out: Path) -> None:
    for name, kind, works, caveat in (
        ("float", "float", {"float": 2}, ""),
        ("hybrid", "hybrid", {"hybrid": 1, "float": 1}, "hybrid (dynamic range)"),
        ("uint8", "quantized", {"codes": 2}, "uint8 weights with zero points"),
    ):
        result = cli("inspect", files[name], "--json", out / f"{name}.json")
        assert result.exit_code == 0, result.output
        found = load(out / f"{name}.json")["tflite"]
        assert (found["kind"], found["works_on"]) == (kind, works)
        assert any(caveat in text for text in found["caveats"]) or not caveat


def test_inspect_shows_and_saves_the_program(cli, int8: Path, out: Path) -> None:
    result = cli("inspect", int8, "--program", "--save", out / "net.c8p", "--json", out / "p.json")
    assert result.exit_code == 0, result.output
    assert "profile tflite, 2 instructions" in result.stdout
    document = load(out / "p.json")
    assert document["program"]["instructions"] == {"Conv": 1, "Reshape": 1}
    assert document["tflite"]["kind"] == "quantized"
    assert InferenceSession(out / "net.c8p").rounding == "tflite"
    result = cli("inspect", int8, "--program", "--until", "conv", "--json", out / "p.json")
    assert load(out / "p.json")["program"]["outputs"] == ["conv: int8 1×1×1×10"]


def edited(place: int, **changes: Any) -> Callable[[Graph], Graph]:
    """The graph with one tensor changed."""

    def edit(graph: Graph) -> Graph:
        tensors = list(graph.tensors)
        tensors[place] = replace(tensors[place], **changes)
        return replace(graph, tensors=tuple(tensors))

    return edit


def with_softmax(graph: Graph) -> Graph:
    operator = replace(graph.operators[1], op="SOFTMAX", inputs=(5,), outputs=(6,), options={"beta": 1.0})
    extra = Tensor("probabilities", (1, 10), "int8", None, coded(1 / 128, -128))
    return replace(
        graph, tensors=(*graph.tensors, extra), operators=(*graph.operators, operator), outputs=(6,)
    )


AXIS = replace(
    coded(1 / 512, 0), scales=np.full(8, 1 / 512, np.float32), zero_points=np.zeros(8, np.int64), axis=1
)
LOWEST = np.full((10, 8, 8, 3), -128, np.int8)
PLANTED: dict[str, tuple[Callable[[Graph], Graph], str]] = {
    "codes-have-a-scale": (edited(3, quantization=None), "'conv' holds int8 without a scale"),
    "same-scale-in-and-out": (edited(5, quantization=coded(0.5, 0)), "'conv' has scale 0.015625"),
    "output-has-its-fixed-scale": (with_softmax, "its output has scale 0.0078125 and zero point -128"),
    "int8-weights-are-symmetric": (edited(1, data=LOWEST), "its weights 'w' hold the code -128"),
    "weight-scales-follow-the-outputs": (edited(1, quantization=AXIS), "weights 'w' run along axis 1"),
    "bias-has-the-scale-of-the-sums": (edited(2, quantization=coded(0.5, 0)), "bias 'b' has the scale 0.5"),
}


@pytest.mark.parametrize("rule", PLANTED)
def test_what_breaks_a_rule_of_tflite_is_named(cli, tmp_path: Path, out: Path, rule: str) -> None:
    plant, problem = PLANTED[rule]
    path = written(plant(quantized_classifier()), tmp_path / "planted.tflite")
    result = cli("inspect", path, "--target", "tflite", "--json", out / "v.json")
    assert result.exit_code == 1, result.output
    found = load(out / "v.json")["violations"]
    assert rule in {violation["rule"] for violation in found}
    assert any(problem in violation["problem"] for violation in found if violation["rule"] == rule)
    assert any(
        "TFLite's rules for codes are broken" in text for text in load(out / "v.json")["tflite"]["caveats"]
    )


def test_models_that_keep_the_rules_pass(cli, files: dict[str, Path]) -> None:
    for name in ("int8", "uint8"):
        result = cli("inspect", files[name], "--target", "tflite")
        assert result.exit_code == 0, result.output
        assert "0 violations of the rules of target 'tflite'" in result.stdout


def test_real_models_keep_the_rules(cli, shared_data: Path, out: Path) -> None:
    quantized = 0
    for path in sorted((shared_data / "tflite").glob("*.tflite")):
        assert cli("inspect", path, "--json", out / "i.json").exit_code == 0
        found = load(out / "i.json")["tflite"]
        assert found["kind"] in ("quantized", "float")
        if found["kind"] == "quantized":
            result = cli("inspect", path, "--target", "tflite", "--quiet")
            assert (result.exit_code, result.stdout) == (0, ""), path
            quantized += 1
    assert quantized >= 6


def test_what_cannot_be_done_with_a_tflite_file_is_one_line(
    cli, refused, files: dict[str, Path], data: Path, out: Path, nothing_left: None
) -> None:
    for name, problem in (("float", "is a float model"), ("hybrid", "is a hybrid (dynamic-range) model")):
        refused(cli("compile", files[name], "-o", out / "p.c8"), 1, f"{name}.tflite: {problem}")
        refused(cli("inspect", files[name], "--program"), 1, f"{name}.tflite: {problem}")
        refused(
            cli("inspect", files[name], "--target", "tflite"), 2, f"is a {name} model, which has no rules"
        )
        refused(cli("benchmark", files[name], "--runtime", "calib8"), 2, "Add the runtime litert")
    int8 = files["int8"]
    refused(cli("inspect", int8, "--target", "tensorrt"), 2, "--target tensorrt", "Use --target tflite")
    refused(cli("inspect", int8, "--data", data), 2, "--data", "is a TFLite model")
    refused(cli("inspect", int8, "--profile", "onnx"), 2, "Add --program")
    refused(cli("inspect", int8, "--program", "--profile", "onnx"), 2, "profile 'onnx'", "Use tflite")
    refused(cli("compile", int8, "-o", out / "p.c8", "--profile", "single"), 2, "profile 'single'")
    refused(
        cli("compile", int8, "-o", out / "p.c8", "--until", "nothing"),
        2,
        "--until: the model computes no tensor 'nothing'",
    )
    refused(
        cli("compile", files["onnx"], "-o", out / "p.c8", "--until", "c"),
        2,
        "--until c",
        "is not a TFLite model",
    )
    refused(cli("compile", int8, "-o", out / "p.c8", "--shape", "image=1,9,9,3"), 2, "1×9×9×3 does not fit")
    asked = ("evaluate", int8, "--data", data, "--runtime", "onnxruntime")
    refused(cli(*asked), 2, "--runtime onnxruntime", "Use --runtime calib8")
    refused(cli("export", int8, "--to", "qoperator", "-o", out / "q.onnx"), 1, "is a TFLite model", ".onnx")
    refused(cli("compare", files["onnx"], int8, "--data", data), 2, "is a TFLite model", ".onnx file")
    refused(cli("run", int8, "--data", data, "--runtime", "openvino"), 2, "is a TFLite model")
    refused(cli("benchmark", int8, "--runtime", "onnxruntime"), 2, "Add the runtime calib8 or litert")


def test_quantized_tflite_models_run_in_calib8_by_default(
    cli, files: dict[str, Path], data: Path, out: Path
) -> None:
    for models in ((files["int8"],), (files["onnx"], files["int8"])):
        result = cli("evaluate", *models, "--data", data, *PIXELS, "--json", out / "e.json")
        assert result.exit_code == 0, result.output
        assert load(out / "e.json")["models"][-1]["runtime"] == "calib8/tflite"
    assert cli("run", files["int8"], "--data", data).exit_code == 0


def test_a_free_batch_on_the_command_line(cli, data: Path, out: Path) -> None:
    path = written(with_batch_free(quantized_classifier()), out / "free.tflite")
    found = []
    for runtime in ("calib8", "litert-reference"):
        for batch in (1, 5):
            command = ("run", path, "--data", data, *PIXELS, "--runtime", runtime, "--batch", batch)
            result = cli(*command, "--json", out / "r.json")
            assert result.exit_code == 0, result.output
            found.append(load(out / "r.json")["results"])
    assert found[0] == found[1] == found[2] == found[3]
    result = cli("compile", path, "-o", out / "p.c8", "--shape", "image=4,8,8,3")
    assert result.exit_code == 0, result.output
    assert InferenceSession(out / "p.c8").get_inputs()[0].shape == [4, 8, 8, 3]


def test_damaged_files_are_one_line(cli, refused, int8: Path, data: Path, out: Path) -> None:
    whole = int8.read_bytes()
    broken = {"text": b"not a model at all", "half": whole[: len(whole) // 2], "empty": b""}
    for name, content in broken.items():
        path = out / f"{name}.tflite"
        path.write_bytes(content)
        for command in (
            ("inspect", path),
            ("inspect", path, "--program"),
            ("compile", path, "-o", out / "p.c8"),
            ("benchmark", path),
            ("run", path, "--data", data, *PIXELS, "--runtime", "calib8"),
            ("run", path, "--data", data, *PIXELS, "--runtime", "litert"),
        ):
            ends = f"ends at byte {len(content)}" if name == "half" else ""
            refused(cli(*command), 1, f"{name}.tflite", ends)
        assert not (out / "p.c8").exists()
