"""The tensor that ruins the outputs gets 16 bits, and none other; nothing happens where nothing is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from small_candidates import candidate_of, quality, scaled

import calib8
from calib8.data.samples import Stream
from calib8.errors import UsageError
from calib8.model.graph import graph_inputs
from calib8.model.metadata import PREFIX
from calib8.model.work import node_macs, used_once
from calib8.repair import enough, spots
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.enough import FOR_SPOTS, poor_branches
from calib8.repair.spots import choose_spots
from calib8.scheme import target_scheme
from calib8.tasks.meaning import meaning_of
from small_models import Array, normal
from small_nets import Net

RUNS = [{"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(10)]
CALIB8 = target_scheme("calib8")


def network(louder: float) -> onnx.ModelProto:
    """Three layers; a channel between the first two is so much louder, for nothing: nobody listens."""
    net = Net()
    loud = net.op("Relu", net.conv("x", 4, 8, name="first"), name="loud")
    soft = net.op("Relu", net.conv(loud, 8, 8, name="second"), name="soft")
    model = net.model(net.conv(soft, 8, 4, name="last"))
    scaled(model, "first", 1, np.s_[0], louder)
    scaled(model, "first", 2, np.s_[0], louder)
    scaled(model, "second", 1, np.s_[:, 0], 0.0)
    return model


def made(louder: float, target: str = "calib8") -> tuple[Candidate, RepairData]:
    return candidate_of(network(louder), RUNS, method="minmax", scheme=target_scheme(target))


def test_the_loud_tensor_alone_gets_16_bits() -> None:
    before, data = made(100.0)
    after, report = choose_spots(before, data)
    assert after.spots == {"loud_out"} and report.layers == ("loud",)
    assert report.notes[0] == "tensors with 16-bit codes: 1"
    second = 8 * 8 * 9 / (8 * 8 * 9 + 2 * 4 * 8 * 9)
    assert report.notes[1] == f"multiply-accumulates done twice: {100 * second:.1f} %"
    assert quality(after, RUNS) > quality(before, RUNS) + 15.0


@pytest.fixture(autouse=True)
def whole_layers_are_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """With three layers, each of them is more than the usual budget."""
    monkeypatch.setattr(spots, "BUDGET", 0.6)


def test_the_table_stays_what_it_was() -> None:
    """What 16 bits make of a range is decided where all ranges are resolved."""
    before, data = made(100.0)
    after, _ = choose_spots(before, data)
    assert after.table is before.table


def test_a_target_without_16_bits_gets_none() -> None:
    before, data = made(100.0, "onnxruntime")
    after, report = choose_spots(before, data)
    assert after is before and not report.layers


def test_streams_need_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is good enough for a frame that begins with the float model's state is none for a stream."""
    before, data = made(1.0)
    assert enough.ENOUGH_DB < quality(before, RUNS) < enough.ENOUGH_DB + enough.STREAM_DB
    dataset = calib8.Reading({"x": np.concatenate([run["x"] for run in RUNS])}).opened(
        graph_inputs(before.model)
    )
    for carried in (False, True):
        frames = replace(
            data, dataset=replace(dataset, stream=Stream(dataset, (), (), {}, False) if carried else None)
        )
        assert bool(poor_branches(before, frames, FOR_SPOTS).needs) is carried
        assert bool(choose_spots(before, frames)[0].spots) is carried


def vectors(rows: int) -> tuple[Candidate, RepairData]:
    """Three matrices, each of which takes one row or several."""
    net = Net(shape=(rows, 8))
    first = net.op("Relu", net.op("Gemm", "x", net.weight(8, 16), net.weight(16)))
    second = net.op("Relu", net.op("Gemm", first, net.weight(16, 16)))
    model = net.model(net.op("Gemm", second, net.weight(16, 4)))
    runs = [{"x": normal(rows, 8, seed=seed)} for seed in range(10)]
    return candidate_of(model, runs, method="minmax", scheme=CALIB8)


