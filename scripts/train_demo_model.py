"""Trains the small CNN that ``calib8 demo`` quantizes, and writes it with its images.

Run, from the root of the source tree:

    pip install -e .[train-demo] torch
    python scripts/train_demo_model.py                  # overwrites the files in src/calib8/demo
    python scripts/train_demo_model.py --output FOLDER  # writes them elsewhere

It writes ``digits.onnx``, ``digits_calibration.npz`` and ``digits_heldout.npz`` (see ``calib8.demo`` for
what is in them) and prints the held-out accuracy. It takes less than a minute on one core. PyTorch is needed
here only; calib8 itself never imports it. The ONNX graph is built node by node from the trained weights,
not by an exporter, and nothing is written unless ONNX Runtime computes what PyTorch computes.

Data: ``sklearn.datasets.load_digits``, 1,797 images, which is the test set of E. Alpaydin and C. Kaynak,
Optical Recognition of Handwritten Digits (UCI Machine Learning Repository, 1998,
https://doi.org/10.24432/C50P49, licence CC BY 4.0); scikit-learn carries the copy.

Split: stratified by digit with seed 2026: 500 images held out, 1,297 to train on; 100 of the latter, ten of
each digit, are the calibration images. Every random number comes from that seed, and training runs in one
thread: the same machine with the same package versions writes the same bytes again.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional

from calib8 import demo
from calib8.files import atomic_output

SEED = 2026
HELDOUT_IMAGES = 500
CALIBRATION_PER_DIGIT = 10
EPOCHS = 40
BATCH_SIZE = 64
PEAK_LEARNING_RATE = 0.01
WEIGHT_DECAY = 1e-3
REQUIRED_ACCURACY = 0.98
LARGEST_DIFFERENCE = 1e-4  # of a logit, PyTorch against ONNX Runtime; logits reach about 5
OPSET = 17
BATCH_NORM_EPSILON = 1e-5
IR_VERSION = 8  # the one that belongs to opset 17, so that old runtimes take the file


@dataclass(frozen=True)
class Layer:
    """One ONNX node; it makes one tensor, which has the node's name.

    Attributes:
        name: of the node and of its output.
        op: ONNX operator.
        inputs: names of the tensors it reads, weights excluded.
        channels: channels in and out (features, for Gemm); (0, 0) for ops without weights.
        kernel: height and width of a window; convolutions pad by half of it, pools do not pad.
        stride: of the window, both ways.
        groups: of a convolution.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    channels: tuple[int, int] = (0, 0)
    kernel: int = 1
    stride: int = 1
    groups: int = 1


def conv_batch_norm(
    name: str, source: str, channels: tuple[int, int], kernel: int = 3, stride: int = 1, groups: int = 1
) -> tuple[Layer, Layer]:
    """Convolution and batch normalization; the result is ``<name>_bn``."""
    width = (channels[1], channels[1])
    return (
        Layer(name, "Conv", (source,), channels, kernel, stride, groups),
        Layer(f"{name}_bn", "BatchNormalization", (name,), width),
    )


def relu(name: str, source: str) -> Layer:
    """Rectifier; the result is ``name``."""
    return Layer(name, "Relu", (source,))


# The one definition of the network: PyTorch trains this list and the ONNX graph is built from it.
NETWORK: tuple[Layer, ...] = (
    *conv_batch_norm("stem/conv", "input", (1, 16)),
    relu("stem/relu", "stem/conv_bn"),
    # Depthwise and pointwise: 16×16 becomes 8×8.
    *conv_batch_norm("block1/depthwise", "stem/relu", (16, 16), stride=2, groups=16),
    relu("block1/depthwise_relu", "block1/depthwise_bn"),
    *conv_batch_norm("block1/pointwise", "block1/depthwise_relu", (16, 32), kernel=1),
    relu("block1/pointwise_relu", "block1/pointwise_bn"),
    # Residual.
    *conv_batch_norm("block2/conv1", "block1/pointwise_relu", (32, 32)),
    relu("block2/conv1_relu", "block2/conv1_bn"),
    *conv_batch_norm("block2/conv2", "block2/conv1_relu", (32, 32)),
    Layer("block2/add", "Add", ("block2/conv2_bn", "block1/pointwise_relu")),
    relu("block2/relu", "block2/add"),
    # 8×8 becomes 4×4, then two branches side by side.
    Layer("block3/pool", "MaxPool", ("block2/relu",), kernel=2, stride=2),
    *conv_batch_norm("block3/narrow", "block3/pool", (32, 16), kernel=1),
    relu("block3/narrow_relu", "block3/narrow_bn"),
    *conv_batch_norm("block3/wide", "block3/pool", (32, 32)),
    relu("block3/wide_relu", "block3/wide_bn"),
    Layer("block3/concat", "Concat", ("block3/narrow_relu", "block3/wide_relu")),
    Layer("head/pool", "GlobalAveragePool", ("block3/concat",)),
    Layer("head/flatten", "Flatten", ("head/pool",)),
    Layer("logits", "Gemm", ("head/flatten",), (48, demo.CLASS_COUNT)),
)


