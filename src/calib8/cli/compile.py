"""``calib8 compile``: a quantized model becomes a plan file, which opens at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.filesize import decimal

from calib8.cli.headings import COMPILING, RESULTS, option
from calib8.cli.options import (
    INTEGER_ONLY_HELP,
    PROFILE_HELP,
    SHAPE_HELP,
    UNTIL_HELP,
    PreprocessOptions,
    ReportOptions,
)
from calib8.cli.outputs import check_outputs, check_suffix, write_json
from calib8.cli.pairs import fixed_values
from calib8.cli.preprocessing import chosen_preprocess, given_flags, stored_in_file
from calib8.cli.program import (
    float_nodes_document,
    read_shapes,
    say_float_gates,
    say_float_nodes,
)
from calib8.cli.progress import shown_progress
from calib8.cli.stream_options import FixModelOption
from calib8.cli.terminal import Terminal, open_terminal
from calib8.errors import UsageError
from calib8.number_texts import count, percent
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.data.preprocess import Preprocess
    from calib8.delivery.compiling import Compilation

QuantizedArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help="The quantized model (.onnx or .tflite) or a saved program.",
    ),
]
OutputOption = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="OUT.c8",
        show_default=False,
        help="Where to write the plan.",
        rich_help_panel=RESULTS,
    ),
]
_ISA_HELP = (
    "Label in the plan: the instruction set that it was made for. It changes nothing else, the plan runs on "
    "every one. Default: the fastest of this machine."
)
_PIXELS_HELP = (
    "Let the plan take uint8 images N×H×W×C, channels in the model's order: mean and scale become part of "
    "it. Without preprocessing flags those that the model was calibrated with."
)


CARRIED: Final = frozenset(("mean", "scale", "layout", "color"))
"""Settings of a preprocessing that a plan of pixels carries, or that can be held against its model."""


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """What a plan is made for."""

    profile: Annotated[str | None, option(COMPILING, "--profile", "NAME", PROFILE_HELP)] = None
    integer_only: Annotated[bool, option(COMPILING, "--integer-only", None, INTEGER_ONLY_HELP)] = False
    shape: Annotated[list[str] | None, option(COMPILING, "--shape", "NAME=A,B,…", SHAPE_HELP)] = None
    until: Annotated[list[str] | None, option(COMPILING, "--until", "TENSOR", UNTIL_HELP)] = None
    isa: Annotated[str | None, option(COMPILING, "--isa", "NAME", _ISA_HELP)] = None
    pixels: Annotated[bool, option(COMPILING, "--pixels", None, _PIXELS_HELP)] = False
    fix: FixModelOption = None


def compile(
    model: QuantizedArgument,
    output: OutputOption,
    *,
    compiling: CompileOptions,
    preprocessing: PreprocessOptions,
    report: ReportOptions,
) -> None:
    """Compile a quantized model into a plan.

    A plan holds packed weights and finished steps. It needs neither the model nor ONNX to run, and opens as
    fast as its file can be read.
    """
    terminal = open_terminal(report.quiet)
    check_outputs({"--output": output, "--json": report.json}, [model])
    check_suffix("--output", output, "plan")

    from calib8.delivery.compiling import compile as compiled

    with shown_progress(terminal, "compiling"):
        found = compiled(
            model,
            output,
            profile=compiling.profile,
            integer_only=compiling.integer_only,
            shapes=read_shapes(compiling.shape or ()),
            until=compiling.until or (),
            isa=compiling.isa,
            pixels=_pixels(model, compiling, preprocessing),
            fix=fixed_values(compiling.fix),
        )
    _say(terminal, found)
    if report.json is not None:
        write_json(report.json, _document(model, output, found))


def _pixels(model: Path, options: CompileOptions, preprocessing: PreprocessOptions) -> Preprocess | None:
    """The preprocessing that becomes part of the plan.

    Raises:
        UsageError: neither the flags nor the model say what it is, a flag asks for what no plan can do, or
            there are flags without ``--pixels``.
    """
    if not options.pixels:
        if given_flags(preprocessing) or preprocessing.preprocess is not None:
            raise UsageError("preprocessing flags", "go with --pixels only", "Add --pixels or leave them out")
        return None
    left_out = sorted(given_flags(preprocessing).keys() - CARRIED)
    if left_out:
        flag = "--" + left_out[0].replace("_", "-")
        problem = "does not go with --pixels: of the preprocessing only mean and scale become part of a plan"
        raise UsageError(flag, problem, "Leave it out, and do it to the images that are fed")
    start = chosen_preprocess(PreprocessOptions(preprocess=preprocessing.preprocess), stored_in_file([model]))
    color = preprocessing.color
    same = color in (None, start.color) if start is not None else color != "bgr"
    if not same:
        problem = "does not go with --pixels: a plan takes the channels in the model's order and swaps none"
        raise UsageError(f"--color {color}", problem, "Leave it out, and feed them in that order")
    chosen = chosen_preprocess(replace(preprocessing, preprocess=None), start)
    if chosen is None:
        problem = f"nothing says how {model} wants its images"
        raise UsageError("--pixels", problem, "Give --mean and --scale, or --preprocess")
    return chosen


def _say(terminal: Terminal, found: Compilation) -> None:
    plan = found.plan
    terminal.say(f"{found.output}  {decimal(found.bytes)}, profile {plan.profile}, made for {plan.isa}")
    terminal.say(
        f"{count(len(found.program.instructions), 'instruction')} in {count(len(plan.rows), 'step')}, "
        f"{decimal(plan.weight_bytes)} of weights, arena {decimal(plan.arena_bytes)}"
    )
    share = found.float_share
    uncounted = " (what else these nodes do is not counted)" if plan.float_nodes else ""
    terminal.say(
        f"{count(len(plan.float_nodes), 'node')} without an integer form, "
        f"{percent(share)} of the multiply-accumulates in float{uncounted}"
    )
    say_float_gates(terminal, found.float_gates)
    say_float_nodes(terminal, found.program.float_instructions)
    for note in found.notes:
        terminal.say(f"note: {on_command_line(note)}")


def _document(model: Path, output: Path, found: Compilation) -> dict[str, Any]:
    plan, numbers = found.plan, found.summary
    return {
        "model": str(model),
        "output": str(output),
        "bytes": found.bytes,
        "profile": plan.profile,
        "isa": plan.isa,
        "instructions": len(found.program.instructions),
        "steps": len(plan.rows),
        "weight_bytes": plan.weight_bytes,
        "arena_bytes": plan.arena_bytes,
        "integer_macs": numbers.integer_macs,
        "float_macs": numbers.float_macs,
        "float_nodes": float_nodes_document(found.program.float_instructions),
        "float_gates": list(found.float_gates),
    }
