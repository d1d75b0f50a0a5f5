"""Taps on tensors in blocks of 8 and of 16 channels, whichever of them this machine's ONNX Runtime makes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from calib8 import _core
from calib8.calibration.statistics import TensorStatistics
from calib8.calibration.tap_graph import with_taps
from calib8.errors import DataError
from calib8.model.runtime import Session, open_session
from small_models import graph, normal

PADDING = np.float32(1e30)
"""In the channels that only fill the last block; counted, it would be the largest value."""


def blocked(plain: npt.NDArray[np.float32], block: int) -> npt.NDArray[np.float32]:
    """NCHW as ONNX Runtime keeps it: [n, c // block, h, w, c % block], in a shape of whole blocks."""
    images, channels, *area = plain.shape
    blocks = -(-channels // block)
    padded = np.full((images, blocks * block, *area), PADDING)
    padded[:, :channels] = plain
    return np.ascontiguousarray(
        padded.reshape(images, blocks, block, *area).transpose(0, 1, 3, 4, 2)
    ).reshape(padded.shape)


def tap_on(
    state: _core.TensorAccumulator, channels: int, block: int, threads: int
) -> tuple[_core.Taps, Session]:
    """A session whose input is taken for a tensor in blocks."""
    taps = _core.Taps([state], threads)
    model = graph("float[N,C,H,W] x", "float[N,C,H,W] y", "y = Neg (x)")
    tapped, _ = with_taps(model, ["x"], taps.key)
    [tap] = [node for node in tapped.graph if node.op_type == "Tap"]
    tap.attributes["channels"] = ir.AttrInt64("channels", channels)
    tap.attributes["block"] = ir.AttrInt64("block", block)

    def with_op(options: object) -> None:
        options.register_custom_ops_library(_core.__file__)  # type: ignore[attr-defined]

    return taps, open_session(tapped, threads=1, configure=with_op)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("area", [(1, 1), (5, 7), (40, 50)])
@pytest.mark.parametrize("channels", [1, 7, 8, 9, 20, 31])
@pytest.mark.parametrize("block", [8, 16])
def test_values_are_counted_and_padding_is_not(
    block: int, channels: int, area: tuple[int, int], threads: int
) -> None:
    state = _core.TensorAccumulator()
    taps, session = tap_on(state, channels, block, threads)
    plain = np.maximum(normal(3, channels, *area), np.float32(-0.5))
    taps.begin(3)
    session.run({"x": blocked(plain, block)})
    assert taps.fired == 1
    assert TensorStatistics.from_accumulator(state) == TensorStatistics.from_values(plain, 3)


@pytest.mark.parametrize("images", [1, 2, 4])
@pytest.mark.parametrize("channels", [7, 9, 20])
@pytest.mark.parametrize("block", [8, 16])
def test_parts_of_threads_begin_within_images(block: int, channels: int, images: int) -> None:
    """So many images cannot be shared out evenly: parts begin among full blocks and in the last one."""
    state = _core.TensorAccumulator()
    taps, session = tap_on(state, channels, block, 3)
    plain = np.maximum(normal(images, channels, 60, 70), np.float32(-0.5))
    taps.begin(images)
    session.run({"x": blocked(plain, block)})
    assert TensorStatistics.from_accumulator(state) == TensorStatistics.from_values(plain, images)


def test_a_layout_that_the_tensor_cannot_have_is_refused() -> None:
    """20 channels fill three blocks of 8; in blocks of 16 they would be 32 wide."""
    taps, session = tap_on(_core.TensorAccumulator(), 20, 16, 1)
    taps.begin(1)
    with pytest.raises(DataError):
        session.run({"x": blocked(normal(1, 20, 3, 3), 8)})
