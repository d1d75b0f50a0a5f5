"""What only moves values: the result keeps scale and zero point, and a Transpose costs nothing at all."""

from __future__ import annotations

import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import input_at, int_attribute, ints_attribute
from calib8.passes.integer_cells import comes_of_states
from calib8.program.instructions import Concat, Reshape, Slice
from calib8.program.lower.builder import Builder, shape_of, step_name
from calib8.program.lower.constant_tensors import constants_as_tensors
from calib8.program.lower.constants import fixed, is_fixed
from calib8.program.lower.convert import coded, dequantized
from calib8.program.lower.floats import real_slot
from calib8.program.lower.forms import Coded, CodeType, Real, Sums
from calib8.program.lower.layout import logical_order, physical
from calib8.program.lower.moves import picked, reshaped, transposed
from calib8.program.lower.readers import tail_of
from calib8.program.lower.results import COMPUTED, NOT_CODED, coded_source, same_codes


def movable(builder: Builder, value: ir.Value | None) -> Coded | None:
    """Codes, or what the program's own instructions hold in float32, as something to be moved."""
    form = None if value is None else builder.forms.get(value)
    if isinstance(form, Real) and form.own:
        return Coded(form.slot, logical_order(len(builder.slots[form.slot].shape)))
    return coded(builder, value)


def _source(builder: Builder, node: ir.Node) -> Coded:
    source = movable(builder, node.inputs[0])
    if source is None:
        raise NoFormError(NOT_CODED)
    return source


def _deliver(builder: Builder, value: ir.Value, moved: Coded) -> None:
    """What was moved, as codes or in float32 as it was before."""
    if builder.slots[moved.slot].is_codes:
        builder.forms[value] = moved
    else:
        builder.forms[value] = Real(builder.in_logical_order(moved).slot, own=True)


def transpose(builder: Builder, node: ir.Node) -> None:
    """Only the order changes."""
    form = builder.forms.get(node.inputs[0]) if node.inputs[0] is not None else None
    source = form if isinstance(form, Sums) else movable(builder, node.inputs[0])
    if source is None:
        raise NoFormError(NOT_CODED)
    rank = len(source.order)
    axes = ints_attribute(node, "perm", tuple(reversed(range(rank))))
    moved = transposed(Coded(source.slot, source.order), axes)
    if isinstance(source, Sums):
        builder.forms[node.outputs[0]] = Sums(moved.slot, moved.order, source.low, source.high)
    else:
        _deliver(builder, node.outputs[0], moved)


def reshape(builder: Builder, node: ir.Node) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze: the sizes of the output say what becomes of the input."""
    source, value = movable(builder, node.inputs[0]), node.outputs[0]
    if source is None:
        _reshape_sums(builder, node)
    else:
        _deliver(builder, value, reshaped(builder, source, shape_of(value), value))


def _reshape_sums(builder: Builder, node: ir.Node) -> None:
    """Logits that no quantizer reads become float at the border and only then change shape."""
    source, value = node.inputs[0], node.outputs[0]
    form = builder.forms.get(source) if source is not None else None
    if source is None or not isinstance(form, Sums) or not form.unbounded:
        raise NoFormError(NOT_CODED)
    inputs = (dequantized(builder, source, form),)
    result = builder.plain(value)
    builder.steps.append(Reshape(step_name(node), inputs, (result,)))
    builder.forms[value] = Real(result)


def slice_(builder: Builder, node: ir.Node) -> None:
    """Slice with constant bounds."""
    source, value = _source(builder, node), node.outputs[0]
    sizes = builder.shape(source)
    starts, steps = [0] * len(sizes), [1] * len(sizes)
    given = [fixed(input_at(node, index)) for index in range(1, 5)]
    if any(array is None and input_at(node, index + 1) is not None for index, array in enumerate(given)):
        raise NoFormError(COMPUTED)
    first, end, axes, stride = (None if array is None else array.reshape(-1).tolist() for array in given)
    if first is None or end is None:
        raise NoFormError(COMPUTED)
    for place, axis in enumerate(range(len(first)) if axes is None else axes):
        step = 1 if stride is None else stride[place]
        start, _, steps[axis] = slice(first[place], end[place], step).indices(sizes[axis])
        starts[axis] = start
    _deliver(builder, value, _sliced(builder, source, starts, steps, value))


def _sliced(builder: Builder, source: Coded, starts: list[int], steps: list[int], value: ir.Value) -> Coded:
    """Entries from ``starts`` on, per logical axis; the tensor says how many."""
    if shape_of(value) == builder.shape(source) and all(step > 0 for step in steps):
        return source
    order = source.order
    first, stride = physical(starts, order), physical(steps, order)
    return builder.moved(
        source, physical(shape_of(value), order), order, lambda ports: Slice(*ports, first, stride), value
    )


def concat(builder: Builder, node: ir.Node) -> None:
    """Inputs of one kind of codes, side by side; constants among them have codes too."""
    value = node.outputs[0]
    if _holds_floats(builder, node) or _joins_states(builder, node):
        _concat_reals(builder, node)
        return
    computed = [coded(builder, one) for one in node.inputs if not is_fixed(one)]
    if not computed or computed[0] is None:
        raise NoFormError(NOT_CODED if computed else "all of its inputs are constant")
    order = computed[0].order
    with constants_as_tensors(builder, node, order):
        forms = same_codes(builder, node)
    slots = tuple(builder.in_order(form, order).slot for form in forms)
    axis = order.index(int_attribute(node, "axis", 0) % len(order))
    result = builder.codes(value, order, builder.kind(forms[0]))
    builder.steps.append(Concat(step_name(node), slots, (result.slot,), axis))
    builder.forms[value] = result


def _holds_floats(builder: Builder, node: ir.Node) -> bool:
    """Whether all that is joined is float32 that the program's own instructions hold."""
    forms = [None if one is None else builder.forms.get(one) for one in node.inputs]
    slots = [form.slot for form in forms if isinstance(form, Real) and form.own]
    return len(slots) == len(forms) and all(builder.slots[slot].dtype == "float32" for slot in slots)


