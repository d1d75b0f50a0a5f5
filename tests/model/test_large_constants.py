"""Large files: their large constants are read apart, and the model is that of the ordinary reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from calib8.errors import ModelError
from calib8.model import large_constants
from calib8.model.large_constants import read_light
from calib8.model.load import load_model

LARGE = large_constants.LARGE_FILE // 4


def model_of(*constants: TensorProto, reads: int = 0) -> onnx.ModelProto:
    """x + the constant number ``reads``, all of them float32 or beside the point."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    node = helper.make_node("Add", ["x", constants[reads].name], ["y"])
    graph = helper.make_graph([node], "net", [x], [y], initializer=constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def large(name: str = "large", size: int = LARGE) -> TensorProto:
    values = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    return numpy_helper.from_array(values, name)


def saved(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def assert_same(path: Path) -> None:
    """What comes back is the model in the file, to the byte."""
    light, whole = read_light(path), onnx.load(path)
    assert light is not None
    assert ir.to_proto(light.model) == ir.to_proto(ir.from_proto(whole))
    assert len(light.checked) < path.stat().st_size // 2


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "int64"]
)
def test_every_type(dtype: str, tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 100, (9, 10_000)).astype(dtype)
    other = numpy_helper.from_array(values, "other")
    assert_same(saved(model_of(large(), other), tmp_path / "a.onnx"))


def test_bfloat16_small_constants_and_constants_without_raw_bytes(tmp_path: Path) -> None:
    half = helper.make_tensor("half", TensorProto.BFLOAT16, [50_000], bytes(100_000), raw=True)
    listed = helper.make_tensor("listed", TensorProto.FLOAT, [20_000], [1.5] * 20_000)
    small = numpy_helper.from_array(np.ones(7, np.float32), "small")
    path = saved(model_of(half, large(), small, listed, reads=1), tmp_path / "a.onnx")
    assert_same(path)
    loaded = load_model(path)
    kinds = {name: type(value.const_value) for name, value in loaded.graph.initializers.items()}
    assert kinds["large"] is kinds["half"] is ir.Tensor
    assert kinds["small"] is kinds["listed"] is ir.serde.TensorProtoTensor
    constant = loaded.graph.initializers["large"].const_value
    assert constant is not None and not constant.numpy().flags.writeable


def test_what_is_said_about_a_constant_stays(tmp_path: Path) -> None:
    """Also where it is an input too, as in old files."""
    model = model_of(large())
    model.graph.initializer[0].doc_string = "weights"
    entry = model.graph.initializer[0].metadata_props.add()
    entry.key, entry.value = "of", "a test"
    model.graph.input.append(helper.make_tensor_value_info("large", TensorProto.FLOAT, [LARGE]))
    light = read_light(saved(model, tmp_path / "a.onnx"))
    assert light is not None
    constant = light.model.graph.initializers["large"].const_value
    assert isinstance(constant, ir.Tensor)
    assert (constant.doc_string, constant.metadata_props) == ("weights", {"of": "a test"})
    assert [value.name for value in light.model.graph.inputs] == ["x", "large"]


def test_two_constants_of_one_name_are_refused(tmp_path: Path) -> None:
    """However they hold their values."""
    later = helper.make_tensor("w", TensorProto.FLOAT, [20_000], [2.0] * 20_000)
    first = numpy_helper.from_array(np.ones(20_000, np.float32), "w")
    path = saved(model_of(first, later, large()), tmp_path / "a.onnx")
    with pytest.raises(ModelError, match="has 2 initializers of the name 'w'"):
        read_light(path)


def test_values_that_are_listed_one_by_one(tmp_path: Path) -> None:
    """Numbers, strings, packed halves of bytes: none of them is read apart."""
    bits = helper.make_tensor("bits", TensorProto.INT4, [200_000], bytes(100_000), raw=True)
    words = helper.make_tensor("words", TensorProto.STRING, [9_000], [b"something"] * 9_000)
    flags = numpy_helper.from_array(np.ones(100_000, np.bool_), "flags")
    path = saved(model_of(bits, large(), words, flags, reads=1), tmp_path / "a.onnx")
    light = read_light(path)
    assert light is not None
    kinds = {name: type(value.const_value) for name, value in light.model.graph.initializers.items()}
    assert [name for name, kind in kinds.items() if kind is ir.Tensor] == ["large"]
    assert ir.to_proto(light.model) == ir.to_proto(ir.from_proto(onnx.load(path)))


def test_a_large_file_is_checked(tmp_path: Path) -> None:
    broken = model_of(large())
    broken.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(ModelError, match=r"not valid ONNX .*NoSuchOperator"):
        load_model(saved(broken, tmp_path / "a.onnx"))


def shorter(tensor: TensorProto) -> None:
    tensor.raw_data = tensor.raw_data[:-4]


def longer(tensor: TensorProto) -> None:
    tensor.raw_data += bytes(4)


@pytest.mark.parametrize("change", [shorter, longer])
def test_other_sizes_than_the_shape_says(change: Callable[[TensorProto], None], tmp_path: Path) -> None:
    model = model_of(large())
    change(model.graph.initializer[0])
    path = saved(model, tmp_path / "a.onnx")
    assert read_light(path) is None
    with pytest.raises(ModelError, match="large"):
        load_model(path)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kept", [0, 1, 100, 4096, LARGE])
def test_a_truncated_file(kept: int, tmp_path: Path) -> None:
    path = saved(model_of(large(size=2 * LARGE)), tmp_path / "a.onnx")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 1 - kept])
    assert read_light(path) is None
    with pytest.raises(ModelError, match="is not an ONNX model or is truncated"):
        load_model(path)


def test_what_the_ordinary_reader_does(tmp_path: Path) -> None:
    """Small files, other suffixes, nothing large, and no model at all."""
    one = model_of(large())
    assert read_light(saved(model_of(large(size=1000)), tmp_path / "small.onnx")) is None
    assert read_light(saved(one, tmp_path / "a.pb")) is None
    node = helper.make_node("Constant", [], ["c"], value=large("c", 2 * LARGE))
    nodes = model_of(large())
    nodes.graph.node.insert(0, node)
    assert read_light(saved(nodes, tmp_path / "nodes.onnx")) is None
    many = [large(f"c{i}", 10_000) for i in range(LARGE // 10_000 + 1)]
    assert read_light(saved(model_of(*many), tmp_path / "many.onnx")) is None
    (tmp_path / "noise.onnx").write_bytes(np.random.default_rng(0).bytes(large_constants.LARGE_FILE))
    assert read_light(tmp_path / "noise.onnx") is None
    two = one.SerializeToString()
    (tmp_path / "merged.onnx").write_bytes(two + two)
    assert read_light(tmp_path / "merged.onnx") is None


def test_constants_in_other_files_beside_large_ones(tmp_path: Path) -> None:
    """The checker gets the path then, and finds the other file."""
    model = model_of(large(), large("far"))
    onnx.external_data_helper.set_external_data(model.graph.initializer[1], "far.bin")
    (tmp_path / "far.bin").write_bytes(model.graph.initializer[1].raw_data)
    model.graph.initializer[1].ClearField("raw_data")
    model.graph.initializer[1].data_location = TensorProto.EXTERNAL
    loaded = load_model(saved(model, tmp_path / "a.onnx"))
    near, far = (loaded.graph.initializers[name].const_value for name in ("large", "far"))
    assert near is not None and far is not None
    np.testing.assert_array_equal(near.numpy(), far.numpy())
