"""Float calls of a plan: sub-models that ONNX Runtime runs, each opened once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calib8.engine.plan import FloatCall
from calib8.forks import ForkLock, fork_count, whole_imports

if TYPE_CHECKING:
    from calib8.model.runtime import Session


class FloatSessions:
    """Runs the calls of one plan; may be used from several threads.

    A forked child opens them anew: ONNX Runtime's threads stayed with the parent, and so may its locks.
    """

    def __init__(self, threads: int) -> None:
        """Opens nothing yet.

        Args:
            threads: of ONNX Runtime.
        """
        self._threads = threads
        self._lock = ForkLock()
        self._sessions: dict[FloatCall, Session] = {}
        self._forks = fork_count()

    def __call__(self, call: FloatCall, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Results of the sub-model, in the order of the call's outputs.

        Raises:
            ModelError: ONNX Runtime cannot load the sub-model.
            DataError: it refuses the inputs.
        """
        with self._lock:
            if self._forks != fork_count():
                self._forks = fork_count()
                self._sessions = {}
            session = self._sessions.get(call)
            if session is None:
                session = self._sessions[call] = _opened(call, self._threads)
        feeds = {
            spec.name: np.asarray(array, order="C")
            for spec, array in zip(session.inputs, inputs, strict=True)
        }
        return session.run(feeds)


def _opened(call: FloatCall, threads: int) -> Session:
    # most plans have no float part, and open faster without
    with whole_imports():
        from calib8.model.runtime import open_session

    return open_session(call.model, threads=threads, name=call.name, configure=_configured)


def _configured(options: Any) -> None:
    """Nodes with codes stay what they are, and threads sleep between the calls.

    Each session has threads of its own, and between its calls the engine's want the processors.

    One pool for all sessions would have to be there before the first of the process, and cannot be made anew
    in a forked child.
    """
    from calib8.model.runtime import keep_quantizers

    keep_quantizers(options)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
