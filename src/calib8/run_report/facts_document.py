"""What a report tells as a document of JSON: the facts that its page holds for the viewer and other tools."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from calib8.run_report.facts import FORMAT, VERSION
from calib8.run_report.marked_up import Words
from calib8.run_report.told import Figure, LayerRow, RunReport


def facts_document(report: RunReport, say: Words) -> dict[str, Any]:
    """The facts of a report; ``calib8.run_report.facts.facts_in`` reads them.

    Args:
        report: what is told.
        say: how texts are worded.
    """
    headline, work = report.headline, report.work
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": say.plain(report.title),
        "command": report.command,
        "verdict": {
            "state": headline.state,
            "word": say.plain(headline.word),
            "text": say.plain(headline.text),
        },
        "figures": _figures(headline.figures, say),
        "next": say.plain(headline.next),
        "options": _figures(work.facts, say),
        "methods": [{"name": say.plain(name), "tensors": count} for name, count in work.methods],
        "attempts": [
            {"name": say.plain(one.name), "before_db": decibels_in_json(one.before_db),
             "after_db": decibels_in_json(one.after_db), "kept": one.kept}
            for one in work.attempts
        ],
        "notes": [say.plain(text) for text in work.notes],
        "models": {
            "columns": list(map(say.plain, report.models.columns)),
            "rows": [
                {"name": say.plain(row.name), "cells": list(map(say.plain, row.cells))}
                for row in report.models.rows
            ],
        },
        "nodes": dict(sorted(Counter(node.precision for node in report.network).items())),
        "seconds": [
            {"stage": say.plain(stage), "seconds": round(seconds, 3)} for stage, seconds in report.timings
        ],
        "environment": _figures(report.environment, say),
        "layers": [_layer(row, say) for row in report.layers],
    }  # fmt: skip


def _figures(figures: Iterable[Figure], say: Words) -> list[dict[str, str]]:
    return [
        {"label": say.plain(one.label), "value": say.plain(one.value), "note": say.plain(one.note)}
        for one in figures
    ]


def _layer(row: LayerRow, say: Words) -> dict[str, Any]:
    return {
        "name": say.plain(row.name),
        "op": say.plain(row.op),
        "precision": row.precision,
        "local_db": decibels_in_json(row.local_db),
        "cumulative_db": decibels_in_json(row.cumulative_db),
        "weight_db": decibels_in_json(row.weight_db),
    }


def decibels_in_json(value: float | None) -> float | str | None:
    """With three digits behind the point; ``inf`` and ``-inf`` as texts; None for what is not known."""
    if value is None or math.isnan(value):
        return None
    return round(value, 3) if math.isfinite(value) else ("inf" if value > 0 else "-inf")
