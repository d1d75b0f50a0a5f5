"""The folder of a search: all that was found out, so that a search that was stopped goes on.

settings.json       what is tuned, with what, for which promise: another search is refused
statistics          of the calibration samples; statistics.part while they are gathered
ranges.json         what ``auto`` chose
<effort>.npz        the candidate that the repairs of an effort left (``calib8.tuning.stored``)
spots.json          names of the tensors that get 16-bit codes, step by step (``calib8.tuning.spot_steps``)
units.json          names of the nodes that become float, step by step
trials.jsonl        one line per trial
seconds.json        what all runs took together
lock                held by the run that works here; however it ends, the system lets go of it then
closest.onnx        the closest model, while none keeps the promise

Every file is written under another name and renamed: it is whole or not there.
"""

from __future__ import annotations

import fcntl
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TextIO

from calib8.errors import OutputError, TableError
from calib8.files import atomic_output, remove_leftovers
from calib8.parameters import parameter
from calib8.repair.repairs import EFFORTS
from calib8.tuning.trial import Settings, Trial

VERSION: Final = 7

_LOCK: Final = "lock"

_WHAT: Final = {
    "model": "another model",
    "calibrating": "other calibration samples",
    "judging": "other samples to judge with",
    "labels": "other labels",
    "preprocess": "another preprocessing",
}

_OTHER: Final = f"Choose another folder with {parameter('work')}"

_REDO: Final = "Remove it and tune again"

_BEGIN_ANEW: Final = f"Remove the whole folder and tune again, or choose another one with {parameter('work')}"
"""Without its settings nothing in a folder can be trusted."""

_SETTINGS: Final = "settings.json"

_CURE: Final = f"Choose another folder with {parameter('work')}, or give what it was begun with"

_NAMES: Final = (
    _SETTINGS,
    "statistics",
    "statistics.part",
    "ranges.json",
    "spots.json",
    "units.json",
    "trials.jsonl",
    "seconds.json",
)


class Folder:
    """A folder, opened for one search and locked until it is left; a context manager.

    Attributes:
        path: where it is.
        trials: those of earlier runs and of this one, in order.
        seconds: what earlier runs took.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Opens or makes it.

        Args:
            path: the folder.
            settings: what makes the search what it is, all that JSON can hold.

        Raises:
            TableError: it is the folder of another search, or broken.
            OutputError: it cannot be made, holds other things, or another run works in it.
        """
        self.path = path
        self._check_use()
        self._held = self._locked()
        try:
            self._open({"version": VERSION, **settings})
            self.trials = self._read_trials()
            self.seconds = self._read_seconds()
        except BaseException:
            self._held.close()
            raise
        self._known: dict[Settings, Trial] = {}
        for trial in self.trials:
            self._remember(trial)

    def __enter__(self) -> Folder:
        """Does nothing: it is open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets other runs in."""
        self._held.close()

    def known(self, settings: Settings) -> Trial | None:
        """The trial of the model that these settings make, None where there was none yet."""
        return self._known.get(settings)

    def add(self, trial: Trial) -> None:
        """Notes a trial.

        Raises:
            OutputError: the file cannot be written.
        """
        self.trials.append(trial)
        self._remember(trial)
        self.write("trials.jsonl", "".join(f"{one.to_json()}\n" for one in self.trials))

    def _remember(self, trial: Trial) -> None:
        """Notes what makes its model, which is also what names the spots that remained of those asked for.

        A spot falls away where no coded node reads it. Biases are corrected with the spots that remained,
        unless the trial has neither floats nor spots of its own: then as the repairs left them.
        """
        settings = trial.settings
        self._known[settings] = trial
        if settings.floats or settings.spots is not None:
            self._known.setdefault(replace(settings, spots=trial.spots), trial)

    def spend(self, seconds: float) -> None:
        """Notes what all runs took so far.

        Raises:
            OutputError: the file cannot be written.
        """
        self.write("seconds.json", f"{seconds:.3f}\n")

    def write(self, name: str, text: str) -> None:
        """Writes a file of the folder.

        Raises:
            OutputError: it cannot be written.
        """
        with atomic_output(self.path / name) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def read_json(self, name: str) -> Any:
        """What a file of the folder holds, None where it is not there.

        Raises:
            TableError: it is broken.
        """
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise self.broken(name, error) from error

    @contextmanager
    def reading(self, path: Path) -> Iterator[None]:
        """Around reading one of its files: what is broken is to be removed.

        Raises:
            TableError: it is broken.
        """
        try:
            yield
        except TableError as error:
            raise TableError(str(path), error.problem, _REDO) from error

    def _check_use(self) -> None:
        """Makes the folder, or sees that nothing else is in it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            names = {file.name for file in self.path.iterdir()}
        except OSError as error:
            problem = f"cannot be made ({error.strerror or error})"
            raise OutputError(str(self.path), problem, _OTHER) from error
        others = {name for name in names if name != _LOCK and not name.startswith(".")}
        if _SETTINGS in names or not others:
            return
        if others <= {*_all_names()}:
            raise OutputError(str(self.path), f"holds a search without its {_SETTINGS}", _BEGIN_ANEW)
        raise OutputError(str(self.path), "holds other things than an earlier search", _OTHER)

    def _locked(self) -> TextIO:
        """The lock, held as long as it is open."""
        try:
            file = (self.path / _LOCK).open("a", encoding="utf-8")
        except OSError as error:
            raise OutputError(str(self.path), f"cannot be locked ({error.strerror})", _OTHER) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if isinstance(error, BlockingIOError):
                cure = f"Wait until it has ended, or choose another folder with {parameter('work')}"
                raise OutputError(str(self.path), "another run is searching in it", cure) from error
            raise OutputError(str(self.path), f"cannot be locked ({error.strerror})", _OTHER) from error
        return file

    def _open(self, wanted: Mapping[str, Any]) -> None:
        found = self.read_json(_SETTINGS)
        if found is None:
            self.write(_SETTINGS, json.dumps(wanted, indent=1, ensure_ascii=False) + "\n")
        elif found != wanted:
            if not isinstance(found, dict):
                raise self.broken(_SETTINGS, "it holds no settings")
            raise TableError(str(self.path), f"holds a search {_difference(found, wanted)}", _CURE)
        for name in _all_names():
            remove_leftovers(self.path / name)

    def _read_trials(self) -> list[Trial]:
        try:
            text = (self.path / "trials.jsonl").read_text(encoding="utf-8")
            return [Trial.from_json(line) for line in text.splitlines()]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self.broken("trials.jsonl", error) from error

    def _read_seconds(self) -> float:
        found = self.read_json("seconds.json")
        if found is None:
            return 0.0
        if not isinstance(found, float) or not 0.0 <= found < math.inf:
            raise self.broken("seconds.json", f"{found!r} are not seconds")
        return found

    def broken(self, name: str, error: object) -> TableError:
        """The error that says that one of its files cannot be read."""
        cure = _BEGIN_ANEW if name == _SETTINGS else _REDO
        return TableError(str(self.path / name), f"is broken ({error})", cure)


def _all_names() -> tuple[str, ...]:
    """Of all files that a search makes but the lock."""
    return (*_NAMES, "closest.onnx", *(f"{effort}.npz" for effort in EFFORTS))


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    for key, value in wanted.items():
        old = found.get(key)
        if old != value:
            if key in _WHAT:
                return f"for {_WHAT[key]}"
            return f"with {key} '{old}', not '{value}'"
    return "with other settings"
