"""An int8 model of Tengine beside the float one: a QDQ graph to look at, and a session of Tengine's codes.

    file     x ── Convolution, activation 0 ── y              scales s_x, s_w[c], s_y
    graph    x ─ Q ─ DQ ─ Conv ─ Relu ─ y ─ Q ─ DQ            the same scales, codes and names

    file     x ── Split ── y                                  its codes are copied, whatever the scales say
    graph    x ─ Q ─ DQ(s_y) ─ Split ─ y ─ Q(s_y) ─ DQ(s_y)

The session runs the program of the file: the codes of every tensor are those of Tengine's kernels, not those
that another runtime would make of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.real_session import to_codes, to_real
from calib8.analysis.runtimes import Settings
from calib8.model.from_tmfile.translate import float_model
from calib8.model.graph import Names
from calib8.model.runtime import Arrays, Session
from calib8.ops.questions import quantizes
from calib8.program.lower_tmfile.lower import lower_tmfile
from calib8.program.lower_tmfile.operators import copies_codes
from calib8.qparams import QParams
from calib8.session import InferenceSession
from calib8.tensors import TensorSpec
from calib8.tmfile.graph import Graph, Tensor
from calib8.tmfile.kinds import is_codes
from calib8.tmfile.ports import port_names
from calib8.tmfile.read import read_tmfile

Array = npt.NDArray[Any]

INT8: Final = np.dtype(np.int8)


def named_graph(path: str, names: Mapping[str, str]) -> Graph:
    """An int8 model, every tensor under a name of its own.

    Args:
        path: of the file.
        names: tensor of the float model → what Tengine's converter calls it, see ``passes.converter_names``;
            a tensor that is called so gets the float model's name, if the file has no tensor of that name.

    Raises:
        Calib8Error: the file is damaged, or what ``lower_tmfile`` refuses.
    """
    graph = read_tmfile(path)
    lower_tmfile(graph, path)  # what must be refused is refused here
    titles = port_names(graph, range(len(graph.tensors)))
    taken = set(titles)
    own = {theirs: name for name, theirs in names.items() if theirs in taken and name not in taken}
    named = zip(graph.tensors, titles, strict=True)
    return replace(graph, tensors=tuple(replace(one, name=own.get(name, name)) for one, name in named))


def qdq_graph(graph: Graph, name: str) -> ir.Model:
    """The graph as a QDQ model: Q and DQ behind every tensor, DQ behind every constant in codes.

    Args:
        graph: what ``named_graph`` gave.
        name: of the model, for messages.

    Raises:
        UnsupportedModelError: operators that have no ONNX nodes; all of them are listed.
    """
    model = float_model(replace(graph, tensors=tuple(map(_as_floats, graph.tensors))), name)
    names, held = Names(model.graph), {one.name: one for one in graph.tensors if is_codes(one)}
    for value in list(model.graph.initializers.values()):
        tensor = held.get(value.name or "")
        if tensor is not None and tensor.data is not None and tuple(value.shape or ()) == tensor.data.shape:
            _put_codes(model.graph, names, value, tensor)
    computed = [value for node in model.graph for value in node.outputs]
    reals: dict[str, ir.Value] = {}
    for value in (*model.graph.inputs, *computed):
        tensor = held.get(value.name or "")
        if tensor is not None and tensor.role != "const":
            reals[tensor.name] = _quantize(model.graph, names, value, tensor)
    _copy_codes(graph, names, held, reals)
    return model


def _as_floats(tensor: Tensor) -> Tensor:
    """The tensor as plain numbers."""
    data, meaning = tensor.data, tensor.quantization
    if data is None:
        return replace(tensor, dtype="float32", quantization=None)
    if data.dtype.kind == "f" or meaning is None:
        return replace(tensor, quantization=None)
    along = (-1, *(1 for _ in data.shape[1:]))
    steps = data.astype(np.int64) - meaning.zero_points.reshape(along)
    real = steps.astype(np.float32) * meaning.scales.reshape(along)
    return replace(tensor, dtype="float32", data=real.reshape(data.shape), quantization=None)


def _put_codes(graph: ir.Graph, names: Names, value: ir.Value, tensor: Tensor) -> None:
    """``value`` is no constant any more: it is computed of the codes."""
    assert tensor.data is not None
    title, first = value.name or "", next(iter(graph))
    codes = names.constant(f"{title}/codes", tensor.data)
    node = ir.node("DequantizeLinear", [codes, *_parameters(names, tensor)], attributes={"axis": 0})
    node.name, real = names.node(f"{title}/DequantizeLinear"), node.outputs[0]
    real.name, real.shape, real.type = names.value(f"{title}/real"), value.shape, value.type
    _read_instead(value, real)
    del graph.initializers[title]
    graph.insert_before(first, node)


def _quantize(graph: ir.Graph, names: Names, value: ir.Value, tensor: Tensor) -> ir.Value:
    """All that reads ``value`` reads what its codes mean instead, which is the result."""
    title, producer = value.name or "", value.producer()
    parameters, readers = _parameters(names, tensor), list(value.uses())
    quantize = ir.node("QuantizeLinear", [value, *parameters], name=names.node(f"{title}/QuantizeLinear"))
    codes = quantize.outputs[0]
    codes.name, codes.shape, codes.dtype = names.value(f"{title}/codes"), value.shape, ir.DataType.INT8
    back = ir.node("DequantizeLinear", [codes, *parameters], name=names.node(f"{title}/DequantizeLinear"))
    real = back.outputs[0]
    real.name, real.shape, real.type = names.value(f"{title}/real"), value.shape, value.type
    for reader, index in readers:
        reader.replace_input_with(index, real)
    graph.outputs[:] = [real if one is value else one for one in graph.outputs]
    if producer is None:
        graph.insert_before(next(iter(graph)), [quantize, back])
    else:
        graph.insert_after(producer, [quantize, back])
    return real


def _copy_codes(
    graph: Graph, names: Names, held: Mapping[str, Tensor], reals: Mapping[str, ir.Value]
) -> None:
    """What moves codes into a tensor of another scale reads them as if they had that scale already."""
    for node in graph.nodes:
        if not copies_codes(node):
            continue
        source = graph.tensors[node.inputs[0]]
        for place in node.outputs:
            target = graph.tensors[place]
            known = source.name in reals and target.name in reals
            if known and _meaning(held[source.name]) != _meaning(held[target.name]):
                _read_with_scale(names, reals[source.name], reals[target.name], target)


def _read_with_scale(names: Names, source: ir.Value, target: ir.Value, tensor: Tensor) -> None:
    """``target`` is computed of the codes behind ``source`` in the scale of ``tensor``."""
    dequantize, quantize = source.producer(), _maker(target)
    assert dequantize is not None and quantize is not None
    mover = quantize.producer()
    assert mover is not None
    if len(mover.outputs) > 1:
        mover = _for_one_output(names, mover, quantize)
    while mover.inputs[0] is not source:
        before = None if mover.inputs[0] is None else mover.inputs[0].producer()
        if before is None:
            return
        mover = before
    node = ir.node("DequantizeLinear", [dequantize.inputs[0], *_parameters(names, tensor)])
    node.name, real = names.node(f"{tensor.name}/copied"), node.outputs[0]
    real.name, real.shape, real.type = names.value(f"{tensor.name}/copied"), source.shape, source.type
    names.graph.insert_after(dequantize, node)
    mover.replace_input_with(0, real)


def _maker(real: ir.Value) -> ir.Value | None:
    """The float value whose codes ``real`` is read from."""
    codes = None if real.producer() is None else real.producer().inputs[0]  # type: ignore[union-attr]
    quantize = None if codes is None else codes.producer()
    return None if quantize is None else quantize.inputs[0]


def _for_one_output(names: Names, node: ir.Node, value: ir.Value) -> ir.Node:
    """A node like ``node`` that computes ``value`` alone of all its outputs that are read."""
    twin = ir.node(
        node.op_type, list(node.inputs), attributes=dict(node.attributes), num_outputs=len(node.outputs)
    )
    twin.name, title = names.node(f"{node.name}/{value.name}"), value.name or ""
    for own, other in zip(twin.outputs, node.outputs, strict=True):
        own.name = names.value(f"{other.name}/unread")
        own.shape, own.type = other.shape, other.type
    own = twin.outputs[list(node.outputs).index(value)]
    value.name, own.name = own.name, title
    _read_instead(value, own)
    names.graph.insert_after(node, twin)
    return twin


def _parameters(names: Names, tensor: Tensor) -> list[ir.Value]:
    """Scale and zero point: one number, or one per index of axis 0."""
    meaning = tensor.quantization
    assert meaning is not None
    shape = () if meaning.scales.size == 1 else meaning.scales.shape
    scale = names.constant(f"{tensor.name}/scale", meaning.scales.reshape(shape))
    point = meaning.zero_points.reshape(shape).astype(tensor.dtype)
    return [scale, names.constant(f"{tensor.name}/zero_point", point)]


def _read_instead(value: ir.Value, other: ir.Value) -> None:
    for reader, index in list(value.uses()):
        reader.replace_input_with(index, other)


@dataclass(frozen=True)
class _TappedSession(Session):
    """A session of a program that takes real numbers and gives codes by the names of the QDQ graph.

    Attributes:
        fed: input → what its codes mean.
        codes: name of codes in the QDQ graph → tensor.
        reals: name of an output of the QDQ graph → tensor, and what its codes mean.
    """

    fed: Mapping[str, QParams] = field(default_factory=dict)
    codes: Mapping[str, str] = field(default_factory=dict)
    reals: Mapping[str, tuple[str, QParams]] = field(default_factory=dict)

    def run(self, feeds: Arrays, outputs: Sequence[str] | None = None) -> list[Array]:
        given = {name: to_codes(array, self.fed[name], INT8) for name, array in feeds.items()}
        wanted = [spec.name for spec in self.outputs] if outputs is None else list(outputs)
        asked = sorted({self.codes[one] if one in self.codes else self.reals[one][0] for one in wanted})
        found = dict(zip(asked, self.handle.run(asked, given), strict=True))
        return [self._told(one, found) for one in wanted]

    def _told(self, name: str, found: Mapping[str, Array]) -> Array:
        if name in self.codes:
            return found[self.codes[name]]
        tensor, meaning = self.reals[name]
        return to_real(found[tensor], meaning)


def tapped_session(
    graph: Graph, model: ir.Model, taps: Iterable[str], runtime: str, settings: Settings
) -> Session:
    """The model in a runtime of calib8, its outputs those of ``model`` and the codes that are tapped.

    Args:
        graph: what ``named_graph`` gave.
        model: its QDQ graph, as ``qdq_graph`` made it, or a copy.
        taps: names of codes in it.
        runtime: ``calib8`` or ``reference``.
        settings: how it runs.

    Raises:
        Calib8Error: see ``InferenceSession``.
    """
    quantizers = {node.outputs[0].name or "": node for node in model.graph if quantizes(node)}
    codes = {name: _read_by(quantizers[name]) for name in taps}
    meant = {one.name: _meaning(one) for one in graph.tensors if one.role != "const" and is_codes(one)}
    ports = zip(model.graph.outputs, graph.output_tensors(), strict=True)
    reals = {value.name or "": graph.tensors[place].name for value, place in ports}
    program = lower_tmfile(_giving(graph, {*codes.values(), *reals.values()}), graph.name or "model")
    opened = InferenceSession(
        program, runtime=runtime, profile=settings.profile, integer_only=settings.integer_only,
        threads=settings.threads or None,
    )  # fmt: skip
    of = {spec.name: spec for spec in opened.outputs}
    specs = [replace(of[tensor], name=name, dtype=np.dtype(np.float32)) for name, tensor in reals.items()]
    specs += [replace(of[tensor], name=name) for name, tensor in codes.items()]
    inputs = tuple(TensorSpec(one.name, np.dtype(np.float32), one.shape) for one in opened.inputs)
    return _TappedSession(
        opened.name, inputs, tuple(specs), opened, f"{runtime}/{opened.rounding}",
        {one.name: meant[one.name] for one in inputs}, codes,
        {name: (tensor, meant[tensor]) for name, tensor in reals.items()},
    )  # fmt: skip


def _read_by(node: ir.Node) -> str:
    """Name of what a node reads first."""
    first = node.inputs[0]
    return "" if first is None else first.name or ""


def _giving(graph: Graph, tensors: set[str]) -> Graph:
    """The graph whose outputs are the nodes that give these tensors."""
    outputs = tuple(
        number
        for number, node in enumerate(graph.nodes)
        if any(graph.tensors[place].name in tensors for place in node.outputs)
    )
    return replace(graph, outputs=outputs)


def _meaning(tensor: Tensor) -> QParams:
    assert tensor.quantization is not None
    return QParams(float(tensor.quantization.scales[0]), int(tensor.quantization.zero_points[0]))