@dataclass(frozen=True)
class Digits:
    """Images (uint8, N×H×W×1) and their digits (int64, N)."""

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]

    def save(self, path: Path) -> None:
        with atomic_output(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, images=self.images, labels=self.labels)


def enlarged(image: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """An 8×8 image of 0 … 16 as uint8 pixels of 0 … 255 at the size of the network's input."""
    height, width = demo.IMAGE_SIZE
    pixels = Image.fromarray(np.rint(image * (255 / 16)).astype(np.uint8))
    return np.asarray(pixels.resize((width, height), Image.Resampling.BILINEAR))


def load_splits() -> tuple[Digits, Digits, Digits]:
    """Training, calibration (a part of training) and held-out images."""
    source = load_digits()
    images = np.stack([enlarged(image) for image in source.images])[..., np.newaxis]
    labels = source.target.astype(np.int64)
    train, heldout = train_test_split(
        np.arange(len(labels)), test_size=HELDOUT_IMAGES, stratify=labels, random_state=SEED
    )
    chosen = [train[labels[train] == digit][:CALIBRATION_PER_DIGIT] for digit in range(demo.CLASS_COUNT)]
    calibration = np.sort(np.concatenate(chosen))
    heldout = np.sort(heldout)
    return (
        Digits(images[train], labels[train]),
        Digits(images[calibration], labels[calibration]),
        Digits(images[heldout], labels[heldout]),
    )


def network_input(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """uint8 N×H×W×1 to the float32 N×1×H×W that the network takes."""
    values = (images.astype(np.float32) - np.float32(demo.PIXEL_MEAN)) * np.float32(demo.PIXEL_SCALE)
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2))


class TorchNetwork(nn.Module):
    """``NETWORK`` in PyTorch: float32 N×1×H×W to logits N×10."""

    def __init__(self) -> None:
        super().__init__()
        made = {layer.name: torch_module(layer) for layer in NETWORK}
        self.layers = nn.ModuleDict({name: module for name, module in made.items() if module is not None})

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        tensors = {"input": values}
        for layer in NETWORK:
            sources = [tensors[name] for name in layer.inputs]
            match layer.op:
                case "Add":
                    tensors[layer.name] = sources[0] + sources[1]
                case "Concat":
                    tensors[layer.name] = torch.cat(sources, dim=1)
                case _:
                    tensors[layer.name] = self.layers[layer.name](sources[0])
        return tensors["logits"]


def torch_module(layer: Layer) -> nn.Module | None:
    """The PyTorch module of a layer with one input, None for Add and Concat."""
    incoming, outgoing = layer.channels
    match layer.op:
        case "Conv":
            return nn.Conv2d(
                incoming,
                outgoing,
                layer.kernel,
                layer.stride,
                padding=layer.kernel // 2,
                groups=layer.groups,
                bias=False,  # the batch normalization that follows has one
            )
        case "BatchNormalization":
            return nn.BatchNorm2d(outgoing, eps=BATCH_NORM_EPSILON)
        case "Relu":
            return nn.ReLU()
        case "MaxPool":
            return nn.MaxPool2d(layer.kernel, layer.stride)
        case "GlobalAveragePool":
            return nn.AdaptiveAvgPool2d(1)
        case "Flatten":
            return nn.Flatten()
        case "Gemm":
            return nn.Linear(incoming, outgoing)
        case "Add" | "Concat":
            return None
        case _:
            raise ValueError(f"{layer.name}: no PyTorch module for {layer.op}")


def distorted(images: torch.Tensor) -> torch.Tensor:
    """Each image turned by ±12°, scaled by ±10 % and moved by up to 1 pixel each way, at random.

    Takes and gives N×1×H×W network inputs; what moves in from outside is paper.
    """
    count, _, height, _ = images.shape
    angle = (torch.rand(count) * 2 - 1) * (12 * torch.pi / 180)
    size = 1 + (torch.rand(count) * 2 - 1) * 0.1
    shift = (torch.rand(count, 2) * 2 - 1) * (2 / height)  # the image spans 2 units
    cosine, sine = size * torch.cos(angle), size * torch.sin(angle)
    rows = [torch.stack([cosine, -sine, shift[:, 0]], 1), torch.stack([sine, cosine, shift[:, 1]], 1)]
    grid = functional.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    paper = -demo.PIXEL_MEAN * demo.PIXEL_SCALE
    return functional.grid_sample(images - paper, grid, align_corners=False) + paper


