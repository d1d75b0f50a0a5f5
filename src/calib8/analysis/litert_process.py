"""LiteRT in a process of its own: some of its kernels end the process that runs them.

Messages are pickled. Both ways one after the other, until the input of the process ends:

    → arguments of LiteRtModel      ← None, or the error
    → (names of outputs, feeds)     ← arrays, or the error
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

import numpy.typing as npt

from calib8.analysis.litert import LiteRtModel, check_installed
from calib8.errors import Calib8Error, ModelError

Array = npt.NDArray[Any]

COMMAND: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from calib8.analysis.litert_process import serve; serve()"
)
"""What the process runs, given the places from which this one imports."""

TOLD: Final = (Calib8Error, MemoryError)
"""What is raised again where it was asked for; anything else ends the process."""


class LiteRtProcess:
    """A model in LiteRT behind the ``run`` of an ONNX Runtime session; a crash is an error.

    For one thread at a time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        runtime: str,
        threads: int,
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> None:
        """Starts the process and opens the model, with the arguments of ``LiteRtModel``.

        Raises:
            UsageError: LiteRT is not installed.
            ModelError: it cannot load the model, or crashes on it.
        """
        check_installed(runtime)
        self._name, self._runtime = os.fspath(path), runtime
        command = [sys.executable, "-c", COMMAND, json.dumps([str(place) for place in sys.path])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._end = weakref.finalize(self, _end, self._process)
        self._ask((self._name, runtime, threads, tuple(inputs), tuple(outputs)), "loads")

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """Outputs (all, or those named) for the arrays fed by input name.

        Raises:
            DataError: names, types or shapes do not fit.
            ModelError: LiteRT crashed.
        """
        answer: list[Array] = self._ask((outputs, dict(feeds)), "runs")
        return answer

    def close(self) -> None:
        """Ends the process."""
        self._end()

    def _ask(self, message: object, doing: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            _send(self._process.stdin, message)
            answer = pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:  # it, or its pipe, is closed
            ended = _ending(self._process.wait())
            self.close()
            problem = f"LiteRT crashes when it {doing} it ({self._runtime}, {ended})"
            raise ModelError(self._name, problem, "Use another --runtime") from error
        if isinstance(answer, TOLD):
            raise answer
        return answer


def serve() -> None:
    """What the process does: opens the model that it is told, then runs it as often as it is asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asks is interrupted too, and ends this process
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LiteRT prints is no answer
    with suppress(EOFError):
        try:
            model = LiteRtModel(*pickle.load(questions))
        except TOLD as error:
            return _send(answers, error)
        _send(answers, None)
        while True:
            outputs, feeds = pickle.load(questions)
            try:
                answer: object = model.run(outputs, feeds)
            except TOLD as error:
                answer = error
            _send(answers, answer)


def _send(stream: IO[bytes], message: object) -> None:
    pickle.dump(message, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _ending(status: int) -> str:
    """``SIGABRT``, or the exit status of a process that no signal ended."""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"status {status}"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with suppress(OSError):  # what it did not read
            stream.close()
