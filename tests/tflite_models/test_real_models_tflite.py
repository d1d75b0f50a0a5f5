"""Real quantized models on real images: every tensor has the bits of LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from litert import RESOLVERS, litert
from PIL import Image
from single_op import CASES

from calib8.program.lower_tflite.lower import lower_tflite
from calib8.program.lower_tflite.operators import LOWER
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph
from calib8.tflite.read import read_tflite
from calib8.tflite.write import serialize
from slow_cases import slow_but

Array = npt.NDArray[Any]

IMAGES: Final = 20

SLOW_IMAGES: Final = min(IMAGES, max(1, CASES // 6))
"""As many of them the runtime in NumPy is given too; scripts/check-full gives it all."""

MODELS: Final = {
    "coral_mobilenet_v1_0.25_128_quant": "photos",
    "coral_tf2_mobilenet_v2_1.0_224_ptq": "photos",
    "mlperftiny_ad01_int8": "bytes",
    "mlperftiny_kws_ref_model": "bytes",
    "mlperftiny_pretrainedResnet_quant": "cifar10",
    "mlperftiny_vww_96_int8": "photos",
}
"""Model → what is fed to it: pictures of its size, or their bytes where its input is none."""

LARGEST: Final = "coral_tf2_mobilenet_v2_1.0_224_ptq"


@pytest.mark.parametrize("name", slow_but(set(MODELS) - {LARGEST}, MODELS))
def test_every_tensor(shared_data: Path, name: str) -> None:
    """One program writes all tensors; another, whose steps can be fused, the outputs alone."""
    graph = _known(read_tflite(shared_data / "tflite" / f"{name}.tflite"))
    places = [place for operator in graph.operators for place in operator.outputs]
    every = lower_tflite(replace(graph, outputs=tuple(places)))
    slow, fast = (InferenceSession(every, runtime=runtime) for runtime in ("reference", "calib8"))
    fused = InferenceSession(lower_tflite(graph), runtime="calib8")
    runner = _runner(graph)
    source = graph.tensors[graph.inputs[0]]
    for image, codes in enumerate(_codes(shared_data, MODELS[name], source.shape, source.dtype)):
        runner.set_tensor(graph.inputs[0], codes)
        runner.invoke()
        expected = {place: runner.get_tensor(place) for place in places}
        for session in [fast, slow] if image < SLOW_IMAGES else [fast]:
            for place, got in zip(places, session.run(None, {source.name: codes}), strict=True):
                np.testing.assert_array_equal(got, expected[place], err_msg=graph.tensors[place].name)
        for place, got in zip(graph.outputs, fused.run(None, {source.name: codes}), strict=True):
            np.testing.assert_array_equal(got, expected[place])


def _known(graph: Graph) -> Graph:
    """The operators up to the first that has no integer form yet, with a name of its own for every tensor."""
    unknown = [place for place, operator in enumerate(graph.operators) if operator.op not in LOWER]
    assert {graph.operators[place].op for place in unknown} <= {"SOFTMAX"}
    tensors = tuple(replace(tensor, name=f"{tensor.name}/{i}") for i, tensor in enumerate(graph.tensors))
    if not unknown:
        return replace(graph, tensors=tensors)
    operators = graph.operators[: unknown[0]]
    return replace(graph, tensors=tensors, operators=operators, outputs=operators[-1].outputs)


def _runner(graph: Graph) -> Any:
    """LiteRT's reference kernels, which keep every tensor."""
    runner = litert.Interpreter(
        model_content=serialize(graph),
        experimental_op_resolver_type=RESOLVERS["reference"],
        experimental_preserve_all_tensors=True,
        num_threads=1,
    )
    runner.allocate_tensors()
    return runner


def _codes(shared_data: Path, kind: str, shape: tuple[int, ...], dtype: str) -> Iterator[Array]:
    """Codes of images: the codes of these models are the values of a picture, from 0 or from −128 on."""
    for pixels in _pixels(shared_data, kind, shape):
        yield pixels.reshape(shape) if dtype == "uint8" else (pixels.reshape(shape) ^ 128).view(np.int8)


def _pixels(shared_data: Path, kind: str, shape: tuple[int, ...]) -> Iterator[npt.NDArray[np.uint8]]:
    if kind == "cifar10":
        with np.load(shared_data / "cifar10" / "test5000.npz") as arrays:
            yield from arrays["images"][:IMAGES]
        return
    count = int(np.prod(shape))
    for path in sorted((shared_data / "imagenet" / "eval").glob("*.jpg"))[:IMAGES]:
        with Image.open(path) as picture:
            rgb = picture.convert("RGB")
            if kind == "photos":
                yield np.asarray(rgb.resize((shape[2], shape[1]), Image.Resampling.BILINEAR))
            else:
                yield np.asarray(rgb.resize((count, 1), Image.Resampling.BILINEAR))[..., 0]
