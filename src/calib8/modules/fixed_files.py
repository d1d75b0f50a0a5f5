"""Files of models some of whose inputs are fixed, written anew; the others stay as they are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calib8.errors import ModelError, UsageError
from calib8.model.fix_inputs import with_fixed
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.model.save import save_model
from calib8.parameters import parameter

FilePath = str | os.PathLike[str]


def fixed_files(paths: Sequence[FilePath], fix: Mapping[str, Any], folder: Path) -> dict[FilePath, FilePath]:
    """Path of each model → path of what is to be read in its place.

    Args:
        paths: of models, programs and plans.
        fix: input name → its value, see ``calib8.model.fix_inputs.with_fixed``. A model may lack an input
            that another one has.
        folder: where the new files go; it is made.

    Raises:
        UsageError: an input that no model has, or a value that does not fit it.
        Calib8Error: a model that cannot be written.
    """
    found, missing = dict[FilePath, FilePath](), set(fix)
    for number, path in enumerate(paths):
        own = _inputs(path) & set(fix)
        missing -= own
        found[path] = path
        if own:
            name = Path(path).stem + ".onnx"
            place = folder / str(number) / name
            place.parent.mkdir(parents=True)
            model = load_model(with_fixed(path, {name: fix[name] for name in own}))
            save_model(model, place)
            found[path] = place
    if missing:
        listed = ", ".join(f"'{name}'" for name in sorted(missing))
        raise UsageError(parameter("fix"), f"no model has the input {listed}", "See `calib8 inspect`")
    return found


def _inputs(path: FilePath) -> set[str]:
    """Names of the inputs of an ONNX model; none of what is no such model."""
    try:
        return {spec.name for spec in graph_inputs(load_model(path))}
    except ModelError:  # a program, a plan, a quantized TFLite model; or who opens it says what is wrong
        return set()
