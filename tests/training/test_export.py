"""Exported models compute what the modules compute, and have the names of the traced graph."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from networks import NETWORKS, example, network
from torch import Tensor, fx, nn

from calib8.errors import ModelError, UnsupportedModelError, UsageError
from calib8.model.runtime import open_session
from calib8.modules.example_inputs import tensors_in
from calib8.modules.export import export_module, export_traced
from calib8.modules.tracing import TracingWarning, trace
from calib8.passes.place import calibration_tensors
from calib8.passes.prepare import prepare

WITH_TORCH_EXPORT = ["shufflenet", "two_towers"]
"""The slow exporter; what it does beside the other one shows here."""

CASES = [*((name, False) for name in NETWORKS), *((name, True) for name in WITH_TORCH_EXPORT)]


@cache
def exported(name: str, dynamo: bool) -> tuple[fx.GraphModule, onnx.ModelProto]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracingWarning)
        traced = trace(network(name).train())
    return traced, export_traced(traced, example(name), _dynamo=dynamo)


def run(model: onnx.ModelProto, inputs: tuple[Tensor, ...]) -> list[np.ndarray]:
    feeds = {value.name: each.numpy() for value, each in zip(model.graph.input, inputs, strict=True)}
    return open_session(model.SerializeToString()).run(feeds)


def same(actual: list[np.ndarray], expected: object) -> None:
    wanted = [value.detach().numpy() for value in tensors_in(expected)]
    assert len(actual) == len(wanted)
    for ours, theirs in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("name", "dynamo"), CASES)
def test_the_model_computes_what_the_module_evaluates_to(name: str, dynamo: bool) -> None:
    traced, model = exported(name, dynamo)
    onnx.checker.check_model(model, full_check=True)
    assert traced.training
    for value in model.graph.input:
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    for batch in (1, 3):
        inputs = example(name, batch=batch, seed=batch)
        same(run(model, inputs), network(name)(*inputs))


@pytest.mark.parametrize(("name", "dynamo"), CASES)
def test_names_lead_back_to_the_traced_graph(name: str, dynamo: bool) -> None:
    traced, model = exported(name, dynamo)
    nodes = {node.name: node for node in traced.graph.nodes}
    assert [value.name for value in model.graph.input] == [
        n for n, node in nodes.items() if node.op == "placeholder"
    ]
    made = [value for node in model.graph.node for value in node.output]
    assert all(value.split("/")[0] in nodes for value in made)
    assert [node.name for node in model.graph.node] == [node.output[0] for node in model.graph.node]
    layers = [n for n, node in nodes.items() if node.op == "call_module" and node.users]
    dropped = {n for n in layers if isinstance(traced.get_submodule(str(nodes[n].target)), nn.Dropout)}
    assert set(layers) - dropped - {"features_1_stochastic_depth", "features_2_stochastic_depth"} <= set(made)
    parameters = dict(traced.named_parameters())
    used = {value.name for value in model.graph.initializer}
    assert {n for n, value in parameters.items() if value.ndim == 4} <= used | {"AuxLogits.conv.conv.weight"}
    assert not any(node.doc_string or node.metadata_props for node in model.graph.node)


@pytest.mark.parametrize(("name", "dynamo"), CASES)
def test_every_tensor_with_codes_is_a_node(name: str, dynamo: bool) -> None:
    traced, model = exported(name, dynamo)
    sample = {value.name: each.numpy() for value, each in zip(model.graph.input, example(name), strict=True)}
    prepared = prepare(ir.from_proto(model), sample).model
    coded = calibration_tensors(prepared)
    inner = {tensor for tensor in coded if "/" in tensor}  # products of layers over tokens, parts of a chunk
    assert not inner or name == "transformer"
    assert {tensor.split("/")[0] for tensor in coded} <= {node.name for node in traced.graph.nodes}
    assert len(coded) >= 7


@pytest.mark.parametrize("name", WITH_TORCH_EXPORT)
def test_both_exporters_give_the_same_tensors_codes(name: str) -> None:
    found = []
    for dynamo in (False, True):
        _, model = exported(name, dynamo)
        sample = {
            value.name: each.numpy() for value, each in zip(model.graph.input, example(name), strict=True)
        }
        found.append(set(calibration_tensors(prepare(ir.from_proto(model), sample).model)))
    assert found[0] == found[1]


def test_outputs_are_called_as_their_nodes_however_they_are_nested() -> None:
    assert [value.name for value in exported("unet", False)[1].graph.output] == ["head", "relu"]
    assert [value.name for value in exported("two_towers", True)[1].graph.output] == ["fc", "relu", "sigmoid"]


def test_exporting_is_silent_and_leaves_the_module_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    module = network("shared").train()
    module.stem.eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = export_module(module, example("shared"))
        second = export_module(module, example("shared")[0][:1])
    assert not caught and capfd.readouterr() == ("", "")
    assert module.training and module.relu.training and not module.stem.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)


class Rows(nn.Module):
    """Takes batches of four only."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.reshape(4, 8))


