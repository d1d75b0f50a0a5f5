"""ONNX models as Tengine models: there and back, every operator against NumPy; the files of its converter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from calib8.delivery.exporting import export
from calib8.errors import UnsupportedModelError
from calib8.exporting.tmfile.operators import TRANSLATE
from calib8.exporting.tmfile.quantized import WITHOUT_INT8, float_graph
from calib8.model.from_tmfile.translate import float_model
from calib8.model.load import load_model
from calib8.model.save import save_model
from calib8.passes.converter_names import converter_names
from calib8.program.lower_tmfile.operators import LOWER
from calib8.tmfile.graph import CONST, Graph, Tensor
from calib8.tmfile.kinds import LAYERS
from calib8.tmfile.read import parse, read_tmfile
from calib8.tmfile.write import serialize
from tmfile_cases import IMAGE, Array, cases, run
from tmfile_nets import CONV, Net, fields

BETWEEN_LAYERS = {"Gelu"}
"""Cases that several ONNX nodes spell: those are found between layers."""


@pytest.mark.parametrize("name", [name for name in cases() if name not in BETWEEN_LAYERS])
def test_operators_there_and_back_compute_the_same(name: str) -> None:
    graph, x, expected = cases()[name]
    written = float_graph(float_model(graph, "net"), "net")
    found = run(float_model(parse(serialize(written)), "net"), x)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def described(graph: Graph) -> dict[str, Any]:
    """Nodes and tensors by name, without what the converter leaves undefined or no reader looks at."""
    unread = {"18"}  # the sizes of a Reshape, which are options too
    names = [tensor.name for tensor in graph.tensors]
    told: dict[str, Any] = {}
    for node in graph.nodes:
        options = {key: value for key, value in node.options.items() if key != "caffe_flavor"}
        if node.op == "Reshape":
            options.pop("shape")
        inputs = [names[place] for place in node.inputs if names[place] not in unread]
        told[node.name] = (node.op, inputs, [names[place] for place in node.outputs], options)
    told |= {f"tensor {name}": tensor for name, tensor in zip(names, fields(graph)[0], strict=True)}
    return {key: value for key, value in told.items() if key.removeprefix("tensor ") not in unread}


@pytest.mark.parametrize("name", ["mnist", "net_a", "net_b", "net_c"])
def test_files_are_those_of_tengines_converter(shared_data: Path, name: str) -> None:
    folder = shared_data / "tengine"
    paths = (
        ("mnist.onnx", "mnist_fp32.tmfile")
        if name == "mnist"
        else (f"nets/{name}.onnx", f"nets/{name}.tmfile")
    )
    model, wanted = load_model(folder / paths[0]), read_tmfile(folder / paths[1])
    found = float_graph(model, name, names=converter_names(model))
    assert list(described(found).items()) == list(described(wanted).items())
    assert found.made_from == wanted.made_from


@pytest.mark.parametrize("name", ["mnist_fp32", "nets/net_a", "nets/net_b", "nets/net_c"])
def test_a_tmfile_comes_back_from_onnx_as_it_was(shared_data: Path, name: str) -> None:
    graph = read_tmfile(shared_data / "tengine" / f"{name}.tmfile")
    again = float_graph(float_model(graph, name), name)
    first, second = layers_of(graph), layers_of(again)
    assert len(first) > 1
    assert first == second


def layers_of(graph: Graph) -> list[Any]:
    """Every node that computes: operator, what it reads (constants, or numbers of nodes), shapes, options."""
    made = {
        place: number for number, node in enumerate(graph.nodes) if node.op != CONST for place in node.outputs
    }
    numbers = {number: order for order, number in enumerate(sorted(set(made.values())))}
    told = []
    for node in graph.nodes:
        if node.op == CONST:
            continue
        read = [
            numbers[made[place]] if place in made else fields_of(graph, place)
            for place in node.inputs
            if graph.tensors[place].dtype == "float32"
        ]
        out = [graph.tensors[place].shape for place in node.outputs]
        options = {key: value for key, value in node.options.items() if key not in ("caffe_flavor", "shape")}
        told.append((node.op, read, out, options))
    return told


def fields_of(graph: Graph, place: int) -> tuple[str, bytes]:
    data = graph.tensors[place].data
    assert data is not None
    return graph.tensors[place].name, data.tobytes()


def model_of(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int], out: Sequence[int] | None, **constants: Array
) -> ir.Model:
    """x → y."""
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def node(op: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, ["x", *inputs], ["y"], op, **attributes)


AXES = np.array([2, 3])
OTHERS = {
    "AveragePool": model_of(
        [node("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)], IMAGE.shape, None
    ),
    "AveragePool that counts padding": model_of(
        [node("AveragePool", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)], IMAGE.shape, None
    ),
    "Gemm with factors": model_of(
        [node("Gemm", "w", "b", alpha=0.5, beta=2.0)], (2, 6), None,
        w=np.arange(18, dtype=np.float32).reshape(6, 3), b=np.ones(1, np.float32),
    ),
    "GlobalMaxPool": model_of([node("GlobalMaxPool")], IMAGE.shape, None),
    "MatMul": model_of([node("MatMul", "w")], (2, 6), None, w=np.arange(18, dtype=np.float32).reshape(6, 3)),
    "MaxPool that rounds up": model_of(
        [node("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)], IMAGE.shape, None
    ),
    "Mul with the smaller first": model_of(
        [helper.make_node("Mul", ["c", "x"], ["y"])], IMAGE.shape, None, c=np.float32([[[[2]]]]),
    ),
    "Pow": model_of([node("Pow", "two")], IMAGE.shape, None, two=np.float32(2)),
    "PRelu with one slope": model_of([node("PRelu", "s")], IMAGE.shape, None, s=np.float32([0.1])),
    "ReduceMin": model_of([node("ReduceMin", axes=[1], keepdims=0)], IMAGE.shape, None),
    "Resize": model_of(
        [node("Resize", "", "", "sizes", mode="linear")], IMAGE.shape, None, sizes=np.array([1, 4, 9, 7])
    ),
    "Slice of two axes": model_of(
        [node("Slice", "b", "e", "a", "s")], IMAGE.shape, None,
        b=np.array([0, -4]), e=np.array([5, 2**40]), a=AXES, s=np.array([2, 1]),
    ),
    "Slice of all": model_of(
        [node("Slice", "b", "e"), helper.make_node("Relu", ["y"], ["z"])], IMAGE.shape, None,
        b=np.array([0]), e=np.array([9]),
    ),
    "Pad of channels": model_of([node("Pad", "p")], IMAGE.shape, None, p=np.array([0, 2, 0, 0, 0, 1, 0, 0])),
    "Slice that thins": model_of(
        [node("Slice", "b", "e", "a", "s")], IMAGE.shape, None,
        b=np.array([0, 0]), e=np.array([2**40, 99]), a=AXES, s=np.array([2, 3]),
    ),
    "DepthToSpace of one channel": model_of([node("DepthToSpace", blocksize=2)], IMAGE.shape, None),
    "DepthToSpace of columns, rows and channels": model_of(
        [helper.make_node("Concat", ["x", "x", "x"], ["three"], axis=1),
         helper.make_node("DepthToSpace", ["three"], ["y"], blocksize=2, mode="CRD")],
        IMAGE.shape, None,
    ),
    "Split": model_of(
        [helper.make_node("Split", ["x", "parts"], ["a", "b"], axis=1),
         helper.make_node("Concat", ["b", "a"], ["y"], axis=1)],
        IMAGE.shape, None, parts=np.array([1, 3]),
    ),
    "Sub of channels": model_of(
        [node("Sub", "c")], IMAGE.shape, None, c=np.arange(4, dtype=np.float32).reshape(4, 1, 1)
    ),
    "Unsqueeze and Squeeze": model_of(
        [helper.make_node("Unsqueeze", ["x", "a"], ["u"]), helper.make_node("Squeeze", ["u", "a"], ["y"])],
        IMAGE.shape, None, a=np.array([0]),
    ),
    "Transpose": model_of([node("Transpose")], IMAGE.shape, None),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_forms_of_onnx_operators(name: str) -> None:
    model = OTHERS[name]
    shape = tuple(model.graph.inputs[0].shape.numpy())
    x = np.random.default_rng(5).normal(size=shape).astype(np.float32)
    found = run(float_model(float_graph(model, "net"), "net"), x)
    np.testing.assert_allclose(found, run(model, x), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("name", "op"), [("Pad of channels", "Concat"), ("Slice that thins", "Pooling")])
def test_moves_for_which_tengine_has_int8_kernels(name: str, op: str) -> None:
    ops = {step.op for step in float_graph(OTHERS[name], "net").nodes}
    assert ops <= {CONST, "InputOp", op}


REFUSED = {
    "takes pixels that lie apart": [node("MaxPool", kernel_shape=[2, 2], dilations=[2, 2])],
    "Tengine has no operator for it": [node("Erf")],
    "do not meet": [node("Add", "row")],
    "goes in steps of -1": [node("Slice", "b", "e", "a", "s")],
    "mode is cubic": [node("Resize", "", "", "sizes", mode="cubic")],
    "its mode is DCR, and Tengine computes CRD": [
        helper.make_node("Concat", ["x", "x"], ["both"], axis=1),
        helper.make_node("DepthToSpace", ["both"], ["y"], blocksize=2),
    ],
    "cuts pixels off": [node("Pad", "pads")],
}
CONSTANTS = {
    "row": np.ones((1, 6), np.float32), "b": np.array([-1]), "e": np.array([-(2**40)]), "a": np.array([2]),
    "s": np.array([-1]), "sizes": np.array([1, 4, 9, 7]), "pads": np.array([0, 0, -1, 0, 0, 0, 0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_what_tengines_kernels_do_not_compute_is_refused(reason: str) -> None:
    model = model_of(REFUSED[reason], IMAGE.shape, None, **CONSTANTS)
    with pytest.raises(UnsupportedModelError, match=reason) as caught:
        float_graph(model, "net.onnx")
    assert str(caught.value).startswith("net.onnx: 1 node has no form in Tengine: ")


def test_pixels_become_channels_by_a_convolution(tmp_path: Path) -> None:
    """Tengine's kernel of SpaceToDepth copies what it reads as it lies."""
    model = model_of([node("SpaceToDepth", blocksize=2)], (1, 3, 4, 6), None)
    graph = float_graph(model, "net")
    assert [step.op for step in graph.nodes if step.op not in (CONST, "InputOp")] == ["Convolution"]
    x = np.random.default_rng(3).normal(size=(1, 3, 4, 6)).astype(np.float32)
    np.testing.assert_array_equal(run(float_model(graph, "net"), x), run(model, x))
    save_model(model, tmp_path / "net.onnx")
    assert export(tmp_path / "net.onnx", tmp_path / "net.tmfile", "tmfile").notes == ()


