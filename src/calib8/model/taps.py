"""The same graph with inner tensors as outputs, to be looked at while the model runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.errors import ModelError
from calib8.model.runtime import Arrays, open_session


def tapped_model(model: ir.Model, tensors: Iterable[str]) -> ir.Model:
    """A copy of ``model`` whose outputs are the named computed tensors, in that order.

    Raises:
        ModelError: the graph computes no such tensor.
    """
    copy = model.clone()
    values = {value.name: value for node in copy.graph for value in node.outputs}
    copy.graph.outputs.clear()
    for name in tensors:
        if name not in values:
            raise ModelError(
                name, "the graph computes no such tensor", "Name a tensor that `calib8 inspect` lists"
            )
        copy.graph.outputs.append(values[name])
    return copy


class Taps:
    """Named tensors of a model, inputs of the graph among them, and what they hold in a run."""

    def __init__(self, model: ir.Model, tensors: Iterable[str], threads: int) -> None:
        """Opens the model as far as the tensors need it; ``model`` is not changed.

        Raises:
            ModelError: there is no such tensor, or ONNX Runtime cannot load the model.
        """
        fed = {value.name for value in model.graph.inputs}
        self._names = list(dict.fromkeys(name for name in tensors if name not in fed))
        self._session = None
        if self._names:
            tapped = tapped_model(model, self._names)
            ir_passes.RemoveUnusedNodesPass()(tapped)
            self._session = open_session(tapped, threads=threads)

    def values(self, feeds: Arrays) -> Mapping[str, npt.NDArray[np.generic]]:
        """The tensors of one run, and what was fed.

        Raises:
            DataError: ONNX Runtime refuses it.
        """
        if self._session is None:
            return feeds
        return {**feeds, **dict(zip(self._names, self._session.run(feeds), strict=True))}
