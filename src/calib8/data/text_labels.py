"""Lines of text of images: a list of ``file TAB text`` lines, or ``file text`` where no line has a TAB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from calib8.data.object_labels import match_names
from calib8.errors import DataError
from calib8.files import check_file

_CURE: Final = "Give a text file of 'file', a TAB and the text in every line"


def read_texts(path: Path, files: Sequence[str]) -> Mapping[str, str]:
    """Image file → its text, which may be empty.

    Args:
        path: the list, UTF-8.
        files: paths of the images relative to their folder, with ``/``.

    Raises:
        DataError: unreadable, a line of another form, a file listed twice, an image without a line, or no
            text at all.
    """
    check_file(path, _CURE, DataError)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(str(path), f"cannot be read ({error})", _CURE) from error
    separator = "\t" if any("\t" in line for line in lines) else " "
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, sign, text = line.partition(separator)
        where = f"{path}, line {number}"
        if not sign:
            raise DataError(where, f"'{line}' is not a file and its text", _CURE)
        if name in found:
            raise DataError(where, f"lists '{name}' a second time", "Keep one line per file")
        found[name] = text.strip()
    matched = match_names(files, list(found), str(path))
    texts = {file: found[name] for file, name in matched.items()}
    if not any(texts.values()):
        raise DataError(str(path), f"holds no text for any of the {len(files)} pictures", _CURE)
    return texts
