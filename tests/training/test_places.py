"""Simulated where ``calib8.quantize`` quantizes: a model that was not trained is the model that it makes."""

from __future__ import annotations

import onnx_ir as ir
import pytest
import torch
from networks import NETWORKS, example, network

import calib8
from calib8 import training
from calib8.model.save import model_bytes
from calib8.modules.export import export_module
from calib8.outcomes import Quantization
from calib8.program.rules import CurveRescale
from calib8.training.simulated_model import SimulatedModel

pytestmark = [
    pytest.mark.filterwarnings("ignore::calib8.modules.tracing.TracingWarning"),
    pytest.mark.usefixtures("quick_export"),
]

LEAST_EQUAL = 0.999
LEAST_EQUAL_CURVES = 0.99
"""Where layers go through their function from sums: curves of integers are within a tenth of a code of it."""


def quantized(name: str, inputs: tuple[torch.Tensor, ...], target: str = "onnxruntime") -> Quantization:
    """By the way of files and data."""
    model = export_module(network(name), inputs)
    names = [port.name for port in model.graph.input]
    samples = [
        {name: one[index : index + 1].numpy() for name, one in zip(names, inputs, strict=True)}
        for index in range(len(inputs[0]))
    ]
    return calib8.quantize(model, samples, method="minmax", target=target)


def without_metadata(model: ir.Model) -> bytes:
    copied = model.clone()
    copied.metadata_props.clear()
    return model_bytes(copied)


def simulated(model: SimulatedModel) -> set[str]:
    return {name for name, _ in model.calib8.all_quantizers()} | set(model.calib8.plan.aliases)


MORE = (
    ("inception", "tflite"), ("mobilenet_v3", "openvino"), ("efficientnet", "calib8"),
    ("efficientnet", "openvino"), ("transformer", "calib8"),
)  # fmt: skip
"""Networks and targets beside those that every run of the tests has."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_without_training_it_is_the_quantized_model(name: str) -> None:
    inputs = example(name, batch=4)
    expected = quantized(name, inputs)
    model = training.prepare(network(name), inputs, table=expected.table)
    result = training.convert(model)
    assert simulated(model) == set(expected.qparams)
    assert result.placement == expected.placement
    assert result.qparams == expected.qparams
    assert without_metadata(result.model) == without_metadata(expected.model)
    found = training.agreement(model, result, inputs)
    assert found.steps
    assert found.largest <= 1
    assert min(step.equal for step in found.steps if step.values > 2000) >= LEAST_EQUAL
    assert found.equal >= LEAST_EQUAL


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *(("inception", target) for target in ("openvino", "tensorrt", "tengine", "ncnn")),
        ("cifar_resnet", "onnxruntime-avx2"),
        ("mobilenet_v3", "calib8"),
        ("cifar_resnet", "tflite"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE),
    ],
)
def test_every_target(name: str, target: str) -> None:
    inputs = example(name, batch=4)
    expected = quantized(name, inputs, target)
    model = training.prepare(network(name), inputs, target, expected.table)
    result = training.convert(model)
    assert simulated(model) == set(expected.qparams)
    assert without_metadata(result.model) == without_metadata(expected.model)
    found = training.agreement(model, result, inputs)
    assert found.largest <= 1
    rules = {type(getattr(step, "rescale", None)) for step in result.lower().instructions}
    curves = CurveRescale in rules
    assert found.equal >= (LEAST_EQUAL_CURVES if curves else LEAST_EQUAL)
