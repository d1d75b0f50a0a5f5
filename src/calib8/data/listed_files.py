"""Files of a kind that a path stands for: those of a folder, one file, or those that match a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from calib8.errors import DataError
from calib8.files import check_file


@dataclass(frozen=True)
class FileKind:
    """A kind of files.

    Attributes:
        noun, several: what one and many are called.
        suffixes: lower-case ones of such files.
    """

    noun: str
    several: str
    suffixes: Collection[str]

    @property
    def known(self) -> str:
        """The suffixes, for messages."""
        return ", ".join(sorted(self.suffixes))

    @property
    def _one(self) -> str:
        return f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}"

    def holds(self, path: Path) -> bool:
        """Whether a path is such a file."""
        return path.suffix.lower() in self.suffixes and path.is_file()

    def below(self, folder: Path) -> list[str]:
        """Paths of such files below a folder, relative to it, with ``/``, in ascending order.

        Files and folders whose name starts with a dot are passed over.

        Raises:
            DataError: the folder holds none, or cannot be listed.
        """
        try:
            found = [path.relative_to(folder) for path in folder.rglob("*") if self.holds(path)]
        except OSError as error:
            raise DataError(str(folder), f"cannot be listed ({error})", "Check its permissions") from error
        shown = (path for path in found if not any(part.startswith(".") for part in path.parts))
        names = sorted(path.as_posix() for path in shown)
        if not names:
            cure = f"Give a folder with {self.several} ({self.known})"
            raise DataError(str(folder), f"holds no {self.noun} file", cure)
        return names

    def listed(self, path: Path, cure: str) -> tuple[Path, list[str]]:
        """The folder, and names below it, of a folder, a file or a pattern.

        Raises:
            DataError: there is none; ``cure`` says what can be given.
        """
        if path.is_dir():
            return path, self.below(path)
        if not path.exists() and glob.has_magic(str(path)):
            return self._matching(path)
        if not path.exists():
            raise DataError(str(path), "does not exist", cure)
        check_file(path, cure, DataError)
        if path.suffix.lower() not in self.suffixes:
            raise DataError(str(path), f"is not {self._one} by its name", cure)
        return path.parent, [path.name]

    def _matching(self, pattern: Path) -> tuple[Path, list[str]]:
        """Those that a pattern stands for, with their common folder, in ascending order."""
        fixed = next(place for place, part in enumerate(pattern.parts) if glob.has_magic(part))
        found = list(Path(*pattern.parts[:fixed]).glob("/".join(pattern.parts[fixed:])))
        shown = [path for path in found if not any(part.startswith(".") for part in path.parts[fixed:])]
        files = [path for path in shown if self.holds(path)]
        if not files:
            none = f"matches {len(found)} files and none of them is {self._one}"
            problem = none if found else "matches no file"
            raise DataError(
                str(pattern), problem, f"{self.several[0].upper()}{self.several[1:]} are {self.known}"
            )
        folder = Path(os.path.commonpath([path.parent for path in files]))
        return folder, sorted(path.relative_to(folder).as_posix() for path in files)
