"""``calib8 inspect --program``: the integer program of a model for people and as JSON, and its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from calib8.cli.options import ProgramOptions
from calib8.cli.outputs import check_suffix
from calib8.cli.render import shape_text
from calib8.cli.terminal import Terminal
from calib8.errors import UsageError
from calib8.number_texts import NOTHING, count

if TYPE_CHECKING:
    from calib8.engine.plan import FloatCall
    from calib8.program.instructions import Float
    from calib8.program.program import Port, Program


def is_saved_program(model: Path) -> bool:
    """The file is a program that ``--save`` wrote."""
    from calib8.program.magic import is_program_file

    return model.is_file() and is_program_file(model)


def check_save(model: Path, options: ProgramOptions) -> None:
    """Refuses ``--save`` where there is no program to write, or to a name that no program has.

    Raises:
        UsageError: it is.
    """
    from calib8.engine.plan_file import claims_to_be_plan

    if options.save is None:
        return
    check_suffix("--save", options.save, "program")
    if claims_to_be_plan(model):
        problem = f"does not go with {model}, which is a plan"
        raise UsageError("--save", problem, "Give the model or program that it was made from")
    if not options.program and not is_saved_program(model):
        raise UsageError("--save", f"concerns the integer program of {model}", "Add --program")


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
    say_float_gates(terminal, program.float_gates)
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
        "float_gates": list(program.float_gates),
        "weight_bytes": found.weight_bytes,
        "peak_bytes": found.peak_bytes,
    }


def say_float_gates(terminal: Terminal, layers: Sequence[str]) -> None:
    """How many recurrent layers are partly float."""
    if layers:
        what = f"partly in float32, gates and states: {', '.join(layers)}"
        terminal.say(f"{count(len(layers), 'recurrent layer')} {what}")


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
