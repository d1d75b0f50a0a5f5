"""Adds the networks of another processor to docs/results.md, beside those that the page has.

    python benchmarks/second_processor.py [NEW.json …] --page docs/results.md

The files are those of ``engine.py --json`` and ``jitter.py --json``, of one machine. Figures of the first
processor are read from the page itself: without files, as after ``engine.py --page``, they alone are new.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cold_start import cold_start_rows
from engine import joined
from jitter import HEADING
from jitter import line as jitter_line
from results import NOT_AHEAD, behind, cells_of, comparison_rows, machine_rows

TITLE: Final = "A second processor"
TEXT: Final = """The same measurement on a processor with about twice the products per cycle. The last two \
columns are those of the first processor where it has them: the ratio of the medians, and the share of the \
peak."""

FIRST: Final = ("ratio on the first", "of peak on it")
"""Titles of the last two columns."""


def first_figures(page: str) -> dict[tuple[str, str], tuple[str, str]]:
    """(network, threads) → median ratio and share of the peak, in the table of batch 1."""
    (table,) = re.findall(r"^## Networks, batch 1\n\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    rows = [cells_of(line) for line in table.splitlines()[2:]]
    return {(cells[0], cells[2]): (cells[-2], cells[-1]) for cells in rows}


def table(document: dict[str, Any], page: str) -> list[str]:
    """The networks of the new processor, with two columns of the first one."""
    first = first_figures(page)
    heading, rule, *rows = comparison_rows(document)
    found = [f"{heading} {' | '.join(FIRST)} |", f"{rule}---|---|"]
    for row in sorted(rows, key=cells_of):
        cells = cells_of(row)
        found.append(f"| {' | '.join((*cells, *first.get((cells[0], cells[2]), ('–', '–'))))} |")
    return found


def with_first_figures(text: str, page: str) -> str:
    """The section as it is, its last two columns taken from the table of the first processor."""
    first, lines, inside = first_figures(page), [], False
    for line in text.splitlines():
        cells = cells_of(line)
        inside = cells[-1] == FIRST[-1] or (inside and len(cells) > 1)
        if inside and cells[2].isdigit():
            cells[-2:] = first.get((cells[0], cells[2]), ("–", "–"))
            line = f"| {' | '.join(cells)} |"
        lines.append(line)
    return "\n".join(lines) + "\n\n"


EVENNESS: Final = """Median and 99th percentile of single runs, and runs per second of all sessions together \
(`benchmarks/jitter.py`). "4 × 2" are four sessions of two threads each, called from four threads of one \
process; "busy" means that as many other processes compute as there are processors."""


def section(document: dict[str, Any], page: str) -> Iterator[str]:
    """The lines of the section."""
    rows = table(document, page)
    yield from (f"## {TITLE}", "", TEXT, "", *machine_rows(document["machine"]), "", *rows, "")
    yield from ("### Not ahead", "", NOT_AHEAD, "", *behind(rows), "")
    if "cold_start" in document:
        yield from ("### Cold start of the second", "", *cold_start_rows(document["cold_start"]), "")
    if "jitter" in document:
        lines = (jitter_line(row) for row in document["jitter"])
        yield from ("### How even runs are", "", EVENNESS, "", *HEADING, *lines, "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("documents", type=Path, nargs="*")
    parser.add_argument("--page", type=Path, required=True)
    chosen = parser.parse_args()
    page = chosen.page.read_text()
    old = re.search(rf"^## {TITLE}\n.*?\n+(?=## )", page, flags=re.MULTILINE | re.DOTALL)
    if old is None and not chosen.documents:
        parser.error(f"{chosen.page} has no section '{TITLE}': give the files that it is made of")
    if chosen.documents:
        new = "\n".join(section(joined(chosen.documents), page)) + "\n"
    else:
        new = with_first_figures(old[0].rstrip("\n"), page)
    if old is not None:
        page = page.replace(old[0], "")
    place = page.index("## Networks, batch 8")
    chosen.page.write_text(page[:place] + new + page[place:])


if __name__ == "__main__":
    main()
