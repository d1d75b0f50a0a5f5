"""Ops by what they have in common: sets of names, all of them taken from ``TABLE``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calib8.ops.table import TABLE
from calib8.ops.traits import Family, Form, Move


def _family(*families: Family) -> frozenset[str]:
    return frozenset(name for name, op in TABLE.items() if op.family in families)


def _moving(*moves: Move) -> frozenset[str]:
    return frozenset(name for name, op in TABLE.items() if op.moves in moves)


def _with_form(*forms: Form) -> frozenset[str]:
    return frozenset(name for name, op in TABLE.items() if op.form in forms)


KEEPING: Final = _moving("same")
RESHAPING: Final = _moving("reshaped")
PERMUTING: Final = _moving("permuted")
REPEATING: Final = _moving("repeated")
CUTTING: Final = _moving("cut")
COMPARING: Final = _moving("compared")

SAME_VALUES: Final = KEEPING | RESHAPING | PERMUTING | REPEATING
"""Ops whose result holds exactly the values of their first input."""

ARRANGING_OPS: Final = RESHAPING | PERMUTING | CUTTING | _moving("joined")
"""Ops that put values elsewhere, each at most once: floats cost them little more than codes."""

CHOICES: Final = _family("selection") - {"Where"} | {"NonMaxSuppression"}
"""Ops that choose among scores: where two are almost equal, the last bits decide."""

MOVES: Final = frozenset(name for name, op in TABLE.items() if op.moves) - KEEPING
"""Ops whose result holds nothing but values of their data, a number that a Pad brings in apart: a quantizer
may change places with them."""

JOINED: Final = _moving("joined")
JOINING: Final = frozenset(name for name in MOVES if TABLE[name].data is None)
"""Those of them all of whose inputs are data; the others have one, the first."""

FLOAT_ONLY: Final = frozenset(name for name in MOVES if not TABLE[name].on_codes)
"""Those of them that the standard does not define on codes."""

DATA_ON_CODES: Final[Mapping[str, tuple[int, ...] | None]] = {
    name: op.data for name, op in TABLE.items() if op.on_codes
}
"""Op that works on codes as on real numbers → places of the inputs that hold them, None for all of them."""

BOUNDS: Final[Mapping[str, tuple[int, ...]]] = {name: op.bounds for name, op in TABLE.items() if op.bounds}
"""Op → places of parameters that are numbers of the scale of its data."""

SETTING_OPS: Final = frozenset(name for name, op in TABLE.items() if op.bounds or op.settings)
"""Ops with float parameters that nothing was trained for: limits, sizes, paddings, scales."""

WEIGHTED_OPS: Final = _family("layer")
WITH_BIAS: Final = frozenset(name for name in WEIGHTED_OPS if TABLE[name].bias is not None)
MATRIX_PRODUCTS: Final = frozenset({"Gemm", "MatMul"})
CONVOLUTIONS: Final = WEIGHTED_OPS - MATRIX_PRODUCTS
RECURRENT: Final = _family("recurrent")

WEIGHT_INPUT: Final[Mapping[str, int]] = {
    name: op.weight for name, op in TABLE.items() if op.weight is not None
}
"""Ops that multiply and accumulate → place of their weight."""

FUNCTIONS: Final = _family("function")
"""Ops that compute each value from one value of one tensor."""

ACTIVATIONS: Final = frozenset(name for name, op in TABLE.items() if op.activates)
"""Those of them that networks put behind layers."""

ROUGH: Final = frozenset(name for name, op in TABLE.items() if op.rough)
"""Those of them that a curve of a few segments comes near over a small range at best."""

CLAMPS: Final = frozenset({"Relu", "Clip"})
"""Functions that a quantizer carries out with the ends of its codes."""

LIMITED: Final[Mapping[str, tuple[float, float]]] = {
    name: op.limits for name, op in TABLE.items() if op.limits is not None
}
"""Op → the limits that its results lie within, whatever it reads."""

FROM_ZERO: Final[Mapping[str, tuple[float, float]]] = {
    name: limits for name, limits in LIMITED.items() if limits[0] == 0.0
}
"""Those of them whose results are never negative."""

ARITHMETIC: Final = _family("arithmetic")
NEUTRAL: Final[Mapping[str, int]] = {name: op.neutral for name, op in TABLE.items() if op.neutral is not None}
"""Op → number that leaves the other operand as it is."""

ADDENDS: Final = frozenset(name for name, number in NEUTRAL.items() if number == 0)

SCALING: Final = frozenset(name for name, op in TABLE.items() if op.scales)
"""Ops f with f(s · x) = s · f(x) for s > 0, beside those that move values."""

ROW_BY_ROW: Final = frozenset(name for name, op in TABLE.items() if op.rows)
"""Ops that compute every entry of axis 0 by itself, whatever their attributes."""

POOLS: Final = _family("pool")
AVERAGE_POOLS: Final = frozenset({"AveragePool", "GlobalAveragePool"})
GLOBAL_POOLS: Final = frozenset({"GlobalAveragePool", "GlobalMaxPool"})
REDUCTIONS: Final = _family("reduction")
SOFTMAX: Final = _family("softmax")

QUANTIZERS: Final = _family("quantizer")
INTEGER_OPS: Final = _family("integer")
"""Ops on codes, of those whose name starts with QLinear not all."""

CODED_CELLS: Final = frozenset({"DynamicQuantizeLSTM"})
"""Recurrent ops of ONNX Runtime that hold codes of their weights; what they read and give are floats."""

FIRST_STATES: Final = (5, 6)
"""Places of h and c among the inputs of a recurrent op."""

CODED_BIAS_INPUT: Final[Mapping[str, int]] = {
    name: op.bias for name in INTEGER_OPS if (op := TABLE[name]).bias is not None
}
"""Of these → place of the bias."""

OF_SHAPES: Final = _family("shape")
CONTROL_FLOW: Final = _family("control")

QUANTIZABLE_OPS: Final = _with_form("own")
"""Ops that have an integer form wherever they stand."""

BINARY_OPS: Final = ARITHMETIC & QUANTIZABLE_OPS
OPERAND_OPS: Final = ARITHMETIC & _with_form("function")
UNARY_OPS: Final = (FUNCTIONS | SOFTMAX) & QUANTIZABLE_OPS
FUNCTION_OPS: Final = _with_form("function")
"""Ops that have an integer form as functions of one tensor alone, where a target computes such as one."""

TARGET_OPS: Final = _with_form("target")
"""Ops that have an integer form wherever they stand, for targets that name them."""

NORMS_OF_ROWS: Final = TARGET_OPS - {"GroupNormalization", "InstanceNormalization"}
"""Those of them that look at one row at a time: normalizations and lengths."""

PAIR_OPS: Final = frozenset(name for name, op in TABLE.items() if op.of_two)
"""Ops of ``FUNCTION_OPS`` that have one of two tensors as well, for targets that name them."""

POOL_OPS: Final = (POOLS | REDUCTIONS) & QUANTIZABLE_OPS
MOVE_OPS: Final = _family("move") & QUANTIZABLE_OPS - JOINING
CODE_PRESERVING_OPS: Final = (MOVES & QUANTIZABLE_OPS) - JOINING
"""Ops whose output codes are input codes: input and output must share scale and zero point."""
