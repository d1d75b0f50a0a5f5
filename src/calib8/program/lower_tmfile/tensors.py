"""What an int8 model of Tengine has of all tensors that are fed or computed: a scale, and zero point 0."""

from __future__ import annotations

from typing import Final

from calib8.errors import ModelError, UnsupportedModelError
from calib8.tmfile.graph import Graph, Tensor
from calib8.tmfile.kinds import kind

MOST_LISTED: Final = 9


def refuse_tensors(graph: Graph, name: str) -> None:
    """Refuses a model whose tensors are no int8 codes.

    Raises:
        UnsupportedModelError: a float model, one in float16, or one with codes of another type.
        ModelError: scales that are 0, zero points other than 0, tensors without either; all are listed.
    """
    live = {place: tensor for place, tensor in enumerate(graph.tensors) if tensor.role in ("var", "input")}
    found = kind(graph)
    if found != "quantized":
        held = "float16" if found == "half" else "float numbers"
        raise UnsupportedModelError(name, f"its tensors hold {held}, no codes", "Quantize it first, to int8")
    others = {tensor.dtype for tensor in live.values()} - {"int8"}
    if "uint8" in others:
        problem = (
            "its codes are uint8, whose products Tengine adds up in float32, in an order of its processor"
        )
        raise UnsupportedModelError(name, problem, "Quantize the float model to int8")
    if others:
        mixed = [place for place, tensor in live.items() if tensor.dtype in others]
        problem = f"tensors hold {', '.join(sorted(others))} beside int8: {_listed(graph, mixed)}"
        raise UnsupportedModelError(name, problem, "Quantize the float model to int8")
    for what, wrong, cure in _WRONG:
        places = [place for place, tensor in live.items() if wrong(tensor)]
        if places:
            problem = f"{len(places)} of its {len(live)} tensors have {what}: {_listed(graph, places)}"
            raise ModelError(name, problem, cure)


def _without(tensor: Tensor) -> bool:
    return tensor.quantization is None


def _several(tensor: Tensor) -> bool:
    return tensor.quantization is not None and tensor.quantization.scales.size != 1


def _zero(tensor: Tensor) -> bool:
    return tensor.quantization is not None and bool((tensor.quantization.scales <= 0).any())


def _shifted(tensor: Tensor) -> bool:
    return tensor.quantization is not None and bool(tensor.quantization.zero_points.any())


def _sizeless(tensor: Tensor) -> bool:
    return not tensor.shape or min(tensor.shape) < 1


AGAIN: Final = "Quantize the float model again"

_WRONG: Final = (
    ("no scale", _without, AGAIN),
    ("several scales", _several, AGAIN),
    (
        "the scale 0",
        _zero,
        "Quantize the float model with a table of scales that has these names, as the tool gives 0 to a name "
        "that it does not find",
    ),
    ("a zero point other than 0, which Tengine's int8 kernels leave out", _shifted, AGAIN),
    (
        "no sizes above 0",
        _sizeless,
        "Convert the model again, for inputs of one size, or quantize it with calib8 tengine-quant -g C,H,W, "
        "which writes them",
    ),
)
"""What may be wrong, of which tensors it is, and what to do."""


def _listed(graph: Graph, places: list[int]) -> str:
    names = [f"'{graph.tensors[place].name or f'tensor_{place}'}'" for place in places[:MOST_LISTED]]
    more = "" if len(places) <= MOST_LISTED else f" and {len(places) - MOST_LISTED} more"
    return ", ".join(names) + more
