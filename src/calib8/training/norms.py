"""BatchNorms behind products, as modules and as functions of parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

ARGUMENTS: Final = (
    "input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"
)  # fmt: skip
"""Of ``torch.nn.functional.batch_norm``, in order."""


class Norm(Protocol):
    """What a layer asks of the BatchNorm behind it; modules of ``torch.nn`` answer it."""

    running_mean: Tensor | None
    running_var: Tensor | None
    weight: Tensor | None
    bias: Tensor | None
    training: bool
    eps: float

    def __call__(self, x: Tensor, /) -> Tensor:
        """Normalizes with the statistics of the batch in training, which move the stored ones."""


@dataclass
class FunctionalNorm:
    """A call of ``torch.nn.functional.batch_norm`` without its input; attributes as its arguments."""

    running_mean: Tensor | None
    running_var: Tensor | None
    weight: Tensor | None = None
    bias: Tensor | None = None
    training: bool = False
    momentum: float = 0.1
    eps: float = 1e-5

    def __call__(self, x: Tensor, /) -> Tensor:
        """Normalizes [N, C, …]."""
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum,
            self.eps,
        )  # fmt: skip


def is_norm(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether an fx node is a BatchNorm with stored statistics, which can be folded.

    Args:
        node: a node of a traced module.
        modules: its modules by path.
    """
    if node.op == "call_module":
        module = modules[str(node.target)]
        return isinstance(module, _BatchNorm) and module.running_mean is not None
    if node.op != "call_function" or node.target is not F.batch_norm:
        return False
    given = named_arguments(node)
    tensors = [given.get(name) for name in ARGUMENTS[1:5]]
    stored = all(one is None or (isinstance(one, fx.Node) and one.op == "get_attr") for one in tensors)
    return stored and tensors[0] is not None and tensors[1] is not None


def named_arguments(node: fx.Node) -> dict[str, Any]:
    """Arguments of a call of ``torch.nn.functional.batch_norm`` but the input, by name."""
    given = dict(zip(ARGUMENTS, node.args, strict=False)) | dict(node.kwargs)
    return {name: value for name, value in given.items() if name != "input"}


def mean_path(node: fx.Node) -> str:
    """Where the moving mean of a BatchNorm lies in the module: an attribute path."""
    if node.op == "call_module":
        return f"{node.target}.running_mean"
    return str(named_arguments(node)["running_mean"].target)


def affine(norm: Norm) -> tuple[Tensor, Tensor]:
    """k = γ/√(σ²+ε), d = β − μ·k of the moving statistics, float64 [C]; ε is the float32 that ONNX stores."""
    assert norm.running_mean is not None and norm.running_var is not None
    deviation = torch.sqrt(norm.running_var.double() + float(np.float32(norm.eps)))
    gamma = torch.ones_like(deviation) if norm.weight is None else norm.weight.double()
    k = gamma / deviation
    beta = torch.zeros_like(k) if norm.bias is None else norm.bias.double()
    return k, beta - norm.running_mean.double() * k
