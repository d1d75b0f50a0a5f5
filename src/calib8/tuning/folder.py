"""The folder of a search: all that was found out, so that a search that was stopped goes on.

settings.json       what is tuned, with what, for which promise: another search is refused
statistics          of the calibration samples; statistics.part while they are gathered
ranges.json         what ``auto`` chose
<effort>.npz        the candidate that the repairs of an effort left (``calib8.tuning.stored``)
units.json          names of the nodes that become float, step by step
trials.jsonl        one line per trial
closest.onnx        the closest model, while none keeps the promise

Every file is written under another name and renamed: it is whole or not there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from calib8.errors import OutputError, TableError
from calib8.files import atomic_output, remove_leftovers
from calib8.repair.repairs import EFFORTS
from calib8.tuning.trial import Settings, Trial

VERSION: Final = 1

_WHAT: Final = {
    "model": "another model",
    "calibrating": "other calibration samples",
    "judging": "other samples to judge with",
    "preprocess": "another preprocessing",
}

_CURE: Final = "Choose another folder with --work, or give what it was begun with"

_NAMES: Final = (
    "settings.json",
    "statistics",
    "statistics.part",
    "ranges.json",
    "units.json",
    "trials.jsonl",
)


class Folder:
    """A folder, opened for one search.

    Attributes:
        path: where it is.
        trials: those of earlier runs and of this one, in order.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Opens or makes it.

        Args:
            path: the folder.
            settings: what makes the search what it is, all that JSON can hold.

        Raises:
            TableError: it is the folder of another search, or broken.
            OutputError: it cannot be made, or holds other things.
        """
        self.path = path
        wanted = {"version": VERSION, **settings}
        self._open(wanted)
        self.trials = self._read_trials()
        self._known = {trial.settings: trial for trial in self.trials}

    def known(self, settings: Settings) -> Trial | None:
        """The trial of these settings, None where there was none yet."""
        return self._known.get(settings)

    def add(self, trial: Trial) -> None:
        """Notes a trial.

        Raises:
            OutputError: the file cannot be written.
        """
        self.trials.append(trial)
        self._known[trial.settings] = trial
        self.write("trials.jsonl", "".join(f"{one.to_json()}\n" for one in self.trials))

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
        except (OSError, ValueError) as error:
            raise self._broken(name, error) from error

    def _open(self, wanted: Mapping[str, Any]) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            filled = any(file.name in _NAMES or not file.name.startswith(".") for file in self.path.iterdir())
        except OSError as error:
            problem = f"cannot be made ({error.strerror or error})"
            raise OutputError(str(self.path), problem, "Choose another folder with --work") from error
        found = self.read_json("settings.json")
        if found is None:
            if filled:
                problem = "holds other things than an earlier search"
                raise OutputError(str(self.path), problem, "Choose another folder with --work")
            self.write("settings.json", json.dumps(wanted, indent=1, ensure_ascii=False) + "\n")
        elif found != wanted:
            raise TableError(str(self.path), f"holds a search {_difference(found, wanted)}", _CURE)
        for name in (*_NAMES, "closest.onnx", *(f"{effort}.npz" for effort in EFFORTS)):
            remove_leftovers(self.path / name)

    def _read_trials(self) -> list[Trial]:
        try:
            text = (self.path / "trials.jsonl").read_text(encoding="utf-8")
            return [Trial.from_json(line) for line in text.splitlines()]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._broken("trials.jsonl", error) from error

    def _broken(self, name: str, error: Exception) -> TableError:
        return TableError(str(self.path / name), f"is broken ({error})", "Remove it and tune again")


def _difference(found: Any, wanted: Mapping[str, Any]) -> str:
    if not isinstance(found, dict):
        return "that cannot be read"
    for key, value in wanted.items():
        old = found.get(key)
        if old != value:
            if key in _WHAT:
                return f"for {_WHAT[key]}"
            return f"with {key} '{old}', not '{value}'"
    return "with other settings"
