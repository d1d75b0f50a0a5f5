"""Damaged tmfiles: each is one error that names the file, or a graph that makes sense."""

from __future__ import annotations

import importlib.util
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calib8.errors import ModelError, UnsupportedModelError
from calib8.tmfile.graph import Graph, Quantization
from calib8.tmfile.read import parse, read_tmfile
from calib8.tmfile.write import serialize
from tmfile_nets import classifier, coded

NAME = "net.tmfile"
FUZZER = Path(__file__).parents[2] / "scripts" / "fuzz_tmfile.py"


def words(data: bytes, at: int, count: int = 1) -> tuple[int, ...]:
    return struct.unpack_from(f"<{count}I", data, at)


def subgraph_of(data: bytes) -> int:
    (root,) = words(data, 8)
    (listed,) = words(data, root + 8)
    return words(data, listed + 4)[0]


def refused(data: bytes, match: str, error: type[ModelError] = ModelError) -> None:
    with pytest.raises(error, match=match) as caught:
        parse(data, NAME)
    assert str(caught.value).startswith(NAME)
    assert "\n" not in str(caught.value)


def with_word(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + struct.pack("<I", value & 0xFFFFFFFF) + data[at + 4 :]


@pytest.mark.parametrize("length", range(0, 1500, 101))
def test_truncated(length: int) -> None:
    refused(serialize(classifier())[:length], "is damaged")


@pytest.mark.parametrize("version", [0, 1, 3, 65535])
def test_other_versions(version: int) -> None:
    data = struct.pack("<H", version) + serialize(classifier())[2:]
    refused(data, f"no Tengine model of version 2: its first bytes say {version}", UnsupportedModelError)


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        (12, 0x7FFFFFFF, "a list of inputs lies at byte 2147483647"),
        (20, 4, "a list of nodes lies at byte 4 of"),
        (24, -4, "a list of tensors lies at byte 4294967292"),
        (28, 2, "a list of buffers lies at byte 2 of"),
        (32, -1, "a text of 8 bytes lies at byte 4294967295"),
    ],
)
def test_offsets_that_lead_out_of_the_file(field: int, value: int, match: str) -> None:
    data = serialize(classifier())
    refused(with_word(data, subgraph_of(data) + field, value), match)


def test_counts_that_the_file_cannot_hold() -> None:
    data = serialize(classifier())
    (tensors,) = words(data, subgraph_of(data) + 24)
    refused(with_word(data, tensors, 0xFFFFFFFF), "a list of tensors of 4294967295 of 17179869184 bytes")


def test_more_entries_than_tengine_counts() -> None:
    data = serialize(classifier())
    (place,) = words(data, subgraph_of(data) + 24)
    (first,) = words(data, place + 4)
    longer = data + struct.pack("<70001I", 70000, *[first] * 70000)
    refused(
        with_word(longer, subgraph_of(data) + 24, len(data)), "it lists 70000 tensors; the most are 65536"
    )


def test_offsets_that_lead_in_a_circle() -> None:
    data = serialize(classifier())
    (root,) = words(data, 8)
    refused(with_word(data, words(data, root + 8)[0] + 4, root), "is damaged")


def test_parts_that_lie_across_each_other() -> None:
    data = serialize(classifier())
    (tensors,) = words(data, subgraph_of(data) + 24)
    (first,) = words(data, tensors + 4)
    shape, name = words(data, first + 8)[0], words(data, first + 12)[0]
    assert shape != name
    moved = with_word(data, words(data, subgraph_of(data) + 28)[0] + 4, first)
    refused(moved, "lies across|lies at byte")


def test_lists_that_name_the_same_bytes_over_and_over() -> None:
    data = serialize(classifier())
    (tensors,) = words(data, subgraph_of(data) + 24)
    scales = struct.pack("<2I", 1, tensors)
    many = data + scales
    for number in range(words(data, tensors)[0]):
        (tensor,) = words(data, tensors + 4 + 4 * number)
        many = with_word(many, tensor + 16, len(data))
    bomb = many + struct.pack("<I", 20000) + struct.pack("<I", tensors) * 20000
    for number in range(words(data, tensors)[0]):
        (tensor,) = words(data, tensors + 4 + 4 * number)
        bomb = with_word(bomb, tensor + 16, len(many))
    refused(bomb, "name the same bytes over and over")


def test_all_unknown_operators_are_listed() -> None:
    data = serialize(classifier())
    (nodes,) = words(data, subgraph_of(data) + 20)
    for number, code in ((4, 104), (5, 999), (6, 104)):
        (node,) = words(data, nodes + 4 + 4 * number)
        data = with_word(data, words(data, node + 12)[0] + 4, code)
    refused(data, "2 of its operators are unknown: type 104, type 999", UnsupportedModelError)


def test_other_versions_of_an_operator_are_unknown() -> None:
    data = serialize(classifier())
    (node,) = words(data, words(data, subgraph_of(data) + 20)[0] + 4 + 4 * 4)
    refused(with_word(data, words(data, node + 12)[0], 2), "type 5 of version 2", UnsupportedModelError)


def test_options_that_are_missing() -> None:
    data = serialize(classifier())
    (node,) = words(data, words(data, subgraph_of(data) + 20)[0] + 4 + 4 * 4)
    refused(with_word(data, words(data, node + 12)[0] + 8, 0), "table of options of Convolution of 56 bytes")


