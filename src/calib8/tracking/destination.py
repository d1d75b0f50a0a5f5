"""Where a run is told to: the name of a tracker and a place, as they are given.

    mlflow                          what MLFLOW_TRACKING_URI names, else MLflow's own default
    mlflow:http://host:5000         a server; mlflow:sqlite:///runs.db a database
    tensorboard:logs                a folder
    wandb:team/project              an entity and a project; wandb:project, wandb

A place may hold a name and a password. They are shown nowhere: see ``without_secrets``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from calib8.addresses import cleaned, without_secrets
from calib8.errors import UsageError
from calib8.parameters import either, one_of

TRACKERS: Final = ("mlflow", "tensorboard", "wandb")
"""Names of trackers."""


@dataclass(frozen=True)
class Destination:
    """A tracker and a place.

    Attributes:
        tracker: one of ``TRACKERS``.
        place: behind the colon; empty: none was given.
    """

    tracker: str
    place: str

    def __repr__(self) -> str:
        """Without secrets: a traceback may show it."""
        return f"Destination({self.shown!r})"

    @property
    def shown(self) -> str:
        """As it was given, without secrets."""
        return without_secrets(f"{self.tracker}:{self.place}" if self.place else self.tracker)

    @property
    def subject(self) -> str:
        """What messages are about."""
        return subject_of(self.shown)

    def cleaned(self, text: str) -> str:
        """A text of other software, on one line, that may repeat the place: without secrets."""
        return cleaned(text, self.place)


def subject_of(shown: str) -> str:
    """What a message about a destination is about."""
    return either(f"to={shown!r}", f"--log {shown}")


def destination(given: object) -> Destination:
    """The destination that a text names.

    Raises:
        UsageError: an unknown tracker, or a place that is none.
    """
    text = given if isinstance(given, str) else ""
    tracker, _, place = text.partition(":")
    if tracker not in TRACKERS:
        shown = without_secrets(text) if text else repr(given)
        raise UsageError(subject_of(shown), f"unknown tracker '{tracker}'", one_of(tracker, TRACKERS))
    found = Destination(tracker, place.strip())
    if tracker == "tensorboard" and not found.place:
        raise UsageError(found.subject, "names no folder", "Give one, such as tensorboard:runs")
    if tracker == "wandb" and not re.fullmatch(r"(?:[\w.\- ]+/)?[\w.\- ]+|", found.place):
        raise UsageError(found.subject, "is no project", "Give a project or entity/project")
    return found
