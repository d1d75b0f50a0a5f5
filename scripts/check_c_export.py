"""C code of networks in programs of C: here, and on Cortex-M4 and M55 in qemu, with and without CMSIS-NN.

    python scripts/check_c_export.py                            small random programs of every instruction
    python scripts/check_c_export.py MODEL.tflite INPUTS.npy    a model, and what it is fed: [runs, …]
    python scripts/check_c_export.py … --cmsis-nn FOLDER        also with CMSIS-NN

Every output is compared byte for byte with that of calib8's session. It needs gcc, and for Cortex-M the
Debian packages gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm. FOLDER is a copy of
github.com/ARM-software/CMSIS-NN; it is compiled for both processors.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import UnsupportedModelError
from calib8.exporting.c.export import to_c
from calib8.program.program import Program
from calib8.session import InferenceSession

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = ("", "exporting", "program", "tflite_models")
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in TESTS]

from c_runs import BOARDS, SANITIZERS, Network, called, run_natively, run_on_arm  # noqa: E402 - of the tests
from exported import random_feeds  # noqa: E402

Array = npt.NDArray[Any]
Outputs = list[list[list[Array]]]
FOREIGN: Final = ("f16", "f32", "flt", "s4", "lstm", "svdf")
"""Parts of the names of files of CMSIS-NN that no C code of calib8 calls."""


def of_model(path: Path, inputs: Path, count: int) -> tuple[list[Network], Outputs]:
    """A model, and what calib8's engine gives for real inputs of its first input."""
    program = InferenceSession(path, runtime="reference", profile="tflite").program
    session, exported = InferenceSession(program), to_c(program, "net", name=path.name)
    fed = np.load(inputs)[:count].reshape(-1, *exported.inputs[0].shape).astype(exported.inputs[0].dtype)
    name = session.get_inputs()[0].name
    print(f"{path.name}: {len(fed)} inputs, {exported.flash_bytes:,} bytes of constants,")
    print(f"  arena {exported.arena_bytes:,}, with CMSIS-NN {exported.cmsis_nn_bytes} without and with MVE")
    return [Network(exported, [[one] for one in fed])], [[session.run(None, {name: one}) for one in fed]]


def of_instructions(count: int) -> tuple[list[Network], Outputs]:
    """Random programs of every instruction, and what calib8's engine gives for random codes."""
    from test_c_export import MAKERS, no_form

    networks: list[Network] = []
    wanted: Outputs = []
    for name, make in MAKERS.items():
        for seed in range(count):
            program = make(np.random.default_rng(seed))
            if no_form(program) is None:
                _add(program, f"{name}_{seed}", seed, networks, wanted)
    print(f"{len(networks)} random programs of {len(MAKERS)} kinds")
    return networks, wanted


def _add(program: Program, name: str, seed: int, networks: list[Network], wanted: Outputs) -> None:
    session = InferenceSession(program)
    fed = [random_feeds(program, np.random.default_rng([seed, run])) for run in range(2)]
    feeds = [[feeds[port.name] for port in program.inputs] for feeds in fed]
    networks.append(Network(to_c(program, name), feeds))
    wanted.append([session.run(None, feeds) for feeds in fed])


def cmsis_nn(sources: Path, folder: Path, flags: Sequence[str]) -> Path:
    """The library for one processor."""
    files = [path for path in sorted((sources / "Source").rglob("*.c"))
             if not any(part in path.name for part in FOREIGN)]  # fmt: skip
    folder.mkdir()
    command = ["arm-none-eabi-gcc", *flags, "-O2", "-ffunction-sections", f"-I{sources / 'Include'}", "-c"]
    called([*command, *map(str, files)], folder)
    objects = sorted(path.name for path in folder.glob("*.o"))
    called(["arm-none-eabi-ar", "rcs", "libcmsis-nn.a", *objects], folder)
    return folder / "libcmsis-nn.a"


def compare(what: str, networks: Sequence[Network], wanted: Outputs, run: Callable[[], Outputs]) -> None:
    """Ends the script where one byte differs."""
    given = run()
    for network, want, got in zip(networks, wanted, given, strict=True):
        for number, (outputs, results) in enumerate(zip(want, got, strict=True)):
            for one, other in zip(outputs, results, strict=True):
                if one.reshape(other.shape).tobytes() != other.tobytes():
                    raise SystemExit(f"{what}: {network.exported.name} differs in run {number}")
    print(f"  {what}: the same bytes", flush=True)


def sizes(folder: Path) -> str:
    """Code and constants of the network as the compiler made it."""
    text = called(["arm-none-eabi-size", "net.o"], folder).splitlines()[-1].split()
    return (
        f"    net.o: {int(text[0]):,} bytes of flash, {int(text[1]) + int(text[2]):,} of RAM beside the arena"
    )


def check(networks: list[Network], wanted: Outputs, sources: Path | None, folder: Path) -> None:
    """On every machine."""
    for title, flags in (("gcc -O2", ("-O2",)), ("sanitizers", ("-O1", *SANITIZERS))):
        place = folder / title.replace(" ", "")
        compare(
            title,
            networks,
            wanted,
            lambda place=place, flags=flags: run_natively("gcc", place, networks, flags),
        )
    for name, board in BOARDS.items():
        place = folder / name
        compare(name, networks, wanted, lambda board=board, place=place: run_on_arm(board, place, networks))
        if len(networks) == 1:
            print(sizes(place))
        if sources is not None:
            library = cmsis_nn(sources, folder / f"library-{name}", board.flags)
            include, place = [sources / "Include"], folder / f"{name}-cmsis-nn"
            compare(
                f"{name}, CMSIS-NN", networks, wanted,
                lambda board=board, place=place, library=library, include=include:
                run_on_arm(board, place, networks, library, include),
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("inputs", nargs="?", type=Path)
    parser.add_argument(
        "--count", type=int, default=20, help="inputs of a model; else programs per instruction"
    )
    parser.add_argument("--cmsis-nn", type=Path, help="folder with the sources of CMSIS-NN")
    given = parser.parse_args()
    if given.model is not None and given.inputs is None:
        parser.error("give INPUTS.npy with a model")
    sources = None if given.cmsis_nn is None else given.cmsis_nn.resolve()
    try:
        made = (
            of_instructions(given.count)
            if given.model is None
            else of_model(given.model, given.inputs, given.count)
        )
    except UnsupportedModelError as error:
        raise SystemExit(str(error)) from error
    with tempfile.TemporaryDirectory() as folder:
        check(*made, sources, Path(folder))


if __name__ == "__main__":
    main()
