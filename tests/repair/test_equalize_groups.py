"""Equalization by groups: the function kept, codes better used through additions and PRelu, what stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from small_candidates import candidate_of

from calib8.autorange.check import check_model, float_outputs
from calib8.model.graph import constant, model_hash
from calib8.passes.channel_factors import channel_factors
from calib8.quantization.corrections import LayerCorrection
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.equalize_groups import equalize_groups
from calib8.scheme import target_scheme
from calib8.table import GIVEN, CalibrationTable
from small_models import Array, normal, onnx_model, relative_difference, run

WIDTH = 12
SAME = "pads=[1,1,1,1]"
BODY = f"""
    a = Conv<{SAME}>(x, w0, b0) r = PRelu(a, slopes)
    c = Conv<{SAME}>(r, w1, b1) d = PRelu(c, slopes) e = Conv<{SAME}>(d, w2, b2) s = Add(e, r)
    f = Conv<{SAME}>(s, w3, b3) g = LeakyRelu<alpha=0.2>(f) h = Conv<{SAME}>(g, w4, b4) t = Add(h, s)
    y = Conv(t, p)
"""


def uneven_net(decades: float = 2.0) -> onnx.ModelProto:
    """Two residual blocks whose channels differ by up to ``10^decades``, the stream's by the same factors."""
    random = np.random.default_rng(5)
    stream, first, second = (10.0 ** random.uniform(-decades / 2, decades / 2, WIDTH) for _ in range(3))
    ends = [(np.ones(3), stream), (stream, first), (first, stream), (stream, second), (second, stream)]
    constants: dict[str, Array] = {"slopes": np.abs(normal(WIDTH, 1, 1, seed=6)) * np.float32(0.3)}
    for index, (read, made) in enumerate(ends):
        weight = normal(WIDTH, len(read), 3, 3, seed=index + 10) / np.float32(3 * np.sqrt(len(read)))
        scaled = weight * made.reshape(-1, 1, 1, 1) / read.reshape(1, -1, 1, 1)
        constants[f"w{index}"] = scaled.astype(np.float32)
        constants[f"b{index}"] = (0.2 * normal(WIDTH, seed=index + 20) * made).astype(np.float32)
    constants["p"] = (normal(4, WIDTH, 1, 1, seed=30) / stream.reshape(1, -1, 1, 1)).astype(np.float32)
    return onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", BODY, constants)


def runs_of(count: int = 6, seed: int = 50) -> tuple[dict[str, Array], ...]:
    return tuple({"x": normal(1, 3, 8, 8, seed=seed + index)} for index in range(count))


def sqnr(made: Candidate, reference: Candidate, runs: tuple[dict[str, Array], ...]) -> float:
    return check_model("x", made.quantized().model, runs, float_outputs(reference.model, runs, 1), 1).sqnr_db


def test_the_function_stays_and_codes_are_used_better() -> None:
    made, data = candidate_of(uneven_net(), runs_of())
    found, report = equalize_groups(made, data)
    assert report.layers == ("a", "c", "e", "f", "h", "y")
    for feeds in data.runs:
        assert relative_difference(run(made.model, feeds), run(found.model, feeds)) < 1e-5
    held_back = runs_of(8, seed=500)
    plain, better = (sqnr(one, made, held_back) for one in (made, found))
    even = candidate_of(uneven_net(0.0), runs_of())[0]
    assert better > plain + 15.0
    assert better > sqnr(even, even, held_back) - 3.0  # about what channels that are alike by birth have
    assert found.table.model_hash == model_hash(found.model)


