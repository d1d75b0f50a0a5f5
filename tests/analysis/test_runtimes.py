"""The runtimes behind one call, and who runs what where models are compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import calib8
from calib8 import InferenceSession, ModelError, UnsupportedModelError, UsageError
from calib8.analysis.runtimes import (
    OPENERS,
    OWN,
    RUNTIMES,
    is_float_model,
    open_in_runtime,
    open_side_by_side,
)
from calib8.program.file import save_program
from small_models import Array, normal, onnx_model, run

CONV = "Conv<pads=[1,1,1,1]>"
WEIGHTS: dict[str, Array] = {"w": normal(8, 3, 3, 3), "u": normal(4, 8, 3, 3, seed=1)}
FEEDS = {"x": normal(1, 3, 6, 6, seed=2)}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A float model, its int8 form, and the saved program and plan of that."""
    folder = tmp_path_factory.mktemp("models")
    paths = {name: folder / name for name in ("float.onnx", "int8.onnx", "int8.c8p", "int8.c8")}
    proto = onnx_model("float[N,3,6,6] x", "float[N,4,6,6] y", f"c = {CONV}(x, w) y = {CONV}(c, u)", WEIGHTS)
    onnx.save(proto, paths["float.onnx"])
    data = [{"x": normal(1, 3, 6, 6, seed=seed)} for seed in range(3)]
    # no pair of weights saturates in OpenVINO on a CPU without VNNI
    calib8.quantize(proto, data, method="minmax", target="onnxruntime-avx2").save(paths["int8.onnx"])
    lowered = InferenceSession(paths["int8.onnx"], profile="tflite", shapes={"x": (1, 3, 6, 6)})
    save_program(lowered.program, paths["int8.c8p"])
    lowered.save(paths["int8.c8"])
    return paths


@pytest.mark.parametrize("runtime", OPENERS)
def test_every_runtime_gives_nearly_the_same(models: dict[str, Path], runtime: str) -> None:
    session = open_in_runtime(models["int8.onnx"], runtime, 1)
    assert session.runtime.partition("/")[0] == runtime
    assert [spec.name for spec in session.inputs] == ["x"]
    assert [spec.name for spec in session.outputs] == ["y"]
    [expected] = run(onnx.load(models["float.onnx"]), FEEDS)
    for [actual] in (session.run(FEEDS), session.run(FEEDS, ["y"])):
        assert np.max(np.abs(expected - actual)) < 0.05 * np.max(np.abs(expected))


@pytest.mark.parametrize("runtime", OWN)
def test_both_runtimes_of_calib8_are_sessions_of_the_package(models: dict[str, Path], runtime: str) -> None:
    for profile in ("onnx", "tflite", "single"):
        session = open_in_runtime(models["int8.onnx"], runtime, 1, profile=profile)
        assert session.runtime == f"{runtime}/{profile}"
        reference = InferenceSession(models["int8.onnx"], profile=profile, runtime="reference")
        np.testing.assert_array_equal(session.run(FEEDS), reference.run(None, FEEDS))
    integer = open_in_runtime(models["int8.onnx"], runtime, integer_only=True)
    assert integer.runtime == f"{runtime}/single"
    assert open_in_runtime(models["int8.c8p"], runtime).runtime == f"{runtime}/tflite"


def test_plans_run_in_the_engine_only(models: dict[str, Path]) -> None:
    session = open_in_runtime(models["int8.c8"], "calib8")
    assert session.runtime == "calib8/tflite"
    expected = open_in_runtime(models["int8.c8p"], "reference").run(FEEDS)
    np.testing.assert_array_equal(session.run(FEEDS), expected)
    for runtime in set(RUNTIMES) - {"calib8"}:
        with pytest.raises(UsageError, match=r"int8\.c8 is a plan of calib8. Use runtime='calib8'"):
            open_in_runtime(models["int8.c8"], runtime)


def test_profiles_belong_to_the_runtimes_of_calib8(models: dict[str, Path]) -> None:
    for runtime in ("onnxruntime", "openvino"):
        with pytest.raises(
            UsageError, match=f"profile='single': .* {runtime}.* Use runtime='calib8' or reference"
        ):
            open_in_runtime(models["int8.onnx"], runtime, profile="single")
        with pytest.raises(UsageError, match=r"integer_only=True: .* Use runtime='calib8' or reference"):
            open_in_runtime(models["int8.onnx"], runtime, integer_only=True)
        with pytest.raises(UsageError, match=r"int8\.c8p is a program .* Use runtime='calib8' or reference"):
            open_in_runtime(models["int8.c8p"], runtime)
    with pytest.raises(UsageError, match=r"profile 'magic'"):
        open_in_runtime(models["int8.onnx"], "reference", profile="magic")


def test_files_and_names_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"runtime='toaster': unknown .* onnxruntime, openvino, calib8, reference"
    ):
        open_in_runtime(tmp_path / "x.onnx", "toaster")
    for runtime in RUNTIMES:
        with pytest.raises(ModelError, match=r"x\.onnx: no such file"):
            open_in_runtime(tmp_path / "x.onnx", runtime)
        with pytest.raises(ModelError, match=r"x\.onnx: no such file"):
            open_side_by_side([tmp_path / "x.onnx"], runtime, profile=None, integer_only=False)


@pytest.mark.parametrize("runtime", OWN)
def test_float_models_run_in_onnx_runtime_beside_those_of_calib8(
    models: dict[str, Path], runtime: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=r"is a float model"):
        open_in_runtime(models["float.onnx"], runtime)
    paths = [models["float.onnx"], models["int8.onnx"], models["float.onnx"]]
    sessions = open_side_by_side(paths, runtime, 1, profile="single", integer_only=True)
    assert [session.runtime for session in sessions] == ["onnxruntime", f"{runtime}/single", "onnxruntime"]
    with pytest.raises(UsageError, match=rf"runtime='{runtime}': all models are float ones"):
        open_side_by_side([models["float.onnx"]], runtime, profile=None, integer_only=False)


def test_what_counts_as_a_float_model(models: dict[str, Path], tmp_path: Path) -> None:
    assert [is_float_model(path) for path in models.values()] == [True, False, False, False]
    (tmp_path / "notes").write_text("no model")
    assert not is_float_model(tmp_path / "notes")
    constants: dict[str, Array] = {"w": np.ones((3, 3), np.int8), "s": np.float32(0.5)}
    packed = onnx_model(
        "float[2,3] x", "float[2,3] y", "d = DequantizeLinear(w, s) y = MatMul(x, d)", constants
    )
    onnx.save(packed, tmp_path / "packed.onnx")
    assert is_float_model(tmp_path / "packed.onnx")
    body = "q, s, z = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, z) y = Cast<to=1>(i)"
    dynamic = onnx_model("float[2,3] x", "float[2,3] y", body, {"w": np.ones((3, 3), np.uint8)})
    onnx.save(dynamic, tmp_path / "dynamic.onnx")
    assert not is_float_model(tmp_path / "dynamic.onnx")
