"""TODO."""

from __future__ import annotations

from calib8.engine.emitter import Emitter
from calib8.engine.fuse import Work


def emit_requantize(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_add(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_add_sums(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_mul(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_extreme(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_lookup(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)
