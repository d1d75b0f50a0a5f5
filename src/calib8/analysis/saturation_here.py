"""Says that a runtime gives a model other outputs on this CPU than on CPUs with VNNI."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from calib8.analysis.pair_saturation import layer_pairs
from calib8.model.runtime import EXACT_SUMS, saturates_here
from calib8.parameters import Text, parameter
from calib8.quantization.qdq import readable_copy

CURES: Final = {
    "onnxruntime": f"Set '{EXACT_SUMS}' to '1' in the session options (what is told here was measured with "
    f"it), or quantize with {parameter('target', 'onnxruntime-avx2')}",
    "openvino": "It has no setting against it: use calib8's engine or ONNX Runtime here, or a CPU with VNNI",
}
"""Runtimes that saturate → what to do."""

_CALLED: Final = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def saturation_notes(model: ir.Model, runtime: str) -> tuple[str, ...]:
    """What to know before a model runs on this CPU; one sentence, or none where there is nothing to know.

    Args:
        model: a QDQ graph.
        runtime: what it is to run in; a target or a runtime of that name.
    """
    if runtime not in CURES or not saturates_here():
        return ()
    layers = layer_pairs(readable_copy(model))
    unsafe = sum(bool(layer.unsafe) for layer in layers)
    if not unsafe:
        return ()
    return (
        Text(
            f"this CPU has no VNNI: by default {_CALLED[runtime]} may saturate sums of {unsafe} of "
            f"{len(layers)} layers here and be less accurate than on other CPUs. {CURES[runtime]}"
        ),
    )
