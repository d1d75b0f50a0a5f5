"""Runtimes in a process of their own: some of their kernels end the process that runs them.

Messages are pickled. Both ways one after the other, until the input of the process ends:

    → (what opens the model, its arguments)   ← (None, 0), or the error
    → (name of a method, its arguments)       ← (what it gave, seconds that it took), or the error
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

import numpy.typing as npt

from calib8.errors import Calib8Error, CrashError
from calib8.parameters import parameter

Array = npt.NDArray[Any]

COMMAND: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from calib8.analysis.foreign_process import serve; serve()"
)
"""What the process runs, given the places from which this one imports."""

TOLD: Final = (Calib8Error, MemoryError)
"""What is raised again where it was asked for; anything else ends the process."""


class ForeignProcess:
    """A model that is open in another process, behind the ``run`` of an ONNX Runtime session.

    A crash there is an error here. For one thread at a time.

    Attributes:
        seconds: that the last method took in the process, without the way there and back.
    """

    def __init__(
        self, name: str, title: str, runtime: str, opens: Callable[..., object], arguments: Sequence[object]
    ) -> None:
        """Starts the process and opens the model.

        Args:
            name: of the model, for messages.
            title: of what runs it, for messages, such as ``LiteRT``.
            runtime: its name on the command line.
            opens: a class or function of a module: called there, it gives what has the methods.
            arguments: that it takes.

        Raises:
            Calib8Error: what ``opens`` raises.
            CrashError: it crashes on the model.
        """
        self._name, self._title, self._runtime = name, title, runtime
        self.seconds = 0.0
        command = [sys.executable, "-c", COMMAND, json.dumps([str(place) for place in sys.path])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._end = weakref.finalize(self, _end, self._process)
        self._exchange((opens, tuple(arguments)), "loads")

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """Outputs (all, or those named) for the arrays fed by input name.

        Raises:
            DataError: names, types or shapes do not fit.
            CrashError: the process ended.
        """
        answer: list[Array] = self.ask("run", outputs, dict(feeds))
        return answer

    def ask(self, method: str, *arguments: object) -> Any:
        """What a method of the open model gives.

        Raises:
            Calib8Error: what it raises.
            CrashError: the process ended.
        """
        return self._exchange((method, arguments), "runs")

    def close(self) -> None:
        """Ends the process."""
        self._end()

    def _exchange(self, message: object, doing: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            _send(self._process.stdin, message)
            answer = pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:  # it, or its pipe, is closed
            ended = _ending(self._process.wait())
            self.close()
            problem = f"{self._title} crashes when it {doing} it ({self._runtime}, {ended})"
            raise CrashError(self._name, problem, f"Use another {parameter('runtime')}") from error
        if isinstance(answer, TOLD):
            raise answer
        result, self.seconds = answer
        return result


def serve() -> None:
    """What the process does: opens the model that it is told, then calls what it is asked for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asks is interrupted too, and ends this process
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the runtime prints is no answer
    with suppress(EOFError):
        try:
            opens, arguments = pickle.load(questions)
            model = opens(*arguments)
        except TOLD as error:
            return _send(answers, error)
        _send(answers, (None, 0.0))
        while True:
            method, arguments = pickle.load(questions)
            start = time.perf_counter()
            try:
                result = getattr(model, method)(*arguments)
                answer: object = (result, time.perf_counter() - start)
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
