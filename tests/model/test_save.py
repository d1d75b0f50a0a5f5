"""Saving: the round trip, one file where it fits, external data beside it where it does not."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest

from calib8.cli.outputs import model_bytes_on_disk
from calib8.errors import OutputError
from calib8.model import save
from calib8.model.graph import model_hash
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.model.save import constant_bytes, model_bytes, save_model
from small_models import normal, onnx_model, relative_difference, run

FEEDS = {"x": normal(1, 3, 8, 8, seed=5)}


def small_model() -> onnx.ModelProto:
    weights = {"w": normal(4, 3, 3, 3), "v": normal(4, 4, 3, 3)}
    body = "c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c) y = Conv(r, v)"
    return onnx_model("float[N,3,8,8] x", "float[N,4,6,6] y", body, weights)


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run_file(path: Path) -> list[object]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return list(session.run(None, FEEDS))


def test_the_round_trip_changes_nothing(tmp_path: Path) -> None:
    model = load_model(small_model())
    save_model(model, tmp_path / "net.onnx")
    again = load_model(tmp_path / "net.onnx")
    assert model_hash(again) == model_hash(model)
    assert model_bytes(again) == model_bytes(model) == (tmp_path / "net.onnx").read_bytes()
    assert listing(tmp_path) == ["net.onnx"]


def test_the_size_of_the_constants_is_counted() -> None:
    assert constant_bytes(load_model(small_model())) == 4 * (4 * 3 * 9 + 4 * 4 * 9)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save, "PROTOBUF_LIMIT", 100)


@pytest.mark.usefixtures("everything_is_large")
def test_a_large_model_gets_a_data_file_under_its_own_name(tmp_path: Path) -> None:
    proto = small_model()
    model = load_model(proto)
    before = model_hash(model)
    save_model(model, tmp_path / "net.onnx")
    assert listing(tmp_path) == ["net.onnx", "net.onnx.data"]
    assert (tmp_path / "net.onnx").stat().st_size < 1000
    stored = onnx.load(tmp_path / "net.onnx", load_external_data=False).graph.initializer
    locations = {
        entry.value for tensor in stored for entry in tensor.external_data if entry.key == "location"
    }
    assert locations == {"net.onnx.data"}
    onnx.checker.check_model(str(tmp_path / "net.onnx"))
    assert model_hash(load_model(tmp_path / "net.onnx")) == before == model_hash(model)
    assert relative_difference(run(proto, FEEDS), run_file(tmp_path / "net.onnx")) < 1e-6


@pytest.mark.usefixtures("everything_is_large")
def test_a_large_model_can_replace_the_files_it_came_from(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    save_model(load_model(small_model()), path)
    model = load_model(path)
    save_model(model, path)
    assert model_hash(load_model(path)) == model_hash(load_model(small_model()))
    assert listing(tmp_path) == ["net.onnx", "net.onnx.data"]


@pytest.mark.usefixtures("everything_is_large")
def test_a_large_model_runs() -> None:
    proto = small_model()
    session = open_session(load_model(proto), threads=1)
    assert relative_difference(run(proto, FEEDS), session.run(FEEDS)) < 1e-6


@pytest.mark.usefixtures("everything_is_large")
def test_a_failure_leaves_both_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.onnx"
    save_model(load_model(small_model()), path)
    before = {name: (tmp_path / name).read_bytes() for name in listing(tmp_path)}

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(save, "_rename_external_data", fail)
    with pytest.raises(OutputError, match="No space left"):
        save_model(load_model(small_model()), path)
    assert {name: (tmp_path / name).read_bytes() for name in listing(tmp_path)} == before


def test_constants_from_a_data_file_are_stored_inside(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.mkdir()
    target.mkdir()
    proto = small_model()
    onnx.save(proto, source / "net.onnx", save_as_external_data=True, location="d", size_threshold=0)
    model = load_model(source / "net.onnx")
    save_model(model, target / "net.onnx")
    assert listing(target) == ["net.onnx"]
    for path in source.iterdir():
        path.unlink()
    assert relative_difference(run(small_model(), FEEDS), run_file(target / "net.onnx")) < 1e-6


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        save_model(load_model(small_model()), tmp_path / "missing" / "net.onnx")


def test_what_protobuf_cannot_hold_is_an_output_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class TooLarge:
        def SerializeToString(self, deterministic: bool) -> bytes:  # noqa: N802
            raise ValueError(f"exceeds maximum protobuf size {deterministic}")

    monkeypatch.setattr(save.ir, "to_proto", lambda _: TooLarge())
    with pytest.raises(OutputError, match="exceeds maximum protobuf size"):
        model_bytes(load_model(small_model()))


@pytest.mark.usefixtures("everything_is_large")
def test_constants_lie_beside_the_file_that_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link.onnx").symlink_to("far/net.onnx")
    save_model(load_model(small_model()), tmp_path / "link.onnx")
    assert (tmp_path / "link.onnx").is_symlink() and listing(tmp_path) == ["far", "link.onnx"]
    assert listing(tmp_path / "far") == ["net.onnx", "net.onnx.data"]
    real = tmp_path / "far" / "net.onnx"
    assert model_hash(load_model(real)) == model_hash(load_model(small_model()))
    assert model_bytes_on_disk(tmp_path / "link.onnx") == sum(
        file.stat().st_size for file in (real, real.with_name("net.onnx.data"))
    )
