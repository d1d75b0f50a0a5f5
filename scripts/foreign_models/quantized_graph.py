"""Graph with the nodes of quantization: Q, DQ, weights and biases as integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from graph import F32, Array, Graph


class QuantizedGraph(Graph):
    """Adds Q/DQ by hand; scales and zero points are the caller's."""

    domain = ""  # of QuantizeLinear and DequantizeLinear

    def parameters(self, scale: float, zero_point: int, dtype: str) -> tuple[str, str]:
        return self.constant(np.float32(scale)), self.constant(np.array(zero_point, dtype))

    def quantize(self, source: str, scale: float, zero_point: int = 0, dtype: str = "int8") -> str:
        return self.node(
            "QuantizeLinear", source, *self.parameters(scale, zero_point, dtype), domain=self.domain
        )

    def dequantize(self, codes: str, scale: float, zero_point: int = 0, dtype: str = "int8") -> str:
        return self.node(
            "DequantizeLinear", codes, *self.parameters(scale, zero_point, dtype), domain=self.domain
        )

    def fake(self, source: str, scale: float, zero_point: int = 0, dtype: str = "int8") -> str:
        """Q and DQ."""
        return self.dequantize(self.quantize(source, scale, zero_point, dtype), scale, zero_point, dtype)

    def stored(
        self, codes: Array, scales: F32, axis: int | None = None, zero_points: Array | None = None
    ) -> str:
        """DQ of an initializer; ``axis`` for scales per channel, no zero point input without zero points."""
        inputs = [self.constant(codes), self.constant(scales)]
        inputs += [] if zero_points is None else [self.constant(zero_points)]
        more = {} if axis is None else {"axis": axis}
        return self.node("DequantizeLinear", *inputs, domain=self.domain, **more)

    def int8_weight(self, weight: F32, axis: int | None = 0) -> tuple[str, F32]:
        """DQ of a weight in symmetric int8, per channel of ``axis`` or per tensor, and its scales."""
        others = None if axis is None else tuple(i for i in range(weight.ndim) if i != axis % weight.ndim)
        largest = np.abs(weight).max(axis=others, keepdims=True)
        scales = (largest / 127).astype(np.float32)
        codes = np.rint(weight / scales).astype(np.int8)
        scales = np.squeeze(scales) if axis is None else scales.reshape(-1)
        zero_points = np.zeros(scales.shape, np.int8)
        return self.stored(codes, scales, axis, zero_points), scales

    def int32_bias(self, values: F32, scales: npt.ArrayLike) -> str:
        """DQ of an int32 bias."""
        scales = np.asarray(scales, np.float32)
        codes = np.rint(values / scales).astype(np.int32)
        return self.stored(codes, scales, 0 if scales.ndim else None)

    def int8_conv(
        self, source: str, source_scale: float, channels: tuple[int, int], kernel: int = 3, stride: int = 1,
        groups: int = 1,
    ) -> str:  # fmt: skip
        """Conv with int8 weights per channel and int32 bias, padding half its kernel."""
        weight, scales = self.int8_weight(self.weights(channels[1], channels[0] // groups, kernel, kernel))
        bias = self.int32_bias(self.uniform(-0.3, 0.3, channels[1]), np.float32(source_scale) * scales)
        return self.node("Conv", source, weight, bias, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                         pads=[kernel // 2] * 4, group=groups)  # fmt: skip

    def int8_head(self, source: str, source_scale: float, features: int, outputs: int = 10) -> str:
        """Flatten and Gemm with int8 weights, no Q/DQ between them; the result is not quantized."""
        weight, scales = self.int8_weight(self.weights(outputs, features))
        bias = self.int32_bias(self.uniform(-0.3, 0.3, outputs), np.float32(source_scale) * scales)
        return self.node("Gemm", self.node("Flatten", source), weight, bias, transB=1)
