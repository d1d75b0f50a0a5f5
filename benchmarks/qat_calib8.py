"""calib8's own training, and what runs its INT8 model: the integer engine behind a function of tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

import calib8
import calib8.training


def prepared(network: nn.Module, example: torch.Tensor, **options: Any) -> nn.Module:
    """The simulated network in training mode; options are those of ``calib8.training.prepare``."""
    return calib8.training.prepare(network.train(), example, **options)


def freeze(network: nn.Module) -> None:
    """Ranges and BatchNorm stay as they are."""
    calib8.training.freeze(network)


def converted(network: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """The INT8 model in the integer engine."""
    return in_engine(calib8.training.convert(network))


def in_engine(made: Any, threads: int = 2) -> Callable[[torch.Tensor], torch.Tensor]:
    """What runs the model of a ``Quantization`` (or of anything with ``save``)."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "int8.onnx"
        made.save(file)
        session = calib8.InferenceSession(file, threads=threads)
    name = session.get_inputs()[0].name

    def run(inputs: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(session.run(None, {name: inputs.contiguous().numpy()})[0])

    return run
