"""The module that trains: the user's modules under their own names, run by a graph with int8 simulated."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from calib8.errors import CalibrationError, UsageError
from calib8.modules.example_inputs import has_batch
from calib8.modules.tracing import FIXED_SIZES
from calib8.training.call_form import CallForm
from calib8.training.layers import SimulatedLayer
from calib8.training.norms import Norm
from calib8.training.products import evaluated
from calib8.training.simulation import Simulation, module_key

TAKEN: Final = (
    "calib8", "call_form", "example_inputs", "fixed_sizes", "float_graph", "name", "simulated_graph",
    "training",
)  # fmt: skip
"""Names that parts of the user's module cannot have."""


class SimulatedModel(nn.Module):
    """A module with the quantization of its int8 form simulated.

    Parameters, buffers and submodules have the names that the user's module gave them; what belongs to the
    simulation lies under ``calib8``. It is called, trained, moved and saved (``state_dict``) like any module.

    Attributes:
        calib8: the simulation.
        float_graph: the traced graph without any of it.
        simulated_graph: the graph that runs.
        example_inputs: what it was traced with, on the CPU.
        fixed_sizes: whether it was traced for their sizes alone, but for the batch.
        name: of the user's class.
        call_form: the arguments of the user's forward.
    """

    calib8: Simulation

    def __init__(
        self,
        traced: fx.GraphModule,
        graph: fx.Graph,
        simulation: Simulation,
        example_inputs: tuple[Tensor, ...],
        call_form: CallForm,
    ) -> None:
        """Takes over the modules of ``traced``; ``graph`` is what it runs."""
        super().__init__()
        self.training = traced.training
        for name, child in traced.named_children():
            self.add_module(name, child)
        for name, parameter in traced._parameters.items():
            self.register_parameter(name, parameter)
        for name, buffer in traced._buffers.items():
            persistent = name not in traced._non_persistent_buffers_set
            self.register_buffer(name, buffer, persistent=persistent)
        self.add_module("calib8", simulation)
        self.float_graph = copy.deepcopy(traced.graph)
        self.example_inputs = example_inputs
        self.fixed_sizes: bool = traced.meta.get(FIXED_SIZES, False)
        self.name = type(traced).__name__
        self.call_form = call_form
        self.simulated_graph = graph
        self._run = _compiled(graph)
        self.register_load_state_dict_post_hook(keep_norms_frozen)  # type: ignore[no-untyped-call]

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the int8 model yields, up to the rounding of its last sums; arguments as the module's own.

        Raises:
            CalibrationError: a tensor holds NaN or infinite values, in training mode.
            UsageError: an argument that was not traced has another value than its default; inputs of other
                sizes than the example, where the graph holds for those alone.
        """
        given = self.call_form.inputs(inputs, named)
        if self.fixed_sizes:
            _refuse_sizes(self.name, given, self.example_inputs)
        result = self._run(self, *given)
        if self.training and not self.calib8.frozen:
            self.calib8.finish_step()
        if self.training:
            _refuse_nan(result)
        elif not self.calib8.frozen and self.calib8.steps == 0:
            _refuse_training(result)
        return result

    def train(self, mode: bool = True) -> SimulatedModel:
        """As of any module; BatchNorms of a frozen model stay in eval mode."""
        super().train(mode)
        keep_norms_frozen(self)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """For ``copy`` and ``pickle``: without the compiled graph."""
        return {name: value for name, value in self.__dict__.items() if name != "_run"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Compiles the graph anew."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._run = _compiled(self.simulated_graph)


def keep_norms_frozen(model: nn.Module, _: object = None) -> None:
    """BatchNorms of a frozen model evaluate, also where a state made it one."""
    assert isinstance(model, SimulatedModel)
    if model.calib8.frozen or model.calib8.recipe.batch_norm == "frozen":
        for module in model.modules():
            if isinstance(module, _BatchNorm):
                module.eval()


def folded_layers(model: SimulatedModel) -> Iterator[tuple[SimulatedLayer, Tensor, Tensor | None]]:
    """Every simulated layer with its weight and bias, the BatchNorm folded in; without gradients."""
    for layer, (weight, bias, norm) in _with_constants(model):
        with torch.no_grad():
            yield layer, *layer.constants(weight, bias, norm)


def layer_norms(model: SimulatedModel) -> Iterator[tuple[SimulatedLayer, Norm]]:
    """Every simulated layer that has a BatchNorm, with it."""
    for layer, (_, _, norm) in _with_constants(model):
        if norm is not None:
            yield layer, norm


def _with_constants(model: SimulatedModel) -> Iterator[tuple[SimulatedLayer, tuple[Any, Any, Any]]]:
    """Every simulated layer with weight, bias and BatchNorm, each None where it has none."""
    calls = {str(node.target): node for node in model.simulated_graph.nodes if node.op == "call_module"}
    for name, layer in model.calib8.all_layers():
        _, weight, bias, norm, _ = calls[f"calib8.layers.{module_key(name)}"].args
        yield layer, tuple(evaluated(model, one) for one in (weight, bias, norm))


def _compiled(graph: fx.Graph) -> Callable[..., Any]:
    """The graph as a function of the module and its inputs."""
    code = graph.python_code("self")
    namespace: dict[str, Any] = dict(code.globals)
    exec(compile(code.src, "<simulated forward>", "exec"), namespace)
    function: Callable[..., Any] = namespace["forward"]
    return function


def _refuse_sizes(name: str, given: Sequence[Any], example: Sequence[Tensor]) -> None:
    """Lets no inputs through a graph whose way was chosen for other sizes."""
    for ours, theirs in zip(example, given, strict=True):
        first = int(has_batch(example, ours))
        if isinstance(theirs, Tensor) and theirs.shape[first:] != ours.shape[first:]:
            problem = f"asks for sizes of its inputs and was traced for {list(ours.shape)}"
            raise UsageError(
                name, f"{problem}, not {list(theirs.shape)}", "Prepare it with example_inputs of these sizes"
            )


def _refuse_nan(result: Any) -> None:
    """Ends a training that has diverged; quantizers that watch tell the tensor before it comes so far."""
    if any(value.is_floating_point() and bool(value.detach().isnan().any()) for value in _tensors(result)):
        raise CalibrationError(
            "model",
            "yields NaN in training",
            "Lower the learning rate, clip gradients, and look for NaN in the inputs and parameters",
        )


def _refuse_training(result: Any) -> None:
    """Lets no gradient through a model that has never seen a batch in training mode."""
    found = [value for value in _tensors(result) if value.requires_grad]

    def refuse(_: Tensor) -> None:
        raise UsageError(
            "model",
            "is trained in eval mode, where no range is learned",
            "Call .train() on it before the loop",
        )

    for value in found:
        value.register_hook(refuse)  # type: ignore[no-untyped-call]


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    children = (
        value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    )
    return [found for child in children for found in _tensors(child)]
