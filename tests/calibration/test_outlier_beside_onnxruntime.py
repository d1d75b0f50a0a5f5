"""One outlier of 60 among Laplace values: ``entropy`` clips it, onnxruntime's default calibrator does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, create_calibrator
from stored import stored

from calib8.calibration.ranges import METHODS, choose_range
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import INT8_SYMMETRIC, UINT8

SIZE = 50_000


@pytest.fixture(scope="module")
def values() -> npt.NDArray[np.float32]:
    drawn = np.random.default_rng(60).laplace(size=SIZE).astype(np.float32)
    drawn[SIZE // 3] = 60.0
    return drawn


class OneArray(CalibrationDataReader):
    def __init__(self, values: npt.NDArray[np.float32]) -> None:
        self.feeds = iter([{"x": values[None]}])

    def get_next(self) -> dict[str, npt.NDArray[np.float32]] | None:
        return next(self.feeds, None)


def threshold_of_onnxruntime(folder: Path, values: npt.NDArray[np.float32], **bins: int) -> float:
    """Upper limit of the input of an Abs, as onnxruntime's entropy calibrator finds it."""
    shape = [1, SIZE]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["x"], ["y"])], "one", ends[:1], ends[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    path = folder / "one.onnx"
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=opsets), path)
    calibrator = create_calibrator(
        path,
        ["Abs"],
        str(folder / "augmented.onnx"),
        CalibrationMethod.Entropy,
        extra_options=bins,
    )
    calibrator.collect_data(OneArray(values))
    low, high = calibrator.compute_data()["x"].range_value
    assert low < 0
    return float(np.asarray(high).item())


@pytest.mark.parametrize("spec", [UINT8, INT8_SYMMETRIC], ids=["uint8", "symmetric"])
def test_entropy_clips_where_the_default_of_onnxruntime_does_not(
    tmp_path: Path, values: npt.NDArray[np.float32], spec: object
) -> None:
    assert threshold_of_onnxruntime(tmp_path, values) == 60.0
    chosen = choose_range(TensorStatistics.from_values(values), spec, METHODS["entropy"])
    assert 5 < chosen.max < 20


def test_onnxruntime_clips_with_more_bins_than_its_default(
    tmp_path: Path, values: npt.NDArray[np.float32]
) -> None:
    assert threshold_of_onnxruntime(tmp_path, values, num_bins=1024) < 20


def test_the_stored_outlier_is_clipped_too() -> None:
    assert stored("laplace_outlier_60").maximum == 60.0
    for spec in (UINT8, INT8_SYMMETRIC):
        assert 5 < choose_range(stored("laplace_outlier_60"), spec, METHODS["entropy"]).max < 20
