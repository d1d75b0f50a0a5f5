"""The files of a command: looked at before the work starts, written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from calib8.analysis.model_bytes import model_bytes_on_disk as model_bytes_on_disk
from calib8.errors import OutputError, UsageError
from calib8.files import atomic_output, output_file
from calib8.parameters import on_command_line

MODEL_SUFFIXES: Final = (".onnx", ".ort", ".pb", ".tflite")
"""Other tools take a file with one of these for a model, which neither a plan nor a program is."""


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path | None]) -> None:
    """Makes sure, before an hour is spent, that results will have a place and destroy nothing.

    Args:
        outputs: option → file to be written; None where the option is not given.
        inputs: files that are read.

    Raises:
        UsageError: an output is an input, or two outputs are one file.
        OutputError: the folder is missing or cannot be written to, or the path is no regular file.
    """
    taken: list[tuple[str, Path]] = [("an input", path) for path in inputs if path is not None]
    for option, path in outputs.items():
        if path is None:
            continue
        for other, taken_path in taken:
            if _same_file(path, taken_path):
                raise UsageError(f"{option} {path}", f"is the same file as {other}", "Choose another path")
        _check_writable(path)
        taken.append((option, path))


def check_suffix(option: str, path: Path, kind: Literal["plan", "program"]) -> None:
    """Refuses a name by which the file would be taken for something else.

    Args:
        option: that gives the path.
        path: to be written.
        kind: of what is written.

    Raises:
        UsageError: the suffix of a model, or that of the other kind.
    """
    from calib8.engine.plan_file import PROGRAM_SUFFIX, SUFFIX

    own, other = (SUFFIX, PROGRAM_SUFFIX) if kind == "plan" else (PROGRAM_SUFFIX, SUFFIX)
    suffix = path.suffix.lower()
    if suffix == other or suffix in MODEL_SUFFIXES:
        what = "model" if suffix in MODEL_SUFFIXES else "program" if kind == "plan" else "plan"
        problem = f"has the suffix of a {what}, but a {kind} is none"
        raise UsageError(
            f"{option} {path}", problem, f"Give another one, such as {path.with_suffix(own).name}"
        )


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Writes a document as JSON, its texts in the words of the command line.

    Raises:
        OutputError: the file cannot be written; an old file stays intact.
    """
    with atomic_output(path) as temporary:
        temporary.write_text(json.dumps(_typed(document), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _typed(value: Any) -> Any:
    """A part of a document with the words of the command line."""
    if isinstance(value, Mapping):
        return {key: _typed(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_typed(part) for part in value]
    return on_command_line(value) if isinstance(value, str) else value


def _same_file(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)


def _check_writable(path: Path) -> None:
    file = output_file(path)
    try:
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(
            str(path),
            f"cannot be written ({reason})",
            "Choose a folder that exists and is writable",
        ) from error
