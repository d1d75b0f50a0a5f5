"""A model opened so that it takes uint8 images where it took preprocessed float32 ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from calib8.data.preprocess import Preprocess
from calib8.errors import UsageError
from calib8.program.pixels import with_pixels
from calib8.program.program import Program
from calib8.session.ports import Shapes
from calib8.session.prepared import Opened
from calib8.tensors import TensorSpec
from calib8.type_texts import a_type

Size = TypeVar("Size")


def taking_pixels(opened: Opened, preprocess: Preprocess) -> Opened:
    """The model with uint8 pixels [N, H, W, C] in place of its one float32 image.

    Args:
        opened: a model or a program.
        preprocess: mean, scale and layout are used, and nothing else; resizing is the caller's.

    Raises:
        UsageError: no preprocessing; a plan, which takes what it takes; or not exactly one input of four axes
            in float32.
    """
    if not _is_preprocess(preprocess):
        cure = "Give a Preprocess, such as calib8.preset('torchvision')"
        raise UsageError("pixels", f"is {a_type(preprocess)}", cure)
    if opened.lower is None:
        raise UsageError(opened.name, "is a plan, its inputs are what they are", "Compile it with pixels")
    images = [spec for spec in opened.inputs if spec.dtype == np.float32 and len(spec.shape or ()) == 4]
    if len(images) != 1:
        names = ", ".join(map(str, opened.inputs))
        raise UsageError(
            opened.name, f"has not one float32 image, it takes {names}", "Feed it float32 values"
        )
    (image,) = images
    channels_first, lower = preprocess.layout == "NCHW", opened.lower

    def lowered(shapes: Shapes) -> Program:
        program = lower(_model_shapes(shapes, image.name, channels_first))
        return with_pixels(program, preprocess, image.name)

    return opened._replace(
        inputs=tuple(_pixel_spec(spec, channels_first) if spec is image else spec for spec in opened.inputs),
        lower=lowered,
    )


def _is_preprocess(value: object) -> bool:
    return isinstance(value, Preprocess)


def _pixel_spec(spec: TensorSpec, channels_first: bool) -> TensorSpec:
    assert spec.shape is not None
    return replace(spec, dtype=np.dtype(np.uint8), shape=_channels_last(spec.shape, channels_first))


def _channels_last(shape: Sequence[Size], channels_first: bool) -> tuple[Size, ...]:
    if not channels_first:
        return tuple(shape)
    count, channels, rows, columns = shape
    return count, rows, columns, channels


def _model_shapes(shapes: Shapes, name: str, channels_first: bool) -> Mapping[str, Sequence[int]]:
    """Shapes as the model has them for shapes of pixels."""
    if not channels_first or name not in shapes:
        return shapes
    count, rows, columns, channels = shapes[name]
    return {**shapes, name: (count, channels, rows, columns)}
