"""Formats are told by their content; files that are none are refused by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_tables import ranges_of, table_of

from calib8.errors import TableError, UsageError
from calib8.formats.table_file import TableFile
from calib8.formats.tables import FORMATS, read_table, recognize, table_text, write_table, write_text
from calib8.table import CalibrationTable
from small_models import graph, normal

RANGES = {"x": (-2.0, 1.5), "r: 1": (0.0, 6.0)}
WORDS = {"x": (-2.0, 1.5), "r": (0.0, 6.0)}


@cache
def model() -> ir.Model:
    constants = {"w": normal(4, 3, 3, 3), "u": normal(2, 4, 1, 1)}
    return graph(
        "float[1,3,6,6] x", "float[1,2,4,4] y", "c = Conv(x, w) r = Relu(c) y = Conv(r, u)", constants
    )


def content(name: str) -> str:
    table = table_of(WORDS if name.startswith(("tengine", "ncnn")) else RANGES)
    return table_text(table, name, model=model())


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_told_by_its_content(name: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_text(path, content(name))
    read = read_table(path)
    assert read.format == name
    assert len(read.table.entries) == 2
    assert read_table(path, name) == read
    assert ("layers" if FORMATS[name].layers else "tensors") == read.keys
    assert read.source == str(path)


@pytest.mark.parametrize("name", FORMATS)
def test_a_mark_in_front_does_not_disturb(name: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_text(content(name), encoding="utf-8-sig")
    assert read_table(path).format == name


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_cut_short_is_never_read_in_part(name: str, tmp_path: Path) -> None:
    """Cut within the last line: refused, or (a shorter number) read as another number, but of all tensors."""
    path, text = tmp_path / "table", content(name).rstrip()
    path.write_text(text[:-3])
    try:
        read = read_table(path, name)
    except TableError as error:
        assert str(path) in str(error)
    else:
        assert len(read.table.entries) + len(read.without_scale) == 2


@pytest.mark.parametrize(
    "text", ["", "\n\n", "hello", "hello world\n", "[]", "{}", '{"a": 1}', "{", "{" * 100_000, "a,b\n1,2\n"]
)
def test_what_is_like_no_table_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(TableError, match=r"notes\.txt"):
        read_table(path)


def test_no_text_no_file_a_folder_and_a_device(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TableError, match="bytes: cannot be read"):
        read_table(tmp_path / "bytes")
    with pytest.raises(TableError, match="none: no such file"):
        read_table(tmp_path / "none")
    for path in (tmp_path, "/dev/null"):
        with pytest.raises(TableError, match=r"is a (device|pipe), no file|is a folder"):
            read_table(path)


def test_a_format_by_name_overrides_the_content(tmp_path: Path) -> None:
    path = tmp_path / "t.scale"
    path.write_text("relu 0.5 0\n")
    assert ranges_of(read_table(path).table) == {"relu": (-63.5, 63.5)}
    assert ranges_of(read_table(path, "tengine-uint8").table) == {"relu": (0.0, 127.5)}
    with pytest.raises(TableError, match="not a header"):
        read_table(path, "tensorrt")
    with pytest.raises(UsageError, match="form='trt': unknown format"):
        read_table(path, "trt")


def test_a_header_that_was_lost_is_told(tmp_path: Path) -> None:
    path = tmp_path / "old.cache"
    path.write_text("data: 3caa578d\nconv1: 3d418306\n")
    with pytest.raises(TableError, match="not a header of a TensorRT cache"):
        read_table(path)


def test_calib8s_own_table_keeps_what_binds_it(tmp_path: Path) -> None:
    table = CalibrationTable("abc", table_of(RANGES).entries)
    table.save(tmp_path / "t.json")
    assert read_table(tmp_path / "t.json").table == table


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.cache"
    path.write_text("old")
    with pytest.raises(TableError, match="is not text"):
        write_text(path, "a\ud800: 3c010204\n")
    assert path.read_text() == "old"


def test_a_table_is_written_with_its_header(tmp_path: Path) -> None:
    write_table(tmp_path / "t", table_of(RANGES), "tensorrt", header="TRT-7000-LegacyCalibration")
    read = read_table(tmp_path / "t")
    assert read.header == "TRT-7000-LegacyCalibration" and set(read.table.entries) == set(RANGES)
    with pytest.raises(UsageError, match="form='ncnn'"):
        write_table(tmp_path / "n", table_of(WORDS), "ncnn")
    assert not (tmp_path / "n").exists()


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
def test_no_content_whatever_raises_anything_else(name: str, data: st.DataObject) -> None:
    """A piece of a good file is replaced by another piece of it, or by anything."""
    text = content(name)
    first, last = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    pieces = [
        "",
        "\n",
        "0",
        "-1",
        "1e999",
        "nan",
        "null",
        "[]",
        "{}",
        '"',
        ": ",
        "\x00",
        text[first:last] * 2,
    ]
    spoiled = text[:first] + data.draw(st.one_of(st.sampled_from(pieces), st.text(max_size=5))) + text[last:]
    for read in (FORMATS[name].read, recognized):
        try:
            file = read(spoiled, "t")
        except TableError as error:
            assert str(error).startswith("t")
        else:
            assert all(entry.range.min <= entry.range.max for entry in file.table.entries.values())


def recognized(text: str, source: str) -> TableFile:
    return recognize(text, source)(text, source)
