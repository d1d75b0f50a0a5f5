"""LiteRT as the definition: models run by one of its three sets of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from ai_edge_litert import interpreter as litert

Kernels = Literal["reference", "optimized", "xnnpack"]

RESOLVERS = {
    "reference": litert.OpResolverType.BUILTIN_REF,
    "optimized": litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "xnnpack": litert.OpResolverType.AUTO,
}


def litert_outputs(
    model: bytes, inputs: Sequence[npt.NDArray[Any]], kernels: Kernels = "reference"
) -> list[npt.NDArray[Any]]:
    """Outputs in the model's order for inputs in the model's order."""
    runner = litert.Interpreter(
        model_content=model, experimental_op_resolver_type=RESOLVERS[kernels], num_threads=1
    )
    runner.allocate_tensors()
    for detail, array in zip(runner.get_input_details(), inputs, strict=True):
        runner.set_tensor(detail["index"], array)
    runner.invoke()
    return [np.array(runner.get_tensor(detail["index"])) for detail in runner.get_output_details()]
