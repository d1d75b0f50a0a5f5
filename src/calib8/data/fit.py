"""Fitting a preprocessing to the model: which input takes images, their size and layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calib8.data.preprocess import Layout, Preprocess
from calib8.data.presets import known_preprocess
from calib8.errors import DataError, UsageError
from calib8.parameters import parameter
from calib8.tensors import TensorSpec

_ARRAYS_CURE = "Give arrays instead: an .npz or an iterable of {input name: array}"


def fit_preprocess(p: Preprocess | str | None, inputs: Sequence[TensorSpec], source: str) -> Preprocess:
    """The preprocessing with the size and layout of the model's only input filled in.

    Args:
        p: the user's settings, or the name of a preset; ``size`` None is taken from the model, ``layout`` is
            changed where the model's number of channels fits the other axis only, or that alone is known.
        inputs: all inputs of the model.
        source: where the images come from, subject of error messages.

    Raises:
        UsageError: no preprocessing, no size, or one that contradicts the model.
        DataError: the model has several inputs or one that is no image.
    """
    p, spec = known_preprocess(p), image_input(inputs, source)
    if p is None:
        problem = "images need to know how the model was trained"
        raise UsageError(
            source, problem, f"Give {parameter('preprocess')} or {parameter('mean')} and {parameter('scale')}"
        )
    if spec.shape is None:
        return _sized(p, (None, None), spec)
    axes = spec.shape[-3:]
    layout = _layout(p, axes, spec)
    if len(spec.shape) == 3 and _static(axes[0]) is None and (layout == "NHWC" or p.channels > 1):
        # Stacking images along an open axis that is no batch would make one wrong image of them.
        raise DataError(
            source, f"images do not fit the input '{spec}', which has no batch axis", _ARRAYS_CURE
        )
    height, width = axes[1:] if layout == "NCHW" else axes[:2]
    return _sized(replace(p, layout=layout), (_static(height), _static(width)), spec)


def image_input(inputs: Sequence[TensorSpec], source: str) -> TensorSpec:
    """The only input of a model that takes images: rank 4, or rank 3 without batch axis, or unknown.

    Raises:
        DataError: there are several inputs, none, or one of another rank.
    """
    if len(inputs) != 1:
        names = ", ".join(spec.name for spec in inputs) or "none"
        raise DataError(
            source, f"images fit a model with one input, not {len(inputs)} ({names})", _ARRAYS_CURE
        )
    if inputs[0].shape is not None and len(inputs[0].shape) not in (3, 4):
        raise DataError(source, f"images do not fit the input '{inputs[0]}'", _ARRAYS_CURE)
    return inputs[0]


def _layout(p: Preprocess, axes: Sequence[int | str | None], spec: TensorSpec) -> Layout:
    first, last = _static(axes[0]), _static(axes[2])
    fits_first = first is None or first == p.channels
    fits_last = last is None or last == p.channels
    if fits_first and fits_last:
        if (first is None) == (last is None):
            return p.layout
        return "NHWC" if first is None else "NCHW"
    if not (fits_first or fits_last):
        cure = "Choose the color (rgb, bgr or gray) and focus that the model takes"
        raise UsageError("preprocessing", f"gives {p.channels} channels, the model's input is '{spec}'", cure)
    return "NCHW" if fits_first else "NHWC"


def _sized(p: Preprocess, model: tuple[int | None, int | None], spec: TensorSpec) -> Preprocess:
    factor = 2 if p.focus else 1
    wanted = tuple(None if length is None else length * factor for length in model)
    if p.size is None:
        if p.resize == "none":
            return p
        if wanted[0] is None or wanted[1] is None:
            raise UsageError(
                "preprocessing",
                f"the model's input '{spec}' leaves the image size open",
                f"Give {parameter('size')}",
            )
        return replace(p, size=(wanted[0], wanted[1]))
    if any(length not in (None, given) for given, length in zip(p.size, wanted, strict=True)):
        problem = f"size {p.size[0]}×{p.size[1]} does not fit the model's input '{spec}'"
        raise UsageError("preprocessing", problem, "Leave the size out or give the model's")
    return p


def _static(length: int | str | None) -> int | None:
    return length if isinstance(length, int) else None


def image_shapes(inputs: Sequence[TensorSpec], p: Preprocess | None) -> dict[str, tuple[int, ...]]:
    """Sizes of images whose rows and columns the model leaves open: those that the preprocessing gives."""
    shapes: dict[str, tuple[int, ...]] = {}
    for spec in inputs:
        if p is None or p.size is None or spec.shape is None or len(spec.shape) != 4:
            continue
        known = [_static(size) for size in spec.shape]
        if None in known[1:]:
            wanted = (1, p.channels, *p.size) if p.layout == "NCHW" else (1, *p.size, p.channels)
            pairs = zip(known, wanted, strict=True)
            shapes[spec.name] = tuple(other if size is None else size for size, other in pairs)
    return shapes
