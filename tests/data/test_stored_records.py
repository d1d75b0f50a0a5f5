"""Pictures in tar shards and Parquet files: the samples of a folder of them, in every form of writing it."""

from __future__ import annotations

import gc
import gzip
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calib8
from calib8.data import reading_ahead, tar_shards
from calib8.data.batches import batches
from calib8.data.items import Items
from calib8.data.opening import open_dataset
from calib8.data.places import expanded, place_of
from calib8.data.samples import Pending
from calib8.data.shards import Shard, one_shard
from calib8.data.stored_records import parts_of, samples_of_part
from calib8.errors import DataError, UsageError
from calib8.tensors import TensorSpec
from needed import needed
from stored_data import (
    CLASSES,
    COUNT,
    ENCODED,
    INPUT,
    KEYS,
    PIXELS,
    RECIPE,
    folder,
    members,
    model,
    parquet,
    shards,
    tar,
)


def read(data: Any, **options: Any) -> tuple[list[str], list[int | None]]:
    """Names and labels of the samples, whose pixels are compared; the same a second time, in threads."""
    dataset = open_dataset(data, INPUT, RECIPE, **options)
    first = list(dataset)
    again = [name for batch in batches(dataset, 4, 2) for name in batch.names]
    assert [sample.name for sample in first] == again and len(set(again)) == len(again)
    known = {picture.tobytes() for picture in PIXELS.transpose(0, 3, 1, 2).astype(np.float32)}
    assert all(sample.inputs["x"].tobytes() in known for sample in first)
    return again, [sample.label for sample in first]


def written(place: Path) -> dict[str, str]:
    shards(place / "tar")
    shards(place / "gz", ".tar.gz")
    parquet(place / "parquet")
    parquet(place / "struct", struct=True)
    return {
        "folder of shards": f"{place}/tar",
        "braces": f"{place}/tar/train-{{000..002}}.tar",
        "words in braces": f"{place}/tar/train-{{000,002,001}}.tar",
        "pattern": f"{place}/tar/*.tar",
        "gzip": f"{place}/gz",
        "gzip in braces": f"{place}/gz/train-00{{0..2}}.tar.gz",
        "Parquet": f"{place}/parquet",
        "Parquet of Hugging Face": f"{place}/struct/part-?.parquet",
        "file": f"file://{place}/tar/*.tar",
    }


def test_all_forms_give_the_samples_and_statistics_of_the_folder(tmp_path: Path) -> None:
    out = tmp_path / "out.stats"
    calib8.collect_statistics(model(), folder(tmp_path / "folder"), preprocess=RECIPE).statistics.save(out)
    expected = out.read_bytes()
    for form, data in written(tmp_path).items():
        assert read(data)[1] == CLASSES, form
        calib8.collect_statistics(model(), data, preprocess=RECIPE, threads=3).statistics.save(out)
        assert out.read_bytes() == expected, form
    fewer = calib8.collect_statistics(model(), tmp_path / "tar", preprocess=RECIPE, samples=9)
    fewer.statistics.save(out)
    assert out.read_bytes() != expected


def test_names_tell_shard_and_key(tmp_path: Path) -> None:
    shards(tmp_path / "a")
    assert read(tmp_path / "a")[0][3:5] == ["train-000.tar/cat/003", "train-001.tar/dog/004"]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "train-000.tar").write_bytes(tar(members([9])))
    names, _ = read(f"{tmp_path}/{{a,b}}/train-000.tar")
    assert names[3:] == ["a/train-000.tar/cat/003", "b/train-000.tar/dog/009"]
    assert read(parquet(tmp_path / "p"))[0][5:7] == ["part-0.parquet[5]", "part-1.parquet[0]"]


def test_fewer_samples_are_a_share_of_each_shard(tmp_path: Path) -> None:
    shards(tmp_path / "tar")
    assert [name[10:].lstrip(".tar/") for name in read(tmp_path / "tar", samples=5)[0]] == [
        "cat/000", "cat/001", "dog/004", "dog/005", "dog/007",
    ]  # fmt: skip
    assert len(read(tmp_path / "tar", samples=2)[0]) == 2
    parquet(tmp_path / "p")
    dataset = open_dataset(tmp_path / "p", INPUT, RECIPE, samples=4)
    assert dataset.count == 4
    assert [one.name for one in dataset] == [
        "part-0.parquet[0]", "part-0.parquet[2]", "part-0.parquet[5]", "part-1.parquet[1]",
    ]  # fmt: skip


