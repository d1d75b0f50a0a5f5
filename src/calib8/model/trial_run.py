"""A model that was made is loaded and run once, as it stands and optimized, before it is handed out."""

from __future__ import annotations

import onnx_ir as ir

from calib8.errors import Calib8Error, ModelError
from calib8.model.runtime import Arrays, as_written, open_session, without_second_weights


def try_to_run(model: ir.Model, sample: Arrays, *, made_up: bool) -> str:
    """Runs a model in ONNX Runtime, with all optimizations off and with all of them on.

    Args:
        model: a graph.
        sample: one array per input, by name, which its float model runs on.
        made_up: its values are nobody's: that they cannot be run does not refuse the model. A value may say
            how much of a tensor is taken, and codes may leave nothing of it.

    Returns:
        What to know where only the optimized form does not run, or made-up values do not; else nothing.

    Raises:
        ModelError: it cannot be loaded as it stands, or not be run with values that were given.
    """
    try:
        session = open_session(model, configure=as_written)
    except Calib8Error as error:
        raise _does_not_run(model, error) from error
    try:
        session.run(sample)
    except Calib8Error as error:
        if not made_up:
            raise _does_not_run(model, error) from error
        return f"the INT8 model was not tried: with made-up inputs {error.problem}"
    try:
        open_session(model, configure=without_second_weights).run(sample)
    except Calib8Error as error:
        return f"ONNX Runtime runs this model with its optimizations off only; with them {error.problem}"
    return ""


def _does_not_run(model: ir.Model, error: Calib8Error) -> ModelError:
    problem = f"the INT8 model that was made of it does not run: {error.problem}"
    return ModelError(model.graph.name or "model", problem, "Please report this model as a bug")
