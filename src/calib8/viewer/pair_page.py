"""The page of two reports: what is told of both, layer by layer too, and both pages themselves."""

from __future__ import annotations

import html
from collections.abc import Sequence

from calib8.number_texts import NOTHING
from calib8.run_report.facts import LayerFacts, PageFacts, Unread
from calib8.run_report.marked_up import breakable, loss_cell, note, pill, section
from calib8.viewer.better import which_is_better
from calib8.viewer.frame import (
    SAY,
    box,
    framed,
    heading,
    link,
    moment,
    number,
    pair_address,
    search_box,
    verdict,
)
from calib8.viewer.pair import (
    LayerPair,
    Row,
    attempt_rows,
    figure_rows,
    layer_pairs,
    method_rows,
    node_rows,
    other_samples,
    time_rows,
)
from calib8.viewer.reports import Report

_EVEN = 0.05
"""Decibels that count as no change: less than is shown."""


def pair_page(left: Report, right: Report) -> str:
    """The page.

    Args:
        left, right: reports with all that they tell.
    """
    parts = [section("verdicts", "Verdicts", _verdicts(left, right))]
    one, other = left.facts, right.facts
    if isinstance(one, PageFacts) and isinstance(other, PageFacts):
        parts += _facts(one, other)
    parts.append(
        section("pages", "Both pages", f'<div class="two">{_frame("A", left)}{_frame("B", right)}</div>')
    )
    above = (
        '<nav aria-label="Other pages"><ul><li><a href="./">All reports</a></li>'
        f'<li><a href="{pair_address(right, left)}">Exchange A and B</a></li></ul></nav>'
    )
    return framed(f"{left.title} and {right.title}", "\n".join(filter(None, parts)), above)


def _facts(left: PageFacts, right: PageFacts) -> list[str]:
    layers = layer_pairs(left.layers, right.layers)
    apart = other_samples(left, right)
    return [
        section("better", "Which is better", note(which_is_better(left, right), SAY)),
        section("samples-differ", "Other samples", note(apart, SAY)) if apart else "",
        _table("figures", "Figures", figure_rows(left.figures, right.figures), change=True),
        _table("nodes", "Nodes by precision", node_rows(left, right), change=True),
        section("layers-of-both", "Layers", _layers(layers)),
        _table("options", "Options", figure_rows(left.options, right.options)),
        _table("methods", "Methods that chose ranges", method_rows(left, right), change=True),
        _table("attempts", "What was tried", attempt_rows(left, right)),
        _table("times", "Times", time_rows(left, right), change=True),
        _table("environment", "Environment", figure_rows(left.environment, right.environment)),
    ]


def _verdicts(left: Report, right: Report) -> str:
    return f'<div class="two">{_told("A", left)}{_told("B", right)}</div>'


def _told(letter: str, report: Report) -> str:
    facts = report.facts
    where = f'<span class="where">{breakable(report.path, SAY)}</span>'
    about = f'<p><span class="letter">{letter}</span>{link(report)}{where}</p>'
    if isinstance(facts, Unread):
        return f"<div>{about}{note(facts.why, SAY)}</div>"
    text = f"<p>{verdict(facts.state, facts.word)}</p>{note(facts.text, SAY)}"
    return f'<div>{about}{text}<p class="note">{SAY(facts.command)}, {moment(report.written)}</p></div>'


def _table(name: str, title: str, rows: Sequence[Row], *, change: bool = False) -> str:
    """What both tell, what differs marked; nothing where neither tells anything.

    Args:
        name, title: of the section.
        rows: things that are told.
        change: with a column of changes.
    """
    if not rows:
        return ""
    columns = ["", "A", "B", *["B − A"] * change]
    head = "".join(f'<th scope="col">{one}</th>' if one else "<td></td>" for one in columns)
    body = "\n".join(_row(row, change) for row in rows)
    label = html.escape(f"{title} of A and B")
    table = (
        f'<div class="scroll compared" role="region" tabindex="0" aria-label="{label}">'
        f'<table aria-label="{label}"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'
    )
    return section(name, title, table)


