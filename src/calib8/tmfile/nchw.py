"""A model in the order NHWC, as Tengine turns it into NCHW when it loads it.

shape of four axes     n h w c → n c h w
constants of four      the same; with one channel the file has h w n, which becomes n 1 h w
options of axes        where the option ``graph_layout`` says that they count NHWC
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.tmfile.graph import NCHW, NHWC, Graph, Node, Option, Tensor

ORDER: Final = (0, 3, 1, 2)
"""Place in NHWC of each axis of NCHW."""

TURNED: Final = frozenset({"Softmax", "Reduction", "Pad", "StridedSlice", "Reshape"})
"""Operators whose options Tengine turns too; of them only these forms are taken here: a Softmax over the
channels, a mean over the image."""


def as_nchw(graph: Graph) -> Graph:
    """The graph with all axes in the order NCHW; the same one if they are.

    Raises:
        NoFormError: options along axes for which Tengine has no rule, or another layout.
    """
    if graph.model_layout == NCHW and graph.graph_layout == NCHW:
        return graph
    if {graph.model_layout, graph.graph_layout} - {NCHW, NHWC}:
        raise NoFormError(f"its layout is {graph.model_layout} and {graph.graph_layout}")
    tensors, nodes = graph.tensors, graph.nodes
    if graph.model_layout == NHWC:
        tensors = tuple(map(_tensor, tensors))
    if graph.graph_layout == NHWC:
        nodes = tuple(map(_node, nodes))
    return replace(graph, tensors=tensors, nodes=nodes, graph_layout=NCHW, model_layout=NCHW)


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


def _node(node: Node) -> Node:
    if node.op == "Softmax" and node.options["axis"] == 3:
        return _with(node, {"axis": 1})
    if node.op == "Reduction" and (node.options["dim_0"], node.options["dim_1"]) == (1, 2):
        return _with(node, {"dim_0": 2, "dim_1": 3})
    if node.op in TURNED:
        raise NoFormError(f"'{node.name}' ({node.op}) counts its axes in the order NHWC")
    return node


def _with(node: Node, changed: Mapping[str, Option]) -> Node:
    return replace(node, options={**node.options, **changed})
