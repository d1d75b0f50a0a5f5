"""Moves work on codes, whoever reads them; the same codes are made once."""

from __future__ import annotations

import numpy as np
import pytest
from canonical_checks import Net, canonical, node_of, op_types, path

from calib8.model.graph import constant
from calib8.program.lower.canonical.codings import coding_of, reader_codings, source_coding
from small_models import normal

INPUT = "float[1, 4, 6, 6] x"

MOVES = {
    "MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({0})": {},
    "GlobalMaxPool ({0})": {},
    "Reshape ({0}, shape)": {"shape": np.int64([1, -1])},
    "Flatten ({0})": {},
    "Transpose <perm = [0, 2, 3, 1]> ({0})": {},
    "Unsqueeze ({0}, axes)": {"axes": np.int64([0])},
    "Squeeze ({0}, axes)": {"axes": np.int64([0])},
    "Slice ({0}, starts, ends)": {"starts": np.int64([0, 1]), "ends": np.int64([1, 3])},
    "Gather <axis = 1> ({0}, indices)": {"indices": np.int64([3, 3, 0])},
    "Pad ({0}, pads)": {"pads": np.int64([0, 0, 1, 0, 0, 2, 0, 1])},
    "Pad ({0}, pads, filler)": {"pads": np.int64([0, 0, 1, 0, 0, 2, 0, 1]), "filler": np.float32(-0.25)},
    'Pad <mode = "reflect"> ({0}, pads)': {"pads": np.int64([0, 0, 1, 0, 0, 0, 0, 1])},
    'Resize <mode = "nearest"> ({0}, , scales)': {"scales": np.float32([1, 1, 2, 2])},
    "DepthToSpace <blocksize = 2> ({0})": {},
    "SpaceToDepth <blocksize = 2> ({0})": {},
    "Expand ({0}, shape)": {"shape": np.int64([3, 4, 6, 6])},
    "Tile ({0}, repeats)": {"repeats": np.int64([1, 2, 1, 1])},
    "ReduceMax <axes = [2]> ({0})": {},
    "ReduceMin <axes = [2]> ({0})": {},
}


def op_of(text: str) -> str:
    return text.split()[0]


@pytest.mark.parametrize("text", MOVES)
def test_a_quantizer_behind_a_move_is_put_before_it(text: str) -> None:
    net = Net()
    net.constants |= MOVES[text]
    moved = net.op(text.format(net.op(f"Sin ({net.op('Exp (x)')})")))
    model = canonical(net.model(INPUT, net.coded(moved, 0.011, 130)))
    assert path(model) == ["Exp", "Sin", "Q", "DQ", op_of(text), "Q", "DQ"]


@pytest.mark.parametrize("text", MOVES)
def test_a_move_of_codes_yields_codes(text: str) -> None:
    net = Net()
    net.constants |= MOVES[text]
    moved = net.op(text.format(net.coded("x", 0.05)))
    other = net.coded(moved, 0.07, 100)
    model = canonical(net.model(INPUT, moved, other, net.op(f"Sin ({moved})")))
    node = node_of(model, op_of(text))
    (coder,) = reader_codings(node.outputs[0])
    assert coder is not None and coder == source_coding(node.inputs[0])
    assert model.graph.outputs[0].name == moved and node.outputs[0].name == f"{moved}/float"


def test_padding_that_is_no_code_stays_float() -> None:
    net = Net()
    padded = net.op(
        f"Pad ({net.coded('x')}, {net.constant([0, 0, 1, 0, 0, 0, 0, 1], np.int64)}, {net.constant(0.26)})"
    )
    assert path(canonical(net.model(INPUT, net.op(f"Sin ({padded})")))) == ["Q", "DQ", "Pad", "Sin"]


