"""``export``: a quantized model in the form of another runtime; scales and codes stay as they are.

A tmfile is made of a float model too, as Tengine's converter makes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from calib8.delivery.epcontext import EpContextExport, write_epcontext
from calib8.delivery.fixed import fixed_graph, fixed_source
from calib8.delivery.tmfile_export import operators, tmfile_of
from calib8.errors import ModelError, UsageError
from calib8.exporting.c.export import CExport, to_c
from calib8.exporting.c.files import write_c
from calib8.exporting.qoperator import QOperatorReport, to_qoperator
from calib8.exporting.tflite.export import TfliteExport, to_tflite
from calib8.files import TMFILE, checked_path
from calib8.model.load import naming_file
from calib8.model.save import save_model
from calib8.notebook import grid, in_notebook, notes
from calib8.parameters import one_of, parameter
from calib8.program.file import save_program
from calib8.program.listing import summary
from calib8.program.magic import is_program_file
from calib8.program.program import Program
from calib8.requests import checks_types
from calib8.session import InferenceSession
from calib8.session.refusals import check_destination, refuse_plan
from calib8.session.stored_preprocess import stored_preprocess
from calib8.tflite.magic import claims_to_be_tflite
from calib8.tflite.notes import notes_on_sizes
from calib8.tflite.write import write_tflite
from calib8.tmfile.graph import Graph
from calib8.tmfile.magic import claims_to_be_tmfile
from calib8.tmfile.write import write_tmfile

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True, eq=False)
class Export:
    """What ``export`` wrote; one of ``tflite`` … ``c`` is not None.

    Attributes:
        model: path of the model.
        output: the file; of C the .c file, with the .h file beside it.
        to: its form, a key of ``FORMS``.
        bytes: its size; of C that of both files.
        tflite: the TFLite graph, and what had to be done for it.
        qoperator: what became of the nodes of the graph.
        program: the integer program.
        tmfile: the Tengine graph, in codes or float.
        epcontext: the plans in an ONNX file.
        c: the C code, and the RAM and flash that it takes.
        notes: what is not kept exactly, what costs more than it should, and free sizes that were taken from a
            TFLite file.
    """

    model: str
    output: Path
    to: str
    bytes: int
    tflite: TfliteExport | None = None
    qoperator: QOperatorReport | None = None
    program: Program | None = None
    tmfile: Graph | None = None
    epcontext: EpContextExport | None = None
    c: CExport | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: which file, its form, how large."""
        number = sum(self.operators.values())
        others = (self.program, self.epcontext, self.c)
        noun = "operators" if all(one is None for one in others) else "instructions"
        return f"<Export: {str(self.output)!r}, {self.to}, {number} {noun}, {self.bytes:,} bytes>"

    def _repr_html_(self) -> str:
        """What the file holds, and what is not kept exactly, for notebooks."""
        kinds = grid(("operator", "how many"), list(self.operators.items()), lambda kind: kind)
        kept = () if self.qoperator is None else self.qoperator.kept
        left = grid(("node in float", "op", "why"), kept, lambda one: (one.node, one.op_type, one.reason))
        return in_notebook(repr(self), kinds, left, notes(self.notes))

    @property
    def operators(self) -> Mapping[str, int]:
        """Operator on codes, or instruction → how many the file holds."""
        if self.tflite is not None:
            return self.tflite.operators
        if self.qoperator is not None:
            return self.qoperator.fused
        if self.tmfile is not None:
            return operators(self.tmfile)
        if self.epcontext is not None:
            return self.epcontext.instructions
        if self.c is not None:
            return self.c.instructions
        return {} if self.program is None else summary(self.program).instructions


class _Asked(NamedTuple):
    """How a file is made, see ``export``."""

    inputs: str | None
    outputs: str | None
    shapes: Shapes | None
    profile: str | None
    integer_only: bool
    fix: Mapping[str, Any] | None
    plan_beside: bool
    arena_limit: int | None
    flash_limit: int | None


