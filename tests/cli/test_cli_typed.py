"""What was typed is shown as it was typed, addresses are refused, and names nearly right are understood."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import FLAGS

pytestmark = pytest.mark.usefixtures("nothing_left")

ADDRESS = "https://host//models/net.onnx?v=1"


def test_addresses_are_shown_as_typed_and_refused(cli, refused, model: Path, images: Path, out: Path) -> None:
    wrote = ("-o", out / "q.onnx")
    for command in (
        ("quantize", ADDRESS, "--data", images, *FLAGS, *wrote),
        ("quantize", model, "--data", images, *FLAGS, "-o", ADDRESS),
        ("evaluate", model, ADDRESS, "--data", images, *FLAGS),
        ("calibrate", model, "--data", images, *FLAGS, "-o", out / "t.json", "--stats", ADDRESS),
        ("inspect", ADDRESS),
        ("table", "show", ADDRESS),
        ("stats", "show", ADDRESS),
    ):
        line = refused(
            cli(*command), 2, "is an address, and calib8 reads and writes files only", "Download it"
        )
        assert line.startswith(f"error: {ADDRESS}: "), line


def test_data_may_lie_at_an_address(cli, refused, model: Path, out: Path) -> None:
    for typed in (("--data", ADDRESS), (f"--data={ADDRESS}",)):
        result = cli("quantize", model, *typed, *FLAGS, "-o", out / "q.onnx")
        line = refused(result, 1, "is no tar shard, Parquet file or picture by its name")
        assert line.startswith("error: https://host//models/net.onnx?v=***: "), line


def test_a_folder_called_like_an_address_is_one(
    cli, monkeypatch: pytest.MonkeyPatch, model: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    place = Path("data:/there")
    place.parent.mkdir()
    place.write_bytes(model.read_bytes())
    assert cli("inspect", "data:/there").exit_code == 0


@pytest.mark.parametrize("typed", ["./none.onnx", "a//none.onnx", ".//a/./none.onnx", "none.onnx/"])
def test_paths_are_shown_as_typed(cli, refused, monkeypatch, tmp_path: Path, typed: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(cli("inspect", typed), 1, "no such file").startswith(f"error: {typed}: ")


def test_a_path_behind_its_option_is_shown_as_typed(
    cli, refused, monkeypatch, model: Path, out: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    base = ("quantize", model, "--data", "none", *FLAGS, "-o")
    refused(cli(*base, ".//out/q.txt"), 2, "error: --output .//out/q.txt: is the name of another kind")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("quantise",), "No such command 'quantise'. Did you mean 'quantize'?"),
        (("eval",), "No such command 'eval'. Did you mean 'evaluate'?"),
        (("table", "shwo"), "No such command 'shwo'. Did you mean 'show'?"),
        (("frobnicate",), "No such command 'frobnicate'."),
        (("quantize", "m", "--sample", "3"), "No such option '--sample'. Did you mean '--samples'?"),
        (
            ("quantize", "m", "--keep_float", "n"),
            "No such option '--keep_float'. Did you mean '--keep-float'?",
        ),
        (("quantize", "m", "--targett=x"), "No such option '--targett'. Did you mean '--target'?"),
        (("quantize", "m", "--zzzz"), "No such option '--zzzz'."),
        (
            ("compare", "m", "n", "--label-offset", "1"),
            "No such option '--label-offset'. These commands have it: evaluate.",
        ),
        (("table", "show", "--fold"), "No such option '--fold'."),
        (("--versoin",), "No such option '--versoin'. Did you mean '--version'?"),
    ],
)
def test_commands_and_options_nearly_right(cli, words: tuple[str, ...], told: str) -> None:
    result = cli(*words)
    assert result.exit_code == 2
    assert result.stderr.rstrip().splitlines()[-1] == f"Error: {told}"


@pytest.mark.parametrize(
    ("flags", "meant"),
    [
        (("--method", "MinMax"), "minmax"),
        (("--target", "trt"), "tensorrt"),
        (("--preprocess", "torch-vision"), "torchvision"),
        (("--effort", "ballanced"), "balanced"),
        (("--repair", "bais"), "bias"),
        (("--activations", "int_8"), "int8"),
        (("--weights", "per_tensor"), "per-tensor"),
        (("--task", "segmnet"), "segment"),
        (("--color", "grey"), "gray"),
        (("--resize", "leterbox"), "letterbox"),
        (("--filter", "bilinaer"), "bilinear"),
        (("--units", "0_255"), "0-255"),
        (("--branch", "scores=logit"), "logits"),
    ],
)
def test_names_nearly_right(
    cli, refused, model: Path, images: Path, out: Path, flags: tuple[str, ...], meant: str
) -> None:
    own = () if flags[0] == "--preprocess" else FLAGS
    own = ("--mean", "0.5", "--std", "0.5", "--color", "rgb") if flags[0] == "--units" else own
    result = cli("quantize", model, "--data", images, *own, *flags, "-o", out / "q.onnx")
    refused(result, 2, f"Did you mean '{meant}'?")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("evaluate", "MODEL", "--data", "IMAGES", "--runtime", "ort"), "onnxruntime"),
        (("evaluate", "MODEL", "--data", "IMAGES", "--runtime", "calib8", "--profile", "tfl"), "tflite"),
        (("benchmark", "MODEL", "--runtime", "calib"), "calib8"),
        (("tune", "FLOAT", "--data", "IMAGES", *FLAGS, "--min-sqnr", "9", "--runtime", "calib_8"), "calib8"),
        (("compare", "MODEL", "MODEL", "--data", "IMAGES", "--sort", "lokal"), "local"),
        (("export", "MODEL", "--to", "tf-lite", "-o", "OUT"), "tflite"),
        (("export", "MODEL", "--to", "tflite", "--inputs", "float", "-o", "OUT.tflite"), "float32"),
        (("inspect", "MODEL", "--target", "open-vino"), "openvino"),
        (("compile", "MODEL", "--isa", "avx-2", "-o", "OUT.c8"), "avx2"),
    ],
)
def test_names_nearly_right_elsewhere(
    cli, refused, model: Path, int8: Path, images: Path, out: Path, words: tuple[str, ...], meant: str
) -> None:
    places = {"MODEL": int8, "FLOAT": model, "IMAGES": images}
    given = [places.get(word, out / word if word.startswith("OUT") else word) for word in words]
    refused(cli(*given), 2, f"Did you mean '{meant}'?")
