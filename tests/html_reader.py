"""A page of HTML as a browser takes it apart: elements, texts, and the JSON that it holds for its script."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final

VOID: Final = frozenset({"meta", "input", "br", "wbr", "img", "link"})
"""Elements without an end."""


class Reader(HTMLParser):
    """Elements, and whether every one is closed.

    Attributes:
        open: elements that are not closed.
        elements: each with its attributes.
        data: id → text of the scripts that are JSON.
        words: what people read.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.data: dict[str, str] = {}
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        _, attributes = self.elements[-1] if self.elements else ("", {})
        if self.open and self.open[-1] == "script" and attributes.get("type") == "application/json":
            self.data[attributes["id"] or ""] = data
        elif self.open and self.open[-1] not in ("script", "style"):
            self.words += data


def assert_whole(read: Reader) -> None:
    """Every element is closed, and every id is there once."""
    assert read.open == []
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
