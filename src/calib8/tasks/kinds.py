"""What a branch of an output can be, and which branches a task needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

from calib8.errors import UsageError
from calib8.parameters import one_of, parameter
from calib8.tasks.grid import FORMS

Kind: TypeAlias = Literal[
    "boxes", "scores", "objectness", "mask-coefficients", "masks", "map", "keypoints", "logits",
    "probabilities", "embedding", "ctc", "decisions", "signal", "unused", "other",
]  # fmt: skip
"""boxes              four numbers per place: corners, or middle and size, or distances; an angle too
scores             how sure it is of each class, per place
objectness         how sure it is that there is anything, per place
mask-coefficients  factors of the masks, per place
masks              prototypes that the coefficients mix
map                a number or a class for every point of the picture
keypoints          coordinates of points, with or without how sure they are
logits             one per class, before Softmax
probabilities      one per class
embedding          a vector that is compared with others by its direction
ctc                characters times steps of time
decisions          how sure it is that something is heard in a frame, each number by itself
signal             a frame of sound, or factors of its spectrum
unused             tells nothing of its own, such as the score of the background: it is not judged
other              not known
"""

Task: TypeAlias = Literal["detect", "segment", "classify", "embed", "ctc", "keypoints", "speech", "enhance"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
TASK_NAMES: Final[tuple[Task, ...]] = get_args(Task)

NEEDS: Final[Mapping[Task, tuple[frozenset[Kind], ...]]] = {
    "detect": (frozenset({"boxes", "scores"}), frozenset({"boxes", "objectness"})),
    "segment": (frozenset({"map"}), frozenset({"masks", "mask-coefficients"})),
    "classify": (frozenset({"logits"}), frozenset({"probabilities"})),
    "embed": (frozenset({"embedding"}),),
    "ctc": (frozenset({"ctc"}),),
    "keypoints": (frozenset({"keypoints"}),),
    "speech": (frozenset({"decisions"}),),
    "enhance": (frozenset({"signal"}),),
}
"""The branches that a task needs; several sets: one of them."""

OF_DETECTION: Final[frozenset[Kind]] = frozenset(
    {"boxes", "scores", "objectness", "mask-coefficients", "keypoints"}
)
"""Branches that come in parts, by scales of the picture: all parts of a kind are one branch."""


LEADING: Final[frozenset[Kind]] = frozenset({"scores", "objectness"})
"""Branches that decide whether something is found."""


def kind_called(name: str, subject: str) -> Kind:
    """The kind of that name.

    Args:
        name: what was given.
        subject: the option, for the message.

    Raises:
        UsageError: there is none.
    """
    for kind in KINDS:
        if kind == name:
            return kind
    cure = f"{one_of(name, KINDS)}; of a raw grid of anchors {', '.join(FORMS)}"
    raise UsageError(subject, f"unknown kind of output '{name}'", cure)


def task_called(name: str | None) -> Task | None:
    """The task of that name; None stays None.

    Raises:
        UsageError: there is none.
    """
    for task in TASK_NAMES:
        if name in (None, task):
            return None if name is None else task
    raise UsageError(parameter("task", name), "unknown task", one_of(name, TASK_NAMES))
