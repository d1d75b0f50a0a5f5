"""InferenceSession: every kind of model, ONNX Runtime's look, shapes, profiles, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from session_models import BODY, FEEDS, WEIGHTS, quantized

from calib8 import DataError, InferenceSession, ModelError, OutputError, UnsupportedModelError, UsageError
from calib8.program.file import save_program
from calib8.program.instructions import Quantize
from calib8.session.inference import CACHED_SHAPES
from small_models import Array, normal, onnx_model, run


def test_every_kind_of_source_gives_the_same(proto: onnx.ModelProto, tmp_path: Path) -> None:
    path, saved, compiled = tmp_path / "q.onnx", tmp_path / "q.c8p", tmp_path / "q.c8"
    onnx.save(proto, path)
    session = InferenceSession(path)
    save_program(session.program, saved)
    session.save(compiled)
    [expected] = session.run(None, FEEDS)
    assert expected.dtype == np.float32 and expected.shape == (1, 4, 6, 6)
    programs = (session.program, saved, str(saved), session.plan, compiled, str(compiled))
    for source in (str(path), proto, proto.SerializeToString(), *programs):
        [actual] = InferenceSession(source).run(None, FEEDS)
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("profile", ["onnx", "tflite", "single"])
def test_the_outputs_are_those_of_onnx_runtime_but_for_rounding(proto: onnx.ModelProto, profile: str) -> None:
    session = InferenceSession(proto, profile=profile)
    assert session.rounding == session.program.profile == profile
    feeds = {"x": normal(3, 3, 6, 6, seed=5)}
    [expected], [actual] = run(proto, feeds), session.run(None, feeds)
    step = session.program.slots[session.program.instructions[-1].inputs[0]].scale
    assert np.max(np.abs(expected - actual)) < 2.5 * step
    assert np.mean(expected == actual) > 0.9


def test_the_profile_that_is_meant_where_none_is_given(proto: onnx.ModelProto) -> None:
    assert InferenceSession(proto).rounding == "onnx"
    session = InferenceSession(proto, integer_only=True)
    assert session.rounding == session.program.profile == "single"
    assert InferenceSession(proto, profile="tflite", integer_only=True).program.profile == "tflite"


@pytest.mark.parametrize("axes", ["N,3,6,6", "1,3,6,6", "N,3,H,W", "?,3,?,6"])
def test_inputs_and_outputs_look_like_those_of_onnx_runtime(axes: str) -> None:
    model = quantized(axes)
    expected = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    session = InferenceSession(model)
    assert [(arg.name, arg.shape, arg.type) for arg in session.get_inputs()] == [
        (arg.name, arg.shape, arg.type) for arg in expected.get_inputs()
    ]
    [output] = session.get_outputs()
    assert (output.name, output.type) == ("y", "tensor(float)")
    if axes == "1,3,6,6":
        assert output.shape == [1, 4, 6, 6]


def test_codes_at_the_border_have_their_type() -> None:
    one = np.float32(0.5)
    body = "f = DequantizeLinear(x, s, z) r = MaxPool<kernel_shape=[2,2]>(f) y = QuantizeLinear(r, s, z)"
    constants: dict[str, Array] = {"s": one, "z": np.uint8(3)}
    session = InferenceSession(onnx_model("uint8[1,2,4,4] x", "uint8[1,2,3,3] y", body, constants))
    assert [arg.type for arg in (*session.get_inputs(), *session.get_outputs())] == ["tensor(uint8)"] * 2
    codes = np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4)
    [result] = session.run(None, {"x": codes})
    np.testing.assert_array_equal(result, codes[:, :, 1:, 1:])


def test_outputs_come_in_the_order_asked_for(proto: onnx.ModelProto) -> None:
    two = onnx.ModelProto()
    two.CopyFrom(proto)
    inner = [node.output[0] for node in proto.graph.node if node.op_type == "QuantizeLinear"][-2]
    sizes = ["N", 8, 6, 6]
    two.graph.output.append(onnx.helper.make_tensor_value_info(inner, onnx.TensorProto.UINT8, sizes))
    session = InferenceSession(two)
    first, second = session.run(None, FEEDS)
    assert (first.shape, first.dtype) == ((1, 4, 6, 6), np.float32)
    assert (second.shape, second.dtype) == ((1, 8, 6, 6), np.uint8)
    for names, expected in ([], [first, second]), ([inner, "y"], [second, first]), (["y"], [first]):
        for array, wanted in zip(session.run(names, FEEDS), expected, strict=True):
            np.testing.assert_array_equal(array, wanted)
    with pytest.raises(DataError, match=f"has no output 'nothing'. Ask for some of: y, {inner}"):
        session.run(["nothing"], FEEDS)


def test_free_axes_are_lowered_per_shape_and_the_last_ones_kept(
    proto: onnx.ModelProto, lowered_shapes: list[tuple[int, ...]]
) -> None:
    session = InferenceSession(proto)
    assert lowered_shapes == []
    sizes = [1, 2, 1, 3, 4, 1, 5, 2]
    for size in sizes:
        [whole] = session.run(None, {"x": normal(size, 3, 6, 6, seed=9)})
        assert whole.shape == (size, 4, 6, 6)
    # 1 was used before 5 came, so 2 had to go for it.
    assert [shape[0] for shape in lowered_shapes] == [1, 2, 3, 4, 5, 2]
    assert CACHED_SHAPES == 4


def test_a_batch_is_the_same_as_its_samples(proto: onnx.ModelProto) -> None:
    session, feeds = InferenceSession(proto), normal(4, 3, 6, 6, seed=3)
    [whole] = session.run(None, {"x": feeds})
    for index in range(4):
        [single] = session.run(None, {"x": feeds[index : index + 1]})
        np.testing.assert_array_equal(single[0], whole[index])


def test_a_model_of_fixed_shape_is_lowered_at_once(
    fixed: onnx.ModelProto, lowered_shapes: list[tuple[int, ...]]
) -> None:
    session = InferenceSession(fixed)
    assert lowered_shapes == [(1, 3, 6, 6)]
    session.run(None, FEEDS)
    assert session.program is session.program
    assert len(lowered_shapes) == 1


def test_shapes_fix_what_is_free(proto: onnx.ModelProto, lowered_shapes: list[tuple[int, ...]]) -> None:
    session = InferenceSession(proto, shapes={"x": (2, 3, 6, 6)})
    assert lowered_shapes == [(2, 3, 6, 6)]
    assert session.get_inputs()[0].shape == [2, 3, 6, 6]
    assert session.get_outputs()[0].shape == [2, 4, 6, 6]
    with pytest.raises(DataError, match=r"got x: float32 1×3×6×6. The model takes x: float32 2×3×6×6"):
        session.run(None, FEEDS)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": (1, 3, 6, 6)}, "shape of 'z': .* has no such input. The model takes x: float32 N×3×6×6"),
        ({"x": (1, 4, 6, 6)}, "shape of 'x': 1×4×6×6 does not fit"),
        ({"x": (1, 3, 6)}, "1×3×6 does not fit"),
        ({"x": (0, 3, 6, 6)}, "0×3×6×6 does not fit"),
        ({"x": (2**40, 3, 6, 6)}, "1099511627776×3×6×6 are more than 2,147,483,647 elements. Give smaller"),
        ({"x": (10**8, 3, 6, 6)}, "100000000×3×6×6 are more than"),
        ({"x": "1366"}, "'1366' are not sizes. Give whole numbers"),
        ({"x": (1, 3, 6.0, 6)}, "6.0, 6\\) are not sizes"),
        ({"x": 3}, "shape of 'x': 3 are not sizes"),
        ([1, 3, 6, 6], "shapes: are a list. Give a dict"),
    ],
)
def test_shapes_that_do_not_fit(proto: onnx.ModelProto, shapes: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        InferenceSession(proto, shapes=shapes)


def test_a_model_that_takes_too_much_is_refused(fixed: onnx.ModelProto) -> None:
    large = onnx.ModelProto()
    large.CopyFrom(fixed)
    large.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 10**12
    with pytest.raises(ModelError, match=r"its input 'x: float32 1000000000000×3×6×6' has more than 2,147"):
        InferenceSession(large)


def test_the_program_of_a_free_batch_is_that_of_one(proto: onnx.ModelProto) -> None:
    program = InferenceSession(proto).program
    assert program.slots[program.inputs[0].slot].shape == (1, 3, 6, 6)
    assert isinstance(program.instructions[0], Quantize)


def test_other_free_axes_need_a_shape(tmp_path: Path) -> None:
    path = tmp_path / "free.onnx"
    onnx.save(quantized("N,3,H,6"), path)
    session = InferenceSession(path)
    [tall] = session.run(None, {"x": normal(1, 3, 9, 6)})
    assert tall.shape == (1, 4, 9, 6)
    with pytest.raises(ModelError, match=r"free\.onnx.*'x'"):
        _ = session.program
    assert InferenceSession(path, shapes={"x": (1, 3, 9, 6)}).program.slots[0].shape == (1, 3, 9, 6)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "got nothing as inputs. The model takes x: float32 N×3×6×6"),
        ({"image": FEEDS["x"]}, "got 'image' as inputs. The model takes x: float32 N×3×6×6"),
        ({**FEEDS, "z": FEEDS["x"]}, "got 'x', 'z' as inputs"),
        ({"x": FEEDS["x"].astype(np.float64)}, "got x: float64 1×3×6×6. The model takes x: float32 N×3×6×6"),
        ({"x": FEEDS["x"].astype(np.uint8)}, "got x: uint8"),
        ({"x": FEEDS["x"][0]}, "got x: float32 3×6×6"),
        ({"x": FEEDS["x"][:, :2]}, "got x: float32 1×2×6×6"),
        ({"x": FEEDS["x"][:0]}, "got x: float32 0×3×6×6"),
        ({"x": [[1.0, 2.0]]}, "got x: float64 1×2"),
        ({"x": [[1.0], [2.0, 3.0]]}, "what is fed to 'x' is a list that NumPy makes no array of"),
        ({"x": np.full((1, 3, 6, 6), 0.1).tolist()}, "has values that float32 does not hold"),
        ({"x": np.full((1, 3, 6, 6), 2**24 + 1).tolist()}, "has values that float32 does not hold"),
        ({"x": np.full((1, 3, 6, 6), "1").tolist()}, "got x: <U1 1×3×6×6"),
        ({"x": None}, "got x: object scalar"),
        ({"x": FEEDS["x"].astype(FEEDS["x"].dtype.newbyteorder())}, "float32 1×3×6×6 in the byte order of"),
        ({"x": np.broadcast_to(FEEDS["x"], (10**8, 3, 6, 6))}, "more than 2,147,483,647 elements. Run fewer"),
        (None, "got a NoneType as inputs. Give a dict: input name → array, x: float32 N×3×6×6"),
        ([FEEDS["x"]], "got a list as inputs. Give a dict"),
        ({"x": np.float32(1)}, "got x: float32 scalar"),
    ],
)
def test_inputs_that_do_not_fit(proto: onnx.ModelProto, feeds: Any, message: str) -> None:
    session, result = InferenceSession(proto), np.empty((1, 4, 6, 6), np.float32)
    for call in (lambda: session.run(None, feeds), lambda: session.run_into(feeds, [result])):
        with pytest.raises(DataError) as caught:
            call()
        assert message in str(caught.value)


def test_lists_are_taken_where_every_value_is_kept(proto: onnx.ModelProto) -> None:
    session = InferenceSession(proto)
    odd = FEEDS["x"].copy()
    odd[0, 0, 0, :3] = np.nan, np.inf, -np.inf
    whole = np.arange(108).reshape(1, 3, 6, 6) - 50
    for listed, array in (odd.tolist(), odd), (whole.tolist(), whole.astype(np.float32)):
        np.testing.assert_array_equal(session.run(None, {"x": listed}), session.run(None, {"x": array}))


@pytest.mark.parametrize("names", ["y", 3])
def test_outputs_are_asked_for_in_a_list(proto: onnx.ModelProto, names: Any) -> None:
    with pytest.raises(DataError, match=rf"got {names!r} in place of a list of outputs. Ask for some of: y"):
        InferenceSession(proto).run(names, FEEDS)


@pytest.mark.parametrize("profile", ["onnx", "tflite", "single"])
def test_nan_counts_as_the_lowest_code_and_infinities_saturate(proto: onnx.ModelProto, profile: str) -> None:
    session = InferenceSession(proto, profile=profile)
    odd, plain = FEEDS["x"].copy(), FEEDS["x"].copy()
    odd[0, 0, :3, 0] = np.nan, np.inf, -np.inf
    plain[0, 0, :3, 0] = -1e30, 1e30, -1e30
    np.testing.assert_array_equal(session.run(None, {"x": odd}), session.run(None, {"x": plain}))


def test_arrays_need_not_lie_in_one_piece(proto: onnx.ModelProto) -> None:
    session = InferenceSession(proto)
    turned = np.asfortranarray(FEEDS["x"])
    np.testing.assert_array_equal(session.run(None, {"x": turned}), session.run(None, FEEDS))


def test_a_float_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "float.onnx"
    onnx.save(onnx_model("float[N,3,6,6] x", "float[A,B,C,D] y", BODY, WEIGHTS), path)
    with pytest.raises(UnsupportedModelError, match=r"float\.onnx: is a float model.*Quantize it first"):
        InferenceSession(path)


def test_weights_stored_in_codes_do_not_make_a_quantized_model() -> None:
    constants: dict[str, Array] = {"w": np.ones((4, 3, 1, 1), np.int8), "s": np.float32(0.5)}
    body = "d = DequantizeLinear(w, s) y = Conv(x, d)"
    with pytest.raises(UnsupportedModelError, match=r"is a float model"):
        InferenceSession(onnx_model("float[N,3,6,6] x", "float[N,4,6,6] y", body, constants))


def test_unknown_names(proto: onnx.ModelProto) -> None:
    with pytest.raises(
        UsageError, match=r"runtime 'gpu': does not run programs. Use one of calib8, reference"
    ):
        InferenceSession(proto, runtime="gpu")
    with pytest.raises(UsageError, match=r"profile 'ties': unknown .* Use one of onnx, tflite, single"):
        InferenceSession(proto, profile="ties")
    with pytest.raises(UsageError, match=r"profile 'onnx': .*float32.* Use single or tflite"):
        InferenceSession(proto, profile="onnx", integer_only=True)


def test_a_program_keeps_its_profile(proto: onnx.ModelProto, tmp_path: Path) -> None:
    single, path = InferenceSession(proto, profile="single").program, tmp_path / "single.c8p"
    save_program(single, path)
    for source in (single, path):
        assert InferenceSession(source).rounding == "single"
        assert InferenceSession(source, profile="single", integer_only=True).rounding == "single"
        with pytest.raises(UsageError, match=r"profile 'tflite': .*profile 'single', which is fixed"):
            InferenceSession(source, profile="tflite")
    rounded_in_float = InferenceSession(proto).program
    with pytest.raises(UnsupportedModelError, match=r"not integer only, it has float32 multipliers"):
        InferenceSession(rounded_in_float, integer_only=True)


def test_files_that_are_no_model(tmp_path: Path) -> None:
    path = tmp_path / "notes.onnx"
    path.write_text("these are my notes")
    with pytest.raises(ModelError, match=r"notes\.onnx: is not an ONNX model"):
        InferenceSession(path)
    with pytest.raises(ModelError, match=r"none\.onnx: no such file"):
        InferenceSession(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match=r"model bytes: are no ONNX model"):
        InferenceSession(b"these are my notes")
    with pytest.raises(ModelError, match=r"model bytes: are empty"):
        InferenceSession(b"")
    with pytest.raises(ModelError, match=rf"{tmp_path}: is a folder"):
        InferenceSession(tmp_path)


@pytest.mark.parametrize("source", [None, 3, bytearray(b"x")])
def test_what_is_no_source_of_a_model(source: Any) -> None:
    kind = type(source).__name__
    with pytest.raises(UsageError, match=f"model: is an? {kind}. Give a path, a ModelProto, .* or a Plan"):
        InferenceSession(source)


def test_a_session_tells_what_it_is_but_cannot_be_copied(proto: onnx.ModelProto) -> None:
    session = InferenceSession(proto, profile="single", isa="reference", threads=2)
    how = "rounding='single', runtime='calib8', isa='reference', threads=2"
    assert repr(session) == f"InferenceSession('{session.name}', {how})"
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="can be neither pickled nor copied: open the model, or the plan"):
            copied(session)


def test_errors_of_lowering_name_the_file(fixed: onnx.ModelProto, tmp_path: Path) -> None:
    broken = onnx.ModelProto()
    broken.CopyFrom(fixed)
    [scale] = [value for value in broken.graph.initializer if value.name == broken.graph.node[0].input[1]]
    scale.CopyFrom(onnx.numpy_helper.from_array(np.float32(np.nan), scale.name))
    path = tmp_path / "broken.onnx"
    onnx.save(broken, path)
    with pytest.raises(ModelError, match=r"broken\.onnx: .*nan"):
        InferenceSession(path)


def test_paths_that_no_file_can_have(proto: onnx.ModelProto) -> None:
    with pytest.raises(ModelError, match="no such file"):
        InferenceSession("q\0.onnx")
    session = InferenceSession(proto)
    for path in (None, 3):
        with pytest.raises(OutputError, match="Give the path of a file"):
            session.save(path)  # type: ignore[arg-type]
