"""A float node while it becomes operators, and images in TFLite's order of axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from calib8.errors import NoFormError
from calib8.exporting.tflite.builder import Builder
from calib8.tflite.graph import Option

Attributes = Mapping[str, Any]

ACTIVATION: Final[dict[str, Option]] = {"fused_activation_function": "NONE"}

TO_NHWC: Final = (0, 2, 3, 1)
FROM_NHWC: Final = (0, 3, 1, 2)


@dataclass(frozen=True)
class Node:
    """A node while it is written.

    Attributes:
        builder: gets its operators.
        inputs: tensors, None where an input is left out.
        constants: arrays of the inputs that are constant, else None.
        outputs: tensors.
        attributes: as ONNX names them.
    """

    builder: Builder
    inputs: tuple[int | None, ...]
    constants: tuple[Any, ...]
    outputs: tuple[int, ...]
    attributes: Attributes

    def shape(self, place: int) -> tuple[int, ...]:
        """Sizes of an input."""
        number = self.inputs[place]
        assert number is not None
        return self.builder.tensors[number].shape

    def out(self) -> tuple[int, ...]:
        """Sizes of the first output."""
        return self.builder.tensors[self.outputs[0]].shape

    def given(self) -> list[int]:
        """Tensors of the inputs that there are."""
        return [place for place in self.inputs if place is not None]

    def constant(self, place: int, what: str) -> Any:
        """The array of an input; None where it is left out.

        Raises:
            NoFormError: it is computed; ``what`` it is.
        """
        if place >= len(self.constants):
            return None
        if self.constants[place] is None and self.inputs[place] is not None:
            raise NoFormError(f"{what} are computed")
        return self.constants[place]

    def fixed(self, name: str, array: Any) -> int:
        """A constant of float32."""
        return self.builder.constant(name, np.asarray(array, np.float32))

    def between(self, tag: str, shape: Sequence[int]) -> int:
        """A tensor on the way."""
        return self.builder.add(tag, shape, "float32")

    def image(self, place: int = 0) -> int:
        """An input as an image N×H×W×C.

        Raises:
            NoFormError: it has not four axes.
        """
        source, shape = self.inputs[place], self.shape(place)
        assert source is not None
        if len(shape) != len(TO_NHWC):
            raise NoFormError(f"it works on {len(shape)} axes, where images have {len(TO_NHWC)}")
        return self.turned(source, TO_NHWC)

    def turned(self, source: int, axes: Sequence[int], target: int | None = None) -> int:
        """A tensor with its axes in another order."""
        old = self.builder.tensors[source]
        if target is None:
            target = self.between(f"{old.name}/turned", [old.shape[axis] for axis in axes])
        self.builder.operator("TRANSPOSE", [source, self.builder.ints("perm", axes)], [target])
        return target

    def give_image(self, make: Callable[[int], None]) -> None:
        """What writes an image N×H×W×C, and the output made of it."""
        name = self.builder.tensors[self.outputs[0]].name
        whole = self.between(f"{name}/image", [self.out()[axis] for axis in TO_NHWC])
        make(whole)
        self.turned(whole, FROM_NHWC, self.outputs[0])


Write: TypeAlias = Callable[[Node], None]
"""Adds the operators of a node, or raises ``NoFormError``."""
