"""Float instructions: sub-models that ONNX Runtime runs, each opened once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from calib8.model.runtime import Session, keep_quantizers, open_session
from calib8.program.instructions import Float
from calib8.program.ops.operand import Operand

_SESSIONS: Final[WeakKeyDictionary[Float, Session]] = WeakKeyDictionary()
"""Sessions of the instructions that are alive: opening one costs far more than running it."""


def run_float(step: Float, operands: Sequence[Operand]) -> list[npt.NDArray[Any]]:
    """Results of the sub-model, in the order of the instruction's outputs.

    Raises:
        ModelError: ONNX Runtime cannot load the sub-model.
        DataError: it refuses the operands.
    """
    session = _SESSIONS.get(step)
    if session is None:
        model = ir.from_proto(onnx.ModelProto.FromString(step.model))
        session = open_session(model, configure=keep_quantizers)
        _SESSIONS[step] = session
    feeds = {
        spec.name: np.asarray(operand.data, order="C")
        for spec, operand in zip(session.inputs, operands, strict=True)
    }
    return session.run(feeds)
