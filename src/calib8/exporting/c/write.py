"""The two files: what a program is called from, and what it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from calib8.exporting.c import kernels
from calib8.exporting.c.borders import Border
from calib8.exporting.c.memory import ALIGNMENT, Arena, Tensors
from calib8.exporting.c.text import TYPES, identifier, said, unlike
from calib8.exporting.c.unit import Unit, place_name
from calib8.program.program import Program

UINT8_OFFSET: Final = 128
VECTORS: Final = "defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1)"


@dataclass(frozen=True)
class Written:
    """What both files are made of.

    Attributes:
        name: with which all public names begin.
        stem: name of the files without suffix.
        model: name of the file that it was made of.
        program: over int8 codes.
        unit: its constants and calls.
        found: what lives in the arena.
        arenas: of the loops of the file, and with CMSIS-NN without and with vectors.
        inputs, outputs: in the order of the program.
    """

    name: str
    stem: str
    model: str
    program: Program
    unit: Unit
    found: Tensors
    arenas: tuple[Arena, ...]
    inputs: Sequence[Border]
    outputs: Sequence[Border]

    @property
    def flash_bytes(self) -> int:
        """Of the constants."""
        return sum(stored.bytes for stored in self.unit.stored)

    def ports(self) -> Iterator[tuple[str, Border, str]]:
        """Side, border and name of the function that gives its place."""
        taken: list[str] = []
        for side, borders in (("input", self.inputs), ("output", self.outputs)):
            for border in borders:
                wanted = side if len(borders) == 1 else f"{side}_{identifier(border.name, 'tensor')}"
                taken.append(unlike(wanted, taken))
                yield side, border, f"{self.name}_{taken[-1]}"

    @property
    def one_arena(self) -> bool:
        """CMSIS-NN needs no scratch memory."""
        return len({(tuple(place.of.items()), place.total) for place in self.arenas}) == 1


def header(written: Written) -> str:
    """The .h file."""
    upper = written.name.upper()
    lines = [
        f"/* {written.name}: made by calib8 from {said(written.model)}; not to be edited. */",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* Bytes of RAM that a run needs, inputs and outputs among them. */",
        *_arena_bytes(written, f"{upper}_ARENA_BYTES"),
        "",
        "/* The arena begins at a multiple of so many bytes. */",
        f"#define {upper}_ARENA_ALIGNMENT {ALIGNMENT}",
        "",
        "/* Bytes of flash that the constants take. */",
        f"#define {upper}_CONSTANT_BYTES {written.flash_bytes}",
        "",
        *(
            line
            for side, border, function in written.ports()
            for line in _port(written, side, border, function)
        ),
        "/* Computes the outputs of the inputs, which it may overwrite: fill them before every run. 0: done;",
        " * anything else: the arena is not aligned, or CMSIS-NN refused a layer. */",
        f"int {written.name}_run(void* arena);",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _arena_bytes(written: Written, macro: str) -> list[str]:
    plain, scalar, vector = (place.total for place in written.arenas)
    if plain == scalar == vector:
        return [f"#define {macro} {plain}"]
    return [
        "#if !defined(CALIB8_CMSIS_NN)",
        f"#define {macro} {plain}",
        f"#elif {VECTORS}",
        f"#define {macro} {vector}",
        "#else",
        f"#define {macro} {scalar}",
        "#endif",
    ]


def _port(written: Written, side: str, border: Border, function: str) -> list[str]:
    slot = written.program.slots[border.slot]
    sizes = ", ".join(map(str, slot.shape))
    lines = [f'/* {side.capitalize()} "{said(border.name)}": {border.dtype} [{sizes}]. */']
    macro = function.upper()
    lines.append(f"#define {macro}_COUNT {math.prod(slot.shape)}")
    if slot.is_codes:
        zero = slot.zero_point + (UINT8_OFFSET if border.dtype == "uint8" else 0)
        lines[0] = lines[0].replace(". */", f"; real = {macro}_SCALE * (code - {macro}_ZERO_POINT). */")
        lines += [f"#define {macro}_SCALE {_decimal(slot.scale)}", f"#define {macro}_ZERO_POINT {zero}"]
    return [*lines, f"{TYPES[border.dtype]}* {function}(void* arena);", ""]


def _decimal(value: float) -> str:
    """A float32 number in as few digits as say which it is."""
    text = str(np.float32(value))
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def source(written: Written) -> str:
    """The .c file."""
    unit = written.unit
    texts = [kernels.text(name) for name in kernels.with_needs(_kernels(written))]
    parts = [
        _banner(written),
        "\n".join(_includes(written)),
        "\n".join(_places(written)),
        "#define AT(offset) ((void*)((char*)arena + (offset)))\n",
        *texts,
        *unit.constants,
        *(
            f"{TYPES[border.dtype]}* {function}(void* arena) {{ return AT({_place(written, border)}); }}\n"
            for _, border, function in written.ports()
        ),
        _run(written),
    ]
    return "\n".join(parts)


def _banner(written: Written) -> str:
    program = written.program
    return "\n".join([
        f"/* {written.name}: made by calib8 from {said(written.model)}; not to be edited.",
        " *",
        f" * {len(program.instructions)} instructions, rounding profile {program.profile}.",
        f" * Flash: {written.flash_bytes} bytes of constants. RAM: {written.arenas[0].total} bytes of arena.",
        " * With CALIB8_CMSIS_NN defined, CMSIS-NN runs what it computes to the same bits. */",
        "",
    ])  # fmt: skip


def _kernels(written: Written) -> set[str]:
    flipped = any(border.dtype == "uint8" for border in (*written.inputs, *written.outputs))
    return written.unit.kernels | ({"flip"} if flipped else set())


def _includes(written: Written) -> list[str]:
    lines = [f'#include "{written.stem}.h"', "", "#include <stddef.h>", "#include <string.h>", ""]
    if written.unit.by_cmsis_nn:
        lines += ["#ifdef CALIB8_CMSIS_NN", '#include "arm_nnfunctions.h"', "#endif", ""]
    return lines


def _place(written: Written, border: Border) -> str:
    return place_name(border.slot, written.program.slots[border.slot])


def _places(written: Written) -> list[str]:
    """Offsets of the tensors, and of scratch memory."""
    said_first = "/* Where tensors lie in the arena; those that never live together share their place. */"
    if written.one_arena:
        return [said_first, *_offsets(written, 0)]
    return [
        said_first,
        "#if !defined(CALIB8_CMSIS_NN)",
        *_offsets(written, 0),
        f"#elif {VECTORS}",
        *_offsets(written, 2),
        "#else",
        *_offsets(written, 1),
        "#endif",
        "",
    ]


def _offsets(written: Written, kind: int) -> list[str]:
    """The enumeration of one arena: 0 of the loops, 1 and 2 with CMSIS-NN."""
    place, slots = written.arenas[kind], written.program.slots
    lines = ["enum {"]
    lines += [f"  {place_name(slot, slots[slot])} = {offset}," for slot, offset in sorted(place.of.items())]
    for number, scratch in sorted(written.unit.scratch.items()):
        size = scratch[kind - 1] if kind else 0
        lines.append(f"  SCRATCH_{number} = {place.scratch[number]}, SCRATCH_{number}_BYTES = {size},")
    return [*lines, "};", ""]


def _run(written: Written) -> str:
    unit = written.unit
    body = [f"if (((uintptr_t)arena & {ALIGNMENT - 1}) != 0) {{", "  return 1;", "}"]
    body += _flips(written, written.inputs) + unit.calls + _flips(written, written.outputs)
    if unit.by_cmsis_nn:
        body = ["int fault = 0;", "", *body, "return fault;"]
    else:
        body.append("return 0;")
    lines = [f"  {line}" if line else "" for line in body]
    return "\n".join([f"int {written.name}_run(void* arena) {{", *lines, "}", ""])


def _flips(written: Written, borders: Sequence[Border]) -> list[str]:
    """uint8 codes of a side become int8 codes, or the other way; tensors in one place once."""
    done: set[int] = set()
    lines = []
    for border in borders:
        root = written.found.root[border.slot]
        if border.dtype == "uint8" and root not in done:
            done.add(root)
            count = math.prod(written.program.slots[border.slot].shape)
            lines.append(f"flip(AT({_place(written, border)}), {count});")
    return lines