@checks_types
def export(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    to: str,
    *,
    inputs: str | None = None,
    outputs: str | None = None,
    shapes: Shapes | None = None,
    profile: str | None = None,
    integer_only: bool = False,
    fix: Mapping[str, Any] | None = None,
    plan_beside: bool = False,
    arena_limit: int | None = None,
    flash_limit: int | None = None,
) -> Export:
    """Writes a quantized model in the form of another runtime.

    Args:
        model: path of a quantized .onnx or .tflite file of any tool, or of a saved program; for a tmfile of
            a float or quantized .onnx file.
        output: where to; the name ends as ``FORMS`` says.
        to: ``tflite``, ``qoperator`` (operators of ONNX on codes), ``program``, ``epcontext`` (plans
            in an ONNX file, for calib8's provider in ONNX Runtime), ``tmfile`` (Tengine: int8 of an int8
            model whose zero points are 0, float of a float one) or ``c`` (C99 for microcontrollers: a .c
            file and, beside it, a .h file of the same name).
        inputs, outputs: type of what a TFLite model or C code is fed and gives back: float32, int8 or uint8.
            None: as in the model.
        shapes: of all but ``qoperator``: input name → sizes, where the model leaves them open.
        profile, integer_only: of a program or plan, see ``calib8.InferenceSession``; of C the profile is
            ``tflite`` (None) or ``single``.
        fix: of an ONNX model: input name → the value that it always has; what is written has no such input.
        plan_beside: of ``epcontext``: plans lie in files beside the model, such as NAME.c8, and are mapped
            into memory; else they lie in it.
        arena_limit, flash_limit: of C: bytes of RAM and, for constants, of flash that there are.

    Raises:
        UsageError: options that do not fit the form or each other.
        ModelError: the model cannot be read, or something in it has no such form; all of it is listed. Or
            the C code takes more bytes than there are; what takes them is listed.
        OutputError: the file cannot be written; an old one stays intact.
    """
    form = FORMS.get(to) if isinstance(to, str) else None
    if form is None:
        raise UsageError(parameter("to", to), "unknown form", one_of(to, FORMS))
    path, place = checked_path(model, "model"), checked_path(output, "output")
    check_destination(place, path)
    limits = (arena_limit, flash_limit)
    asked = _Asked(inputs, outputs, shapes, profile, integer_only, fix, plan_beside, *limits)
    _check_suffix(place, to, form)
    _check_fits(asked, to, form)
    refuse_plan(path)
    found = form.write(path, place, asked)
    notes = (*found.notes, *notes_on_sizes(path, shapes))
    return replace(found, bytes=found.bytes or place.stat().st_size, notes=notes)


def _to_tflite(model: Path, output: Path, asked: _Asked) -> Export:
    if claims_to_be_tmfile(model):
        problem = f"does not fit {model}: Tengine's kernels round in other ways than TFLite's"
        cure = f"Quantize the ONNX model that it was converted from, with {parameter('target', 'tflite')}"
        raise UsageError(parameter("to", "tflite"), problem, cure)
    source = fixed_source(model, asked.fix)
    session = InferenceSession(source, runtime="reference", profile="tflite", shapes=asked.shapes)
    stored = stored_preprocess([model])
    preprocess = None if stored is None else replace(stored, layout="NHWC").to_json()
    result = to_tflite(
        session.program, inputs=asked.inputs, outputs=asked.outputs, preprocess=preprocess, name=str(model)
    )
    write_tflite(result.graph, output)
    return Export(str(model), output, "tflite", 0, tflite=result, notes=result.notes)


def _to_qoperator(model: Path, output: Path, asked: _Asked) -> Export:
    _refuse_without_graph(model, "operators of ONNX on codes are")
    loaded = fixed_graph(model, asked.fix)
    with naming_file(loaded):
        result, report = to_qoperator(loaded)
    save_model(result, output)
    return Export(str(model), output, "qoperator", 0, qoperator=report, notes=report.notes)


def _refuse_without_graph(model: Path, made: str) -> None:
    """Refuses a saved program and a TFLite file, where an ONNX graph is needed."""
    cure = "Give the .onnx file that it was made from"
    if is_program_file(model):
        raise ModelError(str(model), "is a saved program, which has no operators of ONNX", cure)
    if claims_to_be_tflite(model):
        from calib8.tflite.uses import uses_of_file  # ONNX models do without the schema

        problem = f"is a TFLite model, and {made} made of an ONNX model"
        raise ModelError(str(model), problem, f"{cure}{uses_of_file(model)}")


