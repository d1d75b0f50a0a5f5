"""What is read from a table by constant places and added: relative positions, embeddings of places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calib8 import training
from calib8.model.runtime import open_session
from slow_cases import slow_but

ROWS = 6


class Positions(nn.Module):
    """A layer, positions added, another layer; the rows of the table are of very different sizes."""

    idx: Tensor

    def __init__(self, positions: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.positions = nn.Linear(8, 8), nn.Linear(8, 5), positions
        self.table = nn.Parameter(torch.randn(20, 8) * torch.arange(1, 21)[:, None])
        self.embedding = nn.Embedding(20, 8)
        self.register_buffer("idx", torch.arange(ROWS) + 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.first(x)) + self.positions(self, x))  # type: ignore[no-any-return]


READ: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "by index": lambda self, _: self.table[self.idx],
    "behind another axis": lambda self, _: self.table.t()[:, self.idx].t(),
    "as a function": lambda self, _: F.embedding(self.idx, self.table),
    "by a module": lambda self, _: self.embedding(self.idx),
    "selected": lambda self, _: self.table.index_select(0, self.idx.view(-1)).view(1, ROWS, 8),
    "places made in forward": lambda self, _: self.table[torch.arange(ROWS) * 2],
    "as many as there are rows": lambda self, x: self.table[: x.shape[1]],
    "computed": lambda self, _: (self.table[self.idx] * 0.5).tanh() + 0.25,
}


@pytest.mark.parametrize("target", slow_but(["calib8"], ["calib8", "onnxruntime", "tflite"]))
@pytest.mark.parametrize("kind", READ)
def test_they_have_codes_of_the_range_that_is_read(kind: str, target: str) -> None:
    torch.manual_seed(1)
    x = torch.randn(2, ROWS, 8)
    model = training.prepare(Positions(READ[kind]), x, target).train()
    for _ in range(3):
        model(torch.randn(2, ROWS, 8)).square().mean().backward()
    name = "embedding.weight" if kind == "by a module" else "table"
    gradient = next(one.grad for key, one in model.named_parameters() if key.endswith(name))
    assert gradient is not None and gradient.any()
    training.freeze(model)
    result = training.convert(model)
    found = training.agreement(model, result, x)
    assert found.largest <= 1 and found.equal > 0.99
    with torch.no_grad():
        simulated = model.eval()(x).numpy()
    [name] = [value.name for value in result.prepared.model.graph.inputs]
    [integer] = open_session(result.model, threads=1).run({str(name): x.numpy()})
    assert abs(simulated - integer).max() <= 0.02 * abs(integer).max()
