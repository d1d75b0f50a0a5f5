"""What each layer alone does to the outputs: all of the model in float but the codes of one layer.

weights    only the codes of its weight and bias
codes      only the codes of the tensor that it yields
both       weights and codes of that layer

The parts of a ``Dissection`` (``calib8.dissection.dissect``), three for every tapped layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import onnx_ir as ir

from calib8.analysis.counterparts import Tap
from calib8.analysis.float_reference import FloatReference
from calib8.autorange.check import LARGEST_DB
from calib8.dissection.dissect import Dissection
from calib8.dissection.float_constants import FloatConstants
from calib8.dissection.partly_coded import coded_layer_names
from calib8.dissection.sweep_graph import Part
from calib8.quantization.qdq import label

NOTHING: Final = Part((), ())


@dataclass(frozen=True)
class Damage:
    """SQNR of the outputs in dB where only this has codes; None where there are no such codes.

    Attributes:
        weights: the layer's weight and bias.
        codes: the tensor that it yields.
        both: the two together.
        branches: of each branch of the outputs, the two together; empty where there is a single one.
    """

    weights: float | None
    codes: float | None
    both: float
    branches: Mapping[str, float] = field(default_factory=dict)


def damages(
    dissection: Dissection, taps: Sequence[Tap], on_part: Callable[[int], None] = lambda parts: None
) -> tuple[Damage, ...]:
    """What every tapped layer alone does to the outputs, in the order of the taps.

    Args:
        dissection: the int8 graph.
        taps: places where it is compared.
        on_part: called with the number of parts that are done, of ``number_of_parts`` in all.
    """
    pairs = [(weight_part(dissection, tap), code_part(dissection, tap)) for tap in taps]
    parts = list(dict.fromkeys(part for pair in pairs for part in _single_and_both(*pair)))
    found = dict(zip(parts, dissection.checks(parts, on_part), strict=True))
    result = []
    for weights, codes in pairs:
        alone = [found[part].sqnr_db if part is not None else None for part in (weights, codes)]
        together = _single_and_both(weights, codes)
        check = found[together[-1]] if together else None
        branches = {} if check is None else {one.name: one.sqnr_db for one in check.branches}
        result.append(Damage(alone[0], alone[1], LARGEST_DB if check is None else check.sqnr_db, branches))
    return tuple(result)


def number_of_parts(dissection: Dissection, taps: Sequence[Tap]) -> int:
    """How many parts ``damages`` judges."""
    pairs = ((weight_part(dissection, tap), code_part(dissection, tap)) for tap in taps)
    return len({part for pair in pairs for part in _single_and_both(*pair)})


def _single_and_both(weights: Part | None, codes: Part | None) -> list[Part]:
    """Each that there is, and last the two together."""
    single = [part for part in (weights, codes) if part is not None]
    return [*single, single[0] + single[1]] if len(single) == 2 else single


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
    coded, found = set(coded_layer_names(int8)), {}
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
