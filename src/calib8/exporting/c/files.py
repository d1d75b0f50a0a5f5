"""The two files of C code, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from calib8.exporting.c.export import CExport
from calib8.files import atomic_output


def write_c(found: CExport, output: Path) -> int:
    """Writes the .c file, and the .h file beside it that it includes; bytes of both.

    Raises:
        OutputError: one of them cannot be written; old ones stay intact.
    """
    beside = output.with_suffix(".h")
    with atomic_output(output) as source, atomic_output(beside) as header:
        source.write_bytes(found.source.encode())
        header.write_bytes(found.header.encode())
    return output.stat().st_size + beside.stat().st_size
