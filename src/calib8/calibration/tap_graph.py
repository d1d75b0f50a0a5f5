"""Taps as nodes of the graph that ONNX Runtime runs: put in, optimized around, moved onto blocked tensors.

    Tap(x) → token        domain calib8, an op of the native core: counts x, yields one float
    before                Conv → x → Relu → y → …                        outputs: logits
    with taps             Conv → x → Relu → y → …,  y → Tap → token      outputs: logits, token
    optimized, saved      Conv+Relu → y blocked → …,  y → ReorderOutput → y plain → Tap → token
    moved                 Conv+Relu → y blocked → Tap(channels, block) → token, then what reads y

The taps are there while ONNX Runtime optimizes, so it cannot fuse a tapped tensor away. Then each is put
behind the node that makes its tensor, so that the values are still in the cache, and on the blocked form of
the tensor, so that nothing is reordered for it. The order of nodes stays as it stands in the file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import onnx
import onnx_ir as ir

from calib8 import _core
from calib8.calibration.cells import with_cells
from calib8.errors import ModelError, UnsupportedModelError
from calib8.model.graph import Names
from calib8.model.memory import LARGE, release_memory
from calib8.model.runtime import Session, open_session
from calib8.model.save import PROTOBUF_LIMIT, constant_bytes

DOMAIN: Final = "calib8"
WEIGHTS: Final = "weights"
SMALLEST_WEIGHT: Final = "1024"
"""Bytes; larger constants of the optimized graph lie beside it and are mapped, not copied."""


def open_tapped(
    model: ir.Model, tensors: Sequence[str], key: int, *, threads: int, block: int | None
) -> tuple[Session, list[str]]:
    """A session that counts the tensors while it runs, and the names of the outputs that are tokens.

    Args:
        model: a float graph.
        tensors: graph inputs or computed tensors, all float32.
        key: of the ``_core.Taps`` that count, in the order of ``tensors``.
        threads: for the session.
        block: channels to a block of this machine's blocked tensors; None: unknown, so that tensors whose
            last block is not full are reordered.

    Raises:
        ModelError: a tensor is not computed, or ONNX Runtime cannot load the model or the taps.
        UnsupportedModelError: the model is too large for one file.
    """
    if constant_bytes(model) >= LARGE:
        release_memory()  # of the graph that this one was prepared from, where nobody needs it
    if constant_bytes(model) >= PROTOBUF_LIMIT:
        raise UnsupportedModelError(
            model.graph.name or "model", "is over 2 GB", "Its tensors are counted as graph outputs"
        )
    tapped, tokens = with_taps(model, tensors, key)
    with tempfile.TemporaryDirectory(prefix="calib8-") as folder:
        optimized, moved = Path(folder) / "optimized.onnx", Path(folder) / "moved.onnx"
        open_session(tapped, threads=threads, save_optimized=str(optimized), configure=_for_saving)
        proto = onnx.load(optimized, load_external_data=False)
        move_taps(proto.graph, block)
        moved.write_bytes(proto.SerializeToString())
        name = model.graph.name or "model"
        return open_session(moved, threads=threads, name=name, configure=_as_saved), tokens


def with_taps(model: ir.Model, tensors: Sequence[str], key: int) -> tuple[ir.Model, list[str]]:
    """A copy with a tap on each tensor, and the names of their tokens, which are outputs of it.

    Raises:
        ModelError: the graph computes no such tensor.
    """
    found = with_cells(model, tensors)
    copy = model.clone() if found is model else found
    graph = copy.graph
    names = Names(graph)
    values = {value.name: value for node in graph for value in node.outputs}
    values |= {value.name: value for value in graph.inputs}
    tokens = []
    for index, tensor in enumerate(tensors):
        if tensor not in values:
            raise ModelError(
                tensor, "the graph computes no such tensor", "Name a tensor that `calib8 inspect` lists"
            )
        token = ir.Value(
            name=names.value(f"tap_{index}"), shape=ir.Shape([1]), type=ir.TensorType(ir.DataType.FLOAT)
        )
        fields = {"key": key, "index": index, "channels": 0, "block": 0}
        attributes = [ir.AttrInt64(name, value) for name, value in fields.items()]
        node = ir.Node(
            DOMAIN, "Tap", [values[tensor]], attributes, outputs=[token], name=names.node(f"tap_{index}")
        )
        graph.append(node)
        graph.outputs.append(token)
        tokens.append(str(token.name))
    graph.opset_imports[DOMAIN] = 1
    return copy, tokens


def move_taps(graph: onnx.GraphProto, block: int | None) -> int:
    """Puts each tap behind the node that makes its tensor, in blocked form where it has one.

    Args:
        graph: as ONNX Runtime saved it.
        block: channels to a block, None where unknown.

    Returns:
        How many taps read blocked tensors now.
    """
    makers = {name: node for node in graph.node for name in node.output}
    taps = [node for node in graph.node if node.domain == DOMAIN]
    moved = sum(_onto_blocked(tap, makers.get(tap.input[0]), block) for tap in taps)
    read = {name for node in graph.node for name in _read(node)} | {out.name for out in graph.output}
    behind: dict[str, list[onnx.NodeProto]] = {}
    for tap in taps:
        behind.setdefault(tap.input[0], []).append(tap)
    order = [tap for value in graph.input for tap in behind.pop(value.name, [])]
    for node in graph.node:
        if node.domain == DOMAIN or (node.op_type == "ReorderOutput" and node.output[0] not in read):
            continue
        order.append(node)
        order += [tap for name in node.output for tap in behind.pop(name, [])]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in order]
    del graph.node[:]
    graph.node.extend(copies)
    return moved


def _onto_blocked(tap: onnx.NodeProto, maker: onnx.NodeProto | None, block: int | None) -> bool:
    """Lets a tap read what ``ReorderOutput`` reads, told how the channels lie there."""
    if maker is None or maker.op_type != "ReorderOutput":
        return False
    fields = {attribute.name: attribute.i for attribute in maker.attribute}
    channels = fields.get("channels", 0)
    whole = channels % 16 == 0  # full blocks of 8 or of 16: then it does not matter which
    if channels < 1 or fields.get("channels_last", 0) or not (whole or block):
        return False
    tap.input[0] = maker.input[0]
    layout = {"channels": channels, "block": 16 if whole else block or 16}
    for attribute in tap.attribute:
        attribute.i = layout.get(attribute.name, attribute.i)
    return True


def _read(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, those inside its subgraphs included."""
    names = set(node.input)
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            names |= {name for inner in graph.node for name in _read(inner)}
            names |= {out.name for out in graph.output}
    return names


def _with_tap_op(options: Any) -> None:
    options.log_severity_level = 4  # what fails is raised; and a saved graph may fit this machine only
    options.register_custom_ops_library(_core.__file__)


def _for_saving(options: Any) -> None:
    _with_tap_op(options)
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", WEIGHTS)
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_min_size_in_bytes", SMALLEST_WEIGHT
    )


def _as_saved(options: Any) -> None:
    import onnxruntime

    _with_tap_op(options)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_mem_pattern = False  # which takes the memory of all activations a second time
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
