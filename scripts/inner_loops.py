"""Looks for vector registers that travel over the stack in the inner loops of kernels.

    python scripts/inner_loops.py OBJECT...

A compiler that has run out of registers writes such loops; they lose half of their speed. Inner loops are the
ranges of backward jumps that hold no other backward jump and multiply sums of products. Uses objdump (of the
processor that the objects are for, see --objdump). Exit code 1 when one is found, and when there is no loop.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(.*)$")
JUMP = re.compile(r"^(?:j\w+|b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+, #\w+,)\s+([0-9a-f]+)\b")
ADDRESS = re.compile(r"\b[0-9a-f]+$")
PRODUCT = re.compile(r"\b(vpdpbusd|vpdpwssd|vpmaddwd|sdot|usdot|usmmla|sadalp)\b")
ON_STACK = re.compile(r"%[xyz]mm\d+.*\(%rsp|\(%rsp.*%[xyz]mm\d+|\b[qv]\d+\b.*\[sp")
ON_FRAME = re.compile(r"%[xyz]mm\d+.*\(%rbp|\(%rbp.*%[xyz]mm\d+")
FRAME = re.compile(r"^mov\s+%rsp,%rbp$")


class Instruction(NamedTuple):
    """Where it lies and what it is."""

    address: int
    text: str


def functions_by_name(objdump: str, path: str) -> Iterator[tuple[str, list[Instruction]]]:
    """The functions of an object file, and their instructions."""
    command = [objdump, "--disassemble", "--demangle", "--no-show-raw-insn", path]
    body: list[Instruction] = []
    name = ""
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.endswith(">:"):
            yield name, body
            name, body = line.partition("<")[2][:-2], []
        elif match := INSTRUCTION.match(line):
            body.append(Instruction(int(match[1], 16), match[2].strip()))
    yield name, body


def inner_ranges(body: Sequence[Instruction]) -> list[list[Instruction]]:
    """Loops without a loop inside."""
    ranges = set()
    for address, text in body:
        match = JUMP.match(text)
        if match and int(match[1], 16) <= address:
            ranges.add((int(match[1], 16), address))
    inner = [
        (first, last)
        for first, last in ranges
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in ranges)
    ]
    return [[step for step in body if first <= step.address <= last] for first, last in sorted(inner)]


def inner_loops(body: Sequence[Instruction]) -> list[list[Instruction]]:
    """Those that add products."""
    return [loop for loop in inner_ranges(body) if any(PRODUCT.search(step.text) for step in loop)]


def spills(loop: Sequence[Instruction], framed: bool) -> list[Instruction]:
    """Instructions with a vector on the stack; %rbp leads there only where a function keeps a frame."""
    return [step for step in loop if ON_STACK.search(step.text) or (framed and ON_FRAME.search(step.text))]


def main() -> int:
    """Judges all objects."""
    parser = argparse.ArgumentParser(description="Stack traffic in inner loops of kernels.")
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("objects", nargs="+")
    options = parser.parse_args()
    seen = bad = 0
    for path in options.objects:
        for _, body in functions_by_name(options.objdump, path):
            for loop in inner_loops(body):
                found = spills(loop, any(FRAME.search(step.text) for step in body))
                seen += 1
                bad += bool(found)
                for step in found:
                    print(f"{path}: {step.address:x}: {step.text}")
    print(f"{seen} inner loops of products, {bad} with vectors on the stack")
    return int(bad > 0 or seen == 0)


if __name__ == "__main__":
    sys.exit(main())