def _to_tmfile(model: Path, output: Path, asked: _Asked) -> Export:
    _refuse_without_graph(model, "a tmfile is")
    graph, notes = tmfile_of(model, asked.shapes or {}, asked.fix)
    write_tmfile(graph, output)
    return Export(str(model), output, "tmfile", 0, tmfile=graph, notes=notes)


def _to_program(model: Path, output: Path, asked: _Asked) -> Export:
    program = InferenceSession(
        fixed_source(model, asked.fix),
        runtime="reference",
        profile=asked.profile,
        integer_only=asked.integer_only,
        shapes=asked.shapes,
    ).program
    save_program(program, output)
    return Export(str(model), output, "program", 0, program=program)


def _to_epcontext(model: Path, output: Path, asked: _Asked) -> Export:
    source = fixed_source(model, asked.fix)

    def opened(shapes: Shapes, state: Mapping[str, str] | None) -> InferenceSession:
        return InferenceSession(
            source,
            profile=asked.profile,
            integer_only=asked.integer_only,
            shapes={**(asked.shapes or {}), **shapes},
            state=state,
        )

    states = opened({}, None).program.states
    without = partial(opened, state={} if states else None)
    found = write_epcontext(model, output, without, states, asked.plan_beside)
    return Export(str(model), output, "epcontext", 0, epcontext=found, notes=found.notes)


def _to_c(model: Path, output: Path, asked: _Asked) -> Export:
    session = InferenceSession(
        fixed_source(model, asked.fix),
        runtime="reference",
        profile=asked.profile or (None if is_program_file(model) else "tflite"),
        shapes=asked.shapes,
    )
    found = to_c(
        session.program,
        output.stem,
        name=str(model),
        inputs=asked.inputs,
        outputs=asked.outputs,
        arena_limit=asked.arena_limit,
        flash_limit=asked.flash_limit,
    )
    size = write_c(found, output)
    return Export(str(model), output, "c", size, c=found, notes=found.notes)


@dataclass(frozen=True)
class Form:
    """A form that a model can be exported to.

    Attributes:
        write: writes the file and says what became of the model.
        suffix: of its files.
        options: parameters of ``export`` that it takes.
    """

    write: Callable[[Path, Path, _Asked], Export]
    suffix: str
    options: tuple[str, ...]


FORMS: Final[Mapping[str, Form]] = {
    "tflite": Form(_to_tflite, ".tflite", ("inputs", "outputs", "shapes", "fix")),
    "qoperator": Form(_to_qoperator, ".onnx", ("fix",)),
    "tmfile": Form(_to_tmfile, TMFILE, ("shapes", "fix")),
    "program": Form(_to_program, ".c8p", ("shapes", "profile", "integer_only", "fix")),
    "epcontext": Form(_to_epcontext, ".onnx", ("shapes", "profile", "integer_only", "fix", "plan_beside")),
    "c": Form(_to_c, ".c", ("inputs", "outputs", "shapes", "profile", "fix", "arena_limit", "flash_limit")),
}
"""Value of ``to`` → how it is written."""


def _check_suffix(output: Path, to: str, form: Form) -> None:
    if output.suffix.lower() != form.suffix:
        problem = f"does not end in {form.suffix}, as files of {parameter('to', to)} do"
        cure = f"Give another name, such as {output.with_suffix(form.suffix).name}"
        raise UsageError(parameter("output", output), problem, cure)


def _check_fits(asked: _Asked, to: str, form: Form) -> None:
    called = {
        "inputs": parameter("inputs"),
        "outputs": parameter("outputs"),
        "shapes": parameter("shapes"),
        "profile": parameter("profile"),
        "integer_only": parameter("integer_only"),
        "fix": parameter("fix"),
        "plan_beside": parameter("plan_beside"),
        "arena_limit": parameter("arena_limit"),
        "flash_limit": parameter("flash_limit"),
    }
    for name, value in asked._asdict().items():
        if value and name not in form.options:
            raise UsageError(called[name], f"does not go with {parameter('to', to)}", "Leave it out")
