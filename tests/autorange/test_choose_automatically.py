"""The method auto: the right range where it is known, the guard, the check of the whole model, fallbacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from outlier_nets import opened, outlier_net, outlier_samples

from calib8.autorange import by_tensor
from calib8.autorange import choose as module
from calib8.autorange.by_tensor import BOTH, TOTAL, distinct
from calib8.autorange.check import Check, Race, judged
from calib8.autorange.choose import AutoReport, choose_automatically
from calib8.autorange.plain import plain_tables
from calib8.autorange.score import Scores
from calib8.calibration.decide import AUTO
from calib8.calibration.ranges import METHODS
from calib8.errors import ModelError, UsageError
from calib8.pipeline import calibrate, collect_statistics, quantize
from calib8.qparams import UINT8, QParams
from calib8.scheme import TARGETS
from calib8.table import CalibrationTable, Range
from small_models import normal, onnx_model, relative_difference, run

SAMPLES = outlier_samples(40)


def plain(weight: float) -> dict[str, CalibrationTable]:
    return plain_tables(collect_statistics(outlier_net(weight), SAMPLES).statistics, UINT8)


def chosen(tables: dict[str, CalibrationTable], weight: float = 0.0) -> tuple[CalibrationTable, AutoReport]:
    prepared, dataset = opened(outlier_net(weight), SAMPLES)
    return choose_automatically(prepared.model, tables, dataset, TARGETS["onnxruntime"])


def ranges_of(table: CalibrationTable) -> dict[str, Range]:
    return {name: entry.range for name, entry in table.entries.items()}


def scaled(table: CalibrationTable, factor: float) -> CalibrationTable:
    entries = {
        name: replace(entry, range=Range(entry.range.min * factor, entry.range.max * factor), method="scaled")
        for name, entry in table.entries.items()
    }
    return CalibrationTable(table.model_hash, entries)


def test_outliers_are_given_up_only_where_no_layer_reads_them() -> None:
    ignored = calibrate(outlier_net(0.0), SAMPLES, method=AUTO).table.entries["x"]
    needed = calibrate(outlier_net(1.0), SAMPLES, method=AUTO).table.entries["x"]
    mse = calibrate(outlier_net(0.0), SAMPLES, method="mse").table.entries["x"]
    assert ignored.range.magnitude < mse.range.magnitude / 2
    assert needed.range.magnitude > 0.8 * needed.observed.magnitude


@pytest.mark.slow
def test_auto_is_no_worse_than_any_method_on_other_samples() -> None:
    proto = outlier_net(0.0)
    others = outlier_samples(60)[40:]
    errors = {}
    for method in (AUTO, *METHODS):
        model = quantize(proto, SAMPLES, method=method).model
        pairs = [(run(proto, s)[0], run(model, s)[0]) for s in others]
        errors[method] = float(np.sum([np.sum((left - right) ** 2.0) for left, right in pairs]))
    assert errors[AUTO] <= 1.06 * min(errors.values())
    assert errors[AUTO] < 0.5 * errors["minmax"]


def test_order_batches_and_threads_change_no_byte() -> None:
    order = np.random.default_rng(3).permutation(len(SAMPLES))
    first = calibrate(outlier_net(0.0), SAMPLES, method=AUTO, threads=1)
    second = calibrate(outlier_net(0.0), [SAMPLES[index] for index in order], method=AUTO, threads=3, batch=4)
    assert first.table.to_json() == second.table.to_json()
    assert first.auto == second.auto


def test_every_tensor_says_what_chose_it_and_why() -> None:
    table = calibrate(outlier_net(1.0), SAMPLES, method=AUTO).table
    assert all(entry.method.startswith("auto: ") and entry.reason for entry in table.entries.values())
    assert CalibrationTable.from_json(table.to_json()) == table


def test_a_method_that_collapses_offers_no_range() -> None:
    tables = plain(1.0)
    tiny = scaled(tables["mse"], 0.01)
    table, report = chosen({"tiny": tiny, **tables}, 1.0)
    figures = {check.name: check.sqnr_db for check in report.checks}
    assert figures["tiny"] < figures["mse"] - module.COLLAPSE_DB
    assert "tiny" not in report.wins and report.chosen != "tiny"
    assert table.model_hash == tables["mse"].model_hash


def test_the_whole_model_overrules_single_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores turned upside down make bad tables, which the check must refuse."""
    right = by_tensor.score_candidates

    def upside_down(*args, **kwargs):
        found = right(*args, **kwargs)
        return {
            name: replace(score, typical=-score.typical, total=-score.total) for name, score in found.items()
        }

    monkeypatch.setattr(by_tensor, "score_candidates", upside_down)
    tables = plain(1.0)
    tables["wide"] = scaled(tables["minmax"], 1.6)
    table, report = chosen(tables, 1.0)
    figures = {check.name: check.sqnr_db for check in report.checks}
    assert ranges_of(table) in [ranges_of(other) for other in tables.values()]
    assert figures[report.chosen] >= max(figures.values()) - module.NOISE_DB
    assert figures[TOTAL] < figures[report.chosen] - module.NOISE_DB


