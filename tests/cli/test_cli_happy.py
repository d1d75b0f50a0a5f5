"""Every command does what it says, and its files and figures are right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from json_output import load
from tiny_models import FLAGS, cnn, save

from calib8 import __version__
from calib8.demo import HELDOUT_PATH, MODEL_PATH


def test_version_and_help(cli) -> None:
    result = cli("--version")
    assert (result.exit_code, result.stdout) == (0, f"calib8 {__version__}\n")
    listed = cli("--help").stdout
    assert all(name in listed for name in ("demo", "quantize", "calibrate", "evaluate", "run", "inspect"))
    assert cli("-h").stdout == listed


def test_demo(cli, out: Path) -> None:
    result = cli("demo", "--output", out / "new" / "demo")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    made = out / "new" / "demo"
    assert sorted(path.name for path in made.iterdir()) == [
        "digits-evaluation.json", "digits-fp32.onnx", "digits-int8.onnx", "digits-table.json",
    ]  # fmt: skip
    assert all(str(path) in result.stdout for path in made.iterdir())
    assert (made / "digits-fp32.onnx").read_bytes() == MODEL_PATH.read_bytes()
    float_figures, int8_figures = load(made / "digits-evaluation.json")["models"]
    assert float_figures["images"] == int8_figures["images"] == 500
    assert float_figures["top1"] > 0.95
    assert int8_figures["top1"] > float_figures["top1"] - 0.01
    assert f"{100 * int8_figures['top1']:.2f}" in result.stdout
    assert "7 of 7 Conv quantized" in result.stdout
    again = cli("evaluate", made / "digits-fp32.onnx", made / "digits-int8.onnx", "--data", HELDOUT_PATH)
    assert again.exit_code == 0, again.output
    assert f"{int8_figures['sqnr_db']:.2f}" in again.stdout
    named = f"{made / 'digits-fp32.onnx'} {made / 'digits-int8.onnx'}"
    assert f"\nnext       calib8 benchmark {named}\n" in again.stdout


def test_quantize_from_images(cli, model: Path, images: Path, out: Path) -> None:
    result = cli("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx", "--table", out / "t.json",
                 "--json", out / "r.json")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "input 'image', 6 samples: observed " in result.stdout
    assert "mean and scale allow -2 … 1.984" in result.stdout
    assert "FP32 top-1 on these 6 samples" in result.stdout
    assert "2 of 2 Conv quantized" in result.stdout
    assert str(out / "q.onnx") in result.stdout and str(out / "t.json") in result.stdout
    onnx.checker.check_model(out / "q.onnx", full_check=True)
    report = load(out / "r.json")
    assert report["bytes"] == {"float": model.stat().st_size, "quantized": (out / "q.onnx").stat().st_size}
    assert report["calibration"]["samples"] == 6
    assert report["calibration"]["tensors"] == len(load(out / "t.json")["tensors"])
    assert report["metadata"]["target"] == "onnxruntime"
    assert {node["node"]: node["quantized"] for node in report["nodes"]}["conv1"] is True
    assert report["preflight"]["inputs"][0]["implied"] == [[-2.0, 127 / 64]] * 3


def test_order_of_flags_batch_and_threads_change_no_byte(cli, model: Path, images: Path, out: Path) -> None:
    cli("calibrate", model, "--data", images, *FLAGS, "-o", out / "a.json", "--threads", 1)
    cli("calibrate", "-o", out / "b.json", "--batch", 4, "--threads", 2, *FLAGS, "--data", images, model)
    assert (out / "a.json").read_bytes() == (out / "b.json").read_bytes()


def test_a_table_gives_the_model_of_its_data(cli, model: Path, images: Path, out: Path) -> None:
    plain = (*FLAGS, "--repair", "none")
    made = cli("quantize", model, "--data", images, *plain, "-o", out / "a.onnx", "--table", out / "t.json")
    assert made.exit_code == 0, made.output
    calibrated = cli("calibrate", model, "--data", images, *FLAGS, "-o", out / "c.json")
    assert calibrated.exit_code == 0, calibrated.output
    assert (out / "t.json").read_bytes() == (out / "c.json").read_bytes()
    again = cli(
        "quantize", model, "--table", out / "t.json", *FLAGS, "-o", out / "b.onnx", "--json", out / "r.json"
    )
    assert again.exit_code == 0, again.output
    assert "2 of 2 Conv quantized" in again.stdout
    assert load(out / "r.json")["calibration"] is None
    # Only the image size differs: without images it is left to the model.
    first, second = onnx.load(out / "a.onnx"), onnx.load(out / "b.onnx")
    for proto in (first, second):
        del proto.metadata_props[:]
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)


def test_evaluate_needs_no_flag_again(cli, model: Path, images: Path, out: Path) -> None:
    flags = (
        "--mean",
        "120,110,100",
        "--scale",
        "0.02",
        "--color",
        "bgr",
        "--resize",
        "short-side",
        "--crop",
        "0.8",
    )
    assert cli("quantize", model, "--data", images, *flags, "-o", out / "q.onnx").exit_code == 0
    models = (model, out / "q.onnx")
    plain = cli("evaluate", *models, "--data", images, "--json", out / "plain.json")
    assert plain.exit_code == 0, plain.output
    explicit = cli("evaluate", *models, "--data", images, *flags, "--json", out / "explicit.json")
    assert explicit.exit_code == 0, explicit.output
    other = cli("evaluate", *models, "--data", images, "--mean", "0", "--json", out / "other.json")
    assert other.exit_code == 0, other.output
    figures = {}
    for name in ("plain", "explicit", "other"):
        figures[name] = load(out / f"{name}.json")["models"]
        assert [entry.pop("seconds") > 0 for entry in figures[name]] == [True, True]
    assert figures["plain"] == figures["explicit"]
    assert figures["plain"] != figures["other"]
    assert cli("run", out / "q.onnx", "--data", images / "a" / "0.png").exit_code == 0


def test_evaluate_writes_this_json(cli, model: Path, images: Path, out: Path) -> None:
    result = cli("evaluate", model, "--data", images, *FLAGS, "--json", out / "e.json", "--samples", 4)
    assert result.exit_code == 0, result.output
    [entry] = load(out / "e.json")["models"]
    keys = ["model", "runtime", "images", "top1", "top5", "agreement", "sqnr_db", "branches", "seconds"]
    keys += ["warnings", "failure", "verdict", "task"]
    assert list(entry) == keys
    assert entry["model"] == str(model)
    assert entry["runtime"] == "onnxruntime"
    assert entry["images"] == 4
    assert 0 <= entry["top1"] <= entry["top5"] == 1
    assert entry["agreement"] is None and entry["sqnr_db"] is None
    assert entry["seconds"] > 0


def test_evaluate_without_labels_knows_no_top1(cli, model: Path, images: Path, out: Path) -> None:
    result = cli("evaluate", model, "--data", images / "a", *FLAGS, "--json", out / "e.json")
    assert result.exit_code == 0, result.output
    [entry] = load(out / "e.json")["models"]
    assert entry["top1"] is None and entry["top5"] is None


def test_evaluate_in_openvino(cli, model: Path, images: Path, out: Path) -> None:
    assert (
        cli(
            "quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx", "--target", "openvino"
        ).exit_code
        == 0
    )
    result = cli(
        "evaluate", model, out / "q.onnx", "--data", images, "--runtime", "openvino", "--json", out / "e.json"
    )
    assert result.exit_code == 0, result.output
    first, second = load(out / "e.json")["models"]
    assert first["runtime"] == second["runtime"] == "openvino"
    assert second["sqnr_db"] > 15


def test_labels_from_a_list(cli, model: Path, images: Path, tmp_path: Path, out: Path) -> None:
    listed = tmp_path / "mine.txt"
    listed.write_text("".join(f"{'ab'[index % 2]}/{index}.png {index % 5}\n" for index in range(6)))
    result = cli("evaluate", model, "--data", images, *FLAGS, "--labels", listed, "--json", out / "e.json")
    assert result.exit_code == 0, result.output
    scores = best_classes(model, images)
    expected = np.mean([best == index % 5 for index, best in enumerate(scores)])
    assert load(out / "e.json")["models"][0]["top1"] == pytest.approx(expected)


def best_classes(model: Path, images: Path) -> list[int]:
    """Class of images 0 … 5, with preprocessing done here."""
    from PIL import Image

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    found = []
    for index in range(6):
        image = Image.open(images / "ab"[index % 2] / f"{index}.png").resize(
            (16, 16), Image.Resampling.BILINEAR
        )
        values = (np.asarray(image, np.float32) - np.float32(128)) * np.float32(1 / 64)
        [scores] = session.run(None, {"image": values.transpose(2, 0, 1)[None]})
        found.append(int(np.argmax(scores)))
    return found


def test_run_shows_the_best_classes(cli, model: Path, images: Path, out: Path) -> None:
    result = cli("run", model, "--data", images, *FLAGS, "--top", 2, "--json", out / "r.json")
    assert result.exit_code == 0, result.output
    entries = {entry["image"]: entry for entry in load(out / "r.json")["results"]}
    for index, best in enumerate(best_classes(model, images)):
        name = f"{'ab'[index % 2]}/{index}.png"
        entry = entries[name]
        assert entry["classes"][0] == best
        assert len(entry["classes"]) == len(entry["scores"]) == 2
        assert entry["scores"] == sorted(entry["scores"], reverse=True)
        line = next(line for line in result.stdout.splitlines() if line.startswith(name))
        assert line.split()[1:4] == [f"{best}:", f"{entry['scores'][0]:.4g}", f"{entry['classes'][1]}:"]


def test_run_shows_figures_where_there_are_no_scores(cli, images: Path, tmp_path: Path, out: Path) -> None:
    proto = cnn()
    del proto.graph.node[3:]
    proto.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("maps", onnx.TensorProto.FLOAT, None))
    path = save(proto, tmp_path / "maps.onnx")
    result = cli("run", path, "--data", images / "a" / "0.png", *FLAGS, "--json", out / "r.json")
    assert result.exit_code == 0, result.output
    [entry] = load(out / "r.json")["results"]
    assert (entry["image"], entry["output"], entry["shape"]) == ("0.png", "maps", [1, 6, 14, 14])
    assert entry["minimum"] < entry["mean"] < entry["maximum"]
    assert "1×6×14×14" in result.stdout


def test_inspect_float_and_quantized(cli, model: Path, images: Path, out: Path) -> None:
    result = cli("inspect", model, "--json", out / "float.json")
    assert result.exit_code == 0, result.output
    found = load(out / "float.json")
    assert (found["kind"], found["opset"], found["ops"]["Conv"]) == ("float", 17, 2)
    assert "conv1" in result.stdout
    assert cli("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx").exit_code == 0
    result = cli("inspect", out / "q.onnx", "--target", "onnxruntime", "--json", out / "q.json")
    assert result.exit_code == 0, result.output
    found = load(out / "q.json")
    assert (found["kind"], found["violations"]) == ("quantized", [])
    assert found["metadata"]["target"] == "onnxruntime"
    assert "0 violations" in result.stdout


def test_inspect_ends_with_1_where_rules_are_broken(cli, model: Path, images: Path, out: Path) -> None:
    assert cli("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx").exit_code == 0
    result = cli("inspect", out / "q.onnx", "--target", "tensorrt", "--json", out / "q.json")
    assert result.exit_code == 1
    violations = load(out / "q.json")["violations"]
    assert violations
    assert all(entry["node"] and entry["rule"] and entry["cure"] for entry in violations)
    assert f"{len(violations)} violations" in result.stdout


def test_keep_float_is_told(cli, model: Path, images: Path, out: Path) -> None:
    result = cli("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx", "--keep-float", "conv2")
    assert result.exit_code == 0, result.output
    assert "1 of 2 Conv quantized; 1 float because the user keeps it in float" in result.stdout
    macs = {"conv1": 16 * 16 * 4 * 3 * 9, "conv2": 14 * 14 * 6 * 4 * 9, "gemm": 5 * 6}
    share = f"{100 * macs['conv2'] / sum(macs.values()):.2f} %"
    [line] = [one for one in result.output.splitlines() if one.startswith("in float ")]
    told = line.removeprefix("in float").strip()
    assert told.startswith(f"{share} of the multiply-accumulates: conv2 {share} (")


@pytest.mark.parametrize("method", [("minmax",), ("mse",), ("entropy",), ("percentile", "--percent", "99.9")])
def test_every_method(cli, model: Path, images: Path, out: Path, method: tuple[str, ...]) -> None:
    files = ("--data", images, "-o", out / "t.json", "--json", out / "r.json")
    result = cli("calibrate", model, *files, *FLAGS, "--method", *method)
    assert result.exit_code == 0, result.output
    [used] = load(out / "r.json")["calibration"]["methods"]
    assert used == ("percentile 99.9" if len(method) > 1 else method[0])


@pytest.mark.parametrize(
    "target", ["onnxruntime", "calib8", "openvino", "tflite", "tensorrt", "tengine", "ncnn"]
)
def test_every_target(cli, model: Path, images: Path, out: Path, target: str) -> None:
    result = cli("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx", "--target", target)
    assert result.exit_code == 0, result.output
    assert cli("inspect", out / "q.onnx", "--target", target).exit_code == 0
    session = onnxruntime.InferenceSession(out / "q.onnx", providers=["CPUExecutionProvider"])
    [scores] = session.run(None, {"image": np.zeros((2, 3, 16, 16), np.float32)})
    assert scores.shape == (2, 5) and np.isfinite(scores).all()


@pytest.mark.parametrize(
    "arguments",
    [
        ("quantize", "{model}", "--data", "{images}", *FLAGS, "-o", "{out}/q.onnx"),
        ("calibrate", "{model}", "--data", "{images}", *FLAGS, "-o", "{out}/t.json"),
        ("evaluate", "{model}", "--data", "{images}", *FLAGS, "--json", "{out}/e.json"),
        ("run", "{model}", "--data", "{images}", *FLAGS, "--json", "{out}/r.json"),
        ("inspect", "{model}", "--json", "{out}/i.json"),
        pytest.param(("demo", "--output", "{out}"), marks=pytest.mark.slow),
    ],
    ids=lambda arguments: arguments[0],
)
def test_quiet_prints_nothing(cli, model: Path, images: Path, out: Path, arguments: tuple[str, ...]) -> None:
    filled = [text.format(model=model, images=images, out=out) for text in arguments]
    result = cli(*filled, "--quiet")
    assert result.exit_code == 0, result.output
    assert result.output == ""
    assert list(out.iterdir())


def test_strange_file_names_are_shown_as_they_are(cli, images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a [bold]b ü 数 :smile:"
    folder.mkdir()
    model = save(cnn(), folder / "m [red] 模型.onnx")
    images = images.rename(folder / "pictures [x]")
    (images / "a" / "0.png").rename(images / "a" / "[i]0 é.png")
    made = cli(
        "quantize",
        model,
        "--data",
        images,
        *FLAGS,
        "-o",
        folder / "q [b].onnx",
        "--table",
        folder / "t [u].json",
    )
    assert made.exit_code == 0, made.output
    assert str(folder / "q [b].onnx") in made.stdout and str(folder / "t [u].json") in made.stdout
    evaluated = cli("evaluate", model, folder / "q [b].onnx", "--data", images)
    assert str(model) in evaluated.stdout and str(folder / "q [b].onnx") in evaluated.stdout
    ran = cli("run", folder / "q [b].onnx", "--data", images)
    assert "a/[i]0 é.png  " in ran.stdout
    assert str(model) in cli("inspect", model).stdout


def test_all_zero_and_constant_tensors_work(cli, model: Path, tmp_path: Path, out: Path) -> None:
    for value in (0, 1):
        data = tmp_path / f"{value}.npz"
        np.savez(data, image=np.full((4, 3, 16, 16), value, np.float32))
        table = out / f"{value}.json"
        result = cli("quantize", model, "--data", data, "-o", out / "q.onnx", "--table", table)
        assert result.exit_code == 0, result.output
        assert "warning: input 'image': all channels are constant" in result.stdout
        entries = load(table)["tensors"]
        assert entries["image"]["range"] == {"min": 0.0, "max": float(value)}
        for initializer in onnx.load(out / "q.onnx").graph.initializer:
            array = onnx.numpy_helper.to_array(initializer)
            assert np.isfinite(array.astype(np.float64)).all()
        session = onnxruntime.InferenceSession(out / "q.onnx", providers=["CPUExecutionProvider"])
        [scores] = session.run(None, {"image": np.full((1, 3, 16, 16), value, np.float32)})
        assert np.isfinite(scores).all()


def test_presets_are_a_starting_point(cli, model: Path, images: Path, out: Path) -> None:
    files = ("--data", images, "-o", out / "q.onnx", "--json", out / "r.json")
    flags = ("--preprocess", "torchvision", "--resize-to", 20, "--filter", "bicubic")
    result = cli("quantize", model, *files, *flags)
    assert result.exit_code == 0, result.output
    stored = json.loads(load(out / "r.json")["metadata"]["preprocess"])
    assert (stored["resize"], stored["crop"], stored["resize_to"]) == ("short-side", None, [20, 20])
    assert (stored["filter"], stored["mean"], stored["size"]) == (
        "bicubic",
        [123.675, 116.28, 103.53],
        [16, 16],
    )


def test_flags_that_images_do_not_need_are_told(cli, model: Path, tmp_path: Path, out: Path) -> None:
    data = tmp_path / "d.npz"
    np.savez(data, image=np.random.default_rng(0).normal(size=(3, 3, 16, 16)).astype(np.float32))
    result = cli("calibrate", model, "--data", data, "--mean", "1", "-o", out / "t.json")
    assert result.exit_code == 0, result.output
    assert "warning: the data are arrays, not images: the preprocessing flags change nothing" in result.stdout


def test_quiet_lowers_nothing_to_say_nothing(
    cli, model: Path, images: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def summary(_: object) -> str:
        asked.append(1)
        return "told"

    monkeypatch.setattr("calib8.outcomes.Quantization.summary", summary)
    command = ("quantize", model, "--data", images, *FLAGS, "--effort", "fast", "-o", out / "q.onnx")
    assert cli(*command, "--quiet").output == "" and not asked
    assert "told\n" in cli(*command).stdout and asked