def _joins_states(builder: Builder, node: ir.Node) -> bool:
    """Whether last states of recurrent layers are joined, in float32 or in codes of several kinds."""
    kinds: set[CodeType | None] = set()
    for value in node.inputs:
        form = builder.forms.get(value) if value is not None else None
        if isinstance(form, Real) and form.own:
            kinds.add(None)
        elif isinstance(form, Coded):
            kinds.add(builder.kind(form))
        else:
            return False
    several = None in kinds or len(kinds) > 1
    return several and not tail_of(node.outputs[0]).kinds and comes_of_states(node.outputs[0])


def _concat_reals(builder: Builder, node: ir.Node) -> None:
    """Values in float32 side by side."""
    value = node.outputs[0]
    slots = tuple(real_slot(builder, one) for one in node.inputs if one is not None)
    result = builder.plain(value)
    axis = int_attribute(node, "axis", 0) % len(shape_of(value))
    builder.steps.append(Concat(step_name(node), slots, (result,), axis))
    builder.forms[value] = Real(result, own=True)


def split(builder: Builder, node: ir.Node) -> None:
    """One Slice per output."""
    source = _source(builder, node)
    rank = len(source.order)
    axis, begin = int_attribute(node, "axis", 0) % rank, 0
    for value in node.outputs:
        starts = [begin if place == axis else 0 for place in range(rank)]
        _deliver(builder, value, _sliced(builder, source, starts, [1] * rank, value))
        begin += shape_of(value)[axis]


def gather(builder: Builder, node: ir.Node) -> None:
    """Gather with constant indices of any rank."""
    source, value = _source(builder, node), node.outputs[0]
    indices = fixed(node.inputs[1])
    if indices is None:
        raise NoFormError("its indices are computed")
    axis = int_attribute(node, "axis", 0) % len(source.order)
    places = indices.reshape(-1) % builder.shape(source)[axis]
    rows = picked(builder, source, axis, places)
    _deliver(builder, value, reshaped(builder, rows, shape_of(value), value))


def tile(builder: Builder, node: ir.Node) -> None:
    """Tile and Expand: indices repeat along every axis that grows."""
    source, value = coded_source(builder, node), node.outputs[0]
    target = shape_of(value)
    small = builder.shape(source)
    result = reshaped(builder, source, (1,) * (len(target) - len(small)) + small)
    for axis, size in enumerate(target):
        have = builder.shape(result)[axis]
        if have != size:
            result = picked(builder, result, axis, [place % have for place in range(size)])
    builder.forms[value] = result


def depth_to_space(builder: Builder, node: ir.Node) -> None:
    """[N, b·b·C, H, W] → [N, C, H·b, W·b] as two reshapes around a transpose."""
    source, value = coded_source(builder, node), node.outputs[0]
    block = int_attribute(node, "blocksize", 1)
    batch, channels, height, width = builder.shape(source)
    mode = node.attributes.get("mode")
    depth = channels // (block * block)
    if mode is not None and mode.as_string() == "CRD":
        wide, axes = (batch, depth, block, block, height, width), (0, 1, 4, 2, 5, 3)
    else:
        wide, axes = (batch, block, block, depth, height, width), (0, 3, 4, 1, 5, 2)
    builder.forms[value] = _shuffled(builder, source, wide, axes, value)


def space_to_depth(builder: Builder, node: ir.Node) -> None:
    """[N, C, H, W] → [N, b·b·C, H / b, W / b]."""
    source, value = coded_source(builder, node), node.outputs[0]
    block = int_attribute(node, "blocksize", 1)
    batch, channels, height, width = builder.shape(source)
    wide = (batch, channels, height // block, block, width // block, block)
    builder.forms[value] = _shuffled(builder, source, wide, (0, 3, 5, 1, 2, 4), value)


def _shuffled(
    builder: Builder, source: Coded, wide: tuple[int, ...], axes: tuple[int, ...], value: ir.Value
) -> Coded:
    parts = transposed(reshaped(builder, source, wide), axes)
    return reshaped(builder, parts, shape_of(value), value)