def test_without_a_scoring_graph_the_best_plain_method_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args, **_kwargs):
        raise ModelError("scoring graph", "ONNX Runtime cannot load it", "No cure")

    monkeypatch.setattr(by_tensor, "score_candidates", refuse)
    table, report = chosen(plain(1.0), 1.0)
    assert report.chosen in plain(1.0)
    assert any("cannot load it" in note for note in report.notes)
    assert all("best whole model" in entry.reason for entry in table.entries.values())


def test_without_a_check_tensors_choose_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args, **_kwargs):
        raise ModelError("model", "no int8 form", "No cure")

    monkeypatch.setattr(module, "check_table", refuse)
    _, report = chosen(plain(1.0), 1.0)
    assert report.chosen == BOTH and report.checks == ()
    assert any("no int8 form" in note for note in report.notes)


def test_few_samples_are_told() -> None:
    found = calibrate(outlier_net(1.0), SAMPLES[:3], method=AUTO)
    assert found.auto is not None and found.auto.shared
    assert any("too few samples" in note for note in found.auto.notes)


def test_given_ranges_stay_given() -> None:
    found = calibrate(outlier_net(1.0), SAMPLES, method=AUTO, ranges={"x": Range(-1.0, 3.0)})
    entry = found.table.entries["x"]
    assert (entry.range, entry.method) == (Range(-1.0, 3.0), "given")


def test_power_of_two_scales_are_chosen_among() -> None:
    found = quantize(outlier_net(1.0), SAMPLES, method=AUTO, power_of_two=True)
    assert all(np.log2(q.scale) == np.round(np.log2(q.scale)) for q in found.qparams.values())


