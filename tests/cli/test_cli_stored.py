"""Commands that read tar shards where they lie, by an address or braces; and errors in one line."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from tiny_models import FLAGS

from needed import needed


@pytest.fixture
def shard(images: Path, tmp_path: Path) -> str:
    """Pattern of two shards that hold the pictures of the folder."""
    place = tmp_path / "shards"
    place.mkdir()
    pictures = sorted(path for path in images.rglob("*.*") if path.suffix in (".png", ".jpg"))
    for number in range(2):
        with tarfile.open(place / f"train-{number}.tar", "w") as archive:
            for path in pictures[number::2]:
                content = path.read_bytes()
                header = tarfile.TarInfo(path.name)
                header.size = len(content)
                archive.addfile(header, io.BytesIO(content))
    return f"{place}/train-{{0..1}}.tar"


def test_shards_give_the_table_of_the_folder(cli, model: Path, images: Path, shard: str, out: Path) -> None:
    needed("fsspec")
    tables = {}
    for name, data in {"folder": images, "braces": shard, "address": f"file://{shard}"}.items():
        result = cli("calibrate", model, "--data", data, *FLAGS, "-o", out / f"{name}.json")
        assert result.exit_code == 0, result.stderr
        tables[name] = json.loads((out / f"{name}.json").read_bytes())
    assert tables["folder"] == tables["braces"] == tables["address"]


def test_commands_take_shards(cli, model: Path, shard: str, out: Path) -> None:
    made = out / "q.onnx"
    checkpoint = ("--checkpoint", out / "c.ckpt")
    for command in (
        ("quantize", model, "--data", shard, *FLAGS, "-o", made),
        ("calibrate", model, "--data", shard, *FLAGS, "-o", out / "t.json", *checkpoint),
        ("calibrate", model, "--data", shard, *FLAGS, "--shard", "1/2", "--stats", out / "s.stats"),
        ("evaluate", model, made, "--data", shard, *FLAGS),
        ("compare", model, made, "--data", shard, *FLAGS),
        ("diagnose", model, made, "--data", shard, *FLAGS),
    ):
        result = cli(*command)
        assert result.exit_code == 0, (command, result.stderr)


def test_columns_are_named(cli, model: Path, images: Path, tmp_path: Path, out: Path) -> None:
    """Each sample of the shard has two pictures and a name that is no class."""
    pictures = sorted(path for path in images.rglob("*.*") if path.suffix in (".png", ".jpg"))
    shard = tmp_path / "two.tar"
    with tarfile.open(shard, "w") as archive:
        for number, path in enumerate(pictures):
            for suffix, content in (("left.png", path.read_bytes()), ("right.png", pictures[0].read_bytes())):
                header = tarfile.TarInfo(f"{number:03}.{suffix}")
                header.size = len(content)
                archive.addfile(header, io.BytesIO(content))
    asked = ("calibrate", model, "--data", shard, *FLAGS, "-o", out / "t.json")
    result = cli(*asked)
    assert result.exit_code == 1, result.output
    assert "Say which is meant, such as --input-map image=left.png" in " ".join(result.stderr.split())
    tables = {}
    for column in ("left.png", "right.png"):
        result = cli(*asked, "--input-map", f"image={column}")
        assert result.exit_code == 0, result.output
        tables[column] = json.loads((out / "t.json").read_bytes())
    cli("calibrate", model, "--data", images, *FLAGS, "-o", out / "t.json")
    assert tables["left.png"] == json.loads((out / "t.json").read_bytes()) != tables["right.png"]
    made = out / "q.onnx"
    result = cli("quantize", model, "--data", shard, *FLAGS, "--input-map", "image=left.png", "-o", made)
    assert "--input-map image=left.png" in " ".join(result.output.split()), "the next command reads them too"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("x",),
            "--input-map: 'x' is no INPUT=COLUMN. Write it like --input-map image=jpg, each input once.",
        ),
        (("image=jpg", "image=png"), "--input-map: 'image=png' comes again."),
        (("y=jpg",), "--input-map: names 'y'. Name each input of the model (image), and label where"),
        (("image=webp",), "which --input-map names"),
    ],
)
def test_columns_that_are_none(
    cli, model: Path, shard: str, out: Path, words: tuple[str, ...], said: str
) -> None:
    flags = [part for word in words for part in ("--input-map", word)]
    result = cli("calibrate", model, "--data", shard, *FLAGS, *flags, "-o", out / "t.json")
    assert result.exit_code in (1, 2) and said in " ".join(result.stderr.split()), result.output
    assert not (out / "t.json").exists()


def test_columns_are_not_for_a_folder(cli, model: Path, images: Path, out: Path) -> None:
    asked = ("calibrate", model, "--data", images, *FLAGS, "--input-map", "x=a", "-o", out / "t.json")
    assert "--input-map: is for data that yield items, not for files." in " ".join(cli(*asked).stderr.split())


def test_broken_shards_are_told_in_a_line(cli, refused, model: Path, shard: str, out: Path) -> None:
    file = Path(shard.replace("{0..1}", "1"))
    file.write_bytes(file.read_bytes()[:700])
    for flags in ((), ("--skip-bad",)):
        result = cli("quantize", model, "--data", shard, *FLAGS, *flags, "-o", out / "q.onnx")
        refused(result, 1, "error: train-1.tar: is broken")
    none = shard.replace("{0..1}", "{5..6}")
    refused(cli("quantize", model, "--data", none, *FLAGS, "-o", out / "q.onnx"), 1, "does not exist")
