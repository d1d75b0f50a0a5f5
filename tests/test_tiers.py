"""The tiers: their files exist, every room has quick tests, and tests bear the marks of their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from slow_cases import slow_but
from tiers import TIERS, WITHOUT, files, left_out

HERE = Path(__file__).parent
FILES = {path.relative_to(HERE).as_posix() for path in HERE.rglob("test_*.py")}


@pytest.mark.parametrize("tier", TIERS)
def test_every_file_exists_and_is_named_once(tier: str) -> None:
    assert files(tier) <= FILES, sorted(files(tier) - FILES)
    assert len(files(tier)) == sum(map(len, TIERS[tier].values()))


def test_every_room_has_quick_tests() -> None:
    rooms = {path.split("/")[0] if "/" in path else "" for path in FILES}
    quick = {path.split("/")[0] if "/" in path else "" for path in files("quick")}
    assert rooms - quick == WITHOUT


def test_tests_bear_the_marks_of_their_files(request: pytest.FixtureRequest) -> None:
    marks = {mark.name for mark in request.node.iter_markers()}
    assert marks & set(TIERS) == {"quick"}


def test_other_files_are_left_out_only_where_a_tier_is_all_that_is_asked_for() -> None:
    assert {path for path in FILES if not left_out(path, "quick")} == files("quick")
    for asked in ("isa", "isa and not slow"):
        assert {path for path in FILES if not left_out(path, asked)} == files("isa")
    for asked in ("", "not quick", "quick or isa", "hypothesis"):
        assert not any(left_out(path, asked) for path in FILES)
    assert not left_out("cli", "quick") and not left_out("foreign/README.md", "quick")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("letter", "place"), [("a", 0), ("b", 1)])
@pytest.mark.parametrize("number", range(4))
def test_one_combination_in_three_stays(
    number: int, letter: str, place: int, request: pytest.FixtureRequest
) -> None:
    assert letter == "ab"[place]
    slow = request.node.get_closest_marker("slow") is not None
    assert slow == ((number, letter) not in {(0, "a"), (2, "b"), (3, "a")})


@pytest.mark.parametrize("name", slow_but(["a", "c"], "abc"))
def test_all_are_slow_but_those_that_are_kept(name: str, request: pytest.FixtureRequest) -> None:
    assert (request.node.get_closest_marker("slow") is not None) == (name == "b")


def test_what_is_kept_is_there() -> None:
    with pytest.raises(AssertionError, match="d"):
        slow_but(["d"], "abc")
