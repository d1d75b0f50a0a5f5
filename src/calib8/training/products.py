"""Products with weights, as modules and as functions: what a layer does once its weights are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from calib8.modules.calls import NAMES, argument

CONVOLUTIONS: Final[dict[type[nn.Module], Any]] = {
    nn.Conv1d: F.conv1d,
    nn.Conv2d: F.conv2d,
    nn.Conv3d: F.conv3d,
}
TRANSPOSED: Final[dict[type[nn.Module], Any]] = {
    nn.ConvTranspose1d: F.conv_transpose1d,
    nn.ConvTranspose2d: F.conv_transpose2d,
    nn.ConvTranspose3d: F.conv_transpose3d,
}
CHANNEL_AXES: Final[dict[Any, int]] = {
    F.linear: 0,
    **dict.fromkeys(CONVOLUTIONS.values(), 0),
    **dict.fromkeys(TRANSPOSED.values(), 1),
}
"""Function (input, weight, bias, …) → output-channel axis of its weight."""


@dataclass(frozen=True)
class Product:
    """A convolution or a matrix product, without its weights.

    Attributes:
        function: key of ``CHANNEL_AXES``.
        arguments: what follows input, weight and bias.
        named: the same by name.
        pad: amounts and mode of a border that is no zeros, in the order of ``torch.nn.functional.pad``.
        groups: of a transposed convolution: how many output channels stand behind an entry of the axis.
    """

    function: Any
    arguments: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()
    pad: tuple[list[int], str] | None = None
    groups: int = 1

    @property
    def axis(self) -> int:
        """Output-channel axis of the weight."""
        return CHANNEL_AXES[self.function]

    @property
    def channels_last(self) -> bool:
        """Whether the last axis of the result has its channels, not axis 1."""
        return self.function is F.linear

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The product of an input with these weights."""
        if self.pad is not None:
            x = F.pad(x, self.pad[0], mode=self.pad[1])
        result: Tensor = self.function(x, weight, bias, *self.arguments, **dict(self.named))
        return result


def is_product(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether an fx node multiplies with weights that are parameters, or computed from parameters alone.

    Args:
        node: a node of a traced module.
        modules: its modules by path.
    """
    if node.op == "call_module":
        plain = len(node.args) + len(node.kwargs) == 1  # no output_size
        return plain and _multiplies(modules[str(node.target)])
    if node.op != "call_function" or node.target not in CHANNEL_AXES:
        return False
    weight, bias = argument(node, 1), argument(node, 2)
    known = bias is None or (isinstance(bias, fx.Node) and _is_constant(bias))
    return known and isinstance(weight, fx.Node) and _is_constant(weight)


def _is_constant(node: fx.Node) -> bool:
    """Whether a node depends on parameters and buffers alone: a weight, or one that is standardized first."""
    waiting, seen = [node], {node}
    while waiting:
        one = waiting.pop()
        if one.op not in ("get_attr", "call_function", "call_method"):
            return False
        waiting += [source for source in one.all_input_nodes if source not in seen]
        seen.update(one.all_input_nodes)
    return True


def _multiplies(module: nn.Module) -> bool:
    """Whether a module is a layer of torch.nn, or of a subclass that multiplies as it does."""
    kinds = (*CONVOLUTIONS, *TRANSPOSED, nn.Linear)
    kind = next((one for one in kinds if isinstance(module, one)), None)
    same = ("forward", "_conv_forward", "_output_padding")
    return kind is not None and all(
        getattr(type(module), name, None) is getattr(kind, name, None) for name in same
    )


def product_of(node: fx.Node, modules: Mapping[str, nn.Module]) -> Product:
    """How an fx node multiplies; see ``is_product``."""
    if node.op == "call_module":
        return _of_module(modules[str(node.target)])
    named = tuple((name, value) for name, value in node.kwargs.items() if name not in NAMES)
    product = Product(node.target, tuple(node.args[3:]), named)
    if product.axis == 0:
        return product
    position = 6 - 3  # (input, weight, bias, stride, padding, output_padding, groups, dilation)
    groups: Any = dict(named).get("groups", 1)
    if len(product.arguments) > position:
        groups = product.arguments[position]
    return Product(product.function, product.arguments, named, groups=int(groups))


def _of_module(module: nn.Module) -> Product:
    if isinstance(module, nn.Linear):
        return Product(F.linear)
    assert isinstance(module, _ConvNd)
    if isinstance(module, _ConvTransposeNd):
        function = next(TRANSPOSED[kind] for kind in TRANSPOSED if isinstance(module, kind))
        arguments = (
            module.stride, module.padding, module.output_padding, module.groups, module.dilation
        )  # fmt: skip
        return Product(function, arguments, groups=module.groups)
    function = next(CONVOLUTIONS[kind] for kind in CONVOLUTIONS if isinstance(module, kind))
    padding: Any = module.padding
    pad = None
    if module.padding_mode != "zeros":
        pad = (list(module._reversed_padding_repeated_twice), module.padding_mode)
        padding = tuple(0 for _ in module.kernel_size)
    return Product(function, (module.stride, padding, module.dilation, module.groups), pad=pad)


def weight_nodes(node: fx.Node) -> tuple[fx.Node | str, fx.Node | str | None]:
    """Weight and bias of a product: nodes that yield them, of a module their attribute paths."""
    if node.op == "call_module":
        return f"{node.target}.weight", f"{node.target}.bias"
    return argument(node, 1), argument(node, 2)


def evaluated(module: nn.Module, value: Any) -> Any:
    """What a node yields that depends on parameters and buffers alone; paths are looked up, others stay.

    Args:
        module: holds them.
        value: an fx node, or an argument of one.
    """
    if not isinstance(value, fx.Node):
        return value
    if value.op == "get_attr":
        return attribute(module, str(value.target))
    args = fx.node.map_arg(value.args, lambda one: evaluated(module, one))
    named = fx.node.map_arg(value.kwargs, lambda one: evaluated(module, one))
    if value.op == "call_method":
        return getattr(args[0], str(value.target))(*args[1:], **named)
    assert callable(value.target)
    return value.target(*args, **named)


def attribute(module: nn.Module, path: str) -> Any:
    """A parameter, buffer or module by its path."""
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name)
    return found
