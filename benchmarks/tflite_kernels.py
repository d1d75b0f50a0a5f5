"""How far TFLite's kernels lie apart, and calib8's profiles from each of them: operator by operator.

    python benchmarks/tflite_kernels.py --cases 100 --json kernels.json --page docs/numerics.md

The random models of the conformance tests run in LiteRT's reference, optimized and XNNPACK kernels and in
calib8 under every profile, given the same codes. Figures are shares of output codes that differ from the
reference kernels', and by how much at most. Without ``--page`` the table is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import Calib8Error
from calib8.files import atomic_output
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.program.reference.executor import run_program
from calib8.tflite.graph import Graph
from calib8.tflite.read import parse
from calib8.tflite.write import serialize
from other_profiles import NoTwinError, under_profile

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "tflite_models"))

KERNELS: Final = ("optimized", "xnnpack")
OURS: Final = ("tflite", "single", "onnx")
COLUMNS: Final = (*KERNELS, *OURS)
TITLES: Final = {
    "optimized": "LiteRT optimized",
    "xnnpack": "LiteRT XNNPACK",
    "tflite": "calib8 `tflite`",
    "single": "calib8 `single`",
    "onnx": "calib8 `onnx`",
}
STANDS_FOR: Final = {("SUM", "int8"): "uint8"}
"""Operator and type whose reference kernel is at fault → the type that it is held to; marked in the table."""

BEGIN, END = "<!-- kernels: begin -->", "<!-- kernels: end -->"


@dataclass
class Distance:
    """Output codes compared, how many differ, by how much at most, and models on which kernels crashed."""

    codes: int = 0
    differing: int = 0
    largest: int = 0
    crashed: int = 0

    def add(self, got: Sequence[npt.NDArray[Any]], wanted: Sequence[npt.NDArray[Any]]) -> None:
        """One more run."""
        for mine, theirs in zip(got, wanted, strict=True):
            apart = np.abs(mine.astype(np.float64) - theirs.astype(np.float64))
            self.codes += apart.size
            self.differing += int(np.count_nonzero(apart))
            self.largest = max(self.largest, int(apart.max(initial=0)))

    def join(self, other: Distance) -> None:
        """Adds what was found elsewhere."""
        self.codes += other.codes
        self.differing += other.differing
        self.largest = max(self.largest, other.largest)

    @property
    def text(self) -> str:
        """For a table."""
        if not self.codes:
            return "–"
        share = f"{100 * self.differing / self.codes:.2g} %" if self.differing else "0"
        largest = f", up to {self.largest}" if self.largest > 1 else ""
        return share + largest + (f"; {self.crashed} crash" if self.crashed else "")


def measured(op: str, dtype: str, column: str, seeds: Sequence[int]) -> Distance:
    """Distance of one column from the reference kernels on some random models of an operator and type."""
    from litert import litert_outputs
    from single_op import feeds

    found, generator = Distance(), all_generators()[op]
    for seed in seeds:
        rng = np.random.default_rng(10_000 + seed)
        model = serialize(generator(rng, dtype))
        graph = parse(model)
        inputs = feeds(rng, graph)
        wanted = _reference(op, dtype, parse(model), inputs)
        if column in KERNELS:
            found.add(litert_outputs(model, inputs, column), wanted)
            continue
        program = lower_tflite(graph)
        named = {port.name: array for port, array in zip(program.inputs, inputs, strict=True)}
        with suppress(NoTwinError, Calib8Error):
            found.add(run_program(under_profile(program, graph, column), named), wanted)
    return found


def _reference(
    op: str, dtype: str, graph: Graph, inputs: Sequence[npt.NDArray[Any]]
) -> list[npt.NDArray[Any]]:
    """Outputs of the reference kernels; that of SUM reads int8 codes as uint8, so uint8 stands for it."""
    from litert import litert_outputs
    from single_op import moved_to_uint8

    if (op, dtype) not in STANDS_FOR:
        return litert_outputs(serialize(graph), inputs)
    moved = litert_outputs(serialize(moved_to_uint8(graph)), [x.view(np.uint8) ^ 128 for x in inputs])
    return [(y ^ 128).view(np.int8) for y in moved]


def measured_apart(op: str, dtype: str, column: str, cases: int) -> Distance:
    """``measured`` in a process of its own; where that dies, every model in one: some kernels crash."""
    try:
        return _in_child(op, dtype, column, range(cases))
    except BrokenProcessPool:
        total = Distance()
    for seed in range(cases):
        try:
            total.join(_in_child(op, dtype, column, [seed]))
        except BrokenProcessPool:
            total.crashed += 1
    return total


def _in_child(op: str, dtype: str, column: str, seeds: Sequence[int]) -> Distance:
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        return pool.submit(measured, op, dtype, column, seeds).result()


def rows(found: dict[str, dict[str, dict[str, Distance]]]) -> list[str]:
    """A table: a line per operator and type; types that agree in all columns share one."""
    lines = ["| operator | type | " + " | ".join(TITLES[name] for name in COLUMNS) + " |"]
    lines.append("|---" * (len(COLUMNS) + 2) + "|")
    for op, types in found.items():
        cells = {dtype: [distances[name].text for name in COLUMNS] for dtype, distances in types.items()}
        together: dict[tuple[str, ...], list[str]] = {}
        for dtype, texts in cells.items():
            title = f"{dtype}*" if (op, dtype) in STANDS_FOR else dtype
            together.setdefault(tuple(texts), []).append(title)
        lines += [
            f"| {op} | {', '.join(dtypes)} | {' | '.join(texts)} |" for texts, dtypes in together.items()
        ]
    return lines


def with_table(page: str, lines: Sequence[str]) -> str:
    """The page with the table between its marks.

    Raises:
        ValueError: the marks are missing.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return "\n".join([before + begin, "", *lines, "", end + after])


def all_generators() -> dict[str, Callable[[np.random.Generator, str], Graph]]:
    """Operator → what makes random models of it."""
    import cases_arith
    import cases_moves

    return cases_arith.CASES_OF | cases_moves.CASES_OF


def types_of(op: str) -> tuple[str, ...]:
    """The types of codes that LiteRT has an operator for."""
    import cases_arith
    import cases_moves

    if op in cases_moves.INT8_ONLY:
        return ("int8",)
    return cases_arith.TYPES_OF.get(op, ("int8", "uint8"))


def main() -> None:
    """Measures, then prints the table or puts it into a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100, help="random models per operator and type")
    parser.add_argument("--ops", nargs="*", help="only these operators")
    parser.add_argument("--json", type=Path, help="the figures")
    parser.add_argument("--page", type=Path, help="a page with the marks of the table")
    options = parser.parse_args()
    found = {
        op: {
            dtype: {column: measured_apart(op, dtype, column, options.cases) for column in COLUMNS}
            for dtype in types_of(op)
        }
        for op in (options.ops or sorted(all_generators()))
    }
    if options.json is not None:
        figures = {
            op: {
                dtype: {name: vars(d) for name, d in distances.items()} for dtype, distances in types.items()
            }
            for op, types in found.items()
        }
        with atomic_output(options.json) as path:
            path.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    if options.page is None:
        print("\n".join(rows(found)))
        return
    text = with_table(options.page.read_text(encoding="utf-8"), rows(found))
    with atomic_output(options.page) as path:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
