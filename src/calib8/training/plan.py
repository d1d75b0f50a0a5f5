"""Where a traced module is simulated: the placement of its exported graph, carried back to its fx nodes.

The exported graph calls its values after the fx nodes that yield them. What ``passes.prepare`` folded away
has no value any more: every value that is left stands for a *region*, the fx nodes that compute it from the
other values. A quantized layer is the region of its result: a product with weights, the BatchNorm folded into
it, and what changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir
import torch.nn.functional as F
from torch import fx, nn

from calib8.errors import UnsupportedModelError
from calib8.model.graph import activation_inputs, label, sole_consumer
from calib8.ops.groups import BINARY_OPS, CODE_PRESERVING_OPS
from calib8.ops.questions import is_weighted, joins
from calib8.passes.place import Placement
from calib8.scheme import QuantScheme
from calib8.training.norms import is_norm
from calib8.training.products import is_product, product_of

NO_CHANGE: Final = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.Identity)
"""Modules that the int8 model does not have."""

NO_CHANGE_FUNCTIONS: Final = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, "contiguous")
"""Functions and methods likewise."""


@dataclass(frozen=True)
class LayerPlan:
    """A layer with weights.

    Attributes:
        node: name of its node in the prepared graph.
        result: the last of the fx nodes ``product`` and ``norm``: what stands for the layer.
        product: fx node that multiplies with the weights; None where a BatchNorm is a layer by itself.
        norm: fx node of the BatchNorm folded into it, None without one.
        source: tensor whose codes it reads.
        whole: the layer ends with ``result``. Otherwise constants behind it are folded into the int8 layer as
            well, and the simulation has them as they are.
    """

    node: str
    result: str
    product: str | None
    norm: str | None
    source: str
    whole: bool


@dataclass(frozen=True)
class Plan:
    """What is simulated where.

    Attributes:
        layers: in graph order.
        readers: tensor that carries Q/DQ → fx nodes that read its codes; None: all, the outputs included.
        aliases: other tensor of the prepared graph that carries Q/DQ → the tensor with the same codes.
        constants: fx nodes whose constant operands have codes of the activations' type.
        joined: fx nodes of a Concat whose inputs are coded with the scale of its result.
    """

    layers: tuple[LayerPlan, ...]
    readers: Mapping[str, frozenset[str] | None]
    aliases: Mapping[str, str]
    constants: frozenset[str]
    joined: frozenset[str]


def plan_simulation(
    traced: fx.GraphModule, prepared: ir.Model, placement: Placement, scheme: QuantScheme
) -> Plan:
    """Carries a placement back to the fx nodes.

    Args:
        traced: the traced module.
        prepared: its exported graph, prepared.
        placement: of that graph.
        scheme: the target's rules.

    Raises:
        UnsupportedModelError: codes lie within an fx node, or a layer is made of what cannot be simulated;
            all such places are listed.
    """
    return _Planner(traced, prepared, placement, scheme).plan()


class _Planner:
    """The graphs of both sides, and what was found wrong."""

    def __init__(
        self, traced: fx.GraphModule, prepared: ir.Model, placement: Placement, scheme: QuantScheme
    ) -> None:
        self.name = type(traced).__name__
        self.modules = dict(traced.named_modules(remove_duplicate=False))
        self.fx_nodes = {node.name: node for node in traced.graph.nodes if node.op != "output"}
        self.prepared, self.placement, self.scheme = prepared, placement, scheme
        self.quantized = placement.quantized_nodes()
        self.live = {value.name or "" for value in _values(prepared)} & self.fx_nodes.keys()
        self.problems: list[str] = []

    def plan(self) -> Plan:
        aliases = {name: self.alias(name) for name in self.placement.readers if name not in self.fx_nodes}
        readers = {
            name: self.readers(name, nodes)
            for name, nodes in self.placement.readers.items()
            if name in self.fx_nodes
        }
        layers = [self.layer(node) for node in self.prepared.graph if self.is_layer(node)]
        constants = set(self.of_nodes(self.has_coded_constants))
        joined = set(self.of_nodes(self.joins_one_scale))
        if self.problems:
            listed = "; ".join(dict.fromkeys(self.problems))
            raise UnsupportedModelError(
                self.name,
                f"cannot be simulated as it stands: {listed}",
                "Keep these nodes in float (keep_float)",
            )
        plans = tuple(layer for layer in layers if layer is not None)
        return Plan(plans, readers, aliases, frozenset(constants), frozenset(joined))

    def region(self, result: str) -> list[fx.Node]:
        """The fx nodes that compute a value from the other values that are left, in graph order."""
        found: set[fx.Node] = set()
        waiting = [self.fx_nodes[result]]
        while waiting:
            node = waiting.pop()
            found.add(node)
            waiting += [one for one in node.all_input_nodes if one.name not in self.live and one not in found]
        return [node for node in self.fx_nodes.values() if node in found]

    def result_of(self, node: ir.Node) -> str | None:
        """The fx node that a node of the prepared graph belongs to: that of its result, or of a later one."""
        value: ir.Value | None = node.outputs[0]
        while value is not None and value.name not in self.fx_nodes:
            inside, _, operator = (value.name or "").rpartition("/")  # called so by the export
            if operator and inside in self.fx_nodes:
                return inside
            behind = sole_consumer(value)
            value = None if behind is None else behind.outputs[0]
        return None if value is None else value.name

    def alias(self, name: str) -> str:
        """The fx node with the codes of a tensor that only the prepared graph has."""
        value = next(value for value in _values(self.prepared) if value.name == name)
        node, behind = value.producer(), sole_consumer(value)
        result = None if behind is None or not self.keeps_codes(behind) else behind.outputs[0].name
        if result in self.placement.readers:
            return result if result in self.fx_nodes else self.alias(result)
        source = None if node is None or not self.keeps_codes(node) else node.inputs[0]
        if source is not None and source.name in self.placement.readers and source.name in self.fx_nodes:
            return source.name
        outer = name.partition("/")[0]
        owner = outer if outer in self.fx_nodes or node is None else self.result_of(node)
        self.problems.append(f"codes lie inside {self.called(owner)} ('{name}')")
        return ""

    def keeps_codes(self, node: ir.Node) -> bool:
        """Whether a node is quantized and yields codes that it read."""
        return node.op_type in CODE_PRESERVING_OPS and node.name in self.quantized

    def readers(self, name: str, nodes: frozenset[str] | None) -> frozenset[str] | None:
        """The fx nodes that read a tensor on behalf of nodes of the prepared graph."""
        if nodes is None:
            return None
        results = {self.result_of(node) for node in self.prepared.graph if node.name in nodes}
        users = self.fx_nodes[name].users
        inside = {node for result in results if result is not None for node in self.region(result)}
        return frozenset(user.name for user in users if user in inside)

    def is_layer(self, node: ir.Node) -> bool:
        return node.name in self.quantized and is_weighted(node)

    def layer(self, node: ir.Node) -> LayerPlan | None:
        """The fx nodes of a quantized layer."""
        result = self.result_of(node)
        nodes = [] if result is None else self.region(result)
        products = [one for one in nodes if is_product(one, self.modules)]
        norms = [one for one in nodes if is_norm(one, self.modules)]
        if len(products) > 1 or (not products and not self.is_norm_alone(norms)):
            self.problems.append(
                f"{self.called(result)} is not a single product with weights ({label(node)})"
            )
            return None
        product = products[0] if products else None
        norm = self.norm_of(product, norms)
        last = norm or product
        assert last is not None and result is not None
        whole = self.is_whole(last, nodes)
        groups = 1 if product is None else product_of(product, self.modules).groups
        if not whole and (groups > 1 or self.scheme.weight_granularity == "per-tensor"):
            self.problems.append(f"constants are folded into the one scale of {self.called(result)}")
        self.refuse_hooks(one for one in (product, norm) if one is not None)
        source = node.inputs[0]
        name = "" if source is None else source.name or ""
        if name not in self.fx_nodes:
            name = self.alias(name)
        multiplies, folded = (None if one is None else one.name for one in (product, norm))
        return LayerPlan(node.name or "", last.name, multiplies, folded, name, whole)

    def is_norm_alone(self, norms: list[fx.Node]) -> bool:
        """Whether a region without a product is one BatchNorm, behind what has no weights of its own."""
        if len(norms) != 1:
            return False
        [source, *_] = norms[0].all_input_nodes
        while source.name not in self.live:
            module = self.modules[str(source.target)] if source.op == "call_module" else None
            if len(source.all_input_nodes) != 1 or (
                module is not None and next(module.parameters(), None) is not None
            ):
                return False
            [source] = source.all_input_nodes
        return True

    def refuse_hooks(self, nodes: Iterable[fx.Node]) -> None:
        """Notes the modules that a layer takes the place of and whose hooks would not be called."""
        for node in nodes:
            module = self.modules[str(node.target)] if node.op == "call_module" else None
            if module is not None and (module._forward_hooks or module._forward_pre_hooks):
                self.problems.append(f"{self.called(node.name)} has hooks, which a layer does not call")

    def norm_of(self, product: fx.Node | None, norms: list[fx.Node]) -> fx.Node | None:
        """The BatchNorm that reads a product and nothing else does."""
        if product is None:
            return norms[0]
        readers = list(product.users)
        return readers[0] if len(readers) == 1 and readers[0] in norms else None

    def is_whole(self, last: fx.Node, nodes: list[fx.Node]) -> bool:
        """Whether nothing behind a node of its region changes values."""
        behind = nodes[nodes.index(last) + 1 :]
        return all(
            isinstance(self.modules[str(node.target)], NO_CHANGE)
            if node.op == "call_module"
            else node.op == "get_attr" or node.target in NO_CHANGE_FUNCTIONS
            for node in behind
        )

    def of_nodes(self, asked: Callable[[ir.Node], bool]) -> Iterator[str]:
        """Names of the fx nodes of quantized nodes of which something holds."""
        for node in self.prepared.graph:
            if node.name in self.quantized and asked(node):
                result = self.result_of(node)
                yield from (one.name for one in ([] if result is None else self.region(result)))

    def has_coded_constants(self, node: ir.Node) -> bool:
        apart = all(node.name not in chain for chain in self.placement.chains)
        whole = len(list(activation_inputs(node))) == len(node.inputs)
        every = self.scheme.placement == "every-op"
        return every and apart and not whole and node.op_type in BINARY_OPS | {"Concat"}

    def joins_one_scale(self, node: ir.Node) -> bool:
        return joins(node) and "Concat" in self.scheme.shared_scale_ops

    def called(self, name: str | None) -> str:
        """An fx node as the user knows it: by its module, or by its name."""
        node = self.fx_nodes.get(name or "")
        if node is None:
            return "an output"
        return f"module '{node.target}'" if node.op == "call_module" else f"'{node.name}'"


def _values(model: ir.Model) -> Iterator[ir.Value]:
    yield from model.graph.inputs
    for node in model.graph:
        yield from node.outputs
