"""Adds the networks of another processor to docs/results.md, beside those that the page has.

    python benchmarks/other_processors.py [NEW.json …] --page docs/results.md [--which second|third]

The files are those of ``engine.py --json`` and ``jitter.py --json``, of one machine. Figures of the first
processor are read from the page itself: without files, as after ``engine.py --page``, they alone are new, in
the sections of all other processors.
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

TEXT: Final = """The same measurement on {what}. The last two columns are those of the first processor where \
it has them: the ratio of the medians, and the share of the peak."""

WHAT: Final = {
    "second": "a processor with about twice the products per cycle",
    "third": "a processor of another maker, for which no kernel was tuned",
}
"""Which processor → what is to be known of it."""

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


def title(which: str) -> str:
    return f"A {which} processor"


def section(which: str, document: dict[str, Any], page: str) -> Iterator[str]:
    """The lines of the section."""
    rows, text = table(document, page), TEXT.format(what=WHAT[which])
    yield from (f"## {title(which)}", "", text, "", *machine_rows(document["machine"]), "", *rows, "")
    yield from ("### Not ahead", "", NOT_AHEAD, "", *behind(rows), "")
    if "cold_start" in document:
        yield from (f"### Cold start of the {which}", "", *cold_start_rows(document["cold_start"]), "")
    if "jitter" in document:
        lines = (jitter_line(row) for row in document["jitter"])
        yield from (f"### How even runs of the {which} are", "", EVENNESS, "", *HEADING, *lines, "")


def old_section(which: str, page: str) -> str:
    """The section as the page has it, empty where there is none."""
    found = re.search(rf"^## {title(which)}\n.*?\n+(?=## )", page, flags=re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def placed(which: str, new: str, page: str) -> str:
    """The page with a section in place of the old one, or behind those of the processors before."""
    if old := old_section(which, page):
        return page.replace(old, new)
    place = page.index("## Networks, batch 8")
    return page[:place] + new + page[place:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("documents", type=Path, nargs="*")
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--which", choices=list(WHAT), default="second")
    chosen = parser.parse_args()
    page = chosen.page.read_text()
    if chosen.documents:
        new = "\n".join(section(chosen.which, joined(chosen.documents), page)) + "\n"
        chosen.page.write_text(placed(chosen.which, new, page))
        return
    there = {which: old for which in WHAT if (old := old_section(which, page))}
    if not there:
        parser.error(f"{chosen.page} has no section of another processor: give the files that it is made of")
    for which, old in there.items():
        page = placed(which, with_first_figures(old.rstrip("\n"), page), page)
    chosen.page.write_text(page)


if __name__ == "__main__":
    main()
