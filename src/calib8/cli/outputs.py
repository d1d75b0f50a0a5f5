"""The files of a command: looked at before the work starts, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from calib8.analysis.model_bytes import model_bytes_on_disk as model_bytes_on_disk
from calib8.errors import UsageError
from calib8.files import OTHER_FILES, WRITTEN_MODELS, atomic_output, check_output, remove_leftovers
from calib8.parameters import on_command_line

KNOWN_SUFFIXES: Final = OTHER_FILES | {*WRITTEN_MODELS, ".htm", ".jpeg", ".pdf", ".svg"}
"""By these people and tools know what is in a file."""

JSON: Final = ("JSON", (".json",))
TABLE: Final = ("a calibration table", (".json", ".table", ".txt"))
CONVERTED: Final = ("a table", (".json", ".table", ".txt", ".param", ".yaml", ".yml"))
SAVED_STATISTICS: Final = ("statistics", (".stats", ".npz", ".bin"))
CHECKPOINT: Final = ("a checkpoint", (".part", ".npz", ".ckpt", ".bin"))
"""What is written, and suffixes that may be its own, the usual one first."""


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path | str | None]) -> None:
    """Makes sure, before an hour is spent, that results will have a place and destroy nothing.

    What killed runs left beside them of the same files is removed.

    Args:
        outputs: option → file to be written; None where the option is not given.
        inputs: files that are read.

    Raises:
        UsageError: an output is an input, two outputs are one file, or the file of ``--json`` has the suffix
            of another kind of file.
        PlaceError: the folder is missing or cannot be written to, or the path is no regular file.
    """
    taken: list[tuple[str, Path | str]] = [("an input", path) for path in inputs if path is not None]
    for option, path in outputs.items():
        if path is None:
            continue
        check_output(f"{option} {path}", path, taken)
        remove_leftovers(path)
        if option == "--json":
            check_kind(option, path, JSON)
        taken.append((option, path))


def check_kind(option: str, path: Path | None, kind: tuple[str, Sequence[str]]) -> None:
    """Refuses a name by which the file would be taken for something else; other suffixes and none are free.

    Args:
        option: that gives the path.
        path: to be written, None where it is not given.
        kind: what is written, and its suffixes.

    Raises:
        UsageError: the suffix of another kind of file.
    """
    what, own = kind
    if path is None or path.suffix.lower() not in KNOWN_SUFFIXES.difference(own):
        return
    problem = f"is the name of another kind of file; what is written is {what}"
    raise UsageError(f"{option} {path}", problem, f"Give a name such as {path.with_suffix(own[0]).name}")


def check_suffix(option: str, path: Path, kind: Literal["plan", "program"]) -> None:
    """Refuses a name by which the file would be taken for something else.

    Args:
        option: that gives the path.
        path: to be written.
        kind: of what is written.

    Raises:
        UsageError: the suffix of a model, that of the other kind, or of another kind of file.
    """
    from calib8.engine.plan_file import PROGRAM_SUFFIX, SUFFIX
    from calib8.session.refusals import check_suffix as checked

    checked(f"{option} {path}", path, kind)
    check_kind(option, path, (f"a {kind}", (SUFFIX if kind == "plan" else PROGRAM_SUFFIX,)))


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
