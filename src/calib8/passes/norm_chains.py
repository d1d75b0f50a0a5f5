"""GroupNormalization spelled out, as PyTorch exports it: one computation from codes to codes.

    x [N, C, …] ─► Reshape [N, G, L] ─► InstanceNormalization ─► Reshape [N, C, …] ─► Mul γ ─► Add β

The nodes from InstanceNormalization to Add are a chain: a target that normalizes in integers computes them as
one, with a scale and a bias per channel. There is no code between them, as none would have a use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import constant, input_at, rank, sole_consumer
from calib8.ops.questions import adds, is_quantizer, is_standard, multiplies
from calib8.passes.quotients import quotient_chains
from calib8.passes.row_chains import row_chains

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NormChain:
    """A GroupNormalization of several nodes.

    Attributes:
        nodes: InstanceNormalization, Reshape, then Mul or Add or both; the last one yields the result.
        whole: what the Reshape before them reads, [N, C, …]: a tensor, or its codes in a QDQ graph.
        scale, bias: float64 [C].
        groups: of the channels.
    """

    nodes: tuple[ir.Node, ...]
    whole: ir.Value
    scale: F64
    bias: F64
    groups: int


def normalizations(model: ir.Model, computes: Collection[str]) -> tuple[tuple[ir.Node, ...], ...]:
    """The nodes of all normalizations spelled out, and of quotients with something before the divisor, that a
    target which computes these ops from codes has."""
    groups = [chain.nodes for chain in norm_chains(model, computes)]
    rows = [chain.nodes for chain in row_chains(model, computes)]
    taken = {node for nodes in (*groups, *rows) for node in nodes}
    quotients = [nodes for nodes in quotient_chains(model, computes) if taken.isdisjoint(nodes)]
    return (*groups, *rows, *quotients)


def norm_chains(model: ir.Model, computes: Collection[str]) -> tuple[NormChain, ...]:
    """Those of a float graph, in graph order, that a target which computes these ops from codes has."""
    if "InstanceNormalization" not in computes:
        return ()
    return tuple(chain for node in model.graph if (chain := norm_chain(node)) is not None)


def norm_chain(node: ir.Node) -> NormChain | None:
    """The chain that begins with an InstanceNormalization, in a float graph or a QDQ graph; else None."""
    if node.op_type != "InstanceNormalization" or not is_standard(node):
        return None
    whole, back = _reshaped_from(node.inputs[0]), sole_consumer(node.outputs[0])
    inner = None if node.inputs[0] is None else node.inputs[0].shape
    if whole is None or inner is None or not _restores(back, whole, inner) or back is None:
        return None
    channels, groups = whole.shape[1] if whole.shape else None, inner[1]
    own = [constant(value) for value in node.inputs[1:]]
    if not isinstance(channels, int) or not isinstance(groups, int) or channels % groups or len(own) != 2:
        return None
    if any(array is None or array.size != groups for array in own):
        return None
    scale, bias = (np.repeat(np.asarray(array, np.float64), channels // groups) for array in own)
    nodes = [node, back]
    for reader, factor, addend in _affine(back, channels):
        scale, bias = scale * factor, bias * factor + addend
        nodes.append(reader)
    return NormChain(tuple(nodes), whole, scale, bias, groups) if len(nodes) > 2 else None


def _reshaped_from(value: ir.Value | None) -> ir.Value | None:
    """What a Reshape makes a value of, quantizers between them or not."""
    node = None if value is None else value.producer()
    while node is not None and is_quantizer(node):
        source = node.inputs[0]
        node = None if source is None else source.producer()
    return node.inputs[0] if node is not None and node.op_type == "Reshape" and is_standard(node) else None


def _restores(back: ir.Node | None, whole: ir.Value, inner: ir.Shape) -> bool:
    """Whether a Reshape gives the normalized values [N, G, L] the shape [N, C, …] that they had before."""
    if back is None or back.op_type != "Reshape" or not is_standard(back):
        return False
    before, after = whole.shape, back.outputs[0].shape
    if before is None or after is None or len(before) != len(after) or len(before) < 3 or len(inner) != 3:
        return False
    pairs = (*zip(before, after, strict=True), (before[0], inner[0]))
    return all(one == other for one, other in pairs)


def _affine(last: ir.Node, channels: int) -> Iterator[tuple[ir.Node, F64 | float, F64 | float]]:
    """The Mul and the Add of a constant per channel that alone read a result, with factor and addend."""
    for asked in (multiplies, adds):
        reader = sole_consumer(last.outputs[0])
        if reader is None or not is_standard(reader) or not asked(reader):
            continue
        array = _per_channel(reader, rank(last.outputs[0]) or 0, channels)
        if array is None:
            continue
        yield (reader, array, 0.0) if asked is multiplies else (reader, 1.0, array)
        last = reader


def _per_channel(node: ir.Node, axes: int, channels: int) -> F64 | None:
    """The constant operand of a node, one number per channel of [N, C, …]."""
    array = next((found for place in (0, 1) if (found := constant(input_at(node, place))) is not None), None)
    if array is None or array.dtype != np.float32 or array.ndim > axes or array.size not in (1, channels):
        return None
    if array.size == channels != 1 and (array.ndim < axes - 1 or array.shape[1 - axes] != channels):
        return None
    return np.broadcast_to(array.reshape(-1).astype(np.float64), (channels,))
