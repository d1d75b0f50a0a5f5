"""Cycles that llvm-mca expects of the inner loops of object files for Arm: no board is needed.

    python benchmarks/arm_cycles.py OBJECT... [--cores cortex-a55 cortex-a76 neoverse-n1] [--mca llvm-mca-19]

Objects may be the engine's (``conv_neondot.cc.o`` …) or of others, compiled for the same core. A row per loop
that multiplies and has no loop inside: its function, instructions, products per round, per instruction and,
for every core, per cycle. llvm-mca knows how many instructions a core does at once and how long each takes;
it knows nothing of caches, and a loop is taken as if it never ended. Loops that are alike in all of this are
one row.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from inner_loops import ADDRESS, Instruction, functions_by_name, inner_ranges  # noqa: E402

CORES: Final = ("cortex-a55", "cortex-a76", "neoverse-n1")
BRANCH: Final = re.compile(r"(?:bl?|b\.\w+|cbn?z|tbn?z)\s")
PRODUCTS: Final = (
    (re.compile(r"^usmmla\b|^smmla\b"), 32),
    (re.compile(r"^u?sdot\b"), 16),
    (re.compile(r"^sm(?:ull|lal)2?\s+v\d+\.8h"), 8),
    (re.compile(r"^sm(?:ull|lal)2?\s+v\d+\.4s"), 4),
)
"""What multiplies, and how many products it is."""


def products(loop: Sequence[Instruction]) -> int:
    """Products of a round."""
    return sum(next((count for pattern, count in PRODUCTS if pattern.match(step.text)), 0) for step in loop)


def as_assembly(loop: Sequence[Instruction]) -> str:
    """What an assembler takes: places that are jumped to become one label."""
    lines = []
    for step in loop:
        text = re.sub(r"\s+//.*|\s+<.*", "", step.text)
        lines.append(ADDRESS.sub(".Lround", text) if BRANCH.match(text) else text)
    return ".Lround:\n" + "\n".join(lines) + "\n"


def short(name: str) -> str:
    """A function without its namespaces, arguments and the arguments of templates."""
    name = name.replace("(anonymous namespace)::", "")
    while (plain := re.sub(r"<[^<>]*>", "", name)) != name:
        name = plain
    return name.partition("(")[0].rpartition("::")[2]


def cycles(mca: str, core: str, assembly: str) -> float:
    """Cycles of a round."""
    rounds = 100
    with tempfile.NamedTemporaryFile("w", suffix=".s") as file:
        file.write(assembly)
        file.flush()
        flags = ["-mtriple=aarch64-linux-gnu", f"-mcpu={core}", "-mattr=+dotprod,+i8mm"]
        command = [mca, *flags, f"-iterations={rounds}", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    if found is None:
        raise SystemExit(f"{core}: {done.stderr}\n{assembly}")
    return int(found[1]) / rounds


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("objects", nargs="+", type=Path)
    parser.add_argument("--cores", nargs="+", default=list(CORES))
    parser.add_argument("--objdump", default="aarch64-linux-gnu-objdump")
    parser.add_argument("--mca", default="llvm-mca")
    parser.add_argument("--only", default="", help="in the name of the function")
    arguments = parser.parse_args()
    print(f"| loop | instructions | MAC | MAC / instruction | {' | '.join(arguments.cores)} |")
    print("|---|" + "---:|" * (3 + len(arguments.cores)))
    for path in arguments.objects:
        seen = set()
        for name, body in functions_by_name(arguments.objdump, str(path)):
            if arguments.only not in name:
                continue
            title = f"{path.name.split('.')[0]} {short(name)}"
            for loop in inner_ranges(body):
                macs = products(loop)
                if not macs:
                    continue
                assembly = as_assembly(loop)
                rates = [macs / cycles(arguments.mca, core, assembly) for core in arguments.cores]
                row = f"{len(loop)} | {macs} | {macs / len(loop):.1f} | " + " | ".join(
                    f"{rate:.1f}" for rate in rates
                )
                if row not in seen:
                    print(f"| {title} | {row} |", flush=True)
                seen.add(row)


if __name__ == "__main__":
    main()
