"""The float model's tensors: which there are, and their values for a batch.

They come from the model itself. What only calib8's passes made (a Pad split off a pool, the partial sums
of a Sum) comes from the prepared model; tensors that both have are equal but for float rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import UnsupportedModelError
from calib8.model.graph import constant
from calib8.model.runtime import Arrays, Session, open_session
from calib8.model.taps import tapped_model
from calib8.passes.prepare import prepare
from calib8.quantization.qdq import ACTIVATIONS, readable_copy
from calib8.scheme import WEIGHTED_OPS


@dataclass(frozen=True)
class FloatReference:
    """A float model in the forms that quantizers start from.

    Attributes:
        forms: the model and, where it can be made, its prepared form.
        tensors: inputs and computed tensors by name, of the first form that has them.
    """

    forms: tuple[ir.Model, ...]
    tensors: dict[str, ir.Value]

    def weight(self, output: str, shape: tuple[int, ...]) -> npt.NDArray[Any] | None:
        """The constant weight of the layer that ``layer`` finds."""
        found = self.layer(output, shape)
        return None if found is None else constant(found.inputs[1])

    def layer(self, output: str, shape: tuple[int, ...]) -> ir.Node | None:
        """The layer that yields ``output`` with a constant weight of this shape, None if no form has one.

        A layer that took over the BatchNormalization behind it yields another tensor than before; so does
        one whose Relu was dropped because the quantizer clips like it.
        """
        for form in self.forms:
            for node in form.graph:
                if output in (value.name for value in node.outputs):
                    layer = _before_activation(node)
                    weight = constant(layer.inputs[1]) if layer.op_type in WEIGHTED_OPS else None
                    if weight is not None and weight.shape == shape:
                        return layer
        return None

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
        return OpenReference(tuple(sessions))


@dataclass(frozen=True)
class OpenReference:
    """Open sessions of the float model, each with the tensors that it gives."""

    sessions: tuple[tuple[Session, tuple[str, ...]], ...]

    def run(self, feeds: Arrays) -> dict[str, npt.NDArray[Any]]:
        """The tensors by name, and what was fed.

        Raises:
            DataError: the batch does not fit the model.
        """
        values: dict[str, npt.NDArray[Any]] = {name: np.asarray(array) for name, array in feeds.items()}
        for session, names in self.sessions:
            values.update(zip(names, session.run(feeds), strict=True))
        return values


def float_reference(model: ir.Model, sample: Arrays) -> FloatReference:
    """The forms of a float model; one that cannot be prepared (control flow, half precision) has one form.

    Args:
        model: the model as loaded: its passes name what they make as they did for the int8 model.
        sample: one array per input, on which the prepared form is checked.

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
    return FloatReference(forms, tensors)


def _before_activation(node: ir.Node) -> ir.Node:
    """What computes the input of a Relu or Clip, any other node itself."""
    source = node.inputs[0] if node.op_type in ACTIVATIONS else None
    producer = None if source is None else source.producer()
    return node if producer is None else producer
