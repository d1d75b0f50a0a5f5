"""Names with line breaks and other signs that cannot be printed stay on one line, escaped."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from tiny_models import FLAGS, cnn, save

from calib8.analysis.evaluate import Evaluation
from calib8.cli.progress import shown_progress
from calib8.cli.terminal import Terminal

ODD = "conv\n\x1b[31m2"
SHOWN = r"conv\n\x1b[31m2"


@pytest.mark.parametrize("command", ["inspect", "diagnose"])
def test_a_name_with_a_line_break_is_escaped(cli, out: Path, images: Path, command: str) -> None:
    proto = cnn()
    next(node for node in proto.graph.node if node.name == "conv2").name = ODD
    model = save(proto, out / "odd.onnx")
    options = ("--data", images, *FLAGS) if command == "diagnose" else ()
    result = cli(command, model, *options)
    assert result.exit_code == 0, result.output
    assert SHOWN in result.stdout and ODD not in result.stdout and "\x1b" not in result.stdout


CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")
"""All that a terminal obeys, but for the ends of lines."""


@pytest.fixture
def odd(out: Path) -> Path:
    """A model whose name, tensors, nodes and notes hold what a terminal obeys, and signs of markup."""
    proto = cnn()
    for node in proto.graph.node:
        node.name = f"{node.name}{ODD}[red]\x9b\u202e"
    names = {name: f"{name}{ODD}[/bold]" for node in proto.graph.node for name in node.output}
    names |= {value.name: f"{value.name}{ODD}" for value in proto.graph.input}
    for node in proto.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in (*proto.graph.input, *proto.graph.output):
        value.name = names[value.name]
    return save(proto, out / f"m{ODD}[bold].onnx")


def test_no_command_prints_what_a_terminal_obeys(cli, odd: Path, images: Path, out: Path) -> None:
    int8, table, stats = out / f"q{ODD}.onnx", out / f"t{ODD}.json", out / f"s{ODD}"
    next(images.rglob("*.png")).rename(images / f"i{ODD}.png")
    commands: list[tuple[object, ...]] = [
        ("calibrate", odd, "--data", images, *FLAGS, "--stats", stats, "-o", table),
        ("quantize", odd, "--data", images, *FLAGS, "-o", int8, "--effort", "fast"),
        ("evaluate", odd, int8, "--data", images),
        ("compare", odd, int8, "--data", images),
        ("diagnose", odd, int8, "--data", images),
        ("inspect", odd, "--data", images, *FLAGS),
        ("inspect", int8, "--program"),
        ("inspect", int8, "--target", "tensorrt"),
        ("run", int8, "--data", images),
        ("compile", int8, "-o", out / f"p{ODD}.c8"),
        ("stats", "show", stats),
        ("table", "show", table),
        ("benchmark", int8, "--runtime", "calib8", "--rounds", 1),
        ("evaluate", out / f"gone{ODD}.onnx", "--data", images),
        ("inspect", images / ODD),
    ]
    silent = []
    for command in commands:
        result = cli(*command, "--json", out / "r.json") if command[0] in ("inspect",) else cli(*command)
        assert "unexpected" not in result.output, result.output
        assert not CONTROL.search(result.output), (command, result.output)
        assert r"\n" not in result.output.replace(SHOWN, ""), "lines of its own stay lines"
        silent += [] if r"\x1b[31m2" in result.output else [(command[0], result.output)]
    assert not silent, "all of them print such names, escaped"


def test_documents_keep_names_as_they_are(cli, odd: Path, out: Path) -> None:
    result = cli("inspect", odd, "--json", out / "r.json")
    assert result.exit_code == 0, result.output
    document = json.loads((out / "r.json").read_text())
    assert document["model"] == str(odd)
    assert any(f"{ODD}[red]\x9b\u202e" in layer["name"] for layer in document["layers"])


def test_progress_shows_them_escaped() -> None:
    stream = io.StringIO()
    terminal = Terminal(Console(), Console(file=stream, force_terminal=True, width=120), quiet=False)
    stream.isatty = lambda: True  # type: ignore[method-assign]
    with shown_progress(terminal, f"opening {ODD}[bold]") as progress:
        progress(f"reading {ODD}[bold]", 1, 2)
    assert r"opening conv\n\x1b[31m2[bold]" in stream.getvalue()
    assert r"reading conv\n\x1b[31m2[bold]" in stream.getvalue()
    assert "\x1b[31m2" not in stream.getvalue()


def test_a_crash_is_told_escaped(cli, odd: Path, images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crashed(*_: object, **__: object) -> list[Evaluation]:
        return [Evaluation(str(odd), "openvino", 0, None, None, None, None, None, failure=ODD)]

    monkeypatch.setattr("calib8.judge.evaluate", crashed)
    result = cli("evaluate", odd, "--data", images)
    assert result.exit_code == 1
    assert result.stderr == f"error: {SHOWN}\n"
