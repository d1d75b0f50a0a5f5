"""Modules of one function, traced and compared with what they were traced from."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from calib8.modules.example_inputs import tensors_in
from calib8.modules.tracing import TracingWarning, trace


def quietly_traced(module: nn.Module) -> torch.fx.GraphModule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracingWarning)
        return trace(module)


def line_of(function: Callable[..., Any], text: str) -> str:
    """``file:line`` of the first line of a function that holds a text."""
    lines, first = inspect.getsourcelines(function)
    [index] = [i for i, line in enumerate(lines) if text in line]
    return f"{inspect.getsourcefile(function)}:{first + index}"


class Of(nn.Module):
    """A module of one function, which gets the module and its input."""

    def __init__(self, function: Callable[[Any, Tensor], Any], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def same_as_the_module(module: nn.Module, *, training: bool, size: tuple[int, ...] = (2, 4, 6, 6)) -> None:
    traced = quietly_traced(module)
    x = torch.randn(size, generator=torch.Generator().manual_seed(3))
    results = []
    for one in (module.train(training), traced.train(training)):
        torch.manual_seed(5)
        results.append([*tensors_in(one(x.clone()))])
    assert len(results[0]) == len(results[1])
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*results, strict=True))
