"""An ONNX model as a tmfile: an int8 one of a QDQ model, a float one of a float model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from calib8.calibration.source import prepare_for_table
from calib8.data.reading import Reading
from calib8.errors import NoFormError, UnsupportedModelError
from calib8.exporting.tmfile.quantized import Shapes, float_graph, int8_graph, without_kernels
from calib8.model.fix_inputs import with_fixed
from calib8.model.from_tmfile.translate import float_model
from calib8.model.load import load_model
from calib8.passes.converter_names import converter_names
from calib8.quantization.qdq import holds_codes
from calib8.session.stored_preprocess import stored_preprocess
from calib8.tmfile.graph import CONST, INPUT, Graph
from calib8.tmfile.magic import claims_to_be_tmfile
from calib8.tmfile.nchw import as_nchw
from calib8.tmfile.ports import port_names
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.sizes import with_sizes


def tmfile_of(
    model: Path, shapes: Shapes, fix: Mapping[str, Any] | None = None
) -> tuple[Graph, tuple[str, ...]]:
    """The Tengine graph of a file, and what of it a tmfile does not hold.

    A float model is prepared as for quantization: batch normalizations are part of the layers before them.

    Args:
        model: an .onnx file, or a float tmfile.
        shapes: input name → sizes, where the model leaves them open; a free batch becomes 1.
        fix: input name → the value that it always has; the graph has no such input.

    Raises:
        Calib8Error: what can be wrong with the model and the sizes, or what has no form in Tengine.
    """
    source = _with_sizes(model, shapes) if shapes and claims_to_be_tmfile(model) else model
    loaded = load_model(with_fixed(source, fix))
    if holds_codes(loaded):
        graph = int8_graph(loaded, str(model), shapes).graph
        return graph, (*_notes(model), *without_kernels(graph))
    original, prepared = prepare_for_table(loaded, Reading(shapes=shapes))
    names = {} if claims_to_be_tmfile(model) else converter_names(original)
    graph = float_graph(prepared.model, str(model), shapes, names)
    return graph, _notes(model)


def _with_sizes(model: Path, shapes: Shapes) -> onnx.ModelProto:
    """A float tmfile with the sizes of its inputs, as an ONNX model."""
    name, graph = str(model), read_tmfile(model)
    try:
        turned = as_nchw(graph)
        places = turned.input_tensors()
        titles = dict(zip(port_names(turned, places), places, strict=True))
        known = {titles[title]: tuple(shape) for title, shape in shapes.items() if title in titles}
        turned = with_sizes(turned, known) if known else turned
    except NoFormError as reason:
        raise UnsupportedModelError(name, str(reason), "Convert the ONNX model, with fixed sizes") from reason
    return ir.to_proto(float_model(turned, name))


def _notes(model: Path) -> tuple[str, ...]:
    stored = stored_preprocess([model])
    if stored is None:
        return ()
    return (f"a tmfile does not say how images become its inputs: {stored.to_json()}",)


def operators(graph: Graph) -> Mapping[str, int]:
    """Operator → how many, without those of constants and inputs, most frequent first."""
    found = Counter(node.op for node in graph.nodes if node.op not in (CONST, INPUT))
    return dict(found.most_common())
