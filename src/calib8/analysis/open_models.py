"""Models that are judged side by side: opened here, and carried to other machines that open them there.

    paths  →  open models         pickled  →  the bytes of their files  →  open models, once in a process

There the files lie in a folder for as long as they are being opened; what is wrong with a model names the
file that the user gave.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.analysis.model_bytes import files_of_model
from calib8.analysis.runtimes import Settings, open_side_by_side
from calib8.analysis.same_feeds import fed_alike
from calib8.errors import Calib8Error
from calib8.model.runtime import Arrays, Session
from calib8.parameters import Text, with_both
from calib8.tflite.magic import claims_to_be_tflite

Content = npt.NDArray[np.uint8]
"""Bytes of a file; as an array they lie in an object store once for all processes of a machine."""


@dataclass(frozen=True, eq=False)
class CarriedFiles:
    """The files of a model on its way.

    Attributes:
        name: what the user calls it.
        files: path below a folder → bytes; the model first, then external data.
    """

    name: str
    files: dict[str, Content]

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> CarriedFiles:
        """Those of a model that could be opened."""
        model, *beside = files_of_model(Path(path))
        held = {Path(path).name: model} | {os.path.relpath(file, model.parent): file for file in beside}
        return cls(os.fspath(path), {name: np.fromfile(file, np.uint8) for name, file in held.items()})

    def laid(self, folder: Path) -> Path:
        """The path of the model in a folder to which its files are written."""
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            content.tofile(folder / name)
        return folder / next(iter(self.files))


class OpenModels:
    """Models of one network, which take the same arrays.

    Pickled it has the bytes of their files, and opens them when it is first asked for its sessions.

    Attributes:
        runtime: one of ``calib8.analysis.runtimes.RUNTIMES``.
        settings: how they run.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], runtime: str, settings: Settings) -> None:
        """Opens the models.

        Raises:
            Calib8Error: see ``open_side_by_side`` and ``fed_alike``.
        """
        self.runtime, self.settings = runtime, settings
        self._paths: Sequence[str | os.PathLike[str]] = paths
        self._carried: tuple[CarriedFiles, ...] = ()
        self._sessions: list[Session] | None = _opened(paths, runtime, settings)

    def sessions(self, threads: int) -> list[Session]:
        """The open models.

        Args:
            threads: of each, where they are not open yet; no result depends on it.

        Raises:
            Calib8Error: see ``open_side_by_side``: this machine lacks what the first one had.
        """
        if self._sessions is None:
            self._sessions = _opened_again(
                self._carried, self.runtime, replace(self.settings, threads=threads)
            )
        return self._sessions

    def __reduce__(self) -> tuple[Callable[..., OpenModels], tuple[Any, ...]]:
        """The files and the settings."""
        carried = self._carried or tuple(map(CarriedFiles.of, self._paths))
        return _again, (carried, self.runtime, self.settings)


def _again(carried: tuple[CarriedFiles, ...], runtime: str, settings: Settings) -> OpenModels:
    found = OpenModels.__new__(OpenModels)
    found.runtime, found.settings = runtime, settings
    found._paths, found._carried, found._sessions = (), carried, None
    return found


def _opened(paths: Sequence[str | os.PathLike[str]], runtime: str, settings: Settings) -> list[Session]:
    sessions = open_side_by_side(
        paths, runtime, settings.threads, profile=settings.profile, integer_only=settings.integer_only
    )
    return fed_alike(sessions) if any(map(claims_to_be_tflite, paths)) else sessions


def _opened_again(carried: Sequence[CarriedFiles], runtime: str, settings: Settings) -> list[Session]:
    with tempfile.TemporaryDirectory(prefix="calib8-") as folder:
        laid = [one.laid(Path(folder, str(number))) for number, one in enumerate(carried)]
        names = {str(path): one.name for path, one in zip(laid, carried, strict=True)}
        with _by_name(names):
            sessions = _opened(laid, runtime, settings)
    pairs = zip(sessions, carried, strict=True)
    return [
        _Named(one.name, session.inputs, session.outputs, session, session.runtime, names)
        for session, one in pairs
    ]


@dataclass(frozen=True)
class _Named(Session):
    """A Session whose handle is another one, the errors of which name the user's files.

    Attributes:
        names: path where a file lay → what the user calls it.
    """

    names: dict[str, str] | None = None

    def run(self, feeds: Arrays, outputs: Sequence[str] | None = None) -> list[npt.NDArray[Any]]:
        with _by_name(self.names or {}):
            results: list[npt.NDArray[Any]] = self.handle.run(feeds, outputs)
        return results


@contextmanager
def _by_name(names: dict[str, str]) -> Iterator[None]:
    """What is raised names files as the user does."""
    try:
        yield
    except Calib8Error as error:
        texts = list[str]()
        for text in map(with_both, (error.subject, error.problem, error.cure)):
            for path, name in names.items():
                text = text.replace(path, name)
            texts.append(Text(text))
        raise type(error)(*texts) from error
