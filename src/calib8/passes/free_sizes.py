"""Which sizes a graph states: numbers, and the names of free ones where they are true.

    x [N, 3, ?, ?] → t [N, 8, ?, ?] → y [1, ?, 1]   becomes   x [N, 3, ·, ·] → t [·, 8, ·, ·] → y [1, ·, 1]

A name says that two sizes are equal, and runtimes give tensors of equal sizes one memory. Exporters call all
free sizes of a network ``?``, shape inference hands names on, and a new tensor beside one with a name would
have it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from calib8.model.graph import known_sizes, size_name


def stated_shapes(model: ir.Model) -> dict[str, ir.Shape | None]:
    """Shapes of inputs and outputs, by name."""
    return {value.name or "": value.shape for value in _ends(model)}


def forget_inferred_names(model: ir.Model, own: Mapping[str, ir.Shape | None]) -> None:
    """Tensors between inputs and outputs state numbers only; those at the ends may state names of their own.

    Args:
        model: changed in place.
        own: what inputs and outputs stated before shapes were inferred.
    """
    ends = set(_ends(model))
    for node in model.graph:
        for value in node.outputs:
            if value not in ends:
                value.shape = known_sizes(value.shape)
    for value in ends:
        numbers, stated = known_sizes(value.shape), own.get(value.name or "")
        if numbers is not None and stated is not None and len(stated) == len(numbers):
            pairs = zip(numbers, stated, strict=True)
            value.shape = ir.Shape([size if isinstance(size, int) else old for size, old in pairs])
        else:
            value.shape = numbers


def _ends(model: ir.Model) -> tuple[ir.Value, ...]:
    return (*model.graph.inputs, *model.graph.outputs)


def forget_names(model: ir.Model) -> None:
    """All tensors state numbers only."""
    forget_inferred_names(model, {})


def keep_true_sizes(model: ir.Model, seen: Mapping[str, Sequence[int]]) -> None:
    """Inputs and outputs state what one run does not contradict.

    A name that says nothing, such as ``?``, goes. Where outputs contradict the inputs, they lose the name;
    where inputs contradict each other, or outputs do, all of them.

    Args:
        model: changed in place.
        seen: sizes of inputs and outputs in the run, by name.
    """
    true: dict[str, int] = {}
    for side in (model.graph.inputs, model.graph.outputs):
        found: dict[str, set[int]] = {}
        for value in side:
            for stated, size in zip(value.shape or (), seen.get(value.name or "", ()), strict=False):
                found.setdefault(size_name(stated), set()).add(size)
        for name, sizes in found.items():
            if name and name not in true:
                true[name] = sizes.pop() if len(sizes) == 1 else -1
    for value in _ends(model):
        run = seen.get(value.name or "")
        if value.shape is not None and run is not None and len(run) == len(value.shape):
            pairs = zip(value.shape, run, strict=True)
            value.shape = ir.Shape([old if _holds(old, size, true) else None for old, size in pairs])


def _holds(stated: int | ir.SymbolicDim, size: int, true: Mapping[str, int]) -> bool:
    """A size, or the name of one, is that of the run."""
    return stated == size if isinstance(stated, int) else true.get(size_name(stated)) == size
