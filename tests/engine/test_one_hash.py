"""Whole networks have one hash: all instruction sets, any number of threads, one batch or several."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import pytest

from bits import ISAS, Array
from calib8 import InferenceSession
from slow_cases import slow_but

FOLDER: Final = Path(__file__).parents[1] / "foreign"
NETWORKS: Final = (
    "onnxruntime_resnet_qdq_u8s8_channel",
    "onnxruntime_mobilenet_qdq_u8s8_channel",
)
"""Residual blocks; depthwise convolutions, HardSwish, squeeze and excitation."""

RUNS: Final = (("onnx", False), ("tflite", False), ("single", True))
"""Rounding profiles, and whether nothing may be float."""


@cache
def model(name: str) -> bytes:
    """The network, its first axes free: for any number of samples."""
    proto = onnx.load(FOLDER / f"{name}.onnx")
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        axes = value.type.tensor_type.shape.dim
        if len(axes):
            axes[0].dim_param = "N"
    return proto.SerializeToString()


@cache
def images() -> Array:
    array: Array = np.load(FOLDER / "images.npz")["nchw"]
    return array.reshape(-1, *array.shape[-3:])[:4]


def digest(outputs: Sequence[Array]) -> str:
    """SHA-256 of all bytes, types and shapes."""
    total = hashlib.sha256()
    for array in outputs:
        total.update(f"{array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def digest_of(session: InferenceSession, samples: int) -> str:
    """Of the outputs for all images, so many in one run, joined."""
    name = session.inputs[0].name
    parts = [
        session.run(None, {name: images()[first : first + samples]})
        for first in range(0, len(images()), samples)
    ]
    return digest([np.concatenate(arrays) for arrays in zip(*parts, strict=True)])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("profile", "integer_only"), RUNS)
@pytest.mark.parametrize("name", slow_but(NETWORKS[:1], NETWORKS))
def test_one_network_has_one_hash(name: str, profile: str, integer_only: bool) -> None:
    options = {"profile": profile, "integer_only": integer_only}
    reference = InferenceSession(model(name), runtime="reference", **options)
    wanted = digest_of(reference, 1)
    for isa in ISAS:
        for threads in (1, 2, 3):
            session = InferenceSession(model(name), isa=isa, threads=threads, **options)
            for samples in (4, 1):
                assert digest_of(session, samples) == wanted, f"{isa}, {threads} threads, {samples} at a time"
            ran = set(session._native()._engine._native.origins)
            assert isa in ran, f"{ran} ran in place of {isa}"


def test_the_hash_sees_one_bit() -> None:
    array = np.zeros((2, 3), np.float32)
    other = array.copy()
    other.view(np.uint32)[1, 2] = 1
    assert len({digest([array]), digest([other]), digest([array.reshape(3, 2)]), digest([array, other])}) == 4


def test_images_differ() -> None:
    session = InferenceSession(model(NETWORKS[0]), threads=1)
    name = session.inputs[0].name
    hashes = {digest(session.run(None, {name: images()[sample : sample + 1]})) for sample in range(4)}
    assert len(hashes) == 4
