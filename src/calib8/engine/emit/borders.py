"""TODO."""

from __future__ import annotations

from calib8.engine.emitter import Emitter
from calib8.engine.fuse import Work


def emit_quantize(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)


def emit_dequantize(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)