@pytest.mark.parametrize(
    "text",
    [
        'Resize <mode = "linear"> ({0}, , scales)',
        'Resize <mode = "nearest", coordinate_transformation_mode = "tf_crop_and_resize"> ({0}, roi, scales)',
        "Max ({0}, number)",
        "AveragePool <kernel_shape = [2, 2]> ({0})",
    ],
)
def test_what_computes_new_values_is_no_move(text: str) -> None:
    net = Net()
    net.constants |= {"scales": np.float32([1, 1, 2, 2]), "number": np.float32(0.3)}
    net.constants |= {"roi": np.float32([0, 0, 0, 0, 1, 1, 1.5, 1])}
    value = net.op(text.format(net.op("Exp (x)")))
    assert path(canonical(net.model(INPUT, net.coded(value, 0.1)))) == ["Exp", op_of(text), "Q", "DQ"]


@pytest.mark.parametrize("join", ["Concat <axis = 1> ({0}, {1})", "Max ({0}, {1})", "Min ({0}, {1})"])
def test_all_branches_of_a_join_get_its_codes(join: str) -> None:
    net = Net()
    joined = net.op(join.format(net.op("Exp (x)"), net.coded("x", 0.05)))
    model = canonical(net.model(INPUT, net.coded(joined, 0.04, 90)))
    node = node_of(model, op_of(join))
    codings = {source_coding(value) for value in node.inputs}
    assert codings == set(reader_codings(node.outputs[0])) and None not in codings


def test_a_constant_branch_is_stored_in_the_codes_of_the_join() -> None:
    net = Net()
    joined = net.op(f"Concat <axis = 1> ({net.op('Exp (x)')}, {net.constant(normal(1, 2, 6, 6))})")
    model = canonical(net.model(INPUT, net.coded(joined, 0.04, 90)))
    stored = node_of(model, "Concat").inputs[1]
    assert source_coding(stored) == reader_codings(node_of(model, "Concat").outputs[0])[0]
    assert stored is not None and constant(stored.producer().inputs[0]) is not None  # type: ignore[union-attr]


def test_quantizers_pass_a_chain_of_moves_and_the_activation_in_it() -> None:
    net = Net()
    x = net.coded("x")
    value = net.op(f"Conv ({x}, {net.weight(6, 4, 3, 3)})")
    value = net.op(f"Relu ({net.op(f'MaxPool <kernel_shape = [2, 2]> ({value})')})")
    value = net.op(f"Clip ({value}, , {net.constant(1.5)})")
    model = canonical(net.model(INPUT, net.coded(net.op(f"Flatten ({value})"), 0.02, 60)))
    assert path(model)[2:] == [
        "Conv",
        "Q",
        "DQ",
        "MaxPool",
        "Q",
        "DQ",
        "Relu",
        "Q",
        "DQ",
        "Clip",
        "Q",
        "DQ",
        "Flatten",
        "Q",
        "DQ",
    ]


def test_an_activation_that_changes_no_code_vanishes() -> None:
    net = Net()
    pooled = net.op(
        f"MaxPool <kernel_shape = [2, 2]> ({net.op(f'Conv (x, {net.constant(normal(6, 4, 3, 3))})')})"
    )
    clipped = net.op(f"Clip ({pooled}, {net.constant(0.0)}, {net.constant(6.0)})")
    model = canonical(net.model(INPUT, net.coded(clipped, 0.02, 0)))
    assert path(model) == ["Conv", "Q", "DQ", "MaxPool", "Q", "DQ"]


def test_an_activation_right_behind_a_layer_stays_before_its_quantizer() -> None:
    net = Net()
    x = net.coded("x")
    value = net.op(f"Relu ({net.op(f'Conv ({x}, {net.weight(6, 4, 3, 3)})')})")
    model = canonical(net.model(INPUT, net.coded(net.op(f"MaxPool <kernel_shape = [2, 2]> ({value})"), 0.1)))
    assert path(model) == ["Q", "DQ", "Conv", "Relu", "Q", "DQ", "MaxPool", "Q", "DQ"]


@pytest.mark.parametrize(
    ("text", "coded"), [("Relu ({0})", True), ("Clip ({0}, low, high)", True), ("Clip ({0}, odd)", False)]
)
def test_an_activation_on_codes_that_float_reads(text: str, coded: bool) -> None:
    net = Net()
    net.constants |= {"low": np.float32(-0.25), "high": np.float32(99), "odd": np.float32(0.26)}
    value = net.op(text.format(net.coded("x", 0.05)))
    layer = net.op(f"Conv ({value}, {net.weight(6, 4, 3, 3)})")
    model = canonical(net.model(INPUT, layer))
    assert (source_coding(node_of(model, "Conv").inputs[0]) is not None) == coded


