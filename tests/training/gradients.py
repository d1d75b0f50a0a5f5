"""What tests of gradients share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


def gradient(function: Callable[[Tensor], Tensor], x: Tensor, grad: Tensor | None = None) -> Tensor:
    """What arrives at x for ``grad`` behind the function; ones by default."""
    x = x.detach().requires_grad_()
    y = function(x)
    (dx,) = torch.autograd.grad(y, x, torch.ones_like(y) if grad is None else grad)
    return dx


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def neighbours(border: float) -> Tensor:
    """A float32 value between the one below and the one above."""
    at = np.float32(border)
    return torch.tensor([np.nextafter(at, np.float32(-np.inf)), at, np.nextafter(at, np.float32(np.inf))])
