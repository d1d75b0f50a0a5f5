"""Bad input ends with one line that names what is wrong and what to do, and leaves no file behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tiny_models import FLAGS, cnn, save

import calib8
from calib8.demo import CALIBRATION_PATH
from calib8.errors import UsageError
from small_models import onnx_model

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_no_onnx_file(cli, refused, images: Path, tmp_path: Path, out: Path) -> None:
    path = tmp_path / "notes.onnx"
    path.write_text("these are my notes")
    for command in ("quantize", "calibrate"):
        result = cli(command, path, "--data", images, *FLAGS, "-o", out / "result.v2")
        refused(result, 1, "notes.onnx: is not an ONNX model", "Export or download the model again.")
    refused(cli("inspect", path), 1, "notes.onnx")
    refused(cli("evaluate", path, "--data", images, *FLAGS), 1, "notes.onnx: is not an ONNX model")
    refused(cli("run", path, "--data", images, *FLAGS), 1, "notes.onnx: is not an ONNX model")


def test_missing_model(cli, refused, images: Path, tmp_path: Path, out: Path) -> None:
    path = tmp_path / "nowhere.onnx"
    for command in ("quantize", "calibrate"):
        result = cli(command, path, "--data", images, *FLAGS, "-o", out / "result.v2")
        refused(result, 1, "nowhere.onnx: no such file. Give the path of an .onnx, .tflite or .tmfile.")
    for command in ("evaluate", "run"):
        refused(cli(command, path, "--data", images, *FLAGS), 1, "nowhere.onnx: no such file")
    refused(cli("inspect", path), 1, "nowhere.onnx: no such file")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_file(cli, refused, model: Path, images: Path, out: Path, share: float) -> None:
    content = model.read_bytes()
    model.write_bytes(content[: int(share * len(content))])
    result = cli("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx")
    refused(result, 1, "tiny.onnx", "again")


def test_missing_external_data(cli, refused, images: Path, tmp_path: Path, out: Path) -> None:
    path = tmp_path / "big.onnx"
    onnx.save(cnn(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    result = cli("quantize", path, "--data", images, *FLAGS, "-o", out / "q.onnx")
    refused(result, 1, "big.onnx", "'weights.bin'", "'w1'", "Keep the external data file beside the model")
    refused(cli("evaluate", path, "--data", images, *FLAGS), 1, "big.onnx", "weights.bin")


@pytest.mark.parametrize("opset", [6, 99])
def test_unsupported_opset(cli, refused, images: Path, tmp_path: Path, out: Path, opset: int) -> None:
    path = save(cnn(opset=opset), tmp_path / "odd.onnx")
    result = cli("quantize", path, "--data", images, *FLAGS, "-o", out / "q.onnx")
    refused(result, 1, f"odd.onnx: uses operator set {opset}", "Export it with another opset_version")


def test_model_without_layers(cli, refused, images: Path, tmp_path: Path, out: Path) -> None:
    proto = cnn()
    relu = helper.make_node("Relu", ["image"], ["scores"], name="relu")
    del proto.graph.node[:], proto.graph.initializer[:]
    proto.graph.node.append(relu)
    proto.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, [None] * 4)
    )
    path = save(proto, tmp_path / "relu.onnx")
    for command in ("quantize", "calibrate"):
        result = cli(command, path, "--data", images, *FLAGS, "-o", out / "result.v2")
        refused(
            result,
            1,
            "relu.onnx: has no convolution, matrix product",
            "Give a float32 network of such layers.",
        )


def test_a_quantized_model_is_not_quantized_again(
    cli, refused, model: Path, images: Path, tmp_path: Path, out: Path
) -> None:
    once = tmp_path / "once.onnx"
    assert cli("quantize", model, "--data", images, *FLAGS, "-o", once).exit_code == 0
    result = cli("quantize", once, "--data", images, *FLAGS, "-o", out / "twice.onnx")
    refused(result, 1, "once.onnx: holds", "it is quantized already", "Give the float model.")
    result = cli("quantize", once, "--data", images, "-o", out / "twice.onnx")  # not for the preprocessing
    refused(result, 1, "once.onnx: holds", "it is quantized already", "Give the float model.")


def test_wrong_input_name(cli, refused, model: Path, tmp_path: Path, out: Path) -> None:
    data = tmp_path / "d.npz"
    np.savez(data, pixels=np.zeros((2, 3, 16, 16), np.float32))
    result = cli("quantize", model, "--data", data, "-o", out / "q.onnx")
    refused(
        result, 1, "d.npz: holds pixels, but no 'image'", "Name the arrays like the model's inputs (image)."
    )


@pytest.mark.parametrize("command", ["quantize", "calibrate", "evaluate", "tune", "inspect"])
def test_an_input_that_chooses_a_branch_can_be_fixed(
    cli, refused, tmp_path: Path, out: Path, command: str
) -> None:
    body = """
        c = Equal(rate, k)
        y = If(c) <then_branch = yes () => (float[N,4] a) { a = Relu(x) },
                   else_branch = no () => (float[N,4] b) { b = Neg(x) }>
    """
    model, data = tmp_path / "a.onnx", tmp_path / "d.npz"
    onnx.save(onnx_model("float[N,4] x, int64 rate", "float[N,4] y", body, {"k": np.array(16000)}), model)
    np.savez(data, x=np.zeros((2, 4), np.float32))
    more = {
        "quantize": ("-o", out / "q.onnx"), "calibrate": ("-o", out / "t.json"), "evaluate": (model,),
        "tune": ("--min-sqnr", 20, "-o", out / "q.onnx"), "inspect": (),
    }  # fmt: skip
    refused(
        cli(command, model, *more[command], "--data", data),
        1,
        "d.npz: holds x, but no 'rate'. Name the arrays like the model's inputs (x, rate);",
        "or fix the input that chooses a branch of the model: --fix rate=VALUE.",
    )


def test_wrong_shape(cli, refused, model: Path, tmp_path: Path, out: Path) -> None:
    data = tmp_path / "d.npz"
    np.savez(data, image=np.zeros((2, 1, 16, 16), np.float32))
    result = cli("quantize", model, "--data", data, "-o", out / "q.onnx")
    refused(
        result, 1, "d.npz[0]", "1×1×16×16", "'image: float32 N×3×16×16'", "Give arrays of the model's type"
    )


def test_wrong_dtype_of_an_array(cli, refused, model: Path, tmp_path: Path, out: Path) -> None:
    data = tmp_path / "d.npz"
    np.savez(data, image=np.array(["a", "b"]))
    refused(cli("quantize", model, "--data", data, "-o", out / "q.onnx"), 1, "d.npz[0]", "'image: float32")


def test_broken_arrays_file(cli, refused, model: Path, tmp_path: Path, out: Path) -> None:
    data = tmp_path / "d.npz"
    data.write_bytes(b"PK\x03\x04 nothing")
    refused(
        cli("quantize", model, "--data", data, "-o", out / "q.onnx"), 1, "d.npz: cannot be read", "Save it"
    )


def test_empty_folder(cli, refused, model: Path, tmp_path: Path, out: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for command in ("quantize", "calibrate"):
        result = cli(command, model, "--data", empty, *FLAGS, "-o", out / "result.v2")
        refused(result, 1, "empty: holds no image file", "Give a folder with images")
    for command in ("evaluate", "run"):
        refused(cli(command, model, "--data", empty, *FLAGS), 1, "empty: holds no image file")


def test_missing_data(cli, refused, model: Path, tmp_path: Path, out: Path) -> None:
    result = cli("quantize", model, "--data", tmp_path / "none", *FLAGS, "-o", out / "q.onnx")
    refused(result, 1, "none: does not exist", "Give an image folder")


def test_images_without_preprocessing(cli, refused, model: Path, images: Path, out: Path) -> None:
    result = cli("quantize", model, "--data", images, "-o", out / "q.onnx")
    refused(result, 2, str(images), "Give --preprocess or --mean and --scale.")


def test_channels_that_do_not_fit(cli, refused, model: Path, images: Path, out: Path) -> None:
    result = cli("quantize", model, "--data", images, *FLAGS, "--color", "gray", "-o", out / "q.onnx")
    refused(result, 2, "gives 1 channels", "'image: float32 N×3×16×16'", "Choose the color")


def test_corrupt_image(cli, refused, model: Path, images: Path, out: Path) -> None:
    bad = images / "b" / "3.png"
    bad.write_bytes(bad.read_bytes()[:100])
    for command in ("quantize", "calibrate"):
        refused(
            cli(command, model, "--data", images, *FLAGS, "-o", out / "result.v2"),
            1,
            "b/3.png: ",
            "--skip-bad",
        )
    for command in ("evaluate", "run"):
        refused(cli(command, model, "--data", images, *FLAGS), 1, "b/3.png: ", "--skip-bad")


def test_corrupt_image_skipped(cli, model: Path, images: Path, tmp_path: Path) -> None:
    bad = images / "b" / "3.png"
    bad.write_bytes(bad.read_bytes()[:100])
    skip = ("--data", images, *FLAGS, "--skip-bad", "--json", tmp_path / "r.json")
    for command in ("quantize", "calibrate"):
        result = cli(command, model, *skip, "-o", tmp_path / "result.v2")
        assert result.exit_code == 0, result.output
        assert "warning: 1 bad image skipped" in result.stdout
        assert "  b/3.png: " in result.stdout
        assert "5 samples calibrated" in result.stdout
        found = json.loads((tmp_path / "r.json").read_text())["calibration"]
        assert found["samples"] == 5
        assert [entry["name"] for entry in found["skipped"]] == ["b/3.png"]
    for command in ("evaluate", "run"):
        result = cli(command, model, *skip)
        assert result.exit_code == 0, result.output
        assert "warning: 1 bad image skipped" in result.stdout


def test_labels_that_do_not_match(cli, refused, model: Path, images: Path, tmp_path: Path, out: Path) -> None:
    listed = tmp_path / "list.txt"
    arguments = ("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx", "--labels", listed)
    refused(cli(*arguments), 1, "list.txt: no such file")
    listed.write_text("a/0.png 1\n")
    refused(cli(*arguments), 1, "list.txt: lacks 5 of 6 images, such as 'a/2.png'", "Add the missing lines")
    listed.write_text("a/0.png 1\nc/9.png 1\n")
    refused(
        cli(*arguments), 1, "list.txt: lists 1 files that are not images of the folder, such as 'c/9.png'"
    )
    listed.write_text("a/0.png one\n")
    refused(cli(*arguments), 1, "list.txt, line 1: 'one' is not a class number")
    listed.write_text("".join(f"{'ab'[i % 2]}/{i}.png 5\n" for i in range(6)))
    refused(cli(*arguments), 1, "a/0.png: its label 5 is beyond the 5 classes", "Check the labels.")
    refused(cli(*arguments[:2], "--data", CALIBRATION_PATH, *arguments[4:]), 2, "needs an image folder")


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ([("Neg", ["features"], "minus"), ("Sqrt", ["minus"], "extra")], "tensor 'extra': held"),
        ([("Log", ["features"], "extra")], "tensor 'extra': held 0 NaN and"),
        ([("Div", ["one", "features"], "extra")], "tensor 'extra': held 0 NaN and"),
    ],
    ids=["NaN", "log of zero", "division by zero"],
)
def test_activations_that_are_not_finite(
    cli, refused, images: Path, tmp_path: Path, out: Path, nodes, problem: str
) -> None:
    proto = cnn([helper.make_node(op, inputs, [output], name=op) for op, inputs, output in nodes])
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "one"))
    path = save(proto, tmp_path / "bad.onnx")
    for command in ("quantize", "calibrate"):
        result = cli(command, path, "--data", images, *FLAGS, "-o", out / "result.v2")
        line = refused(result, 1, problem, "keep the nodes around it in float with --keep-float")
        assert "0 NaN and 0 infinite" not in line


def test_table_of_another_model(cli, refused, model: Path, images: Path, tmp_path: Path, out: Path) -> None:
    table = tmp_path / "t.json"
    assert cli("calibrate", model, "--data", images, *FLAGS, "-o", table).exit_code == 0
    other = save(cnn(seed=1), tmp_path / "other.onnx")
    result = cli("quantize", other, "--table", table, "-o", out / "q.onnx")
    refused(result, 1, "was made for another model", "Calibrate this model again.")


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda text: text[: len(text) // 2], "is not JSON"),
        (lambda text: "[]", "is like no calibration table"),
        (lambda text: text.replace('"version": 2', '"version": 3'), "has version 3, not 1 or 2"),
        (lambda text: text.replace('"max"', '"most"', 1), "tensor 'features': broken entry"),
        (lambda text: "", "is like no calibration table"),
    ],
    ids=["cut", "other JSON", "newer", "entry", "empty"],
)
def test_broken_table(
    cli, refused, model: Path, images: Path, tmp_path: Path, out: Path, spoil, problem: str
) -> None:
    table = tmp_path / "t.json"
    assert cli("calibrate", model, "--data", images, *FLAGS, "-o", table).exit_code == 0
    table.write_text(spoil(table.read_text()))
    refused(cli("quantize", model, "--table", table, "-o", out / "q.onnx"), 1, "t.json", problem)


def test_missing_table(cli, refused, model: Path, tmp_path: Path, out: Path) -> None:
    result = cli("quantize", model, "--table", tmp_path / "none.json", "-o", out / "q.onnx")
    refused(result, 1, "none.json: no such file", "Give a calibration table.")


def test_what_is_no_file_is_told_alike_everywhere(
    cli, refused, images: Path, tmp_path: Path, out: Path
) -> None:
    data = ("--data", images, *FLAGS)
    for path, problem in ((tmp_path, "is a folder"), ("/dev/null", "is a device, no file")):
        for command in (
            ("inspect", path),
            ("compile", path, "-o", out / "p.c8"),
            ("benchmark", path),
            ("evaluate", path, *data),
            ("run", path, *data),
            ("run", path, *data, "--runtime", "calib8"),
            ("quantize", path, *data, "-o", out / "q.onnx"),
        ):
            refused(cli(*command), 1, f"{path}: {problem}. Give the path of")


@pytest.mark.parametrize("threads", [257, 1_000_000])
@pytest.mark.parametrize("command", ["quantize", "calibrate", "evaluate", "compare", "diagnose", "tune"])
def test_more_threads_than_there_can_be(
    cli, refused, images: Path, tmp_path: Path, out: Path, command: str, threads: int
) -> None:
    """Before any of them is started."""
    model = save(cnn(), tmp_path / "m.onnx")
    words = {
        "quantize": (model, "-o", out / "q.onnx"), "calibrate": (model, "-o", out / "t.json"),
        "evaluate": (model, model), "compare": (model, model), "diagnose": (model, model),
        "tune": (model, "-o", out / "q.onnx", "--min-sqnr", 25),
    }  # fmt: skip
    line = cli(command, *words[command], "--data", images, *FLAGS, "--threads", threads)
    refused(line, 2, f"--threads {threads}: is more than 256", "Give a number from 1 to 256")
    if command == "quantize":
        with pytest.raises(UsageError, match=f"threads={threads}: is more than 256"):
            calib8.quantize(model, images, threads=threads)


@pytest.mark.slow
def test_threads_of_the_engine(cli, refused, images: Path, tmp_path: Path) -> None:
    data = ("--data", images, *FLAGS, "--runtime", "calib8", "--threads", 300)
    model, quantized = save(cnn(), tmp_path / "m.onnx"), tmp_path / "q.onnx"
    assert cli("quantize", model, "--data", images, *FLAGS, "-o", quantized).exit_code == 0
    for command in (("run", quantized), ("evaluate", model, quantized), ("compare", model, quantized)):
        line = refused(
            cli(*command, *data), 2, "--threads 300: is more than 256", "Give a number from 1 to 256"
        )
        assert "None" not in line


def test_an_input_of_size_zero(cli, refused, images: Path, tmp_path: Path, out: Path) -> None:
    model = cnn()
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 0
    path = save(model, tmp_path / "empty.onnx")
    problem = "its input 'image: float32 N×3×0×16' has an axis of size 0"
    for command in (("inspect", path), ("benchmark", path), ("compile", path, "-o", out / "p.c8")):
        refused(cli(*command), 1, f"empty.onnx: {problem}", "Export it with the sizes of a sample")


@pytest.mark.parametrize(
    "name", ["q.pt", "q.PTH", "q.pb", "q.engine", "q.xml", "q.onnx.gz", "q.c8", "q.json", "q.npz"]
)
def test_names_of_files_that_are_no_model_of_ours(
    cli, refused, model: Path, images: Path, out: Path, name: str
) -> None:
    data = ("--data", images, *FLAGS, "--effort", "fast")
    suffix = Path(name).suffix
    wanted = (
        "another kind of file; models are written as .onnx",
        f"such as {name[: -len(suffix)]}.onnx",
    )
    refused(cli("quantize", model, *data, "-o", out / name), 2, f"--output {out / name}: ", *wanted)
    refused(cli("tune", model, *data, "--min-sqnr", 1, "-o", out / name), 2, *wanted)
    refused(
        cli("tengine-quant", "-m", model, "-i", images, "-o", out / name), 2, f"-o {out / name}: ", *wanted
    )
