"""Calibration tables and their differences, for people and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from calib8.cli.render import plain_table
from calib8.cli.terminal import Terminal
from calib8.number_texts import NOTHING, count, percent_cell

if TYPE_CHECKING:
    from calib8.formats.difference import Difference
    from calib8.formats.table_file import TableFile
    from calib8.qparams import QuantSpec
    from calib8.table import Range


def say_table(terminal: Terminal, file: TableFile, name: str, spec: QuantSpec) -> None:
    """One line per range, with scale and zero point in the code ``spec`` called ``name``."""
    from calib8.formats.tables import FORMATS
    from calib8.qparams import activation_qparams

    rows = plain_table(file.keys.removesuffix("s"))
    for heading in ("minimum", "maximum", "scale", "zero point", "clipped %"):
        rows.add_column(heading, justify="right")
    rows.add_column("method")
    for tensor, entry in file.table.entries.items():
        q = activation_qparams(entry.range.min, entry.range.max, spec)
        clipped = percent_cell(entry.clipped) if entry.count else NOTHING
        bounds = (f"{entry.range.min:.4g}", f"{entry.range.max:.4g}")
        rows.add_row(tensor, *bounds, f"{q.scale:.6g}", str(q.zero_point), clipped, entry.method)
    terminal.show(rows)
    terminal.say(f"{FORMATS[file.format].title}, {count(len(file.table.entries), 'range')}; scales of {name}")
    if file.without_scale:
        terminal.say(f"without a scale, float: {', '.join(file.without_scale)}")
    if file.weight_scales:
        terminal.say(f"scales of {count(len(file.weight_scales), 'weight')} beside them")


def table_document(path: Path, file: TableFile, name: str, spec: QuantSpec) -> dict[str, Any]:
    """What ``say_table`` tells, and the rest of the file."""
    from calib8.qparams import activation_qparams

    tensors = []
    for tensor, entry in file.table.entries.items():
        q = activation_qparams(entry.range.min, entry.range.max, spec)
        tensors.append(
            {
                "tensor": tensor,
                "range": _bounds(entry.range),
                "scale": q.scale,
                "zero_point": q.zero_point,
                "method": entry.method,
                "clipped": entry.clipped if entry.count else None,
            }
        )
    return {
        "table": str(path),
        "format": file.format,
        "keys": file.keys,
        "type": name,
        "model_hash": file.table.model_hash or None,
        "tensors": tensors,
        "without_scale": list(file.without_scale),
        "weight_scales": {weight: list(scales) for weight, scales in file.weight_scales.items()},
    }


def say_difference(terminal: Terminal, found: Difference, paths: tuple[Path, Path]) -> None:
    """One line per tensor of both tables, then what only one of them has."""
    rows = plain_table("tensor")
    for heading in ("threshold", "other", "ratio", "range", "other range"):
        rows.add_column(heading, justify="right")
    for pair in found.pairs:
        ratio = NOTHING if pair.ratio is None else f"{pair.ratio:.4f}"
        limits = (f"{pair.left.magnitude:.4g}", f"{pair.right.magnitude:.4g}")
        rows.add_row(pair.tensor, *limits, ratio, _range_text(pair.left), _range_text(pair.right))
    terminal.show(rows)
    different = sum(pair.differs for pair in found.pairs)
    terminal.say(f"{different:,} of {count(len(found.pairs), 'range')} in both tables differ")
    for path, names in zip(paths, (found.only_left, found.only_right), strict=True):
        if names:
            terminal.say(f"only in {path}: {', '.join(names)}")


def difference_document(found: Difference, paths: tuple[Path, Path]) -> dict[str, Any]:
    """What ``say_difference`` tells."""
    return {
        "table": str(paths[0]),
        "other": str(paths[1]),
        "tensors": [
            {
                "tensor": pair.tensor,
                "range": _bounds(pair.left),
                "other_range": _bounds(pair.right),
                "ratio": pair.ratio,
                "differs": pair.differs,
            }
            for pair in found.pairs
        ],
        "only_in_table": list(found.only_left),
        "only_in_other": list(found.only_right),
    }


def _range_text(chosen: Range) -> str:
    return f"{chosen.min:.4g} … {chosen.max:.4g}"


def _bounds(chosen: Range) -> list[float]:
    return [chosen.min, chosen.max]
