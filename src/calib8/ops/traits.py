"""What is asked of an ONNX op, as data: ``OpTraits``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Family: TypeAlias = Literal[
    "layer", "recurrent", "function", "arithmetic", "pool", "reduction", "softmax", "normalization", "move",
    "selection", "cast", "quantizer", "integer", "shape", "control",
]  # fmt: skip
"""layer           multiplies with weights and adds up
recurrent       does so step by step
function        a function of one tensor: each value from the value at the same place, and parameters
arithmetic      each value from the values of several tensors at the same place
pool            over windows of the axes behind the channels, or all of them
reduction       over axes that are named
softmax         over the neighbours along an axis
normalization   by mean and spread, stored or computed
move            puts values elsewhere
selection       chooses among values, or says which one it was
cast            to another type
quantizer       between real numbers and codes
integer         computes on codes as such: QOperator form, dynamic quantization
shape           tells of sizes, not of values
control         runs graphs that are its attributes
"""

Move: TypeAlias = Literal[
    "same", "reshaped", "permuted", "repeated", "cut", "picked", "padded", "joined", "compared"
]
"""How values that do not change get into a result:

same       each one, where it was
reshaped   each one, in the same order, under another shape
permuted   each one, in another order
repeated   each one, several times
cut        each one once or not at all
picked     any of them, as often as wanted; a Resize that interpolates mixes neighbours as well
padded     each one, and a number or copies around them
joined     all of several tensors, side by side
compared   the largest or smallest of several
"""

Form: TypeAlias = Literal["own", "function", "target"]
"""own        has an integer form wherever it stands
function   has one as a function of one tensor, or as a part of one, where a target computes such as one
target     has one wherever it stands, for targets that name the op
"""


@dataclass(frozen=True)
class OpTraits:
    """What all rooms may know of an op.

    Attributes:
        family: what kind of op it is.
        data: places of the inputs whose values its result is made of; None: all of them. Other inputs are
            parameters.
        moves: how values get from data to result unchanged; None: it computes new ones.
        form: its integer form in a program; None: there is none that ``quantize`` relies on.
        of_two: an op with the form ``function`` has one of two tensors too, for targets that name it.
        limits: all its results lie in, both of them finite; None: there are no such limits.
        scales: f(s · x) = s · f(x) for s > 0, all data times the same s; what moves values does so as well.
        neutral: what changes nothing as a factor (1) or as an addend (0); None: it neither scales nor shifts.
        rows: every entry of axis 0 is computed by itself, whatever its attributes say.
        weight, bias: places of the inputs that were trained; None: there is none.
        bounds: places of the parameters that are numbers of the scale of the data.
        settings: places of other parameters that are floats.
        activates: networks put it behind layers to bend what they yield; other functions decode it, as Exp
            does with the logarithm of a size.
        rough: its results jump, leave all limits at some number, or go up and down again and again.
        on_codes: the standard defines it for 8-bit integers too, and codes of one scale that it reads become
            codes of what it makes of their real numbers.
    """

    family: Family
    data: tuple[int, ...] | None = (0,)
    moves: Move | None = None
    form: Form | None = None
    of_two: bool = False
    limits: tuple[float, float] | None = None
    scales: bool = False
    neutral: int | None = None
    rows: bool = False
    weight: int | None = None
    bias: int | None = None
    bounds: tuple[int, ...] = ()
    settings: tuple[int, ...] = ()
    activates: bool = False
    rough: bool = False
    on_codes: bool = False