def test_types_that_the_format_does_not_have() -> None:
    data = serialize(classifier())
    (tensor,) = words(data, words(data, subgraph_of(data) + 24)[0] + 4)
    refused(with_word(data, tensor + 28, 6), "tensor 'w' is of type 6 and kind 2")
    refused(with_word(data, tensor + 24, 0), "tensor 'w' is of type 0 and kind 0")


def test_constants_without_enough_bytes() -> None:
    data = serialize(classifier())
    (tensor,) = words(data, words(data, subgraph_of(data) + 24)[0] + 4)
    (shape,) = words(data, tensor + 8)
    refused(
        with_word(data, shape + 4, 400), r"'w' has 432 bytes; float32 of shape \[400, 3, 3, 3\] needs 43200"
    )
    refused(with_word(data, tensor + 4, 77), "tensor 'w' has buffer 77 of 3")


def edited(change: Callable[[Graph], Graph]) -> bytes:
    return serialize(change(classifier()))


def with_node(graph: Graph, number: int, **fields: object) -> Graph:
    nodes = list(graph.nodes)
    nodes[number] = replace(nodes[number], **fields)
    return replace(graph, nodes=tuple(nodes))


def with_tensor(graph: Graph, number: int, **fields: object) -> Graph:
    tensors = list(graph.tensors)
    tensors[number] = replace(tensors[number], **fields)
    return replace(graph, tensors=tuple(tensors))


def with_scales(*scales: float, point: int = 0) -> Quantization:
    return Quantization(np.asarray(scales, np.float32), np.full(len(scales), point, np.int32))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda g: with_node(g, 4, inputs=(99,)), r"node 4 'conv' \(Convolution\) names tensor 99 of 7"),
        (lambda g: with_node(g, 4, inputs=(6,)), "reads tensor 6 'scores' before it is computed"),
        (lambda g: with_node(g, 4, inputs=(4,)), "reads tensor 4 'conv' before it is computed"),
        (lambda g: with_node(g, 5, outputs=(4,)), "writes tensor 4 'conv', which is written already"),
        (lambda g: with_node(g, 5, outputs=()), "writes nothing"),
        (lambda g: with_node(g, 5, outputs=(5, 5)), "writes a tensor twice"),
        (lambda g: with_node(g, 3, op="Const"), "writes tensor 3 'image', which is a input tensor"),
        (lambda g: with_node(g, 0, op="Noop"), "writes tensor 0 'w', which is a const tensor"),
        (lambda g: with_node(g, 1, inputs=(0,)), r"node 1 'b' \(Const\) reads tensors"),
        (lambda g: replace(g, inputs=(4,)), r"its input is node 4 'conv' \(Convolution\)"),
        (lambda g: replace(g, inputs=(3, 3)), "a node is its input twice"),
        (lambda g: replace(g, outputs=(70,)), "its output is node 70 of 7"),
        (lambda g: replace(g, outputs=()), "it has no outputs"),
        (lambda g: with_tensor(g, 4, shape=(1, -4, 8, 8)), r"'conv' has the shape \[1, -4, 8, 8\]"),
        (lambda g: with_tensor(g, 4, shape=(1,) * 9), "9 axes; the most are 8"),
        (lambda g: with_tensor(g, 4, shape=(1 << 20, 1 << 20)), r"more than 2\^31 - 1 elements"),
        (lambda g: with_tensor(g, 4, shape=(0, 1 << 30, 1 << 30)), r"more than 2\^31 - 1 elements"),
        (lambda g: with_tensor(g, 4, quantization=with_scales(float("nan"))), "the scale nan"),
        (lambda g: with_tensor(g, 4, quantization=with_scales(-1.0)), "the scale -1"),
    ],
)
def test_graphs_that_contradict_themselves(change: Callable[[Graph], Graph], match: str) -> None:
    refused(edited(change), match)


def test_scales_that_do_not_fit_their_codes() -> None:
    net = coded(classifier())
    refused(serialize(with_tensor(net, 4, quantization=with_scales(1.0, point=200))), "zero point 200")
    refused(serialize(with_tensor(net, 4, quantization=with_scales(1.0, 2.0))), "2 scales, and the shape")


@pytest.mark.parametrize("point", [-255, 510])
def test_weights_in_uint8_on_one_side_of_zero(point: int) -> None:
    """As Tengine's quant_tool_uint8 writes them: their range is without 0, and its runtime takes them."""
    net = coded(classifier())
    weight = replace(net.tensors[0], dtype="uint8", data=net.tensors[0].data.astype(np.uint8))
    quantization = with_scales(1.0, point=point)
    tensors = (replace(weight, quantization=quantization), *net.tensors[1:])
    found = parse(serialize(replace(net, tensors=tensors))).tensors[0]
    assert found.quantization.zero_points.tolist() == [point]
    refused(serialize(with_tensor(net, 4, dtype="uint8", quantization=quantization)), f"zero point {point}")


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.tmfile", tmp_path):
        with pytest.raises(ModelError, match=r"Give the path of a \.tmfile"):
            read_tmfile(path)


def test_mutated_files_are_refused_or_make_sense() -> None:
    spec = importlib.util.spec_from_file_location("fuzz_tmfile", FUZZER)
    fuzzer = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_tmfile"] = fuzzer
    spec.loader.exec_module(fuzzer)
    found = fuzzer.tried(fuzzer.corpus(7), seed=7, numbers=range(400))
    assert found["refused"] > 200
    assert found["read"] + found["translated"] + found["lowered"] > 20
