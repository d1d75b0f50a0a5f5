"""The smallest and largest value of every channel of chosen tensors, and its mean square, from one pass.

t [N, C, …] ─► ReduceMin, ReduceMax over all axes but the channels' ─► [C] ─► hull over the runs
t [N, C, …] ─► Mul t ─► ReduceMean                                  ─► [C] ─► mean over the runs
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.data.samples import Dataset
from calib8.data.whole import batched
from calib8.errors import DataError
from calib8.model.carried import Carried
from calib8.model.graph import Names, opset_version
from calib8.model.runtime import open_session
from calib8.repair.candidate import RepairData
from calib8.repair.refit import found_of_data

Extremes = list[npt.NDArray[np.float32]]
_EXTREMES: Final = ("ReduceMin", "ReduceMax")
_SESSION: Final = "extremes of channels"


@dataclass(frozen=True)
class ChannelExtremes:
    """Of one tensor.

    Attributes:
        minimum, maximum: float64 [channels].
        power: mean square, float64 [channels]; None where it was not asked for.
    """

    minimum: npt.NDArray[np.float64]
    maximum: npt.NDArray[np.float64]
    power: npt.NDArray[np.float64] | None = None

    @property
    def dead(self) -> int:
        """Number of channels that are zero throughout."""
        return int(np.sum((self.minimum == 0.0) & (self.maximum == 0.0)))


def channel_extremes(
    model: ir.Model,
    tensors: Mapping[str, int],
    data: RepairData,
    *,
    every_sample: bool = False,
    power: bool = False,
    axis: int = 1,
) -> dict[str, ChannelExtremes]:
    """Extremes of the channels of computed float32 tensors.

    Args:
        model: a prepared float graph, not changed.
        tensors: name → number of axes.
        data: what to run.
        every_sample: look at all calibration samples, one by one, and not only at the runs that repair.
        power: their mean squares too, of the runs that repair.
        axis: of the channels; −1: the last one of each tensor.

    Raises:
        DataError: there is no run, ONNX Runtime refuses one, or the samples cannot be read again.
        ModelError: ONNX Runtime cannot load the model.
    """
    if not tensors:
        return {}
    if not data.runs:
        raise DataError("repair", "there is no sample to look at", "Give at least one image or array")
    looked_at = data if every_sample else replace(data, dataset=None)
    work = ExtremesWork(Carried(_reduced(model, tensors, _EXTREMES, axis)))
    found = found_of_data(work, looked_at, "looking at channels")
    lows, highs = found[: len(tensors)], found[len(tensors) :]
    powers = _powers(model, tensors, data, axis) if power else [None] * len(tensors)
    return {
        name: ChannelExtremes(low.astype(np.float64), high.astype(np.float64), square)
        for name, low, high, square in zip(tensors, lows, highs, powers, strict=True)
    }


@dataclass(frozen=True, eq=False)
class ExtremesWork:
    """The extremes as work on all samples, see ``calib8.data.whole``.

    Attributes:
        model: its outputs are the smallest values of every channel, tensor by tensor, then the largest ones.
    """

    model: Carried

    def over(self, dataset: Dataset, threads: int, seen: Callable[[int], None]) -> Extremes:
        """Those of some samples, one by one."""
        session = open_session(self.model.model, threads=threads, name=_SESSION)
        found: Extremes = []
        with batched(dataset, 1, threads) as pieces:
            for piece in pieces:
                new = session.run(piece.inputs)
                found = self.joined(found or new, new)
                seen(1)
        return found

    def joined(self, first: Extremes, second: Extremes) -> Extremes:
        """Those of both."""
        half = len(first) // 2
        lows = [np.minimum(a, b) for a, b in zip(first[:half], second[:half], strict=True)]
        return lows + [np.maximum(a, b) for a, b in zip(first[half:], second[half:], strict=True)]


def _powers(
    model: ir.Model, tensors: Mapping[str, int], data: RepairData, axis: int
) -> list[npt.NDArray[np.float64] | None]:
    """Mean squares of every tensor's channels over the runs, each a sum in an order that does not matter."""
    session = open_session(
        _reduced(model, tensors, ("ReduceMean",), axis), threads=data.threads, name=_SESSION
    )
    rows = [session.run(feeds) for feeds in data.runs]
    columns = (np.sort(np.array(column, np.float64), axis=0) for column in zip(*rows, strict=True))
    return [np.asarray(column.mean(axis=0)) for column in columns]


def _reduced(model: ir.Model, tensors: Mapping[str, int], ops: Sequence[str], axis: int) -> ir.Model:
    """A copy whose outputs are the results of one op for every tensor, then those of the next."""
    copy = model.clone()
    values = {value.name: value for node in copy.graph for value in node.outputs}
    names = Names(copy.graph)
    copy.graph.outputs.clear()
    for op in ops:
        for name, rank in tensors.items():
            source = values[name]
            if op == "ReduceMean":
                source = _appended(names, "Mul", [source, source])
            axes = [one for one in range(rank) if one != axis % rank]
            copy.graph.outputs.append(_reduction(names, op, source, axes, opset_version(copy) < 18))
    return copy


def _reduction(names: Names, op: str, source: ir.Value, axes: list[int], old: bool) -> ir.Value:
    """Over some axes, which are an attribute in old operator sets."""
    attributes: dict[str, int | list[int]] = {"keepdims": 0}
    inputs = [source]
    if old:
        attributes["axes"] = axes
    else:
        inputs.append(names.constant("calib8/axes", np.array(axes, np.int64)))
    result = _appended(names, op, inputs, attributes)
    result.shape = ir.Shape([None])
    return result


def _appended(
    names: Names,
    op: str,
    inputs: Sequence[ir.Value],
    attributes: Mapping[str, int | list[int]] = MappingProxyType({}),
) -> ir.Value:
    """The output of a new node at the end of the graph."""
    node = ir.node(op, inputs, attributes, name=names.node(f"calib8/{op}"))
    result = node.outputs[0]
    result.name = names.value(f"calib8/{op}/{inputs[0].name}")
    result.type = ir.TensorType(ir.DataType.FLOAT)
    names.graph.append(node)
    return result
