"""Opening whatever a session may be given: a plan, a model whose plan is kept, or any other model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from calib8.engine.plan import Plan, PlanState
from calib8.engine.plan_check import check_plan
from calib8.engine.plan_file import claims_to_be_plan, load_plan
from calib8.errors import UsageError
from calib8.forks import whole_imports
from calib8.parameters import parameter
from calib8.session.ports import Shapes, is_static
from calib8.session.prepared import Opened, opened_plan, refuse_outputs
from calib8.tensors import check_states

if TYPE_CHECKING:  # a plan is opened without what reads models
    import onnx

    from calib8.data.preprocess import Preprocess
    from calib8.program.program import Program
    from calib8.session.kept_plans import KeptPlans

    Source = str | os.PathLike[str] | onnx.ModelProto | bytes | Program | Plan


def opened_model(
    model: Source,
    profile: str | None,
    integer_only: bool,
    outputs: Sequence[str] | None,
    pixels: Preprocess | None,
    state: Mapping[str, str] | None,
    *,
    keeps: bool,
) -> tuple[Opened, KeptPlans | None]:
    """What a session needs of a model, whatever it is, and what is kept of it.

    Args:
        model, profile, integer_only, outputs, pixels, state: as for ``InferenceSession``.
        keeps: plans may be kept and used.

    Raises:
        Calib8Error: as for ``InferenceSession``.
    """
    outputs = _listed(outputs)
    if isinstance(model, Plan) or (isinstance(model, str | os.PathLike) and claims_to_be_plan(model)):
        refuse_outputs(outputs)
        opened = opened_plan(*_given_plan(model), profile, integer_only)
        return _with_states(opened if pixels is None else _with_pixels(opened, pixels), state), None

    def read(source: str | os.PathLike[str] | onnx.ModelProto | bytes | Program) -> Opened:
        with whole_imports():
            from calib8.session.models import opened_source  # onnx, onnx_ir, all of lowering

        opened = opened_source(source, profile, integer_only, outputs)
        return _with_states(opened if pixels is None else _with_pixels(opened, pixels), state)

    asked = (profile, integer_only, outputs, pixels, *(() if state is None else (sorted(state.items()),)))
    kept = _kept(model, asked) if keeps else None
    if kept is None:
        return read(model), None
    known = kept.opened(read)
    if known is not None:
        return known, kept
    opened = read(model)
    if not kept.keep_opened(opened):
        return opened, None
    fixed = all(map(is_static, opened.inputs))
    return (kept.lowered_once(opened, read) if fixed else opened), kept


def _kept(model: object, asked: tuple[object, ...]) -> KeptPlans | None:
    """What is kept of a model, see ``kept_plans``."""
    with whole_imports():
        from calib8.session.kept_plans import kept_plans  # hashes: a plan is opened without them

    return kept_plans(model, asked)


def _listed(names: Sequence[str] | None) -> Sequence[str] | None:
    """The names as a tuple, which can be read again and says all of itself; one text stays what it is."""
    if names is None or isinstance(names, str):
        return names
    try:
        return tuple(names)
    except TypeError as error:
        raise UsageError("outputs", f"got {names!r}", "Give a list of names of tensors") from error


def _given_plan(model: Plan | str | os.PathLike[str]) -> tuple[Plan, str]:
    """A plan that can run, and its name for messages."""
    if not isinstance(model, Plan):
        return load_plan(model), os.fspath(model)
    name = model.name or "plan"
    check_plan(model, name)
    return model, name


def _with_pixels(opened: Opened, pixels: Preprocess) -> Opened:
    with whole_imports():
        from calib8.session.pixels import taking_pixels  # plans know their inputs already

    return taking_pixels(opened, pixels)


def _with_states(opened: Opened, asked: Mapping[str, str] | None) -> Opened:
    """The model with the states that were asked for in place of its own; its programs and its plan tell them.

    Raises:
        UsageError: states that it cannot have.
    """
    pairs = opened.states if asked is None else asked
    if asked:
        check_states(asked, opened.inputs, opened.outputs, opened.name)
    if opened.plan is not None:
        known = {state.input: state for state in opened.plan.states}
        states = tuple(_of_pair(read, written, known) for read, written in pairs.items())
        _refuse_codes(opened, [state for state in states if state not in opened.plan.states])
        return opened._replace(states=pairs, plan=replace(opened.plan, states=states))
    lower = opened.lower
    assert lower is not None

    def lowered(shapes: Shapes) -> Program:
        from calib8.program.program import State
        from calib8.program.verify import verify

        program = lower(shapes)
        begun = {state.input: state for state in program.states if pairs.get(state.input) == state.output}
        new = (begun.get(read) or State(read, written) for read, written in pairs.items())
        found = replace(program, states=tuple(new))
        verify(found)  # codes of a state and of what feeds it stand for the same numbers
        return found

    return opened._replace(states=pairs, lower=lowered if pairs or asked is not None else lower)


def _refuse_codes(opened: Opened, states: Sequence[PlanState]) -> None:
    """Refuses new states of a plan that hold codes: it does not know what these stand for."""
    dtypes = {spec.name: spec.dtype for spec in opened.inputs}
    for state in states:
        if dtypes[state.input].kind != "f":
            subject = parameter("state", f"{state.input}={state.output}")
            problem = f"'{state.input}' of a plan holds codes, {dtypes[state.input]}"
            raise UsageError(subject, problem, "Compile the model again, with this state declared")


def _of_pair(read: str, written: str, known: Mapping[str, PlanState]) -> PlanState:
    own = known.get(read)
    return own if own is not None and own.output == written else PlanState(read, written)
