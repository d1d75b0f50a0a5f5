"""``calib8 run`` of a model with states: frames in their order, a state that is loaded and saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from calib8.cli.headings import DATA, RESULTS, option
from calib8.errors import UsageError

if TYPE_CHECKING:
    from calib8.analysis.stream_run import StreamRun
    from calib8.data.reading import Reading
    from calib8.data.samples import Dataset, Pending

_LOAD_HELP: Final = "Of a model with states: begin with the state in this file, which --save-state wrote."
_SAVE_HELP: Final = "Of a model with states: write the state after the last frame."


@dataclass(frozen=True, kw_only=True)
class StateOptions:
    """Where a stream begins, and where its end goes; None: not given."""

    load_state: Annotated[Path | None, option(DATA, "--load-state", "FILE.npz", _LOAD_HELP)] = None
    save_state: Annotated[Path | None, option(RESULTS, "--save-state", "FILE.npz", _SAVE_HELP)] = None

    def refuse_without(self, why: str) -> None:
        """Refuses them where nothing is carried.

        Raises:
            UsageError: one is given; ``why`` says what is missing.
        """
        for name, value in (("--load-state", self.load_state), ("--save-state", self.save_state)):
            if value is not None:
                cure = "Leave it out, or declare states with --state INPUT=OUTPUT"
                raise UsageError(f"{name} {value}", why, cure)


def frames_of(stream: StreamRun, reading: Reading) -> Dataset | None:
    """The frames in their order, the first ones where fewer are wanted; None where data hold the states.

    Raises:
        UsageError, DataError: what can be wrong with options or data.
    """
    from calib8.calibration.streaming import stream_frames

    found = stream_frames(replace(reading, samples=None), stream.fed, stream.every)
    if found is None or reading.samples is None:
        return found
    every, most = found, reading.samples

    def pending() -> Iterator[Pending]:
        return islice(every.pending(), most)

    count = None if every.count is None else min(every.count, most)
    return replace(every, pending=pending, count=count, rows_per_batch=1)
