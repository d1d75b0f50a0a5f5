"""Given sizes put onto the inputs of a model, none of which stays free.

x [N, 3, H, W] with {"x": (1, 3, 224, 224)}   →   x [1, 3, 224, 224]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from calib8.errors import UnsupportedModelError, UsageError
from calib8.model.graph import size_name
from calib8.parameters import either
from calib8.tensors import checked_sizes, shape_text

Given = Mapping[str, Sequence[int]]

SHOWN: Final = 8
"""Entries of a list that a message shows."""


@dataclass(frozen=True)
class KnownSizes:
    """Sizes that nobody gave for this purpose.

    Attributes:
        origin: whose they are, after "those", such as ``of the table``.
        sizes: input name → sizes; what does not fit the model is passed over.
    """

    origin: str
    sizes: Given


def fix_sizes(model: ir.Model, shapes: Given | None) -> dict[str, int]:
    """Concrete shapes on all inputs; sizes by the names that they had.

    A symbol that a given shape binds has that size everywhere. A free first axis is the batch and becomes 1.

    Args:
        model: changed in place.
        shapes: input name → sizes, for inputs that the model leaves open.

    Raises:
        UsageError: no sizes by name, a shape for no input, of wrong rank, not positive, or against what the
            model states.
        UnsupportedModelError: another free axis has no given shape.
    """
    given = checked_sizes(shapes)
    inputs = {value.name or "": value for value in model.graph.inputs}
    for name in given:
        if name not in inputs:
            raise UsageError(f"shape of '{name}'", "is not an input", f"Inputs are {', '.join(inputs)}")
    bound: dict[str, int] = {}
    for name, sizes in given.items():
        _bind(inputs[name], sizes, bound)
    open_axes = [text for value in inputs.values() for text in _close(value, bound)]
    if open_axes:
        raise UnsupportedModelError(
            model.graph.name or "model",
            f"has axes of unknown size: {listed(open_axes)}",
            "Give the input a size for every axis: "
            + either("shapes={'NAME': (1, 3, 224, 224)}", "--shape NAME=1,3,224,224"),
        )
    return bound


def _bind(value: ir.Value, sizes: tuple[int, ...], bound: dict[str, int]) -> None:
    """A given shape goes onto an input, its symbols into ``bound``."""
    subject, text = f"shape {'×'.join(map(str, sizes))} of '{value.name}'", str(value.shape)
    if any(size < 1 for size in sizes):
        raise UsageError(subject, "has sizes below 1", "Give a positive size for every axis")
    stated = list(value.shape) if value.shape is not None else [ir.SymbolicDim(None)] * len(sizes)
    if len(stated) != len(sizes):
        cure = f"Give {len(stated)} sizes"
        raise UsageError(subject, f"has {len(sizes)} axes, the model has {text}", cure)
    for have, size in zip(stated, sizes, strict=True):
        if isinstance(have, int) and have > 0 and have != size:
            raise UsageError(subject, f"contradicts the model's {text}", "Change only free axes")
        symbol = size_name(have)
        if symbol and bound.setdefault(symbol, size) != size:
            cure = "Give axes of the same name the same size"
            raise UsageError(subject, f"makes '{symbol}' {size}, elsewhere it is {bound[symbol]}", cure)
    value.shape = ir.Shape(sizes)


def _close(value: ir.Value, bound: dict[str, int]) -> list[str]:
    """Fills the free axes of an input; the ones that stay open, in words."""
    if value.shape is None:
        return [f"'{value.name}', all of it"]
    sizes: list[int] = []
    missing = []
    for axis, size in enumerate(value.shape):
        symbol = size_name(size)
        known = size if isinstance(size, int) and size > 0 else bound.get(symbol)
        if known is None and axis == 0:
            known = bound.setdefault(symbol, 1) if symbol else 1
        if known is None:
            missing.append(f"'{value.name}' axis {axis}" + (f" ({symbol})" if symbol else ""))
        sizes.append(known or 0)
    if not missing:
        value.shape = ir.Shape(sizes)
    return missing


def listed(entries: Sequence[str]) -> str:
    """The first entries of a list, and how many more there are."""
    more = f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return ", ".join(entries[:SHOWN]) + more


def fits(sizes: Sequence[int] | None, stated: Sequence[object] | None) -> bool:
    """Whether an input that states some of its sizes may have these."""
    if sizes is None or stated is None or len(sizes) != len(stated) or min(sizes, default=1) < 1:
        return False
    return all(own == size for own, size in zip(stated, sizes, strict=True) if _is_known(own))


def with_known_sizes(
    model: ir.Model, given: Given, known: Sequence[KnownSizes]
) -> tuple[dict[str, tuple[int, ...]], tuple[str, ...]]:
    """Given sizes, and known ones for inputs that they leave open behind the first axis.

    A size that a given shape binds by its name is that one; a free first axis is the batch and becomes 1.

    Args:
        model: not changed.
        given: input name → sizes.
        known: the first that has an input counts.

    Returns:
        Sizes by input name, and sentences about those that are known only.
    """
    inputs = {value.name or "": tuple(value.shape or ()) for value in model.graph.inputs}
    taken: dict[str, KnownSizes] = {}
    for name, stated in inputs.items():
        fitting = [one for one in known if fits(one.sizes.get(name), stated)]
        if name not in given and fitting and not all(map(_is_known, stated[1:])):
            taken[name] = fitting[0]
    bound: dict[str, int] = {}
    for name, one in taken.items():
        bound.update(zip(map(size_name, inputs[name][1:]), one.sizes[name][1:], strict=True))
    for name, sizes in given.items():
        bound.update(zip(map(size_name, inputs.get(name, ())), sizes, strict=False))
    bound.pop("", None)
    result, notes = {name: tuple(sizes) for name, sizes in given.items()}, []
    for name, one in taken.items():
        first = one.sizes[name][0] if _is_known(inputs[name][0]) else 1
        own = zip(inputs[name], (first, *one.sizes[name][1:]), strict=True)
        result[name] = tuple(bound.get(size_name(size), number) for size, number in own)
        text = shape_text(result[name])
        notes.append(f"the free sizes of '{name}' are those {one.origin}: {text}")
    return result, tuple(notes)


def _is_known(size: object) -> bool:
    return isinstance(size, int) and size > 0
