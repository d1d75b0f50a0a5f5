"""Whether a graph keeps what the canonical form guarantees: a function for each, in the order of the package.

    CALIB8_CHECK_LOWERING=1     every model that is lowered is checked; the tests run so

A breach is a mistake in a rewrite, never the user's.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.fixedpoint import INT32_MAX
from calib8.model.graph import constant, input_at, int_attribute
from calib8.ops.groups import CONVOLUTIONS
from calib8.ops.questions import is_quantizer, is_weighted, normalizes, quantizes
from calib8.program.lower.canonical.codings import (
    CODE_TYPES,
    coding_of,
    constant_codes,
    reader_codings,
    source_coding,
)
from calib8.program.lower.canonical.explicit_windows import POOLS
from calib8.program.lower.canonical.int32_biases import bias_steps, is_plain
from calib8.program.lower.canonical.movers import data_inputs, stays_on_grid
from calib8.quantization.qdq import codes_of, dequantizer

VARIABLE: Final = "CALIB8_CHECK_LOWERING"

Guarantee = Callable[[ir.Model], Iterator[str]]


class BrokenGuaranteeError(AssertionError):
    """A rewrite left the graph in another form than the package promises."""


def check_canonical(model: ir.Model) -> None:
    """Checks all guarantees where the environment asks for it.

    Raises:
        BrokenGuaranteeError: with every breach, each by guarantee and node or tensor.
    """
    if os.environ.get(VARIABLE, "") in ("", "0"):
        return
    found = [f"{title}: {text}" for title, check in GUARANTEES.items() for text in check(model)]
    if found:
        raise BrokenGuaranteeError("\n".join(found))


def _shapes(model: ir.Model) -> Iterator[str]:
    """No Dropout, a Constant only as an output; an Identity only of an output that has no node of its own."""
    for node in model.graph:
        if node.op_type in ("Constant", "Dropout") and not node.domain and not _leaves(node):
            yield f"{node.op_type} '{node.name}'"
        if node.op_type == "Identity" and not node.domain:
            source = node.inputs[0]
            alone = source is None or source.producer() is None or source.is_graph_output()
            if not (alone and node.outputs[0].is_graph_output()):
                yield f"Identity '{node.name}' of a value that has a node"


def _quantizers(model: ir.Model) -> Iterator[str]:
    """Standard domain, constant float32 scales > 0 of shape [] or [C], zero points like the codes."""
    for node in model.graph:
        if not is_quantizer(node):
            continue
        if node.domain:
            yield f"'{node.name}' is of domain {node.domain}"
            continue
        stored, codes = constant(node.inputs[1]), codes_of(node)
        scale = np.zeros((), np.float32) if stored is None else np.asarray(stored, np.float32)
        if stored is None or stored.dtype != np.float32 or not np.all(np.isfinite(scale) & (scale > 0.0)):
            yield f"'{node.name}' has no constant float32 scale > 0"
        elif codes.dtype in CODE_TYPES and scale.ndim <= 1 and not int_attribute(node, "block_size", 0):
            yield from _stated(node, scale, codes.dtype)


def _stated(node: ir.Node, scale: npt.NDArray[np.float32], dtype: ir.DataType) -> Iterator[str]:
    point = constant(input_at(node, 2))
    if point is None or point.shape != scale.shape:
        yield f"'{node.name}' states no zero point of shape {list(scale.shape)}"
    elif point.dtype != dtype.numpy():
        yield f"'{node.name}' has codes of {dtype.name} and a zero point of {point.dtype}"
    if scale.ndim and int_attribute(node, "axis", -1) < 0:
        yield f"'{node.name}' has scales per channel and no axis"


def _operators(model: ir.Model) -> Iterator[str]:
    """QOperator nodes are gone, but for sums of codes without scales."""
    for node in model.graph:
        if node.op_type.startswith("QLinear") or node.op_type in ("QGemm", "NhwcMaxPool"):
            yield f"{node.op_type} '{node.name}' computes with codes inside"


def _constants(model: ir.Model) -> Iterator[str]:
    """No QuantizeLinear of a constant; no node between codes of a weight and DequantizeLinear; no transA."""
    for node in model.graph:
        if quantizes(node) and constant(node.inputs[0]) is not None and not _leaves(node):
            yield f"'{node.name}' quantizes a constant"
        if is_weighted(node) and not node.domain:
            reader = dequantizer(node.inputs[1])
            behind = None if reader is None or reader.inputs[0] is None else reader.inputs[0].producer()
            if behind is not None and not _reads_inputs(behind):
                yield f"codes of the weight of '{node.name}' come from {behind.op_type} '{behind.name}'"
        if node.op_type == "Gemm" and int_attribute(node, "transA", 0):
            yield f"Gemm '{node.name}' has transA"


def _leaves(node: ir.Node) -> bool:
    """Whether a node gives an output, which keeps its name and so its node."""
    return node.outputs[0].is_graph_output()


def _reads_inputs(node: ir.Node) -> bool:
    """Whether what a node gives depends on an input of the graph."""
    waiting, seen = [node], {node}
    while waiting:
        for value in waiting.pop().inputs:
            if value is None or constant(value) is not None:
                continue
            producer = value.producer()
            if producer is None:
                return True
            if producer not in seen:
                seen.add(producer)
                waiting.append(producer)
    return False


def _biases(model: ir.Model) -> Iterator[str]:
    """Codes of the bias of a coded layer are steps of its sums; there is no BatchNormalization."""
    for node in model.graph:
        if normalizes(node) and not node.domain:
            yield f"BatchNormalization '{node.name}' is neither folded nor arithmetic"
        if not is_weighted(node) or node.domain:
            continue
        coding, weight = source_coding(node.inputs[0]), constant_codes(node.inputs[1])
        bias = constant_codes(input_at(node, 2))
        if coding is None or weight is None or bias is None or not is_plain(node, weight):
            continue
        steps = bias_steps(node, weight, coding.scale)
        with np.errstate(all="ignore"):
            fits = np.all(np.abs(bias.floats.reshape(-1) / steps.astype(np.float64)) <= INT32_MAX)
        if fits and not (bias.values.dtype == np.int32 and np.array_equal(bias.scale, steps)):
            yield f"the bias of '{node.name}' is not in steps of input scale times weight scale"


def _windows(model: ir.Model) -> Iterator[str]:
    """Convolutions and pools state their windows, and leave nothing to be derived."""
    for node in model.graph:
        if node.op_type not in CONVOLUTIONS | POOLS or node.domain:
            continue
        lacking = [name for name in ("kernel_shape", "strides", "pads") if name not in node.attributes]
        derived = [name for name in ("auto_pad", "output_shape") if name in node.attributes]
        known = all(
            value is not None
            and value.shape is not None
            and all(isinstance(size, int) for size in value.shape)
            for value in (*node.inputs[:1], *node.outputs[:1])
        )
        if known and (lacking or derived):
            yield f"{node.op_type} '{node.name}' lacks {lacking} or derives by {derived}"


def _moves(model: ir.Model) -> Iterator[str]:
    """What moves codes of one scale yields codes of that scale."""
    for node in model.graph:
        codings = {source_coding(node.inputs[place]) for place in data_inputs(node)}
        coding = codings.pop() if len(codings) == 1 else None
        if coding is None or not stays_on_grid(node, coding):
            continue
        for value in node.outputs:
            if any(reader != coding for reader in reader_codings(value)):
                yield f"{node.op_type} '{node.name}' moves codes, and '{value.name}' is read as floats"


def _once(model: ir.Model) -> Iterator[str]:
    """No two equal quantizers of one value, outputs aside; no quantizer of codes that are its own."""
    seen = Counter[object]()
    for node in model.graph:
        coding = coding_of(node)
        if coding is None:
            continue
        if not node.outputs[0].is_graph_output():
            seen[node.op_type, node.inputs[0], coding.scale, coding.zero_point, coding.dtype] += 1
        if quantizes(node) and source_coding(node.inputs[0]) == coding and not _leaves(node):
            yield f"'{node.name}' quantizes codes of its own scale"
    for key, number in seen.items():
        if number > 1:
            yield f"{number} quantizers of one value with equal parameters: {key}"


def _names(model: ir.Model) -> Iterator[str]:
    """Every node and every value has a name of its own."""
    nodes = Counter(node.name for node in model.graph)
    values = Counter(value.name for node in model.graph for value in node.outputs if value.uses())
    for kind, names in (("nodes", nodes), ("values", values)):
        for name, number in names.items():
            if number > 1 or not name:
                yield f"{number} {kind} of the name '{name}'"


GUARANTEES: Final[dict[str, Guarantee]] = {
    "shapes": _shapes,
    "quantizers": _quantizers,
    "operators": _operators,
    "constants": _constants,
    "biases": _biases,
    "windows": _windows,
    "moves": _moves,
    "once": _once,
    "names": _names,
}
