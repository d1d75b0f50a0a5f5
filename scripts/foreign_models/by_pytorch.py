"""Models that PyTorch's exporters write: fake quantization by hand, torch.ao's QAT modules, torchao's PT2E.

Run: pip install torch==2.13.0 onnx onnxruntime onnxscript; pip install --no-deps torchao;
python scripts/foreign_models/by_pytorch.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
import torch
import torchao
from graph import CLASSES, images
from keep import keep
from torch import nn
from torch.ao.quantization import QConfig, prepare_qat
from torch.ao.quantization.fake_quantize import FakeQuantize, default_per_channel_weight_fake_quant
from torch.ao.quantization.observer import MovingAverageMinMaxObserver
from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)

CALIBRATION_IMAGES = 16


class Block(nn.Module):
    """Two 3×3 convolutions with batch norm, added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = (
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()
        self.add = torch.ao.nn.quantized.FloatFunctional()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(self.add.add(y, x))


class Network(nn.Module):
    """Stem, one block, a depthwise and a pointwise convolution, mean and linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.input = torch.ao.quantization.QuantStub()
        self.stem, self.stem_bn, self.stem_relu = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU()
        self.block = Block(8)
        self.pool = nn.MaxPool2d(2)
        self.deep, self.deep_bn = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8)
        self.point, self.point_relu = nn.Conv2d(8, 16, 1), nn.ReLU6()
        self.mean, self.flat = nn.AdaptiveAvgPool2d(1), nn.Flatten()
        self.head = decisive(nn.Linear(16, CLASSES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem_relu(self.stem_bn(self.stem(self.input(x))))
        x = self.deep_bn(self.deep(self.pool(self.block(x))))
        x = self.point_relu(self.point(x))
        return self.head(self.flat(self.mean(x)))


def trained(network: nn.Module) -> nn.Module:
    """Batch norms of uneven scale with the statistics of the calibration images, as training leaves them."""
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.weight.uniform_(0.6, 1.4)
                layer.bias.uniform_(-0.3, 0.3)
        network.train()
        for _ in range(20):
            network(calibration_images())
    return network.eval()


def calibration_images() -> torch.Tensor:
    return torch.from_numpy(images(CALIBRATION_IMAGES, seed=100))


def decisive(head: nn.Linear) -> nn.Linear:
    """Rows of weights that sum to 0, and larger ones: what all features share then decides no class."""
    with torch.no_grad():
        head.weight.copy_(4 * (head.weight - head.weight.mean(1, keepdim=True)))
    return head


class FakeQuantizedConv(nn.Module):
    """Weights rounded per output channel (or per tensor), the result rounded per tensor to int8 or uint8."""

    def __init__(
        self, layer: nn.Conv2d | nn.Linear, per_channel: bool, unsigned: bool, largest: float
    ) -> None:
        super().__init__()
        self.layer, self.per_channel, self.unsigned = layer, per_channel, unsigned
        rows = layer.weight.detach().abs().flatten(1).amax(1)
        self.weight_scale = float(rows.max()) / 127
        self.register_buffer("scales", rows / 127)
        self.register_buffer("zero_points", torch.zeros_like(self.scales, dtype=torch.int32))
        self.scale = largest / (255 if unsigned else 127)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.per_channel:
            weight = torch.fake_quantize_per_channel_affine(
                self.layer.weight, self.scales, self.zero_points, 0, -128, 127
            )
        else:
            weight = torch.fake_quantize_per_tensor_affine(self.layer.weight, self.weight_scale, 0, -128, 127)
        if isinstance(self.layer, nn.Linear):
            y = nn.functional.linear(x, weight, self.layer.bias)
        else:
            y = torch.relu(nn.functional.conv2d(x, weight, self.layer.bias, self.layer.stride, 1))
        low, high = (0, 255) if self.unsigned else (-128, 127)
        return torch.fake_quantize_per_tensor_affine(y, self.scale, 0, low, high)


class FakeQuantized(nn.Module):
    """Three layers written with torch.fake_quantize_per_*_affine by hand, as training code does."""

    def __init__(self, per_channel: bool, unsigned: bool) -> None:
        super().__init__()
        self.conv1 = FakeQuantizedConv(nn.Conv2d(3, 8, 3, 2), per_channel, unsigned, 2.5)
        self.conv2 = FakeQuantizedConv(nn.Conv2d(8, 16, 3, 2), per_channel, unsigned, 1.5)
        self.head = FakeQuantizedConv(decisive(nn.Linear(16, CLASSES)), per_channel, False, 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.fake_quantize_per_tensor_affine(x, 1 / 127, 0, -128, 127)
        x = self.conv2(self.conv1(x)).mean((2, 3))
        return self.head(torch.fake_quantize_per_tensor_affine(x, 0.006, 0, -128, 127))


def exported(model: nn.Module, dynamo: bool, opset: int) -> onnx.ModelProto:
    """By the exporter of torch.export (``dynamo``) or by that of TorchScript."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        torch.onnx.export(
            model,
            (calibration_images()[:1],),
            str(path),
            dynamo=dynamo,
            opset_version=opset,
            input_names=["image"],
            output_names=["logits"],
            external_data=False,
        )
        return onnx.load(path)


