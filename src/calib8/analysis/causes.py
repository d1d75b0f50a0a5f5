"""Why a layer loses much: what its tensors, its weights and the data tell, in plain words.

input, clipped, unused                          see ``calib8.analysis.range_reasons``
bias        the code of an int32 bias ran over  (``calib8.analysis.layer_constants``)
branches    inputs of a Concat that share codes, or entries of a constant factor, differ 8 times in reach
batch normalization   one channel is scaled 100 times as much as the median channel
scale       one channel reaches 30 times the median of the channels: max_c |t_c| / median_c |t_c|
weights     one weight of a channel takes the codes of the others, or the weight's codes are worse than 30 dB
codes       none of these
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.batch_norms import MAX_RATIO, MIN_VARIANCE, BatchNormInspection, inspect_batch_norms
from calib8.analysis.compare import TensorComparison
from calib8.analysis.damage import Damage
from calib8.analysis.equalizing import AROUND, Equalizing, equalizing
from calib8.analysis.float_reference import FloatReference
from calib8.analysis.layer_constants import ConstantFaults
from calib8.analysis.range_reasons import clipped_reason, given_reason, input_reason, unused_reason
from calib8.analysis.reason import Reason
from calib8.model.graph import constant, sole_consumer
from calib8.ops.groups import NEUTRAL, RESHAPING
from calib8.ops.questions import joins
from calib8.passes.resolve_ranges import FIXED_LIMITS
from calib8.quantization.qdq import label
from calib8.scheme import WEIGHTED_OPS

DOMINANT: Final = 30.0
"""A channel that reaches so many times as far as the median channel dominates its tensor."""

APART: Final = 8.0
"""Branches that differ by more lose bits of the smaller one."""

POOR_WEIGHT_DB: Final = 30.0
STEPS: Final = 6
"""So many nodes with one input may lie between a BatchNormalization and the tensor that has codes."""

_MOVING: Final = RESHAPING | {"Identity", "Transpose"}

_RESCALING: Final = (("cle", "bias"), ("scales", "bias"))
_OUTLIER: Final = (("constant-channels", "bias"), *_RESCALING)

_APART_ADVICE: Final = "Keep the Concat in float: each branch then has codes of its own"

Maxima = Mapping[str, npt.NDArray[np.float64]]


class Facts:
    """What is known of the float model beside the figures of each tensor.

    Attributes:
        maxima: tensor → largest magnitude per entry of axis 1, in the scale of the int8 model.
        given: tensors whose range the user gave.
        constants: layer → what is wrong with its constants in the int8 model.
    """

    def __init__(
        self,
        reference: FloatReference,
        maxima: Maxima,
        dead: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
        given: Collection[str] = (),
        constants: Mapping[str, ConstantFaults] = MappingProxyType({}),
    ) -> None:
        """Looks for suspicious normalizations.

        Args:
            reference: the float model.
            maxima: see there.
            dead: layer → output channels whose weights are 0 in the int8 model: no factor is left there.
            given, constants: see there.
        """
        self.maxima, self.given, self.constants = maxima, frozenset(given), constants
        self._equalizing = equalizing(reference.forms[-1])
        self._tensors, self._original = reference.tensors, _values(reference.forms[0])
        found = inspect_batch_norms(reference.forms[0])
        outputs = {label(node): node.outputs[0].name for node in reference.forms[0].graph}
        layers = {value.name: label(node) for node in reference.forms[-1].graph for value in node.outputs}
        self._layers = {one.name: layers.get(outputs.get(one.name), "") for one in found}
        self._norms = {
            one.name: one
            for one in found
            if one.ratio > MAX_RATIO and one.channel not in dead.get(self._layers[one.name], ())
        }

    def producer(self, tensor: str) -> ir.Node | None:
        """The node of the float model that yields a tensor."""
        value = self._tensors.get(tensor)
        return None if value is None else value.producer()

    def readers(self, tensor: str) -> list[ir.Node]:
        """The nodes of the float model that read a tensor."""
        value = self._tensors.get(tensor)
        return [] if value is None else list(dict.fromkeys(use.node for use in value.uses()))

    def concat(self, tensor: str) -> ir.Node | None:
        """The Concat that yields a tensor, or what only moves values of its result."""
        return concat_behind(self._tensors.get(tensor))

    def limits(self, tensor: str) -> tuple[str, float, float] | None:
        """Op and limits of what yields a tensor, moved or not, where the op has limits of its own."""
        node = _behind_moves(self._tensors.get(tensor))
        return (
            None
            if node is None or node.op_type not in FIXED_LIMITS
            else (node.op_type, *FIXED_LIMITS[node.op_type])
        )

    def equalizing(self, tensor: str) -> Equalizing:
        """What makes the channels of a tensor alike."""
        return self._equalizing.get(tensor, AROUND)

    def reach(self, tensor: str) -> float | None:
        """Largest magnitude of a tensor."""
        found = self.maxima.get(tensor)
        return None if found is None else float(np.max(found, initial=0.0))

    def norm(self, tensor: str) -> BatchNormInspection | None:
        """A suspicious normalization behind a tensor, or in front of it behind the next layer."""
        value = self._original.get(tensor)
        if value is None or not self._norms:
            return None
        readers = dict.fromkeys((*(use.node for use in value.uses()), *_layers_behind(value)))
        behind = (use.node for reader in readers for use in reader.outputs[0].uses())
        return self._norm_before(value) or next(
            (self._norms[label(node)] for node in behind if label(node) in self._norms), None
        )

    def folded(self, norm: BatchNormInspection) -> str:
        """The layer that a normalization is part of in the prepared model; empty where it is none."""
        return self._layers.get(norm.name, "")

    def _norm_before(self, value: ir.Value) -> BatchNormInspection | None:
        node = value.producer()
        for _ in range(STEPS):
            if node is None or label(node) in self._norms:
                break
            source = node.inputs[0] if sum(one is not None for one in node.inputs) == 1 else None
            node = None if source is None else source.producer()
        return None if node is None else self._norms.get(label(node))


def _values(model: ir.Model) -> dict[str, ir.Value]:
    return {value.name or "": value for node in model.graph for value in node.outputs} | {
        value.name or "": value for value in model.graph.inputs
    }


def _layers_behind(value: ir.Value) -> Iterator[ir.Node]:
    """The nodes with weights that read a tensor, at once or through functions of it alone, such as SiLU."""
    seen, waiting = {value}, [value]
    for _ in range(STEPS):
        readers = [use.node for one in waiting for use in one.uses()]
        yield from dict.fromkeys(node for node in readers if node.op_type in WEIGHTED_OPS)
        functions = (node for node in readers if node.op_type not in WEIGHTED_OPS)
        waiting = [
            node.outputs[0]
            for node in dict.fromkeys(functions)
            if node.outputs[0] not in seen
            and all(one is None or one in seen or constant(one) is not None for one in node.inputs)
        ]
        seen.update(waiting)


def concat_behind(value: ir.Value | None) -> ir.Node | None:
    """The Concat that a tensor, or what it is moved from, comes from; None where it comes from elsewhere."""
    node = _behind_moves(value)
    return node if node is not None and joins(node) else None


def _behind_moves(value: ir.Value | None) -> ir.Node | None:
    """The node that computes the values of a tensor; those that only move them are passed over."""
    node = None if value is None else value.producer()
    while node is not None and node.op_type in _MOVING and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return node


def tensors_to_look_at(reference: FloatReference, tensors: Iterable[str]) -> list[str]:
    """The tensors and the inputs of the Concats among them: names of which ``Facts`` wants the maxima."""
    found: list[str] = []
    for name in tensors:
        found.append(name)
        node = concat_behind(reference.tensors.get(name))
        if node is not None:
            found += [one.name or "" for one in node.inputs if one is not None and constant(one) is None]
    return [name for name in dict.fromkeys(found) if name in reference.tensors]


def why(row: TensorComparison, damage: Damage, facts: Facts) -> Reason:
    """The most telling reason of one layer's loss.

    Args:
        row: what ``compare`` found at the tensor it yields.
        damage: what its codes do to the outputs.
        facts: what else is known.
    """
    reasons = (
        _bias(row, facts), given_reason(row, facts), input_reason(row), _branches(row, facts),
        _shared(row, facts), _factors(row, facts),
        _norm(row, facts), _scale(row, facts), clipped_reason(row, facts), _weights(row, damage, facts),
        unused_reason(row, facts),
    )  # fmt: skip
    found = next((reason for reason in reasons if reason is not None), None)
    text = f"no cause stands out, SQNR of the layer alone {row.local.sqnr_db:.1f} dB"
    return found or Reason("codes", text, "")


def _branches(row: TensorComparison, facts: Facts) -> Reason | None:
    """Branches of different size that meet in one tensor."""
    node = facts.concat(row.tensor)
    if node is None or row.scale is None:
        return None
    names = [value.name or "" for value in node.inputs if value is not None]
    reach = {name: found for name in names if (found := facts.reach(name))}
    if len(reach) < 2:
        return None
    small, large = min(reach, key=lambda name: reach[name]), max(reach, key=lambda name: reach[name])
    if reach[large] < APART * reach[small]:
        return None
    text = (
        f"'{large}' reaches {reach[large]:.4g} and '{small}' {reach[small]:.4g}: one scale has to hold both"
    )
    return Reason("branches", text, _APART_ADVICE, tensors=_with_moves(node))


def _with_moves(node: ir.Node) -> tuple[str, ...]:
    """What a node yields, and what those behind it do that only move its values."""
    found = [node.outputs[0].name or ""]
    while (reader := sole_consumer(node.outputs[0])) is not None and reader.op_type in _MOVING:
        found.append(reader.outputs[0].name or "")
        node = reader
    return tuple(found)


def _shared(row: TensorComparison, facts: Facts) -> Reason | None:
    """A branch that has the codes of a larger one, because one Concat reads both."""
    if row.representable is None or row.node is None:
        return None
    readers = [node for node in facts.readers(row.tensor) if joins(node)]
    held = max(abs(bound) for bound in row.representable)
    reach = max(abs(bound) for bound in row.observed)
    if not readers or not 0.0 < APART * reach <= held:
        return None
    text = f"'{row.tensor}' reaches {reach:.4g}, the codes that it shares with the other branches {held:.4g}"
    return Reason("branches", text, _APART_ADVICE, tensors=_with_moves(readers[0]))


def _factors(row: TensorComparison, facts: Facts) -> Reason | None:
    """A product with a constant whose entries are of different size."""
    node = facts.producer(row.tensor)
    if node is None or NEUTRAL.get(node.op_type) != 1 or row.scale is None:
        return None
    arrays = (constant(value) for value in node.inputs)
    found = next((np.abs(array) for array in arrays if array is not None and array.size > 1), None)
    if found is None or not np.any(found > 0) or found.max() < APART * found[found > 0].min():
        return None
    low, high = float(found[found > 0].min()), float(found.max())
    text = f"its constant factor has entries of {low:.4g} … {high:.4g}: one scale has to hold all products"
    return Reason("branches", text, f"Keep the {node.op_type} in float", tensors=_with_moves(node))


def _norm(row: TensorComparison, facts: Facts) -> Reason | None:
    found = facts.norm(row.tensor)
    if found is None:
        return None
    text = (
        f"BatchNormalization {norm_name(found.name)}: channel {found.channel} has γ = {found.gamma:.3g}, "
        f"σ² = {found.variance:.3g} and is scaled {found.ratio:.3g} times as much as the median channel"
    )
    layer = facts.folded(found)
    if found.variance >= MIN_VARIANCE:
        cure = facts.equalizing(row.tensor)
        return Reason("batch normalization", text, cure.advice, cure.repairs, layer=layer)
    advice = "The channel was (almost) constant in training: its gain can be taken away"
    repairs = (("constant-channels", "bias"), ("cle", "bias"))
    return Reason("batch normalization", text, advice, repairs, layer=layer)


def constant_channel_reason(row: TensorComparison, facts: Facts) -> Reason | None:
    """A normalization that enlarges a channel which was constant in training, whatever it does here."""
    found = facts.norm(row.tensor)
    return None if found is None or found.variance >= MIN_VARIANCE else _norm(row, facts)


def norm_name(name: str) -> str:
    """What to call a BatchNormalization where that it is one is said already: its name, or what it yields."""
    return name.removeprefix("BatchNormalization of ")


def _scale(row: TensorComparison, facts: Facts) -> Reason | None:
    """One channel that takes the codes of all others."""
    reach = facts.maxima.get(row.tensor)
    if reach is None or reach.size < 2 or row.scale is None or len(row.scale) > 1:
        return None
    alive = reach[reach > 0.0]
    median = float(np.median(alive)) if alive.size else 0.0
    channel = int(np.argmax(reach))
    if not 0.0 < median * DOMINANT <= reach[channel]:
        return None
    text = (
        f"channel {channel} reaches {reach[channel]:.4g}, the median channel {median:.4g}: one scale for all "
        "leaves them few codes"
    )
    cure = facts.equalizing(row.tensor)
    return Reason("scale", text, cure.advice, cure.repairs)


def _bias(row: TensorComparison, facts: Facts) -> Reason | None:
    """A bias that its int32 code does not hold."""
    found = facts.constants.get(row.node or "")
    if found is None or found.bias is None:
        return None
    one = found.bias
    text = f"channel {one.channel} has the bias {one.coded:.4g} by its int32 code and {one.real:.4g} in FP32"
    advice = "Quantize again: calib8 gives a channel whose bias would overflow a larger scale"
    return Reason("bias", text, advice)


def outlier_reason(row: TensorComparison, facts: Facts) -> Reason | None:
    """A weight that takes the codes of the others, whatever it does to the outputs."""
    found = facts.constants.get(row.node or "")
    if found is None or found.weight is None:
        return None
    one = found.weight
    others = ("the median one of the layer", "the layer's") if one.whole else ("the median one", "its")
    text = (
        f"channel {one.channel} has a weight of {one.largest:.4g}, {others[0]} is {one.median:.4g}: "
        f"{100.0 * one.vanished:.0f} % of {others[1]} weights have the code 0"
    )
    advice = "Take it away where what it multiplies never changes, let a search clip it, or equalize"
    return Reason("weights", text, advice, _OUTLIER)


def _weights(row: TensorComparison, damage: Damage, facts: Facts) -> Reason | None:
    if damage.weights is None or (damage.codes is not None and damage.codes < damage.weights):
        return None
    outlier = outlier_reason(row, facts)
    if outlier is not None:
        return outlier
    if row.weight_sqnr_db is None or row.weight_sqnr_db >= POOR_WEIGHT_DB:
        return None
    text = f"the codes of its weight are {row.weight_sqnr_db:.1f} dB from it"
    return Reason("weights", text, "Equalize its channels", _RESCALING)
