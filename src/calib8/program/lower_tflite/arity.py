"""Version of an operator, how many tensors it has, of how many axes, and which options make no sense."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from calib8.tflite.graph import Graph, Operator
from calib8.tflite.schema import OPTIONS, PLAIN, member_names
from calib8.tflite.versions import unknown_version

MANY: Final = 1 << 16
ABSENT: Final = -1


@dataclass(frozen=True)
class Takes:
    """What an operator may have.

    Attributes:
        least, most: number of inputs; those up to ``least`` must not be left out, unless ``gaps``.
        outputs: most outputs; one at least.
        ranks: place of an input → least and most axes.
        gaps: any input but the first may be left out.
        states: places of inputs that keep their values between runs.
    """

    least: int = 1
    most: int = 1
    outputs: int = 1
    ranks: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    gaps: bool = False
    states: tuple[int, ...] = ()


IMAGE: Final = (4, 4)
LIST: Final = (0, 1)
UNARY: Final = Takes()
UP_TO_8: Final = (0, 8)
"""Axes that LiteRT's kernels broadcast."""
BINARY: Final = Takes(2, 2, ranks={0: UP_TO_8, 1: UP_TO_8})
UP_TO_5: Final = (0, 5)
CONV: Final = Takes(2, 3, ranks={0: IMAGE, 1: IMAGE})
POOL: Final = Takes(ranks={0: IMAGE})
RESIZE: Final = Takes(2, 2, ranks={0: IMAGE, 1: LIST})
REDUCTION: Final = Takes(2, 2, ranks={1: LIST})
BLOCKS: Final = Takes(3, 3, ranks={0: (3, 4), 1: LIST, 2: (2, 2)})

BINARIES: Final = (
    "ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE",
)  # fmt: skip

