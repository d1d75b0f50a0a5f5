"""What a diagnosis advises gives back the accuracy when it is carried out."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from broken_nets import dead_norm, detector, normalized, one_loud_channel, plain, samples, saturated
from calib8.analysis.basis import METHOD, basis_of
from calib8.analysis.compare import compare
from calib8.calibration.given import parse_given
from calib8.errors import Calib8Error, ModelError, UsageError
from calib8.parameters import on_command_line
from calib8.remedies import Clinic, Remedy, Treatment, Wish, diagnose
from calib8.repair import by_effort
from calib8.repair.repairs import REPAIRS
from calib8.table import Range
from calib8.tasks.purpose import Purpose
from small_models import run


@functools.cache
def treated(net: Callable[[], onnx.ModelProto], mean: float = 0.0) -> Treatment:
    return diagnose(net(), None, samples(mean=mean), threads=1)


def carried_out(
    proto: onnx.ModelProto, wish: Wish, data: Any, target: str = "onnxruntime"
) -> onnx.ModelProto:
    """The model that ``calib8 quantize`` makes with these options."""
    found = calib8.quantize(
        proto,
        data,
        method=wish.method or METHOD,
        repair=wish.repairs or ("none",),
        keep_float=wish.keep_float,
        target=target,
        threads=1,
    )
    return ir.to_proto(found.model)


def sqnr_db(fp32: onnx.ModelProto, int8: onnx.ModelProto, rows: slice = slice(None)) -> float:
    """Over images that nobody calibrated with; ``rows`` along axis 1 of the output."""
    signal = noise = 0.0
    for feeds in samples(40)[24:]:
        left, right = (run(model, feeds)[0][:, rows].astype(np.float64) for model in (fp32, int8))
        signal += float(np.sum(left**2))
        noise += float(np.sum((left - right) ** 2))
    return 10.0 * float(np.log10(signal / noise))


def test_a_loud_channel_is_cured_by_the_advice() -> None:
    proto = one_loud_channel()
    found = treated(one_loud_channel)
    assert found.made_here and found.diagnosis.findings[0].node == "second"
    best = found.remedies[0]
    assert best.wish.repairs == ("cle", "bias") and best.gain_db > 30.0
    assert not best.wish.keep_float and best.macs == 0.0
    assert sqnr_db(proto, carried_out(proto, Wish(), samples())) < 5.0
    assert sqnr_db(proto, carried_out(proto, best.wish, samples())) > 35.0


def test_a_detector_is_cured_by_the_advice() -> None:
    """In a target that wants one scale around a Concat; others leave the last one without codes."""
    proto, target = detector(), "openvino"
    int8 = carried_out(proto, Wish(), samples(), target)
    found = diagnose(proto, int8, samples(), threads=1)
    assert found.diagnosis.findings[0].node == "detections"
    best = found.remedies[0]
    assert "detections" in best.wish.keep_float and best.macs == 0.0 and best.gain_db > 15.0
    scores = slice(4, 10)
    assert sqnr_db(proto, int8, scores) < 5.0
    assert sqnr_db(proto, carried_out(proto, best.wish, samples(), target), scores) > 35.0


def test_a_dead_normalization_is_cured_by_the_advice() -> None:
    proto = dead_norm()
    best = treated(dead_norm).remedies[0]
    assert "constant-channels" in best.wish.repairs and best.gain_db > 5.0
    plainly, cured = (sqnr_db(proto, carried_out(proto, wish, samples())) for wish in (Wish(), best.wish))
    assert cured > plainly + 5.0


def test_figures_are_those_of_the_model_that_the_options_make() -> None:
    proto = one_loud_channel()
    found = treated(one_loud_channel)
    again = found.diagnosis.dissection
    for remedy in found.remedies:
        model = carried_out(proto, remedy.wish, samples())
        quality = again.figures(with_shapes(model)).sqnr_db
        assert quality == pytest.approx(remedy.sqnr_db, abs=1e-6)
        assert remedy.gain_db == pytest.approx(remedy.sqnr_db - found.diagnosis.sqnr_db)


def test_wrong_data_have_no_remedy() -> None:
    found = treated(normalized, mean=3.0)
    assert found.diagnosis.findings[0].reason.cause == "statistics"
    assert found.remedies == () and found.tried == 0
    assert treated(normalized).tried > 0


def test_a_model_calibrated_with_other_data_is_calibrated_again() -> None:
    proto = plain()
    int8 = carried_out(proto, Wish(), samples(scale=0.05))
    found = diagnose(proto, int8, samples(), threads=1)
    assert not found.made_here and found.diagnosis.findings[0].reason.cause == "input"
    [remedy] = found.remedies
    assert remedy.wish == Wish() and remedy.gain_db > 10.0
    assert found.flags(remedy) == ("--method", "mse", "--repair", "none")


def test_advice_names_repairs_that_there_are() -> None:
    for net in (plain, one_loud_channel, detector, dead_norm):
        found = treated(net)
        for finding in found.diagnosis.findings:
            assert set(sum(finding.reason.repairs, ())) <= set(REPAIRS)
        figures = [remedy.gain_db for remedy in found.remedies]
        assert all(gain >= 1.0 for gain in figures)


def test_the_target_of_the_int8_model_is_kept() -> None:
    proto = one_loud_channel()
    int8 = calib8.quantize(
        proto, samples(), method="mse", repair=("none",), target="openvino", activations="int8-symmetric"
    )
    found = diagnose(proto, ir.to_proto(int8.model), samples(), threads=1)
    assert (found.basis.target, found.basis.activations) == ("openvino", "int8-symmetric")
    assert found.remedies[0].gain_db > 20.0


def test_so_is_one_scale_per_weight() -> None:
    proto = one_loud_channel()
    int8 = calib8.quantize(proto, samples(), method="mse", repair=("none",), weights="per-tensor")
    found = diagnose(proto, ir.to_proto(int8.model), samples(), threads=1)
    assert (found.basis.target, found.basis.weights) == ("onnxruntime", "per-tensor")
    words = found.flags(found.remedies[0])
    assert words[words.index("--weights") + 1] == "per-tensor"
    wish = found.remedies[0].wish
    again = calib8.quantize(
        proto, samples(), method=wish.method or found.basis.method, repair=wish.repairs or ("none",),
        keep_float=wish.keep_float, weights="per-tensor",
    )  # fmt: skip
    quality = found.diagnosis.dissection.figures(with_shapes(ir.to_proto(again.model))).sqnr_db
    assert quality == pytest.approx(found.remedies[0].sqnr_db, abs=1e-6)


def with_shapes(model: onnx.ModelProto) -> ir.Model:
    return ir.from_proto(onnx.shape_inference.infer_shapes(model))


def test_missing_data_and_models_are_told() -> None:
    with pytest.raises(Calib8Error, match="nowhere"):
        diagnose(plain(), None, "nowhere")
    with pytest.raises(Calib8Error, match=r"none\.onnx"):
        diagnose("none.onnx", None, samples())


def test_a_wish_for_a_node_that_there_is_not_is_refused() -> None:
    found = treated(plain)
    made = calib8.calibrate(plain(), samples(), method="mse", threads=1)
    clinic = Clinic(found.diagnosis, made, found.basis, 1, ir.from_proto(plain()))
    with pytest.raises(UsageError, match="keep_float: the model has no node 'nobody'"):
        clinic.remedy(Wish(keep_float=("third", "nobody")))
    assert (
        clinic.remedy(Wish(keep_float=("third_out",))).macs == clinic.remedy(Wish(keep_float=("third",))).macs
    )


def test_nodes_that_are_float_already_stay_so_and_cost_nothing_more() -> None:
    proto = one_loud_channel()
    int8 = calib8.quantize(proto, samples(), method="mse", repair=("none",), keep_float=["first"], threads=1)
    found = diagnose(proto, ir.to_proto(int8.model), samples(), threads=1)
    assert found.basis.keep_float == ("first",)
    best = found.remedies[0]
    assert best.wish.repairs == ("cle", "bias") and best.macs == 0.0
    words = found.flags(best)
    assert words[words.index("--keep-float") + 1] == "first"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("repair", ["bias-analytic", "absorb-analytic", "bn", "cle-replace", "adaround"])
def test_models_of_every_repair_can_be_diagnosed(repair: str) -> None:
    int8 = calib8.quantize(normalized(), samples(), method="mse", repair=(repair,), keep_float=["last"])
    assert int8.repaired is not None
    proto = ir.to_proto(int8.model)
    if not int8.repaired.steps[
        0
    ].kept:  # nothing to do in this network: as if another one had been repaired so
        onnx.helper.set_model_props(
            proto, {"calib8.target": "onnxruntime", "calib8.repairs": f'["{repair}"]'}
        )
    found = diagnose(normalized(), proto, samples(), threads=1)
    assert found.basis.repairs == (repair,)
    clinic_figures = [one.sqnr_db for one in found.remedies if repair in one.wish.repairs]
    assert found.tried and all(figure > found.diagnosis.sqnr_db for figure in clinic_figures)


@pytest.mark.slow
def test_what_was_made_with_other_statistics_is_diagnosed_against_them() -> None:
    data = samples(mean=2.0)
    int8 = calib8.quantize(normalized(), data, method="mse", repair=("bn",), weights="per-tensor", threads=1)
    proto = ir.to_proto(int8.model)
    found = diagnose(normalized(), proto, data, threads=1)
    assert found.diagnosis.comparison.estimated == 1
    assert found.diagnosis.sqnr_db > 20.0 and found.diagnosis.comparison.outputs.sqnr_db > 20.0
    assert "statistics" not in {one.reason.cause for one in found.diagnosis.findings}
    assert found.tried
    for remedy in found.remedies:
        words = found.flags(remedy)
        assert "bn" in words[words.index("--repair") + 1].split(",")
        assert remedy.sqnr_db > found.diagnosis.sqnr_db
    elsewhere = compare(normalized(), proto, samples(40, mean=2.0)[24:], threads=1)
    assert elsewhere.estimated == 1 and elsewhere.outputs.sqnr_db > 20.0, "with other images too"


def test_a_dead_normalization_that_was_cured_is_not_accused_again() -> None:
    def accused(repair: tuple[str, ...]) -> set[str]:
        int8 = calib8.quantize(dead_norm(), samples(), method="mse", repair=repair, threads=1)
        found = diagnose(dead_norm(), ir.to_proto(int8.model), samples(), threads=1)
        return {finding.reason.cause for finding in found.diagnosis.findings}

    assert "batch normalization" in accused(("bias",))
    assert "batch normalization" not in accused(("constant-channels", "bias"))


def test_a_fixed_range_is_not_calibrated_again() -> None:
    proto = saturated()
    found = diagnose(proto, None, samples(), threads=1)
    [finding] = [one for one in found.diagnosis.findings if one.reason.cause == "clipped"]
    assert "Sigmoid" in finding.reason.text and "minmax" not in finding.reason.advice
    assert all(one.wish.method is None for one in found.remedies)
    advice = on_command_line(finding.reason.advice)
    option = shlex.split(advice.partition("--range ")[2].partition(", or")[0])[0]
    assert f"with ranges={{{option.partition('=')[0]!r}: (0, 1)}}, or" in finding.reason.advice
    given = calib8.quantize(
        proto, samples(), method="mse", repair=("none",), ranges=parse_given([option]), threads=1
    )
    quality = found.diagnosis.dissection.figures(with_shapes(ir.to_proto(given.model))).sqnr_db
    assert quality > found.diagnosis.sqnr_db + 3.0


@pytest.mark.parametrize("tensor", ["x", "first_relu_out"])
def test_a_range_that_the_user_gave_is_questioned(tensor: str) -> None:
    """The others that were given stay."""
    proto = plain()
    ranges = {tensor: Range(0.0, 0.05), "third_relu_out": Range(0.0, 50.0)}
    int8 = calib8.quantize(proto, samples(), method="mse", repair=("none",), ranges=ranges, threads=1)
    found = diagnose(proto, ir.to_proto(int8.model), samples(), threads=1)
    first = found.diagnosis.findings[0].reason
    assert first.cause == "clipped" and first.without_ranges == (tensor,)
    assert first.text.startswith("the range given with ranges clips: ")
    assert first.advice == f"Leave out ranges[{tensor!r}]"
    assert on_command_line(first.advice) == f"Leave out --range '{tensor}=…'"
    best = found.remedies[0]
    assert best.wish.without_ranges == (tensor,) and not best.wish.keep_float and best.gain_db > 10.0
    flags = found.flags(best)
    assert flags[flags.index("--range") + 1].startswith("third_relu_out=") and flags.count("--range") == 1
    again = calib8.quantize(
        proto, samples(), method="mse", repair=best.wish.repairs or ("none",), threads=1,
        ranges={"third_relu_out": Range(0.0, 50.0)},
    )  # fmt: skip
    quality = found.diagnosis.dissection.figures(with_shapes(ir.to_proto(again.model))).sqnr_db
    assert best.sqnr_db == pytest.approx(quality, abs=0.01)


def test_another_method_is_tried_where_the_user_chose_one() -> None:
    data = samples()
    int8 = calib8.quantize(plain(), data, method="percentile", percent=90.0, repair=("none",), threads=1)
    found = diagnose(plain(), ir.to_proto(int8.model), data, threads=1)
    assert found.basis.method == "percentile" and found.basis.percent == 90.0
    [best] = [one for one in found.remedies if one.wish.method == METHOD]
    assert best.gain_db > 3.0 and "--percent" not in found.flags(best)


def test_repairs_that_the_model_has_stay_where_nodes_become_float() -> None:
    proto = detector()
    int8 = calib8.quantize(proto, samples(), method="minmax", repair=("bias",), threads=1)
    found = diagnose(proto, ir.to_proto(int8.model), samples(), threads=1)
    assert (found.basis.method, found.basis.repairs) == ("minmax", ("bias",))
    assert ("bias",) in [one.wish.repairs for one in found.remedies if one.wish.keep_float]


@pytest.mark.parametrize(
    ("key", "text"), [("keep_float", "[x"), ("ranges", '{"x": [1]}'), ("ranges", "[]"), ("repairs", "3")]
)
def test_broken_metadata_are_told(key: str, text: str) -> None:
    proto = plain()
    int8 = ir.to_proto(calib8.quantize(proto, samples(), method="mse", repair=("none",), threads=1).model)
    onnx.helper.set_model_props(int8, {f"calib8.{key}": text, "calib8.target": "tflite"})
    with pytest.raises(ModelError, match="what calib8 stored in it cannot be read"):
        basis_of(proto, int8)


def test_spots_whose_codes_a_remedy_takes_away_are_not_asked_for() -> None:
    int8 = calib8.quantize(
        plain(), samples(), method="mse", repair=("none",), target="calib8", spots=["x"], threads=1
    )
    found = diagnose(plain(), ir.to_proto(int8.model), samples(), threads=1)
    assert found.basis.spots == ("x",)
    made = calib8.calibrate(plain(), samples(), method="mse", threads=1)
    clinic = Clinic(found.diagnosis, made, found.basis, 1, ir.from_proto(plain()))
    kept, gone = clinic.remedy(Wish(repairs=("bias",))), clinic.remedy(Wish(keep_float=("first",)))
    assert found.flags(kept)[found.flags(kept).index("--spot") + 1] == "x"
    assert "--spot" not in found.flags(gone)


def test_what_was_said_of_the_outputs_is_said_again() -> None:
    found = diagnose(plain(), None, samples(), threads=1, task="classify")
    assert found.purpose == Purpose("classify")
    words = replace(found, purpose=Purpose("classify", {"y": "logits"})).flags(
        Remedy(Wish(), found.diagnosis.figures, 1.0, 0.0)
    )
    assert words[-4:] == ("--task", "classify", "--branch", "y=logits")


@pytest.mark.slow
def test_ranges_that_a_search_began_from_are_not_taken_for_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_effort, "CLIPPING_DB", 1000.0)
    monkeypatch.setattr(by_effort, "_took_wider_codes", lambda steps: True)
    made = calib8.quantize(one_loud_channel(), samples(40), threads=1)
    assert made.repaired is not None
    assert by_effort.UNCLIPPED in [step.name for step in made.repaired.steps if step.kept]
    basis = basis_of(one_loud_channel(), ir.to_proto(made.model))
    assert basis.method == "auto" and "--method" not in basis.flags()


@pytest.mark.slow
def test_where_no_method_was_named_ranges_are_chosen_as_by_quantize() -> None:
    proto, data = one_loud_channel(), samples(40)
    made = calib8.quantize(proto, data, repair=("none",), threads=1)
    found = diagnose(proto, ir.to_proto(made.model), data, threads=1)
    best = next(one for one in found.remedies if one.wish.method is None)
    assert "--method" not in found.flags(best)
    again = calib8.quantize(
        proto, data, repair=best.wish.repairs or ("none",), keep_float=best.wish.keep_float, threads=1
    )
    assert any(entry.method.startswith("auto: ") for entry in again.table.entries.values())
    quality = found.diagnosis.dissection.figures(with_shapes(ir.to_proto(again.model))).sqnr_db
    assert best.sqnr_db == pytest.approx(quality, abs=0.01)


@pytest.mark.slow
def test_a_method_that_the_user_named_is_named_again() -> None:
    data = samples(40)
    made = calib8.quantize(plain(), data, method="minmax", threads=1)
    assert diagnose(plain(), ir.to_proto(made.model), data, threads=1).basis.method == "minmax"
