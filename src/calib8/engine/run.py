"""Runs a plan in the native core: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8 import _core
from calib8.engine.fields import ARENA, FIRST_PORT
from calib8.engine.plan import FloatCall, Plan, Stored

Array: TypeAlias = npt.NDArray[Any]
FloatRunner = Callable[[FloatCall, Sequence[Array]], Sequence[Array]]
"""Runs the sub-model of a call on its inputs."""


class Engine:
    """A plan made ready on this machine.

    Attributes:
        plan: what runs.
        isa: instruction set of its kernels.
        threads: that share each step.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        threads: int = 1,
        isa: str | None = None,
        pin: bool = False,
        float_runner: FloatRunner | None = None,
    ) -> None:
        self.plan = plan
        sizes = [_bytes(port.shape, port.dtype) for port in (*plan.inputs, *plan.outputs)]
        self._native = _core.engine.Engine(
            list(plan.rows), plan.constants, plan.arena_bytes, plan.scratch_bytes, sizes, isa, threads, pin
        )
        self._float_runner = float_runner
        self.isa: str = self._native.isa
        self.threads: int = self._native.threads

    @property
    def contexts(self) -> int:
        """Runs that have been under way at the same time: each has an arena, which is kept for later ones."""
        return int(self._native.contexts)

    def run(
        self, feeds: Mapping[str, Array], nanoseconds: npt.NDArray[np.int64] | None = None
    ) -> list[Array]:
        """Outputs in the order of the plan's ports.

        Args:
            feeds: a C-contiguous array per input, of its shape and dtype.
            nanoseconds: [steps]; the time of every step is added to it.
        """
        results = [np.empty(port.shape, port.dtype) for port in self.plan.outputs]
        self.run_into(feeds, results, nanoseconds)
        return results

    def run_into(
        self,
        feeds: Mapping[str, Array],
        results: Sequence[Array],
        nanoseconds: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Writes the outputs into the caller's arrays, C-contiguous and of the ports' shapes and dtypes."""
        inputs = [np.ascontiguousarray(feeds[port.name]) for port in self.plan.inputs]
        outputs = list(results)
        context = _core.engine.Context(self._native)
        done = 0
        for call in self.plan.floats:
            self._native.run(context, done, call.before, inputs, outputs, nanoseconds)
            done = call.before
            self._call(call, context, [*inputs, *outputs])
        self._native.run(context, done, len(self.plan.rows), inputs, outputs, nanoseconds)

    def _call(self, call: FloatCall, context: Any, ports: Sequence[Array]) -> None:
        assert self._float_runner is not None
        arena = (
            context.arena()
            if any(part.buffer == ARENA for _, part in (*call.inputs, *call.outputs))
            else None
        )
        values = [_raw(_tensor(part, arena, ports), part.shift) for _, part in call.inputs]
        for (_, part), value in zip(call.outputs, self._float_runner(call, values), strict=True):
            _tensor(part, arena, ports)[...] = _stored(value, part.shift)


def _bytes(shape: Sequence[int], dtype: str) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


def _tensor(part: Stored, arena: Array | None, ports: Sequence[Array]) -> Array:
    """The tensor's memory."""
    if part.buffer >= FIRST_PORT:
        return ports[part.buffer - FIRST_PORT].reshape(part.shape)
    assert arena is not None
    size = _bytes(part.shape, part.dtype)
    return arena[part.offset : part.offset + size].view(part.dtype).reshape(part.shape)


def _raw(stored: Array, shift: int) -> Array:
    return stored if shift == 0 else (stored.view(np.uint8) ^ np.uint8(shift)).view(np.int8)


def _stored(raw: Array, shift: int) -> Array:
    return raw if shift == 0 else (raw.view(np.uint8) ^ np.uint8(shift)).view(np.int8)
