"""What a plan must be before the native core gets it, whoever made it: from a file, or changed in Python.

``csrc/plan`` asks the same of the file that it reads for the C library, but for axes of samples: these are
for who reads data.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import numpy as np

from calib8 import _core
from calib8.engine.buffers import ARENA, FIRST_PORT
from calib8.engine.plan import FloatCall, Plan, PlanPort, tensor_bytes
from calib8.engine.run import ISAS
from calib8.errors import ModelError
from calib8.profiles import ALL_PROFILES
from calib8.qparams import FLOAT32_MAX
from calib8.tensors import MOST_ELEMENTS, UNTOLD

ALIGNMENT: Final = 64
MOST_BYTES: Final = 1 << 40
"""Of an arena or of weights; more is a mistake."""

DTYPES: Final = (
    *("bool", "float16", "float32", "float64", "int8", "int16"),
    *("int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
"""What the inputs and outputs of programs hold."""

SCALED: Final = {
    "uint8": (0, 255),
    "int8": (-128, 127),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (0, 0),
}
"""Types of codes and sums, which have scales, and the zero points that they may have."""

WRITE_AGAIN: Final = "Compile it again from the model"


def check_plan(plan: Plan, name: str) -> None:
    """Looks at a plan that somebody made or changed as at one from a file.

    Raises:
        ModelError: it contradicts itself; ``name`` is what to call it.
    """
    try:
        check_whole(plan)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        what = " ".join(str(error).split())
        raise ModelError(name, f"is not a plan that can run ({what:.80})", WRITE_AGAIN) from error


def check_whole(plan: Plan) -> None:
    """Raises ValueError where lengths differ, sizes are beyond all plans, or steps are not of this core."""
    lengths = len(plan.rows), len(plan.step_names), len(plan.step_macs)
    if len(set(lengths)) > 1:
        raise ValueError("{} steps with {} names and {} numbers of products".format(*lengths))
    if plan.profile not in ALL_PROFILES:
        raise ValueError(f"profile {plan.profile!r}")
    for size in (plan.arena_bytes, plan.weight_bytes):
        if not 0 <= size <= MOST_BYTES:
            raise ValueError(f"{size} bytes of memory")
    if plan.constants.size < ALIGNMENT or plan.constants[-ALIGNMENT:].any():
        raise ValueError("constants without their end")
    if plan.isa not in ("", *ISAS):
        raise ValueError(f"instruction set {plan.isa!r}")
    for port in (*plan.inputs, *plan.outputs):
        _check_port(port)
    _check_states(plan)
    for first, last in pairwise((0, *(call.before for call in plan.floats), len(plan.rows))):
        if first > last:
            raise ValueError(f"a float call before step {first} and then {last}")
    for call in plan.floats:
        _check_call(call, plan)
    kinds = {opcode: len(names) for opcode, names in _core.engine.schemas().items()}
    for row in plan.rows:
        if kinds.get(row.opcode) != row.fields.size:
            raise ValueError(f"a step {row.opcode!r} of {row.fields.size} numbers")


def _check_port(port: PlanPort) -> None:
    if not (isinstance(port.name, str) and port.name):
        raise ValueError(f"a port named {port.name!r:.60}")
    if not (isinstance(port.dtype, str) and port.dtype in DTYPES):
        raise ValueError(f"type {port.dtype!r:.60} of {port.name}")
    if any(size < 1 for size in port.shape) or math.prod(port.shape) > MOST_ELEMENTS:
        raise ValueError(f"shape {port.shape} of {port.name}")
    if port.counted is not None and not UNTOLD <= port.counted < len(port.shape):
        raise ValueError(f"axis {port.counted} of {port.name}, which has {len(port.shape)}")
    _check_scales(port)


def _check_scales(port: PlanPort) -> None:
    if any(not 0 < scale <= FLOAT32_MAX or float(np.float32(scale)) != scale for scale in port.scales):
        raise ValueError(f"scales {port.scales!s:.40} of {port.name}")
    low, high = SCALED.get(port.dtype, (0, 0)) if port.scales else (0, 0)
    if port.scales and (port.dtype not in SCALED or len(port.scales) not in (1, *port.shape[-1:])):
        raise ValueError(f"{len(port.scales)} scales of {port.name}, {port.dtype}")
    if not low <= port.zero_point <= high:
        raise ValueError(f"zero point {port.zero_point} of {port.name}")


def _check_states(plan: Plan) -> None:
    """Raises ValueError where a state is no input and output of one kind, or begins as none of that kind."""
    inputs, outputs = ({port.name: port for port in ports} for ports in (plan.inputs, plan.outputs))
    for names in (tuple(state.input for state in plan.states), tuple(state.output for state in plan.states)):
        if len(set(names)) < len(names):
            raise ValueError(f"a state twice among {names}")
    for state in plan.states:
        read, written = inputs.get(state.input), outputs.get(state.output)
        if (
            read is None
            or written is None
            or (read.dtype, read.shape)
            != (
                written.dtype,
                written.shape,
            )
        ):
            raise ValueError(f"a state of {state.input!r:.60} and {state.output!r:.60}")
        if state.initial and len(state.initial) != tensor_bytes(read.shape, read.dtype):
            raise ValueError(f"{len(state.initial)} bytes of the state {state.input!r:.60}")
        if not -(1 << 15) <= state.fill < 1 << 15:
            raise ValueError(f"a state that begins as {state.fill}")


def _check_call(call: FloatCall, plan: Plan) -> None:
    """Raises ValueError where a tensor of a call lies neither in the arena nor in a port of its kind."""
    ports = (*plan.inputs, *plan.outputs)
    written = range(FIRST_PORT + len(plan.inputs), FIRST_PORT + len(ports))
    for place, (name, part) in enumerate((*call.inputs, *call.outputs)):
        shifts = (0, 128) if part.dtype in ("int8", "uint8") else (0,)
        if part.dtype not in DTYPES or part.shift not in shifts or any(size < 1 for size in part.shape):
            raise ValueError(f"tensor {name!r} of {call.name}")
        item = np.dtype(part.dtype).itemsize
        size = math.prod(part.shape) * item
        if part.buffer == ARENA:
            fits = part.offset % item == 0 and 0 <= part.offset <= plan.arena_bytes - size
        else:
            known = written if place >= len(call.inputs) else range(FIRST_PORT, written.stop)
            port = ports[part.buffer - FIRST_PORT] if part.buffer in known else None
            fits = port is not None and part.offset == 0 and port.dtype == part.dtype
            fits = fits and port is not None and math.prod(port.shape) * item == size
        if not fits:
            raise ValueError(f"place of {name!r} of {call.name}")
