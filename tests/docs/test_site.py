"""The site of the documentation holds every page, and its links lead where those of the repository do."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
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
        ("faq.md", "[a](../CONTRIBUTING.md#set-up)", "[a](CONTRIBUTING.md#set-up)"),
        (
            "cli/run.md",
            "[a](../../CONTRIBUTING.md#set-up) [b](../data.md)",
            "[a](../CONTRIBUTING.md#set-up) [b](../data.md)",
        ),
        (
            "index.md",
            "[a](docs/cli/index.md#results) [b](LICENSE)",
            "[a](cli/index.md#results) [b](LICENSE.txt)",
        ),
        ("csrc/README.md", "[a](../docs/numerics.md)", "[a](../numerics.md)"),
        ("CONTRIBUTING.md", "[a](csrc/engine/README.md)", "[a](csrc/engine/README.md)"),
        ("faq.md", "[b](#data) [c](https://a.b/c.md)", "[b](#data) [c](https://a.b/c.md)"),
        ("faq.md", "```sh\n[a](../README.md)\n```\n", "```sh\n[a](../README.md)\n```\n"),
    ],
)
def test_links_lead_to_the_page_of_the_site(site: ModuleType, name: str, text: str, wanted: str) -> None:
    assert site.linked(text, name) == wanted


def test_links_to_a_second_namesake_get_its_name_on_the_site(
    site: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("## run\n\n## run\n\n## part-1\n", encoding="utf-8")
    assert site.linked("[a](docs/a.md#run-1)", "index.md") == "[a](a.md#run_1)"
    assert site.linked("[a](#run-1) [b](#part-1)", "a.md") == "[a](#run_1) [b](#part-1)"


@pytest.mark.parametrize("page", PAGES)
def test_lists_in_lists_are_indented_so_that_both_see_them(page: str) -> None:
    """By four blanks: MkDocs takes fewer for a part of the paragraph."""
    assert re.findall(r"^ {1,3}(?:- |\d+\. ).*$", prose(PAGES[page]), re.MULTILINE) == []


def test_pipes_in_code_of_a_table_are_shown_as_such(site: ModuleType) -> None:
    row = "| `--data DIR\\|FILE` | a \\| b | `x` |"
    assert site.linked(row, "cli/run.md") == "| `--data DIR|FILE` | a \\| b | `x` |"


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
