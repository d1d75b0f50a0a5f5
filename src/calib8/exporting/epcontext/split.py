"""A program cut where ONNX Runtime computes: parts in integers, and Float instructions between them.

Every slot has a depth, how many Float instructions lie one behind the other on the longest way to it:

    depth(input) = 0        depth(result) = max over what is read, one more for the result of a Float

Integer instructions of one depth are one part. It reads nothing that a later part makes, since depths only
rise on the way; so parts in the order of their depth, each before the Float instructions that read it, run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from calib8.model.graph import first_free
from calib8.program.instructions import Float, Instruction
from calib8.program.program import Port, Program
from calib8.program.renumber import numbered


@dataclass(frozen=True)
class FloatPart:
    """A Float instruction between values that have names.

    Attributes:
        step: the instruction.
        inputs, outputs: names of its values, in the order of its slots.
    """

    step: Float
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """Parts in the order in which they run.

    Attributes:
        parts: programs without Float instructions, whose ports are named as values, and Float instructions.
        copies: output of the program → value that is the same one.
    """

    parts: tuple[Program | FloatPart, ...]
    copies: Mapping[str, str]


def split(program: Program) -> Split:
    """The parts of a program; itself, where nothing in it is float.

    Args:
        program: verified, without states.
    """
    if not program.float_instructions:
        return Split((program,), {})
    names, copies = _names(program)
    groups, floats = _by_depth(program)
    parts: list[Program | FloatPart] = []
    for depth in range(max((*groups, *floats)) + 1):
        if groups[depth]:
            parts.append(_part(program, groups[depth], names, depth))
        parts += [_float_part(step, names) for step in floats[depth]]
    return Split(tuple(parts), copies)


def _names(program: Program) -> tuple[dict[int, str], dict[str, str]]:
    """Slot → name of its value, and the outputs that are another name for one."""
    names = {port.slot: port.name for port in program.inputs}
    copies: dict[str, str] = {}
    for port in program.outputs:
        if port.slot in names:
            copies[port.name] = names[port.slot]
        else:
            names[port.slot] = port.name
    taken = {*names.values(), *copies}
    for number, slot in enumerate(program.slots):
        if number not in names:
            names[number] = first_free(slot.name, taken)
            taken.add(names[number])
    return names, copies


_Depths = Mapping[int, list[Instruction]]


def _by_depth(program: Program) -> tuple[_Depths, Mapping[int, list[Float]]]:
    """Integer and Float instructions by the depth of what they read."""
    depths: Counter[int] = Counter()  # of slots; inputs have 0
    groups: defaultdict[int, list[Instruction]] = defaultdict(list)
    floats: defaultdict[int, list[Float]] = defaultdict(list)
    for step in program.instructions:
        depth = max((depths[slot] for slot in step.inputs), default=0)
        if isinstance(step, Float):
            floats[depth].append(step)
        else:
            groups[depth].append(step)
        depths.update(dict.fromkeys(step.outputs, depth + isinstance(step, Float)))
    return groups, floats


def _part(program: Program, steps: Sequence[Instruction], names: Mapping[int, str], number: int) -> Program:
    """Some instructions as a program: fed what others make, giving what others read."""
    members = set(map(id, steps))
    made = dict.fromkeys(slot for step in steps for slot in step.outputs)
    read = dict.fromkeys(slot for step in steps for slot in step.inputs if slot not in made)
    wanted = {port.slot for port in program.outputs}
    wanted.update(slot for step in program.instructions if id(step) not in members for slot in step.inputs)
    return numbered(
        replace(
            program,
            instructions=tuple(steps),
            inputs=tuple(Port(names[slot], slot) for slot in read),
            outputs=tuple(Port(names[slot], slot) for slot in made if slot in wanted),
            name=f"{program.name} {number}".strip(),
        )
    )


def _float_part(step: Float, names: Mapping[int, str]) -> FloatPart:
    return FloatPart(
        step, tuple(names[slot] for slot in step.inputs), tuple(names[slot] for slot in step.outputs)
    )
