"""Real networks quantized, written as TFLite, run by LiteRT, and read back by calib8's own engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
from exported import as_fed, as_given
from litert import litert_outputs

from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.data.presets import preset
from calib8.exporting.tflite.export import to_tflite
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.pipeline import quantize
from calib8.program.lower.lower import lower
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.program.program import Program
from calib8.session import InferenceSession
from calib8.tflite.read import parse
from calib8.tflite.write import serialize
from slow_cases import slow_but

Array = npt.NDArray[Any]

UNIT: Final = Preprocess(mean=(127.0,), scale=(1 / 128,))
LINE: Final = Preprocess(size=(48, 192), mean=(127.5,), scale=(1 / 127.5,))
NETWORKS: Final[dict[str, tuple[str, Preprocess, str]]] = {
    "resnet8": ("resnet8_cifar10_mlperftiny", Preprocess(resize="none"), "cifar10/test5000.npz"),
    "mobilenet_v2": ("mobilenet_v2_torchvision", preset("torchvision"), "photos"),
    "ultraface": ("ultraface_RFB-320", UNIT, "photos"),
    "ocr_direction": ("ch_ppocr_mobile_v2.0_cls_infer", LINE, "photos"),
}  # fmt: skip
"""Name → file, preprocessing and images."""

SAMPLES: Final = 4
Made = Callable[[str], tuple[Program, list[Array]]]


@pytest.fixture(scope="module")
def made(shared_data: Path) -> Made:
    """The integer program of a network as ``quantize --target tflite`` makes it, and a few real inputs."""

    @cache
    def make(name: str) -> tuple[Program, list[Array]]:
        file, preprocess, images = NETWORKS[name]
        path = shared_data / "models" / f"{file}.onnx"
        float_model = load_model(path)
        dataset = open_dataset(shared_data / images, graph_inputs(float_model), preprocess, samples=SAMPLES)
        samples = [next(iter(sample.inputs.items())) for sample in dataset]
        fed = [{key: array} for key, array in samples]
        result = quantize(path, fed, target="tflite", method="minmax", repair=["none"])
        shapes = {key: array.shape for key, array in samples}
        return lower(result.model, profile="tflite", shapes=shapes), [array for _, array in samples]

    return make


@pytest.mark.parametrize("name", slow_but(["resnet8", "ultraface"], NETWORKS))
def test_litert_gives_what_the_program_gives(made: Made, name: str) -> None:
    """In the reference kernels bit for bit; the other kernels run it."""
    program, images = made(name)
    exported = to_tflite(program)
    model, session = serialize(exported.graph), InferenceSession(program, threads=1)
    shape = exported.graph.tensors[exported.graph.inputs[0]].shape
    integer = not program.float_instructions
    for image in images:
        wanted = session.run(None, {program.inputs[0].name: image})
        given = litert_outputs(model, [as_fed(image, shape)])
        assert len(litert_outputs(model, [as_fed(image, shape)], "xnnpack")) == len(wanted)
        for want, got in zip(wanted, given, strict=True):
            close = {"rtol": 0.0, "atol": 0.0} if integer else {"rtol": 1e-6, "atol": 1e-6}
            np.testing.assert_allclose(as_given(got, want.shape), want, **close)


@pytest.mark.parametrize("name", slow_but(["resnet8", "ultraface"], NETWORKS))
def test_the_engine_reads_back_what_was_written(made: Made, name: str) -> None:
    """Bit for bit what LiteRT's reference kernels make of the same codes; float boxes but for rounding."""
    program, images = made(name)
    integer = not program.float_instructions
    tolerance = 0.0 if integer else 1e-6
    graph = to_tflite(program, inputs="int8", outputs="int8" if integer else None).graph
    model = serialize(graph)
    back = InferenceSession(lower_tflite(parse(model)), threads=1)
    entry = graph.tensors[graph.inputs[0]]
    assert entry.quantization is not None
    scale, zero_point = entry.quantization.scales[0], entry.quantization.zero_points[0]
    for image in images:
        values = as_fed(image, entry.shape)
        fed = np.clip(np.rint(values / scale) + zero_point, -128, 127).astype(np.int8)
        given = back.run(None, {back.get_inputs()[0].name: fed})
        for got, wanted in zip(given, litert_outputs(model, [fed]), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


SPOTS: Final = ("conv_2d_0_relu", "conv_2d_1_relu", "conv_2d_2", "add_3_relu")
"""Of ResNet-8: all of its first block."""


def test_a_network_with_spots(shared_data: Path) -> None:
    """LiteRT and the engine give the same bits, nearer to the float outputs than without spots."""
    file, preprocess, images = NETWORKS["resnet8"]
    path = shared_data / "models" / f"{file}.onnx"
    dataset = open_dataset(shared_data / images, graph_inputs(load_model(path)), preprocess, samples=40)
    fed = [dict(sample.inputs) for sample in dataset]
    wanted = [run_float(path, sample) for sample in fed]
    [entry] = fed[0]
    losses = []
    for chosen in ((), SPOTS):
        result = quantize(path, fed, target="tflite", method="minmax", repair=["none"], spots=chosen)
        program = lower(result.model, profile="tflite", shapes={entry: fed[0][entry].shape})
        graph = to_tflite(program).graph
        wide = {tensor.name for tensor in graph.tensors if tensor.dtype == "int16"}
        assert set(chosen) <= wide and bool(chosen) == bool(wide)
        model, shape = serialize(graph), graph.tensors[graph.inputs[0]].shape
        back = InferenceSession(lower_tflite(parse(model)), threads=1)
        loss = 0.0
        for number, (sample, want) in enumerate(zip(fed, wanted, strict=True)):
            values = as_fed(sample[entry], shape)
            [found] = back.run(None, {entry: values})
            if number < SAMPLES:
                np.testing.assert_array_equal(found, litert_outputs(model, [values])[0])
            loss += float(np.square(found - want).mean())
        losses.append(loss)
    assert losses[1] < losses[0]


def run_float(path: Path, feeds: dict[str, Array]) -> Array:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])
