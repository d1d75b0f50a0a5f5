"""Tengine's scale files: ``table_kl.scale`` and its like, ``scale_weight.txt`` and ``scale_bias.txt``.

    data 0.0207940 0                  tensor name, scale, zero point; int8: scale = T / 127, zero point 0
    conv1/w 0.0062 0.0039             a weight and its scale per channel; a bias and s_w · s_x per channel

Tengine writes six decimals, in which a scale of 3e-7 is gone (0 stands for "none"); here nine digits are
written, which its reader takes as well and which bring back every float32. Zero points other than 0 belong to
its uint8 tool: range [s (0 − z), s (255 − z)]. Names end at the first space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import TableError
from calib8.formats.table_file import (
    EntryCollector,
    TableFile,
    asymmetric_bounds,
    float_or_none,
    lines_of,
)
from calib8.model.graph import constant
from calib8.model.layer import Layer, layer_of
from calib8.qparams import INT8_SYMMETRIC, UINT8, QuantSpec, activation_qparams
from calib8.quantization.corrections import NO_CORRECTIONS, Corrections
from calib8.quantization.weights import plain_scales, scales_for_bias
from calib8.scheme import target_scheme
from calib8.table import CalibrationTable

TYPES: Final[dict[str, QuantSpec]] = {"tengine": INT8_SYMMETRIC, "tengine-uint8": UINT8}
"""Name of the format → code of the activations."""


def recognizes(text: str) -> bool:
    """The first line is a name, a number and an integer."""
    lines = lines_of(text)
    parts = lines[0][1].split() if lines else []
    return len(parts) == 3 and float_or_none(parts[1]) is not None and _integer(parts[2]) is not None


def read(text: str, source: str, form: str | None = None) -> TableFile:
    """Reads a ``.scale`` file.

    Args:
        text: the content.
        source: the file, for messages.
        form: a key of ``TYPES``; None: uint8 if a zero point differs from 0, else int8. (A uint8 file
            without one cannot be told from an int8 file.)

    Raises:
        TableError: a line that is not name, scale and zero point, a name twice, a negative or infinite
            scale, a zero point that the type does not have.
    """
    lines = [(number, line.split()) for number, line in lines_of(text)]
    if form is None:
        form = "tengine-uint8" if any(parts[-1] != "0" for _, parts in lines) else "tengine"
    entries = EntryCollector(source, f"Tengine {'uint8' if form == 'tengine-uint8' else 'int8'} scale")
    for number, parts in lines:
        where = f"line {number}"
        scale, zero_point = _numbers(parts, entries, where)
        if scale == 0.0:
            entries.add_without_scale(parts[0], where)
        elif TYPES[form].symmetric and zero_point:
            raise entries.error(
                f"the int8 zero point is {zero_point}, not 0, as in a table of uint8 codes", where, parts[0]
            )
        elif not 0 <= zero_point <= 255:
            raise entries.error(f"the zero point {zero_point} is not in 0 … 255", where, parts[0])
        elif TYPES[form].symmetric:
            entries.add_scale(parts[0], scale, where)
        else:
            scale = entries.positive(scale, where, parts[0])
            entries.add(parts[0], asymmetric_bounds(scale, zero_point, UINT8), where)
    return entries.finish(format=form)


def _numbers(parts: Sequence[str], entries: EntryCollector, where: str) -> tuple[float, int]:
    scale = float_or_none(parts[1]) if len(parts) == 3 else None
    zero_point = _integer(parts[-1])
    if scale is None or zero_point is None:
        raise entries.error(f"'{' '.join(parts)[:80]}' is not a name, a scale and a zero point", where)
    return scale, zero_point


def _integer(text: str) -> int | None:
    return int(text) if text.removeprefix("-").isdecimal() else None


def write(table: CalibrationTable, form: str = "tengine") -> str:
    """The ``.scale`` file: scale and zero point of every range, names sorted.

    Args:
        table: ranges.
        form: a key of ``TYPES``.

    Raises:
        TableError: a name with a space or line break.
    """
    lines = []
    for name, entry in sorted(table.entries.items()):
        qparams = activation_qparams(entry.range.min, entry.range.max, TYPES[form])
        lines.append(f"{_word(name)} {qparams.scale:.9g} {qparams.zero_point}\n")
    return "".join(lines)


def write_weight_scales(
    model: ir.Model, table: CalibrationTable, corrections: Corrections = NO_CORRECTIONS
) -> str:
    """``scale_weight.txt``: a line per Conv, ConvTranspose, Gemm and MatMul with constant weights.

    Args:
        model: a prepared graph.
        table: ranges of its tensors. Where it has the input of a layer, scales are enlarged so that the
            bias fits into int32 (``scales_for_bias``).
        corrections: of the layers, where repairs chose their scales.

    Raises:
        TableError: a name with a space or line break.
    """
    return "".join(_line(layer.weight, scales) for layer, scales, _ in _layers(model, table, corrections))


def write_bias_scales(
    model: ir.Model, table: CalibrationTable, corrections: Corrections = NO_CORRECTIONS
) -> str:
    """``scale_bias.txt``: weight scale times input scale, a line per layer with a constant bias.

    Args:
        model: a prepared graph.
        table: ranges of its tensors; a layer whose input it lacks has no line.
        corrections: of the layers, where repairs chose their scales.

    Raises:
        TableError: a name with a space or line break.
    """
    lines = []
    for layer, scales, input_scale in _layers(model, table, corrections):
        if input_scale is not None and constant(layer.bias) is not None:
            lines.append(_line(layer.bias, scales * np.float32(input_scale)))
    return "".join(lines)


def _layers(
    model: ir.Model, table: CalibrationTable, corrections: Corrections
) -> Iterator[tuple[Layer, npt.NDArray[np.float32], float | None]]:
    """Layers with constant weights, their weight scales in output order, their input's scale if known."""
    scheme = target_scheme("tengine")
    for layer in map(layer_of, model.graph):
        weight = None if layer is None else constant(layer.weight)
        if layer is None or weight is None or layer.input is None:
            continue
        entry = table.entries.get(layer.input.name or "")
        input_scale, bias = None, None
        if entry is not None:
            input_scale = activation_qparams(entry.range.min, entry.range.max, scheme.activations).scale
            bias = constant(layer.bias)
        channels = layer.channels(weight.shape)
        whole = bias is not None and bias.size == channels
        array = bias.astype(np.float32).reshape(-1) if bias is not None and whole else None
        least = scales_for_bias(layer, array, input_scale or 1.0)
        correction = corrections.get(layer.node.name or "")
        if correction is not None and correction.weight_scale is not None:
            scales = np.maximum(correction.weight_scale, least)
        else:
            scales = plain_scales(layer, weight.astype(np.float32), scheme, least)
        yield layer, np.tile(scales, channels // scales.size), input_scale


def _line(value: ir.Value | None, scales: npt.NDArray[np.float32]) -> str:
    name = "" if value is None or value.name is None else value.name
    return f"{_word(name)} {''.join(f'{float(scale):.9g} ' for scale in scales)}\n"


def _word(name: str) -> str:
    """A name that Tengine's reader finds the end of."""
    if not name or name.split() != [name]:
        raise TableError(
            f"tensor '{name}'",
            "a Tengine scale file cannot hold a name with spaces",
            "Rename it in the model",
        )
    return name
