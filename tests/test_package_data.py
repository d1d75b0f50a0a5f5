"""What the index of packages is told is true of the package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import calib8

TEXT = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")


def strings(key: str) -> list[str]:
    """The list of a key of the project."""
    found = re.search(rf"^{key} = (\[.*?^\])", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None
    listed: list[str] = ast.literal_eval(found[1])
    return listed


def test_classifiers_and_keywords_are_in_order_and_there_once() -> None:
    for key in ("keywords", "classifiers"):
        listed = strings(key)
        assert len(listed) == len(set(listed))
        by_version = [re.sub(r"\d+", lambda number: f"{int(number[0]):03}", one) for one in listed]
        assert by_version == sorted(by_version), key


def test_the_versions_of_python_are_those_that_are_allowed() -> None:
    found = re.search(r'^requires-python = ">=3\.(\d+)"$', TEXT, re.MULTILINE)
    assert found is not None
    version = re.compile(r"Programming Language :: Python :: 3\.(\d+)")
    told = map(version.fullmatch, strings("classifiers"))
    minors = [int(match[1]) for match in told if match is not None]
    assert minors == list(range(int(found[1]), minors[-1] + 1))


def test_a_typed_package_says_so_in_both_places() -> None:
    assert "Typing :: Typed" in strings("classifiers")
    assert (Path(calib8.__file__).parent / "py.typed").exists()
