"""What forward asks of sizes and types while it is traced, answered for the example inputs.

    if h % 2: …         the way of the example          n = int(math.sqrt(x.shape[1]))    the example's number
    for part in x: …    as many as the example has      h = x.shape[2]; x.view(n, h)      stays a node

Answers are the same for a batch of any size, or there is none. They hold for the other sizes of the example
alone: ``ExampleSizes.asked`` tells whether there was any answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from calib8.modules.example_inputs import with_batch
from calib8.modules.modes import in_mode

_Answer = TypeVar("_Answer", bound=float)

_NUMBERS: Final = (bool, int, float)
_WITH_PARTS: Final = (tuple, list, Tensor)


class ExampleSizes:
    """The values of nodes for batches of several sizes; tensors have shapes and types, and no values.

    Nothing is computed before the first question.

    Attributes:
        asked: whether a question was answered.
        running: whether nodes are being computed, so that what they call is not to be traced.
    """

    def __init__(self, module: nn.Module, inputs: Sequence[Tensor]) -> None:
        """Inputs of ``module`` in the order of its placeholders; none, and there are no answers."""
        self.module = module
        self.asked = self.running = False
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._inputs = inputs
        self._runs: list[dict[fx.Node, Any]] = []

    def number(self, node: fx.Node) -> bool | int | float | None:
        """The number that a node yields whatever the batch; None where it is none, or a tensor's."""
        return self._noted([value for value in self._values(node) if isinstance(value, _NUMBERS)])

    def length(self, node: fx.Node) -> int | None:
        """How many parts a node's value has whatever the batch; None where that is unknown."""
        values = [value for value in self._values(node) if isinstance(value, _WITH_PARTS)]
        return self._noted([len(value) for value in values if not isinstance(value, Tensor) or value.ndim])

    def _noted(self, answers: list[_Answer]) -> _Answer | None:
        """What all batches agree on."""
        if not answers or len(answers) < len(self._runs) or any(one != answers[0] for one in answers):
            return None
        self.asked = True
        return answers[0]

    def _values(self, node: fx.Node) -> list[Any]:
        """What a node yields in every run that came so far."""
        if not self._inputs:
            return []
        self._runs = self._runs or [{} for _ in _batches(self._inputs)]
        self.running = True
        with self._mode, torch.no_grad():
            for run, inputs in zip(self._runs, _batches(self._inputs), strict=True):
                one = next(reversed(run)).next if run else next(iter(node.graph.nodes))
                while one.op != "root":  # all nodes so far: some change what others read
                    run[one] = self._value(one, run, inputs)
                    one = one.next
        self.running = False
        return [run[node] for run in self._runs]

    def _value(self, node: fx.Node, run: dict[fx.Node, Any], inputs: Sequence[Tensor]) -> Any:
        """What one node yields; ``_UNKNOWN`` where it needs the values of a tensor, or fails."""
        if node.op == "placeholder":
            place = sum(one.op == "placeholder" for one in run)
            return self._mode.from_tensor(inputs[place]) if place < len(inputs) else _UNKNOWN
        if any(run[source] is _UNKNOWN for source in node.all_input_nodes):
            return _UNKNOWN
        arguments = fx.node.map_arg((node.args, node.kwargs), run.__getitem__)
        try:
            return self._called(node, *arguments)
        except Exception:  # of what the user calls, and of what has no form without values
            return _UNKNOWN

    def _called(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        if node.op == "call_function":
            return node.target(*args, **kwargs)  # type: ignore[operator]
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        if node.op == "get_attr":
            found = _attribute(self.module, str(node.target))
            return self._mode.from_tensor(found) if isinstance(found, Tensor) else found
        part = self.module.get_submodule(str(node.target))
        with in_mode(part, training=False):  # sizes are the same, and statistics stay
            return part.forward(*args, **kwargs)  # without its hooks


class _Unknown:
    """The value of a node that has none here."""


_UNKNOWN: Final = _Unknown()


def _batches(inputs: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """The inputs, with one sample, and with twice as many as they have."""
    count = inputs[0].shape[0] if inputs[0].ndim else 1
    for size in sorted({1, count, 2 * count}):
        yield with_batch(inputs, size)


def _attribute(module: nn.Module, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name)
    return found
