"""How many samples a second models run, side by side, once no image is decoded any more.

    round 1: A A  B B  C C     round 2: B B  C C  A A     round 3: C C  A A  B B     …     the fastest of each

Whoever is run beside decoding, or always behind another model whose threads are still awake, is slower for
it. So every turn begins with a rest and a run that does not count, and everybody begins a round in turn.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from calib8.analysis.benchmark import REST_SECONDS
from calib8.data.batches import Batch
from calib8.errors import CrashError
from calib8.model.runtime import Arrays, Session

SAMPLES: Final = 32
"""So many are kept to be run again, or one batch of more."""

FEWEST_ROUNDS, MOST_ROUNDS = 3, 15
ENOUGH_SECONDS: Final = 0.5
"""No further round after so much time for each model."""

LONG_SECONDS: Final = 0.1
"""Turns that take longer need no run ahead that does not count."""


@dataclass
class FirstSamples:
    """The first batches of some data, as they came."""

    batches: list[Batch] = field(default_factory=list)
    count: int = 0

    def add(self, batch: Batch) -> None:
        """Keeps it if there are too few yet."""
        if self.count < SAMPLES:
            self.batches.append(batch)
            self.count += len(batch.names)


def seconds_per_sample(sessions: Sequence[Session | None], kept: FirstSamples) -> list[float | None]:
    """What a sample takes in each model; None for one that is not there or ends its runtime.

    Args:
        sessions: the open models; None: left out.
        kept: what they are run with, at least one sample.
    """
    turns = {index: list[float]() for index, one in enumerate(sessions) if one is not None}
    rounds, began = 0, time.perf_counter()
    while turns and rounds < MOST_ROUNDS:
        order = list(turns)
        for index in order[rounds % len(order) :] + order[: rounds % len(order)]:
            session = sessions[index]
            assert session is not None
            try:
                turns[index].append(_turn(session, [one.inputs for one in kept.batches]))
            except CrashError:
                del turns[index]
        rounds += 1
        spent = time.perf_counter() - began
        if rounds >= FEWEST_ROUNDS and spent > ENOUGH_SECONDS * len(sessions):
            break
    return [min(turns[index]) / kept.count if index in turns else None for index in range(len(sessions))]


def _turn(session: Session, kept: Sequence[Arrays]) -> float:
    """Seconds of all batches, behind a rest and runs that do not count."""
    time.sleep(REST_SECONDS)
    first = sum(_seconds(session, inputs) for inputs in kept)
    return first if first > LONG_SECONDS else sum(_seconds(session, inputs) for inputs in kept)


def _seconds(session: Session, inputs: Arrays) -> float:
    """Of one run, inside the runtime where that has a process of its own."""
    start = time.perf_counter()
    session.run(inputs)
    spent = time.perf_counter() - start
    inside = getattr(session.handle, "seconds", None)
    return spent if inside is None else float(inside)
