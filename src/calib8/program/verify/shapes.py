"""What is written has the shape that is computed."""

from __future__ import annotations

from collections.abc import Iterable

from calib8.program.instructions import TRAITS
from calib8.program.ops.shapes import Shape
from calib8.program.ops.step import Step


def check_shape(step: Step) -> None:
    """Refuses parameters that do not fit the inputs and an output of another shape than they make.

    Raises:
        ModelError: names the instruction, the slot and both shapes.
    """
    allowed = TRAITS[type(step.instruction)].shapes(step, step.instruction)
    if step.output.shape not in allowed:
        expected = " or ".join(str(list(shape)) for shape in _examples(allowed))
        raise step.error(
            f'writes "{step.output.name}" of shape {list(step.output.shape)}, but computes {expected}',
            "Give the slot the shape that is computed",
        )


def _examples(shapes: Iterable[Shape]) -> list[Shape]:
    return [shape for _, shape in zip(range(4), dict.fromkeys(shapes), strict=False)]
