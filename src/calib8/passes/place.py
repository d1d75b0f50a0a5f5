"""Decides which nodes are quantized and which tensors carry Q/DQ, and says why where it is not so.

A node is quantized when a runtime can compute it from codes: its op has an integer form, its weights are
constant, and it is no arithmetic behind the last weighted layer (box decoding and the like, where one
code would be a visible error). An activation behind a layer is fused into it: no codes in between. Several
nodes that are one function of one tensor (``passes/functions``) are a chain: computed as one, float or int8
as one, no codes in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import onnx_ir as ir

from calib8.model.graph import activation_inputs, is_activation
from calib8.ops.groups import (
    ARRANGING_OPS,
    BINARY_OPS,
    CLAMPS,
    FUNCTION_OPS,
    MOVE_OPS,
    OF_SHAPES,
    PAIR_OPS,
    TARGET_OPS,
    WEIGHTED_OPS,
)
from calib8.ops.questions import is_matrix_product, joins, normalizes_groups, yields_probabilities
from calib8.passes.decisions import NodeDecision, described
from calib8.passes.float_reasons import multiplies_activations, reads_unknown_type, why_float
from calib8.passes.functions import TensorFunction, computed_as_one, fused_layers, is_chain
from calib8.passes.functions import activation_behind as activation_behind
from calib8.passes.functions import chains as chains
from calib8.passes.functions import clip_limits as clip_limits
from calib8.passes.functions import feeding_weights as feeding_weights
from calib8.passes.functions import is_pointwise as is_pointwise
from calib8.passes.integer_cells import (
    carries_codes,
    cells_of,
    integer_cells,
    moved_states,
    reads_codes,
    state_readers,
)
from calib8.passes.norm_chains import normalizations
from calib8.passes.recurrent_nodes import is_recurrent
from calib8.passes.recurrent_targets import why_recurrent_here, with_recurrent
from calib8.passes.state_moves import state_moves
from calib8.passes.weighted_inputs import weighted_inputs
from calib8.scheme import ANY_FUNCTION, QuantScheme

COMPUTED_IN_FLOAT: Final = "the target computes it in float"


@dataclass(frozen=True)
class Placement:
    """Where Q/DQ go.

    Attributes:
        decisions: one per node that works on float activations, in graph order.
        readers: tensor that carries Q/DQ → names of the nodes that read its dequantized form;
            None means every reader, the graph's outputs included.
        chains: names of nodes that the target computes as one, in graph order, the last one yields the
            result: all of them are quantized or none; see ``calib8.passes.functions``. One node is a chain
            where the target computes it together with a layer.
        products: names of the products of two activations that take codes of both.
    """

    decisions: tuple[NodeDecision, ...]
    readers: dict[str, frozenset[str] | None]
    chains: tuple[tuple[str, ...], ...] = ()
    products: frozenset[str] = frozenset()

    def quantized_nodes(self) -> frozenset[str]:
        """Names of the quantized nodes."""
        return frozenset(decision.node for decision in self.decisions if decision.quantized)

    def summary(self, engine_floats: Mapping[str, str] | None = None) -> str:
        """``52 of 53 Conv quantized; 1 float because …`` per weighted op, then the other nodes.

        Args:
            engine_floats: node that calib8's engine computes in float → why; None: of the file alone.
        """
        return described(self.decisions, engine_floats)


def place(model: ir.Model, scheme: QuantScheme, keep_float: frozenset[str] = frozenset()) -> Placement:
    """Decides for every node of a prepared model.

    Args:
        model: a prepared float graph (constants folded, shapes inferred).
        scheme: the target's rules.
        keep_float: names of nodes that the user wants in float.
    """
    functions = computed_as_one(model, scheme)
    norms = normalizations(model, scheme.computes)
    decisions, quantized = _decide_as_one(model, scheme, keep_float, functions, norms)
    if scheme.recurrent == "hybrid":
        decisions = with_recurrent(model, decisions, scheme, keep_float)
    if scheme.placement == "weighted-inputs":
        return Placement(tuple(decisions), weighted_inputs(decisions, quantized))
    behind = fused_layers(functions, scheme)
    fused = {layer for layer, one in behind.items() if one.nodes[0] in quantized}
    inside = fused.union(*(nodes[:-1] for nodes in (*norms, *(one.nodes for one in functions))))
    products = coded_products(model, scheme, keep_float)
    taking = quantized | products
    coded = _coded_tensors(model, quantized, taking, inside, scheme)
    readers = {value.name or "": _readers(value, quantized, taking) for value in coded}
    as_one = [*norms, *(one.nodes for one in functions if is_chain(one) or one.layer in behind)]
    names = tuple(tuple(node.name or "" for node in nodes) for nodes in as_one)
    return Placement(tuple(decisions), readers, names, frozenset(node.name or "" for node in products))


def takes_codes(model: ir.Model, scheme: QuantScheme) -> frozenset[str]:
    """Names of the nodes for which it matters to be kept in float: quantized ones, and those that read codes.

    Args:
        model, scheme: as for ``place``.
    """
    products = {node.name or "" for node in coded_products(model, scheme)}
    return place(model, scheme).quantized_nodes() | products


def calibration_tensors(model: ir.Model, keep_float: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Tensors whose ranges serve every target: all that any placement gives Q/DQ, and cells of LSTMs."""
    widest = QuantScheme(
        "calibration",
        quantize_outputs=True,
        shared_scale_ops=frozenset({"AveragePool", "Concat"}),
        computes=TARGET_OPS | PAIR_OPS,
        multiplies_activations=True,
    )
    joining = replace(widest, joins_pointwise=True)
    schemes = [widest, joining, replace(joining, fuses=CLAMPS | {ANY_FUNCTION})]
    cells = cells_of(model, keep_float)
    if any(is_recurrent(node) for node in model.graph):
        schemes += [replace(scheme, recurrent="integer") for scheme in schemes]
    if normalizations(model, TARGET_OPS | PAIR_OPS):  # other targets have codes inside of them
        schemes += [replace(scheme, computes=frozenset()) for scheme in schemes]
    found = {name for scheme in schemes for name in place(model, scheme, keep_float).readers}
    values = (*model.graph.inputs, *(value for node in model.graph for value in node.outputs))
    return (*(value.name for value in values if value.name in found), *cells)


