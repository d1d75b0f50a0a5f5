"""A graph for another batch than the file has, where its signature leaves the batch free.

    signature −1×32×32×3, shape 1×32×32×3, batch 4  →  4×32×32×3

The signature of every tensor that is computed says whether its first axis is the batch too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from calib8.errors import UnsupportedModelError
from calib8.tflite.graph import Graph, Tensor
from calib8.tflite.ports import FREE


def resized(graph: Graph, shapes: Mapping[str, Sequence[int]], name: str) -> Graph:
    """The graph whose inputs have these sizes.

    Args:
        graph: of a model.
        shapes: input name → sizes; an input that is not named keeps those of the file.
        name: of the model, for messages.

    Raises:
        UnsupportedModelError: another size than the batch differs from that of the file, or the batches of
            inputs differ.
    """
    inputs = [graph.tensors[place] for place in graph.inputs]
    wanted = [tuple(shapes.get(tensor.name, tensor.shape)) for tensor in inputs]
    if all(sizes == tensor.shape for tensor, sizes in zip(inputs, wanted, strict=True)):
        return graph
    for tensor, sizes in zip(inputs, wanted, strict=True):
        if sizes[1:] != tensor.shape[1:] or not _has_free_batch(tensor):
            stored = "×".join(map(str, tensor.shape))
            problem = (
                f"its input '{tensor.name}' is {stored} in the file, of which only a free batch can change"
            )
            raise UnsupportedModelError(name, problem, "Export it with the sizes that you need")
    batches = {sizes[0] for sizes in wanted}
    if len(batches) > 1 or len({tensor.shape[0] for tensor in inputs}) > 1:
        listed = ", ".join(str(sizes[0]) for sizes in wanted)
        raise UnsupportedModelError(name, f"its inputs get batches of {listed}", "Give all the same batch")
    [batch], stored_batch = batches, inputs[0].shape[0]
    tensors = (
        replace(tensor, shape=(batch, *tensor.shape[1:]))
        if _has_free_batch(tensor) and tensor.shape[0] == stored_batch
        else tensor
        for tensor in graph.tensors
    )
    return replace(graph, tensors=tuple(tensors))


def _has_free_batch(tensor: Tensor) -> bool:
    return tensor.data is None and len(tensor.shape) > 0 and tensor.signature[:1] == (FREE,)
