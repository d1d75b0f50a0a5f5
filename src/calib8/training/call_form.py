"""How the user's forward is called, and which of its arguments the traced graph takes.

    forward(x, mask=None, *, scale=1.0)     traced with x     graph(x)

What was not traced stayed at its default: it may be given as that, by place or by name.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from calib8.errors import UsageError


@dataclass(frozen=True)
class CallForm:
    """Arguments of a forward.

    Attributes:
        name: of the user's class.
        signature: of its forward, without annotations.
        traced: names of its arguments that are inputs of the graph, in their order; those that ``*args``
            collects are called ``args_0``, ``args_1`` …
    """

    name: str
    signature: inspect.Signature
    traced: tuple[str, ...]

    def inputs(self, given: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """Inputs of the graph for a call of forward.

        Raises:
            TypeError: forward itself does not take these arguments.
            UsageError: one that was not traced has another value than its default.
        """
        bound = self.signature.bind(*given, **named)
        bound.apply_defaults()
        values: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            value = bound.arguments[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                values |= {f"{name}_{index}": one for index, one in enumerate(value)}
            elif parameter.kind is parameter.VAR_KEYWORD:
                values |= value
            elif name in self.traced or not _same(value, parameter.default):
                values[name] = value
        for name in values:
            if name not in self.traced:
                raise UsageError(
                    self.name,
                    f"was traced without '{name}'; its graph has what forward does without",
                    "Prepare a module whose forward gives it, and leave it out here",
                )
        return [values[name] for name in self.traced]


def call_form(module: nn.Module, traced: tuple[str, ...]) -> CallForm:
    """The form of a module's forward.

    Args:
        module: the user's module.
        traced: see ``CallForm``.
    """
    found = inspect.signature(module.forward)
    parameters = [one.replace(annotation=one.empty) for one in found.parameters.values()]
    return CallForm(type(module).__name__, inspect.Signature(parameters), traced)


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, torch.Tensor) or isinstance(default, torch.Tensor):
        return value is default
    return type(value) is type(default) and bool(value == default)
