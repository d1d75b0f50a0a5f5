"""Custom operators whose meaning is known, and the options that their bytes hold.

TFLite_Detection_PostProcess     a FlexBuffers map of numbers by name
Convolution2DTransposeBias       three int32 numbers: padding (1 SAME, 2 VALID), strides across and down
"""

from __future__ import annotations

import math
import struct
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from flatbuffers import flexbuffers

from calib8.errors import NoFormError
from calib8.tflite.graph import CUSTOM, Operator

DETECTIONS: Final = "TFLite_Detection_PostProcess"
TRANSPOSE_CONV_BIAS: Final = "Convolution2DTransposeBias"
KNOWN: Final = (DETECTIONS, TRANSPOSE_CONV_BIAS)

MOST_DETECTIONS: Final = 65535
"""Of an image: more ask for memory and time."""

PADDINGS: Final = {1: "SAME", 2: "VALID"}

DAMAGE: Final = (
    struct.error, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""What reading bytes that are no FlexBuffers raises."""


@dataclass(frozen=True)
class Detections:
    """Options of TFLite_Detection_PostProcess, by their names in the file.

    Attributes:
        max_detections: boxes that come out.
        max_classes_per_detection: classes of each box, the best ones; without ``use_regular_nms``.
        detections_per_class: boxes that each class keeps; with ``use_regular_nms``.
        use_regular_nms: boxes of a class suppress each other; else all boxes do, by their best class.
        nms_score_threshold: the lowest score that counts.
        nms_iou_threshold: overlap (intersection over union) above which the lower score goes; in (0, 1].
        num_classes: without the background.
        y_scale, x_scale, h_scale, w_scale: divisors of the encoded boxes.
    """

    max_detections: int = 0
    max_classes_per_detection: int = 0
    detections_per_class: int = 100
    use_regular_nms: bool = False
    nms_score_threshold: float = 0.0
    nms_iou_threshold: float = 0.0
    num_classes: int = 0
    y_scale: float = 0.0
    x_scale: float = 0.0
    h_scale: float = 0.0
    w_scale: float = 0.0

    @property
    def rows(self) -> int:
        """Rows of the outputs."""
        return self.max_detections * self.max_classes_per_detection


@dataclass(frozen=True)
class TransposeConvBias:
    """Options of Convolution2DTransposeBias.

    Attributes:
        padding: SAME or VALID.
        stride_h, stride_w: rows and columns of the output from one pixel of the input to the next.
    """

    padding: str
    stride_h: int
    stride_w: int


def is_custom(operator: Operator, name: str) -> bool:
    """Whether an operator is the custom one of a name."""
    return operator.op == CUSTOM and operator.custom_code == name


def detections(operator: Operator) -> Detections:
    """The options of a TFLite_Detection_PostProcess.

    Raises:
        NoFormError: bytes that hold none, or numbers that LiteRT refuses.
    """
    try:
        options = _numbers(operator.custom_options)
    except DAMAGE as error:
        raise NoFormError(f"its options are no FlexBuffers map of numbers ({error})") from error
    problem = _problem(options)
    if problem is not None:
        raise NoFormError(problem)
    return options


def _numbers(data: bytes) -> Detections:
    table = flexbuffers.GetRoot(bytearray(data)).AsMap
    found: dict[str, Any] = {}
    for one in fields(Detections):
        kind = type(one.default)
        try:
            entry = table[one.name]
        except KeyError:
            continue
        if not entry.IsNull:
            found[one.name] = _as(kind, entry)
    return Detections(**found)


def _as(kind: type, entry: Any) -> Any:
    """A number of a FlexBuffers map; LiteRT reads one type as another."""
    if entry.IsFloat:
        number: int | float = entry.AsFloat
    elif entry.IsBool:
        number = int(entry.AsBool)
    else:
        number = entry.AsInt
    return kind(number)


def _problem(options: Detections) -> str | None:
    for name in ("max_detections", "max_classes_per_detection", "num_classes"):
        count = getattr(options, name)
        if not 1 <= count <= MOST_DETECTIONS:
            return f"its option {name} is {count}, not 1 to {MOST_DETECTIONS}"
    if options.rows > MOST_DETECTIONS:
        return f"it makes {options.rows} rows; the most are {MOST_DETECTIONS}"
    if options.use_regular_nms and options.detections_per_class < 1:
        return f"its option detections_per_class is {options.detections_per_class}, not 1 or more"
    if not 0 < options.nms_iou_threshold <= 1:
        return f"its option nms_iou_threshold is {options.nms_iou_threshold}, not above 0 and up to 1"
    if not math.isfinite(options.nms_score_threshold):
        return f"its option nms_score_threshold is {options.nms_score_threshold}"
    for name in ("y_scale", "x_scale", "h_scale", "w_scale"):
        scale = getattr(options, name)
        if not (math.isfinite(scale) and scale):
            return f"its option {name} is {scale}"
    return None


def detections_bytes(options: Detections) -> bytes:
    """The bytes of the options of a TFLite_Detection_PostProcess."""
    data: bytearray = flexbuffers.Dumps(asdict(options))
    return bytes(data)


def transpose_conv_bias(operator: Operator) -> TransposeConvBias:
    """The options of a Convolution2DTransposeBias.

    Raises:
        NoFormError: bytes that hold none.
    """
    data = operator.custom_options
    if len(data) < 12:
        raise NoFormError(f"its options have {len(data)} bytes, not 12 or more")
    padding, across, down = struct.unpack_from("<3i", data)
    if padding not in PADDINGS or not 1 <= min(across, down) <= max(across, down) <= MOST_DETECTIONS:
        raise NoFormError(f"its options are the padding {padding} and the strides {down}×{across}")
    return TransposeConvBias(PADDINGS[padding], down, across)


def transpose_conv_bias_bytes(options: TransposeConvBias) -> bytes:
    """The bytes of the options of a Convolution2DTransposeBias."""
    padding = next(number for number, name in PADDINGS.items() if name == options.padding)
    return struct.pack("<3i", padding, options.stride_w, options.stride_h)
