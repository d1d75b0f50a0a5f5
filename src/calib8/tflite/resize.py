"""A graph for other sizes than the file has, where the signatures of its inputs leave them free.

    signature −1×32×32×3, shape 1×32×32×3, batch 4      →  4×32×32×3
    signature −1×−1×−1×3, shape 1×1×1×3, 1×64×48×3      →  all shapes anew, operator by operator

Where the batch alone is free, the signature of every tensor that is computed says whether its first axis is
the batch too. What computes sizes from sizes becomes constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from calib8.errors import UnsupportedModelError, UsageError
from calib8.parameters import either
from calib8.tensors import shape_text
from calib8.tflite.check import MOST_ELEMENTS
from calib8.tflite.graph import Graph, Operator, Tensor
from calib8.tflite.ports import FREE
from calib8.tflite.results import result_shapes
from calib8.tflite.size_numbers import size_numbers
from calib8.tflite.sizes import Shape
from calib8.tflite.views import UnknownSizesError

TROUBLE: Final = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
"""What sizes, axes and options that contradict each other raise."""


def resized(graph: Graph, shapes: Mapping[str, Sequence[int]], name: str) -> Graph:
    """The graph whose inputs have these sizes.

    Args:
        graph: of a model.
        shapes: input name → sizes; an input that is not named keeps those of the file.
        name: of the model, for messages.

    Raises:
        UsageError: sizes that neither the file nor ``shapes`` give.
        UnsupportedModelError: a size that is not free differs from that of the file, operators do not work
            with the sizes, or what they make of them is not known: all of these are listed.
    """
    inputs = [graph.tensors[place] for place in graph.inputs]
    wanted = [tuple(shapes.get(tensor.name, tensor.shape)) for tensor in inputs]
    for tensor, sizes in zip(inputs, wanted, strict=True):
        _refuse_fixed(tensor, sizes, name)
        if tensor.name not in shapes and placeholders(tensor):
            raise unknown_sizes(tensor, name)
    if any(frees_more_than_batch(tensor) for tensor in inputs):
        return _derived(graph, wanted, name)
    if all(sizes == tensor.shape for tensor, sizes in zip(inputs, wanted, strict=True)):
        return graph
    return _with_batch(graph, wanted, name)


def frees_more_than_batch(tensor: Tensor) -> bool:
    """A size behind the first axis is free."""
    return FREE in tensor.signature[1:]


def placeholders(tensor: Tensor) -> bool:
    """The file says nothing about a free size behind the first axis: it has 1 in its place, or 0."""
    pairs = zip(tensor.shape[1:], tensor.signature[1:], strict=False)
    return any(free == FREE and size <= 1 for size, free in pairs)


def known_shapes(graph: Graph, batch: int | None = None) -> dict[str, Shape]:
    """Inputs of which the file has sizes although more than the batch is free; a free batch is ``batch``."""
    inputs = (graph.tensors[place] for place in graph.inputs)
    taken = [tensor for tensor in inputs if frees_more_than_batch(tensor) and not placeholders(tensor)]
    return {
        tensor.name: (batch or tensor.shape[0], *tensor.shape[1:])
        if _has_free_batch(tensor)
        else tensor.shape
        for tensor in taken
    }


def sizes_taken(graph: Graph, shapes: Mapping[str, Sequence[int]], batch: int | None = None) -> list[str]:
    """Sentences about inputs whose free sizes are those of the file, as ``resized`` takes them."""
    return [
        f"the input '{name}' has free sizes; those of the file are taken: {shape_text(sizes)}"
        for name, sizes in known_shapes(graph, batch).items()
        if name not in shapes
    ]


def unknown_sizes(tensor: Tensor, name: str) -> UsageError:
    """The error that asks for the sizes of an input."""
    free = [str(size) if size != FREE else "…" for size in tensor.signature]
    first = "1" if free[0] == "…" else free[0]
    sizes = ",".join((first, *free[1:]))
    text = shape_text(None if size == FREE else size for size in tensor.signature)
    given = either(f"shapes={{{tensor.name!r}: ({sizes})}}", f"--shape {tensor.name}={sizes}")
    cure = f"Give them: {given}"
    return UsageError(name, f"sizes of its input '{tensor.name}' ({text}) are free", cure)


def _refuse_fixed(tensor: Tensor, sizes: Shape, name: str) -> None:
    """Refuses another size than the file's where it is not free."""
    free = tensor.signature if tensor.signature else tensor.shape
    if len(sizes) == len(free) and all(
        fixed in (FREE, size) for size, fixed in zip(sizes, free, strict=True)
    ):
        return
    stored = shape_text(None if size == FREE else size for size in free)
    problem = f"its input '{tensor.name}' is {stored} in the file, which cannot become {shape_text(sizes)}"
    raise UnsupportedModelError(name, problem, "Export it with the sizes that you need")


