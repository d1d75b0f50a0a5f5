"""A foreign table on a model: names, missing tensors, ranges that the graph rules out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from made_up_tables import table_of

from calib8.errors import TableError
from calib8.formats.bind import bind, narrowed, without_range
from calib8.formats.table_file import TableFile
from calib8.model.graph import model_hash
from calib8.passes.place import place
from calib8.passes.prepare import PreparedModel, prepare
from calib8.scheme import target_scheme
from calib8.table import Range
from small_models import Array, graph, normal

CONSTANTS: dict[str, Array] = {
    "w": normal(4, 3, 3, 3), "v": normal(4, 4, 1, 1, seed=1), "g": normal(5, 4, seed=2),
    "k": np.float32([1, 2, 1, 0.5]), "z": np.zeros(4, np.float32), "o": np.ones(4, np.float32),
    "low": np.float32(0), "high": np.float32(6),
}  # fmt: skip

BODY = """c = Conv(x, w) n = BatchNormalization(c, k, z, z, o) i = Identity(n) r = Relu(i)
          d = Conv(r, v) a = Add(d, r) l = Clip(a, low, high) p = GlobalAveragePool(l)
          f = Flatten(p) s = Gemm<transB=1>(f, g) q = Softmax(s) y = Neg(q)"""

EVERY = ("x", "c", "n", "i", "r", "d", "a", "l", "p", "f", "s", "q", "y")


@pytest.fixture(scope="module")
def original() -> ir.Model:
    """Convolution with a BatchNormalization to be folded, a skip connection, a head with a Softmax."""
    return graph("float[1,3,8,8] x", "float[1,5] y", BODY, CONSTANTS)


@pytest.fixture(scope="module")
def prepared(original: ir.Model) -> PreparedModel:
    return prepare(original, {"x": normal(1, 3, 8, 8)})


def cache(names: str | tuple[str, ...], **changes: object) -> TableFile:
    """Every tensor with a scale of its own."""
    ranges = {name: (-(1.0 + len(name) + ord(name[0])), 1.0 + len(name) + ord(name[0])) for name in names}
    return replace(TableFile("tensorrt", table_of(ranges), source="old.cache"), **changes)


def test_names_of_tensors_that_were_folded_away_are_unused(original, prepared) -> None:
    binding = bind(cache(EVERY), prepared.model, original)
    assert binding.table.model_hash == model_hash(prepared.model)
    assert {"x", "r", "l", "p", "f", "q"} <= set(binding.table.entries)
    assert {"c", "y"} <= set(binding.unused)
    assert binding.unknown == () and binding.borrowed == ()
    assert set(binding.table.entries).isdisjoint(binding.unused)


def test_unknown_names_are_listed_and_passed_over_on_request(original, prepared) -> None:
    file = cache((*EVERY, "nobody", "(Unnamed Layer* 3) [Constant]_output"), without_scale=("nothing",))
    with pytest.raises(
        TableError, match=r"old\.cache: names 2 of 16 tensors .*'nobody', 'nothing'"
    ) as caught:
        bind(file, prepared.model, original)
    assert "partial=True" in str(caught.value)
    binding = bind(file, prepared.model, original, partial=True)
    assert binding.unknown == ("nobody", "nothing")
    assert "(Unnamed Layer* 3) [Constant]_output" in binding.unused


def test_a_tensor_without_a_range_takes_that_of_the_same_values(original, prepared) -> None:
    given = cache(tuple(name for name in EVERY if name not in ("f", "q")))
    binding = bind(given, prepared.model, original)
    assert binding.borrowed == (("f", "p"),)
    assert binding.table.entries["f"] == given.table.entries["p"]
    assert "p" not in binding.unused
    assert binding.table.entries["q"].range == Range(0.0, 1.0)
    assert binding.table.entries["q"].method == "limits of Softmax"


def test_the_name_before_an_identity_serves_the_tensor_behind_it() -> None:
    body = "i = Identity(x) c = Conv(i, w) j = Dropout(c) y = Conv(j, v)"
    model = graph("float[1,3,8,8] x", "float[1,4,6,6] y", body, {k: CONSTANTS[k] for k in "wv"})
    made = prepare(model, {"x": normal(1, 3, 8, 8)})
    for names in (("i", "j", "y"), ("x", "c", "y")):
        assert set(bind(cache(names), made.model, model).table.entries) == set(
            bind(cache(("x", "i", "c", "j", "y")), made.model, model).table.entries
        )


def test_what_calib8_pads_itself_has_the_range_of_what_it_pads() -> None:
    pool = "AveragePool<kernel_shape=[2,2],pads=[1,1,0,0],count_include_pad=1>"
    body = f"c = Conv(x, w) p = {pool}(c) y = Conv(p, v)"
    model = graph("float[1,3,8,8] x", "float[1,4,6,6] y", body, {k: CONSTANTS[k] for k in "wv"})
    made = prepare(model, {"x": normal(1, 3, 8, 8)})
    assert bind(cache(("x", "c", "p", "y")), made.model, model).borrowed == (("p_padded", "c"),)


def test_a_bound_table_fits_its_model_alone(original, prepared) -> None:
    bound = TableFile("calib8", bind(cache(EVERY), prepared.model, original).table)
    assert bind(bound, prepared.model, original).table == bound.table
    other = replace(bound, table=replace(bound.table, model_hash="0" * 64))
    with pytest.raises(TableError, match="was made for another model"):
        bind(other, prepared.model, original, partial=True)


def test_layers_stand_for_their_input_and_the_largest_range_of_a_shared_one_counts() -> None:
    body = "r = Relu(x) a = Conv(r, w) b = Conv(r, u) y = Concat<axis=1>(a, b)"
    constants = {"w": normal(2, 3, 1, 1), "u": normal(2, 3, 1, 1, seed=1)}
    model = graph("float[1,3,4,4] x", "float[1,4,4,4] y", body, constants)
    made = prepare(model, {"x": normal(1, 3, 4, 4)})
    file = TableFile("ncnn", table_of({"a": (-1.0, 1.0), "b": (-3.0, 3.0)}), keys="layers")
    assert bind(file, made.model, model).table.entries["r"].range == Range(-3.0, 3.0)
    stranger = replace(file, without_scale=("c",))
    with pytest.raises(TableError, match="names 1 of 3 layers that the model does not have: 'c'"):
        bind(stranger, made.model, model)


def test_a_layer_that_ncnn_leaves_in_float_stays_so_though_its_input_has_a_range() -> None:
    body = "r = Relu(x) a = Conv(r, w) b = Conv(r, u) y = Concat<axis=1>(a, b)"
    constants = {"w": normal(2, 3, 1, 1), "u": normal(2, 3, 1, 1, seed=1)}
    model = graph("float[1,3,4,4] x", "float[1,4,4,4] y", body, constants)
    made = prepare(model, {"x": normal(1, 3, 4, 4)})
    file = TableFile("ncnn", table_of({"a": (-1.0, 1.0)}), keys="layers", without_scale=("b",))
    binding = bind(file, made.model, model)
    assert binding.float_layers == ("b",)
    floats = without_range(made.model, target_scheme("ncnn"), frozenset(), binding, partial=False)
    assert floats == {"b": "the table leaves it in float"}


@pytest.mark.parametrize(
    ("target", "lost"),
    [(t, name) for t in ("tensorrt", "onnxruntime") for name in "xrl"] + [("onnxruntime", "p")],
)
def test_what_reads_or_yields_a_tensor_without_a_range_stays_float(
    original, prepared, target: str, lost: str
) -> None:
    names = tuple(name for name in EVERY if name != lost and (lost, name) != ("p", "f"))
    binding = bind(cache(names), prepared.model, original)
    scheme = target_scheme(target)
    with pytest.raises(TableError, match=rf"old\.cache: lacks .*'{lost}'.*partial=True"):
        without_range(prepared.model, scheme, frozenset(), binding, partial=False)
    floats = without_range(prepared.model, scheme, frozenset(), binding, partial=True)
    assert f"the table has no range for '{lost}'" in floats.values()
    left = place(prepared.model, scheme, frozenset(floats))
    assert set(left.readers) <= set(binding.table.entries)
    readers = [node for node in prepared.model.graph if any(v and v.name == lost for v in node.inputs)]
    assert readers and not {node.name for node in readers} & (
        left.quantized_nodes() if target == "onnxruntime" else set(left.readers.get(lost) or ())
    )


def test_a_table_of_which_nothing_serves_a_layer_is_refused(original, prepared) -> None:
    binding = bind(cache(("q",)), prepared.model, original)
    with pytest.raises(TableError, match="has no range that a layer of the model could use"):
        without_range(prepared.model, target_scheme("tensorrt"), frozenset(), binding, partial=True)


def test_a_complete_table_leaves_nothing_float(original, prepared) -> None:
    binding = bind(cache(EVERY), prepared.model, original)
    for target in ("tensorrt", "onnxruntime", "tflite"):
        for partial in (False, True):
            scheme = target_scheme(target)
            assert without_range(prepared.model, scheme, frozenset(), binding, partial=partial) == {}


def test_ranges_lose_what_the_graph_rules_out(original, prepared) -> None:
    binding = bind(cache(EVERY), prepared.model, original)
    found = bind(cache(EVERY), prepared.model, original, zero_points=True).table.entries
    before = binding.table.entries
    assert found["r"].range == Range(0.0, before["r"].range.max)
    assert found["l"].range == Range(0.0, 6.0)
    assert found["p"].range == found["f"].range == Range(0.0, 6.0)
    assert found["q"].range == Range(0.0, 1.0)
    assert found["x"] == before["x"]


def test_ranges_with_statistics_or_without_symmetry_are_left_alone(prepared) -> None:
    table = table_of({"r": (-1.0, 2.0), "l": (-7.0, 7.0)})
    counted = replace(table.entries["l"], count=5)
    table = replace(table, entries={**table.entries, "l": counted})
    assert narrowed(table, prepared.model) == table


def of_layers(layers: str, **changes: object) -> TableFile:
    """A table as ncnn has it, with ranges for the inputs of these layers."""
    table = table_of(dict.fromkeys(layers, (-3.0, 3.0)))
    return replace(TableFile("ncnn", table, keys="layers", source="n.table"), **changes)


@pytest.mark.parametrize("target", ["ncnn", "tensorrt"])
def test_what_an_ncnn_table_cannot_hold_stays_float(prepared, target: str) -> None:
    names = [node.name for node in prepared.model.graph if node.op_type in ("Conv", "Gemm")]
    scheme = target_scheme(target)
    binding = bind(of_layers(names), prepared.model, prepared.model)
    wanted = place(prepared.model, scheme, frozenset()).readers.keys()
    assert wanted - binding.table.entries.keys(), "additions and pools have no line"
    floats = without_range(prepared.model, scheme, frozenset(), binding, partial=False)
    kinds = {node.op_type for node in prepared.model.graph if node.name in floats}
    assert kinds and kinds <= {"Add", "GlobalAveragePool"}
    left = place(prepared.model, scheme, frozenset(floats))
    assert set(names) <= left.quantized_nodes() and left.readers.keys() <= binding.table.entries.keys()
    lacking = bind(of_layers(names[:1]), prepared.model, prepared.model)
    with pytest.raises(TableError, match=r"n\.table: lacks .*partial=True leaves the nodes"):
        without_range(prepared.model, scheme, frozenset(), lacking, partial=False)


def test_an_ncnn_table_for_a_target_that_needs_more(prepared) -> None:
    names = [node.name for node in prepared.model.graph if node.op_type in ("Conv", "Gemm")]
    binding = bind(of_layers(names), prepared.model, prepared.model)
    scheme = target_scheme("onnxruntime")
    with pytest.raises(
        TableError, match=r"lacks .*target='ncnn' needs the inputs of layers alone; .*with ranges"
    ):
        without_range(prepared.model, scheme, frozenset(), binding, partial=False)


@pytest.mark.parametrize(("low", "high"), [(1.0, 6.0), (-6.0, -1.0)])
def test_behind_a_pool_a_range_holds_its_limits_and_zero(low: float, high: float) -> None:
    """Padding may add zeros; beyond that no pool leaves the limits of what it reads."""
    body = (
        "a = Conv<pads=[1,1,1,1]>(x, w) l = Clip(a, lo, hi) p = MaxPool<kernel_shape=[2,2]>(l) y = Conv(p, v)"
    )
    constants = {
        "w": normal(4, 3, 3, 3), "v": normal(2, 4, 1, 1), "lo": np.float32(low), "hi": np.float32(high)
    }  # fmt: skip
    model = graph("float[1,3,8,8] x", "float[1,2,4,4] y", body, constants)
    table = narrowed(table_of({"p": (-7.0, 7.0)}), model)
    assert table.entries["p"].range == Range(min(low, 0.0), max(high, 0.0))
