"""TODO."""

from __future__ import annotations

from calib8.engine.emitter import Emitter
from calib8.engine.fuse import Work


def emit_mat_mul(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_max_pool(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_average_pool(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_reduce(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_arg_max(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_softmax(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_resize_linear(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)
