"""Int8 models taken apart: a network of the tests, its counterparts, and a ``Dissection`` of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import onnx

from calib8.analysis.counterparts import Tap, find_counterparts
from calib8.analysis.damage import reference_constants
from calib8.analysis.float_reference import float_reference
from calib8.analysis.model_pair import open_pair
from calib8.dissection.dissect import Dissection

Array = npt.NDArray[Any]


def dissected(
    fp32: onnx.ModelProto, int8: onnx.ModelProto, runs: Sequence[dict[str, Array]]
) -> tuple[Dissection, tuple[Tap, ...]]:
    pair = open_pair(fp32, int8)
    reference = float_reference(pair.fp32, runs[0], pair.changes())
    taps = find_counterparts(pair.int8, reference.tensors, pair.outputs).taps
    constants = reference_constants(pair.int8, taps, reference)
    return Dissection(pair.int8, constants, reference.forms[-1], runs, 1), taps
