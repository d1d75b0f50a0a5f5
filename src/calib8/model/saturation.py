"""Sums of 8-bit products that ONNX Runtime saturates on some CPUs, and a model that shows it.

    vpmaddubsw    t = sat16( a₀·w₀ + a₁·w₁ )    a uint8, w int8: 255·127 + 255·127 = 64770 becomes 32767

x86 without VNNI (Intel before 2019, AMD before Zen 4) has nothing faster. ``open_session`` asks ONNX Runtime
for the way that cannot saturate there, so what calib8 chooses does not depend on the CPU; who opens a session
without that setting gets other outputs there, see ``calib8.quantization.pairs``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

CODE, WEIGHT, SCALE = 255, 127, 512.0

EXACT: Final = round(2 * CODE * WEIGHT / SCALE)
"""What ``two_products`` gives for two inputs of ``CODE`` where nothing saturates."""


def two_products() -> ir.Model:
    """``y = round((a₀·127 + a₁·127) / 512)``, codes all along."""
    a = ir.val("a", ir.DataType.UINT8, (1, 2))
    constants: dict[str, npt.NDArray[Any]] = {
        "one": np.array(1, np.float32),
        "zero": np.array(0, np.uint8),
        "w": np.full((2, 1), WEIGHT, np.int8),
        "zero_w": np.array(0, np.int8),
        "scale": np.array(SCALE, np.float32),
    }
    held = {name: ir.val(name, const_value=ir.tensor(value, name=name)) for name, value in constants.items()}
    inputs = [a, *(held[name] for name in ("one", "zero", "w", "one", "zero_w", "scale", "zero"))]
    y = ir.val("y", ir.DataType.UINT8, (1, 1))
    node = ir.node("QLinearMatMul", inputs, outputs=[y])
    graph = ir.Graph(
        [a], [y], nodes=[node], initializers=list(held.values()), opset_imports={"": 13}, name="two products"
    )
    return ir.Model(graph, ir_version=8)
