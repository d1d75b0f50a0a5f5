"""What to know of a TFLite model before its results are compared or trusted.

LiteRT has three sets of kernels that round differently. Its reference kernels define what a model computes,
and the profile ``tflite`` gives their bits; the set that runs by default is XNNPACK.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from calib8.analysis.rules.tflite_files import RULES
from calib8.tflite.graph import Graph
from calib8.tflite.kinds import kind
from calib8.tflite.versions import unknown_version

OTHER_ROUNDING: Final = frozenset(
    {
        "ADD", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "LEAKY_RELU", "MEAN", "MUL", "QUANTIZE",
        "RESIZE_BILINEAR", "SUB", "TRANSPOSE_CONV",
    }
)  # fmt: skip
"""Operators whose codes may differ between LiteRT's sets of kernels, mostly by 1."""


def caveats(graph: Graph) -> tuple[str, ...]:
    """Sentences, the most important first."""
    return (*_of_kind(graph), *_of_sizes(graph), *_of_rules(graph))


def _of_kind(graph: Graph) -> Iterator[str]:
    found = kind(graph)
    if found == "hybrid":
        yield (
            "hybrid (dynamic range): weights are integers, activations float, and coded anew in every run; "
            "there is no integer program of it"
        )
    custom = sorted(
        {operator.custom_code or "CUSTOM" for operator in graph.operators if operator.op == "CUSTOM"}
    )
    if custom:
        yield f"custom operators, which only their own runtime has: {', '.join(custom)}"
    unknown = [operator for operator in graph.operators if unknown_version(operator)]
    late = sorted({f"{operator.op} {operator.version}" for operator in unknown})
    if late:
        yield f"versions of operators that LiteRT 2.3 does not know: {', '.join(late)}"
    if found != "quantized":
        return
    apart = Counter(operator.op for operator in graph.operators if operator.op in OTHER_ROUNDING)
    if apart:
        listed = ", ".join(f"{number} {op}" for op, number in apart.most_common())
        yield (
            f"profile 'tflite' gives the bits of LiteRT's reference kernels; XNNPACK, which LiteRT takes by "
            f"default, and its optimized kernels may differ by 1 in {listed}"
        )
    if _is_legacy(graph):
        yield "uint8 weights with zero points, as TFLite had them before int8: one scale per weight"


def _is_legacy(graph: Graph) -> bool:
    return any(
        tensor.dtype == "uint8" and tensor.data is not None and tensor.quantization is not None
        for tensor in graph.tensors
    )


def _of_sizes(graph: Graph) -> Iterator[str]:
    for place in graph.inputs:
        tensor = graph.tensors[place]
        if -1 in tensor.signature[1:]:
            yield f"input '{tensor.name}' leaves sizes besides the batch free: those of the file are taken"


def _of_rules(graph: Graph) -> Iterator[str]:
    found = [finding for rule in RULES for finding in rule(graph)]
    if found:
        node, problem, _ = found[0]
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"TFLite's rules for codes are broken: {node}: {problem}{more}; --target tflite lists all"
