"""From a quantized ONNX graph to a program: one function per ONNX operator, grouped by family."""

from calib8.program.lower.lower import lower

__all__ = ["lower"]
