"""One HTML file that tells a run: it needs no other file, no library and no network.

    page_files/frame.html   the frame; $names are filled in
    page_files/page.css     light and dark, a phone, a wide screen, paper
    page_files/charts.js    histograms, codes, weights, candidates as SVG
    page_files/network.js   the drawing of the network
    page_files/page.js      sorting, searching, selecting

The numbers of a layer and of a tensor are each one JSON text in a <script> of its own, parsed when shown;
the facts of the whole (``facts``), which other tools read, stand in the head.
"""

from __future__ import annotations

import html
import math
from string import Template
from typing import Any, Final

from calib8.number_texts import decibels, percent
from calib8.report.harmless import harmless_json
from calib8.run_report.class_table import classes_section
from calib8.run_report.facts import ID
from calib8.run_report.facts_document import facts_document
from calib8.run_report.layout import laid_out
from calib8.run_report.looks import FOLDER, style
from calib8.run_report.marked_up import KINDS, Words
from calib8.run_report.sections import (
    candidates_section,
    layers_section,
    models_section,
    network_section,
    samples_section,
    surroundings_section,
    tensors_section,
    verdict_section,
    work_section,
)
from calib8.run_report.told import Channels, LayerRow, RunReport, TensorShown

_TITLES: Final = {
    "verdict": "Verdict", "models": "Models", "classes": "Classes", "work": "What was done",
    "candidates": "Candidates", "layers": "Layers", "network": "Network", "tensors": "Selected layer",
    "samples": "Worst samples", "surroundings": "Time and environment",
}  # fmt: skip


def page(report: RunReport, *, typed: bool = False) -> str:
    """The text of the page; equal reports give equal texts.

    Args:
        report: what is told.
        typed: texts name parameters as on the command line; else as in Python.
    """
    say = Words(typed)
    layout = laid_out([node.before for node in report.network])
    sections = {
        "verdict": verdict_section(report, say),
        "models": models_section(report, say),
        "classes": classes_section(report.classes, say),
        "candidates": candidates_section(report, say),
        "work": work_section(report.work, say),
        "layers": layers_section(report, say),
        "network": network_section(report, any(len(item.nodes) > 1 for item in layout.items)),
        "tensors": tensors_section(report, say),
        "samples": samples_section(report, say),
        "surroundings": surroundings_section(report, say),
    }
    there = {name: text for name, text in sections.items() if text}
    contents = "\n".join(f'<li><a href="#{name}">{_TITLES[name]}</a></li>' for name in there)
    if "network" in there and "tensors" in there:
        there["network"] = f'<div class="pair">\n{there["network"]}\n{there.pop("tensors")}\n</div>'
    frame = Template((FOLDER / "frame.html").read_text(encoding="utf-8"))
    scripts = ("charts.js", "network.js", "page.js")
    return frame.substitute(
        title=say(report.title),
        command=html.escape(report.command),
        facts=_script(ID, facts_document(report, say)),
        contents=contents,
        sections="\n".join(there.values()),
        data="\n".join(_data(report, layout, say)),
        style=style(),
        script="\n".join(
            (FOLDER / name).read_text(encoding="utf-8").replace('"use strict";\n', "") for name in scripts
        ),
    )


def _data(report: RunReport, layout: Any, say: Words) -> list[str]:
    """The numbers that the script reads."""
    found = [
        _script(f"layer-data-{place}", _layer(row, report, say)) for place, row in enumerate(report.layers)
    ]
    found += [_script(f"tensor-data-{place}", _tensor(one, say)) for place, one in enumerate(report.tensors)]
    if report.network:
        found.append(_script("network-data", _network(report, layout, say)))
    if report.candidates is not None:
        told = report.candidates
        shown = [
            {"name": say.plain(f"{one.name}, {one.floats} float nodes"), "cost": one.cost,
             "value": one.value, "front": one.front, "kept": one.kept, "chosen": one.chosen,
             "weights": one.weights, "latency": one.latency}
            for one in told.shown
        ]  # fmt: skip
        found.append(_script("candidates-data", {"promised": told.promised, "shown": shown}))
    return found


def _script(name: str, document: Any) -> str:
    return f'<script type="application/json" id="{name}">{harmless_json(document)}</script>'


def _layer(row: LayerRow, report: RunReport, say: Words) -> dict[str, Any]:
    return {
        "name": say.plain(row.name),
        "op": say.plain(row.op),
        "precision": row.precision,
        "why": say.plain(row.why),
        "local": _told(row.local_db),
        "cumulative": _told(row.cumulative_db),
        "weights_db": _told(row.weight_db),
        "macs": "" if row.macs is None else percent(row.macs),
        "parts": [say.plain(part) for part in row.parts],
        "tensors": [{"place": place, "name": say.plain(report.tensors[place].name)} for place in row.tensors],
        "weights": None if row.weights is None else _weights(row.weights),
    }


def _told(value: float | None) -> str:
    return "" if value is None else decibels(value)


def _weights(channels: Channels) -> dict[str, Any]:
    return {
        "count": channels.count,
        "together": channels.together,
        "low": packed(channels.low),
        "high": packed(channels.high),
    }


def _tensor(one: TensorShown, say: Words) -> dict[str, Any]:
    drawn = one.histogram
    return {
        "name": say.plain(one.name),
        "facts": say.plain(_facts(one)),
        "observed": [0.0, 0.0] if one.observed is None else [_short(end) for end in one.observed],
        "chosen": None if one.chosen is None else [_short(end) for end in one.chosen],
        "zeros": one.zeros,
        "width": None if drawn is None else drawn.width,
        "below": None if drawn is None else drawn.below,
        "counts": None if drawn is None else packed(drawn.counts),
        "codes": packed(one.codes),
        "first": one.first_code,
        "together": one.together,
    }


def _facts(one: TensorShown) -> str:
    """A sentence about a tensor: the text of its charts."""
    parts = []
    if one.values:
        parts.append(f"{one.values:,} values, {percent(one.zeros / one.values)} of them 0")
    if one.observed is not None:
        parts.append(f"seen {one.observed[0]:.4g} … {one.observed[1]:.4g}")
    if one.chosen is not None:
        by = f" by {one.method}" if one.method else ""
        parts.append(f"range {one.chosen[0]:.4g} … {one.chosen[1]:.4g}{by}")
    if one.clipped is not None:
        parts.append(f"{percent(one.clipped, 4)} clipped")
    parts.append(one.code or "no codes")
    return "; ".join(parts)


def _network(report: RunReport, layout: Any, say: Words) -> dict[str, Any]:
    return {
        "items": [{"nodes": item.nodes, "row": item.row, "x": item.x} for item in layout.items],
        "edges": [[edge.start, edge.end, edge.bends] for edge in layout.edges],
        "rows": layout.rows,
        "width": round(layout.width, 3),
        "nodes": [
            {"name": say.plain(node.name), "op": say.plain(node.op), "layer": node.layer,
             "precision": KINDS[node.precision]}
            for node in report.network
        ],
        "losses": [[_loss(row.local_db), _loss(row.cumulative_db)] for row in report.layers],
    }  # fmt: skip


def _loss(value: float | None) -> float | str | None:
    if value is None or math.isnan(value):
        return None
    return round(value, 2) if math.isfinite(value) else ("inf" if value > 0 else -999.0)


def packed(values: Any) -> str:
    """Numbers with three digits and commas between them; nothing stands for 0."""
    return ",".join(
        "" if value == 0 else f"{value:.3g}".replace("e+0", "e").replace("e+", "e") for value in values
    )


def _short(value: float) -> float:
    """Six digits: what a picture can show."""
    return float(f"{value:.6g}")
