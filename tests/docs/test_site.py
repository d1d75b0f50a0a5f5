"""The site of the documentation holds every page, and its links lead where those of the repository do."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest
from pages import PAGES, ROOT, prose

import calib8

CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """The hook of MkDocs; what it needs of MkDocs itself is imported in the hooks only."""
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def navigation() -> list[str]:
    """The pages of the navigation in their order."""
    part = CONFIG[CONFIG.index("\nnav:") : CONFIG.index("\nplugins:")]
    return re.findall(r"[ :]([\w/-]+\.(?:md|ipynb))$", part, re.MULTILINE)


def test_the_navigation_holds_every_page_once(site: ModuleType) -> None:
    docs = ROOT / "docs"
    inside = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    outside = [name for name in site.OUTSIDE.values() if name.endswith(".md")]
    assert sorted(navigation()) == sorted([*inside, *outside])


def test_every_page_from_outside_docs_is_added(site: ModuleType) -> None:
    assert {path for path in PAGES if not path.startswith("docs/")} <= set(site.OUTSIDE)
    assert all((ROOT / path).is_file() for path in site.OUTSIDE)


def test_the_reference_lists_every_public_name_once() -> None:
    named = re.findall(r"^\| `calib8\.(\w+)` \|", PAGES["docs/api.md"], re.MULTILINE)
    assert sorted(named) == sorted({*calib8.__all__} - {"__version__"})


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("cli.md", "[a](../CONTRIBUTING.md#set-up)", "[a](CONTRIBUTING.md#set-up)"),
        ("index.md", "[a](docs/cli.md#evaluate-1) [b](LICENSE)", "[a](cli.md#evaluate_1) [b](LICENSE.txt)"),
        ("csrc/README.md", "[a](../docs/numerics.md)", "[a](../numerics.md)"),
        ("CONTRIBUTING.md", "[a](csrc/engine/README.md)", "[a](csrc/engine/README.md)"),
        (
            "cli.md",
            "[a](#evaluate-1) [b](#data) [c](https://a.b/c.md)",
            "[a](#evaluate_1) [b](#data) [c](https://a.b/c.md)",
        ),
        ("cli.md", "```sh\n[a](../README.md)\n```\n", "```sh\n[a](../README.md)\n```\n"),
    ],
)
def test_links_lead_to_the_page_of_the_site(site: ModuleType, name: str, text: str, wanted: str) -> None:
    assert site.linked(text, name) == wanted


@pytest.mark.parametrize("page", PAGES)
def test_lists_in_lists_are_indented_so_that_both_see_them(page: str) -> None:
    """By four blanks: MkDocs takes fewer for a part of the paragraph."""
    assert re.findall(r"^ {1,3}(?:- |\d+\. ).*$", prose(PAGES[page]), re.MULTILINE) == []


def test_pipes_in_code_of_a_table_are_shown_as_such(site: ModuleType) -> None:
    row = "| `--data DIR\\|FILE` | a \\| b | `x` |"
    assert site.linked(row, "cli.md") == "| `--data DIR|FILE` | a \\| b | `x` |"


def test_the_reference_gets_the_docstrings_behind_each_table(site: ModuleType) -> None:
    text = "| name | is |\n|---|---|\n| `calib8.tune` | x |\n| `calib8.lint` | y |\n\nEnd."
    assert site.with_docstrings(text).split() == [
        *text.split()[:-1],
        ":::",
        "calib8.tune",
        ":::",
        "calib8.lint",
        "End.",
    ]


def test_what_a_page_loads_from_other_hosts_is_found(site: ModuleType) -> None:
    page = (
        '<a href="https://a.b/c">x</a><img src="https://d.e/f.png"><link rel="stylesheet" href="//g.h/i.css">'
    )
    assert site.asks_other_hosts(page) == ["https://d.e/f.png", "//g.h/i.css"]
    assert site.asks_other_hosts('<script src="assets/a.js"></script><a href="https://a.b">x</a>') == []
