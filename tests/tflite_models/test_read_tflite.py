"""Damaged and hostile files: one error that names the file, and no memory beyond what the file justifies."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calib8.errors import ModelError, UnsupportedModelError
from calib8.tflite.bounds import MOST_ENTRIES
from calib8.tflite.graph import Graph, Operator, Quantization, Tensor
from calib8.tflite.read import parse, read_tflite
from calib8.tflite.write import serialize


def layer() -> Graph:
    """A convolution with bias, metadata and a description."""
    codes = Quantization(np.array([0.5], np.float32), np.array([3]))
    several = Quantization(np.array([0.1, 0.2], np.float32), np.zeros(2, np.int64))
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "fused_activation_function": "RELU"}
    return Graph(
        tensors=(
            Tensor("x", (1, 4, 4, 3), "int8", None, codes),
            Tensor("w", (2, 1, 1, 3), "int8", np.arange(6, dtype=np.int8).reshape(2, 1, 1, 3), several),
            Tensor("b", (2,), "int32", np.array([7, -9], np.int32)),
            Tensor("y", (1, 4, 4, 2), "int8", None, codes),
        ),
        operators=(Operator("CONV_2D", (0, 1, 2), (3,), options, 3),),
        inputs=(0,),
        outputs=(3,),
        name="net",
        description="a layer",
        metadata={"min_runtime_version": b"1.5.0"},
    )


FILE = serialize(layer())


def field_place(data: bytes | bytearray, table: int, slot: int) -> int:
    """Byte of a field of a table."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    place: int = table + struct.unpack_from("<H", data, fields + 4 + 2 * slot)[0]
    return place


def follow(data: bytes | bytearray, place: int) -> int:
    """Where the offset at a byte leads."""
    target: int = place + struct.unpack_from("<I", data, place)[0]
    return target


def with_word(data: bytes, place: int, value: int) -> bytes:
    out = bytearray(data)
    struct.pack_into("<I", out, place, value % (1 << 32))
    return bytes(out)


MODEL = follow(FILE, 0)
SUBGRAPHS = follow(FILE, field_place(FILE, MODEL, 2))
GRAPH = follow(FILE, SUBGRAPHS + 4)
TENSORS = follow(FILE, field_place(FILE, GRAPH, 0))
X = follow(FILE, TENSORS + 4)
SHAPE = follow(FILE, field_place(FILE, X, 0))
DESCRIPTION = follow(FILE, field_place(FILE, MODEL, 3))


