"""Loading: what a whole model gives, and one clear line for each way in which a file can be bad."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from calib8.errors import ModelError, UnsupportedModelError
from calib8.model.load import OLDEST_OPSET, load_model
from small_models import normal, onnx_model, relative_difference, run


def small_model(opset: int = 17) -> onnx.ModelProto:
    body = "c = Conv<pads=[1,1,1,1]>(x, w) y = Relu(c)"
    return onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", body, {"w": normal(4, 3, 3, 3)}, opset=opset)


def saved_with_external_data(folder: Path) -> Path:
    path = folder / "net.onnx"
    onnx.save(small_model(), path, save_as_external_data=True, location="net.data", size_threshold=0)
    return path


def test_a_model_comes_from_a_path_a_string_or_a_proto(tmp_path: Path) -> None:
    proto = small_model()
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    feeds = {"x": normal(2, 3, 8, 8, seed=1)}
    for source in (path, str(path), proto):
        model = load_model(source)
        assert relative_difference(run(proto, feeds), run(model, feeds)) == 0.0


def test_external_data_is_found_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved_with_external_data(tmp_path)
    weights = load_model(path).graph.initializers["w"].const_value
    assert weights is not None
    np.testing.assert_array_equal(weights.numpy(), normal(4, 3, 3, 3))
    monkeypatch.chdir(tmp_path)
    load_model("net.onnx")


def test_the_long_name_of_the_standard_operator_set_is_understood() -> None:
    proto = small_model()
    proto.opset_import[0].domain = "ai.onnx"
    assert load_model(proto).opset_imports == {"": 17}


def test_a_name_that_two_nodes_yield_is_told() -> None:
    proto = small_model()
    proto.graph.node[1].output[0] = "c"
    with pytest.raises(ModelError, match=r"is not an ONNX model or is truncated .*'c'"):
        load_model(proto)


@pytest.mark.parametrize(("name", "problem"), [("none.onnx", "no such file"), (".", "is a folder")])
def test_a_missing_file_and_a_folder_are_named(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(ModelError, match=problem) as caught:
        load_model(tmp_path / name)
    assert caught.value.subject == str(tmp_path / name)


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"hello world\n", b"\x89PNG\r\n\x1a\n" + b"\0" * 100, b"\xff" * 64]
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"net\.onnx: is not"):
        load_model(path)


def test_a_truncated_file_is_refused_wherever_it_was_cut(tmp_path: Path) -> None:
    data = small_model().SerializeToString()
    path = tmp_path / "net.onnx"
    cuts = {*range(0, 160), *range(160, len(data), 7), len(data) - 2, len(data) - 1}
    for cut in sorted(cuts):
        path.write_bytes(data[:cut])
        with pytest.raises(ModelError):
            load_model(path)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_bytes_never_give_another_error_than_a_model_error(tmp_path: Path) -> None:
    data = small_model().SerializeToString()
    path = tmp_path / "net.onnx"
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(data)
        for position in rng.integers(0, len(data) - 432, 3):  # 432 bytes of weights: any bits are a float
            damaged[position] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            load_model(path)
        except ModelError:
            refused += 1
    assert refused > 200


def test_missing_external_data_is_named(tmp_path: Path) -> None:
    path = saved_with_external_data(tmp_path)
    (tmp_path / "net.data").unlink()
    with pytest.raises(ModelError, match=r"'net\.data' of 'w' is missing"):
        load_model(path)


def test_short_external_data_is_named(tmp_path: Path) -> None:
    path = saved_with_external_data(tmp_path)
    data = tmp_path / "net.data"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"'net\.data' ends before tensor 'w' \(432 bytes needed\)"):
        load_model(path)


def test_external_data_outside_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    path = saved_with_external_data(folder)
    (folder / "net.data").rename(tmp_path / "net.data")
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../net.data"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=r"'\.\./net\.data' of 'w' is outside of the folder"):
        load_model(path)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("offset", "-4", "'w' have the offset '-4'"),
        ("offset", "abc", "'w' have the offset 'abc'"),
        ("length", "-1", "'w' have the length '-1'"),
        ("length", "3", "has 3 bytes of external data for 'w', which takes 432"),
        ("length", "433", "has 433 bytes"),
        ("location", "/dev/zero", "'/dev/zero' of 'w' is outside of the folder"),
        ("location", "deep/../../net.data", "is outside of the folder"),
    ],
)
def test_broken_places_of_external_data_are_named(tmp_path: Path, key: str, value: str, told: str) -> None:
    path = saved_with_external_data(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    entries = {entry.key: entry for entry in proto.graph.initializer[0].external_data}
    entries[key].value = value
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=re.escape(told)):
        load_model(path)


@pytest.mark.parametrize("size", [4, 3000])
def test_initializers_of_one_name_are_refused(tmp_path: Path, size: int) -> None:
    """ONNX Runtime computes with the first of them, others with the last; large ones are read apart."""
    shape = (size, 3, 3, 3) if size == 4 else (size, size)
    proto = onnx.ModelProto.FromString(small_model().SerializeToString())
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(normal(*shape), "w"))
    proto.graph.initializer.add().CopyFrom(numpy_helper.from_array(2 * normal(*shape), "w"))
    onnx.save(proto, tmp_path / "net.onnx")
    for source in (tmp_path / "net.onnx", proto):
        with pytest.raises(ModelError, match="has 2 initializers of the name 'w'"):
            load_model(source)


@pytest.mark.parametrize("version", [0, 6, onnx.defs.onnx_opset_version() + 1])
def test_operator_sets_out_of_reach_are_refused_with_the_supported_ones(version: int) -> None:
    proto = small_model()
    proto.opset_import[0].version = version
    with pytest.raises(
        UnsupportedModelError, match=f"operator set {version}; supported are {OLDEST_OPSET} to"
    ):
        load_model(proto)


@pytest.mark.parametrize("version", [OLDEST_OPSET, onnx.defs.onnx_opset_version()])
def test_the_oldest_and_the_newest_operator_set_load(version: int) -> None:
    assert load_model(small_model(version)).opset_imports[""] == version


def test_a_model_without_operator_set_is_refused() -> None:
    proto = small_model()
    del proto.opset_import[:]
    with pytest.raises(ModelError):
        load_model(proto)


def test_an_invalid_graph_is_refused() -> None:
    proto = small_model()
    proto.graph.node[1].input[0] = "nobody"
    with pytest.raises(ModelError, match="ModelProto"):
        load_model(proto)


def test_an_unknown_op_is_refused() -> None:
    proto = small_model()
    proto.graph.node[1].op_type = "Rleu"
    with pytest.raises(ModelError, match="Rleu"):
        load_model(proto)


def test_an_initializer_without_data_is_refused() -> None:
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 6, 6])],
        [TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 3, 3, 3])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(ModelError):
        load_model(proto)


def test_an_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(small_model(), path)

    def refuse(*_: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("calib8.model.load.onnx.load", refuse)  # a test may run as root, whom no mode stops
    with pytest.raises(ModelError, match="Permission denied"):
        load_model(path)


@pytest.mark.parametrize("suffix", ["json", "textproto"])
def test_text_that_is_no_model_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model.{suffix}"
    path.write_text('{"format": "something else"}')
    with pytest.raises(ModelError, match="not an ONNX model"):
        load_model(path)


def test_a_constant_that_states_sizes_beyond_all_disks_is_refused(tmp_path: Path) -> None:
    """ONNX Runtime would be asked, with the large constants in a file."""
    model = onnx_model(
        "float[1, 4] x", "float[1, n] y", "a = MatMul (x, w) y = Add (a, b)",
        {"w": np.ones((4, 3), np.float32), "b": np.ones(400, np.float32)},
    )  # fmt: skip
    for tensor in model.graph.initializer:
        del tensor.dims[:]
        tensor.dims.extend([1 << 23, 1 << 23])
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(ModelError, match=r"net\.onnx: is not valid ONNX"):
        load_model(tmp_path / "net.onnx")
