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
from dataclasses import dataclass
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
BEGIN, END = "<!-- kernels: begin -->", "<!-- kernels: end -->"


@dataclass
class Distance:
    """Output codes compared, how many differ, and by how much at most."""

    codes: int = 0
    differing: int = 0
    largest: int = 0

    def add(self, got: Sequence[npt.NDArray[Any]], wanted: Sequence[npt.NDArray[Any]]) -> None:
        """One more run."""
        for mine, theirs in zip(got, wanted, strict=True):
            apart = np.abs(mine.astype(np.float64) - theirs.astype(np.float64))
            self.codes += apart.size
            self.differing += int(np.count_nonzero(apart))
            self.largest = max(self.largest, int(np.ceil(apart.max(initial=0))))

    @property
    def text(self) -> str:
        """For a table."""
        if not self.codes:
            return "–"
        if not self.differing:
            return "0"
        share = 100 * self.differing / self.codes
        return f"{share:.2g} %" + (f", up to {self.largest}" if self.largest > 1 else "")


def measured(
    generator: Callable[[np.random.Generator, str], Graph], dtype: str, cases: int
) -> dict[str, Distance]:
    """Distances from the reference kernels of one operator and type."""
    from litert import litert_outputs
    from single_op import feeds

    found = {name: Distance() for name in COLUMNS}
    for seed in range(cases):
        rng = np.random.default_rng(10_000 + seed)
        graph = parse(serialize(generator(rng, dtype)))
        model, inputs = serialize(graph), feeds(rng, graph)
        wanted = litert_outputs(model, inputs)
        for kernels in KERNELS:
            found[kernels].add(litert_outputs(model, inputs, kernels), wanted)
        program = lower_tflite(graph)
        named = {port.name: array for port, array in zip(program.inputs, inputs, strict=True)}
        for profile in OURS:
            try:
                twin = under_profile(program, graph, profile)
            except (NoTwinError, Calib8Error):
                continue
            found[profile].add(run_program(twin, named), wanted)
    return found


def rows(found: dict[str, dict[str, dict[str, Distance]]]) -> list[str]:
    """A table: a line per operator and type; types that agree in all columns share one."""
    lines = ["| operator | type | " + " | ".join(TITLES[name] for name in COLUMNS) + " |"]
    lines.append("|---" * (len(COLUMNS) + 2) + "|")
    for op, types in found.items():
        cells = {dtype: [distances[name].text for name in COLUMNS] for dtype, distances in types.items()}
        together: dict[tuple[str, ...], list[str]] = {}
        for dtype, texts in cells.items():
            together.setdefault(tuple(texts), []).append(dtype)
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


def main() -> None:
    """Measures, then prints the table or puts it into a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100, help="random models per operator and type")
    parser.add_argument("--ops", nargs="*", help="only these operators")
    parser.add_argument("--json", type=Path, help="the figures")
    parser.add_argument("--page", type=Path, help="a page with the marks of the table")
    options = parser.parse_args()
    generators = all_generators()
    found = {
        op: {dtype: measured(generators[op], dtype, options.cases) for dtype in ("int8", "uint8")}
        for op in (options.ops or sorted(generators))
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
