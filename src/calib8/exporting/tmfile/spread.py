"""Scales of the tensors that a QDQ model leaves without codes: Tengine rounds behind every operator.

x ─ Eltwise ─ a ─ ReLU ─ b      a takes the scale of b: what it clips away is what b loses too
x ─ Reshape ─ a                 a takes the scale of x: the same codes
Softmax ─ a                     1/127
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np

from calib8.errors import UnsupportedModelError
from calib8.exporting.tmfile.hand_back import hands_back
from calib8.exporting.tmfile.scales import OF_SOFTMAX
from calib8.formats.tengine_names import with_made
from calib8.parameters import parameter
from calib8.tmfile.graph import CONST, INPUT, Graph, Node

KEEPS: Final = frozenset(
    {"Transpose", "Permute", "Slice", "Split", "Concat", "DepthToSpace", "SpaceToDepth", "Interp", "Pad",
     "Pooling", "ShuffleChannel", "Unsqueeze", "ExpandDims", "ReLU6"}
)  # fmt: skip
"""Operators whose results lie within what they read, beside those that hand scales back."""


def spread_scales(graph: Graph, known: Mapping[str, float], name: str) -> dict[str, float]:
    """Scales of all tensors that are inputs or computed.

    Args:
        graph: a float one.
        known: tensor → scale, of those that have codes.
        name: of the model, for messages.

    Raises:
        UnsupportedModelError: tensors whose scale follows from no other; all of them are listed.
    """
    scales = dict(known)
    readers = Counter(place for node in graph.nodes for place in node.inputs)
    nodes = [node for node in graph.nodes if node.op not in (CONST, INPUT)]
    before = -1
    while before != len(scales):
        before = len(scales)
        for node in nodes:
            _forward(graph, node, scales)
        for node in reversed(nodes):
            _back(graph, node, scales, readers)
    live = [tensor.name for tensor in graph.tensors if tensor.role in ("var", "input")]
    scales = with_made(scales, live)
    lacking = [tensor for tensor in live if tensor not in scales]
    if lacking:
        problem = f"leaves {len(lacking)} of {len(live)} tensors in float: {', '.join(lacking[:9])}"
        cure = (
            "Export the float model as a tmfile and quantize that with calib8 tengine-quant, which gives "
            f"every tensor a scale; or leave out {parameter('keep_float')}, if it names them"
        )
        raise UnsupportedModelError(name, f"{problem}; an int8 tmfile has codes everywhere", cure)
    return scales


def _forward(graph: Graph, node: Node, scales: dict[str, float]) -> None:
    """From what a node reads to what it computes."""
    for place in node.outputs:
        title = graph.tensors[place].name
        if title in scales:
            continue
        if node.op == "Softmax":
            scales[title] = float(np.float32(OF_SOFTMAX))
        elif hands_back(node) or node.op in KEEPS:
            read = [scales.get(graph.tensors[source].name) for source in node.inputs]
            found = [scale for scale in read if scale is not None]
            if found:
                scales[title] = max(found)


def _back(graph: Graph, node: Node, scales: dict[str, float], readers: Counter[int]) -> None:
    """From what a node computes to what it alone reads."""
    if not hands_back(node):
        return
    place, result = node.inputs[0], graph.tensors[node.outputs[0]].name
    title = graph.tensors[place].name
    if title not in scales and result in scales and readers[place] == 1:
        scales[title] = scales[result]
