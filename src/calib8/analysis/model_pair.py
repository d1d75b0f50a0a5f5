"""A float model and the int8 one made from it: opened, and checked to be what they are said to be."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import onnx
import onnx_ir as ir

from calib8.engine.plan_file import claims_to_be_plan
from calib8.errors import ModelError, UnsupportedModelError, UsageError
from calib8.files import checked_path
from calib8.model.fix_inputs import Fixed, with_fixed
from calib8.model.graph import graph_inputs, graph_outputs
from calib8.model.load import load_model
from calib8.model.metadata import PREFIX
from calib8.parameters import parameter
from calib8.passes.channel_factors import CHANNEL_FACTORS, ChannelFactors, parse_factors
from calib8.passes.converter_names import converter_names
from calib8.passes.stored_statistics import BATCH_NORMS, put_statistics
from calib8.program.magic import is_program_file
from calib8.quantization.qdq import (
    QUANTIZERS,
    hides_floats,
    holds_codes,
    is_integer_op,
    label,
    nodes,
    readable_copy,
)
from calib8.tensors import TensorSpec
from calib8.tflite.magic import claims_to_be_tflite
from calib8.tmfile.graph import Graph
from calib8.tmfile.magic import claims_to_be_tmfile

Model = str | os.PathLike[str] | onnx.ModelProto


@dataclass(frozen=True)
class ModelPair:
    """Both models.

    Attributes:
        fp32_name, int8_name: paths, or what the models call themselves.
        fp32: the float graph as loaded: the passes name what they make after it.
        int8: the QDQ graph, constants as initializers, types inferred; nodes without a name are called by
            their labels, which so stay the same whatever is done to the graph.
        inputs: what both take: a size that one of them leaves free is that of the other.
        outputs: names of the float model's outputs; the int8 model has as many.
        tengine: the Tengine graph that ``int8`` was made of, None for an ONNX model.
        estimated: batch normalizations of ``fp32`` that have the statistics that the int8 model was made
            with in place of their own.
    """

    fp32_name: str
    int8_name: str
    fp32: ir.Model
    int8: ir.Model
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]
    estimated: int = 0
    tengine: Graph | None = None

    def changes(self) -> ChannelFactors:
        """What repairs did to the channels of the int8 model, as its metadata tell.

        Raises:
            ModelError: the metadata are broken.
        """
        text = self.int8.metadata_props.get(PREFIX + CHANNEL_FACTORS)
        return ChannelFactors() if text is None else parse_factors(text, self.int8_name)


def open_pair(
    fp32: Model, int8: Model, fix: Fixed | None = None, *, takes_tengine: bool = False
) -> ModelPair:
    """Loads both models; of the float one some inputs may be fixed, see ``calib8.model.fix_inputs``.

    Args:
        fp32, int8: the models.
        fix: input of the float model → the value that it always has.
        takes_tengine: the second may be an int8 tmfile, which becomes a QDQ graph.

    Raises:
        UsageError: the first is quantized or the second is not, or one is a saved program or a plan.
        UnsupportedModelError: the int8 model computes with codes outside Q and DQ.
        ModelError: a file is no model, or they differ in their inputs or number of outputs, or in the batch
            normalizations that the int8 model has statistics of.
    """
    for name, model in (("fp32", fp32), ("int8", int8)):
        if not isinstance(model, onnx.ModelProto):
            checked_path(model, name)
    first, second = _name(fp32, "the first model"), _name(int8, "the second model")
    for model in (fp32, int8):
        _refuse_compiled(model)
    if not isinstance(int8, onnx.ModelProto) and claims_to_be_tflite(int8):
        from calib8.tflite.uses import uses_of_file  # ONNX models do without the schema

        problem = "is a TFLite model, and only the codes of ONNX models are compared"
        raise UsageError(second, problem, f"Give the quantized .onnx file{uses_of_file(int8)}")
    float_model, tengine = load_model(with_fixed(fp32, fix)), None
    if takes_tengine and _is_int8_tmfile(int8):
        from calib8.analysis.tmfile_pair import named_graph, qdq_graph  # ONNX models do without

        tengine = named_graph(second, converter_names(float_model))
        int8_model = readable_copy(qdq_graph(tengine, second))
    else:
        int8_model = readable_copy(load_model(int8))
    _check_kinds(first, holds_codes(float_model), second, _has_quantizers(int8_model))
    _refuse_integer_ops(int8_model, second)
    for node in int8_model.graph:
        node.name = label(node)
    inputs = _common_inputs(graph_inputs(float_model), graph_inputs(int8_model), second)
    outputs = tuple(spec.name for spec in graph_outputs(float_model))
    if len(outputs) != len(int8_model.graph.outputs):
        raise _another_network(
            second, f"has {len(int8_model.graph.outputs)} outputs instead of {len(outputs)}"
        )
    text = int8_model.metadata_props.get(PREFIX + BATCH_NORMS)
    estimated = 0 if text is None else put_statistics(float_model, text, second)
    return ModelPair(first, second, float_model, int8_model, inputs, outputs, estimated, tengine)


def _is_int8_tmfile(model: Model) -> bool:
    if isinstance(model, onnx.ModelProto) or not claims_to_be_tmfile(model):
        return False
    from calib8.tmfile.kinds import kind_of_file

    return kind_of_file(model) == "quantized"


def _refuse_compiled(model: Model) -> None:
    """Programs and plans no longer have the tensors that a comparison looks at."""
    if isinstance(model, onnx.ModelProto):
        return
    kind = "plan" if claims_to_be_plan(model) else "saved program" if is_program_file(model) else None
    if kind is not None:
        own = parameter("runtime", "calib8")
        cure = f"Give the quantized .onnx model that it was made from, with {own} if it is to run so"
        raise UsageError(os.fspath(model), f"is a {kind}, which has no tensors to compare", cure)


def _name(model: Model, position: str) -> str:
    if isinstance(model, onnx.ModelProto):
        return model.graph.name or position
    return str(checked_path(model, "model"))


def _has_quantizers(model: ir.Model) -> bool:
    """Even if only weights are in codes, which a float model may have as well."""
    return any(node.op_type in QUANTIZERS or is_integer_op(node) for node in nodes(model))


def _check_kinds(first: str, first_is_quantized: bool, second: str, second_is_quantized: bool) -> None:
    if first_is_quantized and not second_is_quantized:
        raise UsageError(
            first,
            f"is quantized and {second} is not: they are the wrong way round",
            "Give the float model first",
        )
    if first_is_quantized:
        raise UsageError(first, "is quantized", "Give the float model first")
    if not second_is_quantized:
        raise UsageError(second, "is a float model", "Give the quantized model second")


def _refuse_integer_ops(model: ir.Model, name: str) -> None:
    found = [node for node in nodes(model) if hides_floats(node)]
    if found:
        raise UnsupportedModelError(
            name,
            f"holds {found[0].op_type} nodes ('{label(found[0])}' …), whose float tensors it does not name",
            "Quantize in QDQ form, with QuantizeLinear and DequantizeLinear around float ops",
        )


def _common_inputs(
    first: tuple[TensorSpec, ...], second: tuple[TensorSpec, ...], name: str
) -> tuple[TensorSpec, ...]:
    others = {spec.name: spec for spec in second}
    if {spec.name for spec in first} != set(others):
        expected = ", ".join(f"'{spec.name}'" for spec in first)
        raise _another_network(
            name, f"takes {', '.join(map(repr, others)) or 'nothing'} instead of {expected}"
        )
    return tuple(_common_input(spec, others[spec.name], name) for spec in first)


def _common_input(first: TensorSpec, second: TensorSpec, name: str) -> TensorSpec:
    if first.shape is None or second.shape is None:
        shape = second.shape if first.shape is None else first.shape
    else:
        pairs = zip(first.shape, second.shape, strict=False)
        shape = tuple(a if isinstance(a, int) else b if isinstance(b, int) else a for a, b in pairs)
    fits = first.dtype == second.dtype and all(_fits(shape, spec.shape) for spec in (first, second))
    if not fits:
        raise _another_network(name, f"takes '{second}' instead of '{first}'")
    return replace(first, shape=shape)


def _fits(merged: tuple[int | str | None, ...] | None, stated: tuple[int | str | None, ...] | None) -> bool:
    if merged is None or stated is None:
        return True
    same_rank = len(merged) == len(stated)
    return same_rank and all(a == b for a, b in zip(merged, stated, strict=False) if isinstance(b, int))


def _another_network(name: str, problem: str) -> ModelError:
    return ModelError(name, problem, "Give the float model that it was made from")
