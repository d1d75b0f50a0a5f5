"""Which tensors a part of the outputs depends on, followed back entry by entry where the graph allows it.

    boxes ──┐
    scores ─┴ Concat ─► Transpose ─► output[:, :, 4:84]      scores alone, and all that they are made of

A need is all of a tensor, or some entries of one axis. It goes back through what joins, splits, cuts or only
moves whole entries; any other op needs all of what it reads. So what is found may be more than is needed,
never less, as long as a reshape that keeps an axis keeps what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import onnx_ir as ir

from calib8.model.graph import constant, input_at, int_attribute, ints_attribute, is_activation, rank
from calib8.ops.groups import ARITHMETIC, FUNCTIONS, KEEPING, WEIGHTED_OPS
from calib8.tasks.branches import Branch
from calib8.tasks.seen import is_float


@dataclass(frozen=True)
class Need:
    """Entries of an axis.

    Attributes:
        axis: ≥ 0; None: all of the tensor.
        entries: their numbers.
    """

    axis: int | None = None
    entries: frozenset[int] = frozenset()

    def with_other(self, other: Need) -> Need:
        """What both need together."""
        if self.axis is None or self.axis != other.axis:
            return ALL
        return Need(self.axis, self.entries | other.entries)


ALL: Final = Need()
Needs = Iterator[tuple[ir.Value, Need]]


def reached(model: ir.Model, branches: Sequence[Branch], *, within_tail: bool = False) -> frozenset[str]:
    """Names of all tensors that some branches depend on, graph inputs included.

    Args:
        model: a float graph; its float outputs are those that the branches speak of.
        branches: of its outputs.
        within_tail: no further back than to what the last layers with weights yield.
    """
    outputs = [value for value in model.graph.outputs if is_float(value)]
    needs: dict[ir.Value, Need] = {}
    for piece in (piece for branch in branches for piece in branch.pieces):
        need = ALL if piece.axis is None else Need(piece.axis, frozenset(range(piece.first, piece.last)))
        _add(needs, outputs[piece.index], need)
    for node in reversed(list(model.graph)):
        if within_tail and node.op_type in WEIGHTED_OPS and constant(input_at(node, 1)) is not None:
            continue
        for place, output in enumerate(node.outputs):
            if output in needs:
                for value, need in _needed_by(node, place, needs[output]):
                    _add(needs, value, need)
    return frozenset(value.name for value in needs if value.name)


def _add(needs: dict[ir.Value, Need], value: ir.Value, need: Need) -> None:
    needs[value] = needs[value].with_other(need) if value in needs else need


def _needed_by(node: ir.Node, place: int, need: Need) -> Needs:
    """What a node needs of its activations for that of one of its outputs."""
    rule = _RULES.get(node.op_type)
    if rule is None and node.op_type in _SAME_PLACES:
        rule = _same_places
    found = None if rule is None else list(rule(node, place, need))
    known: dict[ir.Value, Need] = {}
    for source, one in found or ():
        if one.axis is None or one.entries:
            _add(known, source, one)
    for value in node.inputs:
        if value is not None and is_activation(value):
            if not known:
                yield value, ALL
            elif value in known:
                yield value, known[value]


_SAME_PLACES: Final = FUNCTIONS | ARITHMETIC | KEEPING | {"Cast", "Where"}


def _same_places(node: ir.Node, place: int, need: Need) -> Needs:
    """Operands of as many axes with as many entries there; others whole."""
    del place
    axes = rank(node.outputs[0])
    for value in node.inputs:
        if value is not None and is_activation(value):
            same = need.axis is not None and rank(value) == axes
            size = _size(value, need.axis) if same else None
            yield value, need if size is not None and size == _size(node.outputs[0], need.axis) else ALL


def _along_axis(node: ir.Node, place: int, need: Need) -> Needs:
    """An op that mixes the entries of one axis."""
    del place
    source = node.inputs[0]
    if source is not None:
        mixed = need.axis is None or need.axis == _axis(node, -1, rank(source))
        yield source, ALL if mixed else need


def _concat(node: ir.Node, place: int, need: Need) -> Needs:
    del place
    axis = _axis(node, 0, rank(node.outputs[0]))
    inputs = [value for value in node.inputs if value is not None]
    sizes = [_size(value, axis) for value in inputs]
    if need.axis is None or axis is None or (need.axis == axis and None in sizes):
        yield from ((value, ALL) for value in inputs)
    elif need.axis != axis:
        yield from ((value, need) for value in inputs)
    else:
        ends = list(accumulate(size or 0 for size in sizes))
        for value, size, end in zip(inputs, sizes, ends, strict=True):
            first = end - (size or 0)
            inside = frozenset(entry - first for entry in need.entries if first <= entry < end)
            yield value, ALL if len(inside) == size else Need(axis, inside)


def _split(node: ir.Node, place: int, need: Need) -> Needs:
    source, axis = node.inputs[0], _axis(node, 0, rank(node.outputs[0]))
    sizes = [_size(value, axis) for value in node.outputs]
    if source is None or axis is None or None in sizes:
        return
    first = sum(size or 0 for size in sizes[:place])
    if need.axis is None:
        yield source, Need(axis, frozenset(range(first, first + (sizes[place] or 0))))
    elif need.axis == axis:
        yield source, Need(axis, frozenset(first + entry for entry in need.entries))
    else:
        yield source, need


def _slice(node: ir.Node, place: int, need: Need) -> Needs:
    """One axis, steps of 1."""
    del place
    source, (first, axes, steps) = node.inputs[0], (constant(input_at(node, i)) for i in (1, 3, 4))
    own = None if source is None else rank(source)
    if source is None or not own or first is None or first.size != 1 or axes is None:
        return
    axis, begin = int(axes.reshape(-1)[0]) % own, int(first.reshape(-1)[0])
    size, kept = _size(source, axis), _size(node.outputs[0], axis)
    if size is None or kept is None or (steps is not None and int(steps.reshape(-1)[0]) != 1):
        return
    begin = max(begin + size if begin < 0 else begin, 0)
    if need.axis is None:
        yield source, Need(axis, frozenset(range(begin, begin + kept)))
    elif need.axis == axis:
        yield source, Need(axis, frozenset(begin + entry for entry in need.entries))
    else:
        yield source, need


def _transpose(node: ir.Node, place: int, need: Need) -> Needs:
    del place
    source, order = node.inputs[0], ints_attribute(node, "perm", ())
    if source is not None and need.axis is not None and len(order) > need.axis:
        yield source, Need(order[need.axis], need.entries)


def _reshape(node: ir.Node, place: int, need: Need) -> Needs:
    """An axis that stays, with all before it, or all behind it, as it was as far as that is known."""
    del place
    source, result = node.inputs[0], node.outputs[0]
    if source is None or need.axis is None or source.shape is None or result.shape is None:
        return
    own, behind = need.axis, need.axis + source.shape.rank() - result.shape.rank()
    sides = ((own, slice(own), slice(own)), (behind, slice(behind + 1, None), slice(own + 1, None)))
    for axis, before, after in sides:
        pairs = zip(source.shape[before], result.shape[after], strict=False)
        stays = all(old == new for old, new in pairs if isinstance(old, int) and isinstance(new, int))
        size = _size(result, own) if axis >= 0 else None
        if stays and size is not None and size == _size(source, axis):
            yield source, Need(axis, need.entries)
            return


def _axis(node: ir.Node, default: int, axes: int | None) -> int | None:
    axis = int_attribute(node, "axis", default)
    return axis if axis >= 0 else None if axes is None else axis + axes


def _size(value: ir.Value, axis: int | None) -> int | None:
    if axis is None or value.shape is None or value.shape.rank() <= axis:
        return None
    size = value.shape[axis]
    return size if isinstance(size, int) else None


_RULES: Final[Mapping[str, Callable[[ir.Node, int, Need], Needs]]] = {
    "Concat": _concat,
    "LogSoftmax": _along_axis,
    "Softmax": _along_axis,
    "Split": _split,
    "Slice": _slice,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
}
"""Op → what it needs for a need of one of its outputs."""
