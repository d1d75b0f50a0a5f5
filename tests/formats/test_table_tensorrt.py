"""TensorRT's calibration cache: published lines, odd names, every way in which a file can be broken."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_tables import line_names, ranges_of, scales, symmetric_table, table_of

from calib8.errors import TableError, UsageError
from calib8.formats import tensorrt
from calib8.qparams import INT8_SYMMETRIC, activation_qparams

HEADER = "TRT-8205-EntropyCalibration2\n"


@pytest.mark.parametrize(
    ("digits", "scale", "limit"),
    [
        ("3c010a14", 0.00787593797, 2048.5 / 2048),
        ("3c008912", 0.00784518011, 2040.5 / 2048),
        ("3c92aa10", 0.0179033577, 2.27372643),
        ("3ddc858b", 0.107676588, 13.6749267),
    ],
)
def test_lines_of_published_caches(digits: str, scale: float, limit: float) -> None:
    entry = tensorrt.read(f"{HEADER}prob: {digits}\n", "old.cache").table.entries["prob"]
    assert entry.range.max == pytest.approx(limit, rel=1e-7)
    assert entry.range.min == -entry.range.max
    qparams = activation_qparams(entry.range.min, entry.range.max, INT8_SYMMETRIC)
    assert qparams.scale == struct.unpack(">f", bytes.fromhex(digits))[0]
    assert qparams.scale == pytest.approx(scale, rel=1e-8)
    assert (entry.count, entry.observed.magnitude) == (0, 0.0)


@pytest.mark.parametrize(("limit", "digits"), [(6.0, "3d418306"), (2.6408, "3caa578d"), (1.0, "3c010204")])
def test_limits_are_written_as_the_digits_of_their_scale(limit: float, digits: str) -> None:
    assert tensorrt.write(table_of({"t": (-limit, limit)}), HEADER.strip()) == f"{HEADER}t: {digits}\n"
    assert tensorrt.write(table_of({"t": (0.0, limit)})).endswith(f"t: {digits}\n")


@given(st.dictionaries(line_names, scales, min_size=1))
def test_names_and_scales_come_back_to_the_bit(scale_of: dict[str, float]) -> None:
    table = symmetric_table(scale_of)
    text = tensorrt.write(table)
    read = tensorrt.read(text, "t.cache")
    assert ranges_of(read.table) == ranges_of(table)
    assert tensorrt.write(read.table) == text


def test_a_scale_below_float32_is_that_of_an_empty_range() -> None:
    read = tensorrt.read(f"{HEADER}a: 00000001\n", "old.cache")
    assert read.table.entries["a"].range.max == 127 * 2.0**-149
    assert tensorrt.write(read.table, HEADER.strip()) == f"{HEADER}a: 3f800000\n"


@pytest.mark.parametrize("version", ["7000", "8205", "8412", "100100"])
@pytest.mark.parametrize("algorithm", tensorrt.ALGORITHMS)
def test_all_headers(version: str, algorithm: str) -> None:
    header = f"TRT-{version}-{algorithm}"
    read = tensorrt.read(f"{header}\r\ndata: 3caa578d", "old.cache")
    assert read.header == header
    assert read.table.entries["data"].method == f"TensorRT cache {algorithm}"
    assert tensorrt.write(read.table, header).splitlines()[0] == header


def test_names_end_at_the_last_colon_and_space() -> None:
    names = ["(Unnamed Layer* 48) [Constant]_output", "onnx::Conv_329", "a: b: 3c010204", ": "]
    text = HEADER + "".join(f"{name}: 3c010204\n" for name in names)
    assert set(tensorrt.read(text, "old.cache").table.entries) == set(names)


def test_zero_and_infinite_scales_are_missing() -> None:
    read = tensorrt.read(f"{HEADER}a: 00000000\nb: 7f800000\nc: 3c010204\nd: 80000000\n", "c")
    assert read.without_scale == ("a", "b", "d")
    assert set(read.table.entries) == {"c"}


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", "line 1", "'' is not a header"),
        ("data: 3caa578d\n", "line 1", "'data: 3caa578d' is not a header"),
        ("TRT-8205-Guess\ndata: 3caa578d\n", "line 1", "not a header"),
        ("TRT-82-EntropyCalibration2\ndata: 3caa578d\n", "line 1", "not a header"),
        (HEADER, "old.cache", "holds no tensor"),
        (HEADER + "a: 3c010204\nb: 3caa57\n", "line 3", "'b: 3caa57' is not a name"),
        (HEADER + "a: 3c010204\nb: \n", "line 3", "is not a name"),
        (HEADER + "a 3c010204\n", "line 2", "is not a name"),
        (HEADER + ": 3c010204\n", "line 2", "has no tensor name"),
        (HEADER + "a: 3c010204\nb: 3c010204\na: 3c010204\n", "line 4, tensor 'a'", "twice (first in line 2)"),
        (HEADER + "a: 00000000\na: 3c010204\n", "line 3, tensor 'a'", "comes twice"),
        (HEADER + "a: bc010204\n", "line 2, tensor 'a'", "scale -0.00787"),
        (HEADER + "a: 7fc00000\n", "line 2, tensor 'a'", "scale nan"),
        (HEADER + "a: ff800000\n", "line 2, tensor 'a'", "scale -inf"),
        (HEADER + "a: 7f000000\n", "line 2, tensor 'a'", "is not a range"),
    ],
)
def test_what_is_broken_is_named(text: str, place: str, problem: str) -> None:
    with pytest.raises(TableError) as caught:
        tensorrt.read(text, "old.cache")
    assert "old.cache" in str(caught.value)
    assert place in str(caught.value) and problem in str(caught.value)


def test_a_name_with_a_line_break_is_not_written() -> None:
    with pytest.raises(TableError, match="no line of a TensorRT cache"):
        tensorrt.write(table_of({"a\nb": (-1.0, 1.0)}))


@pytest.mark.parametrize("header", ["", "TRT-1-EntropyCalibration", "TRT-8601-Entropy", "8601"])
def test_headers_that_no_tensorrt_writes_are_refused(header: str) -> None:
    with pytest.raises(UsageError, match="header="):
        tensorrt.write(table_of({"a": (-1.0, 1.0)}), header)
