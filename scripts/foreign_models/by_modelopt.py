"""Models quantized by NVIDIA ModelOpt: its ONNX quantizer and its PyTorch quantizer with ONNX export.

Run: pip install --no-deps nvidia-modelopt; pip install torch "onnx~=1.21.0" "onnxruntime~=1.24.2"
onnx-graphsurgeon polygraphy onnxslim onnxscript onnxconverter-common lief cppimport nvidia-ml-py tqdm PyYAML
omegaconf "pulp<4" pydantic regex rich safetensors scipy requests huggingface_hub;
python scripts/foreign_models/by_modelopt.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import modelopt.torch.quantization as mtq
import onnx
import torch
from float_networks import detector, mobilenet, pools_and_products, resnet
from graph import CLASSES, images
from keep import keep
from modelopt.onnx.quantization import quantize
from torch import nn

CALIBRATION_IMAGES = 16


@dataclass(frozen=True)
class Variant:
    """How one model is made: arguments of modelopt.onnx.quantization.quantize, named as there."""

    network: Callable[[], onnx.ModelProto]
    calibration_method: str = "max"
    target_dla: bool = False


VARIANTS = {
    "resnet_max": Variant(resnet),
    "resnet_entropy": Variant(resnet, "entropy"),
    "resnet_dla": Variant(resnet, target_dla=True),
    "mobilenet_max": Variant(mobilenet),
    "detector_max": Variant(detector),
    "pools_max": Variant(pools_and_products),
}


def quantized(variant: Variant) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "float.onnx"), Path(folder, "int8.onnx")
        onnx.save(variant.network(), source)
        quantize(
            str(source),
            "int8",
            {"image": images(CALIBRATION_IMAGES, seed=100)},
            variant.calibration_method,
            calibration_eps=["cpu"],
            calibration_shapes="image:1x3x16x16",
            output_path=str(target),
            high_precision_dtype="fp32",
            target_dla=variant.target_dla,
            log_level="ERROR",
        )
        return onnx.load(target)


class Network(nn.Module):
    """Two convolutions, a residual addition and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, padding=1)
        self.pool, self.flat, self.head = nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        x = torch.relu(self.conv(x) + x)
        return self.head(self.flat(self.pool(x)))


def from_pytorch() -> onnx.ModelProto:
    """int8 default configuration of modelopt.torch, exported by the TorchScript exporter."""
    torch.manual_seed(0)
    data = torch.from_numpy(images(CALIBRATION_IMAGES, seed=100))
    network = mtq.quantize(Network().eval(), mtq.INT8_DEFAULT_CFG, lambda model: model(data))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        names = {"input_names": ["image"], "output_names": ["logits"]}
        torch.onnx.export(network, (data[:1],), str(path), dynamo=False, opset_version=17, **names)
        return onnx.load(path)


if __name__ == "__main__":
    tool = f"nvidia-modelopt {version('nvidia-modelopt')}"
    for name, variant in VARIANTS.items():
        keep(f"modelopt_{name}", quantized(variant), tool)
    keep("modelopt_pytorch", from_pytorch(), f"{tool}, torch {torch.__version__}")
