"""What to know of a TFLite model before its results are compared or trusted.

LiteRT has three sets of kernels that round differently. Its reference kernels define what a model computes,
and the profile ``tflite`` gives their bits; the set that runs by default is XNNPACK.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from calib8.analysis.rules.tflite_files import RULES
from calib8.parameters import Text, either, parameter
from calib8.tflite.custom import KNOWN
from calib8.tflite.graph import CUSTOM, Graph, Operator
from calib8.tflite.kinds import kind
from calib8.tflite.versions import unknown_version

OTHER_ROUNDING: Final[Mapping[tuple[str, str], int]] = {
    ("ADD", "int8"): 12, ("ADD", "uint8"): 12, ("CONV_2D", "int8"): 1, ("CONV_2D", "uint8"): 1,
    ("DEPTHWISE_CONV_2D", "int8"): 1, ("DEPTHWISE_CONV_2D", "uint8"): 1, ("FULLY_CONNECTED", "int8"): 1,
    ("FULLY_CONNECTED", "uint8"): 1, ("LEAKY_RELU", "int8"): 1, ("LEAKY_RELU", "uint8"): 1,
    ("MEAN", "int8"): 1, ("MEAN", "uint8"): 1, ("MUL", "int8"): 1, ("MUL", "uint8"): 1,
    ("QUANTIZE", "int8"): 1, ("QUANTIZE", "uint8"): 1, ("RESIZE_BILINEAR", "int8"): 3,
    ("RESIZE_BILINEAR", "uint8"): 1, ("SUB", "int8"): 1, ("SUB", "uint8"): 1, ("SUM", "int8"): 1,
    ("SUM", "uint8"): 1, ("TANH", "uint8"): 1, ("TRANSPOSE_CONV", "int8"): 1, ("TRANSPOSE_CONV", "uint8"): 1,
    ("DEQUANTIZE", "int8"): 0, ("DEQUANTIZE", "uint8"): 0,
}  # fmt: skip
"""Operator and type of its codes, where LiteRT's sets of kernels differ: by how many codes at most.

As measured (docs/numerics.md, section 9); 0 stands for the last bits of real numbers.
"""


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
        {each.title for each in graph.operators if each.op == CUSTOM and each.custom_code not in KNOWN}
    )
    if custom:
        yield f"custom operators, which only their own runtime has: {', '.join(custom)}"
    unknown = [operator for operator in graph.operators if unknown_version(operator)]
    late = sorted({f"{operator.op} {operator.version}" for operator in unknown})
    if late:
        yield f"versions of operators that LiteRT 2.3 does not know: {', '.join(late)}"
    if found != "quantized":
        return
    apart = Counter(
        coded for coded in map(partial(_coded, graph), graph.operators) if coded in OTHER_ROUNDING
    )
    if apart:
        listed = ", ".join(
            f"{number} {op} ({_by(OTHER_ROUNDING[op, dtype])})" for (op, dtype), number in apart.most_common()
        )
        yield (
            f"profile 'tflite' gives the bits of LiteRT's reference kernels; XNNPACK, which LiteRT takes by "
            f"default, and its optimized kernels may differ in {listed}"
        )
    if ("SUM", "int8") in apart:
        yield (
            "SUM of int8 codes: LiteRT's reference kernel reads them as uint8, which is a fault; "
            "calib8 does not follow it there; judge the model with the other kernels"
        )
    if _is_legacy(graph):
        yield "uint8 weights with zero points, as TFLite had them before int8: one scale per weight"


def _coded(graph: Graph, operator: Operator) -> tuple[str, str]:
    """Name of an operator, and the type of its codes: int16 if some are, else that of the first ones."""
    places = [place for place in (*operator.inputs, *operator.outputs) if place >= 0]
    types = [graph.tensors[place].dtype for place in places]
    if "int16" in types:
        return operator.op, "int16"
    return operator.op, next((dtype for dtype in types if dtype in ("int8", "uint8")), "")


def _by(codes: int) -> str:
    return f"by {'up to ' if codes > 1 else ''}{codes}" if codes else "in the last bits"


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
        lint = either("calib8.lint(target='tflite')", parameter("target", "tflite"))
        yield Text(f"TFLite's rules for codes are broken: {node}: {problem}{more}; {lint} lists all")
