"""The loss of every layer in models that ONNX Runtime's quantizer wrote, and in a stored one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
import pytest
from compared import by_tensor, images
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import calib8
from calib8.analysis.compare import compare
from calib8.errors import UnsupportedModelError
from small_nets import NETS

Array = npt.NDArray[Any]


class Images(CalibrationDataReader):  # type: ignore[misc]
    """Four random images for ONNX Runtime's own quantizer."""

    def __init__(self) -> None:
        self.left = images(4)

    def get_next(self) -> dict[str, Array] | None:
        return self.left.pop() if self.left else None


def foreign(folder: Path, quant_format: QuantFormat, name: str = "residual", **options: Any) -> Path:
    """A small network as ONNX Runtime's quantizer writes it."""
    onnx.save(NETS[name](), folder / "float.onnx")
    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    settings = types | {"quant_format": quant_format, "per_channel": True} | options
    quantize_static(folder / "float.onnx", folder / "int8.onnx", Images(), **settings)
    return folder / "int8.onnx"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"activation_type": QuantType.QInt8, "per_channel": False},
        {"activation_type": QuantType.QUInt16},
        {"extra_options": {"DedicatedQDQPair": True}},
        {"extra_options": {"AddQDQPairToWeight": True}},
        {"op_types_to_quantize": ["Conv"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["residual", "conv_chain", "classifier"])
def test_models_of_another_tool(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    found = compare(NETS[name](), foreign(tmp_path, QuantFormat.QDQ, name, **options), images(2))
    assert found.left_out == ()
    assert len(found.tensors) >= 4
    assert all(tensor.local.sqnr_db > 20 for tensor in found.tensors)
    layers = [tensor for tensor in found.tensors if tensor.op_type == "Conv"]
    assert layers and all(tensor.weight_sqnr_db is not None for tensor in layers)


def test_codes_that_clip_like_the_relu_behind_them(tmp_path: Path) -> None:
    """That quantizer gives the Conv the range of its Relu: the tensor loses its negative values."""
    options = {"extra_options": {"QDQKeepRemovableActivations": True}}
    int8 = foreign(tmp_path, QuantFormat.QDQ, "classifier", **options)
    found = by_tensor(compare(NETS["classifier"](), int8, images(2)))
    clipped, kept = found["first_out"], found["relu1_out"]
    assert clipped.representable is not None and clipped.representable[0] == 0
    assert clipped.saturated is not None and clipped.saturated > 0.2 and clipped.local.sqnr_db < 10
    assert kept.saturated is not None and kept.saturated < 0.01 and kept.local.sqnr_db > 30


@pytest.mark.slow
def test_the_preprocessing_stored_in_the_int8_model_is_used(tmp_path: Path) -> None:
    from calib8.demo import CALIBRATION_PATH, HELDOUT_PATH, MODEL_PATH

    recipe = calib8.Preprocess(color="gray", mean=(128.0,), scale=(1 / 128,))
    calib8.quantize(MODEL_PATH, CALIBRATION_PATH, preprocess=recipe, samples=20).save(tmp_path / "int8.onnx")
    stored = calib8.compare(MODEL_PATH, tmp_path / "int8.onnx", HELDOUT_PATH, samples=20)
    given = calib8.compare(MODEL_PATH, tmp_path / "int8.onnx", HELDOUT_PATH, samples=20, preprocess=recipe)
    assert stored == given
    assert stored.agreement == 1.0 and stored.outputs.sqnr_db > 30
    steps: list[tuple[str, int, int | None]] = []
    calib8.compare(
        MODEL_PATH, tmp_path / "int8.onnx", HELDOUT_PATH, samples=3, progress=lambda *step: steps.append(step)
    )
    assert steps == [("comparing", done, 3) for done in range(4)]


def test_integer_ops_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r"holds QLinearConv nodes .*Quantize in QDQ form"):
        compare(NETS["residual"](), foreign(tmp_path, QuantFormat.QOperator), images(1))
