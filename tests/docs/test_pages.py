"""Names, options, tables and links on the pages are those of the code."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import math
import re
import shlex
import subprocess
import sys
from operator import attrgetter
from types import ModuleType

import pytest
from pages import (
    CLI_INDEX,
    CLI_PAGES,
    COMMANDS,
    PAGES,
    QUANTIZATION,
    ROOT,
    blocks,
    json_of,
    loose_rows,
    options_in,
    page_of,
    prose,
    rows,
    sections,
)

import calib8
import calib8.training
from calib8.analysis.lint import RULES
from calib8.analysis.runtimes import RUNTIMES
from calib8.calibration.ranges import METHODS
from calib8.data.images import IMAGE_SUFFIXES
from calib8.data.presets import PRESETS
from calib8.data.resize import PILLOW_FILTERS
from calib8.formats.tables import FORMATS
from calib8.parameters import FLAGS
from calib8.repair.repairs import REPAIRS
from calib8.scheme import ACTIVATION_TYPES, ANY_FUNCTION, TARGETS
from test_architecture import RANK

WITH_COMMANDS = (
    "README.md", "CONTRIBUTING.md", "docs/coming_from.md", "docs/faq.md", "docs/python.md", "docs/tflite.md",
    *(name for name in CLI_PAGES if "calib8 " in CLI_PAGES[name]),
)  # fmt: skip
"""Pages whose commands are looked at here; those of the pages to learn from run (``test_lessons.py``)."""

WITH_OPTIONS = (
    "docs/quantization.md", "docs/python.md", "docs/preprocessing.md", "docs/inference.md", "docs/tflite.md",
    "docs/report.md", "docs/diagnosis.md", "docs/data.md",
)  # fmt: skip

PRINT_HELP = """
import json, sys
from typer.testing import CliRunner
from calib8.cli import app
print(json.dumps({name: CliRunner().invoke(app, [*name.split(), "--help"]).output for name in sys.argv[1:]}))
"""


@pytest.fixture(scope="module")
def help_texts() -> dict[str, str]:
    """Command → what its help prints; read through a pipe, which gets plain text."""
    process = subprocess.run(
        [sys.executable, "-c", PRINT_HELP, *COMMANDS], capture_output=True, encoding="utf-8", check=True
    )
    texts: dict[str, str] = json.loads(process.stdout)
    return texts


@pytest.fixture(scope="module")
def help_options(help_texts: dict[str, str]) -> dict[str, set[str]]:
    """Command → the options that its help prints."""
    pattern = re.compile(r"^\s+(?:-\w, )?(--[a-z-]+)(?: / (--[a-z-]+))?", re.MULTILINE)
    return {
        name: {option for pair in pattern.findall(text) for option in pair if option}
        for name, text in help_texts.items()
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_documents_exactly_its_options(command: str, help_options: dict[str, set[str]]) -> None:
    own, shared = tables_of(command)
    assert options_in(" ".join(row[0] for row in own)) | shared == help_options[command]
    explained = {option for row in rows(CLI_PAGES["docs/cli/options.md"]) for option in options_in(row[0])}
    assert shared <= explained


def tables_of(command: str) -> tuple[list[list[str]], set[str]]:
    """Between the marks on the page of a command: rows of its own options, names of shared ones."""
    page = PAGES[page_of(command)]
    _, _, marked = page.partition(f"<!-- options of {command} -->\n")
    listed = rows(marked.partition("<!-- end of options -->")[0])
    head = next(index for index, row in enumerate(listed) if row[0] == "shared with others")
    return listed[:head], options_in(" ".join(row[1] for row in listed[head + 2 :]))


@pytest.fixture(scope="module")
def option_tables() -> ModuleType:
    """The script that writes the tables of options."""
    spec = importlib.util.spec_from_file_location("option_tables", ROOT / "scripts" / "option_tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", CLI_PAGES)
def test_the_tables_of_options_are_those_of_the_help(page: str, option_tables: ModuleType) -> None:
    wanted = option_tables.written(CLI_PAGES[page], option_tables.helps())
    assert CLI_PAGES[page] == wanted, "run: python scripts/option_tables.py"


def test_every_command_and_every_shared_heading_has_a_table(option_tables: ModuleType) -> None:
    marks = [mark.group(2, 3) for page in CLI_PAGES.values() for mark in option_tables.MARKED.finditer(page)]
    found = option_tables.helps()
    wanted = [("options of", command) for command in COMMANDS]
    wanted += [("shared options:", heading) for heading in option_tables.groups(found)]
    assert set(found) == set(COMMANDS)
    assert sorted(marks) == sorted(wanted)


def test_a_text_of_the_help_becomes_a_row(option_tables: ModuleType) -> None:
    entry = option_tables.Entry(
        "-o, --color rgb|bgr", "Order of 'a b', --mean; as x=1,2 in a.onnx or bgr.", "default: rgb", "Data"
    )
    assert option_tables.code(entry.names) == "`-o`, `--color rgb\\|bgr`"
    wanted = "Order of `a b`, `--mean`; as `x=1,2` in `a.onnx` or `bgr`. Default: `rgb`."
    assert option_tables.worded(entry) == wanted


def test_every_command_is_in_the_table_of_commands_and_lists_its_json() -> None:
    table = CLI_INDEX[: CLI_INDEX.index("| topic |")]
    linked = dict(re.findall(r"\[`([\w -]+)`\]\(([^)]+)\)", table))
    assert set(linked) == set(COMMANDS)
    assert {
        name for name, link in linked.items() if not page_of(name).endswith(link.partition("#")[0])
    } == set()
    assert {name for name in COMMANDS if name != "demo" and not rows(json_of(name))} == set()


CLI_OPTIONS = ("--version", "--install-completion", "--show-completion")
"""Those of the program itself."""


@pytest.mark.parametrize("page", [*CLI_PAGES, *WITH_OPTIONS])
def test_no_page_names_an_option_that_does_not_exist(page: str, help_options: dict[str, set[str]]) -> None:
    known = set().union(*help_options.values()) | set(CLI_OPTIONS)
    assert options_in(PAGES[page]) <= known


def test_every_name_is_documented() -> None:
    names = {*COMMANDS, *PRESETS, *TARGETS, *METHODS, *RUNTIMES, *ACTIVATION_TYPES, *PILLOW_FILTERS, *FORMATS}
    text = "\n".join(CLI_PAGES.values())
    assert {name for name in names if f"`{name}`" not in text} == set()
    assert {name for name in FORMATS if f"`{name}`" not in PAGES["docs/formats.md"]} == set()
    explained = {*TARGETS, *METHODS, *ACTIVATION_TYPES}
    assert {name for name in explained if f"`{name}`" not in QUANTIZATION} == set()
    assert f"`{' '.join(sorted(IMAGE_SUFFIXES))}`" in PAGES["docs/data.md"]
    rules = {rule.__name__ for listed in RULES.values() for rule in listed}
    assert {rule for rule in rules if f"`{rule}`" not in PAGES["CONTRIBUTING.md"]} == set()


@pytest.mark.parametrize("command", ["quantize", "inspect"])
def test_the_help_names_every_target(command: str, help_texts: dict[str, str]) -> None:
    """In one piece, where lines are broken behind a hyphen."""
    text = re.sub(r"(?<=-)\n\s+", "", help_texts[command])
    assert {name for name in TARGETS if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)} == set()


def test_every_repair_has_a_row_in_their_order() -> None:
    page = PAGES["docs/repair.md"]
    table = rows(page[: page.index("\n## ")])[2:]
    assert [row[0].strip("`") for row in table] == list(REPAIRS)


def test_every_error_class_is_documented_with_its_exit_code() -> None:
    public = [getattr(calib8, name) for name in calib8.__all__]
    classes = [value for value in public if isinstance(value, type) and issubclass(value, Exception)]
    errors = {error.__name__: str(error.exit_code) for error in classes}
    documented = {row[0].strip("`"): row[1] for row in rows(CLI_PAGES["docs/cli/errors.md"])[2:]}
    assert {"Calib8Error": "1", **documented} == errors


def test_the_table_of_presets_holds_their_values() -> None:
    table = {
        row[0].strip("`"): row[2:] for row in rows(sections(PAGES["docs/preprocessing.md"])["Presets"])[2:]
    }
    assert set(table) == set(PRESETS)
    for name, (size, color, resize, box, resampling, mean, scale) in table.items():
        p = PRESETS[name]
        assert size == ("" if p.size is None else f"{p.size[0]}×{p.size[1]}"), name
        assert [color, resize, resampling] == [p.color, p.resize, p.filter], name
        boxes = {f"size/{p.crop}": p.crop, f"size + {p.crop_pad}": p.crop_pad, f"{p.resize_to}": p.resize_to}
        assert box == next((text for text, value in boxes.items() if value is not None), ""), name
        assert numbers(mean or "0") == pytest.approx(p.mean), name
        assert numbers(scale or "1") == pytest.approx(p.scale), name


def numbers(text: str) -> tuple[float, ...]:
    fractions = (part.partition("/") for part in text.split(","))
    return tuple(float(top) / float(bottom or 1) for top, _, bottom in fractions)


def test_the_table_of_targets_holds_their_values() -> None:
    table = {row[0].split("`")[1]: row[1:] for row in rows(sections(QUANTIZATION)["13. Targets"])[2:]}
    assert set(table) == set(TARGETS)
    for name, (activations, takes, placement, bias, shared, ratio, outputs, fused) in table.items():
        s = TARGETS[name]
        assert activations == f"`{s.activation_name}`", name
        everything = set(s.takes) == set(ACTIVATION_TYPES)
        assert takes == ("all three" if everything else ", ".join(f"`{t}`" for t in s.takes)), name
        assert placement == s.placement.replace("-", " "), name
        assert bias == ("int32" if s.quantize_bias else "float"), name
        assert shared == ", ".join(["movers", *sorted(s.shared_scale_ops)]), name
        again = ", else coded once more" if "Concat" in s.shared_scale_ops else ""
        wanted = "always shared" if math.isinf(s.concat_share_ratio) else f"{s.concat_share_ratio:g}{again}"
        assert ratio == wanted, name
        assert outputs == ("codes" if s.quantize_outputs else "float"), name
        assert fused == ("any function" if ANY_FUNCTION in s.fuses else ", ".join(sorted(s.fuses))), name


def test_the_page_of_the_architecture_ranks_the_rooms_as_the_code_does() -> None:
    table = rows(sections(PAGES["docs/architecture.md"])["Rooms"])[2:]
    ranks = {name: int(rank) for rank, names in table for name in re.findall(r"`(\w+)`", names)}
    assert ranks == RANK


def anchors(page: str) -> set[str]:
    """Headings as GitHub writes them into addresses."""
    found: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        same = sum(re.fullmatch(rf"{re.escape(slug)}(-\d+)?", other) is not None for other in found)
        found.add(f"{slug}-{same}" if same else slug)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGES[page]):
        if link.startswith("http"):
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("page", PAGES)
def test_every_row_belongs_to_a_table(page: str) -> None:
    assert loose_rows(PAGES[page]) == []


def test_a_row_that_a_blank_line_cuts_off_is_found() -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert loose_rows(f"text\n\n{table}") == []
    assert loose_rows(f"{table}\n| 3 | 4 |\n\n{table}") == ["| 3 | 4 |"]
    assert loose_rows(f"{table}| 3 |\n") == ["| 3 |"] and loose_rows("| 1 | 2 |\n") == ["| 1 | 2 |"]


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    folders = "src|tests|csrc|docs|scripts|benchmarks|calib8"
    for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", PAGES[page]):
        if "NAME" not in path:
            full = ROOT / ("src" if path.startswith("calib8/") else "") / path
            assert full.exists() or full.with_suffix(".py").exists(), path


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_commands_in_blocks_and_spans_exist(page: str, help_options: dict[str, set[str]]) -> None:
    texts = [block.text for block in blocks(PAGES[page]) if block.language in ("sh", "console")]
    texts += re.findall(r"`(calib8 [^`]*)`", PAGES[page])
    pattern = re.compile(r"(?:^|&& )(?:\$ )?(?:[A-Z]\w*=\S+ )?calib8 (.*)$", re.MULTILINE)
    calls = [shlex.split(call, comments=True) for text in texts for call in pattern.findall(text)]
    assert calls
    for command, *words in calls:
        if words and f"{command} {words[0]}" in COMMANDS:
            command, words = f"{command} {words[0]}", words[1:]
        if command not in ("COMMAND", "--version", "--help", "--install-completion", "--show-completion"):
            assert command in COMMANDS, command
            assert options_in(" ".join(words)) <= help_options[command], words


def test_every_command_and_every_function_is_on_the_page_of_python() -> None:
    page = PAGES["docs/python.md"]
    table = sections(page)["Commands and functions"]
    assert {name for name in COMMANDS if not re.search(rf"`(calib8 )?{name}[ `]", table)} == set()
    public = {name: getattr(calib8, name) for name in calib8.__all__}
    functions = {name for name, value in public.items() if inspect.isfunction(value)}
    named = {name for row in rows(table) for name in re.findall(r"calib8\.(\w+)", row[1])}
    assert functions <= named <= set(public)
    run = "\n".join(block.text for block in blocks(page) if block.language == "python")
    assert {name for name in functions if f"calib8.{name}(" not in run} == set(), "each has an example"
    given = {option.split()[0]: keyword for option, keyword in _options_of(page).items()}
    assert {flag for flag in FLAGS.values() if flag not in given} == set()
    assert all(name in given[flag] for name, flag in FLAGS.items())


def _options_of(page: str) -> dict[str, str]:
    """Option → keyword."""
    found = rows(sections(page)["Options and keywords"])[2:]
    return {row[0].strip("`").replace("`", ""): row[1] for row in found}


@pytest.mark.parametrize(("page", "least"), [("README.md", 4), ("docs/api.md", 7)])
def test_the_python_of_a_page_fits_the_public_names(page: str, least: int) -> None:
    text = "\n".join(block.text for block in blocks(PAGES[page]) if block.language == "python")
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    ours = [call for call in calls if ast.unparse(call.func).startswith("calib8.")]
    assert len(ours) >= least
    for call in ours:
        function = attrgetter(ast.unparse(call.func).removeprefix("calib8."))(calib8)
        keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg is not None}
        inspect.signature(function).bind(*call.args, **keywords)


def test_the_readme_can_be_read_in_a_few_minutes() -> None:
    assert len(PAGES["README.md"].split()) <= 900
