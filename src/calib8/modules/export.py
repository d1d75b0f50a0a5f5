"""From a module to a float ONNX model, whose values are called as the nodes of the traced graph.

Every node of the graph that yields a tensor is exported as an output under its name; then the outputs that
are none of the module's are taken away again, and the names stay.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
import torch
from torch import Tensor, fx, nn

from calib8.errors import Calib8Error, ModelError, UnsupportedModelError, UsageError
from calib8.model.runtime import open_session
from calib8.modules.example_inputs import (
    SUBJECT,
    checked_inputs,
    has_batch,
    refused,
    run_example,
    tensors_in,
    with_batch,
)
from calib8.modules.modes import in_mode
from calib8.modules.onnx_names import MARK, free_batch, named_as_traced
from calib8.modules.tracing import TracingWarning, trace, unwrapped
from calib8.modules.wide_linear import split_wide_linears

RELATIVE_TOLERANCE: Final = 1e-3
ABSOLUTE_TOLERANCE: Final = 1e-5
"""A difference to the module above both is no float rounding."""

_OPSETS: Final = {True: 18, False: 17}
"""Operator set that each exporter writes by itself: with torch.export, with TorchScript."""

_TALKATIVE: Final = ("torch", "torch.onnx", "torch.export", "torch.fx", "onnxscript", "onnx_ir")


def export_module(module: nn.Module, example_inputs: object) -> onnx.ModelProto:
    """Traces a module, exports it as it evaluates, and compares the model with it.

    Args:
        module: any module in float32; unchanged, in whatever mode it is.
        example_inputs: a tensor or a tuple of them, axis 0 the batch.

    Returns:
        A model whose batch axis is free where the module allows it; see ``export_traced`` for its names. A
        module that cannot be traced has those of torch.onnx.export.

    Raises:
        UsageError: the example inputs are not what the module takes.
        UnsupportedModelError: it can neither be traced nor exported.
        ModelError: the model computes something else than the module.
    """
    module = unwrapped(module)
    inputs = checked_inputs(module, example_inputs)
    with in_mode(module, training=False):
        run_example(module, inputs)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TracingWarning)  # of training, which is not asked for
                traced = trace(module, len(inputs), example=inputs)
        except UnsupportedModelError as error:
            model = _plain(module, inputs, error)
        else:
            split_wide_linears(traced, inputs)
            model = export_traced(traced, inputs)
        _check(model, module, inputs)
    return model


def export_traced(
    traced: fx.GraphModule, example_inputs: object, *, _dynamo: bool | None = None
) -> onnx.ModelProto:
    """The traced module as it evaluates, as a float ONNX model.

    Args:
        traced: what ``trace`` returned; unchanged, in whatever mode it is.
        example_inputs: a tensor or a tuple of them, one per placeholder, axis 0 the batch.

    Returns:
        A model whose inputs, outputs and inner values have the names of the nodes, its initializers those of
        parameters and buffers. What an exporter adds inside of a node is called ``node/Operator``. The batch
        axis is free where the module allows it, else as in the example.

    Raises:
        UsageError: the example inputs are not what the module takes.
        UnsupportedModelError: torch.onnx.export cannot write it.
    """
    inputs = checked_inputs(traced, example_inputs)
    with in_mode(traced, training=False), torch.no_grad():
        job = _job(traced, inputs)
        last: Exception | None = None
        for free in (True, False):
            try:
                model = job.write(dynamo=_knows_dynamo() if _dynamo is None else _dynamo, free=free)
            except Exception as error:
                last = error
                continue
            if not free or _runs_other_batches(model, traced, inputs):
                return model
    raise _not_written(job.name, last)


def _knows_dynamo() -> bool:
    """Whether torch.onnx exports with torch.export and a free batch axis: from torch 2.7 on."""
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    return (major, minor) >= (2, 7)


def _not_written(name: str, error: Exception | None) -> UnsupportedModelError:
    while error is not None and error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    cure = "See what torch.onnx.export says of this module, and write that part with other functions"
    return UnsupportedModelError(name, f"torch.onnx.export cannot write it ({said})", cure)


@dataclass(frozen=True)
class _Job:
    """A module to export.

    Attributes:
        module: takes the inputs, yields the tensors that are named.
        inputs: the example.
        input_names: one per input.
        output_names: what the module yields, in order; all of it is written.
        kept: which of them are outputs of the model; None: all, and other names are the exporter's.
        parameters: names of initializers.
        name: the user's name of the model.
    """

    module: nn.Module
    inputs: tuple[Tensor, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    kept: tuple[str, ...] | None
    parameters: frozenset[str]
    name: str

    def write(self, *, dynamo: bool, free: bool) -> onnx.ModelProto:
        """The ONNX model; a free axis that stays fixed all the same is an error."""
        mark = MARK if self.kept is not None else ""
        names = [f"{mark}{name}" for name in self.output_names]
        inputs = _at_least_two(self.inputs) if free else self.inputs
        with _quietly_and_plainly():
            model = _export(self.module, inputs, list(self.input_names), names, dynamo=dynamo, free=free)
        batched = {
            name for name, value in zip(self.input_names, inputs, strict=True) if has_batch(inputs, value)
        }
        if free and not free_batch(model, batched):
            raise ValueError("the batch axis is fixed")
        if self.kept is None:
            return model
        return named_as_traced(model, self.kept, self.parameters, self.name)


def _job(traced: fx.GraphModule, inputs: tuple[Tensor, ...]) -> _Job:
    """A copy of the graph that yields every tensor that depends on the inputs."""
    names = [node.name for node in traced.graph.nodes if node.op == "placeholder"]
    if len(names) != len(inputs):
        problem = f"holds {len(inputs)} tensors, the module takes {len(names)}"
        raise UsageError(SUBJECT, problem, "Give as many as forward takes")
    seen = _Seen(traced)
    try:
        seen.run(*inputs)
    except Exception as error:
        raise refused(traced, inputs, error) from error
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.graph_copy(traced.graph, copies)
    yielded = {node.name: copies[node] for node in traced.graph.nodes if node in seen.computed}
    kept: dict[str, None] = {}
    for node in _results(traced):
        if node not in seen.tensors:
            continue
        if node.op in ("placeholder", "get_attr"):
            name = f"{node.name}_output"
            yielded[name] = graph.call_function(torch.clone, (copies[node],))
        else:
            name = node.name
            yielded[name] = copies[node]
        kept[name] = None
    graph.output(tuple(yielded.values()))
    parameters = {name for name, _ in (*traced.named_parameters(), *traced.named_buffers())}
    return _Job(
        fx.GraphModule(traced, graph), inputs, tuple(names), tuple(yielded), tuple(kept),
        frozenset(parameters), type(traced).__name__,
    )  # fmt: skip


class _Seen(fx.Interpreter):
    """Runs a graph once and notes which nodes yield tensors.

    Attributes:
        tensors: nodes that yield a tensor.
        computed: those that yield float32 values computed from the inputs.
    """

    def __init__(self, traced: fx.GraphModule) -> None:
        super().__init__(traced)
        self.tensors: set[fx.Node] = set()
        self.computed: set[fx.Node] = set()
        self.changing: set[fx.Node] = set()

    def run_node(self, n: fx.Node) -> Any:
        """What the node yields."""
        result = super().run_node(n)
        if n.op == "placeholder" or any(source in self.changing for source in n.all_input_nodes):
            self.changing.add(n)
        if isinstance(result, Tensor) and n.op != "output":
            self.tensors.add(n)
            if n.op != "placeholder" and n in self.changing and result.dtype == torch.float32:
                self.computed.add(n)
        return result


def _results(traced: fx.GraphModule) -> list[fx.Node]:
    """Nodes that the output node hands out, in order, however they are nested."""
    found: list[fx.Node] = []
    output = next(node for node in traced.graph.nodes if node.op == "output")
    fx.node.map_arg(output.args, found.append)
    return found


def _at_least_two(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The example with a batch of more than one, which exporters would take for a fixed size."""
    return inputs if inputs[0].ndim == 0 or inputs[0].shape[0] > 1 else _doubled(inputs)


