"""Opening TFLite models: files and their bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from calib8.errors import UnsupportedModelError, UsageError
from calib8.parameters import with_both
from calib8.profiles import chosen_profile
from calib8.program.lower_tflite.cut import up_to
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.program.program import Program
from calib8.session.ports import Shapes
from calib8.session.prepared import Opened
from calib8.tflite.graph import Graph
from calib8.tflite.kinds import kind
from calib8.tflite.live import needed
from calib8.tflite.ports import port_specs
from calib8.tflite.read import parse, read_tflite
from calib8.tflite.resize import resized
from calib8.tflite.state_ports import state_ports, with_state_ports
from calib8.tflite.uses import USES

PROFILE: Final = "tflite"


def opened_tflite(
    source: str | os.PathLike[str] | bytes,
    profile: str | None,
    integer_only: bool,
    outputs: Sequence[str] | None,
) -> Opened:
    """A quantized TFLite model with the function that lowers it.

    Args:
        source: path of the file, or its bytes.
        profile: None or ``tflite``, which defines what such models compute.
        integer_only: refuse operators without an integer form.
        outputs: tensors in place of the model's outputs.

    Raises:
        UsageError: another profile, or outputs that the model does not compute.
        ModelError: the file is damaged.
        UnsupportedModelError: a model without codes.
    """
    name = "model bytes" if isinstance(source, bytes) else os.fspath(source)
    if profile is not None and chosen_profile(profile, integer_only=False) != PROFILE:
        problem = f"{name} is a TFLite model, which rounds as the profile '{PROFILE}' does"
        raise UsageError(f"profile '{profile}'", problem, f"Use {PROFILE}, or leave it out")
    graph = parse(source, name) if isinstance(source, bytes) else read_tflite(source)
    refuse_without_codes(graph, name)
    if isinstance(outputs, str):
        raise UsageError("outputs", f"is one name ('{outputs}')", "Give a list of names")
    if outputs is not None:  # operators that compute sizes stay: other sizes of the inputs need them
        graph = replace(graph, outputs=up_to(graph, outputs).outputs)
    graph = with_state_ports(graph)
    lowered: Callable[[Shapes], Program] = partial(_lowered, graph, name, integer_only)
    inputs, results = port_specs(graph, graph.inputs), port_specs(graph, graph.outputs)
    return Opened(name, PROFILE, inputs, results, lowered, at_once=True, states=state_ports(graph))


def refuse_without_codes(graph: Graph, name: str) -> None:
    """Refuses what no integer program can be made of.

    Raises:
        UnsupportedModelError: a float model, or one whose weights alone are integers.
    """
    found = kind(graph)
    if found == "float":
        problem = "is a float model: no tensor that is computed holds codes"
        raise UnsupportedModelError(name, problem, f"Quantize it first; {with_both(USES[found])}")
    if found == "hybrid":
        problem = "is a hybrid (dynamic-range) model: its weights are integers, its activations float"
        cure = f"Quantize the float model that it was made from; {with_both(USES[found])}"
        raise UnsupportedModelError(name, problem, cure)


def _lowered(graph: Graph, name: str, integer_only: bool, shapes: Shapes) -> Program:
    """The program for these shapes."""
    sized = resized(graph, shapes, name)
    sized = replace(sized, operators=needed(sized, sized.outputs))
    return lower_tflite(sized, name, integer_only=integer_only)
