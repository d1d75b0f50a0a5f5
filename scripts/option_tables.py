"""Writes the tables of options in docs/cli/ from the texts of ``--help``.

    <!-- options of run -->           what ``calib8 run --help`` lists; of what several commands list alike
    <!-- end of options -->           the names, with a link
    <!-- shared options: Data -->     on options.md: what several commands list alike under a heading
    <!-- end of options -->

Only what stands between such marks is replaced: ``python scripts/option_tables.py`` writes the pages anew.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import typer

from calib8.cli import app
from calib8.cli.choices import BORDER_TYPES, FORMS, NAMES, TABLE_FORMATS
from calib8.cli.headings import ORDER
from calib8.files import atomic_output
from calib8.tasks.grid import FORMS as FORMS_OF_GRIDS
from calib8.tasks.kinds import KINDS

PAGES: Final = Path(__file__).parents[1] / "docs" / "cli"
SHARED_PAGE: Final = "options.md"

MARKED: Final = re.compile(
    r"(<!-- (options of|shared options:) ([^\n]+?) -->\n).*?(<!-- end of options -->)", re.DOTALL
)
CHOICES: Final = {
    **NAMES,
    "--branch": (*KINDS, *FORMS_OF_GRIDS),
    "--to": (*FORMS, *TABLE_FORMATS),
    "--inputs": BORDER_TYPES,
    "--outputs": BORDER_TYPES,
}
"""Option → names that its text holds."""


class Entry(NamedTuple):
    """An option or an argument as the help of a command shows it.

    Attributes:
        names: such as ``-o, --output OUT``; of an argument its name.
        text: without what the help adds in brackets.
        added: that; empty: nothing.
        heading: None for an argument.
    """

    names: str
    text: str
    added: str
    heading: str | None


def helps() -> dict[str, list[Entry]]:
    """Command → what its help lists, in that order; a command of a group is ``table show``."""
    return {name: list(entries(command)) for name, command in commands(typer.main.get_command(app))}


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield before + name, command


def entries(command: Any) -> Iterator[Entry]:
    context = click.Context(command, help_option_names=["-h", "--help"])
    for param in command.get_params(context):
        names, text = param.get_help_record(context)
        text, _, added = text.partition("  [")
        if param.param_type_name == "argument":
            yield Entry(re.sub(r" <.*>", "", names), text, added.rstrip("]"), None)
        else:
            yield Entry(names, text, added.rstrip("]"), param.rich_help_panel)


def takers(found: dict[str, list[Entry]]) -> dict[tuple[str, str], list[str]]:
    """Names and text of every option that several commands list alike → these commands."""
    taken: dict[tuple[str, str], list[str]] = {}
    for command, listed in found.items():
        for entry in listed:
            if entry.heading is not None:
                taken.setdefault((entry.names, entry.text), []).append(command)
    return {key: names for key, names in taken.items() if len(names) > 1}


def groups(found: dict[str, list[Entry]]) -> dict[str, list[Entry]]:
    """Heading → the options that the page of shared options has under it: each under the first of its own."""
    shared = takers(found)
    best: dict[tuple[str, str], Entry] = {}
    for listed in found.values():
        for entry in listed:
            key = entry.names, entry.text
            if key in shared and (key not in best or place(entry) < place(best[key])):
                best[key] = entry._replace(added=entry.added.replace("required", ""))
    made: dict[str, list[Entry]] = {}
    for entry in sorted(best.values(), key=place):
        made.setdefault(title(entry.heading), []).append(entry)
    return made


def place(entry: Entry) -> int:
    return ORDER.index(entry.heading) if entry.heading in ORDER else len(ORDER)


def title(heading: str | None) -> str:
    """A heading without what stands behind a colon."""
    return (heading or "").partition(":")[0]


def own_table(command: str, found: dict[str, list[Entry]]) -> str:
    """The options of one command: those of its own with their texts, the names of those that it shares."""
    shared, where = takers(found), {}
    for heading, listed in groups(found).items():
        where.update({(entry.names, entry.text): heading for entry in listed})
    own = [entry for entry in found[command] if (entry.names, entry.text) not in shared]
    lines = [f"| {code(entry.names)} | {worded(entry)} |" for entry in own]
    made = ["| option | meaning |", "|---|---|", *lines, ""] if lines else []
    names: dict[str, list[str]] = {}
    for entry in found[command]:
        heading = where.get((entry.names, entry.text))
        if heading is not None:
            needed = " (required)" if entry.added == "required" else ""
            names.setdefault(heading, []).append(
                code(re.sub(r"(?<=[a-z]) [^-/].*", "", entry.names)) + needed
            )
    made += ["| shared with others | options |", "|---|---|"]
    made += [
        f"| [{heading}]({SHARED_PAGE}#{slug(heading)}) | {', '.join(listed)} |"
        for heading, listed in names.items()
    ]
    return "\n".join(made) + "\n"


def shared_table(heading: str, found: dict[str, list[Entry]]) -> str:
    """The options under one heading that several commands list alike, with the commands that take them."""
    shared = takers(found)
    listed = groups(found)[heading]
    all_takers = [shared[entry.names, entry.text] for entry in listed]
    usual = max(all_takers, key=all_takers.count)
    lines = []
    for entry, taking in zip(listed, all_takers, strict=True):
        of = "" if taking == usual else f" Taken by {listing(taking, found)}."
        lines.append(f"| {code(entry.names)} | {worded(entry)}{of} |")
    said = " unless a row says otherwise" if len(lines) > 1 else ""
    head = f"Taken by {listing(usual, found)}{said}:"
    return "\n".join([head, "", "| option | meaning |", "|---|---|", *lines]) + "\n"


def listing(names: list[str], found: dict[str, list[Entry]]) -> str:
    return "all commands" if len(names) == len(found) else ", ".join(f"`{name}`" for name in names)


def code(names: str) -> str:
    """``-o, --output A|B`` as code of a table."""
    return ", ".join(f"`{name}`" for name in re.split(r", | / ", names.replace("|", "\\|")))


def worded(entry: Entry) -> str:
    """The text of an entry as Markdown: options, names and what stands in quotes as code."""
    flag = next(iter(re.findall(r"--[a-z-]+", entry.names)), "")
    pieces = [r"(?<!\w)'(?P<quoted>[^']+)'", _OPTION, _SHORT, _FILE, _ASSIGNED, r"(?<= )[*?](?= )"]
    pieces += [rf"(?<![\w-])(?<! an ){named}" for named in [any_of(CHOICES.get(flag, ()))] if named]
    text = re.sub("|".join(pieces), lambda found: f"`{found['quoted'] or found[0]}`", entry.text)
    text = text.replace("|", "\\|")
    if entry.added == "required":
        return f"{text} Required."
    return f"{text} Default: `{entry.added.removeprefix('default: ')}`." if entry.added else text


def any_of(names: Iterable[str]) -> str:
    """A pattern for one of some names, the longest that fits; empty for none."""
    listed = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return listed and f"(?:{listed})(?![\\w-])"


_NAMED: Final = "|".join(f"{flag} {any_of(names)}" for flag, names in CHOICES.items())
_OPTION: Final = rf"(?<![\w-])(?:{_NAMED}|--[a-z][a-z-]*)"
"""``--method percentile``, or an option alone."""
_SHORT: Final = r"(?<![\w-])-[a-z](?![\w-])"
_FILE: Final = r"(?<![\w.])\w*\.(?:onnx|tflite|tmfile|np[yz]|txt|c8p?)\b"
_ASSIGNED: Final = r"(?<![\w-])\w+=[\w,]*\w"


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def written(page: str, found: dict[str, list[Entry]]) -> str:
    """The text of a page with its tables as they should be."""

    def table(mark: re.Match[str]) -> str:
        made = own_table(mark[3], found) if mark[2] == "options of" else shared_table(mark[3], found)
        return f"{mark[1]}{made}{mark[4]}"

    return MARKED.sub(table, page)


def main() -> None:
    found = helps()
    for path in sorted(PAGES.glob("*.md")):
        old = path.read_text(encoding="utf-8")
        new = written(old, found)
        if new != old:
            with atomic_output(path) as temporary:
                temporary.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{path.name} written\n")


if __name__ == "__main__":
    main()
