"""Real networks as integer programs: nothing float is left, and the codes are ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from real_networks import CLASSIFIERS, EVERY_NETWORK, NETWORKS, SLOW, Calibrated, Quantized

from bits import FAST_ISAS, assert_native_gives
from calib8.calibration.choose import choose_table
from calib8.data.batches import Batch, batches
from calib8.data.opening import open_dataset
from calib8.errors import UnsupportedModelError
from calib8.judge import evaluate
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.pipeline import quantize
from calib8.program.instructions import Softmax
from calib8.program.lower.lower import lower
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile
from calib8.scheme import TARGETS
from integers import float_findings

FLOAT_NODES = {"ultraface": 23, "ocr_direction": 1}
"""What the quantized models themselves keep in float32 behind the last quantizer: the decoding of boxes, and
a Softmax whose result is an output."""

IMAGES = {"ocr_detector": 1}
JUDGED = {"efficientnet_lite0": 24, "mobilenet_v2": 24, "squeezenet": 24}

Array = npt.NDArray[Any]


def some_images(name: str, path: Path, data: Path) -> list[Batch]:
    network = NETWORKS[name]
    count = IMAGES.get(name, 3)
    dataset = open_dataset(
        data / network.evaluation, graph_inputs(load_model(path)), network.preprocess, samples=count
    )
    return list(batches(dataset, 1, 2))


def _takes_long(name: str) -> bool:
    """Up to half a minute in the plain loops; test_it_lowers… has one picture of it in each profile."""
    return name in SLOW or name in ("mobilenet_v2", "resnet20")


def program_of(path: Path, profile: Profile, batch: Batch) -> Program:
    shapes = {name: array.shape for name, array in batch.inputs.items()}
    return lower(load_model(path), profile=profile, shapes=shapes)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_it_lowers_completely_and_runs_natively_with_the_same_bits(
    name: str, profile: Profile, quantized: Quantized, shared_data: Path
) -> None:
    path = quantized(name)
    [first, *_] = some_images(name, path, shared_data)
    program = program_of(path, profile, first)
    assert sum(len(step.nodes) for step in program.float_instructions) == FLOAT_NODES.get(name, 0)
    outputs = run_program(program, first.inputs)
    assert_native_gives(program, first.inputs, outputs, isas=FAST_ISAS)
    assert [array.shape for array in outputs] == [
        array.shape for array in open_session(path, threads=1).run(first.inputs)
    ]
    assert all(np.isfinite(array).all() for array in outputs)


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_profile_onnx_gives_the_outputs_of_onnxruntime(
    name: str, quantized: Quantized, shared_data: Path
) -> None:
    """Equal to the last bit; the detector's HardSwish may differ by a code where a polynomial does."""
    path = quantized(name)
    pieces = some_images(name, path, shared_data)
    program = program_of(path, "onnx", pieces[0])
    session = open_session(path, threads=1)
    for piece in pieces:
        for ours, theirs in zip(run_program(program, piece.inputs), session.run(piece.inputs), strict=True):
            share = float(np.mean(ours == theirs))
            assert share == 1.0 if name != "ocr_detector" else share > 0.999


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "profile"),
    [
        pytest.param(name, profile, marks=pytest.mark.slow if _takes_long(name) else ())
        for name in CLASSIFIERS
        for profile in PROFILES
    ],
)
def test_agreement_with_the_float_model_is_that_of_onnxruntime(
    name: str, profile: Profile, quantized: Quantized, shared_data: Path
) -> None:
    """On a few images one image is more than a point: at most two may differ, of profile ``onnx`` none."""
    network, samples = NETWORKS[name], JUDGED.get(name, 200)
    files = [shared_data / network.file, quantized(name)]
    results = {
        runtime: evaluate(
            files,
            shared_data / network.evaluation,
            preprocess=network.preprocess,
            runtime=runtime,
            profile=profile if runtime == "reference" else None,
            samples=samples,
            batch=20,
        )[1]
        for runtime in ("onnxruntime", "reference")
    }
    ours, theirs = results["reference"].agreement, results["onnxruntime"].agreement
    assert ours is not None and theirs is not None
    if profile == "onnx":
        assert ours == theirs
    else:
        assert ours >= theirs - max(0.01, 2.5 / samples)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("profile", ["tflite", "single"])
@pytest.mark.parametrize("name", [name for name in EVERY_NETWORK if name.values[0] not in FLOAT_NODES])
def test_integer_only_means_integers(
    name: str, profile: Profile, quantized: Quantized, shared_data: Path
) -> None:
    path = quantized(name)
    [first, *_] = some_images(name, path, shared_data)
    shapes = {name: array.shape for name, array in first.inputs.items()}
    program = lower(load_model(path), profile=profile, shapes=shapes, integer_only=True)
    assert float_findings(program, first.inputs) == []


def test_with_coded_outputs_a_softmax_is_integer_too(
    calibrated: Calibrated, shared_data: Path, tmp_path: Path
) -> None:
    network = NETWORKS["ocr_direction"]
    found = quantize(
        shared_data / network.file,
        shared_data / network.calibration,
        table=choose_table(calibrated("ocr_direction").statistics, TARGETS["tflite"].activations, "mse"),
        target="tflite",
        preprocess=network.preprocess,
    )
    found.save(tmp_path / "model.onnx")
    [first, *_] = some_images("ocr_direction", tmp_path / "model.onnx", shared_data)
    shapes = {name: array.shape for name, array in first.inputs.items()}
    program = lower(load_model(tmp_path / "model.onnx"), profile="single", shapes=shapes, integer_only=True)
    assert float_findings(program, first.inputs) == []
    assert any(isinstance(step, Softmax) for step in program.instructions)


def test_integer_only_names_what_is_float(quantized: Quantized) -> None:
    with pytest.raises(UnsupportedModelError, match=r"23 nodes have no integer form: .*boxes"):
        lower(load_model(quantized("ultraface")), profile="single", integer_only=True)