def _decide_as_one(
    model: ir.Model,
    scheme: QuantScheme,
    keep_float: frozenset[str],
    functions: Collection[TensorFunction],
    norms: Collection[tuple[ir.Node, ...]],
) -> tuple[list[NodeDecision], set[ir.Node]]:
    """``_decide``, repeated until every function and chain is quantized as a whole or float as a whole."""
    bound = state_moves(model) | (moved_states(model) if scheme.recurrent == "integer" else {})
    while True:
        decisions, quantized = _decide(model, scheme, keep_float, bound, functions, norms)
        why = {decision.node: decision.reason for decision in decisions if not decision.quantized}
        parts = [*norms, *(one.nodes for one in functions)]
        torn = [nodes for nodes in parts if 0 < sum(node.name in why for node in nodes) < len(nodes)]
        if not torn:
            return decisions, quantized
        for names in ([node.name or "" for node in nodes] for nodes in torn):
            first = next(name for name in names if name in why)
            other = f"computed as one with '{first}', which is float"
            bound |= {name: why.get(name, other) for name in names}


def _decide(
    model: ir.Model,
    scheme: QuantScheme,
    keep_float: frozenset[str],
    bound: Mapping[str, str],
    functions: Collection[TensorFunction],
    norms: Collection[tuple[ir.Node, ...]],
) -> tuple[list[NodeDecision], set[ir.Node]]:
    """A decision per float node, and the nodes that can be computed from codes; ``bound`` ones cannot."""
    in_norms = {node for nodes in norms for node in nodes}
    feeds_weights = feeding_weights(model)
    fused_into = {n: layer for layer, one in fused_layers(functions, scheme).items() for n in one.nodes}
    only_as_function = {node: one for one in functions for node in one.nodes if _holds_function_ops(one)}
    cells = integer_cells(model, keep_float) if scheme.recurrent == "integer" else {}
    decisions = []
    quantized: set[ir.Node] = set()
    for node in _float_nodes(model):
        function = only_as_function.get(node)
        reason = (
            cells[node]
            if node in cells
            else (
                bound.get(node.name or "", "")
                or why_recurrent_here(node, scheme, keep_float)
                or _why_by_itself(node, keep_float, in_norms)
                or _why_not_here(node, scheme)
                or _why_no_function(
                    node, scheme, feeds_weights, is_one=function is not None or node in in_norms
                )
                or _why_float_output(node, scheme)
                or _why_behind_float(node, fused_into.get(node), quantized)
                or _why_float_source(function, quantized)
                or _why_tail(node, feeds_weights, quantized)
            )
        )
        decisions.append(NodeDecision(node.name or "", node.op_type, not reason, reason))
        if not reason:
            quantized.add(node)
    products = coded_products(model, scheme, keep_float)
    _drop_idle(decisions, quantized, products, only_as_function, feeds_weights, scheme)
    return decisions, quantized