def test_all_nodes_without_a_form_are_listed() -> None:
    nodes = [
        helper.make_node("Erf", ["x"], ["a"], "e"),
        helper.make_node("Relu", ["a"], ["b"], "r"),
        helper.make_node("Sinh", ["x"], ["c"], "n"),
        helper.make_node("Add", ["b", "c"], ["y"], "s"),
    ]
    with pytest.raises(UnsupportedModelError, match="2 nodes have no form") as caught:
        float_graph(model_of(nodes, IMAGE.shape, None), "net")
    assert "'e' (Erf)" in str(caught.value)
    assert "'n' (Sinh)" in str(caught.value)
    assert "Relu" not in str(caught.value)


UNARY = (
    "Abs",
    "Acos",
    "Asin",
    "Atan",
    "Ceil",
    "Cos",
    "Exp",
    "Floor",
    "Log",
    "Neg",
    "Reciprocal",
    "Sin",
    "Sqrt",
    "Tan",
)
"""Functions of |x| / 4, which lies where all of them are defined."""


@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_tensor(op: str) -> None:
    model = model_of([node(op)], IMAGE.shape, None)
    x = np.abs(IMAGE) / 4 + np.float32(0.01)
    found = run(float_model(float_graph(model, "net"), "net"), x)
    np.testing.assert_allclose(found, run(model, x), rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("ReduceSum", 0),
        ("ReduceMean", 1),
        ("ReduceSumSquare", 3),
        ("ReduceMax", 4),
        ("ReduceMin", 5),
        ("ReduceProd", 6),
        ("ReduceLogSum", 9),
        ("ReduceLogSumExp", 10),
    ],
)
def test_reductions_have_tengines_types(op: str, kind: int) -> None:
    axes = {"axes": [-1]} if op != "ReduceSum" else {}
    inputs, constants = (("a",), {"a": np.array([-1])}) if op == "ReduceSum" else ((), {})
    model = model_of([node(op, *inputs, **axes)], IMAGE.shape, None, **constants)
    graph, x = float_graph(model, "net"), np.abs(IMAGE)
    assert graph.nodes[-1].options == {
        "dim_0": 3, "dim_1": -2, "dim_2": -2, "dim_3": -2, "type": kind, "keepdim": 1,
    }  # fmt: skip
    np.testing.assert_allclose(run(float_model(graph, "net"), x), run(model, x), rtol=1e-5)


