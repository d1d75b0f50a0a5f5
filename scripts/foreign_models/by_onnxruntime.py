"""Models quantized by onnxruntime.quantization.

Run: pip install onnx onnxruntime sympy; python scripts/foreign_models/by_onnxruntime.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnxruntime
from float_networks import detector, mobilenet, pools_and_products, resnet
from graph import F32, images
from keep import keep
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

U8, S8 = QuantType.QUInt8, QuantType.QInt8
QDQ, OPERATOR = QuantFormat.QDQ, QuantFormat.QOperator
CALIBRATION_IMAGES = 16


@dataclass(frozen=True)
class Variant:
    """How one model is made: arguments of quantize_static, by the names that they have there."""

    network: Callable[[], onnx.ModelProto]
    quant_format: QuantFormat
    activation_type: QuantType
    weight_type: QuantType
    per_channel: bool = False
    prepared: bool = True
    extra_options: dict[str, bool] = field(default_factory=dict)


VARIANTS = {
    "resnet_qdq_u8s8": Variant(resnet, QDQ, U8, S8),
    "resnet_qdq_u8s8_channel": Variant(resnet, QDQ, U8, S8, per_channel=True),
    "resnet_qdq_s8s8": Variant(resnet, QDQ, S8, S8),
    "resnet_qdq_s8s8_channel": Variant(resnet, QDQ, S8, S8, per_channel=True),
    "resnet_qdq_u8u8": Variant(resnet, QDQ, U8, U8),
    "resnet_qdq_u8u8_channel": Variant(resnet, QDQ, U8, U8, per_channel=True),
    "resnet_qdq_symmetric": Variant(resnet, QDQ, S8, S8, extra_options={"ActivationSymmetric": True}),
    "resnet_qdq_dedicated": Variant(resnet, QDQ, U8, S8, extra_options={"DedicatedQDQPair": True}),
    "resnet_qdq_float_bias": Variant(resnet, QDQ, S8, S8, True, extra_options={"QuantizeBias": False}),
    "resnet_qdq_weight_pair": Variant(resnet, QDQ, S8, S8, True, extra_options={"AddQDQPairToWeight": True}),
    "resnet_qdq_asymmetric_weights": Variant(resnet, QDQ, U8, S8, extra_options={"WeightSymmetric": False}),
    "resnet_qdq_keep_relu": Variant(
        resnet, QDQ, S8, S8, True, extra_options={"QDQKeepRemovableActivations": True}
    ),
    "resnet_qdq_contrib": Variant(resnet, QDQ, U8, S8, extra_options={"UseQDQContribOps": True}),
    "resnet_qdq_unprepared": Variant(resnet, QDQ, U8, S8, prepared=False),
    "resnet_operator_u8s8": Variant(resnet, OPERATOR, U8, S8),
    "resnet_operator_u8u8": Variant(resnet, OPERATOR, U8, U8),
    "resnet_operator_s8s8_channel": Variant(resnet, OPERATOR, S8, S8, per_channel=True),
    "mobilenet_qdq_u8s8_channel": Variant(mobilenet, QDQ, U8, S8, per_channel=True),
    "mobilenet_qdq_s8s8": Variant(mobilenet, QDQ, S8, S8),
    "mobilenet_qdq_unprepared": Variant(mobilenet, QDQ, U8, U8, prepared=False),
    "mobilenet_qdq_forced": Variant(
        mobilenet, QDQ, S8, S8, True, extra_options={"ForceQuantizeNoInputCheck": True}
    ),
    "mobilenet_operator_u8u8": Variant(mobilenet, OPERATOR, U8, U8),
    "detector_qdq_u8s8": Variant(detector, QDQ, U8, S8),
    "detector_qdq_s8s8_channel": Variant(detector, QDQ, S8, S8, per_channel=True),
    "detector_operator_u8s8": Variant(detector, OPERATOR, U8, S8),
    "pools_qdq_u8s8_channel": Variant(pools_and_products, QDQ, U8, S8, per_channel=True),
    "pools_qdq_s8s8": Variant(pools_and_products, QDQ, S8, S8),
    "pools_operator_u8s8_channel": Variant(pools_and_products, OPERATOR, U8, S8, per_channel=True),
}


class Images(CalibrationDataReader):
    """Hands out calibration images one by one."""

    def __init__(self) -> None:
        self.feeds: Iterator[dict[str, F32]] = iter(
            {"image": image[None]} for image in images(CALIBRATION_IMAGES, seed=100)
        )

    def get_next(self) -> dict[str, F32] | None:
        return next(self.feeds, None)


def quantized(variant: Variant) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "float.onnx"), Path(folder, "int8.onnx")
        onnx.save(variant.network(), source)
        if variant.prepared:
            quant_pre_process(str(source), str(source))
        quantize_static(
            source,
            target,
            Images(),
            quant_format=variant.quant_format,
            activation_type=variant.activation_type,
            weight_type=variant.weight_type,
            per_channel=variant.per_channel,
            extra_options=variant.extra_options,
        )
        return onnx.load(target)


if __name__ == "__main__":
    onnxruntime.set_seed(0)
    for name, variant in VARIANTS.items():
        keep(f"onnxruntime_{name}", quantized(variant), f"onnxruntime.quantization {onnxruntime.__version__}")
