"""What may be shown lies below one folder, is a page, and is reached without a link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from calib8.viewer import place
from calib8.viewer.place import Place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """``in`` with pages, beside it ``out`` with one."""
    for name in ("in/a.html", "in/b/c.HTM", "in/b/d/e.html", "in/.hidden/f.html", "in/.g.html", "in/h.txt",
                 "out/secret.html"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path / "in"


def test_pages_in_and_below_the_folder_are_found(root: Path) -> None:
    found = Place(root).pages()
    assert found.paths == ("a.html", "b/c.HTM", "b/d/e.html")
    assert (found.links, found.closed, found.more) == (0, 0, False)
    for path in found.paths:
        file = Place(root).opened(path)
        assert file is not None
        with file:
            assert file.read().decode() == f"in/{path}"


@pytest.mark.parametrize(
    "path",
    [
        "../out/secret.html", "b/../../out/secret.html", "b/../a.html", "/etc/x.html", "", "/", "b//c.HTM",
        "./a.html", ".hidden/f.html", ".g.html", "h.txt", "b", "b/", "a.html/", "nothing.html", "a.html\0",
        "b\\..\\a.html", "x" * 5000 + ".html", "%2e%2e/out/secret.html",
    ],
)  # fmt: skip
def test_what_is_no_page_below_it_is_refused(root: Path, path: str) -> None:
    assert Place(root).opened(path) is None


def test_links_are_neither_listed_nor_followed(root: Path) -> None:
    (root / "file.html").symlink_to(root.parent / "out" / "secret.html")
    (root / "inside.html").symlink_to(root / "a.html")
    (root / "folder").symlink_to(root.parent / "out")
    (root / "circle").symlink_to(root)
    (root / "gone.html").symlink_to(root / "nowhere")
    (root / "text").symlink_to(root / "h.txt")
    found = Place(root).pages()
    assert found.paths == ("a.html", "b/c.HTM", "b/d/e.html") and found.links == 5
    for path in ("file.html", "inside.html", "folder/secret.html", "circle/a.html", "gone.html"):
        assert Place(root).opened(path) is None, path


def test_a_folder_that_becomes_a_link_in_between_leads_nowhere(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last part is opened from the folder that was opened before, whatever has its name by then."""
    real = os.open

    def exchanged(path: object, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "c.HTM" and (root / "b").is_dir() and not (root / "b").is_symlink():
            (root / "b").rename(root / "was_b")
            (root / "b").symlink_to(root.parent / "out")
            (root.parent / "out" / "c.HTM").write_text("secret")
        return real(path, flags, dir_fd=dir_fd)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", exchanged)
    file = Place(root).opened("b/c.HTM")
    assert file is not None and (root / "b").is_symlink()
    with file:
        assert file.read() == b"in/b/c.HTM"


def test_the_root_may_be_reached_by_a_link(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    file = Place(root.parent / "link").opened("a.html")
    assert file is not None
    file.close()


def test_a_pipe_is_no_page_and_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe.html")
    assert "pipe.html" not in Place(root).pages().paths
    assert Place(root).opened("pipe.html") is None


def test_one_page_alone_shows_no_neighbour(root: Path) -> None:
    alone = Place(root, "a.html")
    assert alone.pages().paths == ("a.html",)
    file = alone.opened("a.html")
    assert file is not None
    file.close()
    assert alone.opened("b/c.HTM") is None


def test_deep_folders(root: Path) -> None:
    deep = "/".join(["n"] * 400)
    (root / deep).mkdir(parents=True)
    (root / deep / "run.html").write_text("deep")
    assert f"{deep}/run.html" in Place(root).pages().paths
    file = Place(root).opened(f"{deep}/run.html")
    assert file is not None
    with file:
        assert file.read() == b"deep"


def test_a_folder_deeper_than_any_path_is_told(root: Path) -> None:
    inner = os.open(root, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("n" * 200, dir_fd=inner)
        outer, inner = inner, os.open("n" * 200, os.O_RDONLY, dir_fd=inner)
        os.close(outer)
    os.close(inner)
    found = Place(root).pages()
    assert found.closed == 1 and "a.html" in found.paths


def test_a_closed_folder_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is closed to root, so the refusal is made up."""
    look = os.scandir

    def scandir(path: str | os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
        if Path(path).name == "b":
            raise PermissionError(13, "Permission denied")
        return look(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = Place(root).pages()
    assert found.closed == 1 and "a.html" in found.paths


@pytest.mark.parametrize("limit", ["MOST_FOLDERS", "MOST_PAGES"])
def test_there_is_a_limit(root: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(place, limit, 1)
    found = Place(root).pages()
    assert found.more and len(found.paths) <= 1
