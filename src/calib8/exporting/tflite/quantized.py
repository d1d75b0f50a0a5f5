"""A model that calib8 quantized, written as a TFLite file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import onnx_ir as ir

from calib8.data.fit import image_shapes
from calib8.data.preprocess import Preprocess
from calib8.errors import Calib8Error
from calib8.exporting.tflite.export import to_tflite
from calib8.model.fix_sizes import KnownSizes, with_known_sizes
from calib8.model.graph import graph_inputs
from calib8.model.metadata import stored_entries
from calib8.parameters import Text, parameter
from calib8.program.lower.lower import lower
from calib8.tensors import checked_sizes
from calib8.tflite.write import write_tflite

TARGET: Final = "tflite"


def save_tflite(
    model: ir.Model,
    path: str | os.PathLike[str],
    shapes: Mapping[str, Sequence[int]] | None = None,
    known: Sequence[KnownSizes] = (),
) -> tuple[str, ...]:
    """Writes the file; the preprocessing that the model has stored goes into it, for N×H×W×C.

    Args:
        model: with Q/DQ and the metadata of ``quantize``; not changed. A free batch becomes 1; free rows and
            columns those of the images that it was calibrated with.
        path: where to.
        shapes: input name → sizes, where the model leaves them open.
        known: sizes of inputs that neither ``shapes`` nor the images say.

    Returns:
        Notes on sizes that are known only, on what was not kept, and on codes that were chosen for another
        runtime.

    Raises:
        UsageError: ``shapes`` do not fit the model.
        UnsupportedModelError: an axis other than the batch is free, and nothing says how long it is; or
            something in the model has no form in TFLite; all of it is listed.
        OutputError: the file cannot be written; an old one stays intact.
    """
    entries, name = stored_entries(model), os.fspath(path)
    text = entries.get("preprocess")
    preprocess = None if text is None else Preprocess.from_json(text)
    given = {**image_shapes(graph_inputs(model), preprocess), **checked_sizes(shapes)}
    sizes, taken = with_known_sizes(model, given, known)
    try:
        program = lower(model, profile="tflite", shapes=sizes)
    except Calib8Error as error:
        if error.subject not in (model.graph.name, "model"):
            raise
        raise type(error)(name, error.problem, error.cure) from error
    text = None if preprocess is None else replace(preprocess, layout="NHWC").to_json()
    exported = to_tflite(program, preprocess=text, name=name)
    write_tflite(exported.graph, path)
    return (*taken, *_of_target(entries.get("target", TARGET)), *exported.notes)


def _of_target(target: str) -> tuple[str, ...]:
    """What to know where the codes were chosen for another runtime than that of the file."""
    if target == TARGET:
        return ()
    return (
        Text(
            f"codes are those of {parameter('target', target)}; TFLite may run layers whose sums it leaves "
            f"uncoded in float, which {parameter('target', TARGET)} does not"
        ),
    )
