"""What the provider says of files, options and arrays that are wrong: a status with the name of the node."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from plan_models import assert_same_bits, attribute, changed, exported, feeds_of

import calib8
import stream_nets
from small_nets import clean

pytestmark = pytest.mark.slow
Change = Callable[[onnx.ModelProto, onnx.NodeProto], None]


def refused(registered: ModuleType, path: Path, **words: Any) -> str:
    """What ONNX Runtime says."""
    with pytest.raises(Exception) as caught:
        onnxruntime.InferenceSession(str(path), registered.session_options(**words), enable_fallback=0)
    return str(caught.value)


def damaged(_: onnx.ModelProto, node: onnx.NodeProto) -> None:
    plan = bytearray(attribute(node, "ep_cache_context").s)
    plan[len(plan) // 2] ^= 1
    attribute(node, "ep_cache_context").s = bytes(plan)


def of_a_newer_version(_: onnx.ModelProto, node: onnx.NodeProto) -> None:
    plan = bytearray(attribute(node, "ep_cache_context").s)
    plan[8] = 200
    attribute(node, "ep_cache_context").s = bytes(plan)


def other_content(content: bytes, mode: int = 1) -> Change:
    def change(_: onnx.ModelProto, node: onnx.NodeProto) -> None:
        attribute(node, "ep_cache_context").s = content
        attribute(node, "embed_mode").i = mode

    return change


def without(name: str) -> Change:
    def change(_: onnx.ModelProto, node: onnx.NodeProto) -> None:
        node.attribute.remove(attribute(node, name))

    return change


def in_another_node(_: onnx.ModelProto, node: onnx.NodeProto) -> None:
    attribute(node, "main_context").i = 0


def one_more_input(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    more = model.graph.input.add()
    more.CopyFrom(model.graph.input[0])
    more.name = "more"
    node.input.append("more")


def of_doubles(model: onnx.ModelProto, _: onnx.NodeProto) -> None:
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE


MISTAKES: dict[str, tuple[Change, str]] = {
    "damaged": (damaged, "its plan: is damaged: its checksum does not match its bytes"),
    "newer": (of_a_newer_version, "its plan: was made by a newer calib8 (format 200, this library"),
    "no plan": (other_content(b"hello"), "its plan: is not a plan"),
    "empty": (other_content(b""), "ep_cache_context is missing or empty"),
    "missing": (without("ep_cache_context"), "ep_cache_context is missing or empty"),
    "mode": (other_content(b"x", 2), "embed_mode is 2, not 0 or 1"),
    "no file": (other_content(b"nowhere.c8", 0), "nowhere.c8"),
    "above": (other_content(b"../plan.c8", 0), "is not the name of a file beside the model"),
    "elsewhere": (other_content(b"/etc/passwd", 0), "is not the name of a file beside the model"),
    "parent": (other_content(b"..", 0), "is not the name of a file beside the model"),
    "zero": (other_content(b"a\0b", 0), "is not the name of a file beside the model"),
    "elsewhere in it": (in_another_node, "its plan is said to be in another node"),
    "inputs": (one_more_input, "has 2 inputs, its plan has 1"),
    "type": (of_doubles, "has another type than"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_files_that_are_wrong(registered: ModuleType, what: str, tmp_path: Path) -> None:
    change, said = MISTAKES[what]
    _, plans, _ = exported("residual", tmp_path)
    told = refused(registered, changed(plans, change))
    assert "calib8: node 'calib8': " in told and said in told, told


def test_a_plan_that_carries_a_state(registered: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "stream.onnx").write_bytes(stream_nets.quantized())
    calib8.compile(tmp_path / "stream.onnx", tmp_path / "state.c8")
    content = (tmp_path / "state.c8").read_bytes()
    _, plans, _ = exported("residual", tmp_path)
    told = refused(registered, changed(plans, other_content(content)))
    assert "node 'calib8': its plan carries a state; export the model with calib8 export" in told


def test_plans_beside_a_model_in_memory(registered: ModuleType, tmp_path: Path) -> None:
    _, plans, _ = exported("residual", tmp_path, plan_beside=True)
    with pytest.raises(
        Exception, match=r"its plan lies in the file 'residual\.c8' beside the model, which was"
    ):
        onnxruntime.InferenceSession(plans.read_bytes(), registered.session_options(), enable_fallback=0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"threads": 257}, "option threads='257': give 1 … 256, or 0"),
        ({"threads": -1}, "option threads='-1': give"),
        ({"threads": "two"}, "option threads='two': give"),
        ({"isa": "sse9"}, "option isa='sse9': this machine has "),
    ],
)
def test_options_that_are_wrong(
    registered: ModuleType, words: dict[str, Any], said: str, tmp_path: Path
) -> None:
    _, plans, _ = exported("residual", tmp_path)
    assert said in refused(registered, plans, **words)


def test_an_option_that_there_is_not(registered: ModuleType, tmp_path: Path) -> None:
    _, plans, _ = exported("residual", tmp_path)
    options = onnxruntime.SessionOptions()
    devices = [one for one in onnxruntime.get_ep_devices() if one.ep_name == registered.NAME]
    options.add_provider_for_devices(devices, {"cores": "1"})
    with pytest.raises(Exception, match="option 'cores': there are threads and isa"):
        onnxruntime.InferenceSession(str(plans), options, enable_fallback=0)


def test_shapes_that_do_not_fit(registered: ModuleType, tmp_path: Path) -> None:
    def free(model: onnx.ModelProto, _: onnx.NodeProto) -> None:
        for dim in model.graph.input[0].type.tensor_type.shape.dim:
            dim.dim_param = "any"
        model.graph.output[0].type.tensor_type.ClearField("shape")

    _, plans, _ = exported("residual", tmp_path)
    session = onnxruntime.InferenceSession(str(changed(plans, free)), registered.session_options())
    name = session.get_inputs()[0].name
    for shape in ((1, 4, 8, 9), (2, 5, 8, 8)):
        said = (
            rf"node 'calib8': input '{name}' has the shape \[{', '.join(map(str, shape))}\], its plan takes"
        )
        with pytest.raises(Exception, match=said):
            session.run(None, {name: np.zeros(shape, np.float32)})
    given = session.run(None, {name: np.zeros((2, 4, 8, 8), np.float32)})
    assert given[0].shape[0] == 2  # a mistake leaves the session as it was


def test_a_batch_that_is_fixed(registered: ModuleType, tmp_path: Path) -> None:
    def free(model: onnx.ModelProto, _: onnx.NodeProto) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
        model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "N"

    _, plans, _ = exported("residual", tmp_path, shapes={"x": (2, 4, 8, 8)})
    session = onnxruntime.InferenceSession(str(changed(plans, free)), registered.session_options())
    with pytest.raises(Exception, match=r"has the shape \[1, 4, 8, 8\], its plan takes \[2, 4, 8, 8\]"):
        session.run(None, {"x": np.zeros((1, 4, 8, 8), np.float32)})


CODES = """
import sys
import numpy as np, onnxruntime
library, path, out = sys.argv[1:]
onnxruntime.register_execution_provider_library("calib8", library)
devices = [one for one in onnxruntime.get_ep_devices() if one.ep_name == "Calib8ExecutionProvider"]
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices, {})
session = onnxruntime.InferenceSession(path, options)
feeds = {one.name: np.ones([1, *one.shape[1:]], np.float32) for one in session.get_inputs()}
np.savez(out, *session.run(None, feeds))
"""


def test_a_model_with_codes_is_left_to_others_and_told(
    library: Path, registered: ModuleType, tmp_path: Path
) -> None:
    model = tmp_path / "int8.onnx"
    onnx.save(clean("residual", "onnxruntime"), model)
    words = [sys.executable, "-c", CODES, str(library), str(model), str(tmp_path / "out.npz")]
    found = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert found.stderr.count("compute with codes, and are left to the other providers") == 1, found.stderr
    assert "calib8 export --to epcontext" in found.stderr
    alone = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    feeds = {name: np.ones_like(array) for name, array in feeds_of(alone).items()}
    assert_same_bits(list(np.load(tmp_path / "out.npz").values()), alone.run(None, feeds))


def test_nodes_of_others_are_left_to_them(registered: ModuleType, tmp_path: Path) -> None:
    def of_another(_: onnx.ModelProto, node: onnx.NodeProto) -> None:
        attribute(node, "source").s = b"QNN"

    _, plans, _ = exported("residual", tmp_path)
    assert "EPContext" in refused(registered, changed(plans, of_another))


def test_an_onnx_runtime_that_is_too_old(library: Path) -> None:
    """It has the functions of version 17, and would write to the terminal if it were asked for newer ones."""
    said: list[bytes] = []
    make = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
    version = ctypes.CFUNCTYPE(ctypes.c_void_p)

    def create(code: int, text: bytes) -> int:
        said.append(text)
        return 1

    created = make(create)
    table = (ctypes.c_void_p * 280)(ctypes.cast(created, ctypes.c_void_p))
    asked: list[int] = []

    def api(number: int) -> int | None:
        asked.append(number)
        return ctypes.addressof(table) if number <= 22 else None

    text = ctypes.create_string_buffer(b"1.22.1")
    functions = get_api(api), version(lambda: ctypes.addressof(text))
    base = (ctypes.c_void_p * 2)(*(ctypes.cast(one, ctypes.c_void_p) for one in functions))
    factories, count = (ctypes.c_void_p * 4)(), ctypes.c_size_t(7)
    entry = ctypes.CDLL(str(library)).CreateEpFactories
    entry.restype = ctypes.c_void_p
    status = entry(b"calib8", base, None, factories, ctypes.c_size_t(4), ctypes.byref(count))
    assert (status, count.value, asked) == (1, 0, [17])
    assert said == [b"calib8: needs ONNX Runtime 1.23 or newer, this is 1.22.1"]
