"""What decides the figures of a part, so that they are found once for all int8 graphs of a float model.

    layer    the constants that it computes with
    tensor   every pair of Q and DQ behind it with its constants, and what reads the codes

A search looks at many int8 graphs of one model that differ in a few nodes; ``Known`` keeps what it found.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import onnx_ir as ir

from calib8.autorange.check import Check
from calib8.dissection.partly_coded import coded_pairs
from calib8.dissection.sweep_graph import Part
from calib8.model.graph import constant
from calib8.model.runtime import Arrays
from calib8.quantization.qdq import label, weighted_layers
from calib8.quantization.seal import is_seal


@dataclass
class Known:
    """Figures of parts that were judged before; what they were judged with is kept alive.

    Attributes:
        checks: reference, runs and part → its figures.
    """

    checks: dict[Hashable, Check] = field(default_factory=dict)
    _alive: dict[Hashable, tuple[ir.Model, tuple[Arrays, ...]]] = field(default_factory=dict)

    def of(self, reference: ir.Model, runs: Sequence[Arrays], where: Hashable) -> Hashable:
        """The key of what is judged beside one float model with some runs; ``where`` is the rest of it."""
        key = (id(reference), tuple(id(run) for run in runs), where)
        self._alive[key] = (reference, tuple(runs))
        return key


class Identities:
    """Those of the parts of a QDQ graph."""

    def __init__(self, model: ir.Model) -> None:
        """Looks at the whole graph once; it must not change afterwards."""
        self._layers = {one.name: one.node for one in weighted_layers(model)}
        self._tensors: dict[str, list[tuple[ir.Value, ir.Value]]] = {}
        for value, origin in coded_pairs(model):
            self._tensors.setdefault(origin.name or "", []).append((value, origin))

    def of(self, part: Part) -> Hashable:
        """The identity of a part."""
        layers = tuple((name, self.of_layer(name)) for name in part.layers)
        return layers, tuple((name, self._of_tensor(name)) for name in part.tensors)

    def of_layer(self, name: str) -> Hashable:
        """The constants of a layer."""
        return tuple(_of_constant(value) for value in self._layers[name].inputs[1:])

    def _of_tensor(self, name: str) -> Hashable:
        return tuple(
            (tuple(_of_pair(value, origin)), _readers(value)) for value, origin in self._tensors.get(name, ())
        )


def _of_pair(value: ir.Value, origin: ir.Value) -> Iterator[Hashable]:
    """The nodes between a float tensor and what is read of its codes, with their constants."""
    while value is not origin:
        node = value.producer()
        assert node is not None and node.inputs[0] is not None
        yield node.op_type, tuple(_of_constant(one) for one in node.inputs[1:])
        value = node.inputs[0]


def _of_constant(value: ir.Value | None) -> Hashable:
    """Op types and constants that a value is computed from."""
    if value is None:
        return None
    array, node = constant(value), value.producer()
    if array is not None:
        return array.dtype.str, array.shape, sha256(array.tobytes()).digest()
    return value.name if node is None else (node.op_type, *(_of_constant(one) for one in node.inputs))


def _readers(value: ir.Value) -> Hashable:
    """What reads a value, behind Sums that only hand it on, and whether it is an output."""
    found: list[tuple[str, int]] = []
    for use in value.uses():
        if is_seal(use.node):
            found += [(label(behind.node), behind.idx) for behind in use.node.outputs[0].uses()]
        else:
            found.append((label(use.node), use.idx))
    return tuple(sorted(found)), value.is_graph_output()
