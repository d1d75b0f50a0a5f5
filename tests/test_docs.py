"""The pages say what the code does: examples and sessions are run, names, options and links are looked up."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.parser
import pytest
from PIL import Image
from typer.testing import CliRunner

import calib8
from calib8.analysis.lint import RULES
from calib8.analysis.runtimes import RUNTIMES
from calib8.calibration.ranges import METHODS
from calib8.cli import app
from calib8.data.images import IMAGE_SUFFIXES
from calib8.data.presets import PRESETS
from calib8.data.resize import PILLOW_FILTERS
from calib8.demo import MODEL_PATH
from calib8.scheme import ACTIVATION_TYPES, TARGETS

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}
CLI, QUANTIZATION = PAGES["docs/cli.md"], PAGES["docs/quantization.md"]
COMMANDS = tuple(str(command.name) for command in app.registered_commands)

SPEED = re.compile(r"\d+\.\d(?=\s+\d+\.\d kB)")
"""Images per second: the figure before the size."""

TOKEN = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?|\w+|[^\w\s]")

PRINT_HELP = """
import json, sys
from typer.testing import CliRunner
from calib8.cli import app
print(json.dumps({name: CliRunner().invoke(app, [name, "--help"]).output for name in sys.argv[1:]}))
"""

DIGITS = 5e-3
"""Relative; float inference on other CPUs differs in later digits only."""

INT8_DIGITS = 0.1
"""Relative; what ONNX Runtime computes from codes may differ more between types of CPU."""


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


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def alike(shown: str, printed: str, tolerance: float = DIGITS) -> bool:
    """Equal but for white space, the speed and, within the tolerance, numbers; ``…`` stands for anything."""
    given = TOKEN.findall(SPEED.sub("speed", printed))
    pieces = [TOKEN.findall(piece) for piece in SPEED.sub("speed", shown).split("…")]
    position = 0
    for index, piece in enumerate(pieces):
        last = len(given) - len(piece)
        starts = range(position, last + 1) if index else range(min(1, last + 1))
        if index == len(pieces) - 1:
            starts = range(last, last + 1) if last in starts else range(0)
        found = [s for s in starts if all(same(a, b, tolerance) for a, b in zip(piece, given[s:]))]  # noqa: B905
        if not found:
            return False
        position = found[0] + len(piece)
    return True


def same(left: str, right: str, tolerance: float) -> bool:
    with contextlib.suppress(ValueError):
        return left == right or math.isclose(float(left), float(right), rel_tol=tolerance, abs_tol=2e-5)
    return False


INFERENCE = ("calib8.calibrate(", "found.")
"""Examples that print what the float demo network computed: other CPUs may compute other last digits."""


def test_the_python_examples_print_what_is_shown() -> None:
    namespace: dict[str, Any] = {}
    examples = blocks(QUANTIZATION)
    assert sum(block.language == "python" for block in examples) >= 15
    for index, block in enumerate(examples):
        if block.language != "python":
            continue
        shown = examples[index + 1]
        assert shown.language == "text", f"line {block.line}: its output is not shown"
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block.text, f"docs/quantization.md:{block.line}", "exec"), namespace)
        inferred = any(word in block.text for word in INFERENCE)
        fits = alike(shown.text, output.getvalue()) if inferred else shown.text == output.getvalue()
        assert fits, f"line {block.line}:\n{output.getvalue()}"


def test_the_comparison_sees_a_changed_digit_or_word() -> None:
    assert alike("scale 0.0292126  zero 128", "scale 0.0292127 zero 128")
    assert not alike("scale 0.0292126", "scale 0.0296")
    assert not alike("zero 128", "zero 127")
    assert not alike("zero 128", "point 128")
    assert not alike("one", "one two") and not alike("one two", "one") and not alike("two", "one two")
    assert alike("a\n…\nb", "a 1 2 3 b") and alike("…\nb", "a b") and alike("a\n…\n", "a b")
    assert not alike("a\n…\nb", "a 1 2 3 c") and not alike("a\n…\nb\n…", "a c") and not alike("a…a", "a")


def commands_with_output(text: str) -> Iterator[tuple[dict[str, str], list[str], str]]:
    """Environment, arguments and shown output of every ``$ calib8 …`` of a console block."""
    for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = piece.partition("\n")
        words = shlex.split(line)
        environment = dict(word.split("=", 1) for word in words if re.match(r"[A-Z]\w*=", word))
        yield environment, words[len(environment) :], shown


def test_the_sessions_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in MODEL_PATH.parent.glob("digits*"):
        shutil.copy(file, tmp_path)
    namespace: dict[str, Any] = {}
    run = 0
    for block in blocks(CLI):
        if block.language == "python":
            exec(compile(block.text, f"docs/cli.md:{block.line}", "exec"), namespace)
        if block.language != "console":
            continue
        for environment, words, shown in commands_with_output(block.text):
            if words[0] == "cp":
                continue
            output = ran(words[1:], environment)
            tolerance = INT8_DIGITS if words[1] in ("demo", "evaluate", "compare", "run") else DIGITS
            assert alike(shown, output, tolerance), f"docs/cli.md:{block.line}: {' '.join(words)}\n{output}"
            run += 1
    assert run >= 18
    assert Path("reference.json").read_bytes() == Path("digits.json").read_bytes()


def ran(arguments: list[str], environment: dict[str, str]) -> str:
    """Output and errors of one command; with an environment of its own it runs in a new process."""
    if not environment:
        return CliRunner().invoke(app, arguments).output
    command = [sys.executable, "-m", "calib8", *arguments]
    variables = {**os.environ, **environment}
    result = subprocess.run(command, env=variables, capture_output=True, encoding="utf-8", check=False)
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def help_options() -> dict[str, set[str]]:
    """Command → the options that its help prints; read through a pipe, which gets plain text."""
    process = subprocess.run(
        [sys.executable, "-c", PRINT_HELP, *COMMANDS], capture_output=True, encoding="utf-8", check=True
    )
    pattern = re.compile(r"^\s+(?:-\w, )?(--[a-z-]+)(?: / (--[a-z-]+))?", re.MULTILINE)
    return {
        name: {option for pair in pattern.findall(text) for option in pair if option}
        for name, text in json.loads(process.stdout).items()
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_documents_exactly_its_options(command: str, help_options: dict[str, set[str]]) -> None:
    parts = sections(CLI)
    own = parts[command]
    shared = re.search(r"It also takes: (.*?)\.(?: |\n)", own)
    assert shared is not None
    texts = [own, *(parts[title.capitalize()] for title in re.findall(r"\[(\w+)\]", shared[1]))]
    documented = {option for text in texts for row in rows(text) for option in options_in(row[0])}
    assert documented == help_options[command]


@pytest.mark.parametrize("page", ["docs/cli.md", "docs/quantization.md"])
def test_no_page_names_an_option_that_does_not_exist(page: str, help_options: dict[str, set[str]]) -> None:
    known = set().union(*help_options.values()) | {"--version"}
    assert options_in(PAGES[page]) <= known


def test_the_groups_of_options_name_the_commands_that_take_them() -> None:
    for title in ("Data", "Labels", "Preprocessing", "Runtime", "Ranges"):
        named = set(re.findall(r"`(\w+)`", sections(CLI)[title].strip().split(".")[0]))
        takers = {name for name in COMMANDS if f"](#{title.lower()})" in sections(CLI)[name]}
        assert named == takers, title


def test_every_name_is_documented() -> None:
    names = {*COMMANDS, *PRESETS, *TARGETS, *METHODS, *RUNTIMES, *ACTIVATION_TYPES, *PILLOW_FILTERS}
    assert {name for name in names if f"`{name}`" not in CLI} == set()
    explained = {*TARGETS, *METHODS, *ACTIVATION_TYPES}
    assert {name for name in explained if f"`{name}`" not in QUANTIZATION} == set()
    assert f"`{' '.join(sorted(IMAGE_SUFFIXES))}`" in CLI
    rules = {rule.__name__ for listed in RULES.values() for rule in listed}
    assert {rule for rule in rules if f"`{rule}`" not in PAGES["CONTRIBUTING.md"]} == set()


def test_every_error_class_is_documented_with_its_exit_code() -> None:
    public = [getattr(calib8, name) for name in calib8.__all__]
    classes = [value for value in public if isinstance(value, type) and issubclass(value, Exception)]
    errors = {error.__name__: str(error.exit_code) for error in classes}
    documented = {row[0].strip("`"): row[1] for row in rows(sections(CLI)["Errors"])[2:]}
    assert {"Calib8Error": "1", **documented} == errors


def test_the_table_of_presets_holds_their_values() -> None:
    table = {row[0].strip("`"): row[2:] for row in rows(sections(CLI)["Presets"])[2:]}
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
    for name, (activations, takes, placement, bias, shared, ratio, outputs) in table.items():
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


def paths(value: Any, documented: set[str], prefix: str = "") -> Iterator[str]:
    """``models[].top1`` and so on for all that a document holds, down to what is documented as one field."""
    if prefix in documented or not isinstance(value, (dict, list)):
        yield prefix
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, documented, f"{prefix}.{key}" if prefix else key)
    else:
        assert value, f"{prefix} is empty: the test must fill it"
        for inner in value:
            yield from paths(inner, documented, f"{prefix}[]")


def one_output(path: Path) -> Path:
    """A model whose output is an image, no row of class scores."""
    head = '<ir_version: 8, opset_import: ["": 17]>'
    text = f"{head} image (float[N,1,16,16] x) => (float[N,1,16,16] y) {{y = Relu(x)}}"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def one_name_lost(path: Path) -> Path:
    """An int8 model of the demo network in which one quantized tensor bears another name."""
    quantized = calib8.quantize(MODEL_PATH, [{"input": np.ones((1, 1, 16, 16), np.float32)}], method="minmax")
    next(
        value for node in quantized.model.graph for value in node.outputs if value.name == "block2/relu"
    ).name = "x"
    quantized.save(path)
    return path


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Command → what it writes for machines, from runs in which every list has an entry."""
    folder = tmp_path_factory.mktemp("documents")
    images = folder / "images"
    images.mkdir()
    (images / "bad.png").write_bytes(b"no image")
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save(images / "good.png")
    flags = ["--color", "gray", "--mean", "128", "--scale", "1/128", "--data", str(images), "--skip-bad"]
    int8, mixed = folder / "int8.onnx", folder / "mixed.onnx"
    runs: list[list[Any]] = [
        ["calibrate", MODEL_PATH, *flags, "-o", folder / "table.json"],
        ["quantize", MODEL_PATH, *flags, "-o", int8],
        ["evaluate", MODEL_PATH, int8, *flags],
        ["compare", MODEL_PATH, one_name_lost(folder / "lost.onnx"), *flags],
        ["run", MODEL_PATH, *flags],
        ["run", one_output(folder / "image.onnx"), *flags],
        ["quantize", MODEL_PATH, *flags, "--keep-float", "head/dense", "-o", mixed],
        ["inspect", mixed, "--program", "--target", "tensorrt"],
        ["compile", mixed, "-o", folder / "mixed.c8"],
        ["inspect", folder / "mixed.c8"],
        ["benchmark", int8, "--runtime", "calib8", "--threads", "1", "--rounds", "1", "--profile"],
    ]
    found: dict[str, list[Any]] = {}
    for arguments in runs:
        target = folder / "result.json"
        result = CliRunner().invoke(app, [*map(str, arguments), "--json", str(target)])
        assert result.exit_code == (1 if "--target" in arguments else 0), result.output
        found.setdefault(arguments[0], []).append(json.loads(target.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize(
    "command", ["calibrate", "quantize", "evaluate", "compare", "run", "inspect", "compile", "benchmark"]
)
def test_every_field_of_a_json_document_is_documented(command: str, documents: dict[str, list[Any]]) -> None:
    parts = sections(CLI)
    listed = rows(parts[f"`{command}`"])
    if command == "quantize":
        shared = rows(parts["`calibrate`"])
        listed += [row for row in shared if row[0].startswith(("`preflight.", "`calibration."))]
    documented = {field for row in listed for field in re.findall(r"`([^`]+)`", row[0])}
    written = {path for document in documents[command] for path in paths(document, documented)}
    assert written == documented


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
def test_files_that_are_named_exist(page: str) -> None:
    folders = "src|tests|csrc|docs|scripts|benchmarks|calib8"
    for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", PAGES[page]):
        if "NAME" not in path:
            full = ROOT / ("src" if path.startswith("calib8/") else "") / path
            assert full.exists() or full.with_suffix(".py").exists(), path


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/cli.md"])
def test_commands_in_blocks_and_spans_exist(page: str, help_options: dict[str, set[str]]) -> None:
    texts = [block.text for block in blocks(PAGES[page]) if block.language in ("sh", "console")]
    texts += re.findall(r"`(calib8 [^`]*)`", PAGES[page])
    pattern = re.compile(r"(?:^|&& )(?:\$ )?(?:[A-Z]\w*=\S+ )?calib8 (.*)$", re.MULTILINE)
    calls = [shlex.split(call, comments=True) for text in texts for call in pattern.findall(text)]
    assert calls
    for command, *words in calls:
        if command not in ("COMMAND", "--version", "--help"):
            assert command in COMMANDS, command
            assert options_in(" ".join(words)) <= help_options[command], words


def test_the_python_of_the_readme_fits_the_public_names() -> None:
    text = "\n".join(block.text for block in blocks(PAGES["README.md"]) if block.language == "python")
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    ours = [call for call in calls if ast.unparse(call.func).startswith("calib8.")]
    assert len(ours) >= 4
    for call in ours:
        function = getattr(calib8, ast.unparse(call.func).removeprefix("calib8."))
        keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg is not None}
        inspect.signature(function).bind(*call.args, **keywords)
