"""A float Tengine model in int8 codes, field for field as Tengine's quant_tool_int8 makes it.

    activations    s = the scale that the table gives, zero point 0
    weights        s[c] = max |w[c]| / 127 in float32, c along axis 0; code = w / s[c], rounded, ties away
    biases         s[c] = s_w[c] · s_x in float32; code likewise, in int32
    PReLU slopes   float16
    the rest       constants keep their type, and get the scale 0

Before that some operators hand their scale back (``hand_back``). What differs from the tool: constants that
an Eltwise adds or multiplies are int8 codes with a scale, where the tool leaves floats that its runtime takes
for codes; weights of a Deconvolution have one scale per index of axis 0, which is an input channel, and the
tool leaves the codes of the bias, and of some of its scales, what was in memory; here they are those of the
first output channels. Weights of one row have their scale twice (``_of_rows``). A bias that layers
share becomes one for each (``unshared``).
Source: OAID Tengine, quant_tool (``quant_save_graph.cpp``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.coded_array import CodedArray
from calib8.errors import TableError, UnsupportedModelError
from calib8.exporting.tmfile.hand_back import own_scales, scale_sources
from calib8.exporting.tmfile.unshared import unshared
from calib8.tmfile.graph import Graph, Node, Quantization, Tensor
from calib8.tmfile.kinds import LAYERS, kind

LARGEST: Final = np.float32(127)

MEETS: Final = frozenset({"Concat", "Eltwise", "Maximum", "Minimum", "Mean", "AddN"})
"""Operators of several tensors that meet each other."""

NONE: Final[Mapping[str, CodedArray]] = {}

MADE_BY_TENGINE: Final = 1
"""What the tool writes as the format that a model came from."""

Single = npt.NDArray[np.float32]

NO_STEPS: Final[Mapping[int, Single]] = {}

Known = tuple[Mapping[int, Single], Mapping[str, CodedArray]]
"""Scales of weights by their place, and constants that are codes already by name."""


@dataclass(frozen=True, eq=False)
class CodedLayer:
    """The scales of a layer, as the tool lists them.

    Attributes:
        weight, bias: names of the constants; ``bias`` is empty for none.
        weight_scales: float32, one per index of axis 0 of the weights.
        bias_scales: those times the scale of the input.
    """

    weight: str
    bias: str
    weight_scales: Single
    bias_scales: Single


@dataclass(frozen=True, eq=False)
class Coded:
    """A model in codes.

    Attributes:
        graph: to be written.
        layers: the scales of all layers, in the order of the file.
    """

    graph: Graph
    layers: tuple[CodedLayer, ...]


def in_codes(
    graph: Graph,
    scales: Mapping[str, float],
    name: str = "model",
    *,
    constants: Mapping[str, CodedArray] = NONE,
    steps: Mapping[int, Single] = NO_STEPS,
    hand_back: bool = True,
) -> Coded:
    """The model in codes.

    Args:
        graph: a float one.
        scales: of every tensor that is an input or computed, by name, above 0; of those alone that keep
            theirs, where operators hand scales back.
        name: of the model, for messages.
        constants: tensor → codes that it has already; others are rounded.
        steps: place of weights → scales that were chosen for them, see ``CodedLayer``; others follow from
            their elements.
        hand_back: operators hand their scale back; False: every tensor keeps its own.

    Raises:
        UnsupportedModelError: no float model, or one without weights.
        TableError: tensors without a scale above 0, all of them.
    """  # fmt: skip
    if kind(graph) != "float":
        raise UnsupportedModelError(name, f"is a {kind(graph)} Tengine model", "Give the float one")
    graph, origins = unshared(graph)
    constants = {**constants, **{new: constants[old] for new, old in origins.items() if old in constants}}
    sources = (scale_sources if hand_back else own_scales)(graph)
    refuse_missing(graph, sources, scales, name)
    tensors = list(map(without_codes, graph.tensors))
    for place, source in sources.items():
        scale = np.float32(scales[source])
        tensors[place] = replace(tensors[place], dtype="int8", quantization=_of(scale))
    known = steps, constants
    layers = [_layer(graph, node, tensors, known, name) for node in graph.nodes if node.op in LAYERS]
    _put_operands(graph, tensors, constants, name)
    made = replace(graph, tensors=tuple(tensors), made_from=MADE_BY_TENGINE)
    return Coded(made, tuple(layers))


def _put_operands(
    graph: Graph, tensors: list[Tensor], constants: Mapping[str, CodedArray], name: str
) -> None:
    """Slopes, and constants that meet a tensor."""
    for node in graph.nodes:
        if node.op == "PReLU":
            halve(node, tensors, name)
        if node.op in MEETS:
            _operands(node, tensors, constants, name)


def refuse_missing(
    graph: Graph,
    sources: Mapping[int, str],
    scales: Mapping[str, float],
    name: str,
    formula: str = "the largest magnitude / 127",
) -> None:
    """Refuses tensors that have no scale above 0.

    Args:
        graph: the float model.
        sources: of its tensors, as ``hand_back`` gives them.
        scales: of tensors, by name.
        name: of the model, for messages.
        formula: what scales are, for messages.

    Raises:
        TableError: the table has the scale 0 for tensors, or lacks them; all of both are counted.
    """
    zero = [graph.tensors[at].name for at, own in sources.items() if own in scales and not scales[own] > 0.0]
    lacking = [graph.tensors[at].name for at, own in sources.items() if own not in scales]
    told = ("has the scale 0 for", zero), ("lacks", lacking)
    problem = "; ".join(
        f"{verb} {len(found)} of the {len(sources)} tensors of {name}: {', '.join(found[:9])}"
        for verb, found in told
        if found
    )
    if problem:
        cure = "Calibrate the same model again"
        if zero:
            cure += f", or write scales above 0 there: {formula}, or 1 for a tensor of zeros"
        raise TableError("the table of scales", problem, cure)


def _of(*scales: np.float32) -> Quantization:
    return Quantization(np.asarray(scales, np.float32), np.zeros(len(scales), np.int32))


def _of_rows(steps: Single) -> Quantization:
    """The scales of the rows of weights; a single one stands twice.

    Tengine's loader makes the list that its kernels read of two entries and more, and ends with a fault where
    it made none.
    """
    return _of(*steps, *(steps if len(steps) == 1 else ()))


def without_codes(tensor: Tensor) -> Tensor:
    """With a scale of 0, which the tool gives all that it leaves as it is."""
    return replace(tensor, quantization=_of(np.float32(0)))


def _layer(graph: Graph, node: Node, tensors: list[Tensor], known: Known, name: str) -> CodedLayer:
    """Puts weights and bias of a layer into codes."""
    chosen, constants = known
    x, weight = tensors[node.inputs[0]], graph.tensors[node.inputs[1]]
    data = floats_of(weight, name)
    rows = data.reshape(data.shape[0], -1)
    steps = chosen.get(node.inputs[1])
    if steps is None:
        steps = _known_steps(constants.get(weight.name), node, len(rows))
    if steps is None:
        steps = np.abs(rows).max(axis=1, initial=0.0).astype(np.float32) / LARGEST
    codes = np.clip(nearest(rows, steps[:, None]), -LARGEST, LARGEST).astype(np.int8)
    tensors[node.inputs[1]] = replace(
        weight, dtype="int8", data=codes.reshape(data.shape), quantization=_of_rows(steps)
    )
    assert x.quantization is not None
    bias_steps = steps * x.quantization.scales[0]
    if len(node.inputs) < 3:
        return CodedLayer(weight.name, "", steps, bias_steps)
    bias = graph.tensors[node.inputs[2]]
    whole = _bias_codes(floats_of(bias, name), bias_steps, constants.get(bias.name))
    tensors[node.inputs[2]] = replace(bias, dtype="int32", data=whole, quantization=_of(*bias_steps))
    return CodedLayer(weight.name, bias.name, steps, bias_steps)


def _known_steps(known: CodedArray | None, node: Node, rows: int) -> Single | None:
    """Scales of the rows of weights that are codes already; None for scales along another axis."""
    if known is None or (node.op == "Deconvolution" and known.axis is not None):
        return None
    if known.scale.size not in (1, rows):
        return None
    return np.ascontiguousarray(np.broadcast_to(known.scale.astype(np.float32).reshape(-1), (rows,)))


def _bias_codes(values: Single, steps: Single, known: CodedArray | None) -> npt.NDArray[np.int32]:
    """A bias in codes: those that it has, if their scales are these.

    Those of a Deconvolution are by inputs here, and by outputs where the codes are from.
    """
    fits = known is not None and known.scale.size in (1, steps.size)
    if known is not None and fits and np.array_equal(np.broadcast_to(known.scale, steps.shape), steps):
        return (
            np.broadcast_to(known.values.reshape(-1), (values.size,)).astype(np.int32).reshape(values.shape)
        )
    sums = np.resize(steps, values.size).reshape(values.shape)
    limits = np.iinfo(np.int32)
    return np.clip(nearest(values, sums).astype(np.float64), limits.min, limits.max).astype(np.int32)


def _operands(node: Node, tensors: list[Tensor], constants: Mapping[str, CodedArray], name: str) -> None:
    """Constants that meet a tensor: int8, one scale."""
    for place in node.inputs:
        tensor = tensors[place]
        if tensor.role != "const" or tensor.dtype != "float32":
            continue
        data, known = floats_of(tensor, name), constants.get(tensor.name)
        whole = known is not None and known.axis is None and known.values.dtype == np.int8
        step = np.float32(known.scale) if known is not None and whole else np.abs(data).max() / LARGEST
        codes = np.clip(nearest(data, np.asarray(step)), -LARGEST, LARGEST).astype(np.int8)
        tensors[place] = replace(tensor, dtype="int8", data=codes, quantization=_of(np.float32(step)))


def floats_of(tensor: Tensor, name: str) -> Single:
    """The float32 elements of a constant.

    Raises:
        UnsupportedModelError: it is none, or some are no finite numbers.
    """
    if tensor.role != "const" or tensor.data is None or tensor.dtype != "float32" or not tensor.shape:
        problem = f"weights '{tensor.name}' of a layer are no float32 constants"
        raise UnsupportedModelError(name, problem, "Keep the layer's network in float")
    data: Single = tensor.data
    if not np.isfinite(data).all():
        problem = f"the constant '{tensor.name}' holds {data[~np.isfinite(data)][0]}, which has no code"
        raise UnsupportedModelError(name, problem, "Keep the network in float, or mend the constant")
    return data


def nearest(values: Single, steps: Single) -> Single:
    """value / step rounded, ties away from zero; 0 where the step is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(steps == 0, np.float32(0), values / steps)
    whole: Single = np.sign(ratio) * rounded(np.abs(ratio))
    return whole


def rounded(magnitudes: Single) -> Single:
    """Halves go up; x + ½ would round up what lies just below a half."""
    floor: Single = np.floor(magnitudes)
    rounded: Single = floor + (magnitudes - floor >= np.float32(0.5)).astype(np.float32)
    return rounded


def halve(node: Node, tensors: list[Tensor], name: str) -> None:
    """Slopes as float16, without a scale."""
    for place in node.inputs:
        tensor = tensors[place]
        if tensor.role == "const":
            data = _cut(floats_of(replace(tensor, dtype="float32"), name))
            tensors[place] = replace(tensor, dtype="float16", data=data, quantization=None)


def _cut(values: Single) -> npt.NDArray[np.float16]:
    """float16 towards zero, infinite from 2^16 on: as Tengine's tools cut the bits of float32."""
    with np.errstate(over="ignore"):
        near = values.astype(np.float16)
    size = np.abs(values)
    farther = (np.abs(near.astype(np.float32)) > size) & (size < 1 << 16)
    return np.where(farther, np.nextafter(near, np.float16(0)), near)
