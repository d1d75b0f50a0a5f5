"""Reports of a folder: found, dated, read no further than their facts, and no more often than they change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from report_folders import told, written

from calib8.run_report.facts import END, OPENING, TAIL, PageFacts, Unread
from calib8.viewer import reports as module
from calib8.viewer.place import Place
from calib8.viewer.reports import Reports


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for k, name in enumerate(("a.html", "x/b.html", "x/y/c.html")):
        os.utime(written(tmp_path / name, told(f"net {name}")), (1000 + k, 1000 + k))
    (tmp_path / "other.html").write_text("<!DOCTYPE html><title>calib8 quantize</title>")
    (tmp_path / "empty.html").write_text("")
    (tmp_path / "cut.html").write_text((tmp_path / "a.html").read_text(encoding="utf-8")[:2000])
    newer = (tmp_path / "a.html").read_text(encoding="utf-8").replace('"version":1', '"version":7', 1)
    (tmp_path / "newer.html").write_text(newer, encoding="utf-8")
    (tmp_path / "noise.html").write_bytes(os.urandom(5000))
    return tmp_path


def test_reports_are_told_the_newest_first_and_other_pages_are_named(root: Path) -> None:
    found = Reports(Place(root)).listing()
    assert [one.path for one in found.reports][2:] == ["x/y/c.html", "x/b.html", "a.html"]
    assert found.others == ("empty.html", "noise.html", "other.html") and found.notes == ()
    last = found.reports[-1]
    assert (last.title, last.written, last.bytes) == ("net a.html", 1000, (root / "a.html").stat().st_size)
    assert isinstance(last.facts, PageFacts) and last.facts.layers == ()
    odd = {one.path: one for one in found.reports[:2]}
    assert odd.keys() == {"cut.html", "newer.html"}
    assert isinstance(odd["cut.html"].facts, Unread) and odd["cut.html"].title == "cut.html"
    assert isinstance(odd["newer.html"].facts, Unread) and odd["newer.html"].title == "net a.html"


def test_one_report_has_its_layers(root: Path) -> None:
    found = Reports(Place(root)).one("x/b.html")
    assert found is not None and isinstance(found.facts, PageFacts) and len(found.facts.layers) == 6
    assert Reports(Place(root)).one("other.html") is None and Reports(Place(root)).one("no.html") is None


def test_a_page_is_read_again_only_where_it_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = module.facts_in

    def counted(file: object) -> object:
        read.append(str(Path(f"/proc/self/fd/{file.fileno()}").readlink()))  # type: ignore[attr-defined]
        return real(file)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "facts_in", counted)
    reports = Reports(Place(root))
    reports.listing()
    assert len(read) == 8
    read.clear()
    assert len(reports.listing().reports) == 5 and read == []
    written(root / "a.html", told("another"))
    (root / "x" / "b.html").unlink()
    written(root / "new.html", told("new"))
    found = reports.listing()
    assert {Path(one).name for one in read} == {"a.html", "new.html"}
    assert {one.title for one in found.reports} >= {"another", "new"} and len(found.reports) == 5


def test_little_of_three_hundred_large_pages_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = (written(tmp_path / "one.html", told("net"))).read_bytes()
    head = head[: head.index(OPENING.encode()) + 20_000]
    for k in range(300):
        with (tmp_path / f"{k}.html").open("wb") as file:
            file.write(head)
            file.seek(50_000_000)  # a hole: it takes no room
            file.write(END)
    taken = 0
    real = module.facts_in

    class Counted:
        def __init__(self, file: object) -> None:
            self.file = file

        def read(self, size: int) -> bytes:
            nonlocal taken
            found: bytes = self.file.read(size)  # type: ignore[attr-defined]
            taken += len(found)
            return found

        def seek(self, offset: int, whence: int = 0) -> int:
            place: int = self.file.seek(offset, whence)  # type: ignore[attr-defined]
            return place

    monkeypatch.setattr(module, "facts_in", lambda file: real(Counted(file)))  # type: ignore[arg-type]
    found = Reports(Place(tmp_path)).listing()
    assert len(found.reports) == 301 and all(isinstance(one.facts, PageFacts) for one in found.reports)
    assert taken <= 301 * (65_536 + TAIL)


def test_what_was_not_looked_at_is_told(root: Path) -> None:
    (root / "link.html").symlink_to(root / "a.html")
    assert Reports(Place(root)).listing().notes == ("1 link is not followed.",)
    (root / "folder").symlink_to(root / "x")
    assert Reports(Place(root)).listing().notes == ("2 links are not followed.",)