def qat_model(qconfig: QConfig) -> nn.Module:
    """torch.ao's eager QAT: its fused Conv + BatchNorm modules, scales seen on the calibration images."""
    network = trained(Network()).train()
    groups = [["stem", "stem_bn", "stem_relu"], ["block.conv1", "block.bn1", "block.relu1"],
              ["block.conv2", "block.bn2"], ["deep", "deep_bn"]]  # fmt: skip
    torch.ao.quantization.fuse_modules_qat(network, groups, inplace=True)
    network.qconfig = qconfig
    prepare_qat(network, inplace=True)
    network(calibration_images())
    network.apply(torch.ao.quantization.disable_observer)
    return network.eval()


def qconfig(lowest: int, largest: int, dtype: torch.dtype, scheme: torch.qscheme) -> QConfig:
    """Activations of that range and int8 weights per channel."""
    activation = FakeQuantize.with_args(
        observer=MovingAverageMinMaxObserver, quant_min=lowest, quant_max=largest, dtype=dtype, qscheme=scheme
    )
    return QConfig(activation=activation, weight=default_per_channel_weight_fake_quant)


SYMMETRIC = qconfig(-128, 127, torch.qint8, torch.per_tensor_symmetric)
SEVEN_BITS = qconfig(0, 127, torch.quint8, torch.per_tensor_affine)  # fbgemm's: Q, Clip to 127, DQ in ONNX


def pt2e_model() -> nn.Module:
    """torchao's PT2E flow with the quantizer for x86: uint8 activations, int8 weights per channel."""
    network = trained(Network())
    sample = (calibration_images()[:1],)
    quantizer = X86InductorQuantizer()
    quantizer.set_global(get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(torch.export.export(network, sample).module(), quantizer)
    for image in calibration_images():
        prepared(image[None])
    return move_exported_model_to_eval(convert_pt2e(prepared))


MODELS = {
    "fake_quantize_tensor": lambda: exported(FakeQuantized(False, False), dynamo=True, opset=18),
    "fake_quantize_channel": lambda: exported(FakeQuantized(True, True), dynamo=True, opset=21),
    "fake_quantize_script": lambda: exported(FakeQuantized(True, True), dynamo=False, opset=13),
    "qat_symmetric": lambda: exported(qat_model(SYMMETRIC), dynamo=False, opset=17),
    "qat_seven_bits": lambda: exported(qat_model(SEVEN_BITS), dynamo=False, opset=17),
    "pt2e_x86": lambda: exported(pt2e_model(), dynamo=True, opset=18),
}


if __name__ == "__main__":
    for name, make in MODELS.items():
        torch.manual_seed(0)
        tool = f"torch {torch.__version__}" + (f", torchao {torchao.__version__}" if "pt2e" in name else "")
        keep(f"pytorch_{name}", make(), tool)