def _doubled(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return inputs if inputs[0].ndim == 0 else with_batch(inputs, 2 * inputs[0].shape[0])


def _export(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    input_names: list[str],
    output_names: list[str] | None,
    *,
    dynamo: bool,
    free: bool,
) -> onnx.ModelProto:
    """One call of torch.onnx.export."""
    batched = [free and has_batch(inputs, value) for value in inputs]
    settings: dict[str, Any] = {
        "input_names": input_names, "output_names": output_names, "opset_version": _OPSETS[dynamo],
        "verbose": False,
    }  # fmt: skip
    if dynamo:
        automatic = torch.export.Dim.AUTO
        settings["dynamic_shapes"] = tuple({0: automatic} if axis else None for axis in batched)
        program = torch.onnx.export(module, inputs, dynamo=True, **settings)
        if program is None:
            raise ValueError("nothing was exported")
        return program.model_proto
    axes = {name: {0: "batch"} for name, axis in zip(input_names, batched, strict=True) if axis}
    file = io.BytesIO()
    # older versions have no exporter but this, and no parameter that says so
    one_of_two = {"dynamo": False} if _knows_dynamo() else {}
    torch.onnx.export(module, inputs, file, dynamic_axes=axes, **one_of_two, **settings)  # type: ignore[arg-type]
    return onnx.load_model_from_string(file.getvalue())


@contextmanager
def _quietly_and_plainly() -> Iterator[None]:
    """What torch says while it exports is not the user's concern; attention is written as plain operators."""
    fast = torch.backends.mha.get_fastpath_enabled()
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [logger.level for logger in loggers]
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _plain(module: nn.Module, inputs: tuple[Tensor, ...], error: UnsupportedModelError) -> onnx.ModelProto:
    """torch.onnx.export by itself, which copes with some code that cannot be traced.

    Raises:
        UnsupportedModelError: ``error``, if it does not.
    """
    names = tuple(f"input_{index}" for index in range(len(inputs))) if len(inputs) > 1 else ("input",)
    job = _Job(module, inputs, names, (), None, frozenset(), type(module).__name__)
    for free in (True, False):
        try:
            model = job.write(dynamo=_knows_dynamo(), free=free)
        except Exception:
            continue
        if not free or _runs_other_batches(model, module, inputs):
            return model
    raise error


def _runs_other_batches(model: onnx.ModelProto, module: nn.Module, inputs: tuple[Tensor, ...]) -> bool:
    """Whether the model computes what the module computes for twice the batch."""
    try:
        return _difference(model, module, _doubled(inputs)) is None
    except Calib8Error:
        return False


def _check(model: onnx.ModelProto, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    difference = _difference(model, module, inputs)
    if difference is not None:
        cure = "See that it computes the same whenever it evaluates; else please report it as a bug"
        raise ModelError(type(module).__name__, f"the exported model differs from it: {difference}", cure)


def _difference(model: onnx.ModelProto, module: nn.Module, inputs: tuple[Tensor, ...]) -> str | None:
    """How the model differs from the module, None where it does not.

    Raises:
        UsageError: the module does not take the inputs.
        ModelError, DataError: ONNX Runtime does not take the model or the inputs.
    """
    session = open_session(model.SerializeToString(), name=model.graph.name)
    feeds = {
        value.name: tensor.detach().cpu().numpy()
        for value, tensor in zip(model.graph.input, inputs, strict=True)
    }
    expected = list(dict.fromkeys(tensors_in(run_example(module, inputs))))
    actual = session.run(feeds)
    if len(expected) != len(actual):
        return f"{len(actual)} outputs instead of {len(expected)}"
    for spec, ours, theirs in zip(session.outputs, actual, expected, strict=True):
        wanted = theirs.detach().cpu().numpy()
        if ours.shape != wanted.shape:
            return f"output '{spec.name}' is {list(ours.shape)} instead of {list(wanted.shape)}"
        gap = np.abs(ours.astype(np.float64) - wanted.astype(np.float64))
        gap = np.where(ours == wanted, 0.0, gap)  # infinite on both sides
        largest = float(np.max(gap, initial=0.0))
        magnitude = float(np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted)))
        if not (largest <= ABSOLUTE_TOLERANCE or largest <= RELATIVE_TOLERANCE * magnitude):
            return f"output '{spec.name}' by {largest:.2g}, its largest value is {magnitude:.2g}"
    return None
