"""Profile tengine beside Tengine's own runtime: codes that differ, operator by operator, network by network.

    python benchmarks/tengine_rounding.py BUILD                          random models of every operator
    python benchmarks/tengine_rounding.py BUILD --net M.tmfile [INPUT]   an int8 network, random codes or .npy

BUILD is the folder in which Tengine was built (``benchmarks/tengine_runtime.py``). Every model runs in a
process of its own, and one that ends its process is told. calib8 computes with NumPy's definition of each
instruction, or with ``--engine`` in the engine.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pickle
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from calib8 import InferenceSession
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.write import write_tmfile

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from coded_nets import OPERATORS, image_of  # noqa: E402 - what tests share lies in a folder of theirs
from tengine_runtime import MOST_AXES, PRECISIONS, Options, library  # noqa: E402

Codes = npt.NDArray[np.int8]


def outputs(build: Path, path: Path, feeds: Sequence[Sequence[Codes]]) -> list[list[Codes]]:
    """All outputs of an int8 model in Tengine, feed after feed; none for what it does not run."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        os.dup2(quiet, 1)
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(_computed(build, path, feeds), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    found: list[list[Codes]] = pickle.loads(data) if data else []
    return found


def _computed(build: Path, path: Path, feeds: Sequence[Sequence[Codes]]) -> list[list[Codes]]:
    tengine = library(build)
    graph = ctypes.c_void_p(tengine.create_graph(None, b"tengine", str(path).encode()))
    if not graph:
        return []
    buffers = [np.ascontiguousarray(array).copy() for array in feeds[0]]
    for number, array in enumerate(buffers):
        tensor = ctypes.c_void_p(tengine.get_graph_input_tensor(graph, number, 0))
        tengine.set_tensor_shape(tensor, (ctypes.c_int * array.ndim)(*array.shape), array.ndim)
        tengine.set_tensor_buffer(tensor, ctypes.c_void_p(array.ctypes.data), ctypes.c_int(array.nbytes))
    if tengine.prerun_graph_multithread(graph, Options(1, 0, PRECISIONS["int8"], 0)) < 0:
        return []
    found: list[list[Codes]] = []
    for feed in feeds:
        for buffer, array in zip(buffers, feed, strict=True):
            buffer[...] = array
        if tengine.run_graph(graph, 1) < 0:
            return found
        count = tengine.get_graph_output_node_number(graph)
        found.append(
            [
                _output(tengine, graph, node, number)
                for node in range(count)
                for number in range(tengine.get_node_output_number(_node(tengine, graph, node)))
            ]
        )
    return found


def _node(tengine: Any, graph: Any, number: int) -> Any:
    tengine.get_graph_output_node.restype = ctypes.c_void_p
    return ctypes.c_void_p(tengine.get_graph_output_node(graph, number))


def _output(tengine: Any, graph: Any, node: int, number: int) -> Codes:
    tensor = ctypes.c_void_p(tengine.get_graph_output_tensor(graph, node, number))
    sizes = (ctypes.c_int * MOST_AXES)()
    axes = tengine.get_tensor_shape(tensor, sizes, MOST_AXES)
    many = int(np.prod(sizes[:axes]))
    place = tengine.get_tensor_buffer(tensor)
    return np.frombuffer(bytes((ctypes.c_int8 * many).from_address(place)), np.int8).reshape(sizes[:axes])


def random_inputs(session: InferenceSession, rng: np.random.Generator) -> list[Codes]:
    return [image_of(rng, tuple(map(int, spec.shape))) for spec in session.inputs]


class Found(NamedTuple):
    """Feeds that Tengine ran, the codes of their outputs, and how many differ."""

    ran: int
    codes: int
    differing: int


def compared(build: Path, path: Path, session: InferenceSession, feeds: Sequence[Sequence[Codes]]) -> Found:
    """A model in calib8 and in Tengine."""
    names = [spec.name for spec in session.inputs]
    wanted = outputs(build, path, feeds)
    codes = differing = 0
    for feed, theirs in zip(feeds, wanted, strict=False):
        ours = session.run(None, dict(zip(names, feed, strict=True)))
        for one, other in zip(ours, theirs, strict=True):
            codes += one.size
            differing += int((one.reshape(-1) != other.reshape(-1)).sum())
    return Found(len(wanted), codes, differing)


def tell_operators(build: Path, runtime: str, cases: int, begin: str) -> None:
    """A row for every operator whose name begins so."""
    print("| operator | models | codes | differing |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.tmfile"
        for name, make in OPERATORS.items():
            if not name.startswith(begin):
                continue
            told = []
            for seed in range(cases):
                rng = np.random.default_rng([len(name), seed])
                write_tmfile(make(rng), path)
                session = InferenceSession(path, runtime=runtime)
                told.append(compared(build, path, session, [random_inputs(session, rng)]))
            ran, codes, differing = (sum(numbers) for numbers in zip(*told, strict=True))
            lost = f"; {cases - ran} not run" if ran < cases else ""
            print(f"| {name} | {ran}{lost} | {codes:,} | {differing:,} |", flush=True)


def tell_network(build: Path, runtime: str, path: Path, given: Path | None, cases: int) -> None:
    """A row for a network: nodes, outputs that were compared, their codes, how many differ."""
    session, rng = InferenceSession(path, runtime=runtime), np.random.default_rng(1)
    shape = tuple(map(int, session.inputs[0].shape))
    feeds = [random_inputs(session, rng) for _ in range(cases)]
    if given is not None:
        feeds = [[array.reshape(shape)] for array in np.load(given)]
    found = compared(build, path, session, feeds)
    nodes = sum(node.op not in ("Const", "InputOp") for node in read_tmfile(path).nodes)
    print(f"| {path.name} | {nodes} | {found.ran} of {len(feeds)} | {found.codes:,} | {found.differing:,} |")


def main() -> None:
    """Compares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=Path)
    parser.add_argument("--net", nargs="+", type=Path, metavar=("M.tmfile", "INPUT.npy"))
    parser.add_argument("--only", default="", metavar="TEXT", help="operators whose names begin so")
    parser.add_argument(
        "--cases", type=int, default=20, help="models of each operator, or inputs of a network"
    )
    parser.add_argument("--engine", action="store_true", help="in calib8's engine in place of NumPy")
    settings = parser.parse_args()
    runtime = "calib8" if settings.engine else "reference"
    if settings.net:
        given = settings.net[1] if len(settings.net) > 1 else None
        tell_network(settings.build, runtime, settings.net[0], given, settings.cases)
    else:
        tell_operators(settings.build, runtime, settings.cases, settings.only)


if __name__ == "__main__":
    main()
