"""``calib8 export --to c``: two files, their sizes, and what is refused before one of them is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from json_output import load
from tiny_models import FLAGS


@pytest.fixture
def coded(cli, model: Path, images: Path, tmp_path: Path) -> Path:
    """The model quantized for TFLite: its output is coded."""
    path = tmp_path / "coded.onnx"
    flags = ("--data", images, *FLAGS, "--repair", "none", "--target", "tflite")
    assert cli("quantize", model, *flags, "-o", path).exit_code == 0
    return path


def test_two_files_and_what_they_take(cli, coded: Path, out: Path) -> None:
    flags = ("--inputs", "int8", "--outputs", "uint8", "--json", out / "net.json")
    result = cli("export", coded, "--to", "c", *flags, "-o", out / "net.c")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == ["net.c", "net.h", "net.json"]
    document, header = load(out / "net.json"), (out / "net.h").read_text()
    assert (document["to"], document["name"]) == ("c", "net")
    assert document["bytes"]["output"] == sum((out / f"net.{kind}").stat().st_size for kind in "ch")
    assert f"flash {document['flash']:,} bytes of constants, RAM {document['arena']:,} bytes" in result.stdout
    assert f"#define NET_ARENA_BYTES {document['arena']}\n" in header
    assert f"#define NET_ARENA_BYTES {document['arena_with_cmsis_nn']}\n" in header
    assert f"#define NET_CONSTANT_BYTES {document['flash']}\n" in header
    assert "int8_t* net_input(void* arena);" in header and "uint8_t* net_output(void* arena);" in header
    assert '"image": int8 [1, 16, 16, 3]' in header
    assert document["instructions"]["Conv"] == 2 and document["by_cmsis_nn"] >= 2
    sizes = (document["arena"], document["arena_with_cmsis_nn"], document["arena_with_cmsis_nn_and_mve"])
    assert sizes[0] >= 16 * 16 * 4 and min(sizes) == sizes[0]
    result = cli("export", coded, "--to", "c", "--profile", "single", "-o", out / "once.c")
    assert result.exit_code == 0, result.output
    assert ", 0 of them by CMSIS-NN" in result.stdout
    assert "rounding profile single" in (out / "once.c").read_text()


REFUSED = (
    ("net.c", ("--arena-limit", "1000"), 1, "more than --arena-limit 1000; most of it lives while"),
    ("net.c", ("--flash-limit", "100"), 1, "bytes of flash, more than --flash-limit 100: conv_"),
    ("net.c", ("--arena-limit", "0"), 2, "--arena-limit 0: is no number of bytes"),
    ("net.c", ("--inputs", "int16"), 2, "--inputs int16: is not a type of inputs and outputs"),
    ("net.c", ("--profile", "onnx"), 1, "Write it of the ONNX model with --profile tflite"),
    ("net.c", ("--integer-only",), 2, "--integer-only: does not go with --to c"),
    ("net.h", (), 2, "does not end in .c"),
    ("my net.c", (), 2, "is no name for a file that C code includes"),
)


def test_what_does_not_fit_leaves_no_file(cli, coded: Path, out: Path) -> None:
    for name, flags, code, text in REFUSED:
        result = cli("export", coded, "--to", "c", *flags, "-o", out / name)
        assert (result.exit_code, list(out.iterdir())) == (code, []), flags
        assert text in " ".join(result.stderr.split())
    for flag in ("--arena-limit", "--flash-limit"):
        result = cli("export", coded, "--to", "tflite", flag, "5000", "-o", out / "m.tflite")
        assert result.exit_code == 2 and f"{flag}: does not go with --to tflite" in result.stderr
