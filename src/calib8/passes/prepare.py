"""The float graph made ready: every pass in order, and the proof that the function is still the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.errors import ModelError, UnsupportedModelError, UsageError
from calib8.model.graph import graph_inputs, opset_version
from calib8.model.infer_shapes import infer_shapes
from calib8.model.runtime import Arrays, as_written, open_session
from calib8.parameters import nearest, parameter
from calib8.passes.branches import decided
from calib8.passes.choices import with_one_choice
from calib8.passes.converter_names import converter_names
from calib8.passes.finite_masks import finite_masks
from calib8.passes.fold_affine import fold_affine, fold_gemm_factors
from calib8.passes.fold_rows import fold_behind_bias, fold_behind_reshape
from calib8.passes.fold_sums import fold_behind_sum
from calib8.passes.free_sizes import (
    forget_inferred_names,
    forget_names,
    keep_true_sizes,
    stated_shapes,
)
from calib8.passes.fuse_cells import fuse_cells
from calib8.passes.fuse_layer_norm import fuse_layer_norm
from calib8.passes.fuse_lengths import fuse_lengths
from calib8.passes.fuse_softmax import fuse_softmax
from calib8.passes.no_ops import remove_no_ops
from calib8.passes.node_names import node_names
from calib8.passes.normalize import normalize
from calib8.passes.plain_einsum import late_einsum, plain_einsum
from calib8.passes.plain_pads import plain_pads
from calib8.passes.plain_scatter import plain_scatter
from calib8.passes.plain_sizes import plain_sizes
from calib8.passes.plain_softplus import plain_softplus
from calib8.passes.rewrite_leftovers import (
    batch_norm_to_conv,
    divide_to_multiply,
    mean_to_global_pool,
    pad_before_average_pool,
    sum_to_add,
)
from calib8.passes.simplify import fold_constants, fold_pads, fuse_hard_swish, remove_identities

Pass = Callable[[ir.Model], int]
Outputs = Sequence[npt.NDArray[Any]]

PREPARE: Final[tuple[Pass, ...]] = (
    normalize,
    plain_einsum,
    fold_constants,
    remove_identities,
    plain_pads,
    plain_sizes,
    late_einsum,
    plain_scatter,
    plain_softplus,
    remove_no_ops,
    fuse_cells,
    fold_pads,
    fuse_hard_swish,
    fuse_layer_norm,
    fuse_lengths,
    fuse_softmax,
    finite_masks,
    fold_affine,
    fold_behind_reshape,
    fold_behind_bias,
    fold_behind_sum,
    fold_gemm_factors,
    batch_norm_to_conv,
    divide_to_multiply,
    sum_to_add,
    mean_to_global_pool,
    pad_before_average_pool,
)

CODED_OPS: Final = (
    "QuantizeLinear", "DynamicQuantize", "QLinear", "QGemm", "QAttention", "QEmbed", "ConvInteger",
    "MatMulInteger",
)  # fmt: skip
"""Beginnings of the names of ops that only a quantized model holds."""

RELATIVE_TOLERANCE: Final = 1e-3
ABSOLUTE_TOLERANCE: Final = 1e-5
"""A difference above both would be a fault of a pass, not float rounding."""


@dataclass(frozen=True)
class PreparedModel:
    """A prepared float model.

    Attributes:
        model: the graph; its value names are the user's wherever the value survived.
        rewrites: name of each pass → number of rewrites.
        max_abs_diff: largest difference of any output to the original model on the sample; where that is more
            than rounding and nodes choose (TopK …), with what the original chose.
        max_rel_diff: the same divided by the largest magnitude of that output.
        names: every name that a node can be asked for by → its name in the graph, see
            ``calib8.passes.node_names``.
        sample: what it was compared on, one array per input.
        made_up: nobody gave the values of the sample.
        converter_names: what Tengine's converter calls tensors, see ``calib8.passes.converter_names``.
    """

    model: ir.Model
    rewrites: dict[str, int]
    max_abs_diff: float
    max_rel_diff: float
    names: Mapping[str, str]
    sample: Arrays
    made_up: bool = False
    converter_names: Mapping[str, str] = field(default_factory=dict)

    def nodes_called(self, names: Iterable[str]) -> frozenset[str]:
        """Names in the graph of the nodes that the user calls so.

        Raises:
            UsageError: no node has one of the names.
        """
        wanted = frozenset(names)
        unknown = wanted - self.names.keys()
        if unknown:
            problem = f"the model has no node '{min(unknown)}' that is left once it is prepared"
            near = nearest(min(unknown), self.names)
            meant = "" if near is None else f"Did you mean '{near}'? "
            raise UsageError(parameter("keep_float"), problem, f"{meant}See `calib8 inspect` for the names")
        return frozenset(self.names[name] for name in wanted)


def prepare(original: ir.Model, sample: Arrays, *, made_up: bool = False) -> PreparedModel:
    """Runs ``PREPARE`` on a copy and compares it with the original in ONNX Runtime on ``sample``.

    Args:
        original: a loaded float model; not changed.
        sample: one array per graph input, by name.
        made_up: its values are nobody's.

    Raises:
        UnsupportedModelError: control flow, half precision, or a model that is quantized already.
        ModelError: the prepared model differs from the original.
    """
    refuse_unsupported(original)
    known = decided(original, sample, _run_passes)
    expected = _expected(known, sample)
    model = known.clone()
    keep_true_sizes(model, _seen(model, sample, expected))
    own = stated_shapes(model)
    rewrites = _run_passes(model)
    ir_passes.RemoveUnusedNodesPass()(model)
    ir_passes.TopologicalSortPass()(model)
    infer_shapes(model)
    forget_inferred_names(model, own)
    model = model.clone()  # a graph remembers values that were taken out of it, and they their constants
    _own_constants(model.graph)
    absolute, relative = differences(expected, open_session(model, configure=as_written).run(sample))
    if not _is_rounding(absolute, relative):
        told = with_one_choice(known, model, sample)
        absolute, relative = (absolute, relative) if told is None else differences(*told)
    if not _is_rounding(absolute, relative):
        raise ModelError(
            model.graph.name or "model",
            f"the prepared model differs from the original by {relative:.2g} of the output's magnitude",
            "Please report this model as a bug",
        )
    kept = {name: np.array(array) for name, array in sample.items()}  # no views that keep all data in memory
    names = node_names(original, model)
    return PreparedModel(model, rewrites, absolute, relative, names, kept, made_up, converter_names(original))


def _is_rounding(absolute: float, relative: float) -> bool:
    return relative <= RELATIVE_TOLERANCE or absolute <= ABSOLUTE_TOLERANCE


def _expected(original: ir.Model, sample: Arrays) -> Outputs:
    """What the original gives."""
    model = original.clone()
    forget_names(model)  # untrue ones could keep the original from running
    return open_session(model, configure=as_written).run(sample)


def _seen(model: ir.Model, sample: Arrays, results: Outputs) -> dict[str, tuple[int, ...]]:
    """Sizes of inputs and outputs in a run."""
    outputs = zip((value.name or "" for value in model.graph.outputs), results, strict=True)
    return {name: np.shape(array) for name, array in (*sample.items(), *outputs)}


def _own_constants(graph: ir.Graph) -> None:
    """Copies what is still part of the file that was read: one constant of it keeps all of it in memory."""
    for value in graph.initializers.values():
        tensor = value.const_value
        if isinstance(tensor, ir.TensorProtoTensor):
            value.const_value = ir.Tensor(
                tensor.numpy().copy(), dtype=tensor.dtype, shape=tensor.shape, name=tensor.name
            )


def differences(expected: Outputs, actual: Outputs) -> tuple[float, float]:
    """Largest absolute and relative difference of the outputs of two models; NaN in both places is equal."""
    absolute = relative = 0.0
    for left, right in zip(expected, actual, strict=True):
        if left.shape != right.shape or left.dtype != right.dtype:
            return math.inf, math.inf
        difference = _difference(left.astype(np.float64), right.astype(np.float64))
        magnitude = float(np.max(np.abs(left), initial=0.0, where=np.isfinite(left)))
        absolute = max(absolute, difference)
        relative = max(relative, difference / magnitude if magnitude > 0 else difference)
    return absolute, relative


def _difference(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> float:
    """Largest difference where the two are not equal; inf where only one of them is NaN or infinite."""
    differs = (left != right) & ~(np.isnan(left) & np.isnan(right))
    if not np.all(np.isfinite(left[differs]) & np.isfinite(right[differs])):
        return math.inf
    return float(np.max(np.abs(left[differs] - right[differs]), initial=0.0))


def _run_passes(model: ir.Model) -> dict[str, int]:
    """Every pass in order."""
    return {step.__name__: step(model) for step in PREPARE}


def refuse_unsupported(model: ir.Model) -> None:
    """Refuses what a look at the graph alone tells; to be asked before anything is asked of the user.

    Raises:
        UnsupportedModelError: half precision, no operators, or a model that is quantized already.
    """
    name = model.graph.name or "model"
    coded = [node for node in model.graph if node.op_type.startswith(CODED_OPS)]
    if coded:
        raise UnsupportedModelError(
            name,
            f"holds {coded[0].op_type} nodes ('{coded[0].name}' …): it is quantized already",
            "Give the float model",
        )
    for spec in graph_inputs(model):
        if spec.dtype == np.float16:
            raise UnsupportedModelError(
                name, f"input '{spec.name}' is float16", "Export the model in float32"
            )
    if opset_version(model) == 0:
        raise UnsupportedModelError(
            name, "imports no standard operator set", "Export it with opset_version=17"
        )
