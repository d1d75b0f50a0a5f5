"""Repairs by effort and by name: what stays is what samples held back agree to, and nothing is hidden."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest
from small_candidates import candidate_of

from calib8.autorange.check import Check, check_model, float_outputs
from calib8.autorange.samples import ChosenSamples, choose_samples
from calib8.data.opening import open_dataset
from calib8.errors import UsageError
from calib8.model.graph import model_hash
from calib8.parameters import on_command_line
from calib8.quantization.corrections import LayerCorrection
from calib8.repair import by_effort, held_back, search
from calib8.repair.by_effort import repair_by_effort
from calib8.repair.by_name import repair_by_name
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.repairs import (
    DATA_FREE,
    EFFORTS,
    FLOATS,
    NONE,
    NORMS,
    ONE_OF,
    REPAIRS,
    RISKY,
    ROUND,
    SPOTS,
    Effort,
    stages_of,
)
from calib8.repair.step import Step, worth_trying
from calib8.repair.wanted import repairs_called, repairs_wanted
from calib8.scheme import target_scheme
from calib8.tensors import TensorSpec
from mobile_nets import images, mobile_net
from small_models import normal, onnx_model


def samples(count: int = 12) -> ChosenSamples:
    values, _ = images(2 * count, seed=7)
    runs = tuple({"x": values[index : index + 1]} for index in range(2 * count))
    return ChosenSamples(runs[:count], runs[count:], shared=False)


@pytest.fixture(scope="module")
def mobile() -> Candidate:
    scheme = replace(target_scheme("onnxruntime"), weight_granularity="per-tensor")
    return candidate_of(mobile_net(), samples().scored, scheme=scheme)[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("effort", EFFORTS)
def test_an_effort_never_leaves_less_than_it_found(mobile: Candidate, effort: str) -> None:
    found = repair_by_effort(mobile, samples(), effort, threads=1)
    kept = [step for step in found.steps if step.kept]
    assert kept
    assert all(step.after_db > step.before_db for step in kept)
    assert judged(found.candidate) > judged(mobile)
    assert found.effort == effort
    assert found.held_back == min(EFFORTS[effort].held_back, 12)


def judged(candidate: Candidate) -> float:
    """Quality on the samples held back, without anything of the flow."""
    runs = samples().held_back
    expected = float_outputs(candidate.model, runs, 1)
    return check_model("", candidate.quantized().model, runs, expected, 1).sqnr_db


def flat(figure: float) -> Check:
    return Check("", figure, figure, figure, 12, figure)


def test_stages_that_lead_astray_leave_what_there_was(
    mobile: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    qualities = iter([30.0, 29.5, 29.5, 29.7, 29.7, 29.6, 29.6, 29.6, 29.6, 29.6, 29.6])
    monkeypatch.setattr(held_back.Judge, "quality", lambda self, candidate: flat(next(qualities)))
    found = repair_by_effort(mobile, samples(), "balanced", threads=1)
    assert found.candidate is mobile and found.table == mobile.table
    assert not any(step.kept for step in found.steps)


def test_what_was_left_out_is_tried_again_only_behind_something_that_was_kept() -> None:
    def step(name: str, kept: bool) -> Step:
        return Step((name,), flat(20.0), flat(20.0), kept, (), ())

    left, kept, spots, lost = (
        step("round", False),
        step("round", True),
        step("spots", True),
        step("spots", False),
    )
    for steps, again in (
        ((), True), ((left,), False), ((left, lost), False), ((left, spots), True), ((spots, left), False),
        ((kept, spots), False), ((left, spots, left), False), ((left, spots, kept), False),
    ):  # fmt: skip
        assert worth_trying(("round",), steps) == again


def test_rounding_is_tried_again_behind_spots(mobile: Candidate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left out beside the noise of activations, kept once that is gone."""
    candidate = replace(mobile, scheme=target_scheme("calib8"))
    effort = Effort(stages=(ROUND, SPOTS, ROUND), finish=("bias",))
    tried = list[frozenset[str]]()

    def rounded(one: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
        tried.append(one.spots)
        return replace(one, power_of_two=True), RepairReport(("layer",))

    def spotted(one: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
        return replace(one, spots=frozenset({"t"})), RepairReport(("layer",))

    monkeypatch.setattr(by_effort, "effort_called", lambda name: effort)
    monkeypatch.setattr(by_effort, "in_turn", lambda names: {"round": rounded, "spots": spotted}[names[0]])
    monkeypatch.setattr(search, "correct_biases", lambda one, data: (one, RepairReport(())))
    monkeypatch.setitem(REPAIRS, "bias", search.correct_biases)
    monkeypatch.setattr(
        held_back.Judge, "quality",
        lambda self, one: flat(30.0 if one.spots and one.power_of_two else 25.0 if one.spots else 20.0),
    )  # fmt: skip
    monkeypatch.setattr(held_back.Judge, "held", lambda self: held_back.Held((), ()))
    found = repair_by_effort(candidate, samples(), "balanced", threads=1)
    assert tried == [frozenset(), frozenset({"t"})]
    assert [(step.name, step.kept) for step in found.steps[:3]] == [
        ("round", False), ("spots", True), ("round", True),
    ]  # fmt: skip


def test_efforts_grow() -> None:
    alternatives = [
        {(name,) for name in effort.finish} | {names for stage in effort.stages for names in stage}
        for effort in EFFORTS.values()
    ]
    assert list(EFFORTS) == ["fast", "balanced", "best"]
    assert alternatives[0] < alternatives[1] < alternatives[2]
    assert all(REPAIRS.keys() >= set(sum(names, ())) for names in alternatives)


def test_one_scale_per_weight_asks_for_equalized_layers_first(mobile: Candidate) -> None:
    even = candidate_of(residual_net(), residual_samples().scored)[0].model
    for effort in EFFORTS.values():
        fine = stages_of(effort, target_scheme("onnxruntime"), mobile.model)
        coarse = stages_of(effort, mobile.scheme, even)
        assert fine == tuple(stage for stage in effort.stages if stage not in (SPOTS, NORMS))
        wide = stages_of(effort, target_scheme("calib8"), mobile.model)
        assert wide == tuple(stage for stage in effort.stages if stage not in (FLOATS, NORMS))
        assert coarse == (fine if any(("cle",) in stage for stage in fine) else ((("cle",),), *fine))
        assert ("cle",) in coarse[0]
    found = repair_by_effort(mobile, samples(), "fast", threads=1)
    assert found.steps[0].name == "cle" and found.steps[0].kept


SAME = "pads=[1,1,1,1]"


def residual_net(planted: float = 1.0) -> onnx.ModelProto:
    """A residual block in which one channel is ``planted`` times what the others are, and read as weaker."""
    first, second = normal(8, 8, 3, 3, seed=2), normal(8, 8, 3, 3, seed=3)
    first[3] *= planted
    second[:, 3] /= planted
    constants = {"w": normal(8, 3, 3, 3, seed=1), "u": first / 8, "v": second / 8, "p": normal(4, 8, 1, 1)}
    body = f"a = Conv<{SAME}>(x, w) b = Relu(a) c = Conv<{SAME}>(b, u) d = Relu(c) e = Conv<{SAME}>(d, v)"
    return onnx_model(
        "float[N,3,8,8] x", "float[N,4,8,8] y", f"{body} s = Add(e, b) y = Conv(s, p)", constants
    )


def residual_samples() -> ChosenSamples:
    runs = tuple({"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(40, 64))
    return ChosenSamples(runs[:12], runs[12:], shared=False)


def test_a_channel_that_was_scaled_apart_is_found_by_the_default() -> None:
    chosen = residual_samples()
    sound, planted = (candidate_of(residual_net(size), chosen.scored)[0] for size in (1.0, 500.0))
    good = repair_by_effort(sound, chosen, "balanced", threads=1)
    cured = repair_by_effort(planted, chosen, "balanced", threads=1)
    assert any(step.kept and step.name in ("equalize-groups", "cle") for step in cured.steps)
    assert cured.steps[0].before_db < good.steps[0].before_db - 6.0
    assert cured.steps[-1].after_db > good.steps[-1].after_db - 1.0
    assert ("cle" in {step.name for step in cured.steps}) and not any(step.kept for step in good.steps[:1])


def test_where_no_channels_differ_by_orders_the_default_does_not_try_what_would_mend_it() -> None:
    chosen = residual_samples()
    names = {
        size: {
            name
            for stage in stages_of(EFFORTS["balanced"], target_scheme("onnxruntime"), candidate.model)
            for alternative in stage
            for name in alternative
        }
        for size in (1.0, 20.0, 500.0, 0.002)
        for candidate in [candidate_of(residual_net(size), chosen.scored)[0]]
    }
    assert {size for size, found in names.items() if "cle" in found} == {500.0, 0.002}
    assert all("equalize-groups" in found for found in names.values())


def drawn(order: Sequence[int]) -> ChosenSamples:
    """Samples chosen from 40 images that a user lists in some order."""
    values, _ = images(40, seed=11)
    items = [{"x": values[index : index + 1]} for index in order]
    spec = TensorSpec("x", np.dtype(np.float32), ("N", *values.shape[1:]))
    return choose_samples(open_dataset(items, [spec], None), 2)


@pytest.mark.slow
def test_the_result_depends_neither_on_threads_nor_on_the_order_of_the_samples() -> None:
    orders = [*range(40)], [*np.random.default_rng(5).permutation(40)]
    first, second = (drawn(order) for order in orders)
    unscaled = candidate_of(mobile_net(), first.scored[:8])[0]
    one = repair_by_effort(unscaled, first, "balanced", threads=1)
    two = repair_by_effort(unscaled, second, "balanced", threads=2)
    assert one.steps == two.steps
    assert any(step.kept and step.name.startswith("equalize") for step in one.steps)
    assert one.candidate.table == two.candidate.table
    assert model_hash(one.candidate.model) == model_hash(two.candidate.model)
    assert one.candidate.corrections.keys() == two.candidate.corrections.keys()
    for layer, correction in one.candidate.corrections.items():
        other = two.candidate.corrections[layer]
        assert np.array_equal(correction.bias, other.bias)  # type: ignore[arg-type]
        assert (correction.weight is None) == (other.weight is None)
        assert correction.weight is None or np.array_equal(correction.weight, other.weight)  # type: ignore[arg-type]


def test_an_alternative_may_be_several_repairs_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    effort = Effort(stages=((("equalize-activations-tight", "round"),),), finish=("bias",))
    monkeypatch.setitem(EFFORTS, "fast", effort)  # type: ignore[arg-type]
    fine = candidate_of(mobile_net(), samples().scored)[0]
    step = repair_by_effort(fine, samples(), "fast", threads=1).steps[0]
    assert step.names == ("equalize-activations-tight", "round")
    assert step.name == "equalize-activations-tight, round"
    assert step.kept and step.notes[-1].startswith("rounding errors of weights")
    assert len(step.layers) == sum(node.op_type in ("Conv", "Gemm") for node in fine.model.graph)


def test_what_makes_it_worse_is_not_taken(mobile: Candidate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REPAIRS, "bias-sequential", ruined)  # type: ignore[arg-type]
    found = repair_by_effort(mobile, samples(), "balanced", threads=1)
    [step] = [step for step in found.steps if step.name == "bias-sequential"]
    assert not step.kept and step.after_db < step.before_db
    assert all(
        correction.weight is None or correction.weight.any()
        for correction in found.candidate.corrections.values()
    )


def test_better_ranges_are_taken_and_are_the_table_of_the_result(mobile: Candidate) -> None:
    coarse = {
        name: replace(entry, range=type(entry.range)(entry.range.min * 20, entry.range.max * 20))
        for name, entry in mobile.table.entries.items()
    }
    start = replace(mobile, table=replace(mobile.table, entries=coarse))
    found = repair_by_effort(start, samples(), "fast", tables={"good": mobile.table}, threads=1)
    assert found.table == mobile.table
    assert found.steps[0].name == "good" and found.steps[0].kept


def test_named_repairs_are_carried_out_in_the_order_of_the_house(mobile: Candidate) -> None:
    found = repair_by_name(mobile, samples(), ["bias", "equalize-activations"], threads=1)
    assert [step.name for step in found.steps] == ["equalize-activations", "bias"]
    assert [step.kept for step in found.steps] == [bool(step.layers) for step in found.steps]
    assert found.steps[0].after_db == found.steps[1].before_db
    assert math.isfinite(found.steps[1].after_db)


def ruined(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """A layer without weights."""
    layer = next(node for node in candidate.model.graph if node.op_type == "Conv")
    shape = tuple(layer.inputs[1].shape.numpy())  # type: ignore[union-attr]
    zeros = LayerCorrection(np.zeros(shape, np.int8), np.ones(shape[0], np.float32))
    changed = replace(candidate, corrections={layer.name or "": zeros})
    return changed, RepairReport((layer.name or "",))


@pytest.mark.parametrize(("name", "kept"), [*((name, False) for name in RISKY), ("round", True)])
def test_what_may_change_the_function_stays_only_if_samples_held_back_lose_nothing(
    mobile: Candidate, monkeypatch: pytest.MonkeyPatch, name: str, kept: bool
) -> None:
    monkeypatch.setitem(REPAIRS, name, ruined)  # type: ignore[arg-type]
    found = repair_by_name(mobile, samples(), [name, "bias"], threads=1)
    first, second = found.steps
    assert (first.name, first.kept, second.name) == (name, kept, "bias")
    assert first.after_db < first.before_db and first.layers
    assert second.before_db == (first.after_db if kept else first.before_db)
    zeroed = [one for one in found.candidate.corrections.values() if one.weight is not None]
    assert bool(zeroed) == kept


def test_a_repair_whose_pattern_is_not_there_has_nothing_to_do() -> None:
    model = onnx_model("float[N,4] x", "float[N,3] y", "y = MatMul(x, w)", {"w": normal(4, 3)})
    runs = tuple({"x": normal(1, 4, seed=seed)} for seed in range(8))
    plain = candidate_of(model, runs)[0]
    found = repair_by_name(plain, ChosenSamples(runs, runs, shared=True), ["equalize-activations"])
    [step] = found.steps
    assert step.layers == () and step.before_db == step.after_db
    assert found.candidate == plain


def test_no_repairs_leave_the_candidate_alone(mobile: Candidate) -> None:
    found = repair_by_name(mobile, samples(), [NONE])
    assert found.candidate is mobile and found.steps == ()


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["magic"], "unknown repair"),
        (["none", "bias"], "stands alone"),
        (["bias", "bias-median"], "two ways"),
        (["round", "adaround"], "two ways"),
        ([""], "a name is empty"),
    ],
)
def test_names_that_make_no_sense_are_refused(names: Sequence[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        repairs_called(names)


def test_groups_of_alternatives_name_repairs() -> None:
    assert all(name in REPAIRS for group in ONE_OF for name in group)


@pytest.mark.parametrize(
    ("effort", "names", "with_data", "problem"),
    [
        ("huge", None, True, "unknown effort"),
        ("fast", ["bias"], True, "does not go with effort"),
        ("fast", None, False, "none are given"),
        (None, ["bias"], False, "none are given"),
        (None, ["scales", "round"], False, "none are given"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    effort: str | None, names: list[str] | None, with_data: bool, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        repairs_wanted(effort, names, with_data=with_data, with_table=False)


def test_what_is_done_where_nothing_is_asked_for() -> None:
    assert repairs_wanted(None, None, with_data=True, with_table=False).effort == "balanced"
    assert not repairs_wanted(None, None, with_data=True, with_table=True)
    assert not repairs_wanted(None, None, with_data=False, with_table=False)
    assert not repairs_wanted(None, [NONE], with_data=False, with_table=False)
    assert repairs_wanted(None, ["scales"], with_data=False, with_table=True).names == ("scales",)
    assert repairs_wanted("fast", None, with_data=True, with_table=True).method == "mse-behind"


def test_repairs_without_data_are_done_and_not_judged(mobile: Candidate) -> None:
    found = repair_by_name(mobile, None, ["scales"])
    [step] = found.steps
    assert math.isnan(step.before_db) and math.isnan(step.after_db)
    assert found.held_back == 0
    assert set(DATA_FREE) <= REPAIRS.keys()


def test_analytic_correction_wants_the_original(mobile: Candidate) -> None:
    with pytest.raises(UsageError, match="as it was loaded"):
        repair_by_name(mobile, None, ["bias-analytic"])


@pytest.mark.parametrize("effort", EFFORTS)
def test_without_samples_held_back_an_effort_tries_nothing_and_says_so(
    mobile: Candidate, effort: str
) -> None:
    few = samples().scored
    found = repair_by_effort(mobile, ChosenSamples(few, few, shared=True), effort, threads=1)
    assert found.candidate is mobile and found.steps == ()
    assert (found.held_back, found.shared) == (0, True)
    assert found.warning == (
        "12 samples are too few to prove a repair on (16): none was tried; give about 100, or name repairs "
        "with repair"
    )


def test_named_repairs_without_samples_held_back_are_marked(mobile: Candidate) -> None:
    few = samples().scored
    found = repair_by_name(mobile, ChosenSamples(few, few, shared=True), ["bias"], threads=1)
    assert found.steps[0].kept and found.shared and found.warning == ""
    assert not repair_by_name(mobile, samples(), ["bias"], threads=1).shared


@pytest.mark.parametrize(("names", "given"), [([""], "''"), (["cle", ""], "cle,"), (["", "bias"], ",bias")])
def test_an_empty_name_is_told(names: list[str], given: str) -> None:
    with pytest.raises(UsageError, match=r"repair=.*: a name is empty") as refused:
        repairs_called(names)
    assert (refused.value.subject, on_command_line(refused.value.subject)) == (
        f"repair={names!r}", f"--repair {given}",
    )  # fmt: skip
