"""Runs a plan in the native core: arrays in, arrays out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8 import _core
from calib8.engine.buffers import ARENA, FIRST_PORT
from calib8.engine.plan import FloatCall, Plan, Stored, tensor_bytes
from calib8.errors import DataError, UsageError
from calib8.tensors import length_error

Array: TypeAlias = npt.NDArray[Any]
FloatRunner = Callable[[FloatCall, Sequence[Array]], Sequence[Array]]
"""Runs the sub-model of a call on its inputs."""

ISAS: Final = ("amx", "avx512vnni", "avxvnni", "avx2", "neoni8mm", "neondot", "neon", "reference")
"""All instruction sets that there are kernels for."""


def available_isas() -> list[str]:
    """Instruction sets that this machine can run, fastest first; the last is always ``reference``."""
    return list(_core.engine.available_isas())


def default_isa() -> str:
    """The fastest of them, or what the environment variable CALIB8_ISA names.

    Raises:
        UsageError: it names something unknown or not available here.
    """
    try:
        return str(_core.engine.isa())
    except ValueError as error:
        named = os.environ.get("CALIB8_ISA")
        cure = "Leave the variable out, or name one of those"
        raise UsageError(f"CALIB8_ISA={named}", str(error), cure) from error


class Engine:
    """A plan made ready on this machine.

    Attributes:
        plan: what runs.
        isa: instruction set of its kernels.
        threads: that share each step.
        scratch_bytes: memory that each of them needs beside the arena.
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
        """Decodes the steps and chooses their kernels.

        Args:
            plan: what runs; its constants are kept alive.
            threads: 1 … 256.
            isa: None: what CALIB8_ISA names, else the fastest of this machine.
            pin: keep the pool's threads on one processor each.
            float_runner: needed by plans with Float calls.

        Raises:
            ValueError: the plan contradicts itself, or threads or isa do not exist here.
        """
        self.plan = plan
        self._native = _core.engine.Engine(
            list(plan.rows),
            plan.constants,
            plan.arena_bytes,
            plan.port_bytes,
            len(plan.inputs),
            isa,
            threads,
            pin,
        )
        self._float_runner = float_runner
        self._results = [(port.shape, np.dtype(port.dtype)) for port in plan.outputs]
        self.isa: str = self._native.isa
        self.threads: int = self._native.threads
        self.scratch_bytes: int = self._native.scratch_bytes

    def check_outputs(self) -> None:
        """Looks whether outputs are filled: what nobody writes would hold what was in the memory before.

        Raises:
            ValueError: neither the steps nor the Float calls of the plan write all of an output.
        """
        plan = self.plan
        called = {stored.buffer for call in plan.floats for _, stored in call.outputs}  # whole ports
        filled = self._native.filled[len(plan.inputs) :]
        for number, (port, whole) in enumerate(zip(plan.outputs, filled, strict=True)):
            if not whole and FIRST_PORT + len(plan.inputs) + number not in called:
                raise ValueError(f"the plan is broken: no step fills the output {port.name}")

    @property
    def contexts(self) -> int:
        """Runs that have been under way at the same time: each has an arena, which is kept for later ones."""
        return int(self._native.contexts)

    def run(
        self,
        feeds: Mapping[str, Array],
        nanoseconds: npt.NDArray[np.int64] | None = None,
        float_nanoseconds: npt.NDArray[np.int64] | None = None,
    ) -> list[Array]:
        """Outputs in the order of the plan's ports.

        Args:
            feeds: an array per input, of its shape and dtype.
            nanoseconds: [steps]; the time of every step is added to it.
            float_nanoseconds: [Float calls]; the time of every call is added to it.

        Raises:
            DataError: a length of a sequence that is longer than the sequence.
        """
        results = [np.empty(shape, dtype) for shape, dtype in self._results]
        self.run_into(feeds, results, nanoseconds, float_nanoseconds)
        return results

    def run_into(
        self,
        feeds: Mapping[str, Array],
        results: Sequence[Array],
        nanoseconds: npt.NDArray[np.int64] | None = None,
        float_nanoseconds: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Writes the outputs into the caller's arrays, C-contiguous and of the ports' shapes and dtypes.

        Raises:
            DataError: as ``run``.
        """
        try:
            self._run_into(feeds, results, nanoseconds, float_nanoseconds)
        except _core.engine.LengthError as fault:
            raise self._told(fault) from None

    def _run_into(
        self,
        feeds: Mapping[str, Array],
        results: Sequence[Array],
        nanoseconds: npt.NDArray[np.int64] | None,
        float_nanoseconds: npt.NDArray[np.int64] | None,
    ) -> None:
        inputs = [_in_one_piece(feeds[port.name]) for port in self.plan.inputs]
        outputs = list(results)
        if nanoseconds is None and not self.plan.floats:
            self._native.run_all(inputs, outputs)
            return
        context = _core.engine.Context(self._native)
        done = 0
        for number, call in enumerate(self.plan.floats):
            self._native.run(context, done, call.before, inputs, outputs, nanoseconds)
            done = call.before
            start = time.perf_counter_ns()
            self._call(call, context, [*inputs, *outputs])
            if float_nanoseconds is not None:
                float_nanoseconds[number] += time.perf_counter_ns() - start
        self._native.run(context, done, len(self.plan.rows), inputs, outputs, nanoseconds)

    def bound(self, feeds: Mapping[str, Array], results: Sequence[Array]) -> Callable[[], None] | None:
        """A run with these very arrays, C-contiguous and as the ports are, which are looked at once.

        It has memory of its own, and raises ValueError while another thread runs it. None for plans with
        Float calls.
        """
        if self.plan.floats:
            return None
        inputs = [feeds[port.name] for port in self.plan.inputs]
        native: Callable[[], None] = _core.engine.Bound(self._native, inputs, list(results)).run
        if not self._reads_lengths:
            return native

        def run() -> None:
            try:
                native()
            except _core.engine.LengthError as fault:
                raise self._told(fault) from None

        return run

    @property
    def _reads_lengths(self) -> bool:
        """Whether a recurrent layer may read lengths of sequences, so that a run may fail."""
        return any(row.opcode == "recurrent" for row in self.plan.rows)

    def _told(self, fault: Exception) -> DataError:
        """A fault of the core as an error."""
        step, buffer, *numbers = fault.args
        ports = self.plan.inputs
        place = buffer - FIRST_PORT
        source = ports[place].name if 0 <= place < len(ports) else ""
        return length_error(self.plan.step_names[step], source, *numbers)

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


def _in_one_piece(array: Array) -> Array:
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else array.copy(order="C")


def _tensor(part: Stored, arena: Array | None, ports: Sequence[Array]) -> Array:
    """The tensor's memory."""
    if part.buffer >= FIRST_PORT:
        return ports[part.buffer - FIRST_PORT].reshape(part.shape)
    assert arena is not None
    size = tensor_bytes(part.shape, part.dtype)
    return arena[part.offset : part.offset + size].view(part.dtype).reshape(part.shape)


def _raw(stored: Array, shift: int) -> Array:
    return stored if shift == 0 else (stored.view(np.uint8) ^ np.uint8(shift)).view(np.int8)


def _stored(raw: Array, shift: int) -> Array:
    return raw if shift == 0 else (raw.view(np.uint8) ^ np.uint8(shift)).view(np.int8)
