"""The program while it grows: slots, instructions, and the form in which every tensor of the graph exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from calib8.errors import UnsupportedModelError
from calib8.model.graph import first_free
from calib8.program.instructions import Instruction, Reshape, Transpose
from calib8.program.lower.forms import Coded, CodeType, Form, Order, Sums
from calib8.program.lower.layout import (
    axes_between,
    image_order,
    keeps_memory,
    logical,
    logical_order,
    physical,
)
from calib8.program.program import CODE_TYPES, Slot
from calib8.program.rules import F32, Profile
from calib8.quantization.qdq import label

NO_SCALES = np.zeros(0, np.float32)


class Ports(NamedTuple):
    """The first three fields of every instruction."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Mark(NamedTuple):
    """State of a ``Builder`` before a node."""

    steps: int
    forms: dict[ir.Value, Form]
    ready: dict[tuple[ir.Value, CodeType], Coded]
    reals: dict[ir.Value, int]
    layouts: dict[tuple[int, Order, Order], int]
    arranged: dict[tuple[object, ...], int]
    fused: set[ir.Node]
    pending: list[ir.Node]


@dataclass
class Builder:
    """What the functions that emit instructions share.

    Attributes:
        graph: the canonical graph.
        profile: rounding rules of all instructions.
        slots, steps: the program so far.
        forms: value of the graph → how the program holds it; absent: float nodes compute it on demand.
        ready: a value in certain codes, made already → where.
        reals: value → slot of its float32 (or other plain) values, logical order.
        layouts: (slot, how it lies, order wanted) → slot that holds it so.
        arranged: (slot, shape, what was done) → slot that holds frames of a volume so (``volumes``).
        fused: nodes that another node's instruction carries out.
        pending: nodes without an integer form that wait for the next Float instruction.
        reasons: node → why it is float.
        taken: names of the slots.
    """

    graph: ir.Graph
    profile: Profile
    slots: list[Slot] = field(default_factory=list)
    steps: list[Instruction] = field(default_factory=list)
    forms: dict[ir.Value, Form] = field(default_factory=dict)
    ready: dict[tuple[ir.Value, CodeType], Coded] = field(default_factory=dict)
    reals: dict[ir.Value, int] = field(default_factory=dict)
    layouts: dict[tuple[int, Order, Order], int] = field(default_factory=dict)
    arranged: dict[tuple[object, ...], int] = field(default_factory=dict)
    fused: set[ir.Node] = field(default_factory=set)
    pending: list[ir.Node] = field(default_factory=list)
    reasons: dict[ir.Node, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Reads the graph once: places and readers of its nodes, names of its tensors.

        No slot may have the name of a tensor that it does not hold: sub-models name theirs by it.
        """
        self.places = {node: place for place, node in enumerate(self.graph)}
        self.readers: dict[ir.Value, list[ir.Node]] = {}
        for node in self.graph:
            for value in values_read(node):
                self.readers.setdefault(value, []).append(node)
        self._names = {value.name or "" for value in self.graph.inputs} | set(self.graph.initializers)
        self._names |= {value.name or "" for node in self.graph for value in node.outputs}

    def mark(self) -> Mark:
        """What there is now, for ``back_to``."""
        return Mark(
            len(self.steps),
            dict(self.forms),
            dict(self.ready),
            dict(self.reals),
            dict(self.layouts),
            dict(self.arranged),
            set(self.fused),
            list(self.pending),
        )

    def back_to(self, mark: Mark) -> None:
        """Forgets what was emitted since; slots that nothing writes any more are dropped in the end."""
        del self.steps[mark.steps :]
        self.forms, self.ready, self.reals = mark.forms, mark.ready, mark.reals
        self.layouts, self.arranged = mark.layouts, mark.arranged
        self.fused, self.pending = mark.fused, mark.pending

    def slot(self, slot: Slot, owner: ir.Value | None = None) -> int:
        """Adds a slot; only one slot of ``owner`` gets its name, others a new one that begins like it."""
        name = slot.name
        if owner is None or name != owner.name or name in self.taken:
            base = name if owner is None else f"{name}/{slot_tag(slot)}"
            name = first_free(base, self._names)
        self.taken.add(name)
        self._names.add(name)
        self.slots.append(Slot(name, slot.shape, slot.dtype, slot.scales, slot.zero_point))
        return len(self.slots) - 1

    def codes(self, value: ir.Value, order: Order, kind: CodeType) -> Coded:
        """A new slot for the codes of a tensor of the graph."""
        shape = physical(shape_of(value), order)
        slot = Slot(value.name or "", shape, kind.dtype, kind.scales, kind.zero_point)
        return Coded(self.slot(slot, value), order)

    def moved(
        self,
        source: Coded,
        shape: Sequence[int],
        order: Order,
        make: Callable[[Ports], Instruction],
        to: ir.Value | str,
    ) -> Coded:
        """The codes of ``source`` moved to a new slot by one instruction.

        Args:
            source: what is moved.
            shape: physical shape of the result.
            order: how the result lies.
            make: builds the instruction.
            to: the tensor of the graph that the result is, or what to add to the source's name.
        """
        old = self.slots[source.slot]
        owner = to if isinstance(to, ir.Value) else None
        name = f"{old.name}/{to}" if isinstance(to, str) else to.name or ""
        new = Slot(name, tuple(shape), old.dtype, old.scales, old.zero_point)
        result = Coded(self.slot(new, owner), order)
        self.steps.append(make(Ports(self.slots[result.slot].name, (source.slot,), (result.slot,))))
        return result

    def sums(self, value: ir.Value, order: Order, scales: F32) -> Sums:
        """A new slot for the int32 sums of a layer."""
        shape = physical(shape_of(value), order)
        return Sums(self.slot(Slot(value.name or "", shape, "int32", scales), value), order)

    def plain(self, value: ir.Value) -> int:
        """A new slot for float32 values, indices or masks in logical order.

        8-bit integers that nobody quantized are codes of scale 1.
        """
        dtype = np.dtype(ir.DataType.FLOAT.numpy() if value.dtype is None else value.dtype.numpy()).name
        scales = np.ones(1, np.float32) if dtype in CODE_TYPES else NO_SCALES
        number = self.slot(Slot(value.name or "", shape_of(value), dtype, scales), value)
        self.reals[value] = number
        return number

    def kind(self, coded: Coded) -> CodeType:
        """Type, scale and zero point of codes."""
        slot = self.slots[coded.slot]
        return CodeType(slot.dtype, slot.scale, slot.zero_point)

    def shape(self, form: Coded | Sums) -> tuple[int, ...]:
        """Logical sizes."""
        return logical(self.slots[form.slot].shape, form.order)

    def in_order(self, source: Coded, order: Order) -> Coded:
        """The same codes with their axes in another order of memory; made once per order."""
        if source.order == order:
            return source
        key = (source.slot, source.order, order)
        if key not in self.layouts:
            old = self.slots[source.slot]
            axes = axes_between(source.order, order)
            shape = tuple(old.shape[axis] for axis in axes)
            free = keeps_memory(old.shape, axes)

            def make(ports: Ports) -> Instruction:
                return Reshape(*ports) if free else Transpose(*ports, axes)

            result = self.moved(source, shape, order, make, layout_tag(order))
            self.layouts[key] = result.slot
            self.layouts[result.slot, order, source.order] = source.slot
        return Coded(self.layouts[key], order)

    def as_image(self, source: Coded) -> Coded:
        """NHWC for images, the model's order for all else."""
        return self.in_order(source, image_order(len(source.order)))

    def in_logical_order(self, source: Coded) -> Coded:
        """The model's order of axes."""
        return self.in_order(source, logical_order(len(source.order)))


def slot_tag(slot: Slot) -> str:
    """What a second slot of one tensor adds to its name."""
    return "codes" if slot.is_codes else "sums" if slot.dtype == "int32" and slot.scales.size else "float"


def layout_tag(order: Order) -> str:
    """``NHWC`` or a list of axes, for names of slots."""
    if len(order) == 4:
        return "".join("NCHW"[axis] for axis in order)
    return "axes" + "".join(str(axis) for axis in order)


def shape_of(value: ir.Value | None) -> tuple[int, ...]:
    """Sizes of a tensor.

    Raises:
        UnsupportedModelError: they depend on the data.
    """
    shape = value.shape if value is not None else None
    sizes = None if shape is None else tuple(size for size in shape if isinstance(size, int))
    if value is None or shape is None or sizes is None or len(sizes) != len(shape):
        raise UnsupportedModelError(
            f"tensor '{value.name if value is not None else ''}'",
            f"its shape {shape} is not known before the model runs",
            "A program has fixed shapes; cut the model before the node that makes this tensor",
        )
    return sizes


def values_read(node: ir.Node) -> list[ir.Value]:
    """The inputs that a node has."""
    return [value for value in node.inputs if value is not None]


def step_name(*nodes: ir.Node) -> str:
    """Names of the nodes that one instruction carries out."""
    return " + ".join(label(node) for node in nodes)
