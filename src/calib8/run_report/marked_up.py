"""Pieces of HTML: texts that cannot break out, figures, lists and tables."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from calib8.parameters import Text, on_command_line
from calib8.report.harmless import printable
from calib8.run_report.told import Figure, Precision

LIMITS: Final = (10.0, 20.0, 30.0, 40.0)
"""Decibels that part the colours of losses; ``network.js`` has the same."""

FULL: Final = 60.0
"""Decibels of a full meter."""

KINDS: Final[dict[Precision, str]] = {"int8": "int8", "16 bit": "wide", "float": "float", "input": "input"}
"""Precision → its class in the page."""


@dataclass(frozen=True)
class Words:
    """How texts that name parameters are worded.

    Attributes:
        typed: as on the command line; else as in Python.
    """

    typed: bool = False

    def plain(self, text: str) -> str:
        """A text as it is read, without signs that no page may hold."""
        return printable(on_command_line(text) if self.typed else str(Text(text)))

    def __call__(self, text: str) -> str:
        """The same as HTML."""
        return html.escape(self.plain(text))


def breakable(name: str, say: Words) -> str:
    """A long name that a line may end in, behind the signs that part it."""
    text = say(name)
    for sign in ("/", "_", "."):
        text = text.replace(sign, f"{sign}<wbr>")
    return text


def section(name: str, title: str, body: str, css: str = "") -> str:
    """A part of the page with its heading; nothing where there is no body."""
    if not body:
        return ""
    looks = f' class="{css}"' if css else ""
    return (
        f'<section id="{name}"{looks} aria-labelledby="{name}-title">\n'
        f'<h2 id="{name}-title">{title}</h2>\n{body}\n</section>'
    )


def note(text: str, say: Words) -> str:
    """A sentence in small print; nothing without text."""
    return f'<p class="note">{say(text)}</p>' if text else ""


def definitions(figures: Iterable[Figure], css: str, say: Words) -> str:
    """Figures as a list of terms; nothing without any."""
    rows = "".join(
        f'<div><dt>{say(one.label)}</dt><dd class="value">{say(one.value)}</dd>'
        + (f'<dd class="more">{say(one.note)}</dd>' if one.note else "")
        + "</div>"
        for one in figures
    )
    return f'<dl class="{css}">{rows}</dl>' if rows else ""


def bullets(texts: Sequence[str], say: Words) -> str:
    """Texts as a list; nothing without any."""
    rows = "".join(f"<li>{say(text)}</li>" for text in texts)
    return f'<ul class="notes">{rows}</ul>' if rows else ""


def table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (),
    wide: Sequence[int] = (),
) -> str:  # fmt: skip
    """A table that scrolls by itself where it is wide.

    Args:
        caption: what it is, for who cannot see it.
        columns: headings, texts.
        rows: cells as HTML, the first one names the row.
        left: places of columns beside the first one that hold texts.
        wide: places of columns that a phone has no room for.
    """
    classes = [["left"] * (place in left) + ["wide"] * (place in wide) for place in range(len(columns))]
    looks = [f' class="{" ".join(names)}"' if names else "" for names in classes]
    head = "".join(
        f'<th scope="col"{css}>{html.escape(one)}</th>' for one, css in zip(columns, looks, strict=True)
    )
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>'
        + "".join(f"<td{css}>{cell}</td>" for cell, css in zip(row[1:], looks[1:], strict=True))
        + "</tr>\n"
        for row in rows
    )
    name = html.escape(caption)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{name}"><table aria-label="{name}">'
        f"<thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>"
    )


def pill(precision: Precision) -> str:
    """A precision in its colour."""
    return f'<span class="pill {KINDS[precision]}">{precision}</span>'


def loss_class(value: float) -> str:
    """Class of a loss in dB, ``q0`` (the worst) … ``q4``."""
    return f"q{sum(value >= limit for limit in LIMITS)}"


def loss_cell(value: float | None) -> str:
    """A figure in dB with a meter below it."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "exact" if value > 0 else "−∞"
    share = min(max(value / FULL, 0.0), 1.0)
    return (
        f'<span class="num">{value:.1f}</span><span class="meter" aria-hidden="true">'
        f'<i class="{loss_class(value)}" style="width:{100.0 * share:.0f}%"></i></span>'
    )