def _with_batch(graph: Graph, wanted: Sequence[Shape], name: str) -> Graph:
    """The graph for another batch."""
    inputs = [graph.tensors[place] for place in graph.inputs]
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


def _derived(graph: Graph, wanted: Sequence[Shape], name: str) -> Graph:
    """The graph with the shapes of all tensors anew, all sizes fixed."""
    tensors = list(graph.tensors)
    for place, sizes in zip(graph.inputs, wanted, strict=True):
        tensors[place] = replace(tensors[place], shape=sizes, signature=())
    work = replace(graph, tensors=cast("tuple[Tensor, ...]", tensors))  # read while it is written
    kept: list[Operator] = []
    problems: list[str] = []
    lost: set[int] = set()
    for operator in _live(graph):
        if not lost.isdisjoint(operator.inputs):
            lost.update(operator.outputs)
            continue
        problem = _visited(work, tensors, operator, kept)
        if problem is not None:
            lost.update(operator.outputs)
            title = f"'{graph.tensors[operator.outputs[0]].name}' ({operator.title})"
            problems.append(f"{title}: {problem}")
    if problems:
        fed = [tensors[place] for place in graph.inputs]
        inputs = ", ".join(f"{tensor.name} {shape_text(tensor.shape)}" for tensor in fed)
        problem = f"{len(problems)} operators have no sizes for {inputs}: {'; '.join(problems)}"
        raise UnsupportedModelError(name, problem, "Give other sizes, or export the model with fixed sizes")
    return replace(graph, tensors=tuple(tensors), operators=tuple(kept))


def _live(graph: Graph) -> list[Operator]:
    """The operators that lead to the outputs, for numbers or for sizes, in the order of execution."""
    wanted, found = set(graph.outputs), list[Operator]()
    for operator in reversed(graph.operators):
        if not wanted.isdisjoint(operator.outputs):
            wanted.update(operator.inputs)
            found.append(operator)
    return found[::-1]


def _visited(work: Graph, tensors: list[Tensor], operator: Operator, kept: list[Operator]) -> str | None:
    """Gives the outputs of an operator their shapes, or their numbers; why not, None if all is well."""
    try:
        shapes = result_shapes(work, operator)
        if len(shapes) != len(operator.outputs):
            return f"it makes {len(shapes)} tensors of {len(operator.outputs)}"
        for shape in shapes:
            if min(shape, default=1) < 1 or math.prod(shape) >= MOST_ELEMENTS:
                return f"it would make {list(shape)}"
        arrays = size_numbers(work, operator, shapes)
    except UnknownSizesError as reason:
        return str(reason)
    except TROUBLE as error:
        return f"its sizes or options contradict each other ({str(error) or type(error).__name__})"
    if arrays is None or not set(operator.outputs).isdisjoint(work.outputs):
        arrays = None
        kept.append(operator)
    for at, (place, shape) in enumerate(zip(operator.outputs, shapes, strict=True)):
        data = None if arrays is None else arrays[at]
        tensors[place] = replace(tensors[place], shape=shape, signature=(), data=data)
    return None