def test_gelu_and_mish_between_layers_are_one_operator() -> None:
    rng = np.random.default_rng(1)
    weight = rng.normal(size=(4, 4, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "first"),
        helper.make_node("Div", ["c", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["f"]),
        helper.make_node("Mul", ["c", "f"], ["g"]),
        helper.make_node("Mul", ["g", "half"], ["h"]),
        helper.make_node("Conv", ["h", "w"], ["i"], "second"),
        helper.make_node("Softplus", ["i"], ["j"]),
        helper.make_node("Tanh", ["j"], ["k"]),
        helper.make_node("Mul", ["i", "k"], ["l"]),
        helper.make_node("Conv", ["l", "w"], ["y"], "third"),
    ]
    numbers = {"root": np.sqrt(2), "one": 1.0, "half": 0.5}
    model = model_of(nodes, IMAGE.shape, None, w=weight, **{k: np.float32(v) for k, v in numbers.items()})
    graph = float_graph(model, "net")
    ops = [step.op for step in graph.nodes if step.op not in (CONST, "InputOp")]
    assert ops == ["Convolution", "Gelu", "Convolution", "Mish", "Convolution"]
    np.testing.assert_allclose(run(float_model(graph, "net"), IMAGE), run(model, IMAGE), rtol=1e-4, atol=1e-4)


def test_every_operator_is_written_by_some_test() -> None:
    tried = {step.op_type for graph, _, _ in cases().values() for step in float_model(graph, "net").graph}
    tried |= {step.op_type for model in OTHERS.values() for step in model.graph} | {*UNARY}
    elsewhere = {"Conv", "ConvTranspose", "Dropout", "Mish", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd",
                 "ReduceSumSquare"}  # fmt: skip
    assert set(TRANSLATE) - tried - elsewhere == set()


def test_every_operator_has_an_int8_kernel_in_tengine_or_is_named_as_one_without() -> None:
    models = [
        float_model(graph, "net") for name, (graph, _, _) in cases().items() if name not in BETWEEN_LAYERS
    ]
    written = {step.op for model in [*models, *OTHERS.values()] for step in float_graph(model, "net").nodes}
    written |= LAYERS
    assert written - set(LOWER) - WITHOUT_INT8 == {CONST, "InputOp"}
    assert not set(LOWER) & WITHOUT_INT8


def test_layers_of_a_tmfile_keep_the_names_of_what_is_computed_with_them() -> None:
    """ONNX has two nodes and two tensors in their place; a table for the file has one name for both."""
    net = Net()
    w = net.const("w", np.random.default_rng(5).normal(size=(4, 3, 3, 3)).astype(np.float32))
    net.add(Tensor("11", (1, 4, 8, 8)), "Convolution", (net.input("image", (1, 3, 8, 8)), w), **CONV)
    before = net.graph()
    after = float_graph(float_model(before, "net"), "net")
    assert layers_of(after) == layers_of(before)
    assert [step.name for step in after.nodes][-1] == [step.name for step in before.nodes][-1]
    assert [after.tensors[place].name for place in after.output_tensors()] == ["11"]
