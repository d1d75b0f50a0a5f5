"""ncnn's table: inverse scales, called after layers; weights first, then the input of every layer.

    conv1_param_0 158.750000 254.000000        127 / max|W_c| per output channel
    conv1 48.106060                            127 / T of the layer's input
    #conv2_param_0 63.500000                   not found by this name: conv2 stays float

The weights of a 3×3 convolution with stride and dilation 1 get 31 / max|W_c| (six bits, for ncnn's Winograd
kernel), those of a convolution in groups one scale per group. Numbers have six decimals, nine digits where
those would lose bits of the float32. Names hold no spaces and at most 255 bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import TableError
from calib8.formats.table_file import EntryCollector, TableFile, float_or_none, lines_of
from calib8.model.graph import constant
from calib8.model.layer import Layer, layer_of
from calib8.qparams import FLOAT32_MAX, FLOAT32_TINY
from calib8.table import CalibrationTable, Range

_WEIGHT_KEY: Final = re.compile(r"(.+)_param_\d+")
_LONGEST_NAME: Final = 255
_LEVELS: Final = 127.0
_WINOGRAD_LEVELS: Final = 31.0


def recognizes(text: str) -> bool:
    """Some line begins with the key of a weight."""
    return any(_WEIGHT_KEY.fullmatch(line.split()[0]) is not None for _, line in lines_of(text))


def read(text: str, source: str) -> TableFile:
    """Reads a table; its entries are called after layers, see ``calib8.formats.bind``.

    A layer stays float where ncnn leaves it so: its line begins with ``#``, one of its two lines is missing,
    or the scale of its input is infinite (nothing but zeros was seen).

    Raises:
        TableError: a line without numbers, a key twice, a scale that is negative, zero or NaN, several scales
            for one input.
    """
    entries = EntryCollector(source, "ncnn table")
    weights: dict[str, tuple[float, ...]] = {}
    inputs: dict[str, tuple[float, str]] = {}
    floats: set[str] = set()
    for number, line in lines_of(text):
        where = f"line {number}"
        key, *words = line.split()
        if key.startswith("#"):
            floats |= {_layer_of(key[1:])} - {""}
            continue
        scales = tuple(_inverse(word, entries, where, key) for word in words)
        if not scales:
            raise entries.error("is not followed by a scale", where, key)
        if key in weights or key in inputs:
            raise entries.error("comes twice", where, key)
        if _WEIGHT_KEY.fullmatch(key):
            weights[key] = scales
        elif len(scales) == 1:
            inputs[key] = scales[0], where
        else:
            raise entries.error(f"has {len(scales)} scales for one input", where, key)
    for name, (inverse, where) in inputs.items():
        if name in floats or f"{name}_param_0" not in weights or math.isinf(inverse):
            floats.add(name)
        else:
            entries.add(name, (-_LEVELS / inverse, _LEVELS / inverse), where)
    for name in sorted(floats | {_layer_of(key) for key in weights} - set(inputs)):
        entries.add_without_scale(name)
    return entries.finish(format="ncnn", keys="layers", weight_scales=weights)


def write(table: CalibrationTable, model: ir.Model) -> str:
    """The table of the layers of ``model`` that ncnn runs in int8: Conv, Gemm and MatMul.

    A layer whose input has no range is written behind ``#``: it stays float.

    Args:
        table: ranges of the tensors of ``model``; what is not symmetric around 0 is widened to that.
        model: a prepared graph. Its nodes must be called like the layers of the ncnn model.

    Raises:
        TableError: a name with spaces or of more than 255 bytes; no layer at all.
    """
    weight_lines, input_lines = [], []
    for node, scales in _layers(model):
        name = _key(node.name or "")
        source = node.inputs[0]
        entry = None if source is None else table.entries.get(source.name or "")
        mark = "#" if entry is None else ""
        weight_lines.append(f"{mark}{name}_param_0 {''.join(f'{_decimal(scale)} ' for scale in scales)}\n")
        if entry is not None:
            input_lines.append(f"{name} {_decimal(_inverse_scale(entry.range))} \n")
    if not weight_lines:
        raise TableError(
            model.graph.name or "model", "has no layer that ncnn runs in int8", "Give another model"
        )
    return "".join(weight_lines + input_lines)


def layer_inputs(model: ir.Model) -> dict[str, str]:
    """Name of each layer of ``model`` that a table can hold → name of its input tensor."""
    return {node.name or "": node.inputs[0].name or "" for node, _ in _layers(model) if node.inputs[0]}


def _layers(model: ir.Model) -> Iterator[tuple[ir.Node, npt.NDArray[np.float64]]]:
    """Layers with constant weights, and the inverse scales of these; ncnn runs no ConvTranspose in 8 bits."""
    for layer in map(layer_of, model.graph):
        weight = None if layer is None or layer.transposed else constant(layer.weight)
        if layer is not None and weight is not None and weight.dtype == np.float32 and weight.ndim >= 2:
            yield layer.node, _weight_scales(layer, np.abs(weight.astype(np.float64)))


def _weight_scales(layer: Layer, magnitude: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """levels / max|W| per output channel, or per group; 1 where all weights are zero."""
    groups = layer.groups
    rows = layer.by_channel(magnitude).reshape(groups if groups > 1 else layer.channels(magnitude.shape), -1)
    largest = rows.max(axis=1)
    levels = _WINOGRAD_LEVELS if groups == 1 and _is_winograd(layer, magnitude) else _LEVELS
    inverse = levels / np.maximum(largest, FLOAT32_TINY)
    result: npt.NDArray[np.float64] = np.where(inverse <= FLOAT32_MAX, inverse, 1.0)
    return result


def _is_winograd(layer: Layer, magnitude: npt.NDArray[np.float64]) -> bool:
    ones = (1, 1)
    return layer.direct and magnitude.shape[2:] == (3, 3) and layer.steps(2) == (ones, ones)


def _inverse_scale(chosen: Range) -> float:
    """127 / T, 1 where T is too small for a float32 scale."""
    smallest = _LEVELS * FLOAT32_TINY
    return _LEVELS / chosen.magnitude if chosen.magnitude >= smallest else 1.0


def _decimal(value: float) -> str:
    """Six decimals if they give the same float32, else nine digits."""
    rounded = np.float32(value)
    text = f"{float(rounded):.6f}"
    return text if np.float32(text) == rounded else f"{float(rounded):.9g}"


def _inverse(word: str, entries: EntryCollector, where: str, key: str) -> float:
    """A number of the file as float32; infinite is possible."""
    value = float_or_none(word)
    if value is None:
        raise entries.error(f"'{word[:40]}' is not a number", where, key)
    with np.errstate(over="ignore"):
        rounded = float(np.float32(value))
    if not rounded > 0.0:
        raise entries.error(f"the scale {word} is not positive", where, key)
    return rounded


def _layer_of(key: str) -> str:
    found = _WEIGHT_KEY.fullmatch(key)
    return found[1] if found else key


def _key(name: str) -> str:
    if name.split() != [name] or len(name.encode()) > _LONGEST_NAME or name.startswith("#"):
        raise TableError(
            f"layer '{name}'",
            f"ncnn reads no name with spaces, of more than {_LONGEST_NAME} bytes or with '#' in front",
            "Rename it in the model",
        )
    return name
