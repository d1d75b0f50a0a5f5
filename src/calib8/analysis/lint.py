"""Checks a QDQ model against the rules of a target and names every violation."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import onnx
import onnx_ir as ir

from calib8.analysis.rules import (
    Rule,
    codes,
    engine,
    layers,
    onnxruntime,
    openvino,
    symmetric,
    tensorrt,
    tflite,
)
from calib8.errors import UnsupportedModelError, UsageError
from calib8.model.load import load_model
from calib8.model.metadata import stored_names
from calib8.parameters import Text
from calib8.quantization.qdq import QUANTIZERS, hides_floats, label, nodes, readable_copy
from calib8.requests import checks_types
from calib8.scheme import target_scheme
from calib8.tflite.magic import claims_to_be_tflite

EVERY_TARGET: Final[tuple[Rule, ...]] = (
    codes.scale_is_constant,
    codes.scale_is_positive,
    codes.zero_point_type,
    codes.channel_axis_fits,
    codes.per_channel_needs_opset_13,
    codes.pairs_agree,
    codes.constants_are_stored_as_codes,
    layers.layer_is_whole,
    layers.weight_axis_is_output,
    layers.bias_has_product_scale,
)

_ONNXRUNTIME: Final[tuple[Rule, ...]] = (
    *EVERY_TARGET,
    layers.bias_is_coded,
    symmetric.activations_are_per_tensor,
    onnxruntime.inputs_are_all_coded,
    onnxruntime.result_goes_to_one_quantizer,
    onnxruntime.activation_is_implied,
    onnxruntime.types_combine,
    onnxruntime.moves_keep_codes,
)

RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "onnxruntime": _ONNXRUNTIME,
    "onnxruntime-avx2": (*_ONNXRUNTIME, onnxruntime.pairs_cannot_saturate),
    "calib8": (
        *EVERY_TARGET,
        layers.bias_is_coded,
        symmetric.activations_are_per_tensor,
        onnxruntime.inputs_are_all_coded,
        engine.types_combine,
        onnxruntime.moves_keep_codes,
        engine.sums_become_codes,
    ),
    "openvino": (
        *EVERY_TARGET,
        openvino.activations_have_8_bits,
        openvino.weights_are_int8,
        openvino.concat_inputs_share_scale,
    ),
    "tflite": (
        *EVERY_TARGET,
        layers.bias_is_coded,
        layers.weights_are_symmetric,
        tflite.codes_are_int8_or_int16,
        symmetric.activations_are_per_tensor,
        tflite.scale_stays_the_same,
        tflite.fixed_outputs,
        tflite.layer_results_are_coded,
    ),
    "tensorrt": (
        *EVERY_TARGET,
        layers.bias_stays_float,
        symmetric.zero_point_is_zero,
        symmetric.codes_are_int8,
        symmetric.activations_are_per_tensor,
        tensorrt.layer_inputs_are_coded,
        tensorrt.no_codes_inside_fusion,
        tensorrt.residual_branch_is_coded,
        tensorrt.average_pool_input_is_coded,
    ),
    "tengine": (
        *EVERY_TARGET,
        layers.bias_is_coded,
        symmetric.zero_point_is_zero,
        symmetric.codes_are_int8,
        symmetric.activations_are_per_tensor,
        tflite.softmax_scale_is_fixed,
        tflite.layer_results_are_coded,
    ),
    "ncnn": (
        *EVERY_TARGET,
        layers.bias_stays_float,
        symmetric.zero_point_is_zero,
        symmetric.codes_are_int8,
        symmetric.activations_are_per_tensor,
    ),
}
"""Target → its rules, in the order in which violations are reported."""


@dataclass(frozen=True)
class Violation:
    """One node that breaks one rule.

    Attributes:
        node: name of the node, or op and output where it has no name.
        rule: name of the rule, e.g. ``scale-is-positive``.
        problem: what is wrong, with the offending value.
        cure: what to do about it.
    """

    node: str
    rule: str
    problem: str
    cure: str

    def __str__(self) -> str:
        """The violation as one line."""
        return f"{self.node}: {self.problem} [{self.rule}]. {self.cure}."


@checks_types
def lint(model: str | os.PathLike[str] | onnx.ModelProto, target: str) -> tuple[Violation, ...]:
    """Every violation of a target's rules in a QDQ model, ours or another tool's; empty for a clean one.

    Nodes that calib8 left in float, because the user wanted it or with a reason told, are passed over.

    Args:
        model: path of an .onnx file, or a ModelProto; a .tflite file for the target ``tflite``.
        target: a key of ``calib8.scheme.TARGETS``.

    Raises:
        UsageError: unknown target, or another one than ``tflite`` for a .tflite file.
        ModelError: the file cannot be read or is no valid ONNX model.
        UnsupportedModelError: the model holds no Q/DQ nodes, or computes with codes itself (QOperator form).
    """
    target_scheme(target)
    if isinstance(model, str | os.PathLike) and claims_to_be_tflite(model):
        return _lint_file(model, target)
    graph = readable_copy(load_model(model))
    _check_form(graph)
    wanted_float = _kept_float(graph)
    return tuple(
        Violation(node, rule.__name__.replace("_", "-"), problem, Text(cure))
        for rule in RULES[target]
        for node, problem, cure in rule(graph)
        if node not in wanted_float
    )


def _lint_file(path: str | os.PathLike[str], target: str) -> tuple[Violation, ...]:
    """Violations of a .tflite file."""
    from calib8.analysis.rules.tflite_files import RULES as FILE_RULES
    from calib8.tflite.kinds import kind
    from calib8.tflite.read import read_tflite

    if target != "tflite":
        problem = f"{os.fspath(path)} is a TFLite model, which has no such rules"
        raise UsageError(f"target '{target}'", problem, "Use tflite")
    graph = read_tflite(path)
    if kind(graph) != "quantized":
        problem = f"is a {kind(graph)} model, which has no rules"
        raise UnsupportedModelError(os.fspath(path), problem, "Quantize it first")
    return tuple(
        Violation(node, rule.__name__.replace("_", "-"), problem, Text(cure))
        for rule in FILE_RULES
        for node, problem, cure in rule(graph)
    )


def _kept_float(model: ir.Model) -> frozenset[str]:
    """Nodes that are float on purpose: the user wanted it, or the layer has no integer form."""
    return frozenset(stored_names(model, "keep_float"))


def _check_form(model: ir.Model) -> None:
    """Refuses models on which no rule would find anything: silence would look like approval."""
    name = model.graph.name or "model"
    operators = [node for node in nodes(model) if hides_floats(node)]
    if operators:
        problem = f"is not in QDQ form: it holds {operators[0].op_type} '{label(operators[0])}'"
        raise UnsupportedModelError(
            name, problem, "Export it with QuantizeLinear and DequantizeLinear nodes (QDQ)"
        )
    if not any(node.op_type in QUANTIZERS for node in nodes(model)):
        raise UnsupportedModelError(
            name, "is a float model: it holds no QuantizeLinear nodes to check", "Quantize it first"
        )
