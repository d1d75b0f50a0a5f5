"""Windows over rows and columns: strides, dilations, and TFLite's padding as ONNX states it.

VALID   no padding
SAME    total = max((out − 1)·stride + (size − 1)·dilation + 1 − in, 0),   before = total div 2
"""

from __future__ import annotations

from collections.abc import Sequence

from calib8.errors import NoFormError
from calib8.model.from_tflite.builder import Attribute
from calib8.tflite.graph import Operator


def number(operator: Operator, option: str, default: int = 1) -> int:
    """An option that is a whole number."""
    return int(operator.options.get(option, default))  # type: ignore[arg-type]


def strides(operator: Operator) -> list[int]:
    """Rows, columns.

    Raises:
        NoFormError: one below 1.
    """
    found = [number(operator, "stride_h"), number(operator, "stride_w")]
    if min(found) < 1:
        raise NoFormError(f"its strides are {found}")
    return found


def same_pads(operator: Operator, have: Sequence[int], out: Sequence[int], reach: Sequence[int]) -> list[int]:
    """Padding [top, left, bottom, right].

    Args:
        operator: with the option ``padding`` and strides.
        have, out: rows and columns of input and output.
        reach: (size − 1) · dilation + 1 of the window.
    """
    if operator.options.get("padding") == "VALID":
        return [0, 0, 0, 0]
    axes = zip(have, out, strides(operator), reach, strict=True)
    totals = [max((n - 1) * stride + span - size, 0) for size, n, stride, span in axes]
    before = [total // 2 for total in totals]
    return before + [total - half for total, half in zip(totals, before, strict=True)]


def window(
    operator: Operator, have: Sequence[int], out: Sequence[int], kernel: Sequence[int]
) -> dict[str, Attribute]:
    """Attributes of a Conv: kernel_shape, strides, dilations, pads."""
    dilations = [number(operator, "dilation_h_factor"), number(operator, "dilation_w_factor")]
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    return {
        "kernel_shape": list(kernel),
        "strides": strides(operator),
        "dilations": dilations,
        "pads": same_pads(operator, have, out, reach),
    }
