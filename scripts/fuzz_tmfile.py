"""Broken .tmfile files, seeded: refused with an error of calib8, or read, written and read again alike.

    python scripts/fuzz_tmfile.py --count 100000

Valid files are made of graphs with every operator, and of int8 ones with each that has an int8 form; words,
bytes and lengths of them are changed. What can be read is also translated to ONNX and lowered to a program,
or refused there. Another error than one of calib8 ends the run and says how to make the file once more
(``--only``), and so does a process that needs more memory than a file may take.
"""

from __future__ import annotations

import argparse
import resource
import struct
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np

from calib8.errors import Calib8Error
from calib8.model.from_tmfile.translate import float_model
from calib8.program.lower_tmfile.lower import lower_tmfile
from calib8.tmfile.read import parse
from calib8.tmfile.write import serialize

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

import coded_nets  # noqa: E402 - what tests share lies in a folder of theirs
import tmfile_nets  # noqa: E402

NAME: Final = "broken.tmfile"
MEMORY: Final = 300 << 20
"""Bytes that the process may need in all."""

NUMBERS: Final = (
    0, 1, 2, 3, 4, 7, 8, 11, 12, 13, 16, 31, 32, 104, 108, 127, 128, 255, 256, 65535, 65536, 1 << 20, 1 << 30,
    (1 << 31) - 1, 1 << 31, (1 << 32) - 4, (1 << 32) - 1, 0x7F800000, 0x7FC00000, 0xFF800000, 0xBF800000,
)  # fmt: skip
"""Words that make offsets, counts, types and scales go wrong."""

MOST_CHANGES: Final = 4


def corpus(seed: int) -> list[bytes]:
    """Valid files: of every operator, networks as floats and as codes, each operator in int8."""
    small, rng = tmfile_nets.classifier(seed), np.random.default_rng(seed)
    coded = [make(rng) for make in coded_nets.OPERATORS.values()]
    turned = tmfile_nets.images_nhwc(seed)
    floats = (small, turned, tmfile_nets.every_operator(seed))
    graphs = (*floats, tmfile_nets.coded(small), tmfile_nets.coded(turned), *coded)
    return [serialize(graph) for graph in graphs]


def broken_file(files: list[bytes], seed: int, number: int) -> bytes:
    """File ``number`` of a seed."""
    rng = np.random.default_rng([seed, number])
    data = bytearray(files[number % len(files)])
    for _ in range(int(rng.integers(1, MOST_CHANGES + 1))):
        if not data:
            break
        at = int(rng.integers(0, max(len(data) - 4, 1)))
        choice = rng.integers(8)
        word = at - at % 4
        if choice == 0:
            data[at] ^= 1 << int(rng.integers(8))
        elif choice == 1:
            data = data[: int(rng.integers(0, len(data) + 1))]
        elif choice == 2:
            data[at:at] = rng.bytes(int(rng.integers(1, 9)))
        elif choice == 3:
            del data[at : at + int(rng.integers(1, 9))]
        elif choice == 4:
            data[word : word + 4] = struct.pack("<I", int(rng.integers(0, len(data) + 1)))
        elif choice == 5:
            source = int(rng.integers(0, max(len(data) - 4, 1)))
            data[word : word + 4] = data[source : source + 4]
        else:
            data[word : word + 4] = struct.pack("<I", int(rng.choice(NUMBERS)))
    return bytes(data)


def attempt(data: bytes) -> str:
    """What becomes of a file: ``refused``, ``read``, ``translated`` to ONNX or ``lowered`` to a program."""
    try:
        graph = parse(data, NAME)
    except Calib8Error as error:
        check_text(error)
        return "refused"
    again = serialize(graph)
    assert tmfile_nets.same(parse(again, NAME), graph), "what was written reads otherwise"
    for make, told in ((float_model, "translated"), (lower_tmfile, "lowered")):
        try:
            make(graph, NAME)
        except Calib8Error as error:
            check_text(error)
        else:
            return told
    return "read"


def check_text(error: Calib8Error) -> None:
    """One line that names the file."""
    assert str(error).startswith(NAME), f"an error that does not name the file: {error}"
    assert "\n" not in str(error), f"an error of several lines: {error}"


def tried(files: list[bytes], seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Tries files; says which one fails."""
    found: Counter[str] = Counter()
    for number in numbers:
        try:
            found[attempt(broken_file(files, seed, number))] += 1
        except BaseException:
            print(f"once more: python scripts/fuzz_tmfile.py --seed {seed} --only {number}", file=sys.stderr)
            raise
    return found


def main() -> int:
    """Tries files; 1 if they take too much memory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=5000, help="files to try")
    parser.add_argument("--seed", type=int, default=7, help="of the files and the changes")
    parser.add_argument("--only", type=int, help="try this file alone, and write it to broken.tmfile")
    settings = parser.parse_args()
    files = corpus(settings.seed)
    if settings.only is not None:
        Path(NAME).write_bytes(broken_file(files, settings.seed, settings.only))
    numbers = range(settings.count) if settings.only is None else [settings.only]
    found = tried(files, settings.seed, numbers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    told = ", ".join(f"{count} {what}" for what, count in sorted(found.items()))
    print(f"{sum(found.values())} files of seed {settings.seed}: {told}; {peak >> 20} MiB at most")
    return int(peak > MEMORY)


if __name__ == "__main__":
    sys.exit(main())