def refused(data: bytes, kind: type[ModelError] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        parse(data, "net.tflite")
    message = str(caught.value)
    assert message.startswith("net.tflite: ") and "\n" not in message
    return message


def test_the_graph_comes_back() -> None:
    graph = parse(FILE, "net.tflite")
    assert [tensor.name for tensor in graph.tensors] == ["x", "w", "b", "y"]
    assert graph.operators[0].options["fused_activation_function"] == "RELU"
    np.testing.assert_array_equal(graph.tensors[2].data, [7, -9])
    assert serialize(graph) == FILE


def test_every_truncation_is_refused_unless_nothing_is_lost() -> None:
    """The last bytes fill up the last text."""
    for size in range(len(FILE) - 8):
        assert "net.tflite" in refused(FILE[:size])
    for size in range(len(FILE) - 8, len(FILE)):
        try:
            assert serialize(parse(FILE[:size], "net.tflite")) == FILE
        except ModelError as error:
            assert str(error).startswith("net.tflite: ")


def test_every_flipped_bit_gives_a_graph_or_an_error() -> None:
    for place in range(8, len(FILE)):
        for bit in (0, 6):
            data = bytearray(FILE)
            data[place] ^= 1 << bit
            try:
                parse(bytes(data), "net.tflite")
            except ModelError as error:
                assert str(error).startswith("net.tflite: ")


@pytest.mark.parametrize(
    ("place", "value", "what"),
    [
        (0, 1 << 31, "damaged"),  # the root outside
        (0, 0, "damaged"),  # the root is its own offset
        (MODEL, MODEL + 100, "fields of a table"),  # fields before the file: read from its end by struct
        (MODEL, -len(FILE), "fields of a table"),  # fields behind the file
        (X, X + 1, "damaged"),
        (SUBGRAPHS, (1 << 32) - 1, "entries in the list"),
        (SUBGRAPHS, MOST_ENTRIES, "damaged"),  # a list longer than the file
        (TENSORS, 1 << 30, "entries in the list"),
        (TENSORS + 4, (1 << 32) - 4, "damaged"),
        (SHAPE, 1 << 29, "damaged"),
        (SHAPE + 4, -1, "below 0"),
        (SHAPE + 4, (1 << 31) - 1, "elements"),
        (DESCRIPTION, len(FILE), "a text of"),
    ],
)
def test_offsets_and_sizes_that_lead_outside(place: int, value: int, what: str) -> None:
    assert what in refused(with_word(FILE, place, value))


def test_a_field_beside_its_table() -> None:
    fields = X - struct.unpack_from("<i", FILE, X)[0]
    data = bytearray(FILE)
    struct.pack_into("<H", data, fields + 4, 60000)
    assert "a field lies" in refused(bytes(data))


def test_the_schema_version_and_the_identifier() -> None:
    assert "schema version 9" in refused(with_word(FILE, field_place(FILE, MODEL, 0), 9))
    assert "TFL3" in refused(FILE[:4] + b"TFL2" + FILE[8:])
    assert "TFL3" in refused(b"")


def test_several_subgraphs_and_none() -> None:
    assert "0 subgraphs" in refused(with_word(FILE, SUBGRAPHS, 0), UnsupportedModelError)


def changed(change: Callable[[Graph], Graph]) -> bytes:
    return serialize(change(layer()))


def test_names_that_are_no_utf8_are_read_with_a_mark() -> None:
    data = bytearray(FILE)
    data[DESCRIPTION + 4] = 0xFF
    assert parse(bytes(data)).description == "\N{REPLACEMENT CHARACTER} layer"


def test_options_of_another_operator() -> None:
    data = FILE
    operators = follow(data, field_place(data, GRAPH, 3))
    place = field_place(data, follow(data, operators + 4), 3)
    assert "options of another operator" in refused(data[:place] + b"\x05" + data[place + 1 :])


def test_members_that_the_schema_does_not_have() -> None:
    data = FILE
    operators = follow(data, field_place(data, GRAPH, 3))
    options = follow(data, field_place(data, follow(data, operators + 4), 4))
    place = field_place(data, options, 3)
    graph = parse(data[:place] + b"\x63" + data[place + 1 :])
    assert graph.operators[0].options["fused_activation_function"] == "ActivationFunctionType 99"


@pytest.mark.parametrize("shape", [(2, 1, 1, 2), (1 << 20, 1 << 20), (2, 1, 1, 3, 1, 1, 0)])
def test_constants_of_another_size_than_their_shape(shape: tuple[int, ...]) -> None:
    graph = layer()
    weight = replace(graph.tensors[1], shape=shape, quantization=None)
    data = serialize(replace(graph, tensors=(graph.tensors[0], weight, *graph.tensors[2:])))
    assert "has a buffer of 6 bytes" in refused(data)


def behind_the_model(offset: int, size: int) -> bytes:
    """The file with the bias's buffer behind the model, as files over 2 GB have theirs.

    A new table (data: none, offset, size) comes at the end of the file, its list of fields before it.
    """
    buffers = follow(FILE, field_place(FILE, MODEL, 4))
    entry = buffers + 4 + 4 * 2  # the bias is the second constant
    table = struct.pack("<HHHHH", 10, 20, 0, 4, 12) + struct.pack("<iQQ", 10, offset, size)
    return with_word(FILE, entry, len(FILE) + 10 - entry) + table


def test_buffers_behind_the_model() -> None:
    end = len(behind_the_model(1000, 8))
    bias = np.array([5, 6], "<i4").tobytes()
    for start in (end, end + 1):  # also where numbers would not be aligned
        data = behind_the_model(start, 8) + bytes(start - end) + bias
        array = parse(data, "net.tflite").tensors[2].data
        assert array is not None and array.flags.aligned
        np.testing.assert_array_equal(array, [5, 6])


@pytest.mark.parametrize(("offset", "size"), [(1 << 40, 8), (500, 1 << 62), ((1 << 64) - 8, 8)])
def test_buffers_beyond_the_file(offset: int, size: int) -> None:
    assert "a buffer of" in refused(behind_the_model(offset, size))


def test_many_lists_over_the_same_bytes_take_little_memory() -> None:
    """A thousand tensors whose shapes are one list of half a megabyte."""
    count, entries = 1000, 1 << 17
    graph = replace(layer(), tensors=tuple(Tensor("t", (1,), "int8") for _ in range(count)))
    data = bytearray(serialize(graph))
    shape = len(data)
    data += struct.pack("<I", entries) + bytes(4 * entries)
    tensors = tensors_of(serialize(graph))
    for number in range(count):
        place = field_place(data, follow(data, tensors + 4 + 4 * number), 0)
        struct.pack_into("<I", data, place, shape - place)
    tracemalloc.start()
    assert "over and over" in refused(bytes(data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * len(data)


def tensors_of(data: bytes) -> int:
    """Byte of the list of tensors."""
    graph = follow(data, follow(data, field_place(data, follow(data, 0), 2)) + 4)
    return follow(data, field_place(data, graph, 0))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, problem in ((tmp_path, "is a folder"), (tmp_path / "missing.tflite", "no such file")):
        with pytest.raises(ModelError, match=problem):
            read_tflite(path)
    path = tmp_path / "net.tflite"
    path.write_bytes(FILE)
    assert read_tflite(path).name == "net"


def test_a_truncated_file_says_where_it_ends() -> None:
    assert "it ends at byte 200, before what it refers to" in refused(FILE[:200])


def test_a_constant_of_no_elements() -> None:
    """Its buffer is empty; tensors that are fed or computed have none either, and are no constants."""
    names = ("x", "axes", "y")
    shapes, dtypes = ((0, 3), (0,), (0, 3)), ("float32", "int32", "float32")
    fields = zip(names, shapes, dtypes, strict=True)
    tensors = tuple(Tensor(name, shape, dtype) for name, shape, dtype in fields)
    options = {"keep_dims": False}
    graph = Graph(tensors, (Operator("MEAN", (0, 1), (2,), options),), (0,), (2,), "net")
    x, axes, y = parse(serialize(graph)).tensors
    assert x.data is None and y.data is None
    assert axes.data is not None and axes.data.shape == (0,) and axes.data.dtype == np.int32
