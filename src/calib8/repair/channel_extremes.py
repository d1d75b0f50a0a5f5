"""The smallest and largest value of every channel of chosen tensors, from one pass.

t [N, C, …] ─► ReduceMin, ReduceMax over all axes but the channels' ─► [C] ─► hull over the runs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import DataError
from calib8.model.graph import Names, opset_version
from calib8.model.runtime import open_session
from calib8.progress import SampleCounter
from calib8.repair.candidate import RepairData
from calib8.repair.refit import calibration_samples


@dataclass(frozen=True)
class ChannelExtremes:
    """Of one tensor.

    Attributes:
        minimum, maximum: float64 [channels].
    """

    minimum: npt.NDArray[np.float64]
    maximum: npt.NDArray[np.float64]

    @property
    def dead(self) -> int:
        """Number of channels that are zero throughout."""
        return int(np.sum((self.minimum == 0.0) & (self.maximum == 0.0)))


def channel_extremes(
    model: ir.Model, tensors: Mapping[str, int], data: RepairData, *, every_sample: bool = False
) -> dict[str, ChannelExtremes]:
    """Extremes of the channels of computed float32 tensors.

    Args:
        model: a prepared float graph, not changed.
        tensors: name → number of axes; axis 1 holds the channels.
        data: what to run.
        every_sample: look at all calibration samples, one by one, and not only at the runs that repair.

    Raises:
        DataError: there is no run, ONNX Runtime refuses one, or the samples cannot be read again.
        ModelError: ONNX Runtime cannot load the model.
    """
    if not tensors:
        return {}
    if not data.runs:
        raise DataError("repair", "there is no sample to look at", "Give at least one image or array")
    session = open_session(_reduced(model, tensors), threads=data.threads, name="extremes of channels")
    looked_at = data if every_sample else replace(data, dataset=None)
    total = len(data.runs) if looked_at.dataset is None else looked_at.dataset.count
    counter = SampleCounter("looking at channels", total, data.progress)
    lows: list[npt.NDArray[np.float32]] = []
    highs: list[npt.NDArray[np.float32]] = []
    with calibration_samples(looked_at, 1) as samples:
        for feeds in samples:
            found = session.run(feeds)
            new_lows, new_highs = found[: len(tensors)], found[len(tensors) :]
            lows = [np.minimum(a, b) for a, b in zip(lows or new_lows, new_lows, strict=True)]
            highs = [np.maximum(a, b) for a, b in zip(highs or new_highs, new_highs, strict=True)]
            counter(1)
    return {
        name: ChannelExtremes(low.astype(np.float64), high.astype(np.float64))
        for name, low, high in zip(tensors, lows, highs, strict=True)
    }


def _reduced(model: ir.Model, tensors: Mapping[str, int]) -> ir.Model:
    """A copy whose outputs are the minima, then the maxima, of every tensor."""
    copy = model.clone()
    values = {value.name: value for node in copy.graph for value in node.outputs}
    names = Names(copy.graph)
    copy.graph.outputs.clear()
    for op in ("ReduceMin", "ReduceMax"):
        for name, rank in tensors.items():
            axes = [axis for axis in range(rank) if axis != 1]
            inputs = [values[name]]
            attributes: dict[str, int | list[int]] = {"keepdims": 0}
            if opset_version(copy) < 18:
                attributes["axes"] = axes
            else:
                inputs.append(names.constant("calib8/axes", np.array(axes, np.int64)))
            node = ir.node(op, inputs, attributes, name=names.node(f"calib8/{op}"))
            result = node.outputs[0]
            result.name = names.value(f"calib8/{op}/{name}")
            result.type, result.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([None])
            copy.graph.append(node)
            copy.graph.outputs.append(result)
    return copy
