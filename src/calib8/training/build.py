"""From the traced graph to the graph that is trained: layers for products, quantizers on tensors."""

from __future__ import annotations

import copy

import torch
from torch import fx

from calib8.modules.out_of_place import is_size
from calib8.training.fake_quantizer import FakeQuantizer, coded_constant, coded_with
from calib8.training.layers import SimulatedLayer
from calib8.training.norms import FunctionalNorm, mean_path, named_arguments
from calib8.training.plan import LayerPlan
from calib8.training.products import attribute, evaluated, product_of, weight_nodes
from calib8.training.simulation import Simulation, module_key


def build(traced: fx.GraphModule, simulation: Simulation) -> fx.Graph:
    """Makes the simulated graph and fills ``simulation`` with its quantizers and layers.

    Args:
        traced: the traced module; not changed.
        simulation: with its plan.
    """
    graph = copy.deepcopy(traced.graph)
    builder = _Builder(graph, simulation, traced)
    for name in simulation.plan.readers:
        builder.quantize_tensor(name)
    for name in simulation.plan.joined:
        builder.code_inputs(name)
    for name in simulation.plan.constants:
        builder.code_constants(name)
    for layer in simulation.plan.layers:
        builder.replace_layer(layer)
    graph.lint()
    return graph


def _is_fixed(node: fx.Node) -> bool:
    """Whether a tensor is computed from parameters, buffers and sizes alone."""
    waiting, seen = [node], {node}
    while waiting:
        one = waiting.pop()
        if one.op == "placeholder":
            return False
        new = [source for source in one.all_input_nodes if source not in seen and not is_size(source)]
        waiting += new
        seen.update(new)
    return True


class _Builder:
    """The graph on its way; nodes by the names that they have in the traced one."""

    def __init__(self, graph: fx.Graph, simulation: Simulation, traced: fx.GraphModule) -> None:
        self.graph, self.simulation, self.traced = graph, simulation, traced
        self.modules = dict(traced.named_modules(remove_duplicate=False))
        self.nodes = {node.name: node for node in graph.nodes}

    def quantizer_path(self, tensor: str) -> str:
        """Where the quantizer of a tensor lies; it is made where there is none yet."""
        leader = self.simulation.leaders.get(tensor, tensor)
        key = module_key(leader)
        if key not in self.simulation.quantizers:
            self.simulation.quantizers[key] = FakeQuantizer(self.simulation.graph.scheme.activations)
        return f"calib8.quantizers.{key}"

    def quantize_tensor(self, name: str) -> None:
        """``t → quantizer → readers of t``."""
        node, wanted = self.nodes[name], self.simulation.plan.readers[name]
        users = [user for user in node.users if wanted is None or user.name in wanted]
        after = node
        if node.op == "placeholder":  # arguments come first
            after = [one for one in self.graph.nodes if one.op == "placeholder"][-1]
        with self.graph.inserting_after(after):
            coded = self.graph.call_module(self.quantizer_path(name), (node,))
        for user in users:
            user.replace_input_with(node, coded)

    def code_inputs(self, name: str) -> None:
        """Inputs of a Concat get the codes of its result."""
        node = self.nodes[name]
        if name not in self.simulation.plan.readers:
            return
        with self.graph.inserting_before(node):
            quantizer = self.graph.get_attr(self.quantizer_path(name))
            for source in node.all_input_nodes:
                coded = self.graph.call_function(coded_with, (source, quantizer))
                node.replace_input_with(source, coded)

    def code_constants(self, name: str) -> None:
        """What an operation reads beside activations, of parameters alone, gets codes of its own range."""
        node, readers = self.nodes[name], self.simulation.plan.readers
        fixed = [one for one in node.all_input_nodes if not is_size(one) and _is_fixed(one)]
        if len(fixed) == sum(not is_size(one) for one in node.all_input_nodes):
            return  # a constant itself, as a row of a table
        with self.graph.inserting_before(node):
            for constant in fixed:
                known = name if name in readers else next(iter(readers))  # any tells whether to round
                quantizer = self.graph.get_attr(self.quantizer_path(known))
                coded = self.graph.call_function(coded_constant, (constant, quantizer))
                node.replace_input_with(constant, coded)

    def replace_layer(self, plan: LayerPlan) -> None:
        """``product → norm → readers`` becomes ``layer → readers``."""
        result = self.nodes[plan.result]
        product = None if plan.product is None else self.nodes[plan.product]
        norm = None if plan.norm is None else self.nodes[plan.norm]
        first = product if product is not None else norm
        assert first is not None
        channels = self.channels(product, norm)
        layer = SimulatedLayer(
            None if product is None else product_of(product, self.modules),
            self.simulation.graph.scheme, whole=plan.whole, channels=channels,
        )  # fmt: skip
        key = module_key(plan.result)
        self.simulation.layers[key] = layer
        with self.graph.inserting_before(result):
            weight, bias = self.constants(product)
            before = None if norm is None else self.norm(norm)
            source = self.graph.get_attr(self.quantizer_path(plan.source))
            arguments = (first.all_input_nodes[0], weight, bias, before, source)
            replacement = self.graph.call_module(f"calib8.layers.{key}", arguments)
        result.replace_all_uses_with(replacement)
        self.graph.erase_node(result)
        if product is not None and norm is not None:
            self.graph.erase_node(product)

    def norm(self, node: fx.Node) -> fx.Node:
        """A BatchNorm as a node that yields it, not its result."""
        if node.op == "call_module":
            return self.graph.get_attr(str(node.target))
        return self.graph.call_function(FunctionalNorm, (), named_arguments(node))

    def constants(self, product: fx.Node | None) -> tuple[fx.Node | None, fx.Node | None]:
        """Weight and bias of a product as nodes; they are read or computed anew in every run."""
        if product is None:
            return None, None
        weight, bias = (
            self.graph.get_attr(one) if isinstance(one, str) else one for one in weight_nodes(product)
        )
        assert weight is not None
        return weight, bias

    def channels(self, product: fx.Node | None, norm: fx.Node | None) -> int:
        """Entries of the output-channel axis of the weight."""
        if product is None:
            assert norm is not None
            return int(attribute(self.traced, mean_path(norm)).shape[0])
        found, _ = weight_nodes(product)
        with torch.no_grad():
            weight = (
                attribute(self.traced, found) if isinstance(found, str) else evaluated(self.traced, found)
            )
        return int(weight.shape[product_of(product, self.modules).axis])
