"""``nn.MultiheadAttention`` is traced as its layers and simulated as the integers compute it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import calib8
from calib8 import training
from calib8.modules.tracing import trace
from slow_cases import slow_but

ROWS = 10


class Attention(nn.Module):
    """One module of attention, called in one of the ways that networks call it."""

    mask: Tensor
    pos: Tensor

    def __init__(self, way: str, **settings: Any) -> None:
        super().__init__()
        self.a, self.way = nn.MultiheadAttention(16, 4, **settings), way
        self.first = settings.get("batch_first", False)
        for name, parameter in self.a.named_parameters():
            if "bias" in name:
                nn.init.normal_(parameter)
        self.register_buffer("pos", torch.randn(1, 1, 16))
        far = torch.rand(ROWS, ROWS) > 0.5
        far.fill_diagonal_(False)
        self.register_buffer("mask", far if way == "truth values" else torch.randn(ROWS, ROWS))

    def forward(self, x: Tensor) -> Tensor:
        kept: Tensor
        if self.way == "weights":
            kept, weights = self.a(x, x, x)
            return kept + weights.mean()
        if self.way == "positions":
            query = x + self.pos
            return self.a(query, query, value=x)[0]  # type: ignore[no-any-return]
        if self.way == "other keys":
            return self.a(x, x[..., :8], x[..., :8], need_weights=False)[0]  # type: ignore[no-any-return]
        mask = None if self.way == "itself" else self.mask
        kept, _ = self.a(x, x, x, need_weights=False, attn_mask=mask)
        return kept


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    ("way", "settings"),
    [
        ("itself", {}), ("itself", {"bias": False}), ("positions", {}), ("numbers", {}), ("truth values", {}),
        ("other keys", {"kdim": 8, "vdim": 8}), ("positions", {"bias": False}),
    ],
)  # fmt: skip
def test_it_is_layers_and_computes_the_same(way: str, settings: dict[str, Any], batch_first: bool) -> None:
    torch.manual_seed(3)
    module = Attention(way, batch_first=batch_first, **settings).eval()
    traced = trace(module)
    assert all(node.op != "call_module" for node in traced.graph.nodes)
    layers = sum(node.target is F.linear for node in traced.graph.nodes)
    assert layers == (4 if way in ("positions", "other keys") else 2)
    x = torch.randn(2, ROWS, 16) if batch_first else torch.randn(ROWS, 2, 16)
    torch.testing.assert_close(traced(x), module(x))
    assert traced.state_dict().keys() == module.state_dict().keys()


@pytest.mark.parametrize(
    ("way", "settings"),
    [("weights", {}), ("itself", {"add_bias_kv": True}), ("itself", {"add_zero_attn": True})],
)  # fmt: skip
def test_it_stays_a_module_where_it_does_more(way: str, settings: dict[str, Any]) -> None:
    module = Attention(way, batch_first=True, **settings).eval()
    traced = trace(module)
    assert any(node.op == "call_module" for node in traced.graph.nodes)
    x = torch.randn(2, ROWS, 16)
    torch.testing.assert_close(traced(x), module(x))


@pytest.mark.parametrize("batch_first", [True, False])
def test_rows_of_a_single_sample(batch_first: bool) -> None:
    module = Attention("numbers", batch_first=batch_first).eval()
    x = torch.randn(ROWS, 16)
    torch.testing.assert_close(trace(module)(x), module(x))


@pytest.mark.parametrize("kind", [torch.float32, torch.bool])
def test_a_mask_for_every_head(kind: torch.dtype) -> None:
    module = Attention("numbers", batch_first=True).eval()
    far = torch.rand(8, ROWS, ROWS) > 0.6
    far.diagonal(dim1=1, dim2=2).fill_(False)
    module.mask = far if kind == torch.bool else torch.randn(8, ROWS, ROWS)
    x = torch.randn(2, ROWS, 16)
    torch.testing.assert_close(trace(module)(x), module(x))


def test_weights_are_dropped_in_training_alone() -> None:
    module = Attention("itself", batch_first=True, dropout=0.5)
    traced, x = trace(module), torch.randn(2, ROWS, 16)
    assert all(node.op != "call_module" for node in traced.graph.nodes)
    traced.eval(), module.eval()
    torch.testing.assert_close(traced(x), module(x))
    traced.train(), module.train()
    mean = torch.stack([traced(x) for _ in range(800)]).mean(0)
    torch.testing.assert_close(mean, module.eval()(x), rtol=0.0, atol=0.1)
    assert not torch.equal(traced.train()(x), traced(x))


LAYER: dict[str, Any] = {"d_model": 16, "nhead": 4, "dim_feedforward": 32, "batch_first": True}
TRANSFORMERS: dict[str, Callable[[], nn.Module]] = {
    "encoder layer": lambda: nn.TransformerEncoderLayer(**LAYER),
    "encoder, norms first": lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**LAYER, activation="gelu", norm_first=True), 2, enable_nested_tensor=False
    ),
    "decoder layer": lambda: nn.TransformerDecoderLayer(**LAYER, dropout=0.0),
    "decoder": lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(**LAYER), 2),
    "both": lambda: nn.Transformer(16, 4, 1, 1, 32, 0.0, batch_first=True),
}


class Around(nn.Module):
    """A transformer of torch between two layers."""

    def __init__(self, body: nn.Module, two: bool) -> None:
        super().__init__()
        self.first, self.body, self.last, self.two = nn.Linear(16, 16), body, nn.Linear(16, 5), two

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(self.body(x, x * 0.5) if self.two else self.body(x))  # type: ignore[no-any-return]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_transformers_of_torch(kind: str) -> None:
    torch.manual_seed(2)
    module, x = Around(TRANSFORMERS[kind](), not kind.startswith("encoder")), torch.randn(2, ROWS, 16)
    torch.testing.assert_close(trace(module.eval(), example=(x,))(x), module(x))
    model = training.prepare(module, x, "calib8").train()
    for _ in range(3):
        model(torch.randn(2, ROWS, 16))
    training.freeze(model)
    found = training.agreement(model, training.convert(model), x)
    assert found.largest <= 1 and found.equal > 0.99 and len(found.steps) >= 12


class Encoder(nn.Module):
    """A block of a transformer over the places of an image; biases are zero, as they are before training."""

    pos: Tensor

    def __init__(self, cross: bool, batch_first: bool) -> None:
        super().__init__()
        self.stem, self.norm, self.head = nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16), nn.Linear(16, 5)
        self.a, self.cross = nn.MultiheadAttention(16, 4, batch_first=batch_first), cross
        self.first = batch_first
        self.register_buffer("pos", torch.randn(64, 16))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).permute(0, 2, 1)
        x = x if self.first else x.transpose(0, 1)
        pos = self.pos if self.first else self.pos[:, None]
        query = x + pos if self.cross else x
        x = self.norm(x + self.a(query, query, value=x, need_weights=False)[0])
        return self.head(x.mean(1 if self.first else 0))  # type: ignore[no-any-return]


@pytest.mark.parametrize("target", slow_but(["calib8"], ["calib8", "onnxruntime", "tflite"]))
@pytest.mark.parametrize(("cross", "batch_first"), [(False, True), (True, False)])
def test_the_simulation_has_the_codes_of_the_integers(cross: bool, batch_first: bool, target: str) -> None:
    torch.manual_seed(1)
    batches = [torch.randn(2, 3, 32, 32) for _ in range(3)]
    model = training.prepare(Encoder(cross, batch_first), batches[0], target).train()
    for batch in batches:
        model(batch).square().mean().backward()
    gradients = [one.grad for name, one in model.named_parameters() if name.startswith("a.")]
    assert len(gradients) == 4 and all(one is not None and one.any() for one in gradients)
    training.freeze(model)
    result = training.convert(model)
    found = training.agreement(model, result, batches[0])
    assert found.largest <= 1 and found.equal > 0.99 and len(found.steps) >= 8
    counts = calib8.InferenceSession(ir.to_proto(result.model)).program.instructions
    assert target != "calib8" or sum(type(step).__name__ == "MatMul" for step in counts) == 2


class Functional(nn.Module):
    """A layer of three axes as a function, with a bias of zeros, and a residual behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.p, self.head = nn.Conv2d(3, 16, 4, 4), nn.Linear(16, 16), nn.Linear(16, 5)
        nn.init.zeros_(self.p.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).permute(0, 2, 1)
        return self.head((x + F.linear(x, self.p.weight, bias=self.p.bias)).mean(1))  # type: ignore[no-any-return]


