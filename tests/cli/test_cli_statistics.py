"""Statistics on the way between commands: saved, read again, cut into shards, merged, shown, refused."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_models import FLAGS, cnn, save

from calib8.calibration.origin import Origin
from calib8.calibration.ranges import METHODS
from calib8.calibration.statistics import Statistics
from calib8.model.metadata import read_metadata

Paths = dict[str, Path]


@pytest.fixture
def made(cli, model: Path, images: Path, out: Path) -> Paths:
    """A table by mse and the statistics behind it."""
    paths = {"model": model, "table": out / "table.json", "stats": out / "stats.npz"}
    command = ("calibrate", model, "--data", images, *FLAGS, "-o", paths["table"], "--stats", paths["stats"])
    result = cli(*command)
    assert result.exit_code == 0, result.output
    assert f"statistics {paths['stats']}" in result.stdout
    return paths


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_from_statistics_gives_the_bytes_that_data_give(
    cli, made: Paths, images: Path, out: Path, method: str
) -> None:
    wanted = ("--method", method, "--activations", "int8-symmetric", "--keep-float", "gemm")
    direct = cli("calibrate", made["model"], "--data", images, *FLAGS, *wanted, "-o", out / "a.json")
    assert direct.exit_code == 0, direct.output
    again = cli("calibrate", made["model"], "--from-stats", made["stats"], *wanted, "-o", out / "b.json")
    assert again.exit_code == 0, again.output
    assert "6 samples in the statistics, ranges of " in again.stdout
    assert (out / "a.json").read_bytes() == (out / "b.json").read_bytes()


def test_quantize_takes_statistics_too(cli, made: Paths, images: Path, out: Path) -> None:
    flags = (*FLAGS, "--method", "entropy", "--target", "tensorrt")
    for name, source in (("a", ("--data", images)), ("b", ("--from-stats", made["stats"]))):
        files = ("-o", out / f"{name}.onnx", "--table", out / f"{name}.json")
        result = cli("quantize", made["model"], *source, "--repair", "none", *flags, *files)
        assert result.exit_code == 0, result.output
    assert (out / "a.json").read_bytes() == (out / "b.json").read_bytes()
    assert (out / "a.onnx").read_bytes() == (out / "b.onnx").read_bytes()


def test_the_preprocessing_of_statistics_is_stored_and_another_one_refused(
    cli, refused, made: Paths, out: Path
) -> None:
    base = ("quantize", made["model"], "--from-stats", made["stats"])
    for name, flags in (("with", FLAGS), ("without", ())):
        result = cli(*base, *flags, "-o", out / f"{name}.onnx")
        assert result.exit_code == 0, result.output
    assert (out / "with.onnx").read_bytes() == (out / "without.onnx").read_bytes()
    stored = json.loads(read_metadata(out / "without.onnx")["preprocess"])
    assert stored["mean"] == [128.0] and stored["size"] == [16, 16]
    result = cli(*base, "--scale", FLAGS[3], "--filter", "nearest", "--mean", "127", "-o", out / "x.onnx")
    named = "(filter nearest, not bilinear; mean 127, not 128)"
    refused(result, 2, f"preprocessing: is not that of {made['stats']} {named}", "Leave it out")
    assert not (out / "x.onnx").exists()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("total", [1, 2, 4])
def test_merged_shards_are_the_bytes_of_one_run(
    cli, made: Paths, images: Path, out: Path, total: int
) -> None:
    parts = [out / f"part{index}.npz" for index in range(total)]
    for index, part in enumerate(parts):
        shard = ("--shard", f"{index + 1}/{total}", "--stats", part, "--batch", index + 1)
        result = cli("calibrate", made["model"], "--data", images, *FLAGS, *shard)
        assert result.exit_code == 0, result.output
        assert "statistics of 6 tensors gathered" in result.stdout
    merged_file = out / "merged.npz"
    for order in itertools.islice(itertools.permutations(parts), 6):
        merged = cli("stats", "merge", *order, "-o", merged_file)
        assert merged.exit_code == 0, merged.output
        assert "merged: 6 samples, 6 tensors" in merged.stdout and "mixed" not in merged.stdout
        assert merged_file.read_bytes() == made["stats"].read_bytes()
    for name, source in (("whole", ("--data", images, *FLAGS)), ("merged", ("--from-stats", merged_file))):
        table = ("-o", out / f"{name}.json", "--method", "mse")
        assert cli("calibrate", made["model"], *source, *table).exit_code == 0
    assert (out / "merged.json").read_bytes() == (out / "whole.json").read_bytes()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("batch", [1, 2, 4])
@pytest.mark.parametrize("threads", [1, 3])
def test_order_batches_and_threads_leave_no_trace(
    cli, made: Paths, images: Path, out: Path, batch: int, threads: int
) -> None:
    for path in (images / "a").iterdir():
        path.rename(images / "b" / f"{9 - int(path.stem)}{path.name}")
    files = ("-o", out / "t.json", "--stats", out / "s.npz")
    result = cli(
        "calibrate", made["model"], "--data", images, *FLAGS, *files, "--batch", batch, "--threads", threads
    )
    assert result.exit_code == 0, result.output
    assert (out / "s.npz").read_bytes() == made["stats"].read_bytes()
    assert (out / "t.json").read_bytes() == made["table"].read_bytes()


def test_statistics_are_shown(cli, made: Paths, out: Path) -> None:
    result = cli("stats", "show", made["stats"], "--json", out / "s.json")
    assert result.exit_code == 0, result.output
    found = json.loads((out / "s.json").read_text())
    table = json.loads(made["table"].read_text())
    assert found["samples"] == 6 and found["model_hash"] == table["model_hash"]
    assert [entry["tensor"] for entry in found["tensors"]] == list(table["tensors"])
    for entry in found["tensors"]:
        known = table["tensors"][entry["tensor"]]
        assert entry["zeros"] == known["zeros"] and entry["count"] == known["count"]
        assert {"min": entry["minimum"], "max": entry["maximum"]} == known["observed"]
        assert entry["minimum"] <= entry["mean_minimum"] <= entry["mean_maximum"] <= entry["maximum"]
        assert entry["tensor"] in result.stdout


def test_statistics_of_another_model(cli, refused, made: Paths, tmp_path: Path, out: Path) -> None:
    other = save(cnn(seed=1), tmp_path / "other.onnx")
    before = set(out.iterdir())
    for command in (("calibrate", "-o", out / "x"), ("quantize", "-o", out / "x.onnx")):
        result = cli(command[0], other, *command[1:], "--from-stats", made["stats"])
        refused(result, 1, "stats.npz: were made for another model", "Gather statistics of this model.")
    assert set(out.iterdir()) == before


def test_shards_with_another_preprocessing(cli, refused, made: Paths, images: Path, out: Path) -> None:
    other = ("--data", images, *FLAGS, "--filter", "nearest", "--stats", out / "other.npz")
    assert cli("calibrate", made["model"], *other).exit_code == 0
    result = cli("stats", "merge", made["stats"], out / "other.npz", "-o", out / "x")
    refused(result, 1, "other.npz: was preprocessed otherwise than ", "Gather all parts with the same")
    assert "(filter nearest, not bilinear)" in result.stderr
    assert not (out / "x").exists()


def test_statistics_of_fewer_tensors(cli, refused, made: Paths, images: Path, out: Path) -> None:
    few = ("--keep-float", "gemm", "--stats", out / "few.npz")
    assert cli("calibrate", made["model"], "--data", images, *FLAGS, *few).exit_code == 0
    result = cli("calibrate", made["model"], "--from-stats", out / "few.npz", "-o", out / "x")
    refused(result, 1, "few.npz: lack ", "of 6 tensors, such as '", "--keep-float")
    refused(
        cli("stats", "merge", made["stats"], out / "few.npz", "-o", out / "x"),
        1,
        "few.npz: holds other tensors than ",
    )
    assert not (out / "x").exists()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--method", "ema"), ("--method ema: depends on the order of the samples", "mean-minmax")),
        (("--data", "{images}"), ("--data: does not go with --from-stats",)),
        (("--samples", "3"), ("--samples: does not go with --from-stats",)),
        (("--batch", "3"), ("--batch: does not",)),
        (("--threads", "3"), ("--threads: does not",)),
        (("--skip-bad",), ("--skip-bad: does not",)),
        (("--labels", "{images}"), ("--labels: does not",)),
        (("--stats", "{out}/s"), ("--stats: does not go with --from-stats",)),
        (("--shard", "1/2"), ("--shard: does not go with --from-stats",)),
        (("--checkpoint", "{out}/c"), ("--checkpoint: does not",)),
        (("--checkpoint-every", "3"), ("--checkpoint-every: does not",)),
        (FLAGS, ("preprocessing: does not go with --from-stats",)),
    ],
    ids=lambda value: value[0],
)
def test_options_that_statistics_do_not_take(
    cli, refused, made: Paths, images: Path, out: Path, flags: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    filled = [text.format(images=images, out=out) for text in flags]
    before = set(out.iterdir())
    refused(
        cli("calibrate", made["model"], "--from-stats", made["stats"], "-o", out / "x", *filled), 2, *parts
    )
    assert set(out.iterdir()) == before


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ((), ("calibrate: nothing is to be written", "--output TABLE.json, or --stats FILE")),
        (("--stats", "{out}/s", "--method", "mse"), ("--method: does not go with statistics alone",)),
        (("--stats", "{out}/s", "--range", "*=3"), ("--range: does not go with statistics alone",)),
        (("--stats", "{out}/s", "--power-of-two"), ("--power-of-two: does not go",)),
        (("--stats", "{out}/s", "--shard", "3/2"), ("there is no shard 3 of 2",)),
        (("--stats", "{out}/s", "--shard", "half"), ("--shard half: is not a number of a shard",)),
        (("--stats", "{out}/s", "--shard", "9/9"), ("has 6 samples and none of them in shard 9/9",)),
        (("-o", "{out}/t", "--shard", "1/2"), ("--output: does not go with --shard", "stats merge")),
        (
            ("--stats", "{out}/s", "--shard", "1/2", "--method", "ema"),
            ("--method: does not go with --shard",),
        ),
        (("--shard", "1/2"), ("nothing is to be written. Give --stats FILE.",)),
        (("-o", "{out}/t", "--checkpoint-every", "3"), ("--checkpoint-every", "Add --checkpoint FILE")),
        (("-o", "{out}/t", "--checkpoint", "{out}/t"), ("--checkpoint", "is the same file as --output")),
        (("-o", "{out}/t", "--decay", "0.9"), ("--decay 0.9: method 'auto' takes no decay",)),
        (("-o", "{out}/t", "--method", "ema", "--decay", "1"), ("--decay 1: must be above 0",)),
        (("-o", "{out}/t", "--method", "ema", "--percent", "99"), ("method 'ema' takes no percent",)),
        (("-o", "{out}/t", "--method", "guess"), ("unknown method", "mean-minmax", "ema")),
    ],
    ids=lambda value: " ".join(value),
)
def test_options_that_do_not_go_together(
    cli, refused, model: Path, images: Path, out: Path, flags: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    filled = [text.format(out=out) for text in flags]
    refused(cli("calibrate", model, "--data", images, *FLAGS, *filled), 2, *parts)
    assert list(out.iterdir()) == []


def test_neither_data_nor_statistics(cli, refused, model: Path, out: Path) -> None:
    refused(cli("calibrate", model, "-o", out / "t"), 2, "Give --data or --from-stats.")


def test_files_that_are_no_statistics(cli, refused, made: Paths, tmp_path: Path, out: Path) -> None:
    for name, content in (("notes", b"notes"), ("half", made["stats"].read_bytes()[:-50]), ("none", b"")):
        path = tmp_path / name
        path.write_bytes(content)
        refused(cli("stats", "show", path), 1, f"{name}: cannot be read (it is no .npz archive)")
        refused(cli("stats", "merge", made["stats"], path, "-o", out / "x"), 1, f"{name}: cannot be read")
        refused(cli("calibrate", made["model"], "--from-stats", path, "-o", out / "x"), 1, f"{name}: cannot")
    refused(cli("stats", "show", tmp_path / "nowhere"), 1, "nowhere: no such file")
    np.savez(tmp_path / "arrays.npz", x=np.zeros(3))
    refused(cli("stats", "show", tmp_path / "arrays.npz"), 1, "arrays.npz: ")
    assert not (out / "x").exists()


def test_a_file_given_twice_and_one_that_would_be_lost(cli, refused, made: Paths, out: Path) -> None:
    stats = made["stats"]
    refused(cli("stats", "merge", stats, stats, "-o", out / "x"), 2, "stats.npz: is given twice")
    refused(cli("stats", "merge", stats, "-o", stats), 2, "--output", "is the same file as an input")


def test_a_part_under_another_name_counts_twice_only_if_asked(cli, refused, made: Paths, out: Path) -> None:
    stats, copy = made["stats"], out / "copy.npz"
    copy.write_bytes(stats.read_bytes())
    merge = ("stats", "merge", stats, copy, "-o", out / "x")
    refused(cli(*merge), 1, "copy.npz: holds 6 samples that ", "which would count twice", "--repeated")
    assert not (out / "x").exists()
    taken = cli(*merge, "--repeated")
    assert taken.exit_code == 0 and "2 files merged: 12 samples" in taken.stdout


def test_parts_of_two_cpu_types(cli, refused, made: Paths, out: Path) -> None:
    found = Statistics.load(made["stats"])
    away = Origin("vax", found.origins[0].runtime)
    replace(found, origins=(away,), digests=()).save(out / "vax.npz")
    merge = ("stats", "merge", made["stats"], out / "vax.npz", "-o", out / "x", "--json", out / "x.json")
    refused(cli(*merge), 1, "vax.npz: was gathered on vax with ONNX Runtime", "--mixed takes them")
    assert not (out / "x").exists()
    taken = cli(*merge, "--mixed")
    assert taken.exit_code == 0 and "note: mixed: a run over all samples" in taken.stdout
    cpus = [origin["cpu"] for origin in json.loads((out / "x.json").read_text())["origins"]]
    assert sorted(cpus) == sorted((found.origins[0].cpu, "vax"))
    shown = cli("stats", "show", made["stats"])
    assert f"gathered on {found.origins[0]}\n" in shown.stdout and "mixed" not in shown.stdout


def test_the_moving_average_depends_on_the_order(cli, model: Path, images: Path, out: Path) -> None:
    for name in ("forward", "backward"):
        command = ("calibrate", model, "--data", images, *FLAGS, "--method", "ema", "--decay", "0.5")
        result = cli(*command, "-o", out / name, "--batch", 3, "--threads", 2)
        assert result.exit_code == 0, result.output
        for index, path in enumerate(sorted(images.rglob("*.png"), reverse=True)):
            path.rename(images / f"{index}.png")
    forward, backward = (
        (json.loads((out / name).read_text())["tensors"]) for name in ("forward", "backward")
    )
    assert forward["image"]["method"] == "ema"
    assert forward["maps"]["range"] != backward["maps"]["range"]
    assert forward["maps"]["observed"] == backward["maps"]["observed"]
