"""One step of an LSTM that an exporter wrote out: two products, four gates and what they do becomes an LSTM.

    x ── MatMul ─┐                    ┌─ Sigmoid i ─┐
                 Add ─ Add ─ Split ───┼─ Tanh    g ─┴─ Mul ─┐
    h ── MatMul ─┘                    ├─ Sigmoid f ─── Mul ─┴─ Add ─► c' ─ Tanh ─┐
    c ────────────────────────────────┼─────────────────┘                        Mul ─► h'
                                      └─ Sigmoid o ──────────────────────────────┘

    x, h, c ── LSTM ──► h', c'

Which part of the Split is which gate is told by what is done with it, so that every order of the gates is
known. Other cells, gates that something else reads, and several steps in one loop are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import (
    Names,
    constant,
    float_attribute,
    input_at,
    int_attribute,
    rank,
    size_name,
    sole_consumer,
)
from calib8.model.states import moved_from
from calib8.ops.questions import adds, is_standard, multiplies

F32 = npt.NDArray[np.float32]

AXES_ARE_INPUTS: Final = 13
"""First operator set in which Squeeze and Unsqueeze take axes as an input."""

GATES: Final = ("i", "o", "f", "g")
"""In the order of ONNX, which calls g c."""


@dataclass(frozen=True)
class _Product:
    """A matrix product in front of the gates.

    Attributes:
        source: what is multiplied, [N, K].
        weight: float32 [4·H, K].
        bias: float32 [4·H].
    """

    source: ir.Value
    weight: F32
    bias: F32


@dataclass(frozen=True)
class _Cell:
    """One step.

    Attributes:
        split: the node whose outputs are the gates.
        places: gate → place among the outputs.
        before: c of the step before, [N, H].
        cell, hidden: c and h of this step.
    """

    split: ir.Node
    places: dict[str, int]
    before: ir.Value
    cell: ir.Value
    hidden: ir.Value


def fuse_cells(model: ir.Model) -> int:
    """Steps of an LSTM that are written out → LSTM nodes with one step.

    Returns:
        LSTMs made.
    """
    if model.opset_imports.get("", 0) < AXES_ARE_INPUTS:
        return 0
    made = 0
    for node in list(model.graph):
        cell = _cell(node) if node.op_type == "Split" and is_standard(node) else None
        products = None if cell is None else _products(cell)
        if cell is not None and products is not None and _rows_alike(cell, products):
            _replace(model.graph, cell, products)
            made += 1
    if made:
        ir_passes.RemoveUnusedNodesPass()(model)
        ir_passes.TopologicalSortPass()(model)
    return made


def _cell(split: ir.Node) -> _Cell | None:
    """The step whose gates a Split gives."""
    gates = [sole_consumer(value) for value in split.outputs]
    if rank(split.inputs[0]) != 2 or int_attribute(split, "axis", 0) not in (1, -1) or len(gates) != 4:
        return None
    kinds = [None if gate is None or not is_standard(gate) else gate.op_type for gate in gates]
    if sorted(kind or "" for kind in kinds) != ["Sigmoid", "Sigmoid", "Sigmoid", "Tanh"]:
        return None
    known = {gate.outputs[0]: place for place, gate in enumerate(gates) if gate is not None}
    if not all(map(sole_consumer, known)):
        return None
    new = kinds.index("Tanh")
    entered = _multiplied(gates[new])
    first = None if entered is None else _other(entered, gates[new], known)
    total = None if entered is None else sole_consumer(entered.outputs[0])
    if entered is None or first is None or total is None or not (adds(total) and is_standard(total)):
        return None
    kept = next((one.producer() for one in total.inputs if one not in entered.outputs and one), None)
    if kept is None or not multiplies(kept) or sole_consumer(kept.outputs[0]) is not total:
        return None
    forget = next((value for value in kept.inputs if value in known), None)
    before = next((value for value in kept.inputs if value not in known), None)
    out = _shown(total.outputs[0], known)
    if forget is None or before is None or out is None:
        return None
    places = {"i": first, "o": known[out[0]], "f": known[forget], "g": new}
    if sorted(places.values()) != [0, 1, 2, 3] or rank(before) != 2:
        return None
    return _Cell(split, places, before, total.outputs[0], out[1])


def _multiplied(gate: ir.Node | None) -> ir.Node | None:
    """The Mul that alone reads a gate."""
    reader = None if gate is None else sole_consumer(gate.outputs[0])
    return reader if reader is not None and multiplies(reader) and is_standard(reader) else None


def _other(product: ir.Node, gate: ir.Node | None, known: dict[ir.Value, int]) -> int | None:
    """Place of the gate that another one is multiplied by."""
    own = None if gate is None else gate.outputs[0]
    return next((known[one] for one in product.inputs if one is not own and one in known), None)


def _shown(cell: ir.Value, known: dict[ir.Value, int]) -> tuple[ir.Value, ir.Value] | None:
    """The gate that Tanh of c is multiplied by, and the product h."""
    for use in cell.uses():
        product = _multiplied(use.node) if use.node.op_type == "Tanh" else None
        gate = None if product is None else next((one for one in product.inputs if one in known), None)
        if product is not None and gate is not None and len(list(gate.uses())) == 1:
            return gate, product.outputs[0]
    return None


def _products(cell: _Cell) -> tuple[_Product, _Product] | None:
    """Of x and of h; where the graph does not tell them apart either may be h, which comes to the same."""
    value = cell.split.inputs[0]
    terms = [] if value is None else _terms(value)
    products = [found for one in terms if (found := _product(one)) is not None]
    biases = [array for one in terms if (array := constant(one)) is not None]
    size = next((len(one.bias) for one in products), 0)
    if len(products) != 2 or len(products) + len(biases) != len(terms) or size % 4:
        return None
    if any(array.dtype != np.float32 or not _is_row(array, size) for array in biases):
        return None
    if any(len(one.bias) != size or rank(one.source) != 2 for one in products):
        return None
    fitting = [one for one in products if one.weight.shape[1] == size // 4]
    if not fitting:
        return None
    carried = [one for one in fitting if all(end.is_graph_input() for end in moved_from(one.source))]
    h = (carried or fitting)[-1]
    x = products[0] if h is products[1] else products[1]
    bias = np.asarray(x.bias + sum((np.broadcast_to(one.reshape(-1), (size,)) for one in biases), x.bias * 0))
    return _Product(x.source, x.weight, bias.astype(np.float32)), h


def _is_row(array: npt.NDArray[Any], size: int) -> bool:
    """One number, or one per column."""
    return array.size == 1 or (array.size == size and array.shape[-1] == size)


def _rows_alike(cell: _Cell, products: tuple[_Product, _Product]) -> bool:
    """Whether x, h and c are of as many samples, as far as that is known; an LSTM repeats none of them."""
    shapes = [value.shape for value in (cell.before, *(one.source for one in products))]
    rows = [shape[0] for shape in shapes if shape is not None]
    return len({str(one) if isinstance(one, int) else size_name(one) for one in rows} - {""}) < 2


def _terms(value: ir.Value) -> list[ir.Value]:
    """What sums are made of; a part that something else reads is not taken apart."""
    producer = value.producer()
    if producer is None or not (adds(producer) and is_standard(producer)) or len(list(value.uses())) != 1:
        return [value]
    return [term for one in producer.inputs if one is not None for term in _terms(one)]


def _product(value: ir.Value) -> _Product | None:
    """MatMul or Gemm with constant weights."""
    node = value.producer()
    weight = None if node is None or not is_standard(node) else constant(input_at(node, 1))
    source = None if node is None or not node.inputs else node.inputs[0]
    if node is None or source is None or weight is None or weight.dtype != np.float32 or weight.ndim != 2:
        return None
    if node.op_type == "MatMul":
        return _Product(source, weight.T.astype(np.float32), np.zeros(weight.shape[1], np.float32))
    plain = float_attribute(node, "alpha", 1.0) == float_attribute(node, "beta", 1.0) == 1.0
    if node.op_type != "Gemm" or not plain or int_attribute(node, "transA", 0):
        return None
    rows = weight if int_attribute(node, "transB", 0) else weight.T
    bias = constant(input_at(node, 2)) if input_at(node, 2) is not None else np.zeros(1, np.float32)
    if bias is None or bias.dtype != np.float32 or not _is_row(bias, len(rows)):
        return None
    return _Product(source, rows.astype(np.float32), np.broadcast_to(bias.reshape(-1), (len(rows),)).copy())


def _replace(graph: ir.Graph, cell: _Cell, products: tuple[_Product, _Product]) -> None:
    """The LSTM node, and its results in place of c and h."""
    x, h = products
    names, split = Names(graph), cell.split
    units = len(h.bias) // 4
    order = np.concatenate([np.arange(units) + units * cell.places[gate] for gate in GATES])
    weights = [
        names.constant(f"{split.name}/{what}", array)
        for what, array in (
            ("W", x.weight[order][None]),
            ("R", h.weight[order][None]),
            ("B", np.concatenate([x.bias[order], h.bias[order]])[None]),
        )
    ]
    front = names.constant(f"{split.name}/axes", np.array([0], np.int64))
    inputs = [
        _moved(graph, names, "Unsqueeze", one, front, split) for one in (x.source, h.source, cell.before)
    ]
    lstm = ir.node(
        "LSTM", [inputs[0], *weights, None, inputs[1], inputs[2]], {"hidden_size": units}, num_outputs=3,
        name=names.node(f"{split.name}/LSTM"),
    )  # fmt: skip
    for value in lstm.outputs:
        value.name = names.value(f"{split.name}/states")
        value.type = cell.cell.type
    graph.insert_before(split, lstm)
    for old, new in ((cell.hidden, lstm.outputs[1]), (cell.cell, lstm.outputs[2])):
        _hand_over(names, old, _moved(graph, names, "Squeeze", new, front, split))


def _moved(
    graph: ir.Graph, names: Names, op: str, value: ir.Value, axes: ir.Value, before: ir.Node
) -> ir.Value:
    node = ir.node(op, [value, axes], name=names.node(f"{value.name}/{op}"))
    node.outputs[0].name, node.outputs[0].type = names.value(f"{value.name}/{op}"), value.type
    graph.insert_before(before, node)
    return node.outputs[0]


def _hand_over(names: Names, old: ir.Value, new: ir.Value) -> None:
    """Whoever read the old value reads the new one, under its name."""
    name, shape = old.name, old.shape
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    old.name = names.value(f"{name}/written_out")
    new.name, new.shape = name, shape
