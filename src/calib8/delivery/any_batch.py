"""May a plan of one sample be run for each sample of a batch? A model is held against itself with two.

outputs(a, b) = outputs(a), outputs(b)      bit for bit
parts for two samples = parts for one, with 2 in place of 1 as first size of what they read and write
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx

from calib8.errors import Calib8Error
from calib8.exporting.epcontext.split import FloatPart, Split, split
from calib8.program.program import Program, Slot
from calib8.session import InferenceSession
from calib8.session.ports import Shapes

Opened = Callable[[Shapes], InferenceSession]
"""The session of a model for shapes by input name."""


class AnyBatch(NamedTuple):
    """A model whose samples are computed one by one.

    Attributes:
        name: of the batch axis; None: the batch is that of the model, or fixed at 1.
        parts: of one sample; models in float take any number.
        reason: why a batch that was free is fixed now; empty where it is not.
    """

    name: str | None
    parts: Split
    reason: str = ""


def any_batch(session: InferenceSession, opened: Opened) -> AnyBatch:
    """Whether the samples of a batch are computed one by one.

    Args:
        session: of the model.
        opened: gives one with other shapes.
    """
    program = session.program
    parts = split(program)
    sizes = [spec.shape[0] if spec.shape else 1 for spec in session.inputs]
    if all(isinstance(size, int) for size in sizes):
        return AnyBatch(None, parts)
    if any(isinstance(size, int) for size in sizes):
        return AnyBatch(None, parts, "not every input has one")
    name = next((size for size in sizes if isinstance(size, str) and size), "N")
    fed = {port.name: program.slots[port.slot] for port in program.inputs}
    try:
        two = opened({name: (2, *slot.shape[1:]) for name, slot in fed.items()})
        freed = _freed(parts, split(two.program), name)
        if freed is None:
            return AnyBatch(None, parts, "two samples are computed in another way than one")
        same = _same(session, two, fed)
    except Calib8Error as error:
        return AnyBatch(None, parts, f"two samples cannot be computed at once ({error.problem})")
    return (
        AnyBatch(name, freed)
        if same
        else AnyBatch(None, parts, "a sample gives something else beside another")
    )


def _same(one: InferenceSession, two: InferenceSession, fed: Mapping[str, Slot]) -> bool:
    """Two samples give what each of them gives."""
    samples = [{name: _drawn(slot, seed) for name, slot in fed.items()} for seed in (0, 1)]
    alone = [one.run(None, sample) for sample in samples]
    both = {name: np.concatenate([sample[name] for sample in samples]) for name in fed}
    pairs = zip(*alone, two.run(None, both), strict=True)
    return all(np.concatenate([a, b]).tobytes() == together.tobytes() for a, b, together in pairs)


def _drawn(slot: Slot, seed: int) -> npt.NDArray[Any]:
    """Values of the kind that an input holds: codes of all sizes, small numbers of wide integers."""
    random, dtype = np.random.default_rng(seed), np.dtype(slot.dtype)
    if dtype.kind == "f":
        return random.normal(size=slot.shape).astype(dtype)
    if dtype.kind == "b" or dtype.itemsize > 2:
        return random.integers(0, 2, slot.shape).astype(dtype)
    limits = np.iinfo(slot.dtype)
    return random.integers(limits.min, limits.max + 1, slot.shape).astype(dtype)


def _freed(one: Split, two: Split, batch: str) -> Split | None:
    """The parts with models in float for any batch; None where they differ in more than its size."""
    if len(one.parts) != len(two.parts) or one.copies != two.copies:
        return None
    parts: list[Program | FloatPart] = []
    for part, other in zip(one.parts, two.parts, strict=True):
        if isinstance(part, Program) and isinstance(other, Program) and _fits(part, other):
            parts.append(part)
        elif isinstance(part, FloatPart) and isinstance(other, FloatPart):
            model = _free_model(part.step.model, other.step.model, batch)
            if model is None or (part.inputs, part.outputs) != (other.inputs, other.outputs):
                return None
            parts.append(replace(part, step=replace(part.step, model=model)))
        else:
            return None
    return Split(tuple(parts), one.copies)


def _fits(one: Program, two: Program) -> bool:
    """What the programs read and write is the same, but for the first size."""

    def ports(program: Program) -> list[tuple[str, Slot]]:
        return [(port.name, program.slots[port.slot]) for port in (*program.inputs, *program.outputs)]

    pairs = list(zip(ports(one), ports(two), strict=False))
    return len(ports(one)) == len(ports(two)) and all(
        name == other_name and slot.dtype == other.dtype
        and slot.shape[:1] == (1,) and other.shape == (2, *slot.shape[1:])
        for (name, slot), (other_name, other) in pairs
    )  # fmt: skip


def _free_model(one: bytes, two: bytes, batch: str) -> bytes | None:
    """The model of one sample with the batch free; None where that of two is another one."""
    model, other = onnx.ModelProto.FromString(one), onnx.ModelProto.FromString(two)
    sizes = {value.name: value.type.tensor_type.shape for value in _values(other.graph)}
    for value in _values(model.graph):
        for dim, wanted in zip(value.type.tensor_type.shape.dim, sizes[value.name].dim, strict=False):
            if (dim.dim_value, wanted.dim_value) == (1, 2):
                dim.dim_param = batch
            elif dim.dim_value != wanted.dim_value:
                dim.Clear()
    freed = model.SerializeToString(deterministic=True)
    for graph in (model.graph, other.graph):
        for value in _values(graph):
            value.type.Clear()
    return (
        freed
        if model.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)
        else None
    )


def _values(graph: onnx.GraphProto) -> Sequence[onnx.ValueInfoProto]:
    return [*graph.input, *graph.output, *graph.value_info]