def test_parts_are_plain_values_that_need_no_other(tmp_path: Path) -> None:
    items = Items(INPUT, RECIPE)
    for data, samples in ((shards(tmp_path / "t"), 5), (parquet(tmp_path / "p"), 4), (tmp_path / "t", None)):
        place = place_of(str(data))
        assert place is not None
        parts = pickle.loads(pickle.dumps(parts_of(place, items, samples)))
        apart = [one.name for part in parts for one in samples_of_part(part, items)]
        assert apart == [one.name for one in open_dataset(data, INPUT, RECIPE, samples=samples)]


def test_arrays_and_several_inputs(tmp_path: Path) -> None:
    pyarrow = needed("pyarrow")
    from pyarrow import parquet as files

    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    columns = {"b": [[1, 2], [3, 4]], "a": values.tolist(), "cls": [7, 8], "text": ["x", "y"]}
    files.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    inputs = [
        TensorSpec("a", np.dtype(np.float32), (None, 3, 4)),
        TensorSpec("b", np.dtype(np.int64), (None, 2)),
    ]
    first, second = open_dataset(tmp_path / "a.parquet", inputs, None)
    np.testing.assert_array_equal(second.inputs["a"], values[1:])
    assert first.inputs["b"].tolist() == [[1, 2]] and [first.label, second.label] == [7, 8]
    mapped = open_dataset(tmp_path / "a.parquet", inputs[:1], None, input_map={"a": "a", "label": "cls"})
    assert [one.label for one in mapped] == [7, 8]
    whole = open_dataset(tmp_path / "a.parquet", inputs[:1], None, transform=lambda row: {"a": row["a"] + 1})
    np.testing.assert_array_equal(next(iter(whole)).inputs["a"], values[:1] + 1)
    with pytest.raises(DataError, match=r"a\.parquet: has no column 'c'; it has b \(list"):
        open_dataset(tmp_path / "a.parquet", [*inputs, TensorSpec("c", np.dtype(np.int64), (2,))], None)
    with pytest.raises(DataError, match=r"has several columns for input 'z'.*input_map={'z': 'b'}"):
        open_dataset(tmp_path / "a.parquet", [TensorSpec("z", np.dtype(np.int64), (2,))], None)


@pytest.mark.parametrize("cut", [100, 700, 1536, 1500, 5000, -10300, -9000])
def test_a_shard_that_is_cut_off(tmp_path: Path, cut: int) -> None:
    whole = tar(members(range(COUNT)))
    end = len(whole.rstrip(b"\0"))
    place = end - 40 if cut == -9000 else cut if cut > 0 else end - 600
    (tmp_path / "s.tar").write_bytes(whole[:place])
    for skip_bad in (False, True):
        with pytest.raises(DataError, match=r"^s\.tar: is broken (at its beginning|behind '(cat|dog)/00\d')"):
            list(open_dataset(tmp_path / "s.tar", INPUT, RECIPE, skip_bad=skip_bad))


@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_header_that_is_broken_in_the_middle(tmp_path: Path, skip_bad: bool) -> None:
    content = bytearray(tar(members(range(COUNT))))
    header = content.index(b"dog/006.png")
    content[header + 150] ^= 0xFF  # in the checksum of the header
    (tmp_path / "s.tar").write_bytes(content)
    dataset = open_dataset(tmp_path / "s.tar", INPUT, RECIPE, skip_bad=skip_bad)
    for run in (lambda: list(dataset), lambda: list(batches(dataset, 3, 2))):
        with pytest.raises(DataError, match=r"^s\.tar: is broken behind 'dog/005'"):
            run()


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("kind", ["a header of zeros", "two shards in one file"])
def test_what_lies_behind_the_marker_at_the_end_is_not_passed_over(
    tmp_path: Path, kind: str, mode: str
) -> None:
    """Readers of tar take a block of zeros for the end, so the samples behind it would be left out."""
    if kind == "a header of zeros":
        content = bytearray(tar(members(range(COUNT))))
        header = content.index(b"dog/006.png")
        content[header : header + 512] = bytes(512)
    else:
        content = bytearray(tar(members(range(6))) + tar(members(range(6, COUNT))))
    name = "s.tar" if mode == "w" else "s.tgz"
    (tmp_path / name).write_bytes(content if mode == "w" else gzip.compress(content))
    for skip_bad in (False, True):
        with pytest.raises(DataError, match=rf"^{name}: goes on behind the end that it marks, .* 'dog/005'"):
            list(open_dataset(tmp_path / name, INPUT, RECIPE, skip_bad=skip_bad))


