"""Name, type and shape of a model's input or output, as model and data agree on them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from calib8.errors import DataError, UsageError
from calib8.parameters import either, parameter
from calib8.type_texts import a_type

TIMES: Final = ("time", "seq", "len", "frame", "step")
"""One of them is a part of the name of an axis of time, in lower case."""

BATCHES: Final = ("n", "b", "bs")
"""Names of the axis that counts samples, in lower case; so is every name that holds ``batch``."""

UNTOLD: Final = -1
"""In place of an axis: one of them counts samples, and nothing tells which."""

MOST_ELEMENTS: Final = 2**31 - 1
"""Of one input; more is a mistake."""


def is_too_large(sizes: Iterable[int | str | None]) -> bool:
    """The sizes that are known make more than ``MOST_ELEMENTS``; exact for numbers of any length."""
    return math.prod(size for size in sizes if isinstance(size, int)) > MOST_ELEMENTS


def shape_text(shape: Iterable[int | str | None]) -> str:
    """``(1, 3, None)`` → ``1×3×?``."""
    return "×".join("?" if size in (None, "") else str(size) for size in shape)


def whole_number(value: object) -> int | None:
    """An int, or what NumPy has for one; None for anything else, True and False included."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def length_error(layer: str, source: str, sample: int, length: int, steps: int) -> DataError:
    """What is raised where a sequence is said to be longer than it is, or shorter than nothing.

    Args:
        layer: name of the recurrent layer that reads it.
        source: input that holds the lengths; empty where they are computed.
        sample: the first one that is wrong.
        length: what it is said to have.
        steps: those of the tensor.
    """
    where = f"in '{source}' " if source else ""
    problem = f"sequence_lens {where}has {length} for sample {sample}, and the sequence has {steps} steps"
    return DataError(layer, problem, f"Give lengths in 0 … {steps}")


def checked_sizes(shapes: object) -> dict[str, tuple[int, ...]]:
    """Input name → sizes, as they were given from Python; None for none.

    Raises:
        UsageError: no dict, what are no whole numbers, or more than ``MOST_ELEMENTS``.
    """
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        raise UsageError("shapes", f"are {a_type(shapes)}", "Give a dict: input name → sizes")
    return {name: _whole_numbers(name, sizes) for name, sizes in shapes.items()}


def _whole_numbers(name: str, sizes: object) -> tuple[int, ...]:
    numbers = [whole_number(size) for size in sizes] if isinstance(sizes, Iterable) else [None]
    known = tuple(number for number in numbers if number is not None)
    if len(known) < len(numbers):
        cure = "Give whole numbers, such as (1, 3, 224, 224)"
        raise UsageError(f"shape of '{name}'", f"{sizes!r} are not sizes", cure)
    if is_too_large(known):
        problem = f"{shape_text(known)} are more than {MOST_ELEMENTS:,} elements"
        raise UsageError(f"shape of '{name}'", problem, "Give smaller sizes")
    return known


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a model.

    Attributes:
        name: its name in the graph.
        dtype: NumPy type of its elements.
        shape: one entry per axis: a size, a symbolic name, or None where nothing is known.
            None instead of a tuple where not even the rank is known.
        counted: the axis that the model's layers read as samples; ``UNTOLD`` where they read some axis, and
            cannot tell which; None: they do not.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int | str | None, ...] | None
    counted: int | None = field(default=None, compare=False)

    @property
    def batch_axis(self) -> int:
        """The axis that counts samples: as layers read it, or by the names of the axes, or else 0.

        ``UNTOLD`` for three axes of which layers may read another one than the first, where no name helps.
        """
        if self.counted is not None and self.counted != UNTOLD:
            return self.counted
        first, *others = ["" if self.shape is None else str(size).lower() for size in self.shape or (1,)]
        if first in ("1", *BATCHES) or "batch" in first:
            return 0
        nameless = first in ("none", "?", "") or first.startswith("unk")
        named = [
            axis
            for axis, name in enumerate(others, 1)
            if "batch" in name or (name in BATCHES and not nameless)
        ]
        if named:
            return named[0]
        if self.begins_with_time and others.count("1") == 1:
            return 1 + others.index("1")
        return UNTOLD if self.counted == UNTOLD and len(others) == 2 else 0

    @property
    def begins_with_time(self) -> bool:
        """Axis 0 is called like steps of time."""
        first = str(self.shape[0]).lower() if self.shape else ""
        return first == "t" or any(word in first for word in TIMES)

    def __str__(self) -> str:
        """``name: dtype N×3×224×224``, as messages show it."""
        shape = "unknown shape" if self.shape is None else shape_text(self.shape) or "scalar"
        return f"{self.name}: {self.dtype} {shape}"


def may_be_alike(one: TensorSpec, other: TensorSpec) -> bool:
    """One type, and no axis of two sizes, as far as they are known."""
    if one.dtype != other.dtype:
        return False
    if one.shape is None or other.shape is None:
        return True
    pairs = list(zip(one.shape, other.shape, strict=False))
    known = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
    return len(one.shape) == len(other.shape) and all(a == b for a, b in known)


def check_states(
    states: Mapping[str, str], inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec], name: str
) -> None:
    """Refuses states that a model cannot have: inputs that read, in the next run, what an output gave.

    Args:
        states: input → output.
        inputs, outputs: those of the model.
        name: of the model.

    Raises:
        UsageError: a name that is none of them, different types or shapes, or nothing left to be fed.
    """
    reads, writes = {spec.name: spec for spec in inputs}, {spec.name: spec for spec in outputs}
    for state, output in states.items():
        subject = parameter("state", f"{state}={output}")
        if state not in reads:
            problem = f"'{state}' is not an input of {name}"
            raise UsageError(subject, problem, f"Inputs are {', '.join(reads)}")
        if output not in writes:
            problem = f"'{output}' is not an output of {name}"
            raise UsageError(subject, problem, f"Outputs are {', '.join(writes)}")
        if not may_be_alike(reads[state], writes[output]):
            problem = f"{reads[state]} cannot be fed with {writes[output]}"
            raise UsageError(subject, problem, "Name an output of the same type and shape")
    if len(set(states.values())) < len(states):
        raise UsageError(parameter("state"), "feeds two inputs with one output", "Name an output for each")
    if states and len(states) == len(reads):
        cure = f"One input at least is no state; {either('state={}', '--state none')} carries nothing"
        raise UsageError(parameter("state"), "leaves no input to be fed", cure)


def state_sizes(
    states: Iterable[TensorSpec], fed: Iterable[TensorSpec], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Sizes of states beside other inputs: a free size is that of the axis of the same name, else 1.

    Args:
        states: the inputs that are states.
        fed: the other inputs.
        shapes: sizes of these, by name.
    """
    named: dict[str, int] = {}
    for spec in fed:
        for size, own in zip(spec.shape or (), shapes[spec.name], strict=False):
            if isinstance(size, str):
                named.setdefault(size, own)

    def known(size: int | str | None) -> int:
        return size if isinstance(size, int) else named.get(size or "", 1)

    return {spec.name: tuple(map(known, spec.shape or ())) for spec in states}