def _row(row: Row, change: bool) -> str:
    cells = [row.left, row.right, *[row.change] * change]
    looks = ' class="unlike"' if row.differs else ""
    shown = "".join(f"<td>{SAY(one)}</td>" for one in cells)
    return f'<tr{looks}><th scope="row">{SAY(row.label)}</th>{shown}</tr>'


def _layers(pairs: Sequence[LayerPair]) -> str:
    if not pairs:
        return ""
    both = sum(pair.left is not None and pair.right is not None for pair in pairs)
    text = "SQNR in dB of each layer alone, and of the model up to it. B − A: of the layer alone."
    if both < len(pairs):
        text += f" Layers of the same name: {both} of {len(pairs)}."
    columns = (
        heading("layer", "name"), heading("op", "op", css="left wide"),
        heading("A alone", "left"), heading("B alone", "right"),
        heading("B − A", "change", sorted_now="ascending"),
        heading("A up to here", "upleft", css="wide"), heading("B up to here", "upright", css="wide"),
        heading("computed in", "precision", css="left wide"),
    )  # fmt: skip
    rows = "\n".join(map(_layer, pairs))
    return (
        f"{note(text, SAY)}"
        f'<div class="tools">{search_box("layers", "Search", "layers")}</div>'
        '<div class="scroll tall" role="region" tabindex="0" aria-label="Layers of A and B">'
        '<table id="layers" data-searched aria-label="Layers of A and B">'
        f"<thead><tr>{''.join(columns)}</tr></thead><tbody>\n{rows}\n</tbody></table></div>"
    )


def _layer(pair: LayerPair) -> str:
    known, left, right = pair.known, pair.left, pair.right
    precisions = " ".join(dict.fromkeys(one.precision for one in (left, right) if one is not None))
    keys = {
        "name": SAY.plain(known.name), "op": SAY.plain(known.op), "precision": precisions,
        "left": _loss(left), "right": _loss(right), "change": number(pair.change),
        "upleft": number(None if left is None else left.cumulative_db),
        "upright": number(None if right is None else right.cumulative_db),
        "words": SAY.plain(f"{known.name} {known.op} {precisions}"),
    }  # fmt: skip
    data = "".join(f' data-{key}="{html.escape(value)}"' for key, value in keys.items())
    alone = "".join(
        f"<td>{NOTHING if one is None else loss_cell(one.local_db)}</td>" for one in (left, right)
    )
    upto = "".join(
        f'<td class="wide">{NOTHING if one is None else loss_cell(one.cumulative_db)}</td>'
        for one in (left, right)
    )
    return (
        f'<tr{data}><th scope="row">{breakable(known.name, SAY)}</th>'
        f'<td class="left wide">{SAY(known.op)}</td>{alone}<td>{_changed(pair.change)}</td>{upto}'
        f'<td class="left wide">{_computed(left, right)}</td></tr>'
    )


def _loss(layer: LayerFacts | None) -> str:
    return number(None if layer is None else layer.local_db)


def _changed(change: float | None) -> str:
    if change is None:
        return NOTHING
    if abs(change) < _EVEN:
        return "0.0"
    css = "better" if change > 0 else "worse"
    shown = f"{change:+.1f}".replace("inf", "∞").replace("-", "−")
    return f'<span class="num {css}">{shown}</span>'


def _computed(left: LayerFacts | None, right: LayerFacts | None) -> str:
    pills = [NOTHING if one is None else pill(one.precision) for one in (left, right)]
    return pills[0] if pills[0] == pills[1] else " → ".join(pills)


def _frame(letter: str, report: Report) -> str:
    name = f'<p><span class="letter">{letter}</span>{link(report)}</p>'
    return f"<div>{name}{box(report, f'{letter}: {report.title}')}</div>"
