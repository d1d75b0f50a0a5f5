"""How fast models run, side by side: interleaved rounds, so that what else the machine does hits all alike.

    round 1: A A A …  B B B …  C C C …     round 2: A A A …  B B B …  C C C …     …

A visit begins with a rest, in which the threads of the one before fall asleep, and with a run that is not
counted, which brings code and weights back into the caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from calib8.errors import CrashError

VISIT_SECONDS: Final = 0.1
"""So long a subject is run before it is the next one's turn …"""

FEWEST_RUNS, MOST_RUNS = 2, 50
"""… but at least and at most so often."""

REST_SECONDS: Final = 0.005


@dataclass(frozen=True)
class Subject:
    """What is measured: a model in a runtime with so many threads.

    Attributes:
        model: its path.
        runtime: ``calib8``, ``onnxruntime``, ``openvino`` or ``litert``.
        threads: that it may use.
        batch: samples per run.
        macs: multiply-accumulates per run, None where they are not known.
        is_float: the model has no codes.
    """

    model: str
    runtime: str
    threads: int
    batch: int
    macs: int | None
    is_float: bool = False


class Opened(NamedTuple):
    """A subject that is ready, with the memory that this takes.

    Attributes:
        subject: what it is.
        visit: gives the seconds of some runs, see ``visit``.
    """

    subject: Subject
    visit: Callable[[], list[float]]


@dataclass(frozen=True)
class Pace:
    """How long a visit is.

    Attributes:
        rest: seconds before it.
        seconds: so long the subject is run …
        fewest, most: … but at least and at most so often.
    """

    rest: float
    seconds: float
    fewest: int
    most: int


@dataclass(frozen=True)
class Timing:
    """The runs of a subject.

    Attributes:
        subject: what was run.
        seconds: of every run.
    """

    subject: Subject
    seconds: tuple[float, ...]

    @property
    def median_ms(self) -> float:
        """Half of the runs took no longer."""
        return 1e3 * float(np.median(self.seconds))

    @property
    def min_ms(self) -> float:
        """What it takes when nothing disturbs."""
        return 1e3 * min(self.seconds)

    @property
    def p95_ms(self) -> float:
        """95 of 100 runs took no longer."""
        return 1e3 * float(np.percentile(self.seconds, 95))

    @property
    def gmacs(self) -> float | None:
        """Multiply-accumulates per second, in 10⁹, of the fastest run."""
        macs = self.subject.macs
        return None if macs is None else macs / min(self.seconds) * 1e-9


def measure(
    opened: Sequence[Opened],
    rounds: int,
    on_round: Callable[[int], None] = lambda done: None,
    on_crash: Callable[[CrashError], None] | None = None,
) -> list[Timing]:
    """Times subjects of one network in turns; one timing per subject that lives to the end.

    Args:
        opened: the subjects; all of them stay open, so give those that are to be compared and no more.
        rounds: at least 1.
        on_round: called with the number of rounds done.
        on_crash: called where a subject has ended its process, which is then left out.

    Raises:
        CrashError: a subject has ended its process, and ``on_crash`` is None.
    """
    seconds: dict[Opened, list[float]] = {subject: [] for subject in opened}
    for done in range(rounds):
        for one in list(seconds):
            try:
                seconds[one].extend(one.visit())
            except CrashError as crash:
                if on_crash is None:
                    raise
                on_crash(crash)
                del seconds[one]
        on_round(done + 1)
    return [Timing(one.subject, tuple(times)) for one, times in seconds.items()]


def ratio(timing: Timing, timings: Sequence[Timing]) -> float | None:
    """How many times faster than the fastest other runtime on the same model, threads and batch, by median.

    Above 1 it is the fastest; None where no other runtime was measured.
    """
    others = [
        other.median_ms
        for other in timings
        if _same_work(other.subject, timing.subject) and other.subject.runtime != timing.subject.runtime
    ]
    return min(others) / timing.median_ms if others else None


def beside_float(timing: Timing, timings: Sequence[Timing]) -> list[Timing]:
    """The same network in float, with as many threads and samples: fastest first, empty for a float model."""
    mine = timing.subject
    if mine.is_float or mine.macs is None:
        return []
    work = (mine.threads, mine.batch, mine.macs)
    floats = [
        other
        for other in timings
        if other.subject.is_float and (other.subject.threads, other.subject.batch, other.subject.macs) == work
    ]
    return sorted(floats, key=lambda other: other.median_ms)


def same_runtime_first(timing: Timing, floats: Sequence[Timing]) -> Timing | None:
    """The float model in the timing's own runtime, else in its fastest; None without any."""
    own = [one for one in floats if one.subject.runtime == timing.subject.runtime]
    return next(iter([*own, *floats]), None)


def _same_work(one: Subject, other: Subject) -> bool:
    return (one.model, one.threads, one.batch) == (other.model, other.threads, other.batch)


def pace() -> Pace:
    """What this module prescribes."""
    return Pace(REST_SECONDS, VISIT_SECONDS, FEWEST_RUNS, MOST_RUNS)


def visit(run: Callable[[], object], pace: Pace) -> list[float]:
    """A rest, a run that does not count, and the seconds of the runs after it, each by itself."""
    time.sleep(pace.rest)
    run()
    clock, total = time.perf_counter, 0.0
    seconds: list[float] = []
    while len(seconds) < pace.fewest or (total < pace.seconds and len(seconds) < pace.most):
        start = clock()
        run()
        seconds.append(clock() - start)
        total += seconds[-1]
    return seconds
