"""Linear layers on more than two axes as ONNX has them: a product, then the bias.

Linear(x) = x · Wᵀ + b       x [N, C]: one Gemm;  x [N, …, C]: MatMul and Add, with codes between them
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from calib8.modules.calls import argument
from calib8.modules.modes import OWNER, in_mode


def split_wide_linears(traced: fx.GraphModule, inputs: Sequence[Tensor]) -> int:
    """``Linear(x)`` on three or more axes, module or function → ``F.linear(x, W) + b``, in place.

    Args:
        traced: what ``trace`` returned; parameters and modules stay where they are.
        inputs: an example; only ranks matter.

    Returns:
        Number of layers split.
    """
    linears = [node for node in traced.graph.nodes if _is_linear(traced, node)]
    if not linears:
        return 0
    ranks = _Ranks(traced)
    with in_mode(traced, training=False), torch.no_grad():
        ranks.run(*inputs)
    wide = [node for node in linears if ranks.found.get(node.all_input_nodes[0], 0) > 2]
    for node in wide:
        _split(traced, node)
    traced.graph.lint()
    traced.recompile()
    return len(wide)


def _is_linear(traced: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node is a linear layer with a bias."""
    if node.op == "call_function" and node.target is F.linear:
        return argument(node, 2) is not None
    module = traced.get_submodule(str(node.target)) if node.op == "call_module" else None
    return isinstance(module, nn.Linear) and module.bias is not None


class _Ranks(fx.Interpreter):
    """Runs a graph and notes how many axes every tensor has."""

    def __init__(self, traced: fx.GraphModule) -> None:
        super().__init__(traced)
        self.found: dict[fx.Node, int] = {}

    def run_node(self, n: fx.Node) -> Any:
        """The node's result."""
        result = super().run_node(n)
        if isinstance(result, Tensor):
            self.found[n] = result.dim()
        return result


def _split(traced: fx.GraphModule, node: fx.Node) -> None:
    graph, path = traced.graph, node.meta.get(OWNER, "")
    with graph.inserting_before(node):
        if node.op == "call_module":
            path = str(node.target)
            weight, bias = graph.get_attr(f"{path}.weight"), graph.get_attr(f"{path}.bias")
        else:
            weight, bias = argument(node, 1), argument(node, 2)
        product = graph.call_function(F.linear, (node.all_input_nodes[0], weight))
        total = graph.call_function(operator.add, (product, bias))
    for one in {weight, bias, product, total} if node.op == "call_module" else (product, total):
        one.meta = {**node.meta, OWNER: path}
    node.replace_all_uses_with(total)
    graph.erase_node(node)
