"""``inspect``: any file that calib8 reads, looked at: layers, operators, integer program, plan, broken rules.

    float or quantized ONNX model   layers, what is quantized; with data what goes wrong inside
    TFLite model                    operators, tensors, scales
    tmfile of Tengine               likewise
    plan                            steps, memory
    saved program                   its instructions

``program=True`` tells the instructions of a quantized model too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from calib8.analysis.inspection_tables import (
    model_tables,
    observation_table,
    plan_tables,
    program_tables,
    tflite_tables,
    tmfile_tables,
    violation_table,
)
from calib8.analysis.plan_inspect import PlanInspection, inspect_plan
from calib8.data.reading import NOTHING_READ, Reading, framed_as_stored
from calib8.data.samples import DataSource
from calib8.engine.plan_file import ANY_MODEL, claims_to_be_plan
from calib8.errors import UsageError
from calib8.files import check_model_file, checked_path
from calib8.notebook import in_notebook, notes
from calib8.number_texts import count
from calib8.parameters import Text, parameter
from calib8.program.magic import is_program_file
from calib8.progress import Progress, ShownProgress, callback_of, draws_progress
from calib8.requests import check_used, requested, takes_words_of
from calib8.scheme import target_scheme
from calib8.session import InferenceSession
from calib8.session.refusals import refuse_until
from calib8.session.stored_preprocess import stored_framing, stored_preprocess
from calib8.tflite.magic import claims_to_be_tflite
from calib8.tflite.notes import notes_on_sizes
from calib8.tmfile.magic import claims_to_be_tmfile

if TYPE_CHECKING:  # plans are looked at without what reads models
    from typing_extensions import Unpack

    from calib8.analysis.inspect import ModelInspection
    from calib8.analysis.lint import Violation
    from calib8.analysis.observed import Observation, ObservingWords
    from calib8.analysis.tflite_inspect import TfliteInspection
    from calib8.analysis.tmfile_inspect import TmfileInspection
    from calib8.program.program import Program

TFLITE: Final = "tflite"
"""The target whose rules a TFLite file can break."""

Kind = Literal["float", "quantized", "tflite", "tmfile", "plan", "program"]


@dataclass(frozen=True, eq=False)
class Inspection:
    """What ``inspect`` found; what does not belong to the kind of the file is None or empty.

    Attributes:
        path: of the file.
        model: of an ONNX model: layers, what is quantized, warnings.
        tflite: of a TFLite model: operators, tensors, scales.
        plan: of a plan.
        program: the integer program, of a saved one or where it was asked for; ``calib8.export`` writes it.
        target: whose rules were checked, None: no target's.
        violations: of these rules; empty for a clean model.
        observation: what data show, or the worst case of pairs of weights without data; None where neither
            was asked for.
        notes: what to know, such as free sizes that the program of a TFLite file took from it.
        tmfile: of a tmfile of Tengine: nodes, tensors, scales.
    """

    path: str
    model: ModelInspection | None = None
    tflite: TfliteInspection | None = None
    plan: PlanInspection | None = None
    program: Program | None = None
    target: str | None = None
    violations: tuple[Violation, ...] = ()
    observation: Observation | None = None
    notes: tuple[str, ...] = ()
    tmfile: TmfileInspection | None = None

    def __repr__(self) -> str:
        """One line: which file, what it holds, and whether a rule is broken."""
        told = [f"{self.path!r}", self.kind]
        if self.model is not None:
            done = sum(layer.quantized for layer in self.model.layers)
            would = "would be " if self.kind == "float" else ""
            told.append(f"{done} of {len(self.model.layers)} operations {would}quantized")
        if self.target is not None:
            told.append(f"{count(len(self.violations), 'violation')} of the rules of {self.target!r}")
        return f"<Inspection: {', '.join(told)}>"

    def _repr_html_(self) -> str:
        """What is in the file, for notebooks."""
        parts = [violation_table(self.violations)]
        if self.model is not None:
            parts.append(model_tables(self.model))
        if self.tflite is not None:
            parts.append(tflite_tables(self.tflite))
        if self.tmfile is not None:
            parts.append(tmfile_tables(self.tmfile))
        if self.plan is not None:
            parts.append(plan_tables(self.plan))
        if self.program is not None:
            parts.append(program_tables(self.program))
        if self.observation is not None:
            parts.append(observation_table(self.observation))
        return in_notebook(repr(self), *parts, notes(self.notes))

    @property
    def kind(self) -> Kind:
        """What the file holds; all TFLite models are ``tflite``, all of Tengine ``tmfile``."""
        if self.model is not None:
            return self.model.kind
        if self.tmfile is not None:
            return "tmfile"
        return "tflite" if self.tflite is not None else "plan" if self.plan is not None else "program"


class _Asked(NamedTuple):
    """What is to be looked at beside the file itself, see ``inspect``."""

    target: str | None
    program: bool
    profile: str | None
    integer_only: bool
    shapes: Mapping[str, Sequence[int]] | None
    until: Sequence[str]
    reading: Reading
    avx2_safety: bool


@draws_progress
@takes_words_of(Reading, without=("labels",))
def inspect(
    model: str | os.PathLike[str],
    data: DataSource | Reading | None = None,
    *,
    target: str | None = None,
    program: bool = False,
    profile: str | None = None,
    integer_only: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
    until: Sequence[str] = (),
    avx2_safety: bool = False,
    progress: ShownProgress = None,
    **words: Unpack[ObservingWords],
) -> Inspection:
    """Looks at a file: what is in it, what is quantized and why the rest is not, which rules it breaks.

    Args:
        model: path of a float or quantized .onnx, .tflite or .tmfile, a saved program or a plan.
        data: images or arrays that an ONNX model is run with, or a ``Reading``, whose other fields are
            keywords too: ``Inspection.observation`` tells what goes wrong inside then.
        target: check a quantized model against the rules of this target, a key of
            ``calib8.scheme.TARGETS``.
        program: lower a quantized model to its integer program; a saved program is one.
        profile, integer_only, shapes: of the program, see ``calib8.InferenceSession``.
        until: of the program of a TFLite model: names of tensors that become its outputs.
        avx2_safety: tell which layers of a quantized model ONNX Runtime computes wrongly on x86 without VNNI;
            with data also how often.
        progress: see ``calib8.calibrate``.
        words: fields of ``Reading``. Without ``preprocess`` that which the model has stored is taken.

    Raises:
        Calib8Error: what can be wrong with model, data or options, in one line each.
    """
    path = os.fspath(checked_path(model, "model"))
    check_model_file(path, ANY_MODEL)
    reading = requested(Reading, words, data, field="data")
    check_used(replace(reading, fix=None, state=None, threads=NOTHING_READ.threads), "data")
    asked = _Asked(target, program, profile, integer_only, shapes, until, reading, avx2_safety)
    if claims_to_be_plan(path):
        return _plan(path, asked)
    if claims_to_be_tmfile(path):
        return _tmfile(path, asked)
    saved = is_program_file(path)
    wanted = saved or program
    if not wanted:
        for name in _of_program(asked):
            raise UsageError(
                name, f"concerns the integer program of {path}", f"Add {parameter('program', True)}"
            )
    if claims_to_be_tflite(path):
        return _tflite(path, asked)
    if target is not None:
        target_scheme(target)
    if saved:
        return _saved_program(path, asked)
    from calib8.analysis.inspect import inspect_model

    found = inspect_model(path, reading.fix)
    violations = _violations(path, found, target)
    lowered = _lowered(path, asked) if wanted else None
    seen = _observed(path, asked, callback_of(progress))
    return Inspection(path, found, None, None, lowered, target, violations, seen)


def _of_program(asked: _Asked) -> list[str]:
    """The parameters given that say how a program is made."""
    values = (
        (parameter("profile"), asked.profile),
        (parameter("integer_only"), asked.integer_only),
        (parameter("shapes"), asked.shapes),
        (parameter("until"), asked.until),
    )
    return [name for name, value in values if value]


def _refuse_looking(path: str, asked: _Asked, kind: str) -> None:
    """Refuses to look into what is no ONNX model."""
    given = (
        (parameter("data"), asked.reading.data is not None),
        (parameter("avx2_safety"), asked.avx2_safety),
    )
    for name in [name for name, is_given in given if is_given]:
        raise UsageError(name, f"{path} is a {kind}, which has no layers to look into", "Give an ONNX model")


def _plan(path: str, asked: _Asked) -> Inspection:
    _refuse_looking(path, asked, "plan")
    others = ((parameter("target"), asked.target), (parameter("program"), asked.program))
    for name in [*(name for name, value in others if value), *_of_program(asked)]:
        problem = f"does not go with {path}, which is a plan"
        raise UsageError(name, problem, "Give the model or program that it was made from")
    return Inspection(path, plan=inspect_plan(path))


def _tmfile(path: str, asked: _Asked) -> Inspection:
    _refuse_looking(path, asked, "Tengine model")
    others = ((parameter("target"), asked.target), (parameter("program"), asked.program))
    for name in [*(name for name, value in others if value), *_of_program(asked)]:
        raise UsageError(name, f"does not go with {path}, which is a Tengine model", "Leave it out")
    from calib8.analysis.tmfile_inspect import inspect_tmfile

    return Inspection(path, tmfile=inspect_tmfile(path))


def _tflite(path: str, asked: _Asked) -> Inspection:
    _refuse_looking(path, asked, "TFLite model")
    target = asked.target
    if target is not None:
        target_scheme(target)
    if target not in (None, TFLITE):
        problem = f"{path} is a TFLite model, which has no such rules"
        raise UsageError(parameter("target", target), problem, f"Use {parameter('target', TFLITE)}")
    from calib8.analysis.tflite_inspect import inspect_tflite
    from calib8.tflite.uses import USES

    found = inspect_tflite(path)
    violations = _violations(path, found, target)
    if not asked.program:
        notes = (Text(USES[found.kind]),)
        return Inspection(path, tflite=found, target=target, violations=violations, notes=notes)
    program, told = _lowered(path, asked), notes_on_sizes(path, asked.shapes)
    return Inspection(path, tflite=found, program=program, target=target, violations=violations, notes=told)


def _saved_program(path: str, asked: _Asked) -> Inspection:
    if asked.target is not None:
        problem = f"{path} is a program, which has no rules"
        raise UsageError(parameter("target", asked.target), problem, "Give an ONNX model")
    _refuse_looking(path, asked, "program")
    return Inspection(path, program=_lowered(path, asked))


def _violations(
    path: str, found: ModelInspection | TfliteInspection, target: str | None
) -> tuple[Violation, ...]:
    """Of a quantized model; others have no rules to break."""
    if target is None:
        return ()
    if found.kind != "quantized":
        problem = f"{path} is a {found.kind} model, which has no rules"
        raise UsageError(parameter("target", target), problem, "Give a quantized model")
    from calib8.analysis.lint import lint

    return lint(path, target)


def _lowered(path: str, asked: _Asked) -> Program:
    refuse_until(path, asked.until)
    session = InferenceSession(
        path, runtime="reference", profile=asked.profile, integer_only=asked.integer_only,
        shapes=asked.shapes, outputs=asked.until or None,
    )  # fmt: skip
    return session.program


def _observed(path: str, asked: _Asked, progress: Progress) -> Observation | None:
    reading = asked.reading
    if reading.data is None and not asked.avx2_safety:
        return None
    from calib8.analysis.observed import Observation, observe, pairs_in_file

    if reading.data is None:
        return Observation(0, 0, (), (), pairs_in_file(path))
    preprocess = stored_preprocess([path]) if reading.preprocess is None else reading.preprocess
    reading = framed_as_stored(reading, lambda: stored_framing([path]))
    return observe(path, replace(reading, preprocess=preprocess), pairs=asked.avx2_safety, progress=progress)