def coded_products(
    model: ir.Model, scheme: QuantScheme, keep_float: frozenset[str] = frozenset()
) -> set[ir.Node]:
    """The products of two activations before a layer: they take codes, though they have no weights.

    Args:
        model, scheme, keep_float: as for ``place``, which calls them float.
    """
    if not scheme.multiplies_activations:
        return set()
    feeding = feeding_weights(model)
    return {node for node in feeding if multiplies_activations(node) and node.name not in keep_float}


def _why_by_itself(node: ir.Node, keep_float: frozenset[str], in_norms: Collection[ir.Node]) -> str:
    """Why a node is float, whatever is around it; those of a chain need no integer form of their own."""
    if node in in_norms and node.name not in keep_float and not normalizes_groups(node):
        return ""
    return why_float(node, keep_float)


def _why_not_here(node: ir.Node, scheme: QuantScheme) -> str:
    """Why an op that some targets compute from codes stays float for this one."""
    return COMPUTED_IN_FLOAT if node.op_type in TARGET_OPS - scheme.computes else ""


def _why_no_function(node: ir.Node, scheme: QuantScheme, feeds_weights: set[ir.Node], *, is_one: bool) -> str:
    """Why an op that has an integer form as a function of one tensor alone is none here."""
    if is_one or node.op_type not in FUNCTION_OPS:
        return ""
    of_two = node.op_type in PAIR_OPS & scheme.computes and len(list(activation_inputs(node))) == 2
    if not scheme.joins_pointwise:
        return COMPUTED_IN_FLOAT
    if node not in feeds_weights:
        return "it is post-processing behind the last weighted layer"
    return "" if of_two else "it is not a function of one tensor"


def _holds_function_ops(function: TensorFunction) -> bool:
    """Whether nothing but the function as a whole has an integer form."""
    return any(node.op_type in FUNCTION_OPS for node in function.nodes)


def _float_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """Nodes that read a float activation, or what may be one behind an op that onnx does not know.

    Shape arithmetic and constants are no concern of quantization.
    """
    for node in model.graph:
        reads = any(True for _ in activation_inputs(node)) or reads_unknown_type(node)
        if reads and node.op_type not in OF_SHAPES:
            yield node


def _why_float_output(node: ir.Node, scheme: QuantScheme) -> str:
    """Codes of 1/256 would make many of a thousand class probabilities equal."""
    if scheme.quantize_outputs or not yields_probabilities(node):
        return ""
    return "it yields the graph's class probabilities"


def _why_behind_float(node: ir.Node, fused_into: ir.Node | None, quantized: set[ir.Node]) -> str:
    """An activation that would be fused into a float layer is float as well: codes follow behind it."""
    layer = fused_into
    if layer is None and node.op_type in CLAMPS and node.inputs[0]:
        producer = node.inputs[0].producer()
        layer = producer if producer is not None and activation_behind(producer) is node else None
    return "" if layer is None or layer in quantized else "the layer before it is float"


def _why_float_source(function: TensorFunction | None, quantized: set[ir.Node]) -> str:
    """A function that reads floats and has no integer form of its own needs no codes before it."""
    if function is None or function.source.producer() in quantized:
        return ""
    return f"its input '{function.source.name}' is float"


def _why_tail(node: ir.Node, feeds_weights: set[ir.Node], quantized: set[ir.Node]) -> str:
    """Behind the last weighted layer only what continues an integer chain is quantized."""
    if node.op_type in WEIGHTED_OPS or node in feeds_weights:
        return ""
    sources = [value.producer() for value in activation_inputs(node)]
    if not all(source is None or source in quantized for source in sources):
        return "it is post-processing of float values"
    if node.op_type in BINARY_OPS and len(sources) < 2:
        return "it is arithmetic with constants behind the last weighted layer"
    return ""


