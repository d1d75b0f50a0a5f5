"""``calib8 inspect --program``: the integer program of a model for people and as JSON, and its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from calib8.cli.options import ProgramOptions
from calib8.cli.render import NOTHING, count, shape_text
from calib8.cli.terminal import Terminal
from calib8.errors import UsageError

if TYPE_CHECKING:
    from calib8.engine.plan import FloatCall
    from calib8.program.instructions import Float
    from calib8.program.program import Port, Program


def is_saved_program(model: Path) -> bool:
    """The file is a program that ``--save`` wrote."""
    from calib8.program.magic import is_program_file

    return model.is_file() and is_program_file(model)


def wants_program(model: Path, options: ProgramOptions) -> bool:
    """``--program`` is given, or the file is a program.

    Raises:
        UsageError: options of the program without it.
    """
    if options.program or is_saved_program(model):
        return True
    for name in given_options(options):
        raise UsageError(name, f"concerns the integer program of {model}", "Add --program")
    return False


def refuse_until(model: Path, until: Sequence[str] | None) -> None:
    """Refuses other outputs than those of the model, unless it is a TFLite model.

    Raises:
        UsageError: some are given.
    """
    from calib8.tflite.magic import claims_to_be_tflite

    if until and not claims_to_be_tflite(model):
        raise UsageError(f"--until {until[0]}", f"{model} is not a TFLite model", "Leave it out")


def given_options(options: ProgramOptions) -> list[str]:
    """Those that say how the program is made or where it goes, by their names on the command line."""
    values = {
        "--profile": options.profile,
        "--integer-only": options.integer_only,
        "--shape": options.shape,
        "--until": options.until,
        "--save": options.save,
    }
    return [name for name, value in values.items() if value]


def read_program(model: Path, options: ProgramOptions) -> Program:
    """The program of a saved file, or what a model is lowered to; saved where ``--save`` says.

    Raises:
        Calib8Error: options, model or output do not fit.
    """
    from calib8.program.file import save_program
    from calib8.session import InferenceSession

    refuse_until(model, options.until)
    shapes = read_shapes(options.shape or ())
    session = InferenceSession(
        model, runtime="reference", profile=options.profile, integer_only=options.integer_only, shapes=shapes,
        outputs=options.until or None,
    )  # fmt: skip
    program = session.program
    if options.save is not None:
        save_program(program, options.save)
    return program


def read_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``NAME=1,3,224,224`` → sizes by input name.

    Raises:
        UsageError: not of this form, too large, or a name twice.
    """
    from calib8.tensors import MOST_ELEMENTS, is_too_large  # NumPy

    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.split(","))
        except ValueError:
            shape = ()
        if not name or not shape or min(shape) < 1:
            raise UsageError(
                f"--shape {text}", "is not a name and sizes", "Write it like --shape image=1,3,224,224"
            )
        if is_too_large(shape):
            problem = f"gives '{name}' more than {MOST_ELEMENTS:,} elements"
            raise UsageError(f"--shape {text}", problem, "Give smaller sizes")
        if name in shapes:
            raise UsageError(f"--shape {text}", f"gives '{name}' a second shape", "Give one per input")
        shapes[name] = shape
    return shapes


def say_sizes_taken(
    terminal: Terminal, model: Path, shapes: Mapping[str, Sequence[int]], batch: int | None = None
) -> None:
    """Says which sizes that a TFLite model leaves free are those of its file; a free batch is ``batch``."""
    from calib8.tflite.magic import claims_to_be_tflite

    if not claims_to_be_tflite(model):
        return
    from calib8.tflite.read import read_tflite
    from calib8.tflite.resize import sizes_taken

    for sentence in sizes_taken(read_tflite(model), shapes, batch):
        terminal.say(f"note: {sentence}. Others: --shape")


def say_program(terminal: Terminal, program: Program) -> None:
    """The instructions one by one, then their number and what has no integer form."""
    from calib8.program.listing import listing, summary

    found = summary(program)
    for line in listing(program).split("\n"):
        terminal.say(line)
    terminal.say(
        "instructions: " + ", ".join(f"{number} {name}" for name, number in found.instructions.items())
    )
    float_macs = NOTHING if found.float_macs is None else f"{found.float_macs:,}"
    terminal.say(f"{found.integer_macs:,} multiply-accumulates in integers, {float_macs} in float")
    terminal.say(
        f"{decimal(found.weight_bytes)} of weights, {decimal(found.peak_bytes)} of tensors at a time"
    )
    terminal.say(f"{count(len(found.float_nodes), 'node')} without an integer form")
    say_float_nodes(terminal, program.float_instructions)


def program_document(program: Program) -> dict[str, Any]:
    """What ``say_program`` tells, without the listing; ``float_macs`` is null where a size is unknown."""
    from calib8.program.listing import summary

    found = summary(program)
    return {
        "profile": found.profile,
        "inputs": [_port(program, port) for port in program.inputs],
        "outputs": [_port(program, port) for port in program.outputs],
        "instructions": dict(found.instructions),
        "integer_macs": found.integer_macs,
        "float_macs": found.float_macs,
        "float_nodes": float_nodes_document(program.float_instructions),
        "weight_bytes": found.weight_bytes,
        "peak_bytes": found.peak_bytes,
    }


def say_float_nodes(terminal: Terminal, steps: Iterable[Float | FloatCall]) -> None:
    """A line per node without an integer form."""
    for node, reason in _float_nodes(steps):
        terminal.say(f"{node}: {reason}" if reason else node)


def float_nodes_document(steps: Iterable[Float | FloatCall]) -> list[dict[str, str]]:
    """What ``say_float_nodes`` tells."""
    return [{"node": node, "reason": reason} for node, reason in _float_nodes(steps)]


def _float_nodes(steps: Iterable[Float | FloatCall]) -> Iterator[tuple[str, str]]:
    """Name of each node and why it has no integer form, empty where that was not kept."""
    for step in steps:
        yield from zip(step.nodes, step.reasons or ("",) * len(step.nodes), strict=True)


def _port(program: Program, port: Port) -> str:
    slot = program.slots[port.slot]
    return f"{port.name}: {slot.dtype} {shape_text(slot.shape)}"
