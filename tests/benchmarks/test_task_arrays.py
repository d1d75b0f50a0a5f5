"""Networks that take no pictures: the bytes of files, films, and the network that finds their shots."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

import task_arrays
import task_networks
import task_transnet


def test_the_ends_of_a_file() -> None:
    short = task_arrays.ends_of(b"  \n ab c \n")
    assert short[:4].tolist() == [97, 98, 32, 99]
    assert short[-6:].tolist() == [32, 10, 32, 97, 98, 32, 99][1:] and short[6] == short[2039] == 256
    long = bytes(range(256)) * 40
    found = task_arrays.ends_of(long)
    assert found.dtype == np.int32 and found.shape == (2048,)
    assert found[0] == long.lstrip()[0] and found[-1] == 255 and found.max() == 255


def test_files_go_to_one_part_and_few_are_of_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as wheel:
        for number in range(100):
            wheel.writestr(f"a{number}.txt", f"this is the text with number {number}")
        wheel.writestr("again.md", "this is the text with number 3")
        wheel.writestr("tiny.c", "short")
    (tmp_path / "package.whl").write_bytes(content.getvalue())
    monkeypatch.setattr(task_arrays.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path / "none")})
    first, second = task_arrays.files(tmp_path, [40, task_arrays.OF_A_KIND - 40])
    assert len(np.unique(np.concatenate([first, second]), axis=0)) == task_arrays.OF_A_KIND
    again = task_arrays.files(tmp_path, [40, 20])
    np.testing.assert_array_equal(again[0], first)
    with pytest.raises(SystemExit, match="are needed"):
        task_arrays.files(tmp_path, [40, 21])


def test_films_have_cuts_and_are_the_same_every_time(tmp_path: Path) -> None:
    files = []
    for number, colour in enumerate(("red", "lime", "blue", "white")):
        files.append(tmp_path / f"{number}.png")
        Image.new("RGB", (90, 60), colour).save(files[-1])
    found = task_arrays.shots(files, 6, np.random.default_rng(3))
    assert found.shape == (6, 3, 20, 27, 48) and found.dtype == np.int16
    assert found.min() >= 0 and found.max() == 255
    changes = np.abs(np.diff(found.astype(np.int64), axis=2)).mean(axis=(1, 3, 4)) > 20
    assert changes.any() and np.all(changes.sum(axis=1) <= 12)
    np.testing.assert_array_equal(found, task_arrays.shots(files, 6, np.random.default_rng(3)))


def silent_weights() -> dict[str, np.ndarray]:
    """Weights of TransNet V2 with which the next frame's colours alone decide."""
    made: dict[str, np.ndarray] = {}
    inputs = 3
    for block, filters in enumerate((16, 32, 64)):
        for layer in range(2):
            name = f"SDDCNN.{block}.DDCNN.{layer}"
            for frames in task_transnet.DILATIONS:
                made[f"{name}.Conv3D_{frames}.layers.0.weight"] = np.zeros((2 * filters, inputs, 1, 3, 3))
                made[f"{name}.Conv3D_{frames}.layers.1.weight"] = np.zeros((filters, 2 * filters, 3, 1, 1))
            for part, value in (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1)):
                made[f"{name}.bn.{part}"] = np.full(4 * filters, value)
            inputs = 4 * filters
    made |= {"frame_sim_layer.projection.weight": np.zeros((128, 448)), "fc1.weight": np.zeros((1024, 4864))}
    made |= {"frame_sim_layer.projection.bias": np.ones(128), "fc1.bias": np.zeros(1024)}
    for name in ("frame_sim_layer.fc", "color_hist_layer.fc"):
        made |= {f"{name}.weight": np.zeros((128, 101)), f"{name}.bias": np.zeros(128)}
    made |= {"cls_layer1.weight": np.zeros((1, 1024)), "cls_layer1.bias": np.zeros(1)}
    made["color_hist_layer.fc.weight"][0, 51] = made["fc1.weight"][0, 0] = made["cls_layer1.weight"][0, 0] = 1
    return {name: np.asarray(array, np.float32) for name, array in made.items()}


def test_colours_of_a_frame_are_compared_with_those_of_the_next() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (1, 3, 5, 27, 48))
    frames[:, :, 1] = frames[:, :, 0]
    frames[:, 0, 2] = 255 - frames[:, 0, 2]
    model = task_transnet.trans_net(silent_weights(), frames=5)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    [found] = session.run(None, {"frames": frames.astype(np.float32)})
    bins = (frames[0] >> 5).transpose(1, 0, 2, 3) * np.array([64, 8, 1]).reshape(1, 3, 1, 1)
    counts = np.stack([np.bincount(one.sum(axis=0).reshape(-1), minlength=512) for one in bins]).astype(float)
    unit = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    near = np.r_[np.sum(unit[:-1] * unit[1:], axis=1), 0.0]
    assert found.shape == (1, 1, 5, 1)
    np.testing.assert_allclose(found.reshape(-1), 1 / (1 + np.exp(-near)), rtol=1e-5)
    assert [one.op_type for one in onnx.load_from_string(model).graph.node].count("Conv") == 48


def test_arrays_lie_in_one_file_for_each_part() -> None:
    places = task_networks.Places(Path("nets"), Path("data"), Path("archives"))
    for name in ("magika", "transnet"):
        found = task_networks.describe(name, places)
        assert found["calibration"].endswith("calibration.npz") and found["evaluation"].endswith("judged.npz")
