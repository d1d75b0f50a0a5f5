"""The public names: a change here is a change for every user."""

from __future__ import annotations

import subprocess
import sys

import pytest

import calib8
from calib8 import training

PUBLIC = {
    "Benchmark",
    "BoundRun",
    "Calib8Error",
    "Calibration",
    "CalibrationError",
    "CalibrationTable",
    "Checkpointing",
    "Collection",
    "Compilation",
    "Comparison",
    "DataError",
    "Environment",
    "Evaluation",
    "Export",
    "Framing",
    "Gatherer",
    "InferenceSession",
    "Inspection",
    "ModelError",
    "OutputError",
    "Preprocess",
    "Promises",
    "Purpose",
    "QParams",
    "QuantScheme",
    "QuantSpec",
    "Quantization",
    "Range",
    "RangeChoice",
    "Reading",
    "Remedy",
    "RepairChoice",
    "SearchChoice",
    "Statistics",
    "TableConversion",
    "TableError",
    "TargetChoice",
    "Treatment",
    "Tuning",
    "UnsupportedModelError",
    "UsageError",
    "Viewer",
    "__version__",
    "benchmark",
    "calibrate",
    "collect_statistics",
    "compare",
    "compile",
    "convert_table",
    "diagnose",
    "doctor",
    "evaluate",
    "export",
    "inspect",
    "lint",
    "log_run",
    "merge_statistics",
    "preflight",
    "preset",
    "quantize",
    "read_table",
    "tune",
    "view",
    "write_report",
}

TRAINING = {
    "Agreement",
    "SimulatedModel",
    "agreement",
    "convert",
    "freeze",
    "prepare",
    "reestimate_batch_norms",
}


def test_the_public_names_are_these() -> None:
    assert set(calib8.__all__) == PUBLIC
    assert set(dir(calib8)) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_name_loads_and_is_documented(name: str) -> None:
    value = getattr(calib8, name)
    assert value is getattr(calib8, name)
    assert name == "__version__" or value.__doc__


@pytest.mark.parametrize("name", sorted(TRAINING))
def test_the_names_of_training_are_these(name: str) -> None:
    assert set(training.__all__) == TRAINING
    value = getattr(training, name)
    assert value is getattr(training, name)
    assert value.__doc__
    with pytest.raises(AttributeError, match="no_such_name"):
        training.no_such_name  # noqa: B018


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        calib8.no_such_name  # noqa: B018


def test_importing_the_package_loads_no_heavy_library() -> None:
    heavy = ("numpy", "onnx", "onnxruntime", "PIL", "torch")
    code = f"import calib8, sys; print([n for n in {heavy} if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