def test_the_stream_has_one_factor_per_channel_and_the_factors_are_found_again() -> None:
    made, data = candidate_of(uneven_net(), runs_of())
    found, _ = equalize_groups(made, data)
    factors = channel_factors(made.model, found.model)
    assert factors.factors.keys() == {"a", "r", "c", "d", "e", "s", "f", "g", "h", "t"}
    assert not factors.others
    for name in ("r", "e", "s", "h", "t"):
        np.testing.assert_allclose(factors.factors[name], factors.factors["a"], rtol=1e-6)
    before, after = (run(tapped(one, "s"), data.runs[0])[0].astype(np.float64) for one in (made, found))
    np.testing.assert_allclose(
        after, before * factors.factors["s"].reshape(1, -1, 1, 1), rtol=1e-3, atol=1e-5
    )


def tapped(made: Candidate, name: str) -> onnx.ModelProto:
    model = made.model.clone()
    model.graph.outputs.clear()
    model.graph.outputs.append(next(o for node in model.graph for o in node.outputs if o.name == name))
    return ir.to_proto(model)


def test_what_is_equalized_stays() -> None:
    made, data = candidate_of(uneven_net(), runs_of())
    once, _ = equalize_groups(made, data)
    twice, report = equalize_groups(once, data)
    assert twice is once and report.layers == ()


def test_a_given_range_keeps_its_channels_and_all_that_are_added_to_them() -> None:
    made, data = candidate_of(uneven_net(), runs_of())
    entries = {**made.table.entries, "s": replace(made.table.entries["s"], method=GIVEN)}
    made = replace(made, table=CalibrationTable(made.table.model_hash, entries))
    found, report = equalize_groups(made, data)
    assert report.layers == ("c", "e", "f", "h")
    kept = {"a", "r", "e", "s", "h", "t"} & made.table.entries.keys()
    assert all(found.table.entries[name] == made.table.entries[name] for name in kept)


def test_nothing_for_one_scale_per_weight() -> None:
    made, data = candidate_of(uneven_net(), runs_of(2))
    coarse = replace(made, scheme=replace(made.scheme, weight_granularity="per-tensor"))
    assert equalize_groups(coarse, data)[0] is coarse


def test_channels_of_zeros_keep_their_constants() -> None:
    proto = uneven_net()
    for tensor in proto.graph.initializer:
        if tensor.name in ("w1", "b1"):
            array = onnx.numpy_helper.to_array(tensor).copy()
            array[2] = 0.0
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    made, data = candidate_of(proto, runs_of(3))
    found, report = equalize_groups(made, data)
    assert "e" in report.layers
    [before], [after] = (
        [constant(node.inputs[1]) for node in one.model.graph if node.name == "e"] for one in (made, found)
    )
    factors = channel_factors(made.model, found.model).factors
    assert factors["c"][2] == 1.0
    np.testing.assert_allclose(after[:, 2], before[:, 2] * factors["e"].reshape(-1, 1, 1), rtol=1e-6)  # type: ignore[index]


def test_the_same_whatever_the_threads_and_the_order() -> None:
    made, data = candidate_of(uneven_net(), runs_of())
    first, _ = equalize_groups(made, data)
    second, _ = equalize_groups(made, RepairData(data.runs[::-1], threads=2))
    assert model_hash(first.model) == model_hash(second.model)
    assert first.table.to_json() == second.table.to_json()


def test_corrections_of_the_layers_are_dropped_and_told() -> None:
    made, data = candidate_of(uneven_net(), runs_of(3))
    corrected = replace(made, corrections={"c": LayerCorrection(bias=np.zeros(WIDTH, np.float32))})
    found, report = equalize_groups(corrected, data)
    assert found.corrections == {} and any("dropped" in note for note in report.notes)


@pytest.mark.parametrize("target", ["tflite", "tensorrt"])
def test_other_targets_gain_too(target: str) -> None:
    scheme = target_scheme(target)
    made, data = candidate_of(
        uneven_net(), runs_of(), scheme=scheme, target=target, activations=scheme.activation_name
    )
    found, report = equalize_groups(made, data)
    held_back = runs_of(4, seed=500)
    assert report.layers and sqnr(found, made, held_back) > sqnr(made, made, held_back) + 5.0