def test_a_matrix_times_one_vector_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spots, "BUDGET", 0.0)
    monkeypatch.setattr(enough, "ENOUGH_DB", 70.0)
    for rows in (1, 2):
        candidate, data = vectors(rows)
        work = node_macs(candidate.model, data.runs[0])
        assert len(used_once(candidate.model, work)) == (3 if rows == 1 else 0)
        assert bool(choose_spots(candidate, data)[0].spots) == (rows == 1)


def test_outputs_that_are_good_enough_get_none() -> None:
    before, data = made(1.0)
    assert quality(before, RUNS) > enough.ENOUGH_DB
    after, report = choose_spots(before, data)
    assert after is before and not report.layers


def test_text_needs_more() -> None:
    before, data = made(1.0)
    assert enough.ENOUGH_DB < quality(before, RUNS) < spots.GOOD_DB
    output = before.model.graph.outputs[0].name or ""
    text = meaning_of(before.model, branches={output: "ctc"})
    after, _ = choose_spots(before, replace(data, meaning=text))
    assert after.spots and quality(after, RUNS) > quality(before, RUNS)


def test_shares_are_of_what_is_left_while_a_branch_has_less_than_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside what one tensor loses all others lose next to nothing, and too much for text."""
    monkeypatch.setattr(spots, "BUDGET", 10.0)
    before, data = made(1000.0)
    output = before.model.graph.outputs[0].name or ""
    alone = choose_spots(before, data)[0]
    text = meaning_of(before.model, branches={output: "ctc"})
    more = choose_spots(before, replace(data, meaning=text))[0]
    assert alone.spots == {"loud_out"} and more.spots > alone.spots
    assert quality(more, RUNS) > quality(alone, RUNS)


def test_all_runs_tell_whether_anything_is_poor() -> None:
    """A tree of decisions may take the right turns in the first ones."""
    before, data = made(1.0)
    clipped = [{"x": 30.0 * normal(1, 4, 8, 8, seed=seed)} for seed in (50, 51)]
    runs = (*RUNS[:8], clipped[0], *RUNS[8:10], clipped[1])
    assert not poor_branches(before, replace(data, runs=runs[:8]), FOR_SPOTS).needs
    found = poor_branches(before, replace(data, runs=runs), FOR_SPOTS)
    assert found.needs == {"": enough.ENOUGH_DB}
    assert len(found.runs) == enough.LOOKED_AT and {id(run) for run in clipped} <= {
        id(run) for run in found.runs
    }


def test_the_first_runs_say_where_while_they_lose_as_much_as_others() -> None:
    """The loudest ones are odd ones: what is best for them need not be for others."""
    before, data = made(100.0)
    runs = (*RUNS, *({"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(70, 82)))
    found = poor_branches(before, replace(data, runs=runs), FOR_SPOTS)
    assert found.needs and [id(run) for run in found.runs] == [id(run) for run in runs[: enough.LOOKED_AT]]


def test_the_runs_that_lose_most_say_where() -> None:
    """Their ranges are full in the last runs alone: what is lost there is not seen in the first ones."""
    before, data = made(1.0)
    clipped = [{"x": 30.0 * normal(1, 4, 8, 8, seed=seed)} for seed in range(50, 58)]
    late = choose_spots(before, replace(data, runs=(*RUNS[:8], *clipped)))[0]
    alone = choose_spots(before, replace(data, runs=tuple(clipped)))[0]
    assert late.spots and late.spots == alone.spots
    assert not choose_spots(before, replace(data, runs=RUNS[:8]))[0].spots


def test_what_costs_too_much_is_left_away(monkeypatch: pytest.MonkeyPatch) -> None:
    before, data = made(100.0)
    monkeypatch.setattr(spots, "BUDGET", 0.4)
    after, _ = choose_spots(before, data)
    assert "loud_out" not in after.spots


def test_what_the_weights_ruin_gets_no_spots() -> None:
    """A weight that meets nothing takes the codes of its channel: beside that, tensors lose nothing."""
    model = network(30.0)
    scaled(model, "first", 1, np.s_[1], 0.0)
    scaled(model, "first", 2, np.s_[1], 0.0)
    scaled(model, "second", 1, np.s_[:, 1], 1000.0)
    before, data = candidate_of(model, RUNS, method="minmax", scheme=CALIB8)
    assert quality(before, RUNS) < enough.ENOUGH_DB
    assert choose_spots(before, data)[0] is before
    before, data = made(30.0)
    assert quality(before, RUNS) < enough.ENOUGH_DB
    assert choose_spots(before, data)[0].spots == {"loud_out"}


@pytest.mark.parametrize(("limit", "value"), [("BESIDE_WEIGHTS", 100.0), ("GOOD_DB", 0.0)])
def test_as_many_as_are_needed_and_no_more(monkeypatch: pytest.MonkeyPatch, limit: str, value: float) -> None:
    before, data = made(100.0)
    monkeypatch.setattr(spots, "BUDGET", 10.0)
    monkeypatch.setattr(spots, "LEAST_SHARE", 1e-9)
    monkeypatch.setattr(spots, "BESIDE_WEIGHTS", 0.0)
    monkeypatch.setattr(spots, "GOOD_DB", 200.0)
    everything = choose_spots(before, data)[0].spots
    assert everything == before.coded.placement.readers.keys()
    monkeypatch.setattr(spots, limit, value)
    assert choose_spots(before, data)[0].spots < everything


def test_threads_change_nothing() -> None:
    before, data = made(100.0)
    once, twice = (choose_spots(before, replace(data, threads=threads))[0] for threads in (1, 2))
    assert once.spots == twice.spots and once.table == twice.table


def test_the_worst_branch_decides() -> None:
    """Two outputs, one a thousand times louder and sound: what ruins the quiet one is found."""
    net = Net()
    sound = net.conv(net.op("Relu", net.conv("x", 4, 8, name="sound")), 8, 4, name="big")
    loud = net.op("Relu", net.conv("x", 4, 8, name="first"), name="loud")
    model = net.model(sound, net.conv(loud, 8, 4, name="second"))
    scaled(model, "first", 1, np.s_[0], 300.0)
    scaled(model, "second", 1, np.s_[:, 0], 0.0)
    scaled(model, "big", 1, np.s_[:], 1000.0)
    found, data = candidate_of(model, RUNS, method="minmax", scheme=CALIB8)
    after, _ = choose_spots(found, data)
    assert after.spots == {"loud_out"}


def test_an_output_of_the_graph_can_be_a_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its codes have another name in the int8 graph; no layer reads it, so it costs next to nothing."""
    monkeypatch.setattr(enough, "ENOUGH_DB", 100.0)
    monkeypatch.setattr(spots, "BUDGET", 0.0)
    net = Net()
    last = net.conv(net.op("Relu", net.conv("x", 4, 8, name="first")), 8, 4, name="last")
    before, data = candidate_of(net.model(last), RUNS, method="minmax", scheme=CALIB8)
    after, report = choose_spots(before, data)
    assert after.spots == {last} and report.layers == ("last",)
    assert quality(after, RUNS) > quality(before, RUNS)


