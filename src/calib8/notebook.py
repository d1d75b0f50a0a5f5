"""Results as tables in notebooks: small HTML without scripts, colours or anything from the network.

    in_notebook(repr(found), grid(("layer", "SQNR dB"), found.layers, lambda one: (one.name, one.sqnr_db)))

Names come from files: all text is escaped, signs that cannot be printed too, and what is long is cut. Colours
and fonts are those of the notebook, whether it is light or dark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final, TypeVar

from calib8.number_texts import NOTHING, count
from calib8.parameters import Text, escaped

MOST_ROWS: Final = 20
"""Of a table; how many more there are is told below it."""

MOST_SIGNS: Final = 160
"""Of a cell; names of nodes may be longer than a screen."""

LONGEST_SENTENCE: Final = 600
"""Signs of a title or a sentence."""

_FIGURE: Final = re.compile(r"[-−]?(\d[\d,.]*|∞)( %)?|–")
_LEFT, _RIGHT = ' style="text-align:left"', ' style="text-align:right"'

Row = TypeVar("Row")


def in_notebook(title: str, *parts: str) -> str:
    """The HTML of a result.

    Args:
        title: one line, such as what ``repr`` gives; the brackets around it are left out.
        parts: what ``grid``, ``facts`` and ``notes`` gave, in this order.
    """
    line = title.removeprefix("<").removesuffix(">")
    return f"<div><p><b>{_text(line, LONGEST_SENTENCE)}</b></p>{''.join(parts)}</div>"


def grid(
    headers: Sequence[str], rows: Sequence[Row], cells: Callable[[Row], Sequence[object]], title: str = ""
) -> str:
    """A table with a row per entry, the first ``MOST_ROWS`` of them; nothing where there is none.

    Args:
        headers: of the columns.
        rows: what the rows are about; of those that are left out no cell is made.
        cells: one row's cells: texts, numbers, or None for what is not known.
        title: a line above the table.
    """
    if not rows:
        return ""
    head = "".join(f"<th{_LEFT}>{_text(header)}</th>" for header in headers)
    body = "".join(f"<tr>{''.join(map(_cell, cells(row)))}</tr>" for row in rows[:MOST_ROWS])
    above = f"<p>{_text(title)}</p>" if title else ""
    left_out = len(rows) - MOST_ROWS
    below = f"<p>… and {count(left_out, 'more row')}</p>" if left_out > 0 else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """A table of two columns: what, and how much of it."""
    lines = "".join(f"<tr><th{_LEFT}>{_text(name)}</th>{_cell(value)}</tr>" for name, value in pairs)
    return f"<table><tbody>{lines}</tbody></table>" if lines else ""


def notes(sentences: Sequence[str]) -> str:
    """A list of sentences, the first ``MOST_ROWS`` of them; nothing where there is none."""
    if not sentences:
        return ""
    more = len(sentences) - MOST_ROWS
    told = [_text(one, LONGEST_SENTENCE) for one in sentences[:MOST_ROWS]]
    told += [f"… and {more:,} more"] if more > 0 else []
    return f"<ul>{''.join(f'<li>{one}</li>' for one in told)}</ul>"


def shortened(text: str, most: int = MOST_SIGNS) -> str:
    """The text, or its beginning and ``…`` where it has more signs."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _cell(value: object) -> str:
    text = _shown(value)
    return f"<td{_RIGHT if _FIGURE.fullmatch(text) else _LEFT}>{_text(text)}</td>"


def _shown(value: object) -> str:
    """A value as people read it."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else Text(str(value))


def _text(text: str, most: int = MOST_SIGNS) -> str:
    """Safe between tags and as an attribute, on one line."""
    return escape(escaped(shortened(str(Text(text)), most)))
