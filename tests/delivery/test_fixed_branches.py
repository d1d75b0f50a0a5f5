"""Quantized models whose branches an input chooses: with --fix the chosen one is compiled and exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, compose, helper, numpy_helper

import calib8
from calib8.errors import UnsupportedModelError
from calib8.model.load import load_model
from calib8.scheme import target_scheme
from small_models import onnx_model, run
from small_nets import IMAGE, Net, quantized

RATES = (16000, 8000)
X = np.random.default_rng(0).normal(size=IMAGE).astype(np.float32)


def int8(channels: int) -> onnx.ModelProto:
    """Two layers in QDQ form, and sums of the image at the end."""
    net = Net(shape=IMAGE)
    y = net.conv(net.op("Relu", net.conv("x", 4, channels)), channels, 3)
    return quantized(net.model(net.op("GlobalAveragePool", y)), target_scheme("onnxruntime"))


BRANCHES = (int8(8), int8(5))


def branch(proto: onnx.ModelProto, name: str) -> onnx.GraphProto:
    """The graph as that of an If, which reads ``x`` from outside."""
    own = compose.add_prefix_graph(proto.graph, f"{name}_")
    given = helper.make_node("Identity", ["x"], [own.input[0].name])
    return helper.make_graph([given, *own.node], name, [], list(own.output), list(own.initializer))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x, rate → the first of ``BRANCHES`` at 16000, else the second."""
    graphs = dict(zip(("then_branch", "else_branch"), map(branch, BRANCHES, "ab"), strict=True))
    nodes = [
        helper.make_node("Equal", ["rate", "known"], ["same"]),
        helper.make_node("If", ["same"], ["y"], name="choose", **graphs),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, IMAGE),
        helper.make_tensor_value_info("rate", TensorProto.INT64, []),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 1, 1])
    known = numpy_helper.from_array(np.array(RATES[0]), "known")
    graph = helper.make_graph(nodes, "both", inputs, [output], [known])
    path = tmp_path_factory.mktemp("branches") / "q.onnx"
    onnx.save(helper.make_model(graph, opset_imports=BRANCHES[0].opset_import, ir_version=8), path)
    return path


@pytest.mark.parametrize(("rate", "chosen"), list(zip(RATES, BRANCHES, strict=True)))
def test_plans_and_programs_are_those_of_the_branch(
    model: Path, rate: int, chosen: onnx.ModelProto, tmp_path: Path
) -> None:
    [wanted] = calib8.InferenceSession(chosen, threads=1).run(None, {"x": X})
    found = calib8.compile(model, tmp_path / "q.c8", fix={"rate": rate})
    assert found.program.float_reasons == {}
    calib8.export(model, tmp_path / "q.c8p", "program", fix={"rate": rate})
    for name in ("q.c8", "q.c8p"):
        session = calib8.InferenceSession(tmp_path / name, threads=1)
        assert [one.name for one in session.get_inputs()] == ["x"]
        assert np.array_equal(session.run(None, {"x": X})[0], wanted)


@pytest.mark.parametrize(("rate", "chosen"), list(zip(RATES, BRANCHES, strict=True)))
def test_operators_on_codes_are_those_of_the_branch(
    model: Path, rate: int, chosen: onnx.ModelProto, tmp_path: Path
) -> None:
    onnx.save(chosen, tmp_path / "branch.onnx")
    ways = (model, {"rate": rate}), (tmp_path / "branch.onnx", None)
    made = [
        calib8.export(path, tmp_path / f"{place}.onnx", "qoperator", fix=fix).qoperator
        for place, (path, fix) in enumerate(ways)
    ]
    assert made[0] is not None and made[1] is not None
    assert made[0].fused == made[1].fused and made[0].fused["QLinearConv"] == 2
    results = [run(onnx.load(tmp_path / f"{place}.onnx"), {"x": X})[0] for place in range(2)]
    assert np.array_equal(*results)


def test_without_a_choice_the_inputs_that_make_it_are_named(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="If 'choose'; decided by the input 'rate'"):
        calib8.compile(model, tmp_path / "q.c8")
    with pytest.raises(UnsupportedModelError, match=r"fix=\{'rate': 'VALUE'\}"):
        calib8.export(model, tmp_path / "q.tflite", "tflite")
    assert list(tmp_path.iterdir()) == []


def test_nodes_that_a_branch_reads_may_stand_behind_it(tmp_path: Path) -> None:
    """ONNX Runtime's quantizer writes such files, and ONNX Runtime runs them."""
    body = """
        c = Equal(rate, k) a = Relu(x)
        y = If(c) <then_branch = yes () => (float[2,4] p) { p = Neg(a) },
                   else_branch = no () => (float[2,4] n) { n = Abs(a) }>
    """
    inputs = "float[2,4] x, int64 rate"
    proto = onnx_model(inputs, "float[2,4] y", body, {"k": np.array(16000)})
    wrong = onnx.ModelProto()
    wrong.CopyFrom(proto)
    del wrong.graph.node[:]
    wrong.graph.node.extend([proto.graph.node[place] for place in (0, 2, 1)])
    with pytest.raises(onnx.checker.ValidationError, match="topologically sorted"):
        onnx.checker.check_model(wrong)
    feeds = {"x": np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4), "rate": np.array(16000)}
    assert [node.op_type for node in load_model(wrong).graph][-1] == "If"
    assert np.array_equal(run(load_model(wrong), feeds)[0], run(proto, feeds)[0])
    assert [node.op_type for node in load_model(proto).graph] == ["Equal", "Relu", "If"]
