"""From a QDQ model to the int8 tmfile that has its scales and codes; from a float one to a float tmfile."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Final

import onnx_ir as ir

from calib8.data.fit import image_shapes
from calib8.data.preprocess import Preprocess
from calib8.errors import Calib8Error, ModelError, UnsupportedModelError
from calib8.exporting.tmfile.codes import Coded, in_codes
from calib8.exporting.tmfile.net import Made
from calib8.exporting.tmfile.spread import spread_scales
from calib8.exporting.tmfile.translate import NONE, tengine_graph
from calib8.exporting.tmfile.uncoded import CODES_NAME, Uncoded, uncoded
from calib8.model.fix_sizes import KnownSizes, with_known_sizes
from calib8.model.graph import graph_inputs
from calib8.model.metadata import stored_entries
from calib8.number_texts import count
from calib8.parameters import parameter
from calib8.passes.converter_names import CONVERTER_NAMES
from calib8.program.lower.canonical import canonical_qdq
from calib8.tensors import checked_sizes
from calib8.tmfile.graph import Graph
from calib8.tmfile.kinds import LAYERS
from calib8.tmfile.write import write_tmfile

Shapes = Mapping[str, Sequence[int]]

WITHOUT_INT8: Final = frozenset(
    {"Absval", "AddN", "BatchNormalization", "Bias", "Deconvolution", "Elu", "Gelu", "HardSigmoid",
     "HardSwish", "InstanceNorm", "LRN", "LogSoftmax", "MatMul", "Maximum", "Mean", "Minimum", "Mish", "Pad",
     "ReLU6", "Reciprocal", "ReduceL2", "Reduction", "Selu", "Slice", "Softplus", "SpaceToDepth", "Tanh",
     "Unary"}
)  # fmt: skip
"""Operators whose kernels end with an error there, or take codes for floats; accelerators may have them.

Source: OAID Tengine, ``source/device/cpu/op`` (commit c73708ce)."""

FREE: Final[Shapes] = {}


def float_graph(model: ir.Model, name: str, shapes: Shapes = FREE, names: Mapping[str, str] = NONE) -> Graph:
    """The Tengine graph of a prepared float model.

    Args:
        model: not changed. A free batch becomes 1.
        name: of the model, for messages.
        shapes: input name → sizes, where the model leaves them open.
        names: value → name of its tensor, see ``passes.converter_names``.

    Raises:
        UsageError: shapes that do not fit the model.
        UnsupportedModelError: another axis is free, or nodes have no form in Tengine; all are listed.
    """
    return tengine_graph(_canonical(model, name, shapes), name, names, order=_order(model)).graph


def int8_graph(model: ir.Model, name: str, shapes: Shapes = FREE) -> Coded:
    """The Tengine graph of a QDQ model, scales and codes as they are.

    Args:
        model: int8 codes with zero point 0, as the target ``tengine`` has them; not changed. A free batch
            becomes 1.
        name: of the model, for messages.
        shapes: input name → sizes, where the model leaves them open.

    Raises:
        UsageError: shapes that do not fit the model.
        UnsupportedModelError: another axis is free, other codes, layers or tensors that are left in float, or
            nodes without a form in Tengine; all of one kind are listed.
        ModelError: its metadata are broken.
    """
    sizes, _ = _sizes(model, shapes)
    taken = uncoded(_canonical(model, name, sizes), name)
    made = tengine_graph(taken.model, name, _names(model, name), taken.scales, _order(model))
    _refuse_float_layers(made, taken, name)
    known = {made.tensors[value]: scale for value, scale in taken.scales.items() if value in made.tensors}
    scales = spread_scales(made.graph, known, name)
    constants = {
        tensor: taken.constants[origin]
        for tensor, origin in made.constants.items()
        if origin in taken.constants
    }
    return in_codes(made.graph, scales, name, constants=constants, hand_back=False)


def _names(model: ir.Model, name: str) -> Mapping[str, str] | None:
    """What the converter calls tensors, as ``quantize`` stored it; None for a model that does not say it."""
    text = stored_entries(model).get(CONVERTER_NAMES)
    try:
        found = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        found = text
    if found is None or (isinstance(found, dict) and all(map(_is_name, found.values()))):
        return found
    raise ModelError(name, f"its metadata '{CONVERTER_NAMES}' are broken", "Quantize it again")


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name != ""


def _order(model: ir.Model) -> list[str]:
    """Initializers as the model has them, those in codes by the names of the floats."""
    return [name.removesuffix(CODES_NAME) for name in model.graph.initializers]


def _canonical(model: ir.Model, name: str, shapes: Shapes) -> ir.Model:
    try:
        return canonical_qdq(model, shapes)
    except Calib8Error as error:
        if error.subject not in (model.graph.name, "model"):
            raise
        raise type(error)(name, error.problem, error.cure) from error


def _refuse_float_layers(made: Made, taken: Uncoded, name: str) -> None:
    """Layers whose weights have no codes."""
    floats = [
        node.name
        for node in made.graph.nodes
        if node.op in LAYERS and not _has_codes(made, taken, made.graph.tensors[node.inputs[1]].name)
    ]
    if floats:
        problem = f"leaves {count(len(floats), 'layer')} in float: {', '.join(floats[:9])}"
        cure = f"Quantize these too ({parameter('target', 'tengine')}, without {parameter('keep_float')})"
        raise UnsupportedModelError(name, f"{problem}; an int8 tmfile has codes everywhere", cure)


def _has_codes(made: Made, taken: Uncoded, weight: str) -> bool:
    return weight in made.new or made.constants.get(weight, "") in taken.constants


def save_int8_tmfile(
    model: ir.Model, path: str | os.PathLike[str], shapes: Shapes, known: Sequence[KnownSizes]
) -> tuple[str, ...]:
    """Writes a QDQ model as an int8 tmfile.

    Args:
        model, shapes: see ``int8_graph``.
        path: where to.
        known: sizes of inputs that ``shapes`` do not say.

    Returns:
        Notes on sizes that are known only, and on operators that Tengine's kernels do not compute on codes.

    Raises:
        UsageError, UnsupportedModelError: see ``int8_graph``.
        OutputError: the file cannot be written; an old one stays intact.
    """
    sizes, taken = _sizes(model, shapes, known)
    graph = int8_graph(model, os.fspath(path), sizes).graph
    write_tmfile(graph, path)
    return (*taken, *without_kernels(graph))


def without_kernels(graph: Graph) -> tuple[str, ...]:
    """What to know of operators of an int8 model that Tengine's processor kernels do not compute on codes."""
    found = sorted({node.op for node in graph.nodes} & WITHOUT_INT8)
    if not found:
        return ()
    return (f"Tengine's kernels for processors have no int8 form of {', '.join(found)}",)


def _sizes(
    model: ir.Model, shapes: Shapes, known: Sequence[KnownSizes] = ()
) -> tuple[dict[str, tuple[int, ...]], tuple[str, ...]]:
    """Sizes of inputs: given ones, those of the images that the model was made for, known ones."""
    text = stored_entries(model).get("preprocess")
    images = image_shapes(graph_inputs(model), None if text is None else Preprocess.from_json(text))
    return with_known_sizes(model, {**images, **checked_sizes(shapes)}, known)
