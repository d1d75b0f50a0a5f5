"""The facts of a page: what it tells as one JSON text, which is found without reading the rest.

    <script type="application/json" id="calib8-report">{"format":"calib8 report","version":1,…}</script>

It stands near the beginning of the page. Pages come from anywhere, so that nothing in it is taken on trust;
``docs/viewer.md`` has all fields, ``facts_document`` writes them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, TypeVar, get_args

from calib8.run_report.told import Figure, ModelRow, Models, Precision
from calib8.tasks.limits import State

FORMAT: Final = "calib8 report"
VERSION: Final = 1
ID: Final = "calib8-report"
OPENING: Final = f'<script type="application/json" id="{ID}">'
CLOSING: Final = "</script>"

HEAD: Final = 1 << 16
"""Bytes of a page in which its facts begin."""

MOST: Final = 1 << 24
"""Bytes that facts may have: those of 100,000 layers."""

TAIL: Final = 1 << 10
END: Final = b"</html>"
"""What stands in so many of its last bytes."""

_STATES: Final[tuple[State, ...]] = get_args(State)
_PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)
Read = TypeVar("Read")
Known = TypeVar("Known", bound=str)
NO_MODELS: Final = Models()


@dataclass(frozen=True)
class LayerFacts:
    """A layer: see ``calib8.run_report.told.LayerRow``."""

    name: str
    op: str
    precision: Precision
    local_db: float | None
    cumulative_db: float | None
    weight_db: float | None


@dataclass(frozen=True)
class Tried:
    """What was tried to keep the accuracy: see ``calib8.run_report.told.Attempt``."""

    name: str
    before_db: float | None
    after_db: float | None
    kept: bool


@dataclass(frozen=True)
class PageFacts:
    """What a page tells, with texts as they are read.

    Attributes:
        title: what was looked at.
        command: that did it.
        state, word, text: the verdict.
        figures: accuracy, size, speed.
        next: the command to go on with; empty where there is none.
        options: with what it was done: target, data, effort.
        methods: method that chose ranges → of how many tensors.
        attempts: repairs or remedies.
        notes: notes, cautions and warnings.
        models: side by side.
        nodes: precision → how many nodes of the network; empty: not known.
        seconds: stage → how long it took.
        environment: versions, processor.
        layers: in the order of the page.
    """

    title: str
    command: str
    state: State
    word: str
    text: str
    figures: tuple[Figure, ...] = ()
    next: str = ""
    options: tuple[Figure, ...] = ()
    methods: tuple[tuple[str, int], ...] = ()
    attempts: tuple[Tried, ...] = ()
    notes: tuple[str, ...] = ()
    models: Models = NO_MODELS
    nodes: tuple[tuple[str, int], ...] = ()
    seconds: tuple[tuple[str, float], ...] = ()
    environment: tuple[Figure, ...] = ()
    layers: tuple[LayerFacts, ...] = ()


@dataclass(frozen=True)
class Unread:
    """A report whose facts are not known: ``why`` is a sentence, ``title`` may be empty."""

    why: str
    title: str = ""


class _OddError(Exception):
    """A part of the facts is not what it should be."""


def facts_in(file: BinaryIO) -> PageFacts | Unread | None:
    """The facts of a page; None: it is no report.

    Args:
        file: a page that was opened, at its beginning. No more than the facts and its end is read of it.
    """
    head = file.read(HEAD)
    start = head.find(OPENING.encode())
    if start < 0:
        return None
    held = head[start + len(OPENING) :]
    if CLOSING.encode() not in held:
        held += file.read(MOST)
    text, found, _ = held.partition(CLOSING.encode())
    if not found:
        return Unread("Its facts have no end: the page is cut off, or too large.")
    try:
        facts = _facts(json.loads(text, parse_constant=_no_number))
        return facts if _has_end(file) else Unread("The page is cut off: its end is missing.", facts.title)
    except _OddError as error:
        return Unread(f"Its facts are broken: {error}.")
    except (ValueError, OverflowError, RecursionError):
        return Unread("Its facts are broken: they are no JSON.")


def _has_end(file: BinaryIO) -> bool:
    """Whether the page ends as one does."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TAIL))
    return END in file.read(TAIL)