def _drop_idle(
    decisions: list[NodeDecision],
    quantized: set[ir.Node],
    products: set[ir.Node],
    functions: Mapping[ir.Node, TensorFunction],
    feeds_weights: set[ir.Node],
    scheme: QuantScheme,
) -> None:
    """A node that only moves values into float nodes gains nothing from codes: it stays float.

    Nor does one of ``functions``, which have no integer form but as a whole, nor one on the way out of the
    graph whose values are finer without (``_is_finer_in_float``). Walked backwards, so that a chain of such
    nodes goes as a whole.
    """
    by_name = {node.name: node for node in quantized}
    idle = (MOVE_OPS | ARRANGING_OPS) - (scheme.shared_scale_ops & {"Concat"})
    for index in reversed(range(len(decisions))):
        decision = decisions[index]
        node = by_name.get(decision.node)
        if node is None or (node.op_type not in idle and node not in functions):
            continue
        if joins(node) and node in feeds_weights:
            continue
        uses = [use for value in node.outputs for use in value.uses()]
        leaves_graph = any(value.is_graph_output() for value in node.outputs)
        takes = any(reads_codes(use, quantized | products) for use in uses)
        if takes or not (uses or leaves_graph):
            continue
        if leaves_graph and (scheme.quantize_outputs or not _is_finer_in_float(node, idle)):
            continue
        quantized.discard(node)
        reason = "it arranges what leaves the graph" if leaves_graph else "only float nodes read it"
        decisions[index] = NodeDecision(decision.node, decision.op_type, False, reason)


def _is_finer_in_float(node: ir.Node | None, idle: Collection[str]) -> bool:
    """Whether a node arranges values that one code of all would make coarser.

    Those that a Concat joins have finer codes of their own, unless the target wants one scale around it, so
    that it is not among the ``idle`` ops; a Gemm or MatMul gives its sums as floats.
    """
    while node is not None and node.op_type in ARRANGING_OPS and node.op_type in idle:
        if joins(node):
            return True
        source = node.inputs[0]
        node = None if source is None else source.producer()
    return node is not None and is_matrix_product(node)


def _readers(value: ir.Value, quantized: set[ir.Node], taking: set[ir.Node]) -> frozenset[str] | None:
    """Who reads the codes: of what is in float anyway, float nodes and the graph's outputs need none."""
    uses = list(value.uses())
    coded = [use.node.name or "" for use in uses if reads_codes(use, taking)]
    if value.producer() in quantized and (state := state_readers(value, taking)) is not None:
        return state
    if value.producer() in quantized or (len(coded) == len(uses) and not value.is_graph_output()):
        return None
    return frozenset(coded)


def _coded_tensors(
    model: ir.Model, quantized: set[ir.Node], taking: set[ir.Node], inside: set[ir.Node], scheme: QuantScheme
) -> Iterator[ir.Value]:
    """The tensors that carry Q/DQ, in graph order: what is read as codes, or quantized and not inside."""
    for value in model.graph.inputs:
        if is_activation(value) and any(reads_codes(use, taking) for use in value.uses()):
            yield value
    for node in model.graph:
        for value in node.outputs:
            read = any(reads_codes(use, taking) for use in value.uses())
            if not is_activation(value) or not (node in quantized or read):
                continue
            if node in quantized and not carries_codes(value, taking):
                continue
            if node in quantized and (
                node in inside
                or fused_activation(node, scheme)
                or _can_stay_float(node, value, taking, scheme)
            ):
                continue
            yield value


def fused_activation(node: ir.Node, scheme: QuantScheme) -> ir.Node | None:
    """The Relu or Clip(0, …) behind a layer that the output quantizer (or the kernel) carries out.

    Only where the layer's output has no other reader and need not have the scale of its input. With a
    symmetric code the clamp is the kernel's.
    """
    activation = None if node.op_type in scheme.shared_scale_ops else activation_behind(node)
    return activation if activation is not None and activation.op_type in scheme.fuses else None


def _can_stay_float(node: ir.Node, value: ir.Value, taking: set[ir.Node], scheme: QuantScheme) -> bool:
    """A Gemm or MatMul gives float sums directly: its result needs no codes if nobody reads them."""
    if scheme.quantize_outputs or not is_matrix_product(node):
        return False
    return not any(reads_codes(use, taking) for use in value.uses())
