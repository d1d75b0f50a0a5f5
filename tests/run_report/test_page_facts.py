"""The facts of a page: read back as they were told, from little of the page, whatever stands in them."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from example_reports import NASTY, report

from calib8.parameters import parameter
from calib8.report.harmless import printable
from calib8.run_report.facts import (
    CLOSING,
    END,
    HEAD,
    ID,
    OPENING,
    TAIL,
    LayerFacts,
    PageFacts,
    Unread,
    facts_in,
)
from calib8.run_report.page import page
from calib8.run_report.told import Figure, Headline, RunReport, Work
from html_reader import Reader

PLAIN = RunReport("t", "evaluate", Headline("unknown", "evaluated", "No verdict.", ()))


def read(text: str) -> PageFacts | Unread | None:
    return facts_in(io.BytesIO(f"{text}\n</html>".encode()))


def facts_of(told: RunReport) -> PageFacts:
    found = read(page(told))
    assert isinstance(found, PageFacts)
    return found


def test_what_was_told_is_read_back() -> None:
    told = report(9)
    found = facts_of(told)
    assert (found.title, found.command, found.next) == ("layer", "quantize", "calib8 run")
    assert (found.state, found.word) == ("damaged", "visibly damaged") and "held back" in found.text
    assert found.figures == told.headline.figures and found.options == told.work.facts
    assert (found.methods, found.notes, found.models) == (told.work.methods, told.work.notes, told.models)
    assert found.nodes == (("float", 1), ("int8", 8))
    assert (found.seconds, found.environment) == ((("calibrating", 1.25),), told.environment)
    assert [(one.name, one.kept, one.before_db, one.after_db) for one in found.attempts] == [
        ("layer", True, 20.0, 22.5)
    ]
    assert [one.name for one in found.layers] == [row.name for row in told.layers]
    for one, row in zip(found.layers, told.layers, strict=True):
        assert (one.op, one.precision) == (row.op, row.precision)
        assert row.local_db is not None and one.local_db == pytest.approx(row.local_db, abs=1e-3)


def test_a_report_with_little_to_tell_has_facts_too() -> None:
    assert facts_of(PLAIN) == PageFacts("t", "evaluate", "unknown", "evaluated", "No verdict.")


def test_figures_that_are_no_numbers_come_back() -> None:
    told = report(3)
    odd = (replace(told.layers[0], local_db=math.inf, cumulative_db=-math.inf, weight_db=math.nan),)
    [layer] = facts_of(replace(told, layers=odd, network=())).layers
    assert (layer.local_db, layer.cumulative_db, layer.weight_db) == (math.inf, -math.inf, None)


def test_texts_are_worded_for_their_reader() -> None:
    told = replace(PLAIN, work=Work(notes=(f"Give {parameter('judge_data')}",)))
    assert facts_of(told).notes == ("Give judge_data",)
    typed = read(page(told, typed=True))
    assert isinstance(typed, PageFacts) and typed.notes == ("Give --judge-data",)


def test_names_cannot_end_the_script() -> None:
    text = page(report(4, NASTY))
    inside = text.partition(OPENING)[2].partition(CLOSING)[0]
    assert not set(inside) & set("<>&") and inside.isascii()
    found = read(text)
    assert isinstance(found, PageFacts) and found.title == printable(NASTY)
    assert {one.name for one in found.layers} == {f"{printable(NASTY)} {k}" for k in range(4)}
    assert json.loads(Reader(text).data[ID])["title"] == printable(NASTY)


class Counted(io.BytesIO):
    """A file that knows how much was read of it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.taken += len(found)
        return found


@pytest.mark.parametrize("name", ["layer", "n" * 200_000])
def test_little_of_a_page_is_read(name: str) -> None:
    told = replace(PLAIN, title=name, headline=replace(PLAIN.headline, text=name))
    text = page(told)
    assert 0 < text.index(OPENING) < 1024  # no name stands before them
    padded = Counted(text.encode() + b"x" * 3 * HEAD + END)
    assert isinstance(facts_in(padded), PageFacts)
    most = HEAD + TAIL
    assert padded.taken <= most if name == "layer" else padded.taken > most


def test_a_page_that_is_cut_off_behind_its_facts_is_told() -> None:
    text = page(report(9))
    whole = facts_in(io.BytesIO(text.encode()))
    assert isinstance(whole, PageFacts)
    for end in (text.index(OPENING) + text.partition(OPENING)[2].index(CLOSING) + 20, len(text) // 2):
        found = facts_in(io.BytesIO(text[:end].encode()))
        assert isinstance(found, Unread) and "cut off" in found.why
    assert found.title == whole.title


def with_facts(change: Any) -> str:
    document = json.loads(Reader(page(report(2))).data[ID])
    change(document)
    return f"<!DOCTYPE html>\n{OPENING}{json.dumps(document)}{CLOSING}"


def test_a_newer_version_is_told_with_its_title() -> None:
    found = read(with_facts(lambda facts: facts.update(version=2, figures="in another form")))
    assert isinstance(found, Unread) and found.title == "layer" and "newer calib8" in found.why


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("format", "another", "'format'"), ("version", "1", "'version'"), ("version", 0, "'version'"),
        ("title", 3, "'title' is no text"), ("verdict", [], "'verdict' is no object"),
        ("figures", [1], "'figures'"), ("figures", {"a": 1}, "'figures'"), ("notes", [{}], "'notes'"),
        ("figures", [{"label": []}], "'label'"), ("nodes", {"int8": "many"}, "'int8' is no number"),
        ("seconds", [{"stage": "a", "seconds": True}], "'seconds'"), ("models", {"rows": [1]}, "'rows'"),
        ("layers", [{"name": "a", "local_db": "much"}], "'local_db'"),
        ("layers", [{"name": "a", "local_db": math.nan}], "'NaN'"),
        ("layers", [{"name": "a", "local_db": []}], "'local_db'"),
        ("nodes", {"int8": 10**400}, "broken"),
    ],
)  # fmt: skip
def test_broken_facts_are_named(key: str, value: Any, says: str) -> None:
    found = read(with_facts(lambda facts: facts.update({key: value})))
    assert isinstance(found, Unread) and says in found.why


@pytest.mark.parametrize(
    "inside", ["", "{", "[" * 100_000, "[]", "1" * 5000, '{"format":"calib8 report","version":1e999}', "\0"]
)
def test_what_is_no_json_is_told(inside: str) -> None:
    found = read(f"{OPENING}{inside}{CLOSING}")
    assert isinstance(found, Unread) and "broken" in found.why


def test_a_page_that_is_cut_off_is_told_and_another_page_is_no_report() -> None:
    text = page(report(9))
    assert isinstance(read(text[: text.index(OPENING) + 200]), Unread)
    assert read("<!DOCTYPE html><title>calib8-report</title>") is None and read("") is None


def test_states_and_precisions_that_nobody_knows_are_none_of_ours() -> None:
    def change(facts: Any) -> None:
        facts["verdict"]["state"] = '" onclick="x'
        facts["layers"] = [{"name": "a", "precision": '" onclick="x'}]

    found = read(with_facts(change))
    assert isinstance(found, PageFacts)
    assert found.state == "unknown" and found.layers == (LayerFacts("a", "", "float", None, None, None),)
    assert Figure("", "") not in found.figures
