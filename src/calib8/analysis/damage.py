"""What each layer alone does to the outputs: all of the model in float but the codes of one layer.

weights    only the codes of its weight and bias
codes      only the codes of the tensor that it yields
both       weights and codes of that layer

The figures are SQNR of the float outputs in dB, the mean of a typical and a total one
(``calib8.autorange.check``). A layer is looked at on a few samples: what ranks layers is the difference of
many dB, not of tenths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from calib8.analysis.counterparts import Tap
from calib8.analysis.float_reference import FloatConstants, FloatReference
from calib8.analysis.partly_coded import coded_layers, coded_tensors, partly_coded
from calib8.autorange.check import Outputs, check_model, float_outputs
from calib8.errors import ModelError
from calib8.model.runtime import Arrays
from calib8.quantization.qdq import label

FEWEST_DB: Final = 40.0
"""Without any codes the graph must be at least so near to the float model."""


@dataclass(frozen=True)
class Part:
    """What loses its codes, or keeps them, together.

    Attributes:
        layers: labels of layers whose weights are codes.
        tensors: names of tensors that pass Q and DQ.
    """

    layers: tuple[str, ...]
    tensors: tuple[str, ...]

    def __add__(self, other: Part) -> Part:
        """Both."""
        return Part(self.layers + other.layers, self.tensors + other.tensors)


@dataclass(frozen=True)
class Damage:
    """SQNR of the outputs in dB where only this has codes; None where there are no such codes.

    Attributes:
        weights: the layer's weight and bias.
        codes: the tensor that it yields.
        both: the two together.
    """

    weights: float | None
    codes: float | None
    both: float


class Dissection:
    """An int8 graph that can be taken apart, and the outputs that it is judged by."""

    def __init__(
        self,
        model: ir.Model,
        constants: Mapping[str, FloatConstants],
        reference: ir.Model,
        runs: Sequence[Arrays],
        threads: int,
    ) -> None:
        """Runs the float model, and the graph without any codes to see that it is the same function.

        Args:
            model: a QDQ graph.
            constants: what its layers compute with in the float model.
            reference: the float model, its outputs in the same order.
            runs: inputs of single runs.
            threads: for ONNX Runtime.

        Raises:
            ModelError: the graph without codes computes something else than the float model.
        """
        self.model, self.constants, self.runs, self.threads = model, constants, runs, threads
        self.layers, self.tensors = coded_layers(model), coded_tensors(model)
        self.expected: list[Outputs] = float_outputs(reference, runs, threads)
        bare = self.quality(Part((), ()))
        if bare < FEWEST_DB:
            raise ModelError(
                model.graph.name or "model",
                f"without its codes it is no longer the float model (outputs agree to {bare:.1f} dB)",
                "Give the float model that it was made from",
            )

    def quality(self, part: Part) -> float:
        """SQNR of the outputs in dB where only ``part`` has codes."""
        found = partly_coded(self.model, self.constants, tensors=part.tensors, layers=part.layers)
        return check_model("", found, self.runs, self.expected, self.threads).sqnr_db

    def with_floats(self, nodes: Collection[str]) -> float:
        """SQNR of the outputs in dB of the whole model with the named nodes in float."""
        found = partly_coded(
            self.model, self.constants, tensors=self.tensors, layers=self.layers, floats=nodes
        )
        return check_model("", found, self.runs, self.expected, self.threads).sqnr_db


def damages(
    dissection: Dissection, taps: Sequence[Tap], on_tap: Callable[[int], None] = lambda taps: None
) -> tuple[Damage, ...]:
    """What every tapped layer alone does to the outputs, in the order of the taps.

    Args:
        dissection: the int8 graph.
        taps: places where it is compared.
        on_tap: called with 1 after each.
    """
    found = []
    for tap in taps:
        weights, codes = weight_part(dissection, tap), code_part(dissection, tap)
        parts = [part for part in (weights, codes) if part is not None]
        single = [None if part is None else dissection.quality(part) for part in (weights, codes)]
        both = dissection.quality(parts[0] + parts[1]) if len(parts) == 2 else None
        alone = next((figure for figure in single if figure is not None), 120.0)
        found.append(Damage(single[0], single[1], alone if both is None else both))
        on_tap(1)
    return tuple(found)


def weight_part(dissection: Dissection, tap: Tap) -> Part | None:
    """The weight codes of the layer behind a tap, if it has such and a float weight to compare with."""
    name = tap.layer.node
    known = name is not None and name in dissection.layers and name in dissection.constants
    return Part((str(name),), ()) if known else None


def code_part(dissection: Dissection, tap: Tap) -> Part | None:
    """The codes of a tapped tensor."""
    return Part((), (tap.value,)) if tap.code is not None and tap.value in dissection.tensors else None


def reference_constants(
    int8: ir.Model, taps: Sequence[Tap], reference: FloatReference
) -> dict[str, FloatConstants]:
    """What the layers of the int8 graph compute with in the float model, where it has such a layer."""
    nodes = {label(node): node for node in int8.graph}
    coded, found = set(coded_layers(int8)), {}
    for tap in taps:
        name, output = tap.layer.node, tap.layer.reference
        if name is None or output is None or name not in coded:
            continue
        weight = nodes[name].inputs[1]
        shape = () if weight is None or weight.shape is None else tuple(weight.shape.numpy())
        constants = reference.constants(output, shape)
        if constants is not None:
            found[name] = constants
    return found
