"""What texts say of parameters: a keyword in Python, a flag when typed, from one place in the code."""

from __future__ import annotations

import ast
import inspect
import json
import pickle
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

import calib8
from calib8.cli import app
from calib8.errors import UsageError
from calib8.parameters import Text, either, entries, entry, flag_of, on_command_line, one_of, parameter

SOURCE = Path(calib8.__file__).parent
BELOW = [path for path in sorted(SOURCE.rglob("*.py")) if path.parent.name != "cli"]
"""The files of all rooms but the command line's."""

NAMING = ("parameter", "entry", "entries", "flag_of", "check_positive")
"""Functions that take the name of a parameter."""

PASSED_ON = {
    "data/framing.py",  # any field of a framing
    "exporting/c/export.py",  # inputs and outputs, then both limits, one after the other
    "exporting/tflite/export.py",  # inputs and outputs, one after the other
    "progress/__init__.py",  # that of who checks a count
    "repair/wanted.py",  # effort or repair, whichever was given
    "requests/__init__.py",  # a field of any request
    "requests/given_types.py",  # any parameter
    "tuning/judging.py",
    "tuning/promise.py",
    "tuning/task_evidence.py",  # all that promise, see PARAMETERS
}
"""Files in which such a name is no literal."""

MORE = (
    "calib8.analysis.diagnose.diagnose",
    "calib8.data.units.mean_and_scale",
    "calib8.distributed.collecting.collect",
    "calib8.exporting.tflite.export.to_tflite",
    "calib8.formats.tables.write_table",
)
"""Functions for users beside those at the top."""

ONLY_TYPED = {
    "top": "rows that a command shows; a function gives them all",
}
"""Parameters that are flags alone, and why."""

ONLY_IN_PYTHON = {
    "transform": "a function",
    "progress": "a command draws a bar wherever it is watched",
    "min_score": "the promise about a judge of one's own, which is a function",
}
"""Parameters that are keywords alone, and why."""


def naming(path: Path) -> Iterator[ast.Call]:
    """Calls that name a parameter."""
    text = path.read_text(encoding="utf-8")
    if "calib8.parameters import" in text or "calib8.progress import" in text:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in NAMING:
                yield node


def named() -> dict[str, str]:
    """Parameter that a text of the package names → a file that does."""
    from calib8.tuning.promise import PARAMETERS

    found = dict.fromkeys(PARAMETERS.values(), "tuning/promise.py")
    found |= dict.fromkeys(("inputs", "outputs"), "exporting/tflite/export.py")
    for path in sorted(SOURCE.rglob("*.py")):
        for call in naming(path):
            if isinstance(call.args[0], ast.Constant):
                found[str(call.args[0].value)] = str(path.relative_to(SOURCE))
    return found


def flags() -> set[str]:
    """Of all commands."""

    def of(command: Any) -> Iterator[str]:
        for option in command.params:
            yield from option.opts
        for inner in getattr(command, "commands", {}).values():
            yield from of(inner)

    return set(of(typer.main.get_command(app)))


def keywords() -> set[str]:
    """Of all functions and classes for users, and of the methods of these."""
    found = set[str]()
    places = [(calib8, name) for name in calib8.__all__]
    places += [(import_module(path.rpartition(".")[0]), path.rpartition(".")[2]) for path in MORE]
    for module, name in places:
        public: Any = getattr(module, name)
        methods = (
            [value for key, value in vars(public).items() if key[0] != "_"] if inspect.isclass(public) else []
        )
        for function in (public, *methods):
            if callable(function):
                found |= set(inspect.signature(function).parameters)
    return found


def test_a_parameter_is_a_keyword_here_and_a_flag_there() -> None:
    for text, python, typed in (
        (parameter("keep_float"), "keep_float", "--keep-float"),
        (parameter("threads", 0), "threads=0", "--threads 0"),
        (parameter("method", "mse"), "method='mse'", "--method mse"),
        (parameter("skip_bad", True), "skip_bad=True", "--skip-bad"),
        (parameter("decay", 2.0), "decay=2.0", "--decay 2"),
        (parameter("percent", 99.9999999), "percent=99.9999999", "--percent 99.9999999"),
        (parameter("mean", (0.5, 1.0)), "mean=(0.5, 1.0)", "--mean 0.5,1"),
        (parameter("labels", Path("a b")), "labels='a b'", "--labels a b"),
        (parameter("statistics"), "statistics", "--from-stats"),
        (entry("ranges", "conv*"), "ranges['conv*']", "--range conv*"),
        (entry("branches", "out", "map"), "branches={'out': 'map'}", "--branch out=map"),
        (
            entries("branches", {"o[0:4]": "boxes", "p": "map"}),
            "branches={'o[0:4]': 'boxes', 'p': 'map'}",
            "--branch 'o[0:4]=boxes' --branch p=map",
        ),
        (either("two words", "three"), "two words", "three"),
    ):
        assert (Text(text), on_command_line(text)) == (python, typed)


