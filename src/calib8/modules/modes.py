"""A graph that follows the mode of its modules: two graphs of one module, compared.

    evaluation  dropout(x, p=0.5, training=False)
    training    dropout(x, p=0.5, training=True)       ⇒       dropout(x, p=0.5, training=block.training)

``block`` is the part whose forward makes the node: it follows its own mode, as the code does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher
from typing import Any, Final, TypeVar

from torch import fx, nn

OWNER: Final = "calib8.owner"
"""Key of ``Node.meta``: path of the module whose forward makes the node, empty for the root."""

SOURCE: Final = "calib8.source"
"""Key of ``Node.meta``: ``file:line`` of the user's code that makes the node."""

_Value = TypeVar("_Value")


def by_mode(training: bool, in_training: _Value, in_evaluation: _Value) -> _Value:
    """One of two constants; a node of graphs whose constants depend on the mode."""
    return in_training if training else in_evaluation


def follow_mode(evaluated: fx.Graph, trained: fx.Graph) -> str:
    """Makes constants that differ between the modes depend on the mode of the module that owns them.

    Args:
        evaluated: the graph in evaluation; changed.
        trained: the graph of the same module in training.

    Returns:
        What the two do besides, for people; empty where both have the same nodes.
    """
    here, there = list(evaluated.nodes), list(trained.nodes)
    blocks = SequenceMatcher(
        None, [*map(_key, here)], [*map(_key, there)], autojunk=False
    ).get_matching_blocks()
    pairs = [(here[b.a + i], there[b.b + i]) for b in blocks for i in range(b.size)]
    for ours, theirs in pairs:
        _follow(evaluated, ours, theirs)
    matched = {node for pair in pairs for node in pair}
    left_out = list(_places(node for node in there if node not in matched))
    added = list(_places(node for node in here if node not in matched))
    return "; ".join(
        [f"{place} is left out" for place in left_out]
        + [f"{place} is computed all the same" for place in added]
    )


def _key(node: fx.Node) -> tuple[str, str, str]:
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return node.op, str(target), str(node.meta.get(OWNER, ""))


def _follow(graph: fx.Graph, ours: fx.Node, theirs: fx.Node) -> None:
    def chosen(here: Any, there: Any) -> Any:
        if isinstance(here, tuple | list) and isinstance(there, tuple | list) and len(here) == len(there):
            return type(here)(chosen(a, b) for a, b in zip(here, there, strict=True))
        plain = isinstance(here, bool | int | float | str) and isinstance(there, bool | int | float | str)
        if not plain or here == there:
            return here
        return _mode_node(graph, ours, here, there)

    args = tuple(chosen(a, b) for a, b in zip(ours.args, theirs.args, strict=False))
    ours.args = args + ours.args[len(args) :]
    ours.kwargs = {name: chosen(value, theirs.kwargs.get(name, value)) for name, value in ours.kwargs.items()}


def _mode_node(graph: fx.Graph, reader: fx.Node, here: Any, there: Any) -> fx.Node:
    """A node that yields one constant in evaluation and another in training."""
    owner = str(reader.meta.get(OWNER, ""))
    with graph.inserting_before(reader):
        mode = graph.create_node("get_attr", f"{owner}.training" if owner else "training")
        if here is False and there is True:
            return mode
        return graph.call_function(by_mode, (mode, there, here))


def _places(nodes: Iterator[fx.Node]) -> Iterator[str]:
    """Names of what nodes call, each with the line where it first occurs."""
    seen: set[str] = set()
    for node in nodes:
        if node.op in ("output", "placeholder", "get_attr"):
            continue
        owner = str(node.meta.get(OWNER, ""))
        name = f"'{owner}'" if owner else f"'{node.target if node.op == 'call_module' else node.name}'"
        outer = [owner[:end] for end, letter in enumerate(owner) if letter == "."]
        if name not in seen and not any(f"'{path}'" in seen for path in outer):
            seen.add(name)
            yield f"{name} ({node.meta.get(SOURCE, '')})"


@contextmanager
def in_mode(module: nn.Module, *, training: bool) -> Iterator[None]:
    """Every submodule in one mode, as they were afterwards; no ``train()`` of the user's is called."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        for part, _ in modes:
            part.training = training
        yield
    finally:
        for part, mode in modes:
            part.training = mode
