"""A model that was made is loaded and run once, as it stands and optimized, before it is handed out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from calib8.errors import Calib8Error, ModelError
from calib8.model.graph import graph_inputs
from calib8.model.made_up import made_up_input
from calib8.model.runtime import as_written, open_session, without_second_weights


def try_to_run(model: ir.Model, sizes: Mapping[str, Sequence[int]]) -> str:
    """Runs a model in ONNX Runtime on made-up inputs, with all optimizations off and with all of them on.

    Args:
        model: a graph.
        sizes: of its inputs, by name; free sizes of others are made up.

    Returns:
        What to know where only the optimized form does not run; else nothing.

    Raises:
        ModelError: it cannot be loaded or run as it stands.
    """
    specs = [
        replace(spec, shape=tuple(sizes.get(spec.name, spec.shape or ()))) for spec in graph_inputs(model)
    ]
    feeds = {spec.name: made_up_input(spec) for spec in specs}
    try:
        open_session(model, configure=as_written).run(feeds)
    except Calib8Error as error:
        problem = f"the INT8 model that was made of it does not run: {error.problem}"
        name = model.graph.name or "model"
        raise ModelError(name, problem, "Please report this model as a bug") from error
    try:
        open_session(model, configure=without_second_weights).run(feeds)
    except Calib8Error as error:
        return f"ONNX Runtime runs this model with its optimizations off only; with them {error.problem}"
    return ""
