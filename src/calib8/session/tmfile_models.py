"""Opening int8 models of Tengine: files and their bytes."""

from __future__ import annotations

import os
from functools import partial
from typing import Final

from calib8.errors import UnsupportedModelError, UsageError
from calib8.profiles import WITH_FLOATS, chosen_profile
from calib8.program.lower_tmfile.lower import lower_tmfile
from calib8.program.program import Program
from calib8.session.ports import Shapes
from calib8.session.prepared import Opened
from calib8.tmfile.nchw import as_nchw
from calib8.tmfile.ports import port_specs
from calib8.tmfile.read import parse, read_tmfile

PROFILE: Final = "tengine"


def opened_tmfile(source: str | os.PathLike[str] | bytes, profile: str | None, integer_only: bool) -> Opened:
    """An int8 model of Tengine with the function that lowers it.

    Args:
        source: path of the file, or its bytes.
        profile: None or ``tengine``, which is what Tengine's kernels compute.
        integer_only: refused, as these multiply by float32 numbers.

    Raises:
        UsageError: another profile.
        ModelError: the file is damaged, or its scales are none of an int8 model.
        UnsupportedModelError: a model without int8 codes, or ``integer_only``.
    """
    name = "model bytes" if isinstance(source, bytes) else os.fspath(source)
    if profile is not None and chosen_profile(profile, integer_only=False) != PROFILE:
        problem = f"{name} is a Tengine model, which rounds as the profile '{PROFILE}' does"
        raise UsageError(f"profile '{profile}'", problem, f"Use {PROFILE}, or leave it out")
    if integer_only and PROFILE in WITH_FLOATS:
        problem = "is not integer only: Tengine multiplies sums by float32 numbers"
        raise UnsupportedModelError(name, problem, "Run it without integer_only")
    graph = parse(source, name) if isinstance(source, bytes) else read_tmfile(source)
    first = lower_tmfile(graph, name)  # what must be refused is refused here
    graph = as_nchw(graph)
    inputs, outputs = (
        port_specs(graph, places) for places in (graph.input_tensors(), graph.output_tensors())
    )
    return Opened(name, PROFILE, inputs, outputs, partial(_lowered, first), at_once=True)


def _lowered(program: Program, shapes: Shapes) -> Program:
    """The program; its shapes are those of the file, which has been compared with them."""
    return program
