"""Which sizes of a TFLite model are free: the batch may be, nothing else.

A signature says −1 where a size is not known before the model runs. The file's shape then has 1 in its place.
"""

from __future__ import annotations

from calib8.errors import UnsupportedModelError
from calib8.tflite.graph import Graph, Tensor
from calib8.tflite.live import needed


def has_free_batch(graph: Graph, name: str) -> bool:
    """Whether every input and every computed tensor has one free size, the inputs their first.

    A model of which some tensor has none computes one sample at a time.

    Raises:
        UnsupportedModelError: sizes other than the batch are free.
    """
    computed = [place for operator in needed(graph, graph.outputs) for place in operator.outputs]
    inputs = [graph.tensors[place] for place in graph.inputs]
    tensors = [*inputs, *(graph.tensors[place] for place in computed)]
    unknown = [tensor for tensor in tensors if _free(tensor) > 1 or (tensor in inputs and _not_batch(tensor))]
    if unknown:
        listed = "; ".join(f"'{tensor.name}' {list(tensor.signature)}" for tensor in unknown[:5])
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        raise UnsupportedModelError(
            name,
            f"sizes other than the batch are free: {listed}{more}",
            "Export the model with a fixed input shape",
        )
    return bool(inputs) and all(_free(tensor) == 1 for tensor in tensors)


def _free(tensor: Tensor) -> int:
    return sum(size < 0 for size in tensor.signature)


def _not_batch(tensor: Tensor) -> bool:
    return any(size < 0 for size in tensor.signature[1:])
