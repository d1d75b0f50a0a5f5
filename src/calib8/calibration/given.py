"""Ranges and scales that the user gives: from patterns of names to one range per tensor.

    'conv*=-3,3'             the range [−3, 3]
    'conv*=3'                the same
    'conv*=scale:0.02'       scale and zero point 0
    'conv*=scale:0.02,128'   scale and zero point

A scale s and zero point z stand for the range that the quantizer turns back into them:

    symmetric code     [−L s, L s],  L = 2^(bits−1) − 1,  z = 0
    asymmetric code    [s (qmin − z), s (qmax − z)]

Patterns are those of ``fnmatch``, upper and lower case differ; a tensor's own name always matches it. Where
several match, the last one counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

import numpy as np
import onnx_ir as ir

from calib8.errors import UsageError
from calib8.parameters import either, entry, parameter
from calib8.passes.place import Placement
from calib8.qparams import FLOAT32_MAX, FLOAT32_TINY, QParams, QuantSpec, activation_qparams
from calib8.table import GIVEN, CalibrationTable, Range

Given: TypeAlias = "Range | tuple[float, float] | QParams"
GivenRanges: TypeAlias = Mapping[str, Given]

LISTED: Final = 3
"""Tensors that a note names."""

SAME_SCALE: Final = 1e-3
"""How far, of a scale, one may be from it that counts as the same: tables have few digits."""

_CURE: Final = "Write NAME=LOW,HIGH, NAME=T for −T … T, NAME=scale:S or NAME=scale:S,ZEROPOINT"


def parse_given(texts: Iterable[str]) -> dict[str, Given]:
    """``['conv*=-3,3', 'x=scale:0.02,128']`` → pattern → range or scale, a repeated pattern moved to the end.

    Raises:
        UsageError: a text is not of one of the forms at the top of the file.
    """
    found: dict[str, Given] = {}
    for text in texts:
        pattern, equals, value = text.rpartition("=")
        if not (equals and pattern):
            raise UsageError(entry("ranges", text), "names no tensor", _CURE)
        found.pop(pattern, None)
        found[pattern] = _value(value.strip(), text)
    return found


def _value(value: str, text: str) -> Given:
    of_scale = value.startswith("scale:")
    try:
        numbers = [float(part) for part in value.removeprefix("scale:").split(",")]
    except ValueError:
        raise UsageError(entry("ranges", text), f"'{value}' is not a range", _CURE) from None
    if len(numbers) > 2:
        raise UsageError(entry("ranges", text), f"'{value}' holds {len(numbers)} numbers", _CURE)
    if not of_scale:
        return (numbers[0], numbers[1]) if len(numbers) == 2 else (-numbers[0], numbers[0])
    point = numbers[1] if len(numbers) == 2 else 0.0
    if not point.is_integer():
        raise UsageError(entry("ranges", text), f"the zero point {point:g} is not an integer", _CURE)
    return QParams(numbers[0], int(point))


def check_mapping(given: object) -> None:
    """Refuses ranges that do not name their tensors.

    Raises:
        UsageError: they are not a mapping.
    """
    if given is not None and not isinstance(given, Mapping):
        problem = f"is of type {type(given).__name__}"
        raise UsageError(parameter("ranges"), problem, "Give a mapping of names or patterns to ranges")


def given_ranges(
    given: GivenRanges, tensors: Iterable[str], spec: QuantSpec
) -> tuple[dict[str, Range], tuple[str, ...]]:
    """The range of every tensor that a pattern matches, and notes on ranges that had to be widened.

    Args:
        given: pattern → a range, (low, high), or scale and zero point.
        tensors: names of the tensors that carry codes.
        spec: the code that scales and zero points are meant for.

    Raises:
        UsageError: a pattern matches nothing (similar names are listed), or a value is not a range or scale.
    """
    names = list(tensors)
    chosen: dict[str, Range] = {}
    notes = []
    for pattern, value in given.items():
        matching = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        if not matching:
            raise _matches_nothing(pattern, names)
        found = _range(pattern, value, spec)
        widened = found.widened_to_zero()
        if widened != found:
            bounds = f"[{found.min:g}, {found.max:g}] → [{widened.min:g}, {widened.max:g}]"
            notes.append(f"the range given for '{pattern}' was widened to hold 0: {bounds}")
        chosen.update(dict.fromkeys(matching, widened))
    return chosen, tuple(notes)


def without_effect(table: CalibrationTable, placement: Placement, model: ir.Model) -> tuple[str, ...]:
    """Notes on ranges of a table that the user gave for tensors without codes, and which tensors carry them.

    Args:
        table: ranges; those that the user gave have the method ``given``.
        placement: which tensors carry codes.
        model: the prepared float graph.
    """
    idle = {name for name, entry in table.entries.items() if entry.method == GIVEN} - placement.readers.keys()
    yields = {node.name or "": node.outputs[0].name or "" for node in model.graph}
    notes = []
    for chain in placement.chains:
        inside = [yields[node] for node in chain[:-1] if yields[node] in idle]
        if inside and yields[chain[-1]] in placement.readers:
            idle -= set(inside)
            notes.append(
                f"the range given for {_listed(inside)} has no effect: '{chain[0]}' to '{chain[-1]}' are "
                f"computed as one; '{yields[chain[-1]]}' carries the codes of their result"
            )
    if idle:
        notes.append(
            f"the range given for {_listed(sorted(idle))} has no effect: the model has no codes there"
        )
    return tuple(notes)


def other_scales(table: CalibrationTable, qparams: Mapping[str, QParams], spec: QuantSpec) -> tuple[str, ...]:
    """A note on tensors of a model whose scale is not the one that a table gives them; none where all are.

    Args:
        table: as it was given.
        qparams: tensor → scale and zero point in the model.
        spec: of the codes of activations.
    """
    other = []
    for name, found in qparams.items():
        if name in table.entries:
            bounds = table.entries[name].range
            wanted = activation_qparams(bounds.min, bounds.max, spec).scale
            if abs(found.scale - wanted) > SAME_SCALE * wanted:
                other.append(f"'{name}' {found.scale:.4g} (table: {wanted:.4g})")
    if not other:
        return ()
    more = f" and {len(other) - LISTED} others" if len(other) > LISTED else ""
    why = (
        "what Concat, Split and the like join has one scale, some results a known one, repairs change ranges"
    )
    return (f"scales that are not the table's: {', '.join(other[:LISTED])}{more}; {why}",)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} others" if len(names) > LISTED else ""
    return ", ".join(f"'{name}'" for name in names[:LISTED]) + more


def _matches_nothing(pattern: str, names: list[str]) -> UsageError:
    near = get_close_matches(pattern, names, n=3, cutoff=0.3) or names[:3]
    problem = f"matches none of the {len(names)} tensors that carry codes"
    return UsageError(entry("ranges", pattern), problem, f"There are, for example, {', '.join(near)}")


def _range(pattern: str, value: Given, spec: QuantSpec) -> Range:
    if isinstance(value, QParams):
        return _range_of_scale(pattern, value, spec)
    low, high = _bounds(pattern, value)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(
            entry("ranges", pattern),
            f"[{low:g}, {high:g}] is not a range",
            "Give two finite numbers, low < high",
        )
    steps = 2 * (spec.magnitude_levels - 1) if spec.symmetric else spec.qmax - spec.qmin
    if max(abs(low), abs(high)) > FLOAT32_MAX or (max(high, 0.0) - min(low, 0.0)) / steps < FLOAT32_TINY:
        problem = f"[{low:g}, {high:g}] has no scale that float32 can hold"
        raise UsageError(entry("ranges", pattern), problem, "Give a range within float32")
    return Range(float(low), float(high))


def _bounds(pattern: str, value: Range | tuple[float, float]) -> tuple[float, float]:
    if isinstance(value, Range):
        return value.min, value.max
    try:
        low, high = map(float, value)
    except (TypeError, ValueError):
        raise UsageError(
            entry("ranges", pattern), f"{value!r} is not a range", "Give Range, (low, high) or QParams"
        ) from None
    return low, high


def _range_of_scale(pattern: str, q: QParams, spec: QuantSpec) -> Range:
    lowest = 1 - spec.magnitude_levels if spec.symmetric else spec.qmin
    with np.errstate(over="ignore"):
        scale = float(np.float32(q.scale))
    if not (scale >= FLOAT32_TINY and scale * (spec.qmax - lowest) <= FLOAT32_MAX):
        problem = f"{q.scale:g} is not a scale: it must be above 0 and within float32"
        raise UsageError(
            entry("ranges", pattern), problem, f"Give for example {either('QParams(0.02, 0)', 'scale:0.02')}"
        )
    if not (q.zero_point == 0 if spec.symmetric else spec.qmin <= q.zero_point <= spec.qmax):
        allowed = "0" if spec.symmetric else f"{spec.qmin} … {spec.qmax}"
        problem = f"the zero point {q.zero_point} does not fit the activation type, which takes {allowed}"
        raise UsageError(
            entry("ranges", pattern), problem, f"Choose another zero point, or {parameter('activations')}"
        )
    return Range(scale * (lowest - q.zero_point), scale * (spec.qmax - q.zero_point))
