"""What an output is that belongs to no detection: by its shape, and by the last function in front of it.

[N, C]              Softmax or Sigmoid: probabilities    length 1: embedding    else logits
[N, C]              a layer and BatchNormalization, or a usual length of vectors: embedding
[N, T, C]           Softmax over the last axis: steps of time times characters
[T, N, C] too       from a picture, one layer behind all steps of an LSTM, GRU or RNN: the same
                    from a picture, one layer of many numbers: perhaps the same
[N, C, H, W]        from a picture, almost as large as it, or of free size: a map
[N, K, 2 or 3]      as many points as known sets have: keypoints
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calib8.ops.groups import WEIGHTED_OPS
from calib8.tasks.branches import Sureness
from calib8.tasks.characters import Rows
from calib8.tasks.composition import Size
from calib8.tasks.kinds import Kind
from calib8.tasks.seen import Found, Seen, SeenPart

POINTS: Final = (17, 21, 33, 68, 98, 106, 133, 468, 478)
"""Points of bodies, hands and faces, as data sets have them."""

VECTORS: Final = (64, 96, 128, 192, 256, 320, 384, 512, 768, 1024, 1280, 1536, 2048)
"""Usual lengths of embeddings; numbers of classes are others."""

ALPHABET: Final = 11
"""The fewest characters: digits and the blank."""

COARSEST: Final = 4
"""A map has at least this part of the rows and columns of the picture."""


def single_output(seen: Seen, outputs: Sequence[Seen], picture: Sequence[Size]) -> tuple[Found, ...]:
    """What an output is, or its parts where nothing is known of it as a whole.

    Args:
        seen: the output.
        outputs: all of them.
        picture: rows and columns of the input; empty where it is no picture.
    """
    kind, sureness, why = _as_a_whole(seen, outputs, picture)
    if kind != "other" or _is_put_together(seen.parts):
        return (Found(seen.whole.piece, kind, sureness, why, seen.whole.nature == "chosen"),)
    return tuple(Found(part.piece, "other", "guessed", "", part.nature == "chosen") for part in seen.parts)


def _is_put_together(parts: Sequence[SeenPart]) -> bool:
    """A vector that was put together number by number is one thing; so is what is not put together."""
    return all(part.size <= 1 for part in parts)


def _as_a_whole(seen: Seen, outputs: Sequence[Seen], picture: Sequence[Size]) -> tuple[Kind, Sureness, str]:
    sizes, parts = seen.sizes, len(seen.parts)
    vector = len(sizes) >= 2 and all(size == 1 for size in sizes[2:])
    if vector:
        return _vector(seen, sizes[1], alone=len(outputs) == 1)
    if parts > 1:
        return "other", "guessed", ""
    if len(sizes) == 4 and _is_map(sizes[2:], picture):
        return "map", "likely", "as large as the picture"
    if len(sizes) == 4 and _is_map(sizes[1:3], picture) and all(isinstance(size, int) for size in sizes[1:3]):
        return "map", "likely", "as large as the picture"
    if len(sizes) == 3 and sizes[2] in (2, 3) and sizes[1] in POINTS:
        return "keypoints", "likely", f"{sizes[1]} points"
    if len(sizes) == 3 and sizes[1:] == tuple(picture) and len(picture) == 2:
        return "map", "likely", "as large as the picture"
    if len(sizes) == 3 and len(outputs) == 1 and seen.whole.softmax is not None and (
        seen.whole.softmax == sizes[2]
    ):  # fmt: skip
        return "ctc", "likely", "Softmax over the last of three axes"
    return _rows(seen.rows, picture, alone=len(outputs) == 1)


def _rows(rows: Rows | None, picture: Sequence[Size], *, alone: bool) -> tuple[Kind, Sureness, str]:
    """[N, T, C], [T, N, C], [N, 1, T, C]."""
    if rows is None or not picture or not alone or rows.length < ALPHABET:
        return "other", "guessed", ""
    if rows.recurrent:
        return "ctc", "likely", "a layer behind each step of a recurrent one that reads a picture"
    if rows.length in VECTORS:
        return "other", "guessed", ""
    return "ctc", "guessed", f"{rows.length} numbers in each step of a sequence"


def _vector(seen: Seen, length: Size, *, alone: bool) -> tuple[Kind, Sureness, str]:
    """[N, C], [N, C, 1, 1]."""
    nature = seen.whole.nature
    if nature == "unit":
        return "embedding", "sure", "divided by its length"
    if len(seen.parts) > 1 and not _is_put_together(seen.parts):
        return "other", "guessed", ""
    if nature in ("sigmoid", "softmax"):
        return "probabilities", "sure" if nature == "softmax" else "likely", f"behind {nature.capitalize()}"
    if nature == "normalized":
        return "embedding", "likely", "a layer and BatchNormalization, and no classes"
    if not isinstance(length, int) or nature in ("chosen", "placed"):
        return "other", "guessed", ""
    if length in [points * axes for points in POINTS for axes in (2, 3)]:
        return "keypoints", "guessed", "as many numbers as coordinates of a known set of points"
    if not alone or length < 2:
        return "other", "guessed", ""
    if length in VECTORS and seen.whole.layer in WEIGHTED_OPS - {"ConvTranspose"}:
        return "embedding", "guessed", f"{length} numbers, and no Softmax"
    return "logits", "likely", "one number per class"


def _is_map(sizes: Sequence[Size], picture: Sequence[Size]) -> bool:
    """Rows and columns of a map of a picture: free ones, or not much fewer than the picture has."""
    if len(picture) != 2 or any(size == 1 for size in sizes):
        return False
    if not all(isinstance(size, int) for size in (*sizes, *picture)):
        return not all(isinstance(size, int) for size in sizes)
    pairs = zip(sizes, picture, strict=True)
    return all(int(size or 0) * COARSEST >= int(full or 0) for size, full in pairs)
