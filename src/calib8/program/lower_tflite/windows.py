"""Windows over rows and columns, and the activation fused into an operator.

VALID   no padding
SAME    total = max((out − 1)·stride + (size − 1)·dilation + 1 − in, 0),   before = total div 2
"""

from __future__ import annotations

from typing import Final, NamedTuple

from calib8.errors import NoFormError
from calib8.program.program import Slot
from calib8.program.rounding.linear import clamp
from calib8.tflite.graph import Operator

BOUNDS: Final[dict[str, tuple[float | None, float | None]]] = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}
"""Fused activation → real bounds of the result."""


class Window(NamedTuple):
    """Strides, pads (top, left, bottom, right) and dilations, (rows, columns) each."""

    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]


def activation_clamp(operator: Operator, output: Slot) -> tuple[int, int]:
    """Lowest and highest code that the fused activation leaves.

    Raises:
        NoFormError: an activation without integer form.
    """
    activation = str(operator.options.get("fused_activation_function", "NONE"))
    if activation not in BOUNDS:
        raise NoFormError(f"the activation {activation} is fused into it")
    return clamp("tflite", output, *BOUNDS[activation])


def image_size(slot: Slot) -> tuple[int, int]:
    """Rows and columns of an image.

    Raises:
        NoFormError: it is none.
    """
    if len(slot.shape) != 4:
        raise NoFormError(f"'{slot.name}' has the shape {list(slot.shape)}; images have four axes")
    return slot.shape[1], slot.shape[2]


def strides_of(operator: Operator) -> tuple[int, int]:
    """Over rows and columns.

    Raises:
        NoFormError: one is below 1.
    """
    return _steps(operator, "stride_h", "stride_w")


def _steps(operator: Operator, rows: str, columns: str) -> tuple[int, int]:
    steps = tuple(int(operator.options.get(name, 1)) for name in (rows, columns))  # type: ignore[arg-type]
    if min(steps) < 1:
        raise NoFormError(f"{rows} and {columns} are {steps[0]} and {steps[1]}")
    return steps[0], steps[1]


def window(
    operator: Operator, input_size: tuple[int, int], output_size: tuple[int, int], kernel: tuple[int, int]
) -> Window:
    """The window of a convolution or pool.

    Args:
        operator: with the options ``padding``, ``stride_h``, ``stride_w`` and perhaps dilations.
        input_size, output_size, kernel: rows and columns.

    Raises:
        NoFormError: an option out of range.
    """
    padding = operator.options["padding"]
    strides = strides_of(operator)
    dilations = _steps(operator, "dilation_h_factor", "dilation_w_factor")
    if padding == "VALID":
        return Window(strides, (0, 0, 0, 0), dilations)
    if padding != "SAME":
        raise NoFormError(f"its padding is {padding}")
    totals = [
        max((out - 1) * stride + (size - 1) * dilation + 1 - have, 0)
        for have, out, size, stride, dilation in zip(
            input_size, output_size, kernel, strides, dilations, strict=True
        )
    ]
    top, left = totals[0] // 2, totals[1] // 2
    return Window(strides, (top, left, totals[0] - top, totals[1] - left), dilations)
