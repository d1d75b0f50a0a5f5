"""Arrays to calibrate with and to judge with where a network takes no pictures, for ``task_networks.py``.

    files   the first and the last 1024 bytes of files, int32 [2048]: files of packages and of Python itself
    shots   films of photographs that the camera wanders over, with cuts and fades, [3, 20, 27, 48], 0 … 255

Films are made of the photographs that pictures are made of. No file is in both parts.
"""

from __future__ import annotations

import sysconfig
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from task_pictures import opened
from task_transnet import COLUMNS, FRAMES, ROWS

Array = npt.NDArray[np.generic]

ENDS: Final = 1024
BLOCK: Final = 4096
NOTHING: Final = 256
"""In place of bytes that a short file lacks."""
OF_A_KIND: Final = 60
"""Files with one suffix, at most."""
SHORTEST, LONGEST = 5, 14
"""Frames of a shot."""
FADES: Final = 0.2


def ends_of(content: bytes) -> npt.NDArray[np.int32]:
    """[2048]: the first bytes that are no white space, and the last ones."""
    first, last = content[:BLOCK].lstrip()[:ENDS], content[-BLOCK:].rstrip()[-ENDS:]
    found = np.full(2 * ENDS, NOTHING, np.int32)
    found[: len(first)] = np.frombuffer(first, np.uint8)
    found[2 * ENDS - len(last) :] = np.frombuffer(last, np.uint8)
    return found


def contents(archives: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files in packages, by name, then of Python's own library."""
    for archive in sorted(archives.iterdir()):
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as wheel:
                yield from ((name, wheel.read(name)) for name in sorted(wheel.namelist()))
        elif archive.is_file() and tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tar:
                for entry in sorted(
                    (one for one in tar.getmembers() if one.isfile()), key=lambda one: one.name
                ):
                    content = tar.extractfile(entry)
                    yield entry.name, b"" if content is None else content.read()
    library = Path(sysconfig.get_paths()["stdlib"])
    for file in sorted(library.rglob("*")):
        if file.is_file() and "site-packages" not in file.parts and "__pycache__" not in file.parts:
            yield str(file.relative_to(library)), file.read_bytes()


def files(archives: Path, counts: Sequence[int]) -> list[Array]:
    """Rows for each count; no file twice, few with one suffix, those that come next go to the next count."""
    kinds, seen, found = Counter[str](), set[bytes](), list[npt.NDArray[np.int32]]()
    for name, content in contents(archives):
        kind = Path(name).suffix.lower()
        if len(content) < 16 or kinds[kind] >= OF_A_KIND or (row := ends_of(content)).tobytes() in seen:
            continue
        kinds[kind] += 1
        seen.add(row.tobytes())
        found.append(row)
    order = np.random.default_rng(7).permutation(len(found))
    if len(order) < sum(counts):
        raise SystemExit(f"{len(order)} files were found, {sum(counts)} are needed")
    starts = np.cumsum([0, *counts])
    return [np.stack([found[place] for place in order[start:end]]) for start, end in pairwise(starts)]


def shots(photographs: Sequence[Path], count: int, random: np.random.Generator) -> Array:
    """[count, 3, 20, 27, 48] of 0 … 255, as int16."""
    return np.stack([film(photographs, random) for _ in range(count)])


def film(photographs: Sequence[Path], random: np.random.Generator) -> Array:
    """One film: shots one behind the other, one of five with a fade of four frames before it."""
    frames = list[npt.NDArray[np.float32]]()
    while len(frames) < FRAMES:
        shot = wandering(photographs[random.integers(len(photographs))], random)
        if len(frames) > 4 and random.random() < FADES:
            for back, weight in enumerate((0.2, 0.4, 0.6, 0.8)):
                frames[back - 4] = (1 - weight) * frames[back - 4] + weight * shot[0]
        frames.extend(shot)
    return np.rint(np.stack(frames[:FRAMES], axis=1)).astype(np.int16)


def wandering(file: Path, random: np.random.Generator) -> list[npt.NDArray[np.float32]]:
    """Frames [3, 27, 48] of a photograph, whose part in view moves evenly."""
    picture = opened(file)
    share, length = random.uniform(0.5, 0.9), int(random.integers(SHORTEST, LONGEST + 1))
    width, height = share * picture.width, share * picture.height
    start, end = (random.uniform(0, 1 - share, 2) * picture.size for _ in range(2))
    places = [start + (end - start) * step / length * 0.5 for step in range(length)]
    views = [picture.resize((COLUMNS, ROWS), box=(x, y, x + width, y + height)) for x, y in places]
    return [np.asarray(view, np.float32).transpose(2, 0, 1) for view in views]