@pytest.mark.parametrize("dynamo", [False, True])
def test_a_batch_that_the_module_fixes_is_fixed(dynamo: bool) -> None:
    module, x = Rows().eval(), torch.ones(4, 2, 4)
    model = export_traced(trace(module), x, _dynamo=dynamo)
    assert [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == [4, 2, 4]
    same(run(model, (x,)), module(x))


class SameNames(nn.Module):
    """Parameters that are called as nodes are, the input as an output, one result twice."""

    def __init__(self) -> None:
        super().__init__()
        self.add = nn.Parameter(torch.tensor([2.0]))
        self.relu = nn.Parameter(torch.tensor([3.0]))

    def forward(self, input: Tensor) -> dict[str, object]:
        y = F.relu(input + self.add) * self.relu
        return {"y": y, "x": input, "more": (y + 1, 7, None)}


@pytest.mark.parametrize("dynamo", [False, True])
def test_parameters_that_are_called_as_nodes(dynamo: bool) -> None:
    module, x = SameNames(), torch.arange(-3.0, 3.0)[:, None]
    model = export_traced(trace(module), x, _dynamo=dynamo)
    assert [value.name for value in model.graph.output] == ["mul", "input_1_output", "add_2"]
    same(run(model, (x,)), module(x))
    names = [value.name for value in model.graph.initializer] + [
        v for n in model.graph.node for v in n.output
    ]
    assert len(set(names)) == len(names)


class ByShape(nn.Module):
    """The way through the code depends on a size, which torch.export follows and tracing does not."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[2] % 2:
            x = F.pad(x, (0, 1, 0, 1))
        return self.conv(x)


def test_what_cannot_be_traced_is_exported_by_torch_where_it_can() -> None:
    module, x = ByShape().eval(), example("shared")[0][:, :, :7, :7]
    with pytest.raises(UnsupportedModelError, match=r"x\.shape\[2\] % 2"):
        trace(module)
    model = export_module(module, x)
    same(run(model, (x[:1],)), module(x[:1]))


class ByValue(ByShape):
    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) if x.mean() > 0 else x


def test_what_torch_cannot_export_either_is_told_by_its_line() -> None:
    with pytest.raises(UnsupportedModelError, match=r"return self\.conv\(x\) if x\.mean\(\) > 0 else x"):
        export_module(ByValue(), torch.ones(2, 3, 8, 8))


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, training=True)


def test_a_model_that_differs_from_the_module_is_an_error() -> None:
    with pytest.raises(ModelError, match="output 'dropout' by"):
        export_module(nn.Sequential(Random()), torch.ones(2, 100))


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ("image.png", "is of type str"),
        ({"x": torch.ones(1)}, "is of type dict"),
        ((), "is empty"),
        ((np.ones(3),), "number 0 is of type ndarray"),
        (torch.ones(2, 3, 32, 32, dtype=torch.float64), "number 0 is float64"),
        (torch.ones(0, 3, 32, 32), "an axis of size 0"),
        ((torch.ones(2, 3, 32, 32), torch.ones(2)), "takes 2 positional arguments but 3 were given"),
        (torch.ones(2, 5, 32, 32), r"refused by Shared \(float32\[2, 5, 32, 32\]: Given groups=1"),
        (torch.ones(2, 3, 32, 32, device="meta"), "lie on meta, the module lies on cpu"),
    ],
)
def test_example_inputs_that_the_module_does_not_take(inputs: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        export_module(network("shared"), inputs)


def test_traced_modules_check_the_number_of_inputs() -> None:
    with pytest.raises(UsageError, match="holds 1 tensors, the module takes 2"):
        export_traced(trace(network("two_towers")), torch.ones(2, 3, 32, 32))
    with pytest.raises(UsageError, match="refused by Shared"):
        export_traced(trace(network("shared")), torch.ones(2, 5, 32, 32))


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float64])
def test_only_float32_is_exported(precision: torch.dtype) -> None:
    module = network("shared").to(precision)
    with pytest.raises(UnsupportedModelError, match=r"'stem.weight' is .*float.*Call \.float\(\)"):
        export_module(module, example("shared"))


class Unknown(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.special.bessel_j0(x)


def test_what_torch_cannot_write_is_told() -> None:
    with pytest.raises(UnsupportedModelError, match=r"bessel_j0"):
        export_traced(trace(nn.Sequential(Unknown())), torch.ones(2, 2))