@pytest.mark.parametrize("target", ["tflite", "tensorrt", "openvino"])
def test_other_targets(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, joined = by_tensor.score_candidates, []

    def recorded(*args, **kwargs):
        joined.append(kwargs["target"].name)
        return right(*args, **kwargs)

    monkeypatch.setattr(by_tensor, "score_candidates", recorded)
    found = quantize(outlier_net(1.0), SAMPLES, method=AUTO, target=target, repair=("none",))
    assert joined == [target]
    assert found.calibration is not None and found.calibration.auto is not None
    assert found.calibration.auto.checks and found.calibration.auto.notes == ()


def test_several_inputs_outputs_and_sizes() -> None:
    constants = {"w": normal(6, 3, 3, 3), "u": normal(6, 2, 1, 1, seed=1)}
    body = """
        c = Conv<pads=[1,1,1,1]>(a, w) r = Relu(c) d = Conv(b, u) s = Sigmoid(d)
        y = Add(r, s) p = GlobalAveragePool(y) z = Flatten(p)
    """
    proto = onnx_model(
        "float[N,3,H,W] a, float[N,2,H,W] b", "float[N,6,H,W] y, float[N,6] z", body, constants
    )
    sizes = [(8 + index % 3, 8 + index % 2) for index in range(20)]
    data = [
        {"a": normal(1, 3, *size, seed=index), "b": normal(1, 2, *size, seed=100 + index)}
        for index, size in enumerate(sizes)
    ]
    result = quantize(proto, data, method=AUTO)
    assert result.calibration is not None and result.calibration.auto is not None
    assert result.calibration.auto.notes == ()
    assert relative_difference(run(proto, data[0]), run(result.model, data[0])) < 0.05


def test_statistics_alone_are_refused_by_name() -> None:
    statistics = collect_statistics(outlier_net(1.0), SAMPLES).statistics
    with pytest.raises(UsageError, match="auto"):
        calibrate(outlier_net(1.0), statistics=statistics, method=AUTO)
    with pytest.raises(UsageError, match="auto"):
        calibrate(outlier_net(1.0), SAMPLES, method=AUTO, percent=99.9)


def test_each_rule_takes_its_own_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four candidates a has the best total, c the best typical score of those whose total is no worse
    than that of b, the method that won, and d the best typical score of all."""
    ranges = {name: Range(0.0, high) for name, high in zip("abcd", (1.0, 2.0, 3.0, 4.0), strict=True)}
    some = plain(1.0)["mse"]
    tables = {
        name: replace(some, entries={t: replace(e, range=found) for t, e in some.entries.items()})
        for name, found in ranges.items()
    }
    scores = Scores(np.array([2.0, 3.0, 1.0, 0.0]), np.array([2.0, 0.0, 2.0, 2.1]), 1)  # of b, a, c, d
    monkeypatch.setattr(by_tensor, "score_candidates", lambda *_, **__: dict.fromkeys(some.entries, scores))
    offered: dict[str, CalibrationTable] = {}
    check = module._Work.check

    def recorded(work: module._Work, several: dict[str, CalibrationTable]) -> list[Check]:
        offered.update(several)
        return check(work, several)

    monkeypatch.setattr(module._Work, "check", recorded)
    monkeypatch.setattr(
        module, "check_table", lambda name, *_: Check(name, *([30.0 if name == "b" else 29.0] * 3), 20, 0.0)
    )
    chosen(tables)
    for rule, winner in ((BOTH, "c"), (module.TYPICAL, "d"), (TOTAL, "a")):
        assert {e.range for e in offered[rule].entries.values()} == {ranges[winner]}, rule


def test_a_method_ten_decibels_behind_the_best_offers_no_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tensor but the first prefers the widest range that it is offered."""
    figures = {"good": 30.0, "near": 20.1, "far": 19.9}
    some = plain(1.0)["mse"]
    tables = {
        name: replace(some, entries={
            tensor: replace(entry, range=Range(0.0, 1.0 + place), method=name)
            for tensor, entry in some.entries.items()
        })
        for place, name in enumerate(figures)
    }  # fmt: skip

    def widest(prepared: object, codes: dict[str, list[QParams]], *_: object, **__: object) -> object:
        scales = {name: -np.array([one.scale for one in offered]) for name, offered in codes.items()}
        del scales[next(iter(some.entries))]
        return {name: Scores(found, found, 1) for name, found in scales.items()}

    monkeypatch.setattr(by_tensor, "score_candidates", widest)
    monkeypatch.setattr(
        module, "check_table", lambda name, *_: Check(name, *([figures.get(name, 30.0)] * 3), 20, 0.0)
    )
    table, report = chosen(tables, 1.0)
    assert dict(report.wins) == {"near": len(some.entries) - 1, "good": 1}
    assert set(ranges_of(table).values()) == {Range(0.0, 1.0), Range(0.0, 2.0)}


def checks(**figures: float) -> list[Check]:
    return [Check(name, value, value, value, 20, value) for name, value in figures.items()]


def test_close_figures_are_no_reason() -> None:
    assert module._preferred(checks(minmax=30.2, mse=30.0)) == "mse"
    assert module._preferred(checks(minmax=30.3, mse=30.0)) == "minmax"
    both = Check(BOTH, 30.0, 30.0, 30.0, 20, 30.0)
    assert module._preferred([*checks(minmax=30.2, mse=30.1), both]) == BOTH
    close = [*checks(minmax=30.2, mse=30.1), Check(module.TYPICAL, 30.0, 30.0, 30.0, 20, 30.0)]
    assert module._preferred(close) == module.TYPICAL
    assert module._preferred(checks(minmax=-np.inf, mse=-np.inf)) is None
    assert module._preferred([]) is None


def test_what_fell_behind_is_not_compared_with_the_others() -> None:
    easy = Check("minmax", 40.0, 40.0, 40.0, 16, 40.0)
    assert module._preferred([*checks(mse=30.0), easy]) == "mse"


def test_a_race_is_lost_behind_the_best_on_the_same_runs() -> None:
    def at(runs: int, figure: float) -> Check:
        return Check("x", figure, figure, figure, runs, figure)

    race = Race()
    assert not race.lost(at(16, 20.0)) and not race.lost(at(32, 21.0))
    assert not race.lost(at(16, 18.1)) and race.lost(at(16, 17.9)) and not race.lost(at(16, 17.9), np.inf)
    assert not race.lost(at(32, 20.1)) and race.lost(at(32, 19.9)) and not race.lost(at(32, 19.9), 0.5)
    assert not race.lost(at(17, 0.0))
    assert not race.lost(at(16, 23.0)) and race.lost(at(16, 20.0))


def test_a_bad_table_is_judged_on_few_runs_and_a_known_one_on_none(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = plain(1.0)
    tables = {"minmax": tables["minmax"], "bad": scaled(tables["minmax"], 0.5), "mse": tables["mse"]}
    tables["again"] = tables["minmax"]
    seen: list[tuple[str, int]] = []
    right = module.check_table

    def check(name: str, *rest: object) -> Check:
        found = right(name, *rest)  # type: ignore[arg-type]
        seen.append((name, found.runs))
        return found

    monkeypatch.setattr(module, "check_table", check)
    _, report = chosen(tables, 1.0)
    assert seen[:3] == [("mse", 20), ("minmax", 20), ("bad", 16)]
    assert "again" not in dict(seen)
    figures = {check.name: replace(check, name="") for check in report.checks}
    assert figures["again"] == figures["minmax"]


@pytest.mark.parametrize("version", [13, 18, 21])
def test_operator_sets(version: int) -> None:
    proto = outlier_net(1.0)
    proto.opset_import[0].version = version
    found = calibrate(proto, SAMPLES, method=AUTO).auto
    assert found is not None and found.notes == () and found.checks


def test_equal_codes_are_one_candidate_that_of_the_first() -> None:
    entry = plain(1.0)["mse"].entries["x"]
    entries = [replace(entry, range=Range(0.0, high), method=str(n)) for n, high in enumerate((1, 2, 1))]
    assert [found.method for found in distinct(entries, UINT8).values()] == ["0", "1"]


def test_figures_do_not_depend_on_the_order_of_the_samples() -> None:
    rng = np.random.default_rng(1)
    energies = np.exp(rng.normal(0.0, 8.0, (50, 2, 2)))
    for _ in range(5):
        assert judged("x", rng.permutation(energies)) == judged("x", energies)


def test_figures_of_a_check() -> None:
    energies = np.array([[[100.0, 1.0]], [[1.0, 1.0]]])  # 20 dB and 0 dB, 101 / 2 in all
    found = judged("x", energies)
    assert found.typical_db == pytest.approx(10.0)
    assert found.total_db == pytest.approx(10 * np.log10(50.5))
    assert found.sqnr_db == pytest.approx((found.typical_db + found.total_db) / 2)
    assert judged("x", np.array([[[1.0, np.nan]]])).sqnr_db == -np.inf
    loud = judged("x", np.array([[[100.0, 1.0], [1.0, 0.1]], [[900.0, 1.0], [1.0, 0.3]]]))
    assert loud.evaluated_db == pytest.approx(10 * np.log10(1002.0 / 2.4))
    assert loud.total_db == pytest.approx(-5 * np.log10((2.0 / 1000.0) ** 2 + (0.4 / 2.0) ** 2))
    assert loud.total_db < 10 * np.log10(2.0 / 0.4) < 10 * np.log10(1000.0 / 2.0)  # the worst one decides
    assert judged("x", np.array([[[1.0, 0.0]]])).sqnr_db == 120.0
    assert judged("x", np.array([[[0.0, 1.0], [1.0, 0.1]]])).sqnr_db == pytest.approx(10.0)
