"""``export`` to ONNX files of plans: what is in them, without the provider that runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import calib8
import stream_nets
from calib8.analysis.inspect import inspect_model
from calib8.engine.plan_file import load_plan
from calib8.errors import ModelError, UnsupportedModelError, UsageError
from calib8.exporting.epcontext.split import FloatPart, split
from calib8.model.metadata import read_metadata
from calib8.model.runtime import open_session
from calib8.program.program import Program
from float_between import with_floats


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {one.name: helper.get_attribute_value(one) for one in node.attribute}


def run_plan(content: bytes, folder: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What a plan in a node gives, in our own session."""
    (folder / "taken.c8").write_bytes(content)
    return calib8.InferenceSession(folder / "taken.c8").run(None, feeds)


def test_one_node_with_the_plan_of_the_model(digits_int8: Path, tmp_path: Path) -> None:
    told = calib8.export(digits_int8, tmp_path / "plans.onnx", "epcontext")
    proto = onnx.load(tmp_path / "plans.onnx")
    onnx.checker.check_model(proto)
    [node], found = proto.graph.node, told.epcontext
    assert (node.op_type, node.domain, node.name) == ("EPContext", "com.microsoft", "calib8")
    said = attributes(node)
    plan = said.pop("ep_cache_context")
    assert said == {
        "main_context": 1,
        "embed_mode": 1,
        "source": b"calib8",
        "partition_name": b"calib8",
        "notes": b"free batch",
    }
    model = onnx.load(digits_int8)
    assert [*proto.graph.input] == [*model.graph.input] and [*proto.graph.output] == [*model.graph.output]
    assert read_metadata(tmp_path / "plans.onnx") == read_metadata(digits_int8) != {}
    assert found is not None and found.free_batch and found.float_nodes == found.files == found.notes == ()
    assert (found.plans, found.plan_bytes) == (("calib8",), len(plan))
    image = np.random.default_rng(0).normal(size=(1, 1, 16, 16)).astype(np.float32)
    feeds = {model.graph.input[0].name: image}
    [wanted] = calib8.InferenceSession(digits_int8).run(None, feeds)
    [given] = run_plan(plan, tmp_path, feeds)
    assert given.tobytes() == wanted.tobytes()
    assert "instructions" in repr(told) and sum(told.operators.values()) == sum(found.instructions.values())


def test_what_runs_there_alone_says_so(digits_int8: Path, tmp_path: Path) -> None:
    """Other commands look at it with ONNX Runtime's own provider, which has no kernel for it."""
    calib8.export(digits_int8, tmp_path / "plans.onnx", "epcontext")
    with pytest.raises(ModelError, match="Open it with the provider of its plans, or give the model"):
        open_session(tmp_path / "plans.onnx")
    [warning] = inspect_model(tmp_path / "plans.onnx").warnings
    assert "Open it with the provider of its plans" in warning


def test_a_file_of_plans_is_no_model_for_a_session(digits_int8: Path, tmp_path: Path) -> None:
    calib8.export(digits_int8, tmp_path / "plans.onnx", "epcontext")
    with pytest.raises(UnsupportedModelError, match="holds plans for execution providers of ONNX Runtime"):
        calib8.InferenceSession(tmp_path / "plans.onnx")