def _facts(told: Any) -> PageFacts | Unread:
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise _OddError("'format' is another one")
    version = told.get("version")
    if not isinstance(version, int) or version < 1:
        raise _OddError("'version' is no version")
    if version > VERSION:
        title = told.get("title")
        why = f"A newer calib8 wrote it (version {version} of the facts; this one reads {VERSION})."
        return Unread(why, title if isinstance(title, str) else "")
    verdict = _mapping(told, "verdict")
    models = _mapping(told, "models")
    return PageFacts(
        _text(told, "title"), _text(told, "command"),
        _among(_text(verdict, "state"), _STATES, "unknown"), _text(verdict, "word"), _text(verdict, "text"),
        _each(told, "figures", _figure), _text(told, "next"), _each(told, "options", _figure),
        tuple((_text(one, "name"), _count(one, "tensors")) for one in _each(told, "methods", dict)),
        _each(told, "attempts", _tried), _each(told, "notes", str),
        Models(_each(models, "columns", str), _each(models, "rows", _model)),
        tuple((name, _count(_mapping(told, "nodes"), name)) for name in _mapping(told, "nodes")),
        tuple((_text(one, "stage"), _number(one, "seconds")) for one in _each(told, "seconds", dict)),
        _each(told, "environment", _figure), _each(told, "layers", _layer),
    )  # fmt: skip


def _figure(told: Mapping[str, Any]) -> Figure:
    return Figure(_text(told, "label"), _text(told, "value"), _text(told, "note"))


def _tried(told: Mapping[str, Any]) -> Tried:
    before, after = _decibels(told, "before_db"), _decibels(told, "after_db")
    return Tried(_text(told, "name"), before, after, told.get("kept") is True)


def _model(told: Mapping[str, Any]) -> ModelRow:
    return ModelRow(_text(told, "name"), _each(told, "cells", str))


def _layer(told: Mapping[str, Any]) -> LayerFacts:
    losses = (_decibels(told, key) for key in ("local_db", "cumulative_db", "weight_db"))
    precision = _among(_text(told, "precision"), _PRECISIONS, "float")
    return LayerFacts(_text(told, "name"), _text(told, "op"), precision, *losses)


def _each(told: Mapping[str, Any], key: str, read: Callable[[Any], Read]) -> tuple[Read, ...]:
    """The entries of a list: texts where ``read`` is ``str``, else objects, each as ``read`` gives it."""
    wanted = str if read is str else dict
    found = told.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, wanted) for one in found):
        raise _OddError(f"'{key}' is no list of what it should hold")
    return tuple(read(one) for one in found)


def _mapping(told: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = told.get(key, {})
    if not isinstance(found, dict):
        raise _OddError(f"'{key}' is no object")
    return found


def _text(told: Mapping[str, Any], key: str) -> str:
    found = told.get(key, "")
    if not isinstance(found, str):
        raise _OddError(f"'{key}' is no text")
    return found


def _number(told: Mapping[str, Any], key: str) -> float:
    found = told.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise _OddError(f"'{key}' is no number")
    return float(found)


def _count(told: Mapping[str, Any], key: str) -> int:
    return int(_number(told, key))


def _decibels(told: Mapping[str, Any], key: str) -> float | None:
    """A figure in dB as ``decibels_in_json`` writes it."""
    found = told.get(key)
    if found is None or found in ("inf", "-inf"):
        return None if found is None else float(found)
    return _number(told, key)


def _among(found: str, known: Iterable[Known], otherwise: Known) -> Known:
    return next((one for one in known if one == found), otherwise)


def _no_number(name: str) -> float:
    raise _OddError(f"'{name}' is no number of JSON")
