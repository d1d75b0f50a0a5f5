"""What only moves codes: RESHAPE."""

from __future__ import annotations

from calib8.program.instructions import Reshape
from calib8.program.lower_tflite.builder import Builder
from calib8.tflite.graph import Operator


def reshape(builder: Builder, operator: Operator) -> None:
    """The same elements in the same order; the output tensor says the shape."""
    source, target = builder.number(operator.inputs[0]), builder.number(operator.outputs[0])
    builder.steps.append(Reshape(builder.name(operator), (source,), (target,)))
