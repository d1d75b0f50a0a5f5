"""Float instructions: the models of their nodes have the same bytes whenever they are made."""

from __future__ import annotations

import numpy as np
import onnx
from qdq_nets import Net, lowered

from calib8.program.instructions import Float


def test_constants_of_a_float_part_come_in_the_order_of_the_model() -> None:
    net = Net()
    x = net.coded("x", 0.1, 128)
    factors = [net.constant(np.linspace(1, 2 + place, 8)) for place in range(24)]
    for factor in reversed(factors):
        x = net.op(f"Mul ({x}, {factor})")
    program = lowered(net.proto("float[1,8] x", x))
    (part,) = [step for step in program.instructions if isinstance(step, Float)]
    names = [constant.name for constant in onnx.load_from_string(part.model).graph.initializer]
    assert [name for name in names if name in factors] == factors
