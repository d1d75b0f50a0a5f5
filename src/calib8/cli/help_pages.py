"""Commands whose help lists options under headings, in a pipe too, and that answer names nearly right.

Typer puts options under headings on terminals only, in boxes. Here the order of the headings is one for both,
see ``calib8.cli.headings``, and a page ends with an example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from calib8.cli.headings import ORDER, RESULTS
from calib8.cli.typed import remember
from calib8.parameters import nearest

_PANEL: Final = "rich_help_panel"
"""Where Typer keeps the heading of a parameter."""

EXAMPLES: Final = {
    "demo": "calib8 demo",
    "quantize": "calib8 quantize net.onnx --data images --preprocess torchvision -o net.int8.onnx",
    "calibrate": "calib8 calibrate net.onnx --data images --preprocess torchvision -o table.json",
    "evaluate": "calib8 evaluate net.onnx net.int8.onnx --data labelled --labels labels.txt",
    "compare": "calib8 compare net.onnx net.int8.onnx --data images --top 20",
    "diagnose": "calib8 diagnose net.onnx net.int8.onnx --data images",
    "run": "calib8 run net.int8.onnx --data image.png --top 3",
    "inspect": "calib8 inspect net.int8.onnx --target onnxruntime",
    "compile": "calib8 compile net.int8.onnx -o net.c8",
    "export": "calib8 export net.int8.onnx --to tflite -o net.tflite",
    "benchmark": "calib8 benchmark net.onnx net.int8.onnx --threads 1,2",
    "tune": "calib8 tune net.onnx --data images --judge-data others --min-agreement 99 --budget 1h",
    "view": "calib8 view reports",
    "doctor": "calib8 doctor --json machine.json",
    "tengine-quant": "calib8 tengine-quant -m net.onnx -i images -a 1 -o net.int8.onnx",
    "stats merge": "calib8 stats merge 1.stats 2.stats -o all.stats",
    "stats show": "calib8 stats show all.stats",
    "table show": "calib8 table show net.table",
    "table convert": "calib8 table convert table.json --to tensorrt -o net.cache",
    "table diff": "calib8 table diff table.json net.table --exit-code",
    "table plot": "calib8 table plot table.json --stats all.stats -o pictures.html",
}
"""Command → one way to call it."""


class HelpfulCommand(TyperCommand):
    """A command of calib8."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments, then options in the order of their headings."""
        found = super().get_params(ctx)
        for param in found:
            if "--help" in param.opts:
                setattr(param, _PANEL, RESULTS)
        return sorted(found, key=_place)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As Typer's, which says of an unknown option which one is meant."""
        remember(args)
        try:
            if not ctx.resilient_parsing:  # what is completed is not whole yet
                _check_lists(ctx, self.make_parser(ctx).parse_args(list(args))[2])
            return super().parse_args(ctx, args)
        except Exception as error:
            _say_meant(error, (name for param in self.get_params(ctx) for name in param.opts), ctx)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Plain text: a section for every heading."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(_heading(param), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Plain text: the example in one line, however long it is."""
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")


class HelpfulGroup(TyperGroup):
    """Commands of calib8."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As Typer's, which says of an unknown option which one is meant."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            _say_meant(error, (name for param in self.get_params(ctx) for name in param.opts), ctx)
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As Typer's, which says of an unknown command which one is meant."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            if args and hasattr(error, "message") and not hasattr(error, "option_name"):
                _say(error, f"No such command '{args[0]}'.{_meant(args[0], self.commands)}")
            raise


def _check_lists(ctx: Any, given: Sequence[Any]) -> None:
    """Refuses a list that is given item by item, of which Typer would take the last item for all of it.

    Args:
        ctx: of the command.
        given: its parameters in the order of the command line, those that are given twice twice.
    """
    for param, times in Counter(given).items():
        kind = getattr(param, "metavar", None) or ""
        if times > 1 and "," in kind and not param.multiple:
            problem = f"given {times} times. Give it once, with commas: {param.opts[0]} {kind}"
            raise typer.BadParameter(problem, ctx=ctx, param_hint=param.opts[0])


def _place(param: Any) -> int:
    """Of a parameter among all: arguments first, options by their heading, what has none before the last."""
    if param.param_type_name == "argument":
        return -1
    heading = _heading(param)
    return ORDER.index(heading) if heading in ORDER else len(ORDER) - 2


def _heading(param: Any) -> str:
    if param.param_type_name == "argument":
        return "Arguments"
    return getattr(param, _PANEL, None) or "Options"


def _say_meant(error: Exception, known: Iterable[str], ctx: Any) -> None:
    """Puts the one option that is nearest in place of all that are near, else the commands that have it."""
    name = getattr(error, "option_name", None)
    if name is None or not hasattr(error, "possibilities"):
        return
    _say(error, f"No such option '{name}'.{_meant(name, known) or _of_others(name, ctx)}")


def _of_others(name: str, ctx: Any) -> str:
    """Which commands have an option that this one has not."""
    commands = getattr(ctx.find_root().command, "commands", {})
    takers = [
        command
        for command, one in commands.items()
        if any(name in param.opts for param in one.get_params(ctx))
    ]
    return f" These commands have it: {', '.join(takers)}." if takers else ""


def _say(error: Any, text: str) -> None:
    """Puts a text in place of what Typer or Click says."""
    error.message = text
    error.possibilities = None


def _meant(name: str, known: Iterable[str]) -> str:
    meant = nearest(name, known)
    return "" if meant is None else f" Did you mean '{meant}'?"


def example_of(name: str) -> str | None:
    """The last line of a page of help."""
    example = EXAMPLES.get(name)
    return None if example is None else f"Example: {example}"
