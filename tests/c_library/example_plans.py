"""Plan files of small programs: of every instruction, with states, and with a part in float."""

from __future__ import annotations

from pathlib import Path

from calib8.engine.compile import compile_program
from calib8.engine.plan_file import save_plan
from program.example_programs import EXAMPLES, chain
from program.wide_programs import WIDE


def write_examples(folder: Path) -> list[Path]:
    """One file per example and profile, those of 16-bit codes too, and a small network."""
    programs = {f"{name} {profile}": program for (name, profile), program in {**EXAMPLES, **WIDE}.items()}
    written = []
    for name, program in {**programs, "chain": chain()}.items():
        path = folder / f"{name.replace(' ', '_').replace('/', '_')}.c8"
        save_plan(compile_program(program), path)
        written.append(path)
    return written


def example(name: str, folder: Path) -> Path:
    """The plan of one of them, in the profile onnx."""
    save_plan(compile_program(EXAMPLES[name, "onnx"]), folder / "whole.c8")
    return folder / "whole.c8"