def test_a_functional_layer_with_a_bias_of_zeros() -> None:
    torch.manual_seed(1)
    x = torch.randn(2, 3, 32, 32)
    model = training.prepare(Functional(), x, "calib8").train()
    model(x)
    training.freeze(model)
    found = training.agreement(model, training.convert(model), x)
    assert found.largest <= 1 and found.equal > 0.99


class Causal(nn.Module):
    """Attention in which no place sees those behind it, written in the ways that networks write it."""

    keep: Tensor
    far: Tensor

    def __init__(self, way: str) -> None:
        super().__init__()
        self.i, self.way, self.o = nn.Linear(16, 48), way, nn.Linear(16, 5)
        self.a = nn.MultiheadAttention(16, 4, batch_first=True)
        self.register_buffer("keep", torch.tril(torch.ones(ROWS, ROWS, dtype=torch.bool)))
        self.register_buffer("far", torch.zeros(ROWS, ROWS).masked_fill(~self.keep, -torch.inf))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (4, 4)).transpose(1, 2) for part in (self.i(x) * 3).chunk(3, -1)
        )
        if self.way == "function":
            y = F.scaled_dot_product_attention(query, key, value, attn_mask=self.keep)
        elif self.way == "numbers":
            y = F.scaled_dot_product_attention(query, key, value, attn_mask=self.far.clamp(min=-1e9))
        else:
            scores = (query @ key.transpose(-1, -2)) * 0.5
            y = scores.masked_fill(~self.keep, -torch.inf).softmax(-1) @ value
        y = y.transpose(1, 2).flatten(2)
        return self.o(self.a(y, y, y, attn_mask=self.far)[0] if self.way == "function" else y)  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", ["function", "numbers", "by hand"])
def test_masks_of_infinity_leave_the_codes_to_the_scores(way: str) -> None:
    torch.manual_seed(3)
    module, batches = Causal(way).eval(), [torch.randn(2, ROWS, 16) for _ in range(8)]
    model = training.prepare(module, batches[0], "calib8").train()
    for batch in batches:
        model(batch)
    training.freeze(model)
    result = training.convert(model)
    found = training.agreement(model, result, batches[0])
    assert found.largest <= 1 and found.equal > 0.99
    made = calib8.quantize(
        module,
        [batch.numpy() for batch in batches],
        target="calib8",
        effort="fast",
        example_inputs=batches[0],
    )
    for one in (result, made):
        session = calib8.InferenceSession(ir.to_proto(one.model))
        [given] = session.run(None, {session.inputs[0].name: batches[0].numpy()})
        wanted = module(batches[0]).detach().numpy()
        noise = ((given - wanted) ** 2).mean() / (wanted**2).mean()
        assert noise < 10**-2.3, way
