"""The pages and their parts: blocks, sections, tables, options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from calib8.cli import app

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (
        *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))),
        *sorted((ROOT / "csrc").rglob("README.md")),
    )
}
CLI_PAGES = {name: text for name, text in PAGES.items() if name.startswith("docs/cli/")}
CLI_INDEX, QUANTIZATION = PAGES["docs/cli/index.md"], PAGES["docs/quantization.md"]
TRAINING, PYTHON = PAGES["docs/training.md"], PAGES["docs/python.md"]
COMMANDS = (
    *(str(command.name) for command in app.registered_commands),
    *(
        f"{group.name} {command.name}"
        for group in app.registered_groups
        if group.typer_instance is not None
        for command in group.typer_instance.registered_commands
    ),
)
"""Also those of groups, such as ``table show``."""


def page_of(command: str) -> str:
    """The name of the page of a command; those of a group share one."""
    return f"docs/cli/{command.split()[0]}.md"


def json_of(command: str) -> str:
    """The section of a command's page that lists the fields of its JSON."""
    found = sections(PAGES[page_of(command)])
    return found[f"JSON of {command}" if " " in command else "JSON"]


def session_pages() -> list[str]:
    """The pages whose sessions run in one folder, in order: the overview, then what its tables name."""
    tables = CLI_INDEX[: CLI_INDEX.index("\n## ")]
    links = (link for row in rows(tables) for cell in row for link in re.findall(r"\]\(([^)#]+)", cell))
    paths = ((ROOT / "docs/cli" / link).resolve().relative_to(ROOT).as_posix() for link in links)
    return list(dict.fromkeys(["docs/cli/index.md", *paths]))


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [Block(m[1], m[2], page.count("\n", 0, m.start()) + 1) for m in found]


def prose(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


def sections(page: str) -> dict[str, str]:
    """Heading → text up to the next heading of any depth; a later section adds to an earlier namesake."""
    found: dict[str, str] = {}
    pieces = re.split(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    for title, text in zip(pieces[1::2], pieces[2::2], strict=True):
        found[title] = found.get(title, "") + text
    return found


def rows(text: str) -> list[list[str]]:
    """Cells of the lines of all tables in a text."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def loose_rows(page: str) -> list[str]:
    """Rows of no table: above them is neither a head with its rule nor a row of as many cells."""
    lines, found, cells = prose(page).splitlines(), list[str](), 0
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if not line.startswith("|"):
            cells = 0
            continue
        if not cells and re.fullmatch(r"\|(\s*:?-+:?\s*\|)+", after):
            cells = len(rows(line)[0])
        if len(rows(line)[0]) != cells:
            found.append(line)
    return found


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
