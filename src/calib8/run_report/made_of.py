"""What a quantized file says of how it was made, and what its bytes are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_ir as ir
from rich.filesize import decimal

from calib8.analysis.file_parts import file_parts
from calib8.data.image_words import image_words
from calib8.data.preprocess import Preprocess
from calib8.errors import Calib8Error
from calib8.json_texts import parse_json
from calib8.model.metadata import stored_entries
from calib8.run_report.told import Figure


def how_it_was_made(model: ir.Model) -> Iterator[Figure]:
    """Target, codes, ranges, repairs, preprocessing, as calib8 stored them; nothing of a foreign file."""
    stored = stored_entries(model)
    if not stored:
        return
    yield Figure("made by", f"calib8 {stored.get('version', '')}".strip())
    if "target" in stored:
        weights = stored.get("weights", "")
        yield Figure("target", stored["target"], f"{weights} weights" if weights else "")
    if "activations" in stored:
        yield Figure("activations", stored["activations"])
    if "method" in stored:
        yield Figure("ranges", f"by {stored['method']}")
    if "repairs" in stored:
        yield Figure("repairs", ", ".join(_names(stored["repairs"])) or "none was kept")
    floats = _names(stored.get("keep_float", "[]"))
    if floats:
        yield Figure("kept in float", ", ".join(floats))
    if "preprocess" in stored:
        yield from _images(stored["preprocess"])


def what_its_bytes_are(model: ir.Model, size: int | None) -> Iterator[Figure]:
    """Why the file is not exactly a quarter of the float one; nothing where its size is not known."""
    if size is None:
        return
    parts = file_parts(model, size)
    yield Figure(
        "the int8 file", decimal(size),
        f"weights in one byte each {decimal(parts.codes)}, biases in int32 {decimal(parts.biases)}, scales "
        f"and what stays float {decimal(parts.floats)}, nodes and names {decimal(parts.rest)}: only weights "
        "become a quarter, so small files shrink less",
    )  # fmt: skip


def _names(text: str) -> list[str]:
    """A list of names in JSON; nothing where it is none."""
    try:
        found: Any = parse_json(text)
    except ValueError:
        return []
    return [str(one) for one in found] if isinstance(found, list) else []


def _images(text: str) -> Iterator[Figure]:
    try:
        yield Figure("images of calibration", image_words(Preprocess.from_json(text, "metadata")))
    except Calib8Error:  # of another version: no reason to have no report
        return
