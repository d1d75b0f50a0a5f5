"""Plans kept in the user's cache folder: who opens a model again gets the same bits, sooner or as before."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from kept_models import folder as folder
from kept_models import names, result
from kept_models import path as path
from session_models import FEEDS, float_between, quantized

from calib8 import InferenceSession, ModelError
from calib8.data.preprocess import Preprocess
from calib8.session import kept_plans as module
from calib8.session import models
from calib8.session.prepared import Opened
from calib8.tflite.write import serialize
from small_models import normal
from tflite_nets import quantized_classifier

READERS = ("onnx", "onnx_ir", "calib8.session.models", "calib8.engine.compile")


def lowered(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is read from now on."""
    found: list[object] = []
    read = models.opened_source

    def counted(source: models.Source, *rest: object) -> Opened:
        found.append(source)
        return read(source, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(models, "opened_source", counted)
    return found


def test_the_second_session_reads_no_model(folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = InferenceSession(path)
    wanted = result(first), result(first, 3)
    assert len(names(folder, "*.c8")) == 2, "a plan for either batch"
    read = lowered(monkeypatch)
    again = InferenceSession(str(path))
    assert again.get_inputs() == first.get_inputs()
    assert again.get_inputs()[0].shape[0] == "N", "the free axis is known"
    assert again.get_outputs() == first.get_outputs()
    assert (again.name, again.rounding) == (first.name, first.rounding)
    np.testing.assert_array_equal(result(again), wanted[0])
    np.testing.assert_array_equal(result(again, 3), wanted[1])
    assert not read
    np.testing.assert_array_equal(result(again, 2), result(first, 2))
    assert len(read) == 1, "another batch: its plan was not kept"


def test_a_process_that_finds_a_plan_imports_nothing_that_reads_models(folder: Path, path: Path) -> None:
    code = (
        "import sys, numpy, calib8\n"
        "session = calib8.InferenceSession(sys.argv[1])\n"
        "session.run(None, {'x': numpy.zeros((1, 3, 6, 6), numpy.float32)})\n"
        f"print(*[name for name in {READERS} if name in sys.modules])\n"
    )

    def imported() -> list[str]:
        command = [sys.executable, "-c", code, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert imported() == list(READERS)
    assert imported() == []


def test_program_and_saved_plan_are_those_of_the_model(folder: Path, path: Path, tmp_path: Path) -> None:
    first = InferenceSession(path)
    first.save(tmp_path / "first.c8")
    again = InferenceSession(path)
    again.save(tmp_path / "again.c8")
    assert (tmp_path / "again.c8").read_bytes() == (tmp_path / "first.c8").read_bytes()
    program = again.program
    assert [type(step) for step in program.instructions] == [
        type(step) for step in first.program.instructions
    ]
    assert again.program is program, "it is lowered once"


def test_what_is_asked_for_has_plans_of_its_own(folder: Path, path: Path) -> None:
    image = np.random.default_rng(1).integers(0, 256, (1, 6, 6, 3)).astype(np.uint8)
    requests: Sequence[tuple[dict[str, object], np.ndarray]] = (
        ({}, FEEDS["x"]),
        ({"profile": "single"}, FEEDS["x"]),
        ({"integer_only": True}, FEEDS["x"]),
        ({"pixels": Preprocess(mean=(127.5,), scale=(1 / 64,))}, image),
        ({"pixels": Preprocess(mean=(120.0,), scale=(1 / 64,))}, image),
    )
    for number, (request, feed) in enumerate(requests, start=1):
        wanted = InferenceSession(path, **request)  # type: ignore[arg-type]
        array = wanted.run(None, {"x": feed})[0]
        again = InferenceSession(path, **request)  # type: ignore[arg-type]
        assert again.rounding == wanted.rounding
        np.testing.assert_array_equal(again.run(None, {"x": feed})[0], array)
        assert len(names(folder, "*.json")) == number


def test_bytes_tflite_models_and_programs_are_kept_too(
    folder: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calib8.program.file import save_program

    save_program(InferenceSession(path).program, tmp_path / "net.c8p")
    model = serialize(quantized_classifier("int8"))
    codes = np.random.default_rng(3).integers(-128, 127, (1, 8, 8, 3), np.int8, endpoint=True)
    (tmp_path / "net.tflite").write_bytes(model)
    cases: Sequence[tuple[bytes | Path, dict[str, np.ndarray]]] = (
        (path.read_bytes(), {"x": FEEDS["x"]}),
        (tmp_path / "net.c8p", {"x": FEEDS["x"]}),
        (model, {"image": codes}),
        (tmp_path / "net.tflite", {"image": codes}),
    )
    wanted = [InferenceSession(source).run(None, feeds)[0] for source, feeds in cases]
    first_names = [InferenceSession(source).name for source, _ in cases]
    read = lowered(monkeypatch)
    for (source, feeds), array, name in zip(cases, wanted, first_names, strict=True):
        again = InferenceSession(source)
        np.testing.assert_array_equal(again.run(None, feeds)[0], array)
        assert again.name == name
    assert not read


def test_float_parts_are_kept(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(float_between(), tmp_path / "float.onnx")
    wanted = result(InferenceSession(tmp_path / "float.onnx"))
    read = lowered(monkeypatch)
    np.testing.assert_array_equal(result(InferenceSession(tmp_path / "float.onnx")), wanted)
    assert not read


def test_another_content_of_the_file_is_another_model(folder: Path, path: Path) -> None:
    before = result(InferenceSession(path))
    model = onnx.load(path)
    next(node for node in model.graph.node if node.op_type == "QuantizeLinear").name = "other"
    constant = next(tensor for tensor in model.graph.initializer if tensor.name.startswith("u"))
    constant.raw_data = constant.raw_data[::-1]
    onnx.save(model, path)
    after = result(InferenceSession(path))
    assert not np.array_equal(before, after)
    np.testing.assert_array_equal(result(InferenceSession(path, runtime="reference")), after)


def test_a_file_that_changes_under_a_session_is_told(folder: Path, path: Path) -> None:
    InferenceSession(path).run(None, FEEDS)
    session = InferenceSession(path)
    wanted = result(session)
    onnx.save(float_between("N"), path)
    np.testing.assert_array_equal(result(session), wanted)
    with pytest.raises(ModelError, match="was changed, moved or removed since the session was opened"):
        session.program  # noqa: B018
    with pytest.raises(ModelError, match="was changed, moved or removed since the session was opened"):
        result(session, 4)
    path.unlink()
    with pytest.raises(ModelError, match="was changed, moved or removed since the session was opened"):
        result(session, 4)
    np.testing.assert_array_equal(result(session), wanted)


def test_the_working_folder_may_change(folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    first = InferenceSession(path.name)
    wanted = result(first, 2)
    again = InferenceSession(path.name)
    assert again.name == path.name
    monkeypatch.chdir("/")
    assert again.program.profile == first.program.profile
    np.testing.assert_array_equal(result(again, 5)[:2], wanted)


def test_a_plan_is_called_as_the_model_that_was_opened(folder: Path, tmp_path: Path) -> None:
    model = serialize(quantized_classifier("int8"))
    for name in ("a.tflite", "b.tflite"):
        (tmp_path / name).write_bytes(model)
    plans = [
        InferenceSession(source).plan.name for source in (tmp_path / "a.tflite", tmp_path / "b.tflite", model)
    ]
    assert plans == [str(tmp_path / "a.tflite"), str(tmp_path / "b.tflite"), "model bytes"]
    assert [InferenceSession(source).plan.name for source in (tmp_path / "b.tflite", model)] == plans[1:]
    assert InferenceSession(model).name == "model bytes"


def test_programs_are_lowered_once_by_several_threads(folder: Path, path: Path) -> None:
    InferenceSession(path).run(None, FEEDS)
    session = InferenceSession(path)
    programs: list[object] = []
    threads = [threading.Thread(target=lambda: programs.append(session.program)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(program) for program in programs}) == 1


def test_what_changes_while_it_is_read_is_not_kept(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = models.opened_source

    def replaced(*arguments: object) -> Opened:
        opened = read(*arguments)  # type: ignore[arg-type]
        onnx.save(float_between(), path)
        return opened

    monkeypatch.setattr(models, "opened_source", replaced)
    result(InferenceSession(path))
    assert names(folder) == []


def test_other_code_has_other_plans(folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result(InferenceSession(path))
    read = lowered(monkeypatch)
    monkeypatch.setattr(module, "_code", lambda: b"another calib8")
    result(InferenceSession(path))
    assert len(read) == 1


def test_the_code_is_known_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "b.py").touch()
    (tmp_path / "a.py").touch()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.py").touch()
    found = [os.path.relpath(source, tmp_path) for source in module._sources(str(tmp_path))]
    assert found == ["a.py", os.path.join("room", "b.py")]  # noqa: PTH118
    assert len(module._code()) == 32


def test_code_that_lies_in_no_files_keeps_nothing(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(name: str) -> str:
        raise ImportError(name)

    module._code.cache_clear()
    monkeypatch.setattr(module, "_origin", nowhere)
    try:
        result(InferenceSession(path))
    finally:
        module._code.cache_clear()
    assert names(folder) == []


@pytest.mark.parametrize("origin", ["missing.py", "archive.zip/onnxscript/__init__.py"])
def test_origins_that_are_no_files_keep_nothing(
    folder: Path, path: Path, origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "archive.zip").touch()
    module._code.cache_clear()
    monkeypatch.setattr(module, "_origin", lambda name: str(tmp_path / origin))
    try:
        result(InferenceSession(path))
    finally:
        module._code.cache_clear()
    assert names(folder) == []


def damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def of_another_kind(file: Path) -> None:
    file.write_text('{"name": 1}')


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pattern", ["*.c8", "*.json"])
@pytest.mark.parametrize("spoil", [damaged, empty, of_another_kind])
def test_what_is_damaged_is_made_again(
    folder: Path, path: Path, pattern: str, spoil: Callable[[Path], None]
) -> None:
    wanted = result(InferenceSession(path))
    [file] = folder.glob(pattern)
    content = file.read_bytes()
    spoil(file)
    np.testing.assert_array_equal(result(InferenceSession(path)), wanted)
    assert file.read_bytes() == content


def test_a_plan_that_the_engine_refuses_is_made_again(folder: Path, path: Path) -> None:
    from calib8.engine.plan_file import load_plan, save_plan

    wanted = result(InferenceSession(path))
    [file] = folder.glob("*.c8")
    plan = load_plan(file)
    save_plan(replace(plan, arena_bytes=64), file)
    np.testing.assert_array_equal(result(InferenceSession(path)), wanted)


@pytest.mark.parametrize("pattern", ["*.c8", "*.json"])
def test_a_file_that_was_copied_over_that_of_another_model_is_made_again(
    folder: Path, path: Path, tmp_path: Path, pattern: str
) -> None:
    """Same ports and shapes, other weights."""
    plain = result(InferenceSession(path))
    [first] = folder.glob(pattern)
    turned = quantized()
    for tensor in turned.graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT8:
            tensor.raw_data = tensor.raw_data[::-1]
    onnx.save(turned, tmp_path / "turned.onnx")
    wanted = result(InferenceSession(tmp_path / "turned.onnx"))
    assert (plain != wanted).any()
    [second] = set(folder.glob(pattern)) - {first}
    content = second.read_bytes()
    second.write_bytes(first.read_bytes())
    np.testing.assert_array_equal(result(InferenceSession(tmp_path / "turned.onnx")), wanted)
    assert second.read_bytes() == content


def test_a_plan_of_other_ports_is_made_again(folder: Path, path: Path) -> None:
    from calib8.engine.plan_file import load_plan, save_plan

    wanted = result(InferenceSession(path))
    [file] = folder.glob("*.c8")
    plan = load_plan(file)
    [put], given = plan.inputs, plan.outputs
    others = (
        replace(plan, inputs=(put._replace(name="other"),)),
        replace(plan, inputs=(put._replace(dtype="int32"),)),
        replace(plan, inputs=(put._replace(shape=(1, *put.shape)),)),
        replace(plan, outputs=tuple(one._replace(name=f"{one.name}.other") for one in given)),
    )
    for other in others:
        save_plan(other, file)
        np.testing.assert_array_equal(result(InferenceSession(path)), wanted)


def test_constants_in_other_files_are_not_kept(folder: Path, tmp_path: Path) -> None:
    onnx.save(
        quantized(), tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0
    )
    InferenceSession(tmp_path / "net.onnx")
    assert names(folder) == []


def test_attributes_in_other_files_are_not_kept(folder: Path, tmp_path: Path) -> None:
    model = quantized()
    stored = next(tensor for tensor in model.graph.initializer if tensor.name.startswith("u") and tensor.dims)
    model.graph.initializer.remove(stored)
    constant = onnx.helper.make_node("Constant", [], [stored.name], value=stored)
    model.graph.node.insert(0, constant)
    onnx.save(
        model,
        tmp_path / "net.onnx",
        save_as_external_data=True,
        location="net.data",
        size_threshold=0,
        convert_attribute=True,
    )
    InferenceSession(tmp_path / "net.onnx")
    assert names(folder) == []


def test_what_is_no_file_is_refused_as_ever(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        InferenceSession(tmp_path / "missing.onnx")
    with pytest.raises(ModelError, match="is a folder"):
        InferenceSession(tmp_path)
    with pytest.raises(ModelError, match="are no ONNX model"):
        InferenceSession(b"no model")
    assert names(folder) == []


def test_the_reference_keeps_nothing(folder: Path, path: Path) -> None:
    result(InferenceSession(path, runtime="reference"))
    InferenceSession(quantized())
    assert names(folder) == []


def test_models_with_other_inputs_are_told_apart(folder: Path, tmp_path: Path) -> None:
    onnx.save(quantized(axes="1,3,6,6"), tmp_path / "a.onnx")
    model = onnx.load(tmp_path / "a.onnx")
    for value in (*model.graph.input, *model.graph.output):
        for size in value.type.tensor_type.shape.dim[2:]:
            size.dim_value = 8
    del model.graph.value_info[:]
    onnx.save(model, tmp_path / "b.onnx")
    for name, size in (("a", 6), ("b", 8), ("a", 6), ("b", 8)):
        session = InferenceSession(tmp_path / f"{name}.onnx")
        assert session.get_inputs()[0].shape == [1, 3, size, size]
        assert session.get_outputs()[0].shape == [1, 4, size, size]
        session.run(None, {"x": normal(1, 3, size, size)})
