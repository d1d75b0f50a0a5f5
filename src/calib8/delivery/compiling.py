"""``compile``: a quantized model becomes a plan file, which opens at once and runs without ONNX."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calib8.data.preprocess import Preprocess
from calib8.data.presets import known_preprocess
from calib8.delivery.fixed import fixed_source
from calib8.engine.plan import Plan
from calib8.engine.plan_file import save_plan
from calib8.engine.run import ISAS, default_isa
from calib8.errors import UsageError
from calib8.files import checked_path
from calib8.notebook import grid, in_notebook, notes
from calib8.number_texts import percent
from calib8.parameters import one_of, parameter
from calib8.program.listing import ProgramSummary, summary
from calib8.program.program import Program
from calib8.requests import checks_types
from calib8.session import InferenceSession
from calib8.session.refusals import check_destination, check_suffix, refuse_plan, refuse_until
from calib8.session.stored_preprocess import stored_preprocess
from calib8.tensors import TensorSpec
from calib8.tflite.notes import notes_on_sizes
from calib8.type_texts import a_type


@dataclass(frozen=True, eq=False)
class Compilation:
    """What ``compile`` wrote.

    Attributes:
        model: path of the model.
        output: the plan file.
        bytes: its size.
        plan: what is in it.
        program: the integer program that it was compiled from.
        notes: what to know, such as free sizes that were taken from a TFLite file.
    """

    model: str
    output: Path
    bytes: int
    plan: Plan
    program: Program
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: which file, how large, how much of it in float."""
        share = f"{percent(self.float_share)} of the MACs in float"
        steps = f"{len(self.plan.rows)} steps, {self.bytes:,} bytes"
        return f"<Compilation: {str(self.output)!r}, {steps}, profile {self.plan.profile}, {share}>"

    def _repr_html_(self) -> str:
        """What the plan holds, for notebooks."""
        found = self.summary
        kinds = grid(("instruction", "how many"), list(found.instructions.items()), lambda kind: kind)
        floats = list(self.program.float_reasons.items())
        left = grid(("node in float", "why"), floats, lambda node: node)
        return in_notebook(repr(self), kinds, left, notes(self.notes))

    @property
    def summary(self) -> ProgramSummary:
        """Instructions, multiply-accumulates and bytes of the program."""
        return summary(self.program)

    @property
    def float_gates(self) -> tuple[str, ...]:
        """Recurrent layers whose products are integers, and whose gates and states are float32."""
        return self.program.float_gates

    @property
    def float_share(self) -> float | None:
        """Share of the multiply-accumulates that ONNX Runtime computes, 0 … 1; None where nobody can tell."""
        found = self.summary
        if found.float_macs is None:
            return None
        total = found.integer_macs + found.float_macs
        return found.float_macs / total if total else 0.0


@checks_types
def compile(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    profile: str | None = None,
    integer_only: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
    until: Sequence[str] = (),
    isa: str | None = None,
    pixels: Preprocess | str | bool | None = None,
    fix: Mapping[str, Any] | None = None,
) -> Compilation:
    """Compiles a quantized model into a plan: packed weights and finished steps, which open as fast as read.

    Args:
        model: path of a quantized .onnx, .tflite or .tmfile of any tool, or of a saved program.
        output: the plan, ``NAME.c8``.
        profile, integer_only, shapes: see ``calib8.InferenceSession``; a free batch counts as 1.
        until: of a TFLite model: names of tensors that become the outputs in place of its own.
        isa: label in the plan: the instruction set that it was made for, None: the fastest of this machine.
            It changes nothing else, a plan runs on every one.
        pixels: let the plan take uint8 images [N, H, W, C], channels in the model's order; mean and scale
            become part of it. A ``Preprocess``, the name of a preset, or True: the one that is stored in the
            model.
        fix: of an ONNX model: input name → the value that it always has; the plan has no such input.

    Raises:
        UsageError: options that do not fit the model or each other.
        ModelError: the model cannot be read, or not be lowered.
        OutputError: the file cannot be written; an old one stays intact.
    """
    path, place = checked_path(model, "model"), checked_path(output, "output")
    check_destination(place, path)
    check_suffix(parameter("output", place), place, "plan")
    if isa is not None and isa not in ISAS:
        raise UsageError(parameter("isa", isa), "unknown instruction set", one_of(isa, ISAS))
    refuse_plan(path)
    refuse_until(path, until)
    images = _pixels(path, pixels)
    session = InferenceSession(
        fixed_source(path, fix), profile=profile, integer_only=integer_only, shapes=shapes, pixels=images,
        outputs=until or None,
    )  # fmt: skip
    if images is not None:
        _check_color(images, path, session.inputs)
    plan, program = replace(session.plan, isa=isa or default_isa()), session.program
    save_plan(plan, place)
    notes = notes_on_sizes(path, shapes)
    return Compilation(str(path), place, place.stat().st_size, plan, program, notes)


def _pixels(model: Path, pixels: Preprocess | str | bool | None) -> Preprocess | None:
    """The preprocessing that becomes part of the plan.

    Raises:
        UsageError: the model has none, there is no such preset, or it is no preprocessing at all.
    """
    if pixels is None or pixels is False:
        return None
    cure = "Give a Preprocess, such as calib8.preset('torchvision')"
    if not isinstance(pixels, bool | str | Preprocess):
        raise UsageError(parameter("pixels"), f"is {a_type(pixels)}", cure)
    found = stored_preprocess([model]) if pixels is True else known_preprocess(pixels)
    if found is None:
        problem = f"nothing says how {model} wants its images"
        raise UsageError(parameter("pixels"), problem, cure)
    return found


def _check_color(images: Preprocess, model: Path, inputs: Sequence[TensorSpec]) -> None:
    """Refuses a colour that was chosen where the model's image has another number of channels."""
    shapes = [spec.shape for spec in inputs if spec.dtype == "uint8" and spec.shape is not None]
    counts = {shape[3] for shape in shapes if len(shape) == 4}
    wanted = 1 if images.color == "gray" else 3
    if images.color != Preprocess.color and wanted not in counts:
        problem = f"has {wanted}, but the images of {model} have {', '.join(map(str, counts))} channels"
        raise UsageError(parameter("color", images.color), problem, "Leave it out")
