"""Options that mean nothing or destroy something are refused before any work is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import FLAGS, cnn, save

from calib8.demo import CALIBRATION_PATH, MODEL_PATH

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize("place", ["missing/q.onnx", "file/q.onnx", "."])
def test_places_that_cannot_be_written_to_are_refused_first(
    cli, refused, model: Path, tmp_path: Path, out: Path, place: str
) -> None:
    (tmp_path / "file").write_text("a file, no folder")
    path = tmp_path / place
    # The data are missing too: the output is looked at before them.
    data = ("--data", tmp_path / "none", *FLAGS)
    for command in ("quantize", "calibrate"):
        cure = "Choose" if place != "." else "Give"
        refused(cli(command, model, *data, "-o", path), 2, f"error: --output {path}: ", cure)
        refused(cli(command, model, *data, "-o", out / "x", "--json", path), 2, f"error: --json {path}: ")
    refused(cli("quantize", model, *data, "-o", out / "x", "--table", path), 2, f"error: --table {path}: ")
    for command in ("evaluate", "run"):
        refused(cli(command, model, *data, "--json", path), 2, f"error: --json {path}: ")
    refused(cli("inspect", model, "--json", path), 2, f"error: --json {path}: ")


def test_demo_into_a_file(cli, refused, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a file, no folder")
    refused(cli("demo", "--output", path), 2, f"error: --output {path}: cannot be made")
    refused(cli("demo", "--output", path / "below"), 2, f"{path / 'below'}: cannot be made", "Choose another")
    assert path.read_text() == "a file, no folder"


def test_a_device_is_no_output(cli, refused, model: Path, tmp_path: Path) -> None:
    result = cli("quantize", model, "--data", tmp_path / "none", *FLAGS, "-o", "/dev/full")
    refused(result, 2, "error: --output /dev/full: is a device")
    assert Path("/dev/full").is_char_device()


@pytest.mark.slow  # tests/faults has it for every command
@pytest.mark.parametrize("command", ["quantize", "calibrate"])
def test_full_disk(process, tmp_path: Path, out: Path, command: str) -> None:
    target = out / "result.v2"
    target.write_text("the old result")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))"
    flags = ("--mean", "128", "--scale", "1/128", "--color", "gray")
    result = process(command, MODEL_PATH, "--data", CALIBRATION_PATH, *flags, "-o", target, before=limit)
    assert result.returncode == 1, result.stderr
    assert result.stderr == (
        f"error: {target}: cannot be written (File too large). Choose a writable path with free space.\n"
    )
    assert target.read_text() == "the old result"
    target.unlink()


def test_unknown_names(cli, refused, model: Path, images: Path, out: Path) -> None:
    base = ("quantize", model, "--data", images, "-o", out / "q.onnx")
    refused(cli(*base, *FLAGS, "--target", "abacus"), 2, "--target abacus: unknown target", "tensorrt")
    refused(cli(*base, *FLAGS, "--method", "guess"), 2, "--method guess: unknown method", "entropy")
    refused(
        cli(*base, *FLAGS, "--activations", "int4"), 2, "--activations int4: unknown type", "int8-symmetric"
    )
    refused(cli(*base, "--preprocess", "magic"), 2, "--preprocess magic: unknown preset", "torchvision")
    refused(cli(*base, *FLAGS, "--keep-float", "conv7"), 2, "--keep-float", "'conv7'", "calib8 inspect")
    runtime = ("evaluate", model, "--data", images, *FLAGS, "--runtime", "toaster")
    refused(cli(*runtime), 2, "--runtime toaster: unknown runtime", "openvino")
    refused(cli("inspect", model, "--target", "abacus"), 2, "--target abacus: unknown target")


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--method", "mse", "--percent", "99"), ("--percent 99", "takes no percent", "--method percentile")),
        (("--percent", "99"), ("--percent 99", "method 'auto'")),
        (("--method", "percentile", "--percent", "101"), ("--percent 101", "50 … 100")),
        (
            ("--target", "tensorrt", "--activations", "uint8"),
            ("--activations uint8", "int8-symmetric only"),
        ),
        (("--samples", "0"), ("--samples 0: is too few",)),
        (("--batch", "0"), ("--batch 0: must be at least 1",)),
        (("--threads", "-1"), ("--threads -1: must be at least 1",)),
        (("--mean", "1,b"), ("--mean 1,b: is not a list of numbers", "--mean 1,2,3")),
        (("--scale", "1/0"), ("--scale 1/0: is not a list of numbers",)),
        (("--scale", "0"), ("scale cannot be (0.0,)",)),
        (("--mean", "nan"), ("mean cannot be (nan,)",)),
        (("--mean", "1,2"), ("mean cannot be (1.0, 2.0)", "1 or 3 numbers")),
        (("--size", "large"), ("--size large: is not a size in pixels", "--size 224,224")),
        (("--size", "8,8"), ("size 8×8 does not fit the model's input",)),
        (("--color", "purple"), ("color cannot be 'purple'", "rgb, bgr, gray")),
        (("--resize", "magic"), ("resize cannot be 'magic'", "letterbox")),
        (("--filter", "wax"), ("filter cannot be 'wax'", "bicubic")),
        (("--crop", "1.5"), ("crop cannot be 1.5",)),
        (("--crop", "0.5", "--crop-pad", "3"), ("contradict each other",)),
        (("--letterbox-color", "114"), ("letterbox_color cannot be 114", "unless resize is letterbox")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_options_that_do_not_go_together(
    cli, refused, model: Path, images: Path, out: Path, flags: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    others = [
        word for pair in zip(FLAGS[::2], FLAGS[1::2], strict=True) if pair[0] != flags[0] for word in pair
    ]
    refused(cli("quantize", model, "--data", images, *others, "-o", out / "q.onnx", *flags), 2, *parts)


def test_data_and_table(cli, refused, model: Path, images: Path, tmp_path: Path, out: Path) -> None:
    refused(cli("quantize", model, "-o", out / "q.onnx"), 2, "Give --data or --table.")
    table = tmp_path / "t.json"
    assert cli("calibrate", model, "--data", images, *FLAGS, "-o", table).exit_code == 0
    for flags in (("--samples", 3), ("--batch", 1), ("--threads", 1), ("--skip-bad",), ("--labels", table),
                  ("--method", "mse"), ("--percent", 99)):  # fmt: skip
        result = cli("quantize", model, "--table", table, "-o", out / "q.onnx", *flags)
        if flags[0] != "--percent":
            refused(
                result,
                2,
                f"{flags[0]}: does not go with a finished table",
                "or give --data in place of --table.",
            )
        assert result.exit_code == 2


@pytest.mark.parametrize("flags", [("--effort", "best"), ("--repair", "cle,scales")], ids=str)
def test_the_cure_for_repairs_beside_a_table_leaves_the_table(
    cli, refused, model: Path, images: Path, tmp_path: Path, out: Path, flags: tuple[str, ...]
) -> None:
    table, stats = tmp_path / "t.json", tmp_path / "t.stats"
    made = cli("calibrate", model, "--data", images, *FLAGS, "-o", table, "--stats", stats)
    assert made.exit_code == 0
    before = table.read_bytes()
    base = ("quantize", model, "-o", out / "q.onnx")
    line = refused(cli(*base, "--table", table, *flags), 2, "--table brings none", "is a file to write")
    assert "in place of --table" in line and "--repair scales,bias-analytic" in line
    line = refused(cli(*base, "--from-stats", stats, *flags), 2, "--from-stats brings none")
    assert "in place of --from-stats" in line
    refused(cli(*base, "--table", table, "--effort", "much"), 2, "unknown effort")
    done = cli("quantize", model, "-o", tmp_path / "q.onnx", "--table", table, "--repair", "scales")
    assert done.exit_code == 0 and table.read_bytes() == before


def test_a_table_that_is_there_is_never_written_over(
    cli, refused, model: Path, images: Path, tmp_path: Path, out: Path
) -> None:
    table, stats = tmp_path / "t.json", tmp_path / "t.stats"
    base = ("quantize", model, "-o", out / "q.onnx")
    made = cli("calibrate", model, "--data", images, *FLAGS, "-o", table, "--stats", stats)
    assert made.exit_code == 0
    before = table.read_bytes()
    for source, path, flags in (("--data", images, FLAGS), ("--from-stats", stats, ())):
        told = refused(cli(*base, source, path, *flags, "--table", table), 2, f"--table {table}: exists")
        assert f"Leave out {source} to read it, or choose another path." in told
    assert table.read_bytes() == before
    again = cli("calibrate", model, "--data", images, *FLAGS, "-o", table, "--method", "minmax")
    assert again.exit_code == 0 and table.read_bytes() != before  # what only writes takes its place


def test_outputs_that_are_inputs(cli, refused, model: Path, images: Path, tmp_path: Path, out: Path) -> None:
    before = model.read_bytes()
    data = ("--data", images, *FLAGS)
    link = tmp_path / "link.onnx"
    link.symlink_to(model)
    for path in (model, model.parent / "images" / ".." / "tiny.onnx", link):
        refused(
            cli("quantize", model, *data, "-o", path), 2, f"--output {path}: is the same file as an input"
        )
    refused(cli("calibrate", model, *data, "-o", model), 2, "--output", "is the same file as an input")
    refused(cli("quantize", model, *data, "-o", out / "q", "--json", model), 2, "--json", "an input")
    refused(
        cli("quantize", model, *data, "-o", out / "q", "--table", out / "q"), 2, "the same file as --output"
    )
    refused(cli("evaluate", model, *data, "--json", model), 2, "--json", "an input")
    refused(cli("run", model, *data, "--json", model), 2, "--json", "an input")
    refused(cli("inspect", model, "--json", model), 2, "--json", "an input")
    assert model.read_bytes() == before


def test_rules_of_a_target_concern_quantized_models(cli, refused, model: Path) -> None:
    result = cli("inspect", model, "--target", "tensorrt")
    refused(result, 2, "--target tensorrt", "tiny.onnx is a float model", "Give a quantized model.")


def test_models_of_different_networks(cli, refused, model: Path, images: Path, tmp_path: Path) -> None:
    other = save(cnn(classes=7), tmp_path / "other.onnx")
    result = cli("evaluate", model, other, "--data", images, *FLAGS)
    refused(result, 1, "other.onnx: its outputs differ in number or shape", "Compare models of one network.")


@pytest.mark.parametrize(
    "arguments",
    [
        ("quantize",),
        ("quantize", "m.onnx"),
        ("evaluate", "--data", "d"),
        ("frobnicate",),
        ("inspect", "m.onnx", "--no-such-option"),
        ("run", "m.onnx", "--data", "d", "--top", "x"),
    ],
    ids=" ".join,
)
def test_usage_errors_of_the_parser(cli, arguments: tuple[str, ...]) -> None:
    result = cli(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert "Usage: " in result.stderr


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ("quantize m.onnx --mean 117 --mean 115 --mean 98", "Give it once, with commas: --mean A,B,C"),
        ("evaluate m.onnx --data d --size=3 --size=4", "Give it once, with commas: --size H,W"),
        ("quantize m.onnx --repair cle --repair bias", "Give it once, with commas: --repair NAME,…"),
        ("benchmark m.onnx --threads 1 --threads 2", "Give it once, with commas: --threads N,…"),
    ],
)
def test_a_list_is_not_given_item_by_item(cli, words: str, cure: str) -> None:
    result = cli(*words.split())
    assert result.exit_code == 2
    assert f"times. {cure}\n" in result.stderr


def test_other_options_are_those_that_were_given_last(cli, refused, out: Path) -> None:
    words = ("quantize", "a.onnx", "--threads", "0", "--threads", "1", "-o", out / "b.onnx", "--data", "d")
    refused(cli(*words), 1, "a.onnx: no such file", "Give the path of an .onnx")


def test_run_refuses_no_classes_at_all(cli, refused, model: Path, images: Path) -> None:
    refused(cli("run", model, "--data", images, *FLAGS, "--top", 0), 2, "--top 0: must be at least 1")
