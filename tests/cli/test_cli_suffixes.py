"""The suffix of every output is looked at before the work starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import FLAGS

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize(
    ("words", "option", "meant"),
    [
        (("quantize", "MODEL", "-o", "OUT.txt"), "--output", "OUT.onnx"),
        (("quantize", "MODEL", "-o", "OUT.onnx", "--json", "OUT.html"), "--json", "OUT.json"),
        (("quantize", "MODEL", "-o", "OUT.onnx", "--json", "OUT.TXT"), "--json", "OUT.json"),
        (("quantize", "MODEL", "-o", "OUT.onnx", "--table", "OUT.tflite"), "--table", "OUT.json"),
        (("calibrate", "MODEL", "-o", "OUT.onnx"), "--output", "OUT.json"),
        (("calibrate", "MODEL", "--stats", "OUT.json"), "--stats", "OUT.stats"),
        (("calibrate", "MODEL", "-o", "OUT", "--checkpoint", "OUT.onnx"), "--checkpoint", "OUT.part"),
        (("calibrate", "MODEL", "-o", "OUT", "--plot", "OUT.json"), "--plot", "OUT.html"),
        (("tune", "MODEL", "--min-sqnr", "20", "-o", "OUT.engine"), "--output", "OUT.onnx"),
        (("evaluate", "MODEL", "--json", "OUT.onnx"), "--json", "OUT.json"),
        (("diagnose", "MODEL", "--json", "OUT.csv"), "--json", "OUT.json"),
    ],
)
def test_other_kinds_of_files(
    cli, refused, model: Path, tmp_path: Path, out: Path, words: tuple[str, ...], option: str, meant: str
) -> None:
    """The data do not exist: nothing was looked at but the names."""
    given = [model if word == "MODEL" else out / word if word.startswith("OUT") else word for word in words]
    result = cli(*given, "--data", tmp_path / "none", *FLAGS)
    line = refused(result, 2, "is the name of another kind of file", f"such as {meant}")
    assert line.startswith(f"error: {option} {out}/OUT.")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("stats", "merge", "none", "-o", "OUT.html"), "OUT.stats"),
        (("table", "convert", "none", "-o", "OUT.tflite", "--to", "ncnn"), "OUT.json"),
        (("table", "plot", "none", "--stats", "none", "-o", "OUT.onnx"), "OUT.html"),
        (("compile", "MODEL", "-o", "OUT.txt"), "OUT.c8"),
        (("inspect", "MODEL", "--program", "--save", "OUT.json"), "OUT.c8p"),
    ],
)
def test_other_kinds_of_files_without_data(
    cli, refused, model: Path, out: Path, words: tuple[str, ...], meant: str
) -> None:
    given = [model if word == "MODEL" else out / word if word.startswith("OUT") else word for word in words]
    refused(cli(*given), 2, "is the name of another kind of file", f"such as {meant}")


def test_names_without_a_kind_are_free(cli, model: Path, images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "free"
    folder.mkdir()
    outputs = ("-o", folder / "t.v2", "--stats", folder / "s", "--json", folder / "report_v1.0")
    result = cli("calibrate", model, "--data", images, *FLAGS, "--method", "minmax", *outputs)
    assert result.exit_code == 0, result.output
    assert {path.name for path in folder.iterdir()} == {"t.v2", "s", "report_v1.0"}
