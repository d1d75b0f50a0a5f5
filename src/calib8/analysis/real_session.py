"""A session that takes and gives real numbers where its model takes and gives codes.

code = clip(round(x / scale) + zero_point)        ties away from zero, as TFLite's QUANTIZE
real = scale · (code − zero_point)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.model.runtime import Arrays, Session
from calib8.qparams import QParams, round_half_away
from calib8.tensors import TensorSpec

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class RealSession(Session):
    """A Session whose handle may have ports of codes.

    Attributes:
        codes: name of an input or output of codes → what they mean.
        types: name of such an input → type of its codes.
    """

    codes: Mapping[str, QParams] = field(default_factory=dict)
    types: Mapping[str, np.dtype[np.integer[Any]]] = field(default_factory=dict)

    def run(self, feeds: Arrays, outputs: Sequence[str] | None = None) -> list[Array]:
        """Outputs (all, or those named), real numbers where the model gives codes.

        Raises:
            DataError: names, types or shapes do not fit.
        """
        given = {name: self._fed(name, array) for name, array in feeds.items()}
        names = [spec.name for spec in self.outputs] if outputs is None else list(outputs)
        results = self.handle.run(names, given)
        return [self._told(name, array) for name, array in zip(names, results, strict=True)]

    def _fed(self, name: str, array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        if name not in self.types:
            return array
        return to_codes(array, self.codes[name], self.types[name])

    def _told(self, name: str, array: Array) -> Array:
        return to_real(array, self.codes[name]) if name in self.codes else array


def real_session(
    name: str,
    ports: tuple[Sequence[TensorSpec], Sequence[TensorSpec]],
    handle: Any,
    runtime: str,
    codes: Mapping[str, QParams],
) -> RealSession:
    """A session with float32 ports in place of codes.

    Args:
        name: of the model, for messages.
        ports: inputs and outputs as the model has them.
        handle: has ``run`` as an ONNX Runtime session.
        runtime: name of what runs.
        codes: of the ports that hold some.
    """
    inputs, outputs = (tuple(_real(spec, codes) for spec in specs) for specs in ports)
    types = {spec.name: np.dtype(spec.dtype.name) for spec in ports[0] if spec.name in codes}
    return RealSession(name, inputs, outputs, handle, runtime, codes, types)


def to_codes(
    values: npt.NDArray[np.generic], meaning: QParams, dtype: np.dtype[np.integer[Any]]
) -> npt.NDArray[np.generic]:
    """Codes of real numbers, of any shape; NaN becomes the lowest code."""
    limits = np.iinfo(dtype)
    with np.errstate(over="ignore"):  # an infinite quotient saturates
        ratio = values.astype(np.float32) / np.float32(meaning.scale)
    low, high = limits.min - meaning.zero_point, limits.max - meaning.zero_point
    steps = np.clip(np.where(np.isnan(ratio), -np.inf, ratio), low, high).astype(np.float64)
    return (round_half_away(steps) + meaning.zero_point).astype(dtype)


def to_real(codes: Array, meaning: QParams) -> npt.NDArray[np.float32]:
    """float32 values of codes."""
    steps = codes.astype(np.int64) - meaning.zero_point
    return steps.astype(np.float32) * np.float32(meaning.scale)


def _real(spec: TensorSpec, codes: Mapping[str, QParams]) -> TensorSpec:
    return replace(spec, dtype=np.dtype(np.float32)) if spec.name in codes else spec