def test_readers_of_several_codings_get_a_move_each() -> None:
    net = Net()
    moved = net.op(f"Flatten ({net.op('Exp (x)')})", name="flat")
    outputs = [net.coded(moved, 0.05), net.coded(moved, 0.07), net.op(f"Sin ({moved})")]
    model = canonical(net.model(INPUT, *outputs))
    moves = [node for node in model.graph if node.op_type == "Flatten"]
    assert sorted(str(source_coding(node.inputs[0]) is not None) for node in moves) == [
        "False",
        "True",
        "True",
    ]


def test_a_split_that_all_read_alike_stays_one() -> None:
    net = Net()
    parts = net.op(f"Split <axis = 1> ({net.op('Exp (x)')})", outputs=2).split(", ")
    model = canonical(net.model(INPUT, *(net.coded(part, 0.05) for part in parts)))
    assert (
        op_types(model) == ["Exp", "Split"] and source_coding(node_of(model, "Split").inputs[0]) is not None
    )


@pytest.mark.parametrize("sizes", ["", ", sizes"])
def test_a_split_whose_parts_are_coded_differently_becomes_slices(sizes: str) -> None:
    net = Net()
    net.constants["sizes"] = np.int64([1, 3]) if sizes else np.int64([0])
    parts = net.op(f"Split <axis = -3> ({net.op('Exp (x)')}{sizes})", outputs=2).split(", ")
    model = canonical(net.model(INPUT, net.coded(parts[0], 0.05), net.op(f"Sin ({parts[1]})"), parts[0]))
    assert "Split" not in op_types(model) and op_types(model).count("Slice") >= 2


def test_a_split_of_codes_stays_one() -> None:
    net = Net()
    parts = net.op(f"Split <axis = 1> ({net.coded('x')})", outputs=2).split(", ")
    model = canonical(net.model(INPUT, net.coded(parts[0], 0.02), net.op(f"Sin ({parts[1]})")))
    assert op_types(model) == ["Split", "Sin"]


def test_the_output_of_a_move_is_no_reason_to_code_it() -> None:
    net = Net()
    moved = net.op(f"Flatten ({net.op('Exp (x)')})")
    model = canonical(net.model(INPUT, moved, net.op(f"Sin ({moved})")))
    assert path(model) == ["Exp", "Flatten", "Sin"]


def test_duplicates_merge() -> None:
    net = Net()
    first, second = net.q("x"), net.q("x")
    values = [net.dq(first), net.dq(first), net.dq(second)]
    total = net.op(f"Sum ({', '.join(values)})")
    model = canonical(net.model(INPUT, net.coded(total, 0.2)))
    assert path(model) == ["Q", "DQ", "Sum", "Q", "DQ"]


def test_pairs_of_the_same_codes_collapse() -> None:
    net = Net()
    value = net.coded(net.coded(net.coded("x")))
    other = net.coded(net.coded(value, 0.07), 0.07)
    model = canonical(net.model(INPUT, net.op(f"Add ({value}, {other})")))
    assert path(model) == ["Q", "DQ", "Q", "DQ", "Add"]
    assert [coding_of(node) for node in model.graph if node.op_type == "QuantizeLinear"].count(None) == 0


def test_codes_of_other_types_are_no_duplicates() -> None:
    net = Net()
    values = [net.coded("x", 0.05, 100), net.coded("x", 0.05, 100, np.int8), net.coded("x", 0.05, 101)]
    model = canonical(net.model(INPUT, net.op(f"Sum ({', '.join(values)})")))
    assert path(model).count("Q") == 3


def test_outputs_that_are_the_same_codes_keep_their_names() -> None:
    net = Net()
    model = canonical(
        net.model(INPUT, net.q("x"), net.q("x"), net.coded("x"), types=["uint8", "uint8", "float"])
    )
    assert len(model.graph.outputs) == 3
