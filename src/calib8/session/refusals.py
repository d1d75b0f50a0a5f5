"""What is refused before a model is lowered: a plan, outputs of a graph, names that mislead other tools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from calib8.engine.plan_file import PROGRAM_SUFFIX, SUFFIX, is_plan_file
from calib8.errors import UsageError
from calib8.files import check_output
from calib8.parameters import parameter
from calib8.tflite.magic import claims_to_be_tflite

MODEL_SUFFIXES: Final = (".onnx", ".ort", ".pb", ".tflite", ".tmfile")
"""Other tools take a file with one of these for a model, which neither a plan nor a program is."""


def refuse_plan(model: str | os.PathLike[str]) -> None:
    """What is made from models is not made from plans.

    Raises:
        UsageError: the file is one.
    """
    if is_plan_file(model):
        raise UsageError(os.fspath(model), "is a plan", "Give the model or program that it was made from")


def refuse_until(model: str | os.PathLike[str], until: Sequence[str]) -> None:
    """Refuses other outputs than those of the model, unless it is a TFLite model.

    Raises:
        UsageError: some are given, or one text in place of a list of them.
    """
    if isinstance(until, str):
        raise UsageError(
            parameter("until", until), "is one name", f"Give a list: {parameter('until', [until])}"
        )
    if until and not claims_to_be_tflite(model):
        problem = f"{os.fspath(model)} is not a TFLite model"
        raise UsageError(parameter("until", until[0]), problem, "Leave it out")


def check_suffix(subject: str, path: Path, kind: Literal["plan", "program"]) -> None:
    """Refuses a name by which the file would be taken for something else.

    Args:
        subject: what gives the path, for the message.
        path: to be written.
        kind: of what is written.

    Raises:
        UsageError: the suffix of a model, or that of the other kind.
    """
    own, other = (SUFFIX, PROGRAM_SUFFIX) if kind == "plan" else (PROGRAM_SUFFIX, SUFFIX)
    suffix = path.suffix.lower()
    if suffix == other or suffix in MODEL_SUFFIXES:
        what = "model" if suffix in MODEL_SUFFIXES else "program" if kind == "plan" else "plan"
        problem = f"has the suffix of a {what}, but a {kind} is none"
        raise UsageError(subject, problem, f"Give another one, such as {path.with_suffix(own).name}")


def check_destination(output: Path, model: Path) -> None:
    """Looks at the place of a file that is made of a model, before the work starts.

    Raises:
        UsageError: it is the model.
        OutputError: it cannot be written.
    """
    check_output(parameter("output", output), output, [("an input", model)])
