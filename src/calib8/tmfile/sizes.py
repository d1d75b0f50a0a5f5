"""Sizes of all tensors from those of the inputs, by the rules of Tengine when it prepares a run.

Its converter leaves them out where the model that it reads has a free axis, such as a batch: the runtime and
the tools are told the sizes of the input then.
Source: OAID Tengine, ``infer_shape`` of each operator (``source/operator/prototype``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from calib8.errors import NoFormError
from calib8.tmfile.graph import CONST, INPUT, Graph, Node

Shape: TypeAlias = "tuple[int, ...]"
Rule: TypeAlias = Callable[[Node, Sequence[Shape]], "Shape | list[Shape]"]

UNUSED: Final = -2
"""Stands for an axis that a node does not name."""

SAME: Final = (
    "Absval", "AddN", "BatchNormalization", "Bias", "Ceil", "Clip", "Dropout", "Elu", "Gelu", "HardSigmoid",
    "HardSwish", "InstanceNorm", "L2Normalization", "LRN", "LogSoftmax", "Logistic", "Maximum", "Mean",
    "Minimum", "Mish", "Noop", "Normalize", "PReLU", "ReLU", "ReLU1", "ReLU6", "Reciprocal", "Round", "Scale",
    "Selu", "ShuffleChannel", "Sigmoid", "Softmax", "Softplus", "Tanh", "Threshold", "Unary",
)  # fmt: skip
"""Operators whose result has the sizes of what they read first."""

SQUEEZED: Final = (0, 2, 3, 1)
"""Which axis a Squeeze takes for the one that it names."""


def states_sizes(graph: Graph) -> bool:
    """Whether the file has sizes of all its inputs."""
    shapes = [graph.tensors[place].shape for place in graph.input_tensors()]
    return all(shape and min(shape) > 0 for shape in shapes)


def with_sizes(graph: Graph, sizes: Mapping[int, Shape]) -> Graph:
    """The graph with other sizes.

    Args:
        graph: in the order NCHW.
        sizes: input tensor, by its place → sizes; others keep theirs.

    Raises:
        NoFormError: operators without a rule, or sizes that do not fit them; the first one is named.
    """
    tensors = list(graph.tensors)
    for place, shape in sizes.items():
        tensors[place] = replace(tensors[place], shape=shape)
    for node in graph.nodes:
        if node.op in (CONST, INPUT):
            continue
        for place, shape in zip(
            node.outputs, _of(node, [tensors[at].shape for at in node.inputs]), strict=True
        ):
            tensors[place] = replace(tensors[place], shape=shape)
    return replace(graph, tensors=tuple(tensors))


def _of(node: Node, shapes: Sequence[Shape]) -> list[Shape]:
    """Sizes of all that a node computes."""
    rule = RULES.get(node.op)
    if rule is None:
        raise NoFormError(f"the sizes behind '{node.name}' ({node.op}) are not known")
    try:
        made = rule(node, shapes)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        problem = (
            f"'{node.name}' ({node.op}) does not take sizes of {' and '.join(map(str, map(list, shapes)))}"
        )
        raise NoFormError(problem) from error
    found = made if isinstance(made, list) else [made]
    if len(found) != len(node.outputs) or any(min(shape, default=0) < 1 for shape in found):
        raise NoFormError(f"'{node.name}' ({node.op}) makes sizes of {' and '.join(map(str, found))}")
    return found


def _whole(node: Node, *names: str) -> list[int]:
    return [int(str(node.options[name])) for name in names]


def _listed(node: Node, name: str) -> list[int]:
    value = node.options[name]
    return [int(one) for one in value] if isinstance(value, tuple) else []


def _convolution(node: Node, shapes: Sequence[Shape]) -> Shape:
    batch, _, *image = shapes[0]
    names = ("kernel", "stride", "dilation")
    sides = [
        _window(size, *_whole(node, *(f"{name}_{axis}" for name in names), f"pad_{axis}0", f"pad_{axis}1"))
        for size, axis in zip(image, "hw", strict=True)
    ]
    return (batch, shapes[1][0], *sides)


def _window(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> int:
    if before < 0:
        return (size - 1) // stride + 1
    return (size - dilation * (kernel - 1) - 1 + before + after) // stride + 1


def _deconvolution(node: Node, shapes: Sequence[Shape]) -> Shape:
    batch, _, *image = shapes[0]
    sides = []
    for size, axis in zip(image, "hw", strict=True):
        names = (f"{name}_{axis}" for name in ("stride", "dilation", "kernel"))
        stride, dilation, kernel = _whole(node, *names)
        before, after, more = _whole(node, f"pad_{axis}0", f"pad_{axis}1", f"output_pad_{axis}0")
        sides.append((size - 1) * stride + dilation * (kernel - 1) + 1 - before - after + more)
    return (batch, *_whole(node, "num_output"), *sides)


def _pooling(node: Node, shapes: Sequence[Shape]) -> Shape:
    batch, channels, *image = shapes[0]
    kernel, strides = _whole(node, "kernel_h", "kernel_w"), _whole(node, "stride_h", "stride_w")
    pads = _whole(node, "pad_h0", "pad_w0")
    everything, flavour = _whole(node, "global", "caffe_flavor")
    if everything or (kernel == image and not any(_whole(node, "pad_h0", "pad_w0", "pad_h1", "pad_w1"))):
        return batch, channels, 1, 1
    axes = zip(image, kernel, strides, pads, strict=True)
    return (batch, channels, *(_pooled(*axis, flavour) for axis in axes))


def _pooled(size: int, kernel: int, stride: int, pad: int, flavour: int) -> int:
    if pad < 0:
        return 1 + (size - 1) // stride
    if flavour == 1:
        count = 2 + (size - kernel + 2 * pad - 1) // stride
        return count - 1 if pad > 0 and (count - 1) * stride >= size + pad else count
    return 1 + (size - kernel + (pad if flavour == 2 else 2 * pad)) // stride


def _fully_connected(_: Node, shapes: Sequence[Shape]) -> Shape:
    x, weight = shapes[:2]
    return (x[0], weight[0], *([1] * (len(x) - 2)))


def _eltwise(_: Node, shapes: Sequence[Shape]) -> Shape:
    return max(shapes, key=math.prod)  # the first one of equal ones


def _concat(node: Node, shapes: Sequence[Shape]) -> Shape:
    axis = _whole(node, "axis")[0] % len(shapes[0])
    sizes = list(shapes[0])
    sizes[axis] = sum(shape[axis] for shape in shapes)
    return tuple(sizes)


def _flatten(node: Node, shapes: Sequence[Shape]) -> Shape:
    first, last = _whole(node, "axis", "end_axis")
    return shapes[0][0], math.prod(shapes[0][first : last + 1])


def _reshape(node: Node, shapes: Sequence[Shape]) -> Shape:
    """0 keeps the size at its place, −1 is what is left."""
    asked, of_onnx = _listed(node, "shape"), any(_whole(node, "is_onnx", "is_mxnet"))
    if min(asked) < -1 or _whole(node, "reverse")[0] or (0 in asked and not of_onnx):
        raise ValueError
    sizes = [shapes[0][at] if size == 0 else size for at, size in enumerate(asked)]
    count = math.prod(shapes[0])
    if -1 in sizes:
        sizes[sizes.index(-1)] = count // -math.prod(sizes)
    if math.prod(sizes) != count:
        raise ValueError
    return tuple(sizes)


def _squeeze(node: Node, shapes: Sequence[Shape]) -> Shape:
    named = [axis for axis in _whole(node, "dim_0", "dim_1", "dim_2", "dim_3") if axis != UNUSED]
    if min(named, default=0) < 0:
        raise ValueError
    gone = {SQUEEZED[axis] for axis in named} or range(len(shapes[0]))
    return tuple(size for axis, size in enumerate(shapes[0]) if size != 1 or axis not in gone)


def _unsqueeze(node: Node, shapes: Sequence[Shape]) -> Shape:
    sizes = list(shapes[0])
    axes = _listed(node, "axes") if node.op == "Unsqueeze" else _whole(node, "axis")
    for axis in sorted(axis % (len(sizes) + len(axes)) for axis in axes):
        sizes.insert(axis, 1)
    return tuple(sizes)


def _transpose(node: Node, shapes: Sequence[Shape]) -> Shape:
    names = ("order0", "order1", "order2", "order3")
    order = _listed(node, "perm") if node.op == "Transpose" else _whole(node, *names)[: len(shapes[0])]
    return tuple(shapes[0][axis] for axis in order)


def _split(node: Node, shapes: Sequence[Shape]) -> list[Shape]:
    if node.options["is_caffe"]:
        return [shapes[0]] * len(node.outputs)
    (axis,), parts = _whole(node, "axis"), _listed(node, "split_sizes")
    if sum(parts) != shapes[0][axis]:
        raise ValueError
    return [_with(shapes[0], axis, part) for part in parts]


def _slice(node: Node, shapes: Sequence[Shape]) -> list[Shape]:
    (axis, begin, end, step), size = _whole(node, "axis", "begin", "end", "step"), shapes[0]
    axis %= len(size)
    if node.options["is_caffe"]:
        parts = len(node.outputs)
        points = _listed(node, "slice_points") or [size[axis] * at // parts for at in range(1, parts)]
        ends = [*points, size[axis]]
        return [_with(size, axis, high - low) for low, high in zip([0, *points], ends, strict=True)]
    if node.options["is_mxnet"]:
        return [_with(size, axis, end - begin)]
    if not node.options["is_onnx"]:
        raise ValueError
    end = min(end, size[axis])
    taken = (end if end > 0 else size[axis] + end) - (begin + size[axis] * (begin < 0))
    return [_with(size, axis, ((taken - 1) // step + 1 if step > 1 else taken) or size[axis])]


def _with(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _pad(node: Node, shapes: Sequence[Shape]) -> Shape:
    batch, channels, rows, columns = (
        size + sum(_whole(node, f"{axis}_0", f"{axis}_1"))
        for size, axis in zip(shapes[0], "nchw", strict=True)
    )
    return batch, channels, rows, columns


def _reduction(node: Node, shapes: Sequence[Shape]) -> Shape:
    named = [axis for axis in _whole(node, "dim_0", "dim_1", "dim_2", "dim_3") if axis != UNUSED]
    gone = {axis % len(shapes[0]) for axis in named} or range(len(shapes[0]))
    kept = 1 if _whole(node, "keepdim")[0] else 0
    sizes = [kept if axis in gone else size for axis, size in enumerate(shapes[0])]
    return tuple(size for size in sizes if size) or (1,)


def _scaled(node: Node, shapes: Sequence[Shape]) -> Shape:
    batch, channels, rows, columns = shapes[0]
    if node.op == "Upsample":
        factors = [np.float32(str(node.options["scale"]))] * 2
    else:
        factors = [np.float32(str(node.options[name])) for name in ("height_scale", "width_scale")]
        if not all(factors):
            height, width = _whole(node, "output_h", "output_w")
            return batch, channels, height, width
    return batch, channels, int(np.float32(rows) * factors[0]), int(np.float32(columns) * factors[1])


def _blocks(node: Node, shapes: Sequence[Shape]) -> Shape:
    (batch, channels, rows, columns), (block,) = shapes[0], _whole(node, "block_size")
    if node.op == "DepthToSpace":
        return batch, channels // (block * block), rows * block, columns * block
    return batch, channels * block * block, rows // block, columns // block


RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(SAME, lambda _, shapes: shapes[0]),
    **dict.fromkeys(("Unsqueeze", "ExpandDims"), _unsqueeze),
    **dict.fromkeys(("Transpose", "Permute"), _transpose),
    **dict.fromkeys(("Interp", "Upsample"), _scaled),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
    "Concat": _concat,
    "Convolution": _convolution,
    "Deconvolution": _deconvolution,
    "Eltwise": _eltwise,
    "Flatten": _flatten,
    "FullyConnected": _fully_connected,
    "Pad": _pad,
    "Pooling": _pooling,
    "Reduction": _reduction,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
}
"""Operator → sizes of its results."""
