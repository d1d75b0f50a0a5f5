"""LSTM, GRU and RNN: what a node says of its cell, and why it cannot be computed with codes of its weights.

its activations     are others than Sigmoid, Tanh, Relu, HardSigmoid, Softsign, Affine and ScaledTanh,
                    or these two without their α and β
its weights         are computed, of another type, or hold NaN or Inf; likewise biases and peepholes
its first states    are constants that hold NaN or Inf
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import constant, input_at
from calib8.ops.groups import FIRST_STATES, RECURRENT
from calib8.ops.questions import is_standard

DEFAULTS: Final[dict[str, tuple[str, ...]]] = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
"""Op → the activations f, g, h of a direction where a node names none."""

PLAIN: Final = ("Sigmoid", "Tanh", "Relu", "Softsign")
NUMBERS: Final[dict[str, tuple[float | None, float | None]]] = {
    "HardSigmoid": (0.2, 0.5),
    "Affine": (None, None),
    "ScaledTanh": (None, None),
}
"""Functions with parameters → α and β where a node does not say; None where ONNX has no default for them."""

LONGEST_SUM: Final = 1 << 16
"""Products of two 8-bit codes that fit an int32 together."""

WEIGHTS: Final = (1, 2)
LENGTHS: Final = 4
PARAMETERS: Final = {3: "bias", 7: "peephole"}
"""Places of the inputs of all three ops; RNN and GRU have the first six."""


class Activation(NamedTuple):
    """One function of a cell; α and β are None where it needs them and the node does not say."""

    name: str
    alpha: float | None
    beta: float | None


def is_recurrent(node: ir.Node) -> bool:
    """A standard LSTM, GRU or RNN."""
    return is_standard(node) and node.op_type in RECURRENT


def direction_count(node: ir.Node) -> int:
    """2 of a bidirectional node, else 1."""
    attribute = node.attributes.get("direction")
    return 2 if attribute is not None and attribute.as_string() == "bidirectional" else 1


def activations_of(node: ir.Node) -> tuple[Activation, ...]:
    """The functions of all directions; α and β go to those that have them, in their order.

    ``why_cell_float`` says of which nodes they are known.
    """
    given = node.attributes.get("activations")
    names = DEFAULTS[node.op_type] * direction_count(node) if given is None else given.as_strings()
    alphas, betas = (iter(_floats(node, f"activation_{name}")) for name in ("alpha", "beta"))
    known = {name.lower(): name for name in (*PLAIN, *NUMBERS)}
    found = []
    for name in names:
        own = known.get(name.lower(), name)
        alpha, beta = NUMBERS.get(own, (0.0, 0.0))
        if own in NUMBERS:
            alpha, beta = next(alphas, alpha), next(betas, beta)
        found.append(Activation(own, _single(alpha), _single(beta)))
    return tuple(found)


def _single(number: float | None) -> float | None:
    return None if number is None else float(np.float32(number))


def _floats(node: ir.Node, name: str) -> tuple[float, ...]:
    attribute = node.attributes.get(name)
    return () if attribute is None else tuple(attribute.as_floats())


def why_cell_float(node: ir.Node) -> str:
    """Why a node is none that computes with codes of its weights; empty if it may be. Weights apart."""
    activations = activations_of(node)
    unknown = [one.name for one in activations if one.name not in (*PLAIN, *NUMBERS)]
    if unknown:
        return f"its activation {unknown[0]} has no form beside integers"
    for one in activations:
        if one.alpha is None or one.beta is None:
            missing = "activation_alpha" if one.alpha is None else "activation_beta"
            return f"its activation is {one.name} without {missing}, for which ONNX has no default"
    if len(activations) != len(DEFAULTS[node.op_type]) * direction_count(node):
        return f"it has {len(activations)} activations"
    if node.outputs[0].dtype not in (None, ir.DataType.FLOAT):
        return "it does not compute in float32"
    for place, what in PARAMETERS.items():
        if input_at(node, place) is not None and constant(input_at(node, place)) is None:
            return f"its {what} is computed"
    lost = any(not np.all(np.isfinite(array)) for array in constant_states(node))
    return "its first states hold NaN or Inf" if lost else ""


def constant_states(node: ir.Node) -> list[npt.NDArray[np.generic]]:
    """Those of its first states that never change."""
    arrays = (constant(input_at(node, place)) for place in FIRST_STATES)
    return [array for array in arrays if array is not None]


def cuts_sequences(node: ir.Node) -> bool:
    """Whether lengths are computed, or constants that are not all of the sequence."""
    value = input_at(node, LENGTHS)
    lengths = constant(value)
    return value is not None and (lengths is None or bool(np.any(lengths != sequence_length(node))))


def sequence_length(node: ir.Node) -> int | None:
    """Steps of the sequences, None where they are not known."""
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    size = None if shape is None or len(shape) != 3 else shape[0]
    return size if isinstance(size, int) else None


def why_recurrent_float(node: ir.Node) -> str:
    """The same of a float node, whose weights would become codes."""
    reason = why_cell_float(node)
    if reason:
        return reason
    if constant(node.inputs[0]) is not None:
        return "its sequence is constant"
    for place in (*WEIGHTS, *PARAMETERS):
        value = input_at(node, place)
        array = constant(value)
        if value is not None and (problem := _why_no_weight(array)):
            return f"its {PARAMETERS.get(place, 'weight')} {problem}"
    deepest = max(
        array.shape[2] for place in WEIGHTS if (array := constant(input_at(node, place))) is not None
    )
    return f"it adds {deepest} products" if deepest > LONGEST_SUM else ""


def _why_no_weight(array: npt.NDArray[np.generic] | None) -> str:
    if array is None:
        return "is computed, not constant"
    if array.dtype != np.float32:
        return f"is {array.dtype}"
    return "" if np.all(np.isfinite(array)) else "holds NaN or Inf"
