"""``calib8 tengine-quant``: the options and the side files of Tengine's tool."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from json_output import load
from onnx import helper, numpy_helper
from PIL import Image
from tiny_models import cnn, save

import calib8
from calib8.analysis.lint import lint
from calib8.data.batches import batches
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess, apply_preprocess
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.model.taps import tapped_model
from calib8.passes.prepare import prepare
from small_models import onnx_model

IMAGES = ("-g", "3,16,16", "-w", "128,128,128", "-s", "0.015625,0.015625,0.015625")
PREPROCESS = Preprocess(
    size=(16, 16), filter="opencv-bilinear", mean=(128.0,) * 3, scale=(1 / 64,) * 3, color="rgb"
)


@pytest.fixture(autouse=True)
def here(out: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The side files go into the current folder."""
    monkeypatch.chdir(out)
    return out


@pytest.fixture
def with_softmax(tmp_path: Path) -> Path:
    """The tiny network with a Softmax at its end."""
    model = cnn()
    model.graph.node.append(helper.make_node("Softmax", ["scores"], ["prob"], name="softmax"))
    model.graph.output[0].name = "prob"
    return save(model, tmp_path / "softmax.onnx")


def scales(path: Path) -> dict[str, float]:
    """The lines of a .scale file, read with nothing but split."""
    lines = [line.split(" ") for line in path.read_text().splitlines()]
    assert all(line[2] == "0" and len(line) == 3 for line in lines)
    return {name: float(scale) for name, scale, _ in lines}


def results(model: Path) -> dict[str, str]:
    """What Tengine's converter calls a result → what the model does: Conv's name stands for what is fused."""
    nodes = onnx.load(model).graph.node
    found = {}
    for node in nodes:
        last = node.output[0] if node.op_type == "Conv" else ""
        while last:
            found[node.output[0]] = last
            behind = [other for other in nodes if last in other.input]
            fused = len(behind) == 1 and behind[0].op_type in ("BatchNormalization", "Relu")
            last = behind[0].output[0] if fused else ""
    return found


def largest(model: Path, images: Path) -> dict[str, tuple[float, int]]:
    """Tensor → largest magnitude over all images, and values per image, by the names of the converter."""
    original = load_model(model)
    specs = graph_inputs(original)
    samples = [b.inputs for b in batches(open_dataset(images, specs, PREPROCESS), 1, 1)]
    prepared = prepare(original, dict(samples[0])).model
    names = [v.name for node in prepared.graph for v in node.outputs]
    session = open_session(tapped_model(prepared, names), threads=1)
    seen = {name: [] for name in names}
    for feeds in samples:
        for name, value in zip(names, session.run(feeds), strict=True):
            seen[name].append(value)
    found = {name: (float(np.abs(np.stack(v)).max()), v[0].size) for name, v in seen.items()}
    inputs = np.stack([feeds[specs[0].name] for feeds in samples])
    own = {**found, specs[0].name: (float(np.abs(inputs).max()), inputs[0].size)}
    return own | {theirs: own[last] for theirs, last in results(model).items()}


def test_min_max_scales_are_those_of_the_largest_values(
    cli, with_softmax: Path, images: Path, out: Path
) -> None:
    result = cli("tengine-quant", "-m", with_softmax, "-i", images, "-o", "int8.onnx", "-a", "0", *IMAGES)
    assert result.exit_code == 0, result.output
    assert {p.name for p in out.iterdir()} == {
        "int8.onnx", "table_minmax.scale", "scale_weight.txt", "scale_bias.txt",
    }  # fmt: skip
    found, true = scales(out / "table_minmax.scale"), largest(with_softmax, images)
    assert found.pop("prob") == pytest.approx(1 / 127, rel=1e-7)
    assert len(found) >= 5
    for name, scale in found.items():
        assert scale == pytest.approx(true[name][0] / 127, rel=1e-6), name


def test_aciq_scales_follow_the_tool_s_formula(cli, model: Path, images: Path, out: Path) -> None:
    result = cli("tengine-quant", "-m", model, "-i", images, "-o", "int8.onnx", "-a", "2", *IMAGES)
    assert result.exit_code == 0, result.output
    found, true = scales(out / "table_aciq.scale"), largest(model, images)
    for name, scale in found.items():
        amax, values = true[name]
        sigma = 2 * amax * 0.540208362 / np.sqrt(2 * np.log(values))
        assert scale == pytest.approx(3.92403714 * sigma / 127, rel=1e-5), name


