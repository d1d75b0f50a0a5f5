"""What is quantized and how, as data: ``QuantScheme`` and the presets of the targets.

A target is a value, never a class with code: adding one means adding a line to ``TARGETS``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from calib8.errors import UsageError
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8, QuantSpec

ACTIVATION_TYPES: Final[dict[str, QuantSpec]] = {
    "uint8": UINT8,
    "int8": INT8,
    "int8-symmetric": INT8_SYMMETRIC,
}

WEIGHTED_OPS: Final = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
BINARY_OPS: Final = frozenset({"Add", "Sub", "Mul"})
UNARY_OPS: Final = frozenset(
    {"Relu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "LeakyRelu", "PRelu", "Softmax"}
)
POOL_OPS: Final = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean"})
MOVE_OPS: Final = frozenset(
    {
        "DepthToSpace", "Expand", "Flatten", "Gather", "Pad", "Reshape", "Resize", "Slice", "SpaceToDepth",
        "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
QUANTIZABLE_OPS: Final = WEIGHTED_OPS | BINARY_OPS | UNARY_OPS | POOL_OPS | MOVE_OPS | {"Concat"}

CODE_PRESERVING_OPS: Final = MOVE_OPS | {"MaxPool", "GlobalMaxPool"}
"""Ops whose output codes are input codes: input and output must share scale and zero point."""


@dataclass(frozen=True)
class QuantScheme:
    """What a target takes.

    Attributes:
        name: name of the target.
        activations: code of the activations.
        weights: code of the weights, symmetric, one scale per output channel, codes −127 … 127.
        placement: ``every-op``: Q/DQ on inputs and outputs of every quantized op;
            ``weighted-inputs``: Q/DQ only on the inputs of conv/matmul, of the averaging pools, and on
            one branch of residual additions (what TensorRT fuses).
        quantize_bias: bias as int32 codes with a DequantizeLinear; otherwise it stays float.
        shared_scale_ops: ops whose inputs and outputs must have one scale, beyond those that move codes.
        concat_share_ratio: inputs of a Concat share one scale when the largest range is at most so many
            times the smallest (inf: always, 0: never).
        quantize_outputs: the graph's outputs pass through Q/DQ even where the last op could give floats.
    """

    name: str
    activations: QuantSpec = UINT8
    weights: QuantSpec = INT8_SYMMETRIC
    placement: Literal["every-op", "weighted-inputs"] = "every-op"
    quantize_bias: bool = True
    shared_scale_ops: frozenset[str] = frozenset()
    concat_share_ratio: float = 2.0
    quantize_outputs: bool = False

    def with_activations(self, name: str) -> QuantScheme:
        """The same scheme with another activation type.

        Raises:
            UsageError: unknown type, or one that the target cannot take.
        """
        spec = activation_type(name)
        if self.activations.symmetric and not spec.symmetric:
            raise UsageError(
                f"--activations {name}",
                f"target '{self.name}' takes symmetric int8 only",
                "Use int8-symmetric",
            )
        if self.name == "tflite" and not spec.signed:
            raise UsageError(f"--activations {name}", "target 'tflite' takes int8 only", "Use int8")
        return replace(self, activations=spec)


TARGETS: Final[dict[str, QuantScheme]] = {
    scheme.name: scheme
    for scheme in (
        QuantScheme("onnxruntime"),
        QuantScheme("openvino", shared_scale_ops=frozenset({"Concat"}), concat_share_ratio=float("inf")),
        QuantScheme(
            "tflite",
            activations=INT8,
            shared_scale_ops=frozenset({"AveragePool", "Concat", "Sub"}),
            concat_share_ratio=float("inf"),
            quantize_outputs=True,
        ),
        QuantScheme("tensorrt", activations=INT8_SYMMETRIC, placement="weighted-inputs", quantize_bias=False),
        QuantScheme(
            "tengine", activations=INT8_SYMMETRIC, concat_share_ratio=float("inf"), quantize_outputs=True
        ),
        QuantScheme("ncnn", activations=INT8_SYMMETRIC, placement="weighted-inputs", quantize_bias=False),
    )
}


def activation_type(name: str) -> QuantSpec:
    """The code of an activation type.

    Raises:
        UsageError: there is no such type.
    """
    if name not in ACTIVATION_TYPES:
        raise UsageError(f"--activations {name}", "unknown type", f"Use one of {', '.join(ACTIVATION_TYPES)}")
    return ACTIVATION_TYPES[name]


def target_scheme(name: str) -> QuantScheme:
    """The preset of a target.

    Raises:
        UsageError: there is no such target.
    """
    if name not in TARGETS:
        raise UsageError(f"--target {name}", "unknown target", f"Use one of {', '.join(TARGETS)}")
    return TARGETS[name]
