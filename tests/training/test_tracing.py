"""Traced modules compute what the modules compute, in both modes, and say which lines cannot be traced."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from networks import NETWORKS, example, network
from networks_mobile import DropPath
from torch import Tensor, nn
from traced import Of, line_of, quietly_traced, same_as_the_module

from calib8.errors import UnsupportedModelError, UsageError
from calib8.modules.example_inputs import tensors_in
from calib8.modules.tracing import TracingWarning, trace

SAME_IN_BOTH_MODES = sorted(NETWORKS.keys() - {"inception"})


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_evaluates_as_before(name: str) -> None:
    module, inputs = network(name), example(name)
    traced = quietly_traced(module)
    expected, actual = [*tensors_in(module(*inputs))], [*tensors_in(traced.eval()(*inputs))]
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(expected, actual, strict=True))


@pytest.mark.parametrize("name", SAME_IN_BOTH_MODES)
def test_a_network_trains_as_before(name: str) -> None:
    module, inputs = network(name), example(name)
    other = copy.deepcopy(module)
    results = []
    for one in (module.train(), trace(other).train()):
        torch.manual_seed(7)
        outputs = [*tensors_in(one(*inputs))]
        sum(output.square().mean() for output in outputs).backward()
        results.append(outputs)
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(*results, strict=True))
    for (path, one), (_, two) in zip(module.named_parameters(), other.named_parameters(), strict=True):
        assert (one.grad is None) == (two.grad is None), path
        assert (
            one.grad is None or two.grad is None or torch.allclose(one.grad, two.grad, rtol=1e-4, atol=1e-5)
        )
    for path, buffer in module.named_buffers():
        assert torch.allclose(buffer, other.get_buffer(path), rtol=1e-5), path


@pytest.mark.parametrize("name", NETWORKS)
def test_the_module_stays_as_it_is_and_the_graph_holds_all_of_it(name: str) -> None:
    module = network(name).train()
    next(part for part in module.modules() if not list(part.children())).eval()
    modes = [part.training for part in module.modules()]
    attributes = set(vars(module))
    traced = quietly_traced(module)
    assert [part.training for part in module.modules()] == modes
    assert set(vars(module)) == attributes
    assert list(traced.state_dict()) == list(module.state_dict())
    assert [*dict(traced.named_modules())][1:] == [*dict(module.named_modules())][1:]
    for path, part in list(module.named_modules())[1:]:
        assert traced.get_submodule(path) is part
    for path, parameter in module.named_parameters():
        assert traced.get_parameter(path) is parameter
    traced.graph.lint()


@pytest.mark.parametrize("name", NETWORKS)
def test_names_are_the_same_every_time_and_nothing_is_in_place(name: str) -> None:
    first, second = quietly_traced(network(name)), quietly_traced(network(name).train())
    names = [node.name for node in first.graph.nodes]
    assert names == [node.name for node in second.graph.nodes]
    assert all(text.isidentifier() for text in names) and len(set(names)) == len(names)
    for node in first.graph.nodes:
        called = str(getattr(node.target, "__name__", node.target))
        assert not called.endswith("_") and called not in ("iadd", "imul")
        assert node.kwargs.get("inplace", False) is False
        if node.op == "call_module":
            assert getattr(first.get_submodule(str(node.target)), "inplace", False) is False


def test_constants_follow_the_mode_of_the_part_that_reads_it() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = F.dropout(x, 0.5 if self.training else 0.0, True)
            return x * (1 if self.training else 10)

    module = nn.Sequential(Noisy(), nn.Identity(), Noisy())
    traced = trace(module)
    ones = torch.ones(1, 1000)
    assert torch.equal(traced.eval()(ones), 100 * ones)
    traced.train()
    module[2].eval()
    found = traced(ones)
    assert set(found.unique().tolist()) == {0.0, 20.0}


def test_what_hands_on_its_input_in_evaluation_is_one_node() -> None:
    traced = trace(nn.Sequential(nn.Conv2d(1, 1, 1), DropPath(0.5)))
    assert [node.name for node in traced.graph.nodes][1:-1] == ["_0", "_1"]
    assert traced.train()(torch.ones(64, 1, 1, 1)).unique().numel() == 2


def test_another_way_in_training_is_named() -> None:
    module = network("inception")
    with pytest.warns(TracingWarning) as caught:
        trace(module)
    [warning] = caught
    line = line_of(type(module.AuxLogits).forward, "F.adaptive_avg_pool2d")
    assert f"'AuxLogits' ({line}) is left out" in str(warning.message)
    assert "AuxLogits.conv" not in str(warning.message)
    assert warning.filename == __file__


def test_training_code_that_cannot_be_traced_is_named() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        if self.training and x.mean() > 0:
            x = x * 2
        return x + 1

    with pytest.warns(TracingWarning, match="code for training cannot be traced") as caught:
        trace(Of(forward))
    assert line_of(forward, "x.mean()") in str(caught[0].message)


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x
        return -x


class Looping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for row in x:
            x = x + row
        return x


class Numbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(int(x.mean()), -1)


def test_all_lines_that_cannot_be_traced_are_listed() -> None:
    module = nn.Sequential(Branching(), nn.Sequential(Looping(), nn.ReLU()), Branching(), Numbers())
    with pytest.raises(UnsupportedModelError) as caught:
        trace(module)
    text = str(caught.value)
    assert "at 3 places" in text
    assert f"'0', '2' at {line_of(Branching.forward, 'x.sum()')}: `if x.sum() > 0:`" in text
    assert f"'1.0' at {line_of(Looping.forward, 'for row')}: `for row in x:`" in text
    assert f"'3' at {line_of(Numbers.forward, 'int(')}: `return x.view(int(x.mean()), -1)`" in text
    assert "torch.fx.wrap" in text and "_TracedValue" not in text


@torch.fx.wrap
def padded_to_even(x: Tensor) -> Tensor:
    return F.pad(x, (0, 1)) if x.shape[-1] % 2 else x


def test_marked_functions_are_kept_whole() -> None:
    traced = trace(Of(lambda _, x: padded_to_even(x) + 1))
    assert [node.name for node in traced.graph.nodes] == ["x", "padded_to_even", "add", "output"]
    assert traced(torch.ones(1, 3)).tolist() == [[2, 2, 2, 1]] and traced(torch.ones(1, 4)).shape == (1, 4)


def test_a_traced_module_can_be_traced_again() -> None:
    module = network("functional")
    first = trace(module)
    second = trace(first)
    assert len(first.graph.nodes) == len(second.graph.nodes)
    assert list(second.state_dict()) == list(module.state_dict())
    x = example("functional")[0]
    assert torch.equal(second.eval()(x), first.eval()(x)) and not torch.equal(
        second.train()(x), first.eval()(x)
    )


def test_a_module_that_is_no_part_of_the_model() -> None:
    hidden = [nn.Conv2d(4, 4, 1)]
    with pytest.raises(UnsupportedModelError, match=r"nn\.ModuleList"):
        trace(Of(lambda self, x: hidden[0](x)))


def test_parts_of_a_known_number_may_be_looped_over() -> None:
    def forward(_: Any, x: Tensor) -> Tensor:
        parts = [part * i for i, part in enumerate(x.chunk(2, dim=1))]
        parts += [part + 1 for part in torch.split(x, [1, 3], dim=1)]
        return torch.cat(parts, 1)

    same_as_the_module(Of(forward), training=False)


def decomposed(name: str, function: Callable[[Any, Tensor], Tensor], *nodes: str) -> Any:
    return pytest.param(function, nodes, id=name)


@pytest.mark.parametrize(
    ("function", "nodes"),
    [
        decomposed("silu", lambda _, x: F.silu(x), "silu_sigmoid", "silu"),
        decomposed("silu module", lambda self, x: self.swish(x), "swish_sigmoid", "swish"),
        decomposed("mish", lambda _, x: F.mish(x), "mish_softplus", "mish_tanh", "mish"),
        decomposed("gelu", lambda _, x: F.gelu(x), "gelu_mul", "gelu_erf", "gelu_add", "gelu_mul_1", "gelu"),
        decomposed("glu", lambda _, x: F.glu(x, 1), "glu_chunk", "glu_getitem",
            "glu_getitem_1", "glu_sigmoid", "glu"),
        decomposed("mean", lambda _, x: x.mean([2, 3]), "mean_mean", "mean_squeeze", "mean"),
        decomposed("mean from behind", lambda _, x: torch.mean(x, (-1, -2)),
            "mean_mean", "mean_squeeze", "mean"),
        decomposed("mean that keeps axes", lambda _, x: x.mean((2, 3), keepdim=True), "mean"),
        decomposed("slices", lambda _, x: x[:, 1:, ::2, 1:-1],
            "getitem_getitem", "getitem_getitem_1", "getitem"),
        decomposed("slices from behind", lambda _, x: x[..., 1:, 2], "getitem_getitem", "getitem"),
        decomposed("a row", lambda _, x: x[:, 1, 2:], "getitem_getitem", "getitem"),
        decomposed("one slice", lambda _, x: x[:, 1:], "getitem"),
        decomposed("product with a parameter", lambda self, x: x @ self.matrix,
            "matrix", "matmul_t", "matmul"),
        decomposed("product with a transposed parameter", lambda self, x: x @ self.matrix.t().transpose(0, 1),
            "matrix", "t", "transpose", "matmul_t", "matmul"),
        decomposed("product with another matrix", lambda self, x: x @ self.norm.weight.expand(6, 4),
            "norm_weight", "expand", "matmul"),
        decomposed("product of two inputs", lambda _, x: torch.matmul(x, x), "matmul"),
        decomposed("product added", lambda self, x: torch.addcmul(x, self.norm.weight.view(4, 1, 1), x.abs()),
            "norm_weight", "view", "abs_1", "addcmul_mul", "addcmul"),
        decomposed("product added with a factor", lambda _, x: x.addcmul(x, tensor2=x, value=0.5),
            "addcmul_mul", "addcmul_mul_1", "addcmul"),
        decomposed("roll", lambda _, x: torch.roll(x, 2, 3), "roll_behind", "roll_before", "roll"),
        decomposed("roll backwards", lambda _, x: x.roll(-8, 2), "roll_behind", "roll_before", "roll"),
        decomposed("roll of two axes", lambda _, x: torch.roll(x, (1, 0, -2), (-1, 1, 2)),
            "roll_behind", "roll_before", "roll_cat", "roll_behind_1", "roll_before_1", "roll"),
        decomposed("roll of nothing", lambda _, x: x.roll(0, 2), "roll"),
        decomposed("roll of all values", lambda _, x: torch.roll(x, 3), "roll"),
        decomposed("group norm", lambda _, x: F.group_norm(x, 2), "group_norm"),
        decomposed("group norm module", lambda self, x: self.norm(x), "norm_weight", "norm_bias",
            "norm_group_norm", "norm_scaled_channels", "norm"),
        decomposed("group norm with factors", lambda self, x: F.group_norm(x, 4, self.norm.weight, eps=1e-3),
            "norm_weight", "group_norm_group_norm", "group_norm"),
    ],
)  # fmt: skip
def test_functions_of_several_operators_are_several_nodes(
    function: Callable[[Any, Tensor], Tensor], nodes: tuple[str, ...]
) -> None:
    module = Of(function, swish=nn.SiLU(), norm=nn.GroupNorm(2, 4))
    module.register_parameter("matrix", nn.Parameter(torch.randn(6, 5)))
    nn.init.normal_(module.get_parameter("norm.weight"))
    nn.init.normal_(module.get_parameter("norm.bias"))
    traced = trace(module)
    assert tuple(node.name for node in traced.graph.nodes)[1:-1] == nodes
    x = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(traced(x), module(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.float32, torch.bool])
def test_masks_of_attention(kind: torch.dtype) -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x + 1, x * 2, attn_mask=self.mask)

    module = Of(forward)
    rng = torch.Generator().manual_seed(4)
    mask = torch.randn(6, 6, generator=rng)
    module.register_buffer("mask", mask if kind == torch.float32 else (mask > 0) | torch.eye(6).bool())
    traced, x = trace(module), torch.randn(2, 4, 6, 6, generator=rng)
    assert "scaled_dot_product_attention_masked" in {node.name for node in traced.graph.nodes}
    assert torch.allclose(traced(x), module(x), rtol=1e-5, atol=1e-6)


def test_the_tanh_form_of_gelu() -> None:
    module = nn.Sequential(nn.GELU("tanh"))
    x = torch.linspace(-5, 5, 101)[None]
    assert torch.allclose(trace(module)(x), module(x), atol=1e-6)


def test_layers_with_another_name_stay_layers() -> None:
    class Frozen(nn.BatchNorm2d):
        pass

    traced = trace(nn.Sequential(Frozen(3), nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 3, 1))))
    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]


def test_optional_inputs_stay_at_their_defaults() -> None:
    class Options(nn.Module):
        def forward(self, x: Tensor, mask: Tensor | None = None, scale: float = 2.0) -> Tensor:
            return x * scale if mask is None else x * mask

    x = torch.ones(2)
    assert torch.equal(trace(Options())(x), 2 * x)
    assert torch.equal(trace(Options(), inputs=2)(x, 3 * x), 3 * x)
    for count in (0, 4):
        with pytest.raises(UsageError, match="takes 1"):
            trace(Options(), inputs=count)


def test_any_number_of_inputs() -> None:
    class Sums(nn.Module):
        def forward(self, first: Tensor, *others: Tensor) -> Tensor:
            return first + sum(others)

    assert torch.equal(trace(Sums(), inputs=3)(*torch.arange(3.0)), torch.tensor(3.0))


def test_tensors_made_in_forward_are_held_by_the_graph_alone() -> None:
    def forward(_: Any, x: Tensor) -> Tensor:
        return x * torch.tensor([1.0, 2.0])

    module = Of(forward)
    traced = trace(module)
    assert torch.equal(traced(torch.ones(2)), torch.tensor([1.0, 2.0]))
    assert not hasattr(module, "_tensor_constant0") and not traced.state_dict()


def test_a_forward_of_the_object_itself_is_what_is_traced() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    module[1].forward = lambda x: x * 3  # type: ignore[method-assign]
    whole = nn.Identity()
    whole.forward = lambda x: x + 1  # type: ignore[method-assign]
    x = torch.tensor([[1.0, -2.0]])
    assert torch.equal(trace(module)(x), 3 * module[0](x))
    assert torch.equal(trace(whole)(x), x + 1)


def test_random_numbers_that_are_no_function_of_inputs_are_refused() -> None:
    before = torch.get_rng_state()
    with pytest.raises(UnsupportedModelError, match="draws random numbers"):
        trace(Of(lambda _, x: x + torch.randn(3)))
    assert torch.equal(torch.get_rng_state(), before)
    traced = trace(Of(lambda _, x: x + torch.randn_like(x)))
    assert not torch.equal(traced(torch.zeros(3)), traced(torch.zeros(3)))


def test_wrapped_modules_are_unwrapped() -> None:
    module = nn.Sequential(nn.Linear(2, 2))
    assert list(trace(nn.DataParallel(module)).state_dict()) == ["0.weight", "0.bias"]


def test_what_is_no_module_of_python_is_refused() -> None:
    with pytest.raises(UsageError, match="of type str"):
        trace("model.pt")  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
    with pytest.raises(UnsupportedModelError, match="TorchScript"):
        trace(script)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        lazy = nn.LazyLinear(3)
    with pytest.raises(UnsupportedModelError, match="'weight' has no shape yet"):
        trace(lazy)
    with pytest.raises(UnsupportedModelError, match="'graph'"):
        trace(Of(lambda self, x: self.graph(x), graph=nn.ReLU()))
