"""How long the models of a search take: each opened, run and closed, in turns, so that all meet what the
machine does beside.

    round 1: A A A …  B B B …  C C C …     round 2: A A A …  B B B …  C C C …     …     the median of each

Only one model is open at a time, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from calib8.analysis.benchmark import Opened, Subject, measure, pace, visit
from calib8.analysis.runtimes import ONNXRUNTIME, open_in_runtime
from calib8.model.runtime import Arrays, open_session
from calib8.progress import Progress

ROUNDS: Final = 5


def latencies(
    paths: Sequence[Path], runtime: str, threads: int, feeds: Arrays, progress: Progress
) -> tuple[float, ...]:
    """Milliseconds of a run, by path: the median of all rounds.

    Args:
        paths: of the models.
        runtime: what runs them, see ``calib8.tuning.judging.JUDGES``.
        threads: inference threads, 0 for all cores.
        feeds: inputs of one run.
        progress: it counts rounds.

    Raises:
        Calib8Error: a model cannot be opened or run.
    """
    stage = "timing the models"
    progress(stage, 0, ROUNDS)
    opened = [
        Opened(Subject(str(path), runtime, threads, 1, None), partial(_visit, path, runtime, threads, feeds))
        for path in paths
    ]
    timings = measure(opened, ROUNDS, lambda done: progress(stage, done, ROUNDS))
    return tuple(timing.median_ms for timing in timings)


def _visit(path: Path, runtime: str, threads: int, feeds: Arrays) -> list[float]:
    """Seconds of some runs; in ONNX Runtime as others run it, without what makes sums exact."""
    if runtime == ONNXRUNTIME:
        session = open_session(path, threads=threads, exact_sums=False)
    else:
        session = open_in_runtime(path, runtime, threads)
    return visit(partial(session.run, feeds), pace())
