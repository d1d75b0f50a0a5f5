"""Every promise of docs/support.md names the tests that hold it, and they are there."""

from __future__ import annotations

import re

import pytest
from pages import PAGES, ROOT, rows, sections

PROMISES = rows(sections(PAGES["docs/support.md"])["How it stays honest"])[2:]


def test_there_are_promises() -> None:
    assert len(PROMISES) >= 10


@pytest.mark.parametrize("row", PROMISES, ids=lambda row: re.sub(r"\W+", "_", row[0])[:40])
def test_what_holds_a_promise_is_there(row: list[str]) -> None:
    named = re.findall(r"`([^`]+)`", row[1])
    assert named, "nothing holds it"
    for name in named:
        path, _, test = name.partition("::")
        assert (ROOT / path).is_file(), path
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not test or f"\ndef {test}(" in text, name


def test_the_page_of_attacks_names_what_is_there() -> None:
    held = sections(PAGES["docs/security.md"])["How this is held"]
    for name in re.findall(r"`((?:scripts|tests)/[^`]+)`", held):
        assert (ROOT / name).exists(), name