def test_kl_scales_are_those_of_the_tool_s_entropy(cli, model: Path, images: Path, out: Path) -> None:
    result = cli("tengine-quant", "-m", model, "-i", images, "-o", "int8.onnx", "-a", "1", *IMAGES)
    assert result.exit_code == 0, result.output
    table = calib8.calibrate(
        model, images, preprocess=PREPROCESS, method="entropy-tengine", activations="int8-symmetric"
    ).table
    found, true = scales(out / "table_kl.scale"), largest(model, images)
    own = {results(model).get(name, name): scale for name, scale in found.items()}
    assert own.keys() == table.entries.keys()
    assert own.keys() != found.keys()
    for name, scale in own.items():
        assert scale == pytest.approx(table.entries[name].range.magnitude / 127, rel=1e-6), name
    assert any(scale < 0.95 * true[name][0] / 127 for name, scale in found.items())


def test_scales_of_weights_and_biases(cli, model: Path, images: Path, out: Path) -> None:
    assert cli("tengine-quant", "-m", model, "-i", images, "-o", "int8.onnx", *IMAGES).exit_code == 0
    lines = [line.split() for line in (out / "scale_weight.txt").read_text().splitlines()]
    weights = {name: [float(scale) for scale in values] for name, *values in lines}
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in cnn().graph.initializer}
    assert set(weights) == {"w1", "w2", "w3"}
    for name, values in weights.items():
        per_channel = np.abs(constants[name]).reshape(len(values), -1).max(axis=1) / 127
        assert values == pytest.approx(per_channel.tolist(), rel=1e-6), name
    biases = {line.split()[0]: line.split()[1:] for line in (out / "scale_bias.txt").read_text().splitlines()}
    table = scales(out / "table_minmax.scale")
    assert [float(b) for b in biases["b1"]] == pytest.approx([w * table["image"] for w in weights["w1"]])


def test_dfq_equalizes_and_eq_chooses_scales_of_weights(cli, model: Path, images: Path, out: Path) -> None:
    found = {}
    for algorithm in ("0", "3", "4"):
        result = cli("tengine-quant", "-m", model, "-i", images, "-o", "int8.onnx", "-a", algorithm, *IMAGES)
        assert result.exit_code == 0, result.output
        lines = (out / "scale_weight.txt").read_text().splitlines()
        scales = {line.split()[0]: np.array(line.split()[1:], np.float32) for line in lines}
        found[algorithm] = scales, (out / "table_minmax.scale").read_text()
        coded = [
            numpy_helper.to_array(tensor)
            for tensor in onnx.load(out / "int8.onnx").graph.initializer
            if tensor.name.endswith("/codes/scale")
        ]
        for row in scales.values():
            alike = [array for array in coded if array.size == row.size]
            assert any(np.allclose(row, array.reshape(-1), rtol=1e-6, atol=0) for array in alike)
    plain, equalized, searched = (found[algorithm] for algorithm in ("0", "3", "4"))
    assert plain[1] == searched[1] != equalized[1]
    for other in (equalized[0], searched[0]):
        assert other.keys() == plain[0].keys()
        assert any(not np.array_equal(other[name], plain[0][name]) for name in plain[0])