def test_both_wordings_come_from_one_error_and_pass_between_processes() -> None:
    error = UsageError(
        parameter("threads", 0), "must be\nat least 1", f"Give {parameter('threads', 1)} or more."
    )
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert str(one) == "threads=0: must be at least 1. Give threads=1 or more."
        assert on_command_line(one.text) == "--threads 0: must be at least 1. Give --threads 1 or more."
        assert (one.subject, one.cure) == ("threads=0", "Give threads=1 or more.")
        assert on_command_line(one.subject) == "--threads 0"


def test_an_error_made_of_another_keeps_both_wordings() -> None:
    first = UsageError("net.onnx", "is old", f"Give {parameter('data')}")
    again = UsageError("other.onnx", first.problem, first.cure)
    assert (str(again), on_command_line(again.text)) == (
        "other.onnx: is old. Give data.",
        "other.onnx: is old. Give --data.",
    )


def test_a_text_is_a_string_in_the_words_of_python() -> None:
    text = Text(f"Give {parameter('data')}")
    assert json.dumps({"note": text}) == '{"note": "Give data"}'
    assert (f"{text}!", repr(text), Text(text).both) == ("Give data!", "'Give data'", text.both)
    assert on_command_line(pickle.loads(pickle.dumps(text))) == "Give --data"
    assert (on_command_line("plain"), Text("plain")) == ("plain", "plain")


def test_values_cannot_break_a_text() -> None:
    odd = parameter("data", "\x0ea\x0fb\x10")
    assert (Text(odd), on_command_line(odd)) == ("data='\\x0ea\\x0fb\\x10'", "--data ab")


def test_names_of_parameters_are_literals() -> None:
    odd = {
        str(path.relative_to(SOURCE))
        for path in BELOW
        for call in naming(path)
        if not isinstance(call.args[0], ast.Constant)
    }
    assert odd == PASSED_ON


def test_every_parameter_that_is_named_can_be_typed() -> None:
    typed = flags()
    missing = [f"{where}: {name}" for name, where in named().items() if flag_of(name) not in typed]
    assert sorted(one.rpartition(" ")[2] for one in missing) == sorted(ONLY_IN_PYTHON), missing


def test_every_parameter_that_is_named_can_be_passed() -> None:
    passed = keywords()
    missing = [f"{where}: {name}" for name, where in named().items() if name not in passed]
    assert sorted(one.rpartition(" ")[2] for one in missing) == sorted(ONLY_TYPED), missing


def _documented(tree: ast.AST) -> set[int]:
    """Lines of docstrings: of modules, classes, functions and constants."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _typed_only(tree: ast.AST) -> set[ast.AST]:
    """Texts that the command line alone says."""
    return {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "either"
        for part in ast.walk(node.args[1])
    }


def _is_flag(word: str) -> bool:
    bare = word.lstrip("'(`")
    return bare.startswith("--") and bare.strip("-")[:1].isalpha()


def test_no_text_below_the_command_line_speaks_of_flags() -> None:
    faults = list[str]()
    for path in BELOW:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        free, documented = _typed_only(tree), _documented(tree)
        faults += [
            f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and any(map(_is_flag, node.value.split()))
            and node not in free
            and node.lineno not in documented
        ]
    assert {fault.partition(":")[0] for fault in faults} == {"parameters.py"}, "\n".join(faults)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("MinMax", "minmax"),
        ("mean_minmax", "mean-minmax"),
        ("kl", "entropy"),
        ("TRT", "tensorrt"),
        ("entrpy", "entropy"),
        ("ort", None),  # which is none of these
        ("something", None),
        ("", None),
    ],
)
def test_near_names(given: str, meant: str | None) -> None:
    known = ["auto", "minmax", "mean-minmax", "entropy", "tensorrt"]
    listed = "Use one of auto, minmax, mean-minmax, entropy, tensorrt"
    assert one_of(given, known) == (f"Did you mean '{meant}'? {listed}" if meant else listed)
    assert one_of(given, known, "Use some of").endswith(listed.replace("one", "some"))