def test_plans_in_files_and_the_same_bytes_again(digits_int8: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        told = calib8.export(digits_int8, tmp_path / name / "plans.onnx", "epcontext", plan_beside=True)
        assert told.epcontext is not None and told.epcontext.files == (tmp_path / name / "plans.c8",)
    for file in ("plans.onnx", "plans.c8"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["plans.c8", "plans.onnx"]
    said = attributes(onnx.load(tmp_path / "a" / "plans.onnx").graph.node[0])
    assert (said["embed_mode"], said["ep_cache_context"]) == (0, b"plans.c8")
    assert load_plan(tmp_path / "a" / "plans.c8").isa == ""  # nothing of this machine


def test_parts_in_float_are_nodes_between_plans(tmp_path: Path) -> None:
    onnx.save(with_floats(), tmp_path / "int8.onnx")
    told = calib8.export(tmp_path / "int8.onnx", tmp_path / "plans.onnx", "epcontext")
    proto = onnx.load(tmp_path / "plans.onnx")
    onnx.checker.check_model(proto)
    nodes, found = proto.graph.node, told.epcontext
    assert found is not None and found.plans == ("calib8_0", "calib8_2") and found.free_batch
    assert set(found.float_nodes) == {"sum", "curve"}
    assert [node.op_type for node in nodes if node.domain == ""] == ["CumSum", "Erf"]
    values = {value.name for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info)}
    assert values >= {
        name for node in nodes if node.op_type == "EPContext" for name in (*node.input, *node.output)
    }
    between = {node.output[0] for node in nodes if node.op_type == "EPContext"}
    first_sizes = {
        value.name: value.type.tensor_type.shape.dim[0].dim_param
        for value in (*proto.graph.value_info, *proto.graph.output)
        if value.name in between
    }
    assert first_sizes == dict.fromkeys(between, "N")

    random = np.random.default_rng(0)
    x = random.normal(size=(1, 4, 8, 8)).astype(np.float32)
    wanted = calib8.InferenceSession(tmp_path / "int8.onnx").run(["z_out", "y"], {"x": x})
    first, second = (node for node in nodes if node.op_type == "EPContext")
    [middle] = run_plan(attributes(first)["ep_cache_context"], tmp_path, {"x": x})
    import onnxruntime

    floats = onnx.utils.Extractor(proto).extract_model([first.output[0]], ["z_out"])
    between = onnxruntime.InferenceSession(floats.SerializeToString(), providers=["CPUExecutionProvider"])
    [curve] = between.run(None, {first.output[0]: middle})
    fed = {second.input[0]: curve}
    [last] = run_plan(attributes(second)["ep_cache_context"], tmp_path, fed)
    assert [curve.tobytes(), last.tobytes()] == [array.tobytes() for array in wanted]


def test_names_of_files_of_several_plans(tmp_path: Path) -> None:
    onnx.save(with_floats(), tmp_path / "int8.onnx")
    told = calib8.export(tmp_path / "int8.onnx", tmp_path / "net.onnx", "epcontext", plan_beside=True)
    assert told.epcontext is not None
    assert [file.name for file in told.epcontext.files] == ["net.0.c8", "net.1.c8"]
    assert all(file.is_file() for file in told.epcontext.files)


def test_parts_read_nothing_that_comes_later(tmp_path: Path) -> None:
    program = calib8.InferenceSession(with_floats(), shapes={"x": (1, 4, 8, 8)}).program
    parts, known = split(program).parts, {port.name for port in program.inputs}
    for part in parts:
        read = part.inputs if isinstance(part, FloatPart) else [port.name for port in part.inputs]
        made = part.outputs if isinstance(part, FloatPart) else [port.name for port in part.outputs]
        assert set(read) <= known
        assert not set(made) & known
        known.update(made)
    assert {port.name for port in program.outputs} <= known
    assert sum(isinstance(part, Program) for part in parts) == 2


def test_states_become_inputs_and_outputs(tmp_path: Path) -> None:
    (tmp_path / "int8.onnx").write_bytes(stream_nets.quantized())
    told = calib8.export(tmp_path / "int8.onnx", tmp_path / "plans.onnx", "epcontext")
    graph = onnx.load(tmp_path / "plans.onnx").graph
    assert [value.name for value in graph.input] == ["x", "state"]
    assert [value.name for value in graph.output] == ["y", "stateN"]
    assert told.notes == (
        "states are inputs and outputs of the file: feed 'state' what 'stateN' was in the run before, "
        "0 at first",
    )


def mixed_batch() -> onnx.ModelProto:
    """The mean over all axes, the batch too, added to every sample."""
    model = with_floats()
    del model.graph.node[:], model.graph.output[1:]
    model.graph.node.extend([
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["x_q"]),
        helper.make_node("DequantizeLinear", ["x_q", "s", "z"], ["x_r"]),
        helper.make_node("Softmax", ["x_r"], ["soft"], axis=0, name="soft"),
        helper.make_node("QuantizeLinear", ["soft", "s", "z"], ["soft_q"]),
        helper.make_node("DequantizeLinear", ["soft_q", "s", "z"], ["y"]),
    ])  # fmt: skip
    return model


@pytest.mark.parametrize("shapes", [None, {"x": (2, 4, 8, 8)}])
def test_a_batch_that_is_computed_as_a_whole(shapes: dict[str, Any] | None, tmp_path: Path) -> None:
    onnx.save(mixed_batch(), tmp_path / "int8.onnx")
    told = calib8.export(tmp_path / "int8.onnx", tmp_path / "plans.onnx", "epcontext", shapes=shapes)
    proto = onnx.load(tmp_path / "plans.onnx")
    assert told.epcontext is not None and not told.epcontext.free_batch
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value == (1 if shapes is None else 2)
    assert all("notes" not in attributes(node) for node in proto.graph.node)
    if shapes is None:
        assert told.notes[0].startswith("the batch is fixed at 1: ")
    else:
        assert told.notes == ()


def test_options_of_plans_go_with_no_other_form(digits_int8: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="plan_beside: does not go with to='qoperator'"):
        calib8.export(digits_int8, tmp_path / "m.onnx", "qoperator", plan_beside=True)
    with pytest.raises(UsageError, match="inputs: does not go with to='epcontext'"):
        calib8.export(digits_int8, tmp_path / "m.onnx", "epcontext", inputs="int8")
    assert list(tmp_path.iterdir()) == []