def train(data: Digits) -> TorchNetwork:
    """The trained network, in inference mode."""
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # sums depend on the number of threads
    inputs, labels = torch.from_numpy(network_input(data.images)), torch.from_numpy(data.labels)
    network = TorchNetwork()
    optimizer = torch.optim.AdamW(network.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = len(labels) // BATCH_SIZE  # the incomplete last batch is left out: shuffling makes up for it
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_LEARNING_RATE, total_steps=EPOCHS * steps)
    network.train()
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in torch.randperm(len(labels))[: steps * BATCH_SIZE].view(steps, BATCH_SIZE):
            optimizer.zero_grad()
            loss = functional.cross_entropy(
                network(distorted(inputs[batch])), labels[batch], label_smoothing=0.05
            )
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1:2} of {EPOCHS}: loss {total / steps:.4f}", flush=True)
    return network.eval()


def onnx_attributes(layer: Layer) -> dict[str, int | float | list[int]]:
    """Attributes of the layer's ONNX node."""
    window = {"kernel_shape": [layer.kernel] * 2, "strides": [layer.stride] * 2}
    match layer.op:
        case "Conv":
            return {**window, "pads": [layer.kernel // 2] * 4, "group": layer.groups}
        case "BatchNormalization":
            return {"epsilon": BATCH_NORM_EPSILON}
        case "MaxPool":
            return window
        case "Concat" | "Flatten":
            return {"axis": 1}
        case "Gemm":
            return {"transB": 1}
        case _:
            return {}


def onnx_parameters(layer: Layer, network: TorchNetwork) -> list[TensorProto]:
    """Trained parameters of the layer, in the order in which the ONNX operator takes them."""
    order = {
        "Conv": ("weight",),
        "BatchNormalization": ("weight", "bias", "running_mean", "running_var"),
        "Gemm": ("weight", "bias"),
    }
    if layer.op not in order:
        return []
    state = network.layers[layer.name].state_dict()
    return [numpy_helper.from_array(state[key].numpy(), f"{layer.name}.{key}") for key in order[layer.op]]


def onnx_model(network: TorchNetwork) -> onnx.ModelProto:
    """The trained network as ONNX, batch normalization unfolded, the batch size free."""
    nodes, initializers = [], []
    for layer in NETWORK:
        parameters = onnx_parameters(layer, network)
        initializers += parameters
        inputs = [*layer.inputs, *(parameter.name for parameter in parameters)]
        name = "head/dense" if layer.name == "logits" else layer.name
        nodes.append(helper.make_node(layer.op, inputs, [layer.name], name, **onnx_attributes(layer)))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 1, *demo.IMAGE_SIZE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", demo.CLASS_COUNT])],
        initializers,
        doc_string=f"Handwritten digits; input = (pixel - {demo.PIXEL_MEAN}) * {demo.PIXEL_SCALE}",
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="train_demo_model.py"
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def check(model: onnx.ModelProto, network: TorchNetwork, heldout: Digits) -> None:
    """Compares ONNX Runtime with PyTorch on the held-out images and prints the accuracy.

    Raises:
        SystemExit: they differ, or the accuracy is too low to ship.
    """
    inputs = network_input(heldout.images)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    logits = runtime.run(["logits"], {"input": inputs})[0]
    with torch.no_grad():
        expected = network(torch.from_numpy(inputs)).numpy()
    difference = float(np.abs(logits - expected).max())
    correct = int((logits.argmax(axis=1) == heldout.labels).sum())
    accuracy = correct / len(heldout.labels)
    print(f"largest difference of a logit, ONNX Runtime against PyTorch: {difference:.2e}")
    print(f"held-out accuracy: {accuracy:.2%} ({correct} of {len(heldout.labels)})")
    if not difference <= LARGEST_DIFFERENCE:
        raise SystemExit(f"ONNX Runtime and PyTorch differ by {difference}: the ONNX graph is wrong.")
    if accuracy < REQUIRED_ACCURACY:
        raise SystemExit(f"The accuracy is below {REQUIRED_ACCURACY:.0%}: nothing was written.")


def main() -> None:
    """Trains, checks, writes."""
    default = Path(__file__).resolve().parents[1] / "src" / "calib8" / "demo"
    parser = argparse.ArgumentParser(description="Trains the model of calib8 demo and writes its files.")
    parser.add_argument("--output", type=Path, default=default, help="folder for the three files")
    folder: Path = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    training, calibration, heldout = load_splits()
    network = train(training)
    model = onnx_model(network)
    check(model, network, heldout)
    calibration.save(folder / demo.CALIBRATION_PATH.name)
    heldout.save(folder / demo.HELDOUT_PATH.name)
    with atomic_output(folder / demo.MODEL_PATH.name) as temporary:
        temporary.write_bytes(model.SerializeToString(deterministic=True))
    for path in (demo.MODEL_PATH, demo.CALIBRATION_PATH, demo.HELDOUT_PATH):
        print(f"{folder / path.name}: {(folder / path.name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