def detector() -> onnx.ModelProto:
    """Boxes and scores of 64 places, from a layer each."""
    net = Net()
    trunk = net.op("Relu", net.conv("x", 4, 8, name="trunk"), name="trunk_relu")
    outputs = []
    for name, size in (("boxes", 4), ("classes", 3)):
        rows = net.op("Transpose", net.conv(trunk, 8, size, 1, name=name), perm=[0, 2, 3, 1])
        outputs.append(net.op("Reshape", rows, net.const([0, -1, size], np.int64), name=f"{name}_rows"))
    return net.model(outputs[0], net.op("Sigmoid", outputs[1], name="scores"))


def test_the_last_codes_before_scores_cost_no_work_and_are_spots(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little of the noise they are: a threshold lies between two of them. Boxes have none."""
    before, data = candidate_of(detector(), RUNS, method="minmax", scheme=CALIB8)
    monkeypatch.setattr(spots, "LEAST_SHARE", 2.0)
    monkeypatch.setattr(enough, "ENOUGH_DB", 100.0)
    after, _ = choose_spots(before, data)
    assert {"classes_out", "scores_out"} <= after.spots and "trunk_relu_out" not in after.spots
    assert not any(name.startswith("boxes") for name in after.spots)


def test_more_than_usual_can_be_asked_for() -> None:
    before, data = made(5.0)
    assert quality(before, RUNS) > enough.ENOUGH_DB
    assert choose_spots(before, data)[0] is before
    after, _ = choose_spots(before, replace(data, more_db=20.0))
    assert "loud_out" in after.spots
    least = enough.ENOUGH_DB - quality(before, RUNS)
    assert choose_spots(before, replace(data, more_db=0.0))[0] is before
    some, _ = choose_spots(before, replace(data, more_db=0.001))
    assert least < 0.0 and "loud_out" in some.spots, "where none lacks as much, all outputs count as poor"


def test_the_repair_is_refused_where_no_target_has_16_bits() -> None:
    data: list[dict[str, Array]] = [{"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(20)]
    for target in ("onnxruntime", "tensorrt"):
        with pytest.raises(UsageError, match=f"repair='spots': the target '{target}' has 8-bit codes alone"):
            calib8.quantize(network(1.0), data, target=target, repair=["spots", "bias"])


def test_by_name_and_by_effort() -> None:
    data: list[dict[str, Array]] = [{"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(40)]
    named = calib8.quantize(network(100.0), data, target="calib8", repair=["spots", "bias"])
    assert named.repaired is not None
    assert next(step.names for step in named.repaired.steps if step.kept) == ("spots",)
    assert named.repaired.candidate.spots == {"loud_out"}
    assert f"{PREFIX}spots" not in named.model.metadata_props, "only those of the user are stored"
    codes = [node.outputs[0] for node in named.model.graph if node.op_type == "QuantizeLinear"]
    assert [value.name for value in codes if value.dtype == ir.DataType.INT16] == ["loud_out/quantized"]
    good = calib8.quantize(network(1.0), data, target="calib8", effort="balanced")
    assert good.repaired is not None and not good.repaired.candidate.spots


def test_a_tensor_that_ruins_everything_is_found() -> None:
    """The code 0 of a Sigmoid has no logarithm: with it, an output is not finite."""
    net = Net()
    y = net.op("Relu", net.conv("x", 4, 8, name="first"))
    y = net.op("Sigmoid", net.conv(y, 8, 4, name="second"), name="s")
    model = net.model(net.op("Log", y, name="log"))
    scaled(model, "second", 1, np.s_[:], 0.5)
    found, data = candidate_of(model, RUNS, method="minmax", scheme=CALIB8)
    assert quality(found, RUNS) == float("-inf")
    after, _ = choose_spots(found, data)
    assert "s_out" in after.spots


def test_all_that_is_worth_it_is_ranked_whatever_the_outputs_need(monkeypatch: pytest.MonkeyPatch) -> None:
    before, data = made(1.0)
    assert choose_spots(before, data)[0] is before, "good enough"
    ranked = spots.ranked_spots(before, data)
    assert {name for one in ranked for name in one.members} == before.coded.placement.readers.keys()
    loud = spots.ranked_spots(*made(100.0))
    assert loud[0].members == {"loud_out"}
    monkeypatch.setattr(spots, "BUDGET", 0.0)
    assert spots.ranked_spots(*made(100.0)) == loud


def test_spots_that_there_are_are_ranked_as_if_there_were_none(monkeypatch: pytest.MonkeyPatch) -> None:
    before, data = made(100.0)
    ranked = spots.ranked_spots(before, data)
    known = spots.ranked_spots(replace(before, spots=frozenset({"loud_out"})), data)
    assert known == ranked
    monkeypatch.setattr(spots, "LEAST_RANKED", 2.0)
    assert spots.ranked_spots(before, data) == ()
    kept = spots.ranked_spots(replace(before, spots=frozenset({"loud_out"})), data)
    assert [one.members for one in kept] == [{"loud_out"}]


def test_nothing_is_ranked_for_a_target_without_16_bits() -> None:
    assert spots.ranked_spots(*made(100.0, "onnxruntime")) == ()
