"""The page is whole: valid HTML, nothing asked from the network, names harmless, of a bounded size."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from example_reports import NASTY, report

from calib8.run_report.facts import ID
from calib8.run_report.marked_up import LIMITS, loss_class
from calib8.run_report.page import packed, page
from calib8.run_report.told import Answer, Attempt, Box, Headline, RunReport, SampleShown, Work
from html_reader import Reader, assert_whole


@pytest.fixture(scope="module")
def text() -> str:
    return page(report(9, NASTY))


@pytest.fixture(scope="module")
def read(text: str) -> Reader:
    return Reader(text)


def test_every_element_is_closed_and_every_id_is_there_once(read: Reader) -> None:
    assert_whole(read)


def test_the_script_finds_the_elements_that_it_asks_for(text: str, read: Reader) -> None:
    ids = {attributes.get("id") for _, attributes in read.elements}
    asked = set(re.findall(r'(?:byId|numbers)\("([a-z0-9-]+)"\)', text)) - {"open-all"}
    assert {"layers-table", "network-svg", "histogram-chart", "network-data"} <= asked <= ids


def test_nothing_is_asked_from_the_network(read: Reader) -> None:
    for tag, attributes in read.elements:
        assert tag not in ("link", "iframe", "object", "base", "form")
        assert tag != "script" or "src" not in attributes
        assert attributes.get("src", "data:").startswith("data:image/jpeg;base64,") or "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    policies = [a["content"] for _, a in read.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1 and policies[0].startswith("default-src 'none';")
    assert "http" not in policies[0]


def test_names_cannot_break_out(text: str, read: Reader) -> None:
    assert "<img src=x" not in text
    assert text.encode("utf-8")  # a lone surrogate would not be text
    assert not any(sign in read.words for sign in "\u202e\x00")
    assert "onerror" in read.words  # the name is read, and does nothing
    for document in read.data.values():
        json.loads(document)


def test_all_parts_are_there_in_their_order(read: Reader) -> None:
    ids = [a["id"] for tag, a in read.elements if tag == "section"]
    assert ids == [
        "verdict", "models", "candidates", "work", "layers", "network", "tensors", "samples", "surroundings",
    ]  # fmt: skip
    links = [a["href"] for tag, a in read.elements if tag == "a"]
    assert {f"#{one}" for one in ids} <= set(links)


def test_a_part_without_data_is_left_out() -> None:
    read = Reader(page(RunReport("t", "evaluate", Headline("unknown", "evaluated", "No verdict.", ()))))
    assert [a["id"] for tag, a in read.elements if tag == "section"] == ["verdict"]
    assert set(read.data) == {ID} and read.open == []


def test_the_numbers_are_those_of_the_report(read: Reader) -> None:
    told = report(9, NASTY)
    for place, row in enumerate(told.layers):
        found = json.loads(read.data[f"layer-data-{place}"])
        assert [one["place"] for one in found["tensors"]] == list(row.tensors)
        assert found["local"] == f"{row.local_db:.1f} dB"
        assert (found["weights"] is None) == (row.weights is None)
    for place, tensor in enumerate(told.tensors):
        found = json.loads(read.data[f"tensor-data-{place}"])
        counts = [0.0 if one == "" else float(one) for one in found["counts"].split(",")]
        assert tensor.histogram is not None
        assert counts == pytest.approx(tensor.histogram.counts, rel=5e-3)
        codes = [0.0 if one == "" else float(one) for one in found["codes"].split(",")]
        assert codes == pytest.approx(tensor.codes, rel=5e-3)
    network = json.loads(read.data["network-data"])
    assert [node["layer"] for node in network["nodes"]] == [node.layer for node in told.network]
    assert network["losses"][0] == [
        round(told.layers[0].local_db or 0, 2),
        round(told.layers[0].cumulative_db or 0, 2),
    ]


def test_figures_that_are_no_numbers_are_told(read: Reader) -> None:
    told = report(3)
    odd = (replace(told.layers[0], local_db=float("inf"), cumulative_db=None, weight_db=float("nan")),)
    found = Reader(page(replace(told, layers=odd, network=())))
    [row] = [a for tag, a in found.elements if tag == "tr" and "data-local" in a]
    assert (row["data-local"], row["data-cumulative"], row["data-weights"]) == ("inf", "", "")
    assert json.loads(found.data["layer-data-0"])["local"] == "exact"


def test_equal_reports_give_equal_pages_and_only_surroundings_differ() -> None:
    assert page(report(5)) == page(report(5))
    texts = page(report(5)), page(replace(report(5), timings=(("calibrating", 9.0),)))
    facts = [json.loads(Reader(text).data[ID]) for text in texts]
    assert facts[0].pop("seconds") != facts[1].pop("seconds") and facts[0] == facts[1]
    one, other = (
        re.sub(r'<script[^>]* id="calib8-report">.*', "", text).partition('<section id="surroundings"')[0]
        for text in texts
    )
    assert one == other


def test_a_page_stays_small() -> None:
    assert len(page(report(100)).encode()) < 700_000
    assert len(page(report(1000)).encode()) < 6_000_000


def test_packed_numbers_have_three_digits() -> None:
    assert packed([0, 1, 12345, 0.25, 123456789, -0.00012345]) == ",1,1.23e4,0.25,1.23e8,-0.000123"
    assert packed([]) == ""


def test_texts_are_worded_for_their_reader() -> None:
    from calib8.parameters import parameter

    told = replace(report(2), work=Work(notes=(f"Give {parameter('judge_data')}",)))
    assert "Give judge_data" in page(told) and "Give --judge-data" in page(told, typed=True)
    tried = Attempt(f"by {parameter('method', 'mse')}", 1.0, 2.0, kept=False)
    told = replace(told, work=Work(attempts=(tried,)))
    assert "by method=&#x27;mse&#x27;" in page(told) and "by --method mse" in page(told, typed=True)


def test_script_and_page_part_losses_at_the_same_limits(text: str) -> None:
    found = re.search(r"const LIMITS = \[([\d, ]+)\];", text)
    assert found is not None
    assert tuple(float(one) for one in found[1].split(",")) == LIMITS
    assert [loss_class(value) for value in (-5.0, 9.9, 10.0, 39.9, 40.0)] == ["q0", "q0", "q1", "q3", "q4"]


def test_dashed_boxes_lie_over_solid_ones() -> None:
    answer = Answer(boxes=(Box(0.1, 0.1, 0.5, 0.6, "a"),))
    shown = SampleShown("x", 9.0, "data:image/png;base64,", (8, 8), answer, answer, True)
    text = page(replace(report(3), samples=(shown,)))
    assert 0 < text.index('<rect class="int8"') < text.index('<rect class="fp32"')  # the last is on top
