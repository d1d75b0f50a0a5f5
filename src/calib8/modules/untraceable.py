"""What to say of code that cannot be traced: the user's own lines, all of them at once."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch
from torch import fx

from calib8.errors import UnsupportedModelError

_NOT_THE_USERS = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


@dataclass(frozen=True)
class Failure:
    """A module that cannot be traced.

    Attributes:
        path: its name in the model, empty for the model itself.
        error: what its forward raised.
    """

    path: str
    error: Exception


def untraceable(model: str, failures: Sequence[Failure]) -> UnsupportedModelError:
    """The error that lists every line once, innermost module first.

    Args:
        model: name of the class of the model.
        failures: at least one.
    """
    parts: dict[str, list[str]] = {}
    for failure in failures:
        parts.setdefault(_told(failure), []).extend([f"'{failure.path}'"] if failure.path else [])
    lines = [f"{', '.join(paths)} at {line}" if paths else line for line, paths in parts.items()]
    problem = f"cannot be traced at {len(lines)} places: " if len(lines) > 1 else "cannot be traced: "
    cure = (
        "Write these lines without what depends on the tensors themselves, or move them into a function"
        " marked with torch.fx.wrap, which is kept whole"
    )
    if any("not installed as a submodule" in str(failure.error) for failure in failures):
        cure = "Hold modules as attributes or in nn.ModuleList and nn.ModuleDict"
    return UnsupportedModelError(model, problem + "; ".join(lines), cure)


def _told(failure: Failure) -> str:
    """The user's innermost line, and what is wrong with it."""
    frames = [
        frame for frame in traceback.extract_tb(failure.error.__traceback__) if _is_users(frame.filename)
    ]
    if not frames:
        return _reason(failure.error)
    last = frames[-1]
    code = f" `{last.line}`" if last.line else ""
    return f"{last.filename}:{last.lineno}:{code} ({_reason(failure.error)})"


def _reason(error: Exception) -> str:
    """What fx means, in the words of a user's code."""
    text = str(error).strip()
    if isinstance(error, fx.proxy.TraceError):
        if "cannot be iterated" in text:
            return "a loop over a tensor, over its shape or over parts of unknown number"
        if "control flow" in text:
            return "the way through the code depends on a tensor"
    if isinstance(error, TypeError) and "argument must be" in text and "Value'" in text:
        return "a number is taken out of a tensor"
    if "item assignment" in text:
        return "a part of a tensor is assigned to"
    if "not installed as a submodule" in text:
        return "a module that the model does not hold as its part"
    first = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def calling_line() -> str:
    """``file:line`` of the innermost code on the stack that is neither torch's nor this package's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def code_at(place: str) -> str:
    """The line of code at ``file:line``, without its indentation."""
    file, _, line = place.rpartition(":")
    return linecache.getline(file, int(line)).strip() if line.isdecimal() else ""


def _is_users(file: str) -> bool:
    return not file.startswith(_NOT_THE_USERS) and not file.startswith("<frozen")
