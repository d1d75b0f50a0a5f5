"""What a tracker is told of a run: values without any tracker, under the same names in each of them.

figures    name → number                 sqnr_db/boxes → 31.4
odd        name → inf, -inf or nan       figures that no tracker can draw, as words
table      rows of layers, in the order of the network
series     column → value of each layer  layers/local_sqnr_db → 40.1, 38.7 …
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

Cell: TypeAlias = str | float | None

LAYER_COLUMNS: Final = (
    "layer", "op", "precision", "local_sqnr_db", "cumulative_sqnr_db", "weight_sqnr_db", "saturated",
    "float_reason",
)  # fmt: skip
"""Of the table of layers."""

DRAWN: Final = ("local_sqnr_db", "cumulative_sqnr_db", "weight_sqnr_db", "saturated")
"""Columns of it that are series too."""

_ODD_SIGNS: Final = re.compile(r"[^\w\-. ]+", re.ASCII)
_LONGEST_NAME: Final = 200


@dataclass(frozen=True)
class Table:
    """Rows under headings; a cell without a value is None."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()

    def column(self, name: str) -> list[Cell]:
        """The cells under a heading."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


@dataclass(frozen=True)
class Part:
    """One of several things that a run made or looked at, such as a candidate of ``tune``.

    Attributes:
        name: of it.
        parameters: what it was made with, name → value.
        figures: name → number.
        chosen: it is the result of the run.
    """

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    chosen: bool = False


@dataclass(frozen=True)
class RunRecord:
    """A run.

    Attributes:
        name: of the run, such as ``quantize net.int8.onnx``.
        command: that did it, such as ``quantize``.
        verdict: its word, such as ``kept``; empty where nothing was judged.
        grounds: what the word comes from, in a sentence.
        parameters: options and facts, name → value.
        figures: of the result, name → number, which may be infinite or NaN.
        layers: of the network.
        noun: what the parts are, such as ``candidates``.
        parts: in the order in which they were made.
        environment: versions and processor, name → value.
        page: the HTML page that tells the run; empty without.
        models: files to be uploaded.
    """

    name: str
    command: str
    verdict: str = ""
    grounds: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    layers: Table = Table()
    noun: str = "parts"
    parts: tuple[Part, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    page: str = ""
    models: tuple[Path, ...] = ()

    def series(self) -> dict[str, list[tuple[int, float]]]:
        """Name → step and number: of layers by their place, of parts by theirs; finite ones alone."""
        found: dict[str, list[tuple[int, float]]] = {}
        for name in DRAWN if self.layers.rows else ():
            cells = enumerate(self.layers.column(name))
            told = [(step, cell) for step, cell in cells if isinstance(cell, float) and math.isfinite(cell)]
            found |= {f"layers/{name}": told} if told else {}
        for step, part in enumerate(self.parts):
            for name, number in finite(part.figures).items():
                found.setdefault(f"{self.noun}/{name}", []).append((step, number))
        return found

    def table_of_parts(self) -> Table:
        """One row per part: step, name, whether it was chosen, then all parameters and figures."""
        keys = dict.fromkeys(name for part in self.parts for name in part.parameters)
        figures = dict.fromkeys(name for part in self.parts for name in part.figures)
        rows = tuple(
            (
                float(step), part.name, "yes" if part.chosen else "",
                *(part.parameters.get(name) for name in keys), *(part.figures.get(name) for name in figures),
            )
            for step, part in enumerate(self.parts)
        )  # fmt: skip
        return Table(("step", "name", "chosen", *keys, *figures), rows)


def finite(figures: Mapping[str, float]) -> dict[str, float]:
    """The figures that a tracker can draw."""
    return {name: float(number) for name, number in figures.items() if math.isfinite(number)}


def odd(figures: Mapping[str, float]) -> dict[str, str]:
    """The others, as words: ``inf``, ``-inf`` or ``nan``."""
    return {name: str(float(number)) for name, number in figures.items() if not math.isfinite(number)}


def by_name(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Figures under names that every tracker takes; a second one of a name has its number behind it."""
    found: dict[str, float] = {}
    for name, number in pairs:
        free = plain = plain_name(name)
        again = 1
        while free in found:
            again += 1
            free = f"{plain}-{again}"
        found[free] = number
    return found


def plain_name(name: str) -> str:
    """A name of letters, digits and ``_-. /`` that leads out of no folder: ``a[0:4]//b`` → ``a_0_4_/b``."""
    parts = (_ODD_SIGNS.sub("_", part).strip() for part in name.split("/"))
    kept = "/".join(part for part in parts if part and part.strip("."))
    return kept[:_LONGEST_NAME].rstrip("/. ") or "unnamed"
