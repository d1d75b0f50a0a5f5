"""What the bytes of a quantized ONNX file are: why it is not exactly a quarter of the float one.

    file = weights of one byte + biases of int32 + what is float (scales, weights in float) + the rest

The rest is the graph: nodes, names, and the QuantizeLinear and DequantizeLinear around every layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from calib8.model.graph import constant

_BYTE, _INT32, _FLOAT = 1, 4, "f"


@dataclass(frozen=True)
class FileParts:
    """Bytes of a file.

    Attributes:
        codes: of constants of one byte a number: weights and zero points.
        biases: of constants of int32.
        floats: of float constants: scales, and weights that stay float.
        rest: of the graph itself.
    """

    codes: int
    biases: int
    floats: int
    rest: int


def file_parts(model: ir.Model, file_bytes: int) -> FileParts:
    """Of a quantized model as it was loaded.

    Args:
        model: its graph.
        file_bytes: size of the file with its external data.
    """
    codes = biases = floats = 0
    arrays = (constant(value) for value in model.graph.initializers.values())
    for array in (array for array in arrays if array is not None):
        if array.dtype.kind == _FLOAT:
            floats += array.nbytes
        elif array.dtype.kind in "iu" and array.dtype.itemsize == _BYTE:
            codes += array.nbytes
        elif array.dtype.kind == "i" and array.dtype.itemsize == _INT32:
            biases += array.nbytes
    return FileParts(codes, biases, floats, max(file_bytes - codes - biases - floats, 0))
