"""The float model's tensors: which there are, and their values for a batch.

They come from the model itself. What only calib8's passes made (a Pad split off a pool, the partial sums
of a Sum) comes from the prepared model; tensors that both have are equal but for float rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.dissection.float_constants import FloatConstants
from calib8.errors import UnsupportedModelError
from calib8.model.graph import constant, input_at, rank
from calib8.model.runtime import Arrays, Session, open_session
from calib8.model.taps import tapped_model
from calib8.ops.groups import CONVOLUTIONS
from calib8.passes.channel_factors import ChannelFactors
from calib8.passes.layer_channels import layer_channels
from calib8.passes.prepare import prepare
from calib8.quantization.qdq import ACTIVATIONS, readable_copy
from calib8.scheme import WEIGHTED_OPS

UNCHANGED: Final = ChannelFactors()


@dataclass(frozen=True)
class FloatReference:
    """A float model in the forms that quantizers start from.

    Attributes:
        forms: the model and, where it can be made, its prepared form.
        tensors: inputs and computed tensors by name, of the first form that has them.
        changes: what the channels of tensors are multiplied by to be those of the int8 model.
    """

    forms: tuple[ir.Model, ...]
    tensors: dict[str, ir.Value]
    changes: ChannelFactors = UNCHANGED

    def constants(self, output: str, shape: tuple[int, ...]) -> FloatConstants | None:
        """Constant weight of this shape, and bias, of the layer that yields ``output``; None without one.

        A layer that took over the BatchNormalization behind it yields another tensor than before; so does
        one whose Relu was dropped because the quantizer clips like it. Channels are scaled like the tensors.

        Raises:
            ModelError: the factors of what it reads or yields are not as many as its channels.
        """
        for form in self.forms:
            for node in form.graph:
                if output in (value.name for value in node.outputs):
                    layer = _before_activation(node)
                    weight = constant(layer.inputs[1]) if layer.op_type in WEIGHTED_OPS else None
                    if weight is not None and weight.shape == shape:
                        return self._scaled(layer, output, weight)
        return None

    def _scaled(self, layer: ir.Node, output: str, weight: npt.NDArray[Any]) -> FloatConstants | None:
        """The constants of a layer, its channels times the factors of what it reads and yields.

        None where the factors of a tensor are along another axis than the layer's channels.
        """
        source, channels = layer.inputs[0], layer_channels(layer)
        name = "" if source is None else source.name or ""
        read, made = self.changes.factors.get(name), self.changes.factors.get(output)
        if channels is None or (read is None and made is None):
            return FloatConstants(weight, constant(input_at(layer, 2)))
        axes = None if source is None or layer.op_type in CONVOLUTIONS else rank(source)
        axis = 1 if axes is None else axes - 1
        if any(self.changes.axis(one) != axis for one in (name, output) if one in self.changes.factors):
            return None
        for one, factors, count in ((name, read, channels.inputs), (output, made, channels.outputs)):
            if factors is not None:
                self.changes.check_channels(one, count)
        scaled = channels.scaled(inputs=None if read is None else 1.0 / read, outputs=made)
        bias = None if scaled.bias is None else scaled.bias.astype(np.float32)
        return FloatConstants(scaled.layout().astype(np.float32), bias)

    def open(self, names: Iterable[str], threads: int) -> OpenReference:
        """Sessions that compute the named tensors."""
        wanted = list(dict.fromkeys(names))
        inputs = {value.name for value in self.forms[0].graph.inputs}
        sessions = []
        for form in self.forms:
            computed = {value.name for node in form.graph for value in node.outputs} - inputs
            taken = [name for name in wanted if name in computed]
            wanted = [name for name in wanted if name not in computed]
            if taken:
                sessions.append((open_session(tapped_model(form, taken), threads=threads), tuple(taken)))
        return OpenReference(tuple(sessions), self.changes)


@dataclass(frozen=True)
class OpenReference:
    """Open sessions of the float model with the tensors that each gives, and factors on their channels."""

    sessions: tuple[tuple[Session, tuple[str, ...]], ...]
    changes: ChannelFactors = UNCHANGED

    def run(self, feeds: Arrays) -> dict[str, npt.NDArray[Any]]:
        """The tensors by name, and what was fed.

        Raises:
            DataError: the batch does not fit the model.
            ModelError: the factors of a tensor are not as many as its channels.
        """
        values: dict[str, npt.NDArray[Any]] = {name: np.asarray(array) for name, array in feeds.items()}
        for session, names in self.sessions:
            values.update(zip(names, session.run(feeds), strict=True))
        for name in self.changes.factors.keys() & values.keys():
            array = values[name]
            values[name] = array * self.changes.shaped(name, array.shape).astype(np.float32)
        return values


def float_reference(model: ir.Model, sample: Arrays, changes: ChannelFactors = UNCHANGED) -> FloatReference:
    """The forms of a float model; one that cannot be prepared (control flow, half precision) has one form.

    Args:
        model: the model as loaded: its passes name what they make as they did for the int8 model.
        sample: one array per input, on which the prepared form is checked.
        changes: what repairs did to the channels of the int8 model; tensors that they changed otherwise are
            no reference.

    Raises:
        ModelError: the prepared form differs from the model.
        DataError: the sample does not fit.
    """
    forms: tuple[ir.Model, ...] = (readable_copy(model),)
    with suppress(UnsupportedModelError):
        forms = (*forms, prepare(model, sample).model)
    tensors: dict[str, ir.Value] = {}
    for form in reversed(forms):
        tensors.update({value.name or "": value for value in form.graph.inputs})
        tensors.update({value.name or "": value for node in form.graph for value in node.outputs})
    kept = {name: value for name, value in tensors.items() if name not in changes.others}
    return FloatReference(forms, kept, changes)


def _before_activation(node: ir.Node) -> ir.Node:
    """What computes the input of a Relu or Clip, any other node itself."""
    source = node.inputs[0] if node.op_type in ACTIVATIONS else None
    producer = None if source is None else source.producer()
    return node if producer is None else producer
