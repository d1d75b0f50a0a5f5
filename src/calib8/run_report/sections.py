"""The parts of a report as HTML, in the order in which a reader wants them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rich.filesize import decimal

from calib8.number_texts import NOTHING, decibels
from calib8.run_report.marked_up import (
    Words,
    breakable,
    bullets,
    definitions,
    loss_cell,
    note,
    pill,
    section,
    table,
)
from calib8.run_report.told import Answer, Attempt, Figure, LayerRow, RunReport, SampleShown, Work


def verdict_section(report: RunReport, say: Words) -> str:
    """The word, the judge, the figures, the next command."""
    told = report.headline
    command = f'<div class="next"><h3>Go on with</h3><pre>{say(told.next)}</pre></div>' if told.next else ""
    body = (
        f'<p class="word">{say(told.word)}</p>\n<p class="judge">{say(told.text)}</p>\n'
        f"{definitions(told.figures, 'tiles', say)}\n{command}"
    )
    return section("verdict", "Verdict", body, f"verdict {told.state}")


def models_section(report: RunReport, say: Words) -> str:
    """Models side by side, a column each; figures that none of them has are left out."""
    models = report.models.rows
    if not models:
        return ""
    each = ((name, [one.cells[place] for one in models]) for place, name in enumerate(report.models.columns))
    rows = ([say(name), *map(say, cells)] for name, cells in each if set(cells) != {NOTHING})
    columns = ("figure", *(say.plain(one.name) for one in models))
    return section("models", "Models", table("Models side by side", columns, rows))


def work_section(work: Work, say: Words) -> str:
    """What was done, and what was found on the way."""
    parts = [definitions(work.facts, "facts", say)]
    if work.findings:
        rows = "".join(
            f"<li><strong>{say(one.where)}</strong>: {say(one.text)}</li>" for one in work.findings
        )
        parts.append(f'<h3>Causes</h3><ol class="notes">{rows}</ol>')
    if work.methods:
        told = (Figure(method, f"{count} tensor{'s' * (count != 1)}") for method, count in work.methods)
        parts.append("<h3>Methods that chose the ranges</h3>")
        parts.append(definitions(told, "facts small", say))
    if work.attempts:
        parts.append(f"<h3>What was tried</h3>{_attempts(work.attempts, say)}")
    if work.notes:
        parts.append(f"<h3>Notes</h3>{bullets(work.notes, say)}")
    return section("work", "What was done", "\n".join(part for part in parts if part))


def _attempts(attempts: Sequence[Attempt], say: Words) -> str:
    rows = []
    for one in attempts:
        gain = one.after_db - one.before_db
        gained = f"{gain:+.1f}".replace("-", "−") if math.isfinite(gain) else "–"
        notes = f'<br><span class="note">{"; ".join(map(say, one.notes))}</span>' if one.notes else ""
        cells = (_plain(one.before_db), _plain(one.after_db), gained, "yes" if one.kept else "no")
        rows.append([f"{breakable(one.name, say)}{notes}", *cells])
    return table("What was tried", ("tried", "before, dB", "after, dB", "gain, dB", "kept"), rows)


_COLUMNS = (
    ("name", "layer", "", "ascending"),
    ("op", "op", "left wide", "ascending"),
    ("precision", "computed in", "left", "ascending"),
    ("local", "alone, dB", "", "ascending"),
    ("cumulative", "up to here, dB", "", "ascending"),
    ("weights", "weights, dB", "wide", "ascending"),
    ("clipped", "clipped, %", "wide", "descending"),
)


def layers_section(report: RunReport, say: Words) -> str:
    """The table of layers."""
    if not report.layers:
        return ""
    head = "".join(
        f'<th scope="col" class="{css}"{_sorted(key, report)}><button type="button" data-sort="{key}" '
        f'data-first="{first}">{text}</button></th>'
        for key, text, css, first in _COLUMNS
    )
    rows = "\n".join(_layer(place, row, say) for place, row in enumerate(report.layers))
    count = len(report.layers)
    body = (
        f"{note(report.layers_note, say)}\n"
        '<p class="note">Alone: what this layer adds to a float network. Up to here: what has gathered from '
        "the input on. SQNR in decibels; 10 dB less is ten times the noise.</p>\n"
        '<div class="tools"><label class="search">Search <input id="search" type="search" autocomplete="off" '
        'placeholder="part of a name, op or reason"></label>'
        f'<span id="found" class="status" role="status">{count} layers</span></div>\n'
        '<div class="scroll tall" id="layers-list" role="region" tabindex="0" aria-label="Table of layers">'
        f'<table id="layers-table" aria-label="Layers"><thead><tr>{head}'
        f'<th scope="col" class="left wide">why</th></tr></thead><tbody>\n{rows}\n</tbody></table></div>'
    )
    return section("layers", "Layers", body)


def _sorted(key: str, report: RunReport) -> str:
    compared = any(row.local_db is not None for row in report.layers)
    return ' aria-sort="ascending"' if key == "local" and compared else ""


def _layer(place: int, row: LayerRow, say: Words) -> str:
    clipped = "–" if row.saturated is None else f"{100.0 * row.saturated:.3f}"
    return (
        f'<tr data-index="{place}" data-op="{say(row.op)}" data-precision="{row.precision}" '
        f'data-local="{figure(row.local_db)}" data-cumulative="{figure(row.cumulative_db)}" '
        f'data-weights="{figure(row.weight_db)}" data-clipped="{figure(row.saturated)}">'
        f'<th scope="row"><a href="#layer-{place}">{breakable(row.name, say)}</a></th>'
        f'<td class="left wide">{say(row.op) or "input"}</td><td class="left">{pill(row.precision)}</td>'
        f"<td>{loss_cell(row.local_db)}</td><td>{loss_cell(row.cumulative_db)}</td>"
        f'<td class="wide num">{_plain(row.weight_db)}</td><td class="wide num">{clipped}</td>'
        f'<td class="left wide why">{say(row.why)}</td></tr>'
    )


def figure(value: float | None) -> str:
    """A number as the script reads it; empty where there is none."""
    if value is None or math.isnan(value):
        return ""
    return f"{value:.6g}" if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _plain(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.1f}" if math.isfinite(value) else "exact"


def network_section(report: RunReport, blocks: bool) -> str:
    """The drawing with its tools; ``blocks``: some chains are blocks."""
    if not report.network:
        return ""
    compared = any(row.local_db is not None for row in report.layers)
    choices = [("local", "loss, alone"), ("cumulative", "loss, up to here")] if compared else []
    choices.append(("precision", "precision"))
    radios = "".join(
        f'<label><input type="radio" name="colour" value="{value}"{" checked" * (n == 0)}> {text}</label>'
        for n, (value, text) in enumerate(choices)
    )
    opening = (
        '<button type="button" class="button" id="open-all" aria-pressed="false">Open all chains</button>'
        if blocks
        else ""
    )
    chains = " Long chains stand as one block; a click opens one." if blocks else ""
    count = len(report.network)
    body = (
        f'<p class="note">From top to bottom. A click on a node selects its layer.{chains} Drag to move; '
        "Ctrl and the wheel, two fingers, or the keys + − 0 and the arrows zoom and move.</p>\n"
        f'<div class="tools"><fieldset><legend>Colour</legend>{radios}</fieldset>'
        '<button type="button" class="button" id="zoom-in" aria-label="Zoom in">+</button>'
        '<button type="button" class="button" id="zoom-out" aria-label="Zoom out">−</button>'
        f'<button type="button" class="button" id="zoom-all">Show all</button>{opening}</div>\n'
        '<div id="network-view"><svg id="network-svg" role="img" tabindex="0" '
        f'aria-label="The network of {count} nodes as a drawing; the table of layers holds the same"></svg>'
        "</div>\n"
        f'{_legends(report)}<p class="status" id="network-chosen" role="status"></p>'
    )
    return section("network", "Network", body)


def _legends(report: RunReport) -> str:
    losses = ("below 10 dB", "10 to 20 dB", "20 to 30 dB", "30 to 40 dB", "40 dB and more")
    loss = "".join(f'<li><i class="q{n}"></i>{text}</li>' for n, text in enumerate(losses))
    kinds = [("int8", "int8"), ("wide", "16-bit codes"), ("float", "float")]
    wide = any(node.precision == "16 bit" for node in report.network)
    precision = "".join(
        f'<li><i class="{css}"></i>{text}</li>' for css, text in kinds if css != "wide" or wide
    )
    return (
        f'<ul class="legend" id="legend-loss">{loss}<li><i class="none"></i>not compared</li></ul>'
        f'<ul class="legend" id="legend-precision" hidden>{precision}</ul>'
    )


BEFORE: Final = (
    "Before quantization: values per bin, on a logarithmic scale. The dot counts exact zeros; the lines are "
    "the bounds of the range, and what it clips is shaded."
)
AFTER: Final = (
    "After quantization: values per code, on a logarithmic scale; what is clipped stands at the ends."
)


def tensors_section(report: RunReport, say: Words) -> str:
    """The selected layer with its activations and weights; the script fills it in."""
    if not report.layers:
        return ""
    body = (
        f"{note(report.tensors_note, say)}\n"
        '<h3 id="layer-name" tabindex="-1">Select a layer</h3>\n'
        "<noscript><p>The charts need JavaScript; nothing is asked from the network.</p></noscript>\n"
        '<dl class="facts small" id="layer-facts"></dl>\n'
        '<div id="activations" hidden><div class="tools" id="layer-tensors" role="group" '
        'aria-label="Tensors of this layer"></div>\n'
        '<h3 id="tensor-name"></h3><p id="tensor-facts" role="status"></p>\n'
        '<div class="charts">'
        + _figure("histogram", BEFORE) + _figure("codes", AFTER)
        + "</div></div>\n"
        '<figure id="weights-figure" hidden><h3>Weights</h3><svg class="chart" id="weights-chart" role="img" '
        'aria-labelledby="weights-caption"></svg><figcaption id="weights-caption"></figcaption>'
        '<p class="status readout"></p></figure>'
    )  # fmt: skip
    return section("tensors", "Selected layer", body)


def _figure(name: str, caption: str) -> str:
    return (
        f'<figure id="{name}-figure" hidden><svg class="chart" id="{name}-chart" role="img" '
        f'aria-label="{caption}"></svg><figcaption>{caption}</figcaption><p class="status readout"></p>'
        "</figure>"
    )


def samples_section(report: RunReport, say: Words) -> str:
    """The worst samples with what both models answer."""
    if not report.samples:
        return ""
    items = "\n".join(_sample(one, say) for one in report.samples)
    boxes = any(one.int8_answer is not None and one.int8_answer.boxes for one in report.samples)
    legend = " Dashed boxes are FP32's, solid ones INT8's." if boxes else ""
    body = f'<p class="note">{say(report.samples_note)}{legend}</p>\n<ul class="samples">\n{items}\n</ul>'
    return section("samples", "Worst samples", body)


def _sample(one: SampleShown, say: Words) -> str:
    differs = ' <span class="differs">answers differ</span>' if one.same is False else ""
    answers = ""
    if one.float_answer is not None and one.int8_answer is not None:
        both = (("fp32", "FP32", one.float_answer), ("int8", "INT8", one.int8_answer))
        answers = "".join(
            f'<div class="{css}"><h4>{title}</h4>{_mask(title, answer, say, one.name)}'
            f"<ul>{''.join(f'<li>{say(line)}</li>' for line in answer.lines)}</ul></div>"
            for css, title, answer in both
        )
    return (
        f"<li>{_picture(one, say)}<h3>{breakable(one.name, say)}</h3>"
        f'<p class="status">SQNR {decibels(one.sqnr_db)}{differs}</p>'
        + (f'<div class="answers">{answers}</div>' if answers else "")
        + "</li>"
    )


def _picture(one: SampleShown, say: Words) -> str:
    if not one.picture:
        return ""
    width, height = one.size
    sides = (("int8", one.int8_answer), ("fp32", one.float_answer))  # dashes over the wider line
    boxes = "".join(
        f'<rect class="{css}" x="{box.left}" y="{box.top}" width="{max(box.right - box.left, 0.0):.4f}" '
        f'height="{max(box.bottom - box.top, 0.0):.4f}"></rect>'
        for css, answer in sides
        if answer is not None
        for box in answer.boxes
    )
    over = (
        f'<svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">{boxes}</svg>' if boxes else ""
    )
    return (
        f'<span class="frame"><img src="{one.picture}" alt="{say(one.name)}, as the model sees it" '
        f'width="{width}" height="{height}">{over}</span>'
    )


def _mask(title: str, answer: Answer, say: Words, name: str) -> str:
    if not answer.mask:
        return ""
    return f'<span class="frame"><img src="{answer.mask}" alt="Regions of {title} in {say(name)}"></span>'


_COSTS: Final = ("the share of multiply-accumulates that are not in int8", "the median time of a run")
_TIMED: Final = (
    "Nothing was timed: the multiply-accumulates stand for it.",
    "All models were timed in turns, behind the search.",
)


def candidates_section(report: RunReport, say: Words) -> str:
    """All models that a search tried."""
    found = report.candidates
    if found is None:
        return ""
    unit = f", {found.unit}" if found.unit else ""
    timed = all(one.latency is not None for one in found.shown)
    rows = (
        [
            f"{place}{', chosen' * one.chosen}", say(one.name), str(one.floats), f"{one.cost:.2f}",
            NOTHING if one.weights is None else decimal(one.weights),
            *([f"{one.latency:.3f}"] if timed else []), f"{one.value:.4g}", f"{one.bound:.4g}",
            "yes" if one.front else "no", "yes" if one.kept else "no",
        ]
        for place, one in enumerate(found.shown, 1)
    )  # fmt: skip
    columns = ("trial", "effort", "float nodes", "MACs in float, %", "weights", *["a run, ms"] * timed,
               f"{found.noun}{unit}", f"at worst{unit}", "on the front", "promise kept")  # fmt: skip
    better = "lower" if found.smaller_is_better else "higher"
    caption = (
        f"Each point is a model: its cost, {_COSTS[timed]}, and its "
        f"{say(found.noun)} ({better} is better). Filled points keep the promise (dotted line), the ring is "
        "the chosen model, and the dashed line joins those that none beats in both. The larger a point, the "
        f"more bytes its weights have. {_TIMED[timed]}"
    )
    body = (
        '<figure><svg class="chart" id="candidates-chart" role="img" '
        f'aria-label="{len(found.shown)} models by {"time" if timed else "cost"} and {say(found.noun)}; '
        'the table holds the same">'
        f"</svg><figcaption>{caption}</figcaption></figure>\n"
        f"{table('Models that were tried', columns, rows, left=(1,), wide=(2, 4, 6 + timed, 7 + timed))}"
    )
    return section("candidates", "Candidates", body)


def surroundings_section(report: RunReport, say: Words) -> str:
    """Times of the stages, and where it ran."""
    parts = []
    if report.timings:
        total = math.fsum(seconds for _, seconds in report.timings)
        rows = [[say(stage), f"{seconds:.1f}"] for stage, seconds in report.timings]
        rows.append(["all", f"{total:.1f}"])
        times = table("Times of the stages", ("stage", "seconds"), rows)
        parts.append(f'<div class="narrow">{times}</div>')
    if report.environment:
        parts.append(definitions(report.environment, "facts", say))
    return section("surroundings", "Time and environment", "\n".join(parts))
