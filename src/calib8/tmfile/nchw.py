"""A model in the order NHWC, as Tengine turns it into NCHW when it loads and runs it.

shape of four axes     n h w c → n c h w
constants of four      the same; with one channel the file has h w n, which becomes n 1 h w
Concat                 its axis, of four axes or three
Reshape                of an image: values in the order NHWC, so Transposes before and behind it
other options of axes  where the option ``graph_layout`` says that they count NHWC

Other operators, Flatten among them, take the turned tensors as they are, whatever was meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.tmfile.graph import NCHW, NHWC, Graph, Node, Option, Tensor

ORDER: Final = (0, 3, 1, 2)
"""Place in NHWC of each axis of NCHW."""

BACK: Final = (0, 2, 3, 1)
"""Place in NCHW of each axis of NHWC."""

CONCAT_AXES: Final[Mapping[int, Mapping[int, int]]] = {3: {1: 2, 2: 1}, 4: {1: 2, 2: 3, 3: 1}}
"""Number of axes → axis of a Concat in the file → axis there is."""

PADS: Final = {"c": "w", "h": "c", "w": "h"}
"""What is the padding of an axis → in whose option it stands."""


def as_nchw(graph: Graph) -> Graph:
    """The graph with all axes in the order NCHW; the same one if they are.

    Its tensors are at the same places, with those on the way to and from a Reshape behind them.

    Raises:
        NoFormError: options along axes for which Tengine has no rule, or another layout.
    """
    if graph.model_layout == NCHW and graph.graph_layout == NCHW:
        return graph
    if {graph.model_layout, graph.graph_layout} - {NCHW, NHWC}:
        raise NoFormError(f"its layout is {graph.model_layout} and {graph.graph_layout}")
    nodes: Sequence[Node] = graph.nodes
    if graph.graph_layout == NHWC:
        nodes = [
            _node(node, len(graph.tensors[node.inputs[0]].shape) if node.inputs else 0) for node in nodes
        ]
    turned = replace(graph, nodes=tuple(nodes), graph_layout=NCHW, model_layout=NCHW)
    return turned if graph.model_layout == NCHW else _images(turned)


def _rank(graph: Graph, node: Node) -> int:
    """Axes of what a node reads, 0 for a node that reads nothing."""
    return len(graph.tensors[node.inputs[0]].shape) if node.inputs else 0


def _images(graph: Graph) -> Graph:
    """Tensors turned, and nodes that Tengine makes see NHWC."""
    tensors, nodes = list(map(_tensor, graph.tensors)), list[Node]()
    for node in graph.nodes:
        rank = _rank(graph, node)
        if node.op in ("Concat", "Reshape") and not rank:
            raise NoFormError(f"'{node.name}' ({node.op}) reads a tensor without sizes in the order NHWC")
        if node.op == "Concat" and rank in CONCAT_AXES:
            nodes.append(_concat(node, rank))
        elif node.op == "Reshape" and rank == len(ORDER):
            nodes.extend(_reshape(node, len(graph.tensors[node.outputs[0]].shape), tensors))
        else:
            nodes.append(node)
    places = {place: number for number, node in enumerate(nodes) for place in node.outputs}
    ports = [
        tuple(places[graph.nodes[number].outputs[0]] for number in numbers)
        for numbers in (graph.inputs, graph.outputs)
    ]
    return replace(graph, tensors=tuple(tensors), nodes=tuple(nodes), inputs=ports[0], outputs=ports[1])


def _concat(node: Node, rank: int) -> Node:
    axis = node.options["axis"]
    if not isinstance(axis, int) or axis not in CONCAT_AXES[rank]:
        raise NoFormError(f"'{node.name}' (Concat) joins axis {axis} of {rank} in the order NHWC")
    return _with(node, {"axis": CONCAT_AXES[rank][axis]})


def _reshape(node: Node, rank: int, tensors: list[Tensor]) -> list[Node]:
    """A Reshape of an image between Transposes, which write tensors behind the others."""
    place, result = node.inputs[0], node.outputs[0]
    if rank not in (2, len(ORDER)):
        raise NoFormError(f"'{node.name}' (Reshape) makes {rank} axes of an image in the order NHWC")
    images = tensors[place].shape, tensors[result].shape
    if all(_is_flat(shape) for shape in images[: 1 if rank == 2 else 2]):
        return [node if rank == 2 else _with(node, {"shape": images[1]})]
    before = _between(tensors, place, f"{node.name}/nhwc", BACK)
    first = _turn(f"{node.name}/nhwc", place, before, BACK)
    if rank == 2:
        return [first, replace(node, inputs=(before, *node.inputs[1:]))]
    behind = _between(tensors, result, f"{node.name}/reshaped", BACK)
    middle = replace(node, inputs=(before, *node.inputs[1:]), outputs=(behind,))
    sizes = {"shape": tensors[behind].shape}
    return [first, _with(middle, sizes), _turn(f"{node.name}/nchw", behind, result, ORDER)]


def _is_flat(shape: Sequence[int]) -> bool:
    """NCHW and NHWC are the same order: one channel, or one pixel."""
    return shape[1] == 1 or shape[2] * shape[3] == 1


def _between(tensors: list[Tensor], place: int, name: str, order: Sequence[int]) -> int:
    """A new tensor with the codes of another one, its axes in this order."""
    like = tensors[place]
    shape = tuple(like.shape[axis] for axis in order)
    tensors.append(replace(like, name=name, shape=shape, role="var", data=None))
    return len(tensors) - 1


def _turn(name: str, source: int, target: int, order: Sequence[int]) -> Node:
    return Node(name, "Transpose", (source,), (target,), {"perm": tuple(order)})


def _tensor(tensor: Tensor) -> Tensor:
    if len(tensor.shape) != len(ORDER):
        return tensor
    shape = tuple(tensor.shape[axis] for axis in ORDER)
    data = None if tensor.data is None else _array(tensor.data, shape)
    return replace(tensor, shape=shape, data=data)


def _array(data: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    if shape[1] == 1:
        return np.ascontiguousarray(data.reshape(shape[2], shape[3], shape[0]).transpose(2, 0, 1)).reshape(
            shape
        )
    return np.ascontiguousarray(data.transpose(ORDER))


def _node(node: Node, rank: int) -> Node:
    """A node whose options count NHWC."""
    options = node.options
    if node.op == "Softmax" and rank == len(ORDER):
        if options["axis"] != 3:
            raise NoFormError(f"'{node.name}' (Softmax) is along axis {options['axis']} in the order NHWC")
        return _with(node, {"axis": 1})
    if node.op == "Reduction":
        if (options["dim_0"], options["dim_1"]) != (1, 2):
            raise NoFormError(f"'{node.name}' (Reduction) counts its axes in the order NHWC")
        return _with(node, {"dim_0": 2, "dim_1": 3})
    if node.op == "Pad":
        sides = ((f"{axis}_{side}", f"{source}_{side}") for axis, source in PADS.items() for side in (0, 1))
        return _with(node, {title: options[source] for title, source in sides})
    if node.op == "StridedSlice":
        kinds = ("begin", "end", "stride")
        return _with(node, {f"{kind}_{x}": options[f"{kind}_{y}"] for kind in kinds for x, y in PADS.items()})
    return node


def _with(node: Node, changed: Mapping[str, Option]) -> Node:
    return replace(node, options={**node.options, **changed})
