"""Tmfiles read and written: files of Tengine's own tools byte for byte, and every operator."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from calib8.errors import UnsupportedModelError
from calib8.tmfile.graph import Graph
from calib8.tmfile.magic import claims_to_be_tmfile, is_tmfile_bytes
from calib8.tmfile.read import parse, read_tmfile
from calib8.tmfile.schema import BY_CODE, OPERATORS
from calib8.tmfile.write import serialize, write_tmfile
from tmfile_nets import classifier, coded, every_operator, fields, same

ELTWISE = 9


def tengine_files(shared_data: Path) -> list[Path]:
    return sorted((shared_data / "tengine").rglob("*.tmfile"))


def test_files_of_tengines_tools_come_out_byte_for_byte(shared_data: Path) -> None:
    paths = tengine_files(shared_data)
    assert len(paths) > 12
    for path in paths:
        before = path.read_bytes()
        after = serialize(read_tmfile(path))
        assert len(after) == len(before)
        old, new = (np.frombuffer(data, np.uint8) for data in (before, after))
        differ = set(np.flatnonzero(old != new).tolist())
        undefined = undefined_bytes(before)
        assert differ <= undefined, (path.name, sorted(differ - undefined)[:9])
        assert all(after[at] == 0 for at in undefined)
        assert same(parse(after), read_tmfile(path))


def undefined_bytes(data: bytes) -> set[int]:
    """Where Tengine's writer leaves what was in memory: read with offsets alone, without calib8's tables."""

    def word(at: int) -> int:
        return int(struct.unpack_from("<I", data, at)[0])

    def listed(at: int) -> list[int]:
        return [word(at + 4 + 4 * number) for number in range(word(at))] if at else []

    model = word(8)
    subgraph = listed(word(model + 8))[0]
    starts = [(6, 2), (subgraph + 36, 4)]
    for tensor in listed(word(subgraph + 24)):
        starts += [(scale + 8, 4) for scale in listed(word(tensor + 16))]
    for node in listed(word(subgraph + 20)):
        operator = word(node + 12)
        if word(operator + 4) == ELTWISE:
            starts.append((word(operator + 8) + 8, 12))
    return {start + more for start, size in starts for more in range(size)}


@pytest.mark.parametrize("graph", [classifier(), coded(classifier()), every_operator()])
def test_what_is_written_is_read_again(graph: Graph) -> None:
    data = serialize(graph)
    assert is_tmfile_bytes(data)
    assert fields(parse(data)) == fields(graph)
    assert serialize(parse(data)) == data


def test_every_operator_of_the_format_is_known() -> None:
    assert {code for code in range(108) if code not in BY_CODE} == {104}
    assert {node.op for node in every_operator().nodes} == set(OPERATORS)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("Convolution", 56), ("Deconvolution", 60), ("Eltwise", 20), ("LRN", 28), ("Pooling", 44),
        ("PriorBox", 56), ("RPN", 36), ("Slice", 40), ("Split", 16), ("LSTM", 72), ("Crop", 36),
        ("Gather", 12), ("Scatter", 8), ("Interp", 20), ("Pad", 40), ("Clip", 8), ("ReLU", 4),
    ],
)  # fmt: skip
def test_tables_of_options_have_the_size_of_tengines_structures(name: str, size: int) -> None:
    assert OPERATORS[name].layout.size == size


def test_words_lie_at_multiples_of_four_behind_bytes() -> None:
    net = every_operator()
    crop = next(node for node in net.nodes if node.op == "Crop")
    words = [crop.options[name] for name, _ in OPERATORS["Crop"].options]
    expected = struct.pack("<6iB3x2i", *words[:6], words[6], *words[7:])
    assert expected in serialize(net)


def test_a_file_without_weights_keeps_none(tmp_path: Path) -> None:
    data = bytearray(serialize(classifier()))
    graph = parse(bytes(data))
    weights = next(tensor.data for tensor in graph.tensors if tensor.name == "w")
    buffer = struct.pack("<II", weights.nbytes, data.index(weights.tobytes()))
    place = data.index(buffer)
    data[place + 4 : place + 8] = bytes(4)
    path = tmp_path / "net.tmfile"
    path.write_bytes(data)
    bare = read_tmfile(path)
    assert next(tensor for tensor in bare.tensors if tensor.name == "w").data is None
    assert fields(parse(serialize(bare))) == fields(bare)


def test_weights_that_the_file_does_not_align_are_read(tmp_path: Path) -> None:
    graph = classifier()
    moved = type(graph)(**{**vars(graph), "name": "xy"})
    found = parse(serialize(moved))
    for one, other in zip(graph.tensors, found.tensors, strict=True):
        if one.data is not None:
            assert other.data.flags.aligned
            np.testing.assert_array_equal(one.data, other.data)


def test_the_file_is_known_by_its_first_bytes_or_its_name(tmp_path: Path) -> None:
    path = tmp_path / "net"
    write_tmfile(classifier(), path)
    assert claims_to_be_tmfile(path)
    named = tmp_path / "other.TMFILE"
    named.write_bytes(b"something else")
    assert claims_to_be_tmfile(named)
    (tmp_path / "net.onnx").write_bytes(b"\x08\x07\x12\x00")
    assert not claims_to_be_tmfile(tmp_path / "net.onnx")
    assert not claims_to_be_tmfile(tmp_path)


def test_more_than_tengine_can_read_is_refused() -> None:
    graph = classifier()
    large = np.broadcast_to(np.float32(0), (1 << 29, 1))
    tensor = type(graph.tensors[0])("w", large.shape, "float32", "const", large)
    with pytest.raises(UnsupportedModelError, match=r"2,147,483,\d+ bytes of constants"):
        serialize(type(graph)(**{**vars(graph), "tensors": (tensor, *graph.tensors[1:])}))
