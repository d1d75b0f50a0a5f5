"""Real networks on real images: nothing is left in float, and the codes are those of ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from qdq_nets import counted, lowered, runtime_outputs

from calib8.data.opening import open_dataset
from calib8.data.presets import preset
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.pipeline import quantize
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES
from slow_cases import slow_but

Network = tuple[onnx.ModelProto, list[dict[str, np.ndarray]]]
IMAGES = 4
NETWORKS = {
    "resnet20": ("models/resnet20_cifar10.onnx", "cifar10", "cifar10/train1024.npz", "cifar10/test5000.npz"),
    "mobilenet_v2": (
        "models/mobilenet_v2_torchvision.onnx", "torchvision", "imagenet/calib", "imagenet/eval",
    ),
    "efficientnet_lite0": (
        "models/efficientnet_lite0.onnx", "efficientnet_lite", "imagenet/calib", "imagenet/eval",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=slow_but(["resnet20"], NETWORKS))
def network(request: pytest.FixtureRequest, shared_data: Path) -> Network:
    """The quantized model and some images."""
    file, name, calibration, evaluation = NETWORKS[request.param]
    model, images = shared_data / file, preset(name)
    made = quantize(model, shared_data / calibration, preprocess=images, samples=8, method="minmax")
    inputs = graph_inputs(load_model(model))
    samples = open_dataset(shared_data / evaluation, inputs, images, samples=IMAGES)
    return ir.to_proto(made.model), [dict(sample.inputs) for sample in samples]


def test_every_code_is_that_of_onnxruntime(network: Network) -> None:
    proto, images = network
    program = lowered(proto)
    assert not program.float_instructions
    for feeds in images:
        expected, got = runtime_outputs(proto, feeds)[0], run_program(program, feeds)[0]
        assert np.mean(expected == got) >= 0.999


def test_all_profiles_find_the_same_class(network: Network) -> None:
    proto, images = network
    classes = {}
    for profile in PROFILES:
        program = lowered(proto, profile, integer_only=True)
        assert counted(program)["Quantize"] == counted(program)["Dequantize"] == 1
        classes[profile] = [int(run_program(program, feeds)[0].argmax()) for feeds in images]
    for found in classes.values():
        assert sum(a != b for a, b in zip(found, classes["onnx"], strict=True)) <= 1
