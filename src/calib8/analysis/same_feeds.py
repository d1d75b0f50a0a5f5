"""Models of one network that name and lay out their input differently, fed with the same arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import DataError
from calib8.model.runtime import Arrays, Session
from calib8.tensors import TensorSpec

AS_IT_IS: Final = (0, 1, 2, 3)
TO_NHWC: Final = (0, 2, 3, 1)
TO_NCHW: Final = (0, 3, 1, 2)

Sizes = tuple[int | str | None, ...]


@dataclass(frozen=True)
class _FedSession(Session):
    """A Session whose handle is another one, which gets its input under another name or in another order.

    Attributes:
        source: name of the array that is fed.
        axes: axis i of the input is this axis of the array; None: as it is.
    """

    source: str = ""
    axes: tuple[int, ...] | None = None

    def run(self, feeds: Arrays, outputs: Sequence[str] | None = None) -> list[npt.NDArray[Any]]:
        array = feeds[self.source]
        if self.axes is not None:
            array = np.ascontiguousarray(array.transpose(self.axes))
        results: list[npt.NDArray[Any]] = self.handle.run({self.inputs[0].name: array}, outputs)
        return results


def fed_alike(sessions: Sequence[Session]) -> list[Session]:
    """The sessions, all of which take what the first one takes.

    Raises:
        DataError: the input of one of them has other sizes, in whatever order.
    """
    lead = next((session.inputs for session in sessions if session.inputs), ())
    return [_fed_as(session, lead) for session in sessions]


def _fed_as(session: Session, lead: Sequence[TensorSpec]) -> Session:
    if len(lead) != 1 or len(session.inputs) != 1 or session.inputs == tuple(lead):
        return session
    [own], [given] = session.inputs, lead
    axes = _axes(own.shape, given.shape)
    if axes == ():
        problem = f"its input '{own}' is not that of the first model, '{given}'"
        raise DataError(session.name, problem, "Compare models of one network")
    if axes is None and own.name == given.name:
        return session
    return _FedSession(
        session.name, session.inputs, session.outputs, session, session.runtime, given.name, axes
    )


def _axes(own: Sizes | None, given: Sizes | None) -> tuple[int, ...] | None:
    """None where sizes fit as they are, an order of axes where they fit in that, else an empty tuple."""
    if own is None or given is None or _fits(own, given):
        return None
    if len(own) == len(given) == len(AS_IT_IS):
        for axes in (TO_NHWC, TO_NCHW):
            if _fits(own, tuple(given[axis] for axis in axes)):
                return axes
    return ()


def _fits(own: Sizes, given: Sizes) -> bool:
    return len(own) == len(given) and all(
        size == other or not (isinstance(size, int) and isinstance(other, int))
        for size, other in zip(own, given, strict=True)
    )
