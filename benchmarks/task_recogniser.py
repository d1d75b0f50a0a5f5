"""A text recogniser for ``task_networks.py``: convolutions, two LSTM layers in both directions, CTC.

    lines         the ``labels`` of ``task_pictures.py``, 32×128 pixels
    convolutions  16, 32, 64, 64, 128, 128 channels with BatchNormalization and ReLU, to a row of 32 steps
    LSTM          128 units in each direction, twice, with a layer of 128 between them
    logits        37 a step, [N, 32, 37]; the blank is 0

The form is that of Shi, Bai and Yao, *An End-to-End Trainable Neural Network for Image-based Sequence
Recognition* (2015), with a quarter of its channels. It is trained on lines that are drawn for it, which takes
half an hour on one core. Another machine gets slightly other weights: sums of other threads round otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from task_pictures import LABEL, LABEL_SIGNS, MOST_SIGNS, label

BATCH: Final = 64
STEPS: Final = 5000
RATE: Final = 2e-3
SEED: Final = 8
DRAWN: Final = 40_000
"""Lines that are trained with, shifted and inverted at random every time."""


class Recogniser(nn.Module):
    """Lines [N, 1, 32, 128], in −1 … 1 → logits [N, 32, 37]."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_layer(1, 16), nn.MaxPool2d(2), *_layer(16, 32), nn.MaxPool2d(2), *_layer(32, 64),
            *_layer(64, 64), nn.MaxPool2d((2, 1)), *_layer(64, 128), nn.MaxPool2d((2, 1)),
            nn.Conv2d(128, 128, (2, 1), bias=False), nn.BatchNorm2d(128), nn.ReLU(),
        )  # fmt: skip
        self.first = nn.LSTM(128, 128, bidirectional=True)
        self.between = nn.Linear(256, 128)
        self.second = nn.LSTM(128, 128, bidirectional=True)
        self.logits = nn.Linear(256, len(LABEL_SIGNS) + 1)

    def forward(self, lines: torch.Tensor) -> torch.Tensor:
        steps = self.features(lines).squeeze(2).permute(2, 0, 1)
        steps = self.between(self.first(steps)[0])
        return self.logits(self.second(steps)[0]).permute(1, 0, 2)


def _layer(inputs: int, outputs: int) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]


def recogniser(output: Path, steps: int = STEPS, count: int = DRAWN) -> None:
    """Trains the network and writes its ONNX file, with a free batch.

    Args:
        output: the file to write.
        steps: of training, with 64 lines each.
        count: lines that are drawn.
    """
    torch.manual_seed(SEED)
    random = np.random.default_rng(SEED)
    network = trained(Recogniser(), lines_with_signs(count, random), steps, random)
    torch.onnx.export(
        network.eval(), (torch.zeros(2, 1, *LABEL[::-1]),), output, dynamo=False, input_names=["line"],
        output_names=["logits"], dynamic_axes={"line": {0: "N"}, "logits": {0: "N"}}, opset_version=17,
    )  # fmt: skip


def lines_with_signs(
    count: int, random: np.random.Generator
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Lines [n, 32, 128], numbers of their signs from 1 [n, 8] (0 behind the last), and how many."""
    lines = np.empty((count, *LABEL[::-1]), np.uint8)
    signs, lengths = np.zeros((count, MOST_SIGNS), np.int64), np.empty(count, np.int64)
    for number in range(count):
        said, picture = label(random)
        lines[number], lengths[number] = np.asarray(picture), len(said)
        signs[number, : len(said)] = [LABEL_SIGNS.index(sign) + 1 for sign in said]
    return lines, signs, lengths


def trained(
    network: Recogniser,
    examples: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]],
    steps: int,
    random: np.random.Generator,
) -> Recogniser:
    """The network after so many steps of Adam, one cycle of rates."""
    lines, signs, lengths = examples
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    loss_of = nn.CTCLoss(zero_infinity=True)
    for step in range(steps):
        chosen = random.integers(0, len(lines), BATCH)
        moved = np.roll(lines[chosen], (random.integers(-2, 3), random.integers(-2, 3)), (1, 2))
        inputs = torch.from_numpy((moved[:, None].astype(np.float32) - 127.5) / 127.5)
        logits = network(inputs).log_softmax(2).permute(1, 0, 2)
        sizes = torch.full((BATCH,), logits.shape[0], dtype=torch.int64)
        loss = loss_of(logits, torch.from_numpy(signs[chosen]), sizes, torch.from_numpy(lengths[chosen]))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        rates.step()
        if step % 200 == 199:
            print(f"step {step + 1}: loss {float(loss.detach()):.3f}", flush=True)
    return network
