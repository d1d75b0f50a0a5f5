"""``nn.MultiheadAttention`` as the layers and the attention that it computes.

    q, k, v   heads of linear(query, W_q, b_q) …; one layer for all three where they are of one tensor
    result    linear(heads joined again of attention(q, k, v, mask), W_o, b_o)

Its weights are layers then, and every tensor between them is a node. It stays a module where it yields what
every head looked at, leaves out keys by sample, or has keys of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import fx, nn

from calib8.modules.decompose import FAR_BELOW, attention
from calib8.modules.modes import OWNER

_Add = Callable[..., fx.Node]

_ARGUMENTS: Final = (
    "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights",
    "is_causal",
)  # fmt: skip


def spell_out_attention(traced: fx.GraphModule) -> int:
    """Rewrites calls of these modules; the node that takes their result keeps its name.

    Args:
        traced: changed, to be recompiled afterwards.

    Returns:
        Number of calls that were rewritten.
    """
    count = 0
    for node in list(traced.graph.nodes):
        if node.op != "call_module":
            continue
        module = traced.get_submodule(str(node.target))
        if type(module) is not nn.MultiheadAttention or not _is_plain(module, node):
            continue
        _spell_out(traced.graph, node, module)
        count += 1
    return count


def fill_finitely(traced: fx.GraphModule) -> int:
    """``x.masked_fill(m, −∞)`` before a softmax fills in −10⁴, which codes can hold.

    Args:
        traced: changed.

    Returns:
        Number of nodes that were changed.
    """
    count = 0
    for node in traced.graph.nodes:
        if node.target not in ("masked_fill", torch.masked_fill) or len(node.args) != 3 or not node.users:
            continue
        value, taken = node.args[2], all(_is_softmax(traced, user) for user in node.users)
        if isinstance(value, float | int) and value < FAR_BELOW and taken:
            node.update_arg(2, FAR_BELOW)
            count += 1
    return count


def _is_softmax(traced: fx.GraphModule, node: fx.Node) -> bool:
    if node.op == "call_module":
        return isinstance(traced.get_submodule(str(node.target)), nn.Softmax)
    return node.target in ("softmax", torch.softmax, F.softmax)


def _is_plain(module: nn.MultiheadAttention, node: fx.Node) -> bool:
    given = dict(zip(_ARGUMENTS, node.args, strict=False)) | node.kwargs
    hooks = module._forward_hooks or module._forward_pre_hooks
    own = module.bias_k is not None or module.add_zero_attn
    if hooks or own or given.get("key_padding_mask") is not None:
        return False
    taken = [user for user in node.users if user.users]  # (x, _) takes two results and uses one
    return bool(taken) and all(user.target is operator.getitem and user.args[1] == 0 for user in taken)


def _spell_out(graph: fx.Graph, node: fx.Node, module: nn.MultiheadAttention) -> None:
    """Nodes before the first one that takes the result, which becomes the last of them."""
    given: dict[str, Any] = dict(zip(_ARGUMENTS, node.args, strict=False)) | dict(node.kwargs)
    path = str(node.target)

    def add(function: Callable[..., Any], *args: Any) -> fx.Node:
        name = f"{node.name}_{getattr(function, '__name__', 'part')}"
        made = graph.create_node("call_function", function, args, name=name)
        made.meta.update(node.meta)
        made.meta[OWNER] = path
        return made

    with graph.inserting_before(node):
        inputs = [given[name] for name in _ARGUMENTS[:3]]
        query, key, value = (_heads(add, one, module) for one in _projected(graph, add, inputs, path, module))
        mask = given.get("attn_mask")
        mask = None if mask is None else add(addends, mask, module.num_heads, add(getattr, query, "ndim"))
        follows = graph.create_node("get_attr", f"{path}.training") if module.dropout else None
        dropout = None if follows is None else (module.dropout, follows)
        function, arguments = attention(add, query, (key, value, mask, None), dropout)
        joined = add(torch.flatten, add(torch.transpose, add(function, *arguments), -3, -2), -2)
        if not module.batch_first:
            joined = add(samples_first, joined)
        weight, bias = _parameter(graph, f"{path}.out_proj.weight"), None
        if module.out_proj.bias is not None:
            bias = _parameter(graph, f"{path}.out_proj.bias")
    first, *others = [user for user in node.users if user.users]
    for user in others:
        user.replace_all_uses_with(first)
    first.meta[OWNER] = path
    first.target, first.args, first.kwargs = F.linear, (joined, weight, bias), {}
    for user in list(node.users):
        graph.erase_node(user)
    graph.erase_node(node)


def _projected(
    graph: fx.Graph, add: _Add, inputs: list[Any], path: str, module: nn.MultiheadAttention
) -> list[fx.Node]:
    """Query, key and value behind their layers, [N, L, E]."""
    alone = len(set(inputs)) == 1 and module._qkv_same_embed_dim
    if not module.batch_first:
        turned = {one: add(samples_first, one) for one in dict.fromkeys(inputs)}
        inputs = [turned[one] for one in inputs]
    bias = None if module.in_proj_bias is None else _parameter(graph, f"{path}.in_proj_bias")
    if alone:
        weight = _parameter(graph, f"{path}.in_proj_weight")
        return _parts(add, add(F.linear, inputs[0], weight, bias), -1)
    if module._qkv_same_embed_dim:
        weights = _parts(add, _parameter(graph, f"{path}.in_proj_weight"), 0)
    else:
        weights = [_parameter(graph, f"{path}.{name}_proj_weight") for name in "qkv"]
    biases = [None] * 3 if bias is None else _parts(add, bias, 0)
    return [add(F.linear, *one) for one in zip(inputs, weights, biases, strict=True)]


def _parameter(graph: fx.Graph, path: str) -> fx.Node:
    return graph.get_attr(path)


def _parts(add: _Add, node: fx.Node, axis: int) -> list[fx.Node]:
    """Its three parts along an axis."""
    parts = add(torch.chunk, node, 3, axis)
    return [add(operator.getitem, parts, index) for index in range(3)]


def _heads(add: _Add, rows: fx.Node, module: nn.MultiheadAttention) -> fx.Node:
    """[N, L, H · D] → [N, H, L, D]."""
    return add(torch.transpose, add(torch.unflatten, rows, -1, (module.num_heads, module.head_dim)), -3, -2)


def samples_first(rows: torch.Tensor) -> torch.Tensor:
    """[L, N, E] ⇄ [N, L, E]; rows of a single sample, [L, E], as they are."""
    return rows.transpose(0, 1) if rows.dim() == 3 else rows


def addends(mask: torch.Tensor, heads: int, axes: int) -> torch.Tensor:
    """A mask as numbers to add to scores: where one of truth values says True, nothing is looked at.

    Args:
        mask: [L, S], or [N · H, L, S].
        heads: H.
        axes: of the scores: 4, or 3 for a single sample.
    """
    split = torch.unflatten(mask, 0, (-1, heads)) if mask.dim() == 3 and axes == 4 else mask
    if split.dtype != torch.bool:
        return split
    return torch.zeros(split.shape, device=mask.device).masked_fill(split, FAR_BELOW)