def stored(model: onnx.ModelProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


def test_the_model_has_the_scales_of_the_table(cli, model: Path, images: Path, out: Path) -> None:
    options = ("-m", model, "-i", images, "-o", "int8.onnx", "-t", "1", *IMAGES)
    assert cli("tengine-quant", *options, "--json", "r.json").exit_code == 0
    assert not lint(out / "int8.onnx", "tengine")
    document = load(out / "r.json")
    assert document["algorithm"] == "min-max" and document["table"] is None
    assert document["preprocess"]["filter"] == "opencv-bilinear"
    assert document["files"] == ["table_minmax.scale", "scale_weight.txt", "scale_bias.txt"]
    first = {p.name: p.read_bytes() for p in out.iterdir() if p.suffix != ".json"}
    again = cli("tengine-quant", "-m", model, "-f", "table_minmax.scale", "-o", "again.onnx", *IMAGES)
    assert again.exit_code == 0, again.output
    old, new = (onnx.load(out / name) for name in ("int8.onnx", "again.onnx"))
    assert stored(old) | {"calib8.method": ""} == stored(new) | {"calib8.method": ""}, "all but the source"
    assert old.graph == new.graph
    assert (out / "scale_weight.txt").read_bytes() == first["scale_weight.txt"]
    assert (out / "table_minmax.scale").read_bytes() == first["table_minmax.scale"]


def test_evaluating_shows_every_layer(cli, model: Path, images: Path) -> None:
    result = cli("tengine-quant", "-m", model, "-i", images, "-o", "int8.onnx", "-z", "1", *IMAGES)
    assert result.exit_code == 0, result.output
    for layer in ("conv1", "conv2", "gemm"):
        assert f"\n{layer} " in result.output
    assert "local cosine" in result.output


def test_the_default_mean_is_told_to_be_that_of_bgr(cli, model: Path, images: Path) -> None:
    base = ("tengine-quant", "-m", model, "-i", images, "-o", "int8.onnx")
    assert "note: the default mean 104,117,123 is in the order of BGR" in cli(*base).output
    assert "note: the default mean" not in cli(*base, "-b", "0").output
    assert "note: the default mean" not in cli(*base, *IMAGES).output


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("options", "code", "parts"),
    [
        (("-m", "net.tmfile", "-i", "x", "-o", "o.onnx"), 1, ("net.tmfile", "no such file")),
        (
            ("-m", "n.onnx", "-i", "x", "-o", "o.tmfile"),
            2,
            ("-o o.tmfile", "n.onnx is none", "an .onnx file"),
        ),
        (("-m", "n.onnx", "-o", "o.onnx"), 2, ("-i", "images are missing", "-f")),
        (("-m", "n.onnx", "-o", "o.onnx", "-f", "t.scale", "-z", "1"), 2, ("-i", "missing")),
        (("-m", "n.onnx", "-i", "x", "-o", "o.onnx", "-a", "5"), 2, ("-a 5", "unknown algorithm")),
        (("-m", "n.onnx", "-i", "x", "-o", "o.onnx", "-z", "8"), 2, ("-z 8", "neither 0 nor 1")),
        (("-m", "n.onnx", "-i", "x", "-o", "o.onnx", "-t", "0"), 2, ("-t 0", "at least 1")),
        (("-m", "n.onnx", "-i", "x", "-o", "table_minmax.scale"), 2, ("the table of scales", "same file")),
        (("-m", "n.onnx", "-i", "x", "-o", "o.onnx"), 1, ("n.onnx", "no such file")),
    ],
)
def test_what_cannot_be_done_is_refused(cli, refused, options, code: int, parts) -> None:
    refused(cli("tengine-quant", *options), code, *parts)


def test_a_table_of_another_model_is_refused(cli, refused, model: Path, out: Path) -> None:
    (out / "t.scale").write_text("data 0.02 0\n")
    result = cli("tengine-quant", "-m", model, "-f", "t.scale", "-o", "o.onnx", *IMAGES)
    refused(result, 1, "'data'")
    assert [p.name for p in out.iterdir()] == ["t.scale"]


def test_focus_feeds_four_pixels_as_one(cli, tmp_path: Path, images: Path, out: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((4, 12, 3, 3)).astype(np.float32)
    body = "y = Conv(image, w)"
    path = save(
        onnx_model("float[1,12,8,8] image", "float[1,4,6,6] y", body, {"w": weight}), tmp_path / "f.onnx"
    )
    options = ("-w", "0,0,0", "-s", "1,1,1", "-k", "1", "-y", "16,16", "-a", "0")
    base = ("tengine-quant", "-m", path, "-i", images, *options, "--json", out / "f.json")
    result = cli(*base, "-g", "12,8,8", "-o", out / "q.onnx")
    assert result.exit_code == 0, result.output
    document = load(out / "f.json")["preprocess"]
    assert document["focus"] is True and document["size"] == [16, 16] and document["resize"] == "letterbox"
    padded = [whole_pixels(file) for file in sorted(images.rglob("*.png"))]
    fed = np.concatenate([four_to_one(pixels) for pixels in padded])
    assert fed.shape == (6, 12, 8, 8)
    session = open_session(load_model(path))
    outputs = np.concatenate([session.run({"image": image[None]})[0] for image in fed])
    found = scales(out / "table_minmax.scale")
    assert found["image"] == pytest.approx(np.abs(fed).max() / 127, rel=1e-6)
    assert found["y"] == pytest.approx(np.abs(outputs).max() / 127, rel=1e-5)
    assert cli(*base, "-g", "12,8,8", "-o", out / "p.onnx", "-b", "0").exit_code == 0
    assert scales(out / "table_minmax.scale")["y"] != found["y"], "-b 0 feeds BGR"


def whole_pixels(file: Path) -> np.ndarray:
    """An image of 16 columns letterboxed into 16 × 16, as channels first, 0.5 around it."""
    plain = Preprocess(size=(16, 16), resize="letterbox", filter="opencv-bilinear")
    with Image.open(file) as image:
        return apply_preprocess(image, plain)


def four_to_one(pixels: np.ndarray) -> np.ndarray:
    """[3, 16, 16] → [1, 12, 8, 8]: upper left, lower left, upper right, lower right of every four."""
    parts = [pixels[:, row::2, column::2] for column in range(2) for row in range(2)]
    return np.concatenate(parts)[None]
