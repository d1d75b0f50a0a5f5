"""Each fault that is planted into a small detector is named by ``diagnose``: layer, channel and cure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import planted_yolo
import pytest
from planted_detector import detector, pictures
from planted_yolo import yolo

import calib8
from calib8.analysis.diagnose import diagnose
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.model.graph import graph_inputs
from detector_faults import KINDS, Fault
from fault_places import Network, NoSpotError
from planted_faults import outcome
from slow_cases import slow_but
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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_fault_is_named_first(kind: str, images: Path) -> None:
    net = detector(pictures())
    told = outcome(KINDS[kind](net, fed(images, net)), images, RIGHT, None, 1)
    assert told.place == 1, told


@pytest.mark.parametrize("kind", slow_but(["giant channel"], ["giant channel", "dead normalization"]))
def test_what_two_tensors_around_an_activation_share_is_named_too(kind: str, images: Path) -> None:
    """Codes lie in front of a SiLU and behind it: either tensor in float alone gains nothing."""
    net = detector(pictures(), silu=True)
    told = outcome(KINDS[kind](net, fed(images, net)), images, RIGHT, None, 1)
    assert told.place == 1, told


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scenes") / "scenes.npz"
    np.savez(path, images=planted_yolo.pictures())
    return path


UNIT = Preprocess(resize="none", mean=(0.0,), scale=(1 / 255,))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "repair"),
    [
        ("giant channel", "equalize-through"),
        ("outlier weight", "constant-channels"),
        ("blank images", ""),
    ],
)
def test_what_is_named_in_a_network_of_silu_and_concats_is_cured(
    kind: str, repair: str, scenes: Path
) -> None:
    """It has 12.5 dB by plain ranges, 14 dB with corrected biases."""
    net = yolo(planted_yolo.pictures())
    dataset = open_dataset(scenes, graph_inputs(ir.from_proto(net)), UNIT, samples=8)
    fault = KINDS[kind](net, [dict(sample.inputs) for sample in dataset])
    told = outcome(fault, scenes, UNIT, None, 1, treat=True)
    assert told.place == 1, told
    assert told.cured_db is not None and told.cured_db > max(11.5, told.sqnr_db + 1.0), told
    assert repair in told.remedy


def test_normalizations_that_are_put_back_leave_the_function(scenes: Path) -> None:
    net = yolo(planted_yolo.pictures())
    dataset = open_dataset(scenes, graph_inputs(ir.from_proto(net)), UNIT, samples=4)
    feeds = [dict(sample.inputs) for sample in dataset]
    network = Network(net)
    network.normalize(feeds)
    assert sum(node.op_type == "BatchNormalization" for node in network.proto.graph.node) == 28
    for before, after in zip(Network(net).values(["y"], feeds), network.values(["y"], feeds), strict=True):
        np.testing.assert_allclose(after[0], before[0], rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_a_sound_detector_is_accused_of_none_of_them(images: Path) -> None:
    net = detector(pictures())
    int8 = calib8.quantize(net, images, preprocess=RIGHT, method="mse", repair=("none",), threads=1)
    found = diagnose(net, ir.to_proto(int8.model), images, preprocess=RIGHT, threads=1)
    assert {one.reason.cause for one in found.findings} <= {"codes"}


@pytest.mark.slow
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
