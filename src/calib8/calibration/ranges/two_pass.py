"""The methods that count in bins of their own and so read the data twice. To add one, write its line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from calib8.calibration.layouts import MXNET, NCNN, PYTHON, TENGINE, TENSORRT, Layout, LayoutCounts
from calib8.calibration.ranges.entropy_mxnet import entropy_mxnet
from calib8.calibration.ranges.entropy_ncnn import entropy_ncnn
from calib8.calibration.ranges.entropy_smooth import entropy_smooth
from calib8.calibration.ranges.entropy_tengine import entropy_tengine
from calib8.calibration.ranges.entropy_tensorrt import entropy_tensorrt_exact
from calib8.calibration.statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range

CountsMethod: TypeAlias = Callable[[LayoutCounts, TensorStatistics, QuantSpec], Range]


@dataclass(frozen=True)
class TwoPassMethod:
    """A method that needs other bins than the statistics have.

    Attributes:
        layout: its bins; the first pass gives their limit.
        choose: a pure function of the counts in them, the statistics of the same values and the code.
    """

    layout: Layout
    choose: CountsMethod


TWO_PASS_METHODS: Final[dict[str, TwoPassMethod]] = {
    "entropy-mxnet": TwoPassMethod(MXNET, entropy_mxnet),
    "entropy-ncnn": TwoPassMethod(NCNN, entropy_ncnn),
    "entropy-tengine": TwoPassMethod(TENGINE, entropy_tengine),
    "entropy-smooth": TwoPassMethod(PYTHON, entropy_smooth),
    "entropy-tensorrt-exact": TwoPassMethod(TENSORRT, entropy_tensorrt_exact),
}


def needs_data_again(method: str) -> bool:
    """Whether statistics alone are not enough for a method: it reads the data a second time."""
    return method in TWO_PASS_METHODS