TAKES: Final[Mapping[str, Takes]] = {
    "CONV_2D": CONV,
    "DEPTHWISE_CONV_2D": CONV,
    "TRANSPOSE_CONV": Takes(3, 4, ranks={0: LIST, 1: IMAGE, 2: IMAGE}),
    "FULLY_CONNECTED": Takes(2, 3, ranks={1: (2, 2)}),
    "BATCH_MATMUL": Takes(2, 2, ranks={0: (2, 32), 1: (2, 32)}),
    **dict.fromkeys(BINARIES, BINARY),
    "PRELU": BINARY,
    **dict.fromkeys(("TILE", "BROADCAST_TO"), Takes(2, 2)),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), POOL),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"), REDUCTION),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN", "EXPAND_DIMS"), REDUCTION),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), RESIZE),
    **dict.fromkeys(("LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1"), UNARY),
    **dict.fromkeys(("LEAKY_RELU", "HARD_SWISH"), UNARY),
    "SQUEEZE": Takes(ranks={0: UP_TO_8}),
    **dict.fromkeys(("CAST", "QUANTIZE", "DEQUANTIZE"), UNARY),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX"), Takes(ranks={0: (1, 32)})),
    **dict.fromkeys(("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"), POOL),
    **dict.fromkeys(("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), BLOCKS),
    "PAD": Takes(2, 2, ranks={0: UP_TO_5, 1: (2, 2)}),
    "MIRROR_PAD": Takes(2, 2, ranks={1: (2, 2)}),
    **dict.fromkeys(("CONCATENATION", "PACK"), Takes(1, MANY)),
    "PADV2": Takes(3, 3, ranks={0: UP_TO_5, 1: (2, 2)}),
    "RESHAPE": Takes(1, 2, ranks={1: LIST}),
    "TRANSPOSE": Takes(2, 2, ranks={0: (1, 8), 1: LIST}),  # of a scalar LiteRT writes nothing
    "STRIDED_SLICE": Takes(4, 4, ranks={1: LIST, 2: LIST, 3: LIST}),
    "SLICE": Takes(3, 3, ranks={1: LIST, 2: LIST}),
    "SPLIT": Takes(2, 2, MANY, {0: LIST, 1: (1, 32)}),
    "SPLIT_V": Takes(3, 3, MANY, {0: (1, 32), 1: LIST, 2: LIST}),
    "UNPACK": Takes(1, 1, MANY, {0: (1, 32)}),
    "GATHER": Takes(2, 2, ranks={0: (1, 32)}),
    "GATHER_ND": Takes(2, 2, ranks={0: (1, 32), 1: (1, 32)}),
    "REVERSE_V2": Takes(2, 2, ranks={0: (1, 32), 1: LIST}),
    "RSQRT": UNARY,
    "CUMSUM": Takes(2, 2, ranks={0: (1, 32), 1: LIST}),
    "ADD_N": Takes(1, MANY),
    "SELECT": Takes(3, 3),
    "TOPK_V2": Takes(2, 2, 2, {0: (1, 32), 1: LIST}),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Takes(20, 24, ranks={0: (3, 3)}, gaps=True, states=(18, 19)),
}
"""Operators whose number of tensors is known."""

LIMITED: Final = {
    "stride_w",
    "stride_h",
    "dilation_w_factor",
    "dilation_h_factor",
    "filter_width",
    "filter_height",
    "block_size",
    "num_splits",
    "values_count",
}
"""Options in 1 … 65535: larger ones ask for memory and time."""

LARGEST_OPTION: Final = 65535


COUNTS: Final = {
    "PACK": ("values_count", "reads"),
    "SPLIT": ("num_splits", "writes"),
    "SPLIT_V": ("num_splits", "writes"),
    "UNPACK": ("num", "writes"),
}
"""Operator → its option that counts tensors, and which they are."""


def misuse(graph: Graph, operator: Operator) -> str | None:
    """What keeps an operator from being lowered at all: version, tensors, or an option beyond all bounds.

    Args:
        graph: checked.
        operator: of it.
    """
    takes = TAKES.get(operator.op)
    tensors = None if takes is None else _tensors_problem(graph, operator, takes)
    return (
        unknown_version(operator)
        or tensors
        or _variable_problem(graph, operator)
        or _limits_problem(operator)
    )


def _tensors_problem(graph: Graph, operator: Operator, takes: Takes) -> str | None:
    inputs, outputs = operator.inputs, operator.outputs
    if not takes.least <= len(inputs) <= takes.most:
        wanted = f"{takes.least}" if takes.least == takes.most else f"{takes.least} to {takes.most}"
        return f"it has {len(inputs)} inputs, not {wanted}"
    if len(outputs) > takes.outputs:
        return f"it has {len(outputs)} outputs, not {takes.outputs}"
    needed = inputs[: 1 if takes.gaps else takes.least]
    if ABSENT in needed or (takes.most == MANY and ABSENT in inputs):
        return f"its input {inputs.index(ABSENT)} is left out"
    for place, (least, most) in takes.ranks.items():
        if place < len(inputs) and inputs[place] != ABSENT:
            tensor = graph.tensors[inputs[place]]
            if not least <= len(tensor.shape) <= most:
                wanted = f"{least}" if least == most else f"{least} to {most}"
                return f"its input '{tensor.name}' has shape {list(tensor.shape)}, not {wanted} axes"
    return None


def _limits_problem(operator: Operator) -> str | None:
    for name in LIMITED.intersection(operator.options):
        value = operator.options[name]
        if not (isinstance(value, int) and value <= LARGEST_OPTION):
            return f"its option {name} is {value}; the most is {LARGEST_OPTION}"
    return None


def odd_option(operator: Operator) -> str | None:
    """An option that means nothing: a member that the schema does not have, a size below 1, no number.

    Asked after lowering: most operators' own functions say more.
    """
    known = OPTIONS.get(operator.op)
    for name, value in operator.options.items():
        kind = "value" if known is None else known.fields.get(name, "value")
        if kind not in PLAIN and value not in member_names(kind):
            return f"its option {name} is {value}, which the schema does not have"
        if name in LIMITED and isinstance(value, int) and value < 1:
            return f"its option {name} is {value}; it must be 1 or more"
        if isinstance(value, float) and not math.isfinite(value):
            return f"its option {name} is {value}"
    return _miscounted(operator)


def _miscounted(operator: Operator) -> str | None:
    """An option that says how many tensors an operator has, and says it wrong."""
    name, side = COUNTS.get(operator.op, ("", ""))
    if name not in operator.options:
        return None
    count = len(operator.outputs if side == "writes" else operator.inputs)
    if operator.options[name] == count:
        return None
    return f"its option {name} is {operator.options[name]}, and it {side} {count} tensors"


def _variable_problem(graph: Graph, operator: Operator) -> str | None:
    states = TAKES[operator.op].states if operator.op in TAKES else ()
    read = (place for at, place in enumerate(operator.inputs) if at not in states)
    for place in (*read, *operator.outputs):
        if place != ABSENT and graph.tensors[place].is_variable:
            return f"'{graph.tensors[place].name}' keeps its value between runs"
    return None