def test_a_shard_without_the_marker_at_its_end(tmp_path: Path) -> None:
    content = tar(members(range(3)))
    end = len(content.rstrip(b"\0"))
    (tmp_path / "s.tar").write_bytes(content[: -(-end // 512) * 512])
    assert len(read(tmp_path / "s.tar")[0]) == 3


@pytest.mark.parametrize("place", [-5, -2000, 300])
def test_gzip_is_checked_to_its_end(tmp_path: Path, place: int) -> None:
    noise = np.random.default_rng(1).integers(0, 256, 3000, np.uint8).tobytes()
    content = bytearray(tar([*members(range(4)), ("z.bin", noise)], "w:gz"))
    content[place] ^= 0x10
    (tmp_path / "s.tgz").write_bytes(content)
    with pytest.raises(DataError, match=r"^s\.tgz: is broken"):
        list(open_dataset(tmp_path / "s.tgz", INPUT, RECIPE))
    (tmp_path / "s.tgz").write_bytes(tar(members(range(4)), "w:gz")[:-9])
    with pytest.raises(DataError, match=r"^s\.tgz: is broken"):
        list(open_dataset(tmp_path / "s.tgz", INPUT, RECIPE))


def test_bad_pictures_are_named_and_counted(tmp_path: Path) -> None:
    bad = [
        ("cat/001.png", b"none"),
        ("cat/001.cls", b"1"),
        ("cat/002.png", ENCODED[0]),
        ("cat/002.cls", b"cat"),
    ]
    (tmp_path / "s.tar").write_bytes(tar([*members([0]), *bad, *members([5])]))
    with pytest.raises(DataError, match=r"^s\.tar/cat/001: cannot be decoded"):
        list(open_dataset(tmp_path / "s.tar", INPUT, RECIPE))
    dataset = open_dataset(tmp_path / "s.tar", INPUT, RECIPE, skip_bad=True)
    for batch in batches(dataset, 8, 2):
        assert batch.names == ("s.tar/cat/000", "s.tar/dog/005")
    assert [one.name for one in dataset.skipped] == ["s.tar/cat/001", "s.tar/cat/002"]
    made = calib8.collect_statistics(model(), tmp_path / "s.tar", preprocess=RECIPE, skip_bad=True)
    assert made.dataset is not None and len(made.dataset.skipped) == 2


def test_what_no_shard_may_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(content: list[tuple[str, bytes]], told: str) -> None:
        (tmp_path / "s.tar").write_bytes(tar(content))
        with pytest.raises(DataError, match=told):
            list(open_dataset(tmp_path / "s.tar", INPUT, RECIPE))

    refused([*members([0, 1]), (f"{KEYS[0]}.txt", b"")], "^s.tar/cat/000: comes a second time")
    refused([*members([0]), *members([0])], "^s.tar/cat/000: has two members .png")
    refused([("0.txt", b"a")], "^s.tar/0: has no array for input 'x'")
    refused([], "gave no samples")
    monkeypatch.setattr(tar_shards, "LARGEST_ROW", 100)
    refused(members([0]), "^s.tar/cat/000: holds more than")


def test_dot_files_and_folders_are_no_members(tmp_path: Path) -> None:
    extra = [(".DS_Store", b"1"), ("cat/._000.png", b"2"), (".git/1.png", b"3"), ("README", b"4")]
    (tmp_path / "s.tar").write_bytes(tar([*extra, *[(f"./{name}", one) for name, one in members([0])]]))
    assert read(tmp_path / "s.tar")[0] == ["s.tar/cat/000"]


def test_broken_parquet(tmp_path: Path) -> None:
    parquet(tmp_path / "p")
    content = (tmp_path / "p/part-0.parquet").read_bytes()
    (tmp_path / "p/part-0.parquet").write_bytes(content[:-30])
    with pytest.raises(DataError, match=r"^part-0\.parquet: cannot be read as Parquet"):
        open_dataset(tmp_path / "p", INPUT, RECIPE)
    broken = bytearray(content)
    broken[40:200] = b"\xff" * 160
    (tmp_path / "p/part-0.parquet").write_bytes(broken)
    with pytest.raises(DataError, match=r"part-0\.parquet"):
        list(open_dataset(tmp_path / "p", INPUT, RECIPE))


def test_places_that_are_none(tmp_path: Path) -> None:
    shards(tmp_path / "tar")
    parquet(tmp_path / "tar")
    for data, told in {
        f"{tmp_path}/tar": "mixes Parquet files .* and tar shards",
        f"{tmp_path}/none-{{0..3}}.tar": "none-0.tar: does not exist",
        f"{tmp_path}/none*.tar": "matches no file",
        f"{tmp_path}/x-{{5..3}}.tar": "stand for nothing",
        f"{tmp_path}/x-{{0..9999999}}.tar": "stands for",
        f"file://{tmp_path}/none.tar": "does not exist",
        f"file://{tmp_path}/none*.tar": "matches no file",
        "nosuch://host/a.tar": "no store of the kind 'nosuch' is known",
    }.items():
        with pytest.raises(DataError, match=told):
            open_dataset(data, INPUT, RECIPE)
    with pytest.raises(UsageError, match="a list of labels needs an image folder"):
        open_dataset(tmp_path / "tar/train-000.tar", INPUT, RECIPE, labels=tmp_path / "labels.txt")
    with pytest.raises(UsageError, match="images need to know how the model was trained"):
        list(open_dataset(tmp_path / "tar/train-000.tar", INPUT, None))


def test_braces() -> None:
    assert list(expanded("a-{08..11}.tar")) == ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]
    assert list(expanded("{8..10}")) == ["8", "9", "10"]
    assert list(expanded("{a,b}/{0..1}")) == ["a/0", "a/1", "b/0", "b/1"]
    assert list(expanded("{x}-{}")) == ["{x}-{}"]


def test_reading_ahead_is_bounded_and_ends(tmp_path: Path) -> None:
    alive = 0
    most = 0

    class Held:
        def __init__(self) -> None:
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def source() -> Any:
        for number in range(2000):
            held = Held()
            yield Pending(str(number), lambda held=held: held, bytes, 1 << 20)

    before = threading.active_count()
    names = [one.name for one in reading_ahead.read_ahead(source)]
    assert names == list(map(str, range(2000)))
    gc.collect()
    assert most <= reading_ahead.MOST_AHEAD + 4 and alive == 0
    begun = reading_ahead.read_ahead(source)
    next(begun)
    begun.close()
    assert threading.active_count() == before
    by_bytes = reading_ahead.read_ahead(lambda: (Pending(str(i), bytes, bytes, 40 << 20) for i in range(9)))  # type: ignore[arg-type, return-value]
    assert len(list(by_bytes)) == 9


def test_a_long_shard_is_not_in_memory(tmp_path: Path) -> None:
    """Live rows are counted while a shard of thousands goes through."""
    small = [(f"{number}.npy", b"") for number in range(3000)]
    (tmp_path / "s.tar").write_bytes(tar(small))
    place = place_of(str(tmp_path / "s.tar"))
    assert place is not None
    headers = 0
    for number, _ in enumerate(tar_shards.tar_rows(place.files[0])):
        if number == 2500:
            gc.collect()
            headers = sum(type(one).__name__ == "_Member" for one in gc.get_objects())
    assert headers <= 4


def test_shards_and_checkpoints(tmp_path: Path) -> None:
    data = shards(tmp_path / "tar")
    dataset = open_dataset(data, INPUT, RECIPE)
    parts = [[one.name for one in one_shard(dataset, Shard(index, 3))] for index in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(one.name for one in dataset)
    whole = calib8.collect_statistics(model(), data, preprocess=RECIPE)
    whole.statistics.save(tmp_path / "whole")
    pieces = [
        calib8.collect_statistics(model(), data, preprocess=RECIPE, shard=(index, 2)).statistics
        for index in (1, 2)
    ]
    calib8.merge_statistics(pieces).save(tmp_path / "merged")
    assert (tmp_path / "merged").read_bytes() == (tmp_path / "whole").read_bytes()
