"""Each fault that is planted into a small detector is named by ``diagnose``: layer, channel and cure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from planted_detector import detector, pictures

import calib8
from calib8.analysis.diagnose import diagnose
from calib8.data.preprocess import Preprocess
from calib8.data.samples import open_dataset
from calib8.model.graph import graph_inputs
from detector_faults import KINDS, Fault, NoSpotError
from planted_faults import outcome
from small_models import normal, onnx_model

RIGHT = Preprocess(resize="none", mean=(127.0,), scale=(1 / 128,))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "pictures.npz"
    np.savez(path, images=pictures())
    return path


def fed(images: Path, model: object) -> list[dict[str, np.ndarray]]:
    dataset = open_dataset(images, graph_inputs(ir.from_proto(model)), RIGHT, samples=4)  # type: ignore[arg-type]
    return [dict(sample.inputs) for sample in dataset]


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_fault_is_named_first(kind: str, images: Path) -> None:
    net = detector(pictures())
    told = outcome(KINDS[kind](net, fed(images, net)), images, RIGHT, None, 1)
    assert told.place == 1, told


@pytest.mark.parametrize("kind", ["giant channel", "dead normalization"])
def test_what_two_tensors_around_an_activation_share_is_named_too(kind: str, images: Path) -> None:
    """Codes lie in front of a SiLU and behind it: either tensor in float alone gains nothing."""
    net = detector(pictures(), silu=True)
    told = outcome(KINDS[kind](net, fed(images, net)), images, RIGHT, None, 1)
    assert told.place == 1, told


def test_a_sound_detector_is_accused_of_none_of_them(images: Path) -> None:
    net = detector(pictures())
    int8 = calib8.quantize(net, images, preprocess=RIGHT, method="mse", repair=("none",), threads=1)
    found = diagnose(net, ir.to_proto(int8.model), images, preprocess=RIGHT, threads=1)
    assert {one.reason.cause for one in found.findings} <= {"codes"}


def test_another_channel_layer_or_cause_is_not_taken_for_it(images: Path) -> None:
    """The script would say that a diagnosis misses."""
    net = detector(pictures())
    fault = KINDS["giant channel"](net, fed(images, net))
    changes = ({"channel": 3}, {"nodes": ("c7",)}, {"causes": ("clipped",)}, {"cure": "minmax"})
    for change in changes:
        other = Fault(**{**vars(fault), **change})
        assert outcome(other, images, RIGHT, None, 1).place == 0


def test_networks_without_a_place_are_left_out() -> None:
    net = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", "y = Conv(x, w)", {"w": normal(4, 3, 1, 1)})
    for kind in ("giant channel", "dead normalization", "uneven branches"):
        with pytest.raises(NoSpotError):
            KINDS[kind](net, [])
