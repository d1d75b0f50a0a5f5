"""Trackers that were asked for: opened and checked before the work, told of it behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from calib8.errors import Calib8Error, UsageError
from calib8.tracking.destination import Destination, destination, subject_of
from calib8.tracking.record import RunRecord
from calib8.tracking.to_mlflow import MlflowRuns
from calib8.tracking.to_tensorboard import TensorboardRuns
from calib8.tracking.to_wandb import WandbRuns
from calib8.tracking.tracker import Tracker, told

OPENERS: Final[Mapping[str, Callable[[Destination], Tracker]]] = {
    "mlflow": MlflowRuns,
    "tensorboard": TensorboardRuns,
    "wandb": WandbRuns,
}
"""Name of a tracker → what tells it of runs."""

_CURES: Final[Mapping[str, str]] = {
    "mlflow": "Check the address of the server or database, and what MLflow needs for it",
    "tensorboard": "Choose a folder that can be written to",
    "wandb": "Log in with 'wandb login', or set WANDB_MODE=offline",
}


def checked_trackers(to: str | Sequence[str]) -> tuple[Tracker, ...]:
    """Opens trackers, and makes sure that each can be told of a run.

    Args:
        to: a destination or several, see ``calib8.tracking.destination``.

    Raises:
        UsageError: an unknown tracker, a place that is none, the same one twice, a package that is missing.
        OutputError: a server does not answer, or a folder cannot be written to.
    """
    listed = [to] if isinstance(to, str) or not isinstance(to, Sequence) else list(to)
    destinations = [destination(one) for one in listed]
    if not destinations:
        raise UsageError("to", "names no tracker", f"Give one of {', '.join(OPENERS)}")
    for place, one in enumerate(destinations):
        if one in destinations[:place]:
            raise UsageError(subject_of(one.shown), "is given twice", "Give it once")
    trackers = tuple(OPENERS[one.tracker](one) for one in destinations)
    for tracker in trackers:
        with told(tracker.destination, "cannot be told of a run", _CURES[tracker.destination.tracker]):
            tracker.check()
    return trackers


def tell_all(trackers: Sequence[Tracker], record: RunRecord) -> tuple[list[str], list[Calib8Error]]:
    """Tells every tracker of a run: where it is now, and what went wrong with the others."""
    places, failures = list[str](), list[Calib8Error]()
    for tracker in trackers:
        of = tracker.destination
        try:
            with told(of, "the run could not be logged", _CURES[of.tracker]):
                places.append(f"{of.shown}: {of.cleaned(tracker.log(record))}")
        except Calib8Error as error:
            failures.append(error)
    return places, failures
