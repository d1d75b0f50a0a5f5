"""C code of programs, compiled and run: natively, under sanitizers, and on Cortex-M in qemu.

One program of C runs all networks that it is given: it reads their inputs from ``in.bin`` and writes their
outputs to ``out.bin``, run after run, each time in an arena full of other bytes.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.exporting.c.export import CExport

Array = npt.NDArray[Any]

WARNINGS: Final = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
SANITIZERS: Final = ("-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
ARM: Final = Path(__file__).parent / "arm"
TIMEOUT: Final = 1200
"""Seconds after which a program counts as one that does not end."""


@dataclass(frozen=True)
class Network:
    """Files of one network, and what it is fed.

    Attributes:
        exported: its C code.
        feeds: run → an array per input.
    """

    exported: CExport
    feeds: Sequence[Sequence[Array]]


@dataclass(frozen=True)
class Board:
    """A machine of qemu.

    Attributes:
        machine: its name.
        flags: of the compiler.
        memory: where the reset looks, and where code and data lie and how many bytes each has.
    """

    machine: str
    flags: tuple[str, ...]
    memory: tuple[int, int, int, int, int]


BOARDS: Final = {
    "cortex-m4": Board(
        "mps2-an386",
        ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
        (0x00000000, 0x00000400, (4 << 20) - 0x400, 0x20000000, 4 << 20),
    ),
    "cortex-m55": Board(
        "mps3-an547",
        ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"),
        (0x10000000, 0x11000000, 2 << 20, 0x31000000, 2 << 20),
    ),
}


def driver(networks: Sequence[Network]) -> str:
    """The program that runs them all."""
    lines = ["#include <stdint.h>", "#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>", ""]
    lines += [f'#include "{network.exported.name}.h"' for network in networks]
    lines += ["", _ARENA, "int main(void) {", '  FILE* in = fopen("in.bin", "rb");']
    lines += ['  FILE* out = fopen("out.bin", "wb");', "  int run;", "", "  if (in == NULL || out == NULL) {"]
    lines += ["    return 2;", "  }"]
    for network in networks:
        lines += _runs(network)
    return "\n".join([*lines, "  return fclose(out) == 0 ? 0 : 2;", "}", ""])


_ARENA: Final = """static void* begun; /* what malloc gave */

static void* arena_of(size_t bytes) {
  begun = malloc(bytes);
  if (begun != NULL && (uintptr_t)begun % 16 != 0) {
    free(begun);
    begun = malloc(bytes + 16);
  }
  if (begun == NULL) {
    exit(4);
  }
  return (char*)begun + (16 - (uintptr_t)begun % 16) % 16;
}
"""


def _runs(network: Network) -> list[str]:
    name, found = network.exported.name, network.exported
    upper = name.upper()
    lines = [f"  for (run = 0; run < {len(network.feeds)}; run++) {{"]
    lines += [
        f"    void* arena = arena_of({upper}_ARENA_BYTES);",
        f"    memset(arena, 0xa5 + run, {upper}_ARENA_BYTES);",
    ]
    for port in found.inputs:
        lines.append(f"    if (fread({port.function}(arena), 1, {port.bytes}, in) != {port.bytes}) {{")
        lines += ["      return 2;", "    }"]
    lines += [
        f"    if ({name}_run(arena) != 0) {{",
        f'      puts("{name} refused");',
        "      return 3;",
        "    }",
    ]
    for port in found.outputs:
        lines.append(f"    if (fwrite({port.function}(arena), 1, {port.bytes}, out) != {port.bytes}) {{")
        lines += ["      return 2;", "    }"]
    return [*lines, "    free(begun);", "  }"]


def write(folder: Path, networks: Sequence[Network]) -> list[str]:
    """All files in a folder; names of those to compile."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ["main.c"]
    (folder / "main.c").write_text(driver(networks))
    for network in networks:
        found = network.exported
        (folder / f"{found.name}.h").write_text(found.header)
        (folder / f"{found.name}.c").write_text(found.source)
        names.append(f"{found.name}.c")
    fed = b"".join(
        np.ascontiguousarray(array).tobytes()
        for network in networks
        for run in network.feeds
        for array in run
    )
    (folder / "in.bin").write_bytes(fed)
    return names


def outputs(folder: Path, networks: Sequence[Network]) -> list[list[list[Array]]]:
    """Network → run → an array per output, as the program wrote them."""
    data, place = (folder / "out.bin").read_bytes(), 0
    found: list[list[list[Array]]] = []
    for network in networks:
        runs = []
        for _ in network.feeds:
            arrays = []
            for port in network.exported.outputs:
                part = data[place : place + port.bytes]
                arrays.append(np.frombuffer(part, port.dtype).reshape(port.shape))
                place += port.bytes
            runs.append(arrays)
        found.append(runs)
    assert place == len(data)
    return found


def run_natively(
    compiler: str, folder: Path, networks: Sequence[Network], flags: Sequence[str] = ("-O1",)
) -> list[list[list[Array]]]:
    """What the networks give on this machine."""
    names = write(folder, networks)
    called([compiler, *WARNINGS, *flags, *names, "-o", "networks"], folder)
    called([str(folder / "networks")], folder)
    return outputs(folder, networks)


def run_on_arm(
    board: Board,
    folder: Path,
    networks: Sequence[Network],
    library: Path | None = None,
    include: Sequence[Path] = (),
) -> list[list[list[Array]]]:
    """What the networks give on a Cortex-M in qemu.

    Args:
        board: which.
        folder: for the files.
        networks: that it runs.
        library: CMSIS-NN for this processor; None: the loops of the files.
        include: folders of its headers.
    """
    names = write(folder, networks)
    compiled = ("arm-none-eabi-gcc", *board.flags, "-O2", "-ffunction-sections", "-fdata-sections")
    with_library = (
        () if library is None else ("-DCALIB8_CMSIS_NN", *(f"-isystem{place}" for place in include))
    )
    symbols = zip(("first_at", "code_at", "code_size", "data_at", "data_size"), board.memory, strict=True)
    for name in (*names, str(ARM / "startup.c")):
        strict = WARNINGS if not name.endswith("startup.c") else ()
        called([*compiled, *strict, *with_library, "-c", name, "-o", f"{Path(name).stem}.o"], folder)
    objects = [f"{Path(name).stem}.o" for name in (*names, "startup.c")]
    linked = ["--specs=rdimon.specs", "-nostartfiles", f"-T{ARM / 'board.ld'}", "-Wl,--gc-sections"]
    linked += [f"-Wl,--defsym={symbol}={value}" for symbol, value in symbols]
    called(
        [*compiled, *linked, *objects, *([] if library is None else [str(library)]), "-o", "networks.elf"],
        folder,
    )
    (folder / "out.bin").unlink(missing_ok=True)
    semihosting = ("-semihosting-config", "enable=on,target=native")
    called(
        ["qemu-system-arm", "-M", board.machine, "-nographic", "-monitor", "none", "-serial", "none",
         *semihosting, "-kernel", "networks.elf"],
        folder,
    )  # fmt: skip
    return outputs(folder, networks)


def called(command: Sequence[str], folder: Path) -> str:
    """What a command says; it has to end well."""
    path = shutil.which(command[0]) or command[0]
    done = subprocess.run(
        [path, *command[1:]], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, (
        f"{' '.join(command)}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    )
    return done.stdout
