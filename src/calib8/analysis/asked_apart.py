"""Questions about this installation, answered in a process of its own: a broken package may end it.

    → names of questions, on its command line        ← one line of JSON for each, as soon as it is answered

Where the process ends before its time, the first question without an answer was the cause; another process
answers the rest.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, Final

from calib8.errors import Calib8Error
from calib8.parameters import Text

IMPORT: Final = "import "
"""Before the name of a module: can it be imported? The answer is its version, or None."""

ENGINE, COUNTING, PROVIDERS, SATURATES, CACHE = "engine", "counting", "providers", "saturates", "cache"

SECONDS: Final = 300
"""After so many the process is taken to hang."""

_COMMAND: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from calib8.analysis.asked_apart import answer_all; answer_all(sys.argv[2:])"
)
_SIGN: Final = "calib8 answers "
"""Before each line that is an answer: modules print what they want while they are imported."""


@dataclass(frozen=True)
class Answer:
    """What came of a question.

    Attributes:
        value: the answer, None without one.
        problem: why there is none, empty if there is.
    """

    value: Any
    problem: Text


def ask(questions: Sequence[str]) -> dict[str, Answer]:
    """Question → its answer."""
    answers: dict[str, Answer] = {}
    waiting = list(questions)
    while waiting:
        told, end = _asked(waiting)
        answers |= told
        waiting = [question for question in waiting if question not in answers]
        if waiting:
            answers[waiting.pop(0)] = Answer(None, Text(end))
    return answers


def _asked(questions: Sequence[str]) -> tuple[dict[str, Answer], str]:
    """What one process answers, and how it ended."""
    command = [sys.executable, "-c", _COMMAND, json.dumps([str(place) for place in sys.path]), *questions]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return _read(late.stdout or b""), f"does not come to an end in {SECONDS} s"
    except OSError as error:
        return {}, f"Python cannot be started ({error.strerror or error})"
    return _read(done.stdout), _end(done.returncode)


def _end(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"ends the process ({signal.Signals(-code).name})"
    return f"ends the process (exit code {code})"


def _read(output: bytes) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    for line in output.decode("utf-8", "replace").splitlines():
        _, sign, answer = line.partition(_SIGN)
        if sign:
            with suppress(ValueError):  # cut where the process ended
                question, value, problem = json.loads(answer)
                found[question] = Answer(value, Text(problem))
    return found


def answer_all(questions: Sequence[str]) -> None:
    """What the process runs."""
    for question in questions:
        told = json.dumps([question, *_answered(question)])
        print(f"\n{_SIGN}{told}", flush=True)


def _answered(question: str) -> tuple[object, str]:
    """The answer, and why there is none."""
    try:
        if question.startswith(IMPORT):
            return _imported(question.removeprefix(IMPORT)), ""
        return _QUESTIONS[question](), ""
    except Calib8Error as error:
        return None, f"{error.subject.both}: {error.problem.both}"
    except (Exception, SystemExit) as error:
        return None, " ".join(f"{type(error).__name__}: {error}".split())


def _imported(module: str) -> str | None:
    version = getattr(import_module(module), "__version__", None)
    return version if isinstance(version, str) else None


def _engine() -> tuple[list[str], str]:
    from calib8.engine.run import available_isas, default_isa

    return available_isas(), default_isa()


def _counting() -> tuple[list[str], str]:
    from calib8.calibration.statistics import available_counting_isas, counting_isa

    return available_counting_isas(), counting_isa()


def _providers() -> tuple[str, list[str]]:
    import onnxruntime

    return str(onnxruntime.__version__), list(onnxruntime.get_available_providers())


def _saturates() -> bool:
    from calib8.model.runtime import saturates_here

    return saturates_here()


def _cache() -> dict[str, object]:
    from calib8.analysis.plan_cache import plan_cache

    return asdict(plan_cache())


_QUESTIONS: Final[dict[str, Callable[[], object]]] = {
    ENGINE: _engine,
    COUNTING: _counting,
    PROVIDERS: _providers,
    SATURATES: _saturates,
    CACHE: _cache,
}
"""Sets that run and the one that is used, fastest first; ONNX Runtime's version and providers; its sums;
the cache of plans."""
