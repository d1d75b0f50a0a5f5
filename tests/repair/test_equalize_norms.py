"""Equalization through normalizations: the same function bit for bit, codes better used, what stops it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from small_candidates import candidate_of, quality

import calib8
from calib8.model.graph import constant, model_hash
from calib8.passes.channel_factors import channel_factors, parse_factors
from calib8.passes.norm_factors import norm_exits
from calib8.quantization.corrections import LayerCorrection
from calib8.repair.equalize_norms import equalize_norms
from calib8.repair.repairs import EFFORTS, stages_of
from calib8.scheme import target_scheme
from calib8.table import GIVEN, CalibrationTable
from small_models import Array, normal, onnx_model, run

WIDTH = 24
DIRECT = "p = MatMul(t, w0) a = Add(p, b0) q = MatMul(t, w1) s = Add(a, q) y = MatMul(s, w2)"
MOVED = """r = Reshape(t, sizes) m = Transpose<perm=[0,2,1,3]>(r) p = MatMul(m, w0) a = Add(p, b0)
    y = MatMul(a, w2)"""
LAYER_NORM = "t = LayerNormalization<axis=-1>(x, g, h)"


def loud_net(
    body: str = DIRECT, norm: str = LAYER_NORM, output: str = "float[N,6,5] y", opset: int = 17
) -> onnx.ModelProto:
    """A normalization with three channels that are 30 times as loud as the others, read by small weights."""
    loud = np.ones(WIDTH, np.float32)
    loud[[2, 7, 11]] = 30.0
    constants: dict[str, Array] = {
        "g": loud * (1 + np.float32(0.1) * normal(WIDTH, seed=1)), "h": loud * normal(WIDTH, seed=2),
        "w0": normal(WIDTH, 16, seed=3) / loud[:, None], "b0": normal(16, seed=4),
        "w1": normal(WIDTH, 16, seed=5) / loud[:, None], "w2": normal(16, 5, seed=6),
        "sizes": np.array([0, 3, 2, WIDTH]), "flat": np.array([0, 3, 2 * WIDTH]), "v0": normal(6, 4, seed=7),
        "v1": normal(2 * WIDTH, 4, seed=8),
    }  # fmt: skip
    used = {name: array for name, array in constants.items() if name in f"{norm} {body}"}
    return onnx_model(f"float[N,6,{WIDTH}] x", output, f"{norm} {body}", used, opset)


def runs_of(count: int = 6, seed: int = 50) -> tuple[dict[str, Array], ...]:
    return tuple({"x": normal(1, 6, WIDTH, seed=seed + index)} for index in range(count))


SCHEME = target_scheme("calib8")


@pytest.mark.parametrize(
    ("body", "norm", "output"),
    [
        (DIRECT, LAYER_NORM, "float[N,6,5] y"),
        (MOVED, LAYER_NORM, "float[N,2,3,5] y"),
        (DIRECT, "t = LayerNormalization<axis=2>(x, g)", "float[N,6,5] y"),
        (DIRECT, "t = RMSNormalization<axis=-1>(x, g)", "float[N,6,5] y"),
    ],
)
def test_the_function_stays_bit_for_bit_and_codes_are_used_better(body: str, norm: str, output: str) -> None:
    model = loud_net(body, norm, output, 23 if norm.startswith("t = RMS") else 17)
    made, data = candidate_of(model, runs_of(), scheme=SCHEME, target="calib8")
    found, report = equalize_norms(made, data)
    assert report.layers and "normalizations of which channels were equalized: 1" in report.notes
    for feeds in data.runs:
        assert run(made.model, feeds)[0].tobytes() == run(found.model, feeds)[0].tobytes()
    held_back = runs_of(8, seed=500)
    assert quality(found, held_back) > quality(made, held_back) + 6.0
    assert found.table.model_hash == model_hash(found.model)
    assert Counted(made.model) == Counted(found.model)


class Counted:
    """Equal for graphs with the same nodes."""

    def __init__(self, model: ir.Model) -> None:
        self.ops = [(node.op_type, node.name) for node in model.graph]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and self.ops == other.ops

    __hash__ = None  # type: ignore[assignment]


def test_the_factors_are_powers_of_two_and_found_again() -> None:
    made, data = candidate_of(loud_net(), runs_of(), scheme=SCHEME, target="calib8")
    found, _ = equalize_norms(made, data)
    [before], [after] = (
        [constant(node.inputs[1]) for node in one.model.graph if node.op_type == "LayerNormalization"]
        for one in (made, found)
    )
    factors = np.log2(np.asarray(after, np.float64) / np.asarray(before, np.float64))
    np.testing.assert_array_equal(factors, np.rint(factors))
    assert np.all(factors[[2, 7, 11]] == 0.0) and np.median(factors) >= 3.0
    changes = channel_factors(made.model, found.model)
    assert set(changes.factors) == {"t"} and not changes.others
    assert changes.axis("t") == 2 and changes.shaped("t", (2, 6, WIDTH)).shape == (1, 1, WIDTH)
    assert parse_factors(changes.to_json(), "net").axes == {"t": 2}


@pytest.mark.parametrize(("body", "output"), [(DIRECT, "float[N,6,5] y"), (MOVED, "float[N,2,3,5] y")])
def test_compare_and_diagnose_know_the_factors(tmp_path: Path, body: str, output: str) -> None:
    """Without its codes the model is the float model, and what the normalization yields is compared."""
    onnx.save(loud_net(body, output=output), tmp_path / "net.onnx")
    data = {"x": np.concatenate([feeds["x"] for feeds in runs_of()])}
    made = calib8.quantize(tmp_path / "net.onnx", data, repair=("equalize-norms",), target="calib8")
    made.save(tmp_path / "int8.onnx")
    assert any('"axis": ' in one.value for one in onnx.load(tmp_path / "int8.onnx").metadata_props)
    found = calib8.compare(tmp_path / "net.onnx", tmp_path / "int8.onnx", data)
    tensors = {one.tensor: one for one in found.tensors}
    assert not found.left_out and tensors["t"].local.sqnr_db > 30
    diagnosis = calib8.diagnose(tmp_path / "net.onnx", tmp_path / "int8.onnx", data)
    assert diagnosis.layers


def test_of_rows_without_more_axes_the_factors_are_told() -> None:
    model = onnx_model(
        f"float[N,{WIDTH}] x", "float[N,5] y", f"{LAYER_NORM} y = MatMul(t, w)",
        {"g": np.r_[np.float32(40), np.ones(WIDTH - 1, np.float32)], "h": normal(WIDTH, seed=2),
         "w": normal(WIDTH, 5, seed=3) / np.r_[np.float32(40), np.ones(WIDTH - 1, np.float32)][:, None]},
    )  # fmt: skip
    runs = tuple({"x": normal(1, WIDTH, seed=index)} for index in range(6))
    made, data = candidate_of(model, runs, scheme=SCHEME, target="calib8")
    found, _ = equalize_norms(made, data)
    changes = channel_factors(made.model, found.model)
    assert set(changes.factors) == {"t"} and not changes.others
    assert changes.factors["t"][0] == 1.0 and np.median(changes.factors["t"]) >= 4.0


def test_what_is_equalized_stays() -> None:
    made, data = candidate_of(loud_net(), runs_of(), scheme=SCHEME, target="calib8")
    once, _ = equalize_norms(made, data)
    twice, report = equalize_norms(once, data)
    assert twice is once and report.layers == ()


@pytest.mark.parametrize(
    "body",
    [
        "u = Tanh(t) p = MatMul(t, w0) v = MatMul(u, w1) y = Add(p, v)",
        "r = Transpose<perm=[0,2,1]>(t) y = MatMul(r, v0)",
        "r = Reshape(t, flat) y = MatMul(r, v1)",
    ],
)
def test_other_readers_and_other_axes_stop_it(body: str) -> None:
    model = loud_net(body, output="float[A,B,C] y")
    made, data = candidate_of(model, runs_of(2), scheme=SCHEME, target="calib8")
    assert norm_exits(made.model, made.scheme, frozenset()) == []
    assert equalize_norms(made, data)[0] is made


def test_a_given_range_and_one_scale_per_weight_stop_it() -> None:
    made, data = candidate_of(loud_net(), runs_of(2), scheme=SCHEME, target="calib8")
    entries = {**made.table.entries, "t": replace(made.table.entries["t"], method=GIVEN)}
    given = replace(made, table=CalibrationTable(made.table.model_hash, entries))
    assert equalize_norms(given, data)[0] is given
    coarse = replace(made, scheme=replace(made.scheme, weight_granularity="per-tensor"))
    assert equalize_norms(coarse, data)[0] is coarse


def test_corrections_of_the_layers_are_dropped_and_told() -> None:
    made, data = candidate_of(loud_net(), runs_of(3), scheme=SCHEME, target="calib8")
    name = next(node.name for node in made.model.graph if node.op_type == "MatMul") or ""
    corrected = replace(made, corrections={name: LayerCorrection(bias=np.zeros(16, np.float32))})
    found, report = equalize_norms(corrected, data)
    assert found.corrections == {} and any("dropped" in note for note in report.notes)


def test_efforts_try_it_where_there_is_a_normalization() -> None:
    with_norm = candidate_of(loud_net(), runs_of(2), scheme=SCHEME, target="calib8")[0].model
    plain = onnx_model("float[N,8] x", "float[N,4] y", "y = MatMul(x, w)", {"w": normal(8, 4)})
    without = candidate_of(plain, tuple({"x": normal(1, 8, seed=n)} for n in range(2)))[0].model
    stage = (("equalize-norms",),)
    for effort in ("balanced", "best"):
        assert stage in stages_of(EFFORTS[effort], SCHEME, with_norm)
        assert stage not in stages_of(EFFORTS[effort], SCHEME, without)
