"""Models quantized by NNCF's ONNX backend.

Run: pip install nncf onnx onnxruntime; python scripts/foreign_models/by_nncf.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import nncf
import onnx
from float_networks import detector, mobilenet, pools_and_products, resnet
from graph import images
from keep import keep
from nncf import QuantizationPreset
from nncf.quantization.advanced_parameters import AdvancedQuantizationParameters, OverflowFix

CALIBRATION_IMAGES = 16


@dataclass(frozen=True)
class Variant:
    """How one model is made: arguments of nncf.quantize, by the names that they have there."""

    network: Callable[[], onnx.ModelProto]
    preset: QuantizationPreset
    overflow_fix: OverflowFix = OverflowFix.FIRST_LAYER
    fast_bias_correction: bool = True


PERFORMANCE, MIXED = QuantizationPreset.PERFORMANCE, QuantizationPreset.MIXED

VARIANTS = {
    "resnet_performance": Variant(resnet, PERFORMANCE),
    "resnet_mixed": Variant(resnet, MIXED),
    "resnet_mixed_full_range": Variant(resnet, MIXED, overflow_fix=OverflowFix.DISABLE),
    "resnet_bias_by_layer": Variant(resnet, PERFORMANCE, fast_bias_correction=False),
    "mobilenet_performance": Variant(mobilenet, PERFORMANCE),
    "mobilenet_mixed": Variant(mobilenet, MIXED),
    "detector_mixed": Variant(detector, MIXED),
    "pools_performance": Variant(pools_and_products, PERFORMANCE),
}


def quantized(variant: Variant) -> onnx.ModelProto:
    feeds = [{"image": image[None]} for image in images(CALIBRATION_IMAGES, seed=100)]
    return nncf.quantize(
        variant.network(),
        nncf.Dataset(feeds),
        preset=variant.preset,
        subset_size=CALIBRATION_IMAGES,
        fast_bias_correction=variant.fast_bias_correction,
        advanced_parameters=AdvancedQuantizationParameters(overflow_fix=variant.overflow_fix),
    )


if __name__ == "__main__":
    for name, variant in VARIANTS.items():
        keep(f"nncf_{name}", quantized(variant), f"nncf {nncf.__version__}")
