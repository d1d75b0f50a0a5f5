"""Decisions per frame and signals: figures by loops, who reads which output, states carried while judging."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import calib8
from calib8.errors import DataError, UsageError
from calib8.model.load import load_model
from calib8.tasks.judges.decisions import DecisionRecord, SpeechJudge, find_speech
from calib8.tasks.judges.find import find_judge
from calib8.tasks.judges.signals import SignalJudge, find_signal
from calib8.tasks.kept import kept
from calib8.tasks.meaning import meaning_of
from calib8.tasks.purpose import Purpose
from calib8.tasks.task_verdicts import task_verdicts
from small_models import run
from stream_nets import FRAME, UNITS, Array, normal, streaming

FRAMES = normal(60, FRAME, seed=14)
MARKS = np.isin(np.arange(60), (0, 25)).astype(np.int64)


def frame(*values: float) -> list[Array]:
    return [np.array([values], np.float32)]


def test_decisions_by_hand() -> None:
    judge = SpeechJudge(threshold=0.5)
    pairs = [
        ((0.6, 0.1), (0.9, 0.2)),
        ((0.5, 0.9), (0.51, 0.9)),
        ((0.7, 0.7), (0.2, 0.8)),
        ((0.1, 0.1), (0.1, 0.9)),
    ]
    records = [
        judge.compare(judge.read(frame(*code), "a"), judge.as_truth(judge.read(frame(*real), "a")))
        for code, real in pairs
    ]
    assert records[1] == DecisionRecord((False, True), (True, True))
    found = judge.figures(records)
    assert found == {"decisions": 2 / 4, "missed": 2 / 5, "made_up": 1 / 3}
    assert judge.figures([]) == {}
    assert judge.read(frame(math.nan), "a") == (False,)


@pytest.mark.parametrize(
    ("truth", "told"), [(True, {"decisions", "missed"}), (False, {"decisions", "made_up"})]
)
def test_figures_that_no_frame_tells_are_left_out(truth: bool, told: set[str]) -> None:
    judge = SpeechJudge()
    assert set(judge.figures([DecisionRecord((True,), (truth,))] * 3)) == told


def test_signals_by_hand() -> None:
    judge, real, code = (
        SignalJudge(),
        normal(5, 8, seed=1),
        1.3 * normal(5, 8, seed=1) + 0.1 * normal(5, 8, seed=2),
    )
    records = [
        judge.compare(judge.read([y[None]], "a"), judge.as_truth(judge.read([r[None]], "a")))
        for r, y in zip(real, code.astype(np.float32), strict=True)
    ]
    r, y = real.astype(np.float64).reshape(-1), code.astype(np.float32).astype(np.float64).reshape(-1)
    k = np.dot(r, y) / np.dot(r, r)
    assert judge.figures(records) == pytest.approx({
        "sqnr_db": 10 * np.log10(np.sum(r**2) / np.sum((r - y) ** 2)),
        "si_sdr_db": 10 * np.log10(np.sum((k * r) ** 2) / np.sum((k * r - y) ** 2)),
    })  # fmt: skip
    assert judge.figures(records[::-1]) == judge.figures(records)


def test_signals_at_the_ends_of_the_scale() -> None:
    judge, r = SignalJudge(), normal(1, 8, seed=1).astype(np.float64)[0]
    assert judge.figures([judge.compare(r, r)]) == {"sqnr_db": 120.0, "si_sdr_db": 120.0}
    louder = judge.figures([judge.compare(2 * r, r)])
    assert louder["si_sdr_db"] == 120.0 and louder["sqnr_db"] == pytest.approx(0.0)
    assert judge.figures([judge.compare(r * np.nan, r)]) == {"sqnr_db": -120.0, "si_sdr_db": -120.0}
    assert judge.figures([judge.compare(r, 0 * r)]) == {} == judge.figures([])
    with pytest.raises(DataError, match="8 and 7 numbers in a frame"):
        judge.compare(r, r[:7])


def test_what_cannot_be_read_is_refused() -> None:
    whole = [np.zeros((1, 2), np.int64)]
    with pytest.raises(DataError, match="no numbers per frame"):
        SpeechJudge().read(whole, "a")
    with pytest.raises(DataError, match="no signal"):
        SignalJudge().read(whole, "a")
    with pytest.raises(DataError, match="no number 1"):
        SpeechJudge(1).read(frame(1), "a")
    with pytest.raises(UsageError, match="none has numbers"):
        find_speech(["a"], whole)
    with pytest.raises(UsageError, match="several may be the signal"):
        find_signal(["a", "b"], [np.zeros((1, 4), np.float32)] * 2)
    with pytest.raises(DataError, match="has 1 decisions per frame, and the truth has 2"):
        SpeechJudge().compare((True,), (True, False))


def test_the_threshold_follows_from_the_numbers() -> None:
    wide = np.zeros((2, 1, 4), np.float32)
    assert find_speech(["s", "p"], [wide, np.array([[0.2]], np.float32)]) == SpeechJudge(1, 0.5)
    assert find_speech(["p", "s"], [np.array([[-2.0]], np.float32), wide]) == SpeechJudge(0, 0.0)


HEARD = [("speech", "decisions", "Sigmoid"), ("enhance", "signal", "Tanh")]


def voiced(last: str = "Sigmoid") -> onnx.ModelProto:
    """The streaming model with a function behind y: p [1, 2]."""
    model = streaming()
    model.graph.node.append(helper.make_node(last, ["y"], ["p"], name="last"))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("p", onnx.TensorProto.FLOAT, [1, 2]))
    return model


@pytest.mark.parametrize(
    ("task", "kind", "last"), [("speech", "decisions", "Sigmoid"), ("enhance", "signal", "Tanh")]
)
def test_a_state_is_not_what_a_network_is_for(task: str, kind: str, last: str) -> None:
    meaning = meaning_of(load_model(voiced(last)), task=task)
    assert meaning.branches[0].name == kind
    assert [one.kind for one in meaning.branches] == [kind, "other"] and meaning.task == task
    outputs = run(voiced(last), {"x": FRAMES[:1], "state": np.zeros((2, 1, UNITS), np.float32)})
    judge = find_judge(task, ["p", "stateN"], outputs, {"x": FRAMES[:1]}, meaning)
    assert judge.task == task and judge.output == 0


def test_verdicts_by_task() -> None:
    meaning = meaning_of(load_model(voiced()), task="speech")
    rng = np.random.default_rng(3)
    expected = [[rng.random((1, 2)).astype(np.float32), normal(2, 1, 4, seed=n)] for n in range(50)]
    found = [[one.copy(), state] for one, state in expected]
    for place in range(4):
        found[place][0][0, 1] = 1.0 - found[place][0][0, 1]
    [told] = task_verdicts(meaning, ["p", "stateN"], expected, found, [{"x": FRAMES[:1]}] * 50)
    assert (told.task, told.state, told.decided_by) == ("speech", "damaged", "decisions")
    assert told.figures["decisions"] == 46 / 50
    assert told.text.startswith("92.0 % (46 of 50) of the frames are decided as FP32 decides them")
    meaning = meaning_of(load_model(voiced("Tanh")), task="enhance")
    noisy = [
        [one + np.float32(0.04) * normal(1, 2, seed=n), state] for n, (one, state) in enumerate(expected)
    ]
    [told] = task_verdicts(meaning, ["p", "stateN"], expected, noisy, [{"x": FRAMES[:1]}] * 50)
    assert told.state == "kept" and "SI-SDR" in told.text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("heard")
    onnx.save(voiced(), place / "net.onnx")
    frames = {"x": normal(40, FRAME, seed=9)}
    calib8.quantize(place / "net.onnx", frames, target="calib8", effort="fast", threads=1).save(
        place / "q.onnx"
    )
    return place


def streamed(model: Path, *, own: bool = True) -> Array:
    """Probabilities of a session that carries its own state, or that of FP32; [F, 2]."""
    session = calib8.InferenceSession(model, threads=1)
    found, state = [], np.zeros((2, 1, UNITS), np.float32)
    for x, mark in zip(FRAMES, MARKS, strict=True):
        if mark:
            session.reset()
            state = np.zeros_like(state)
        if not own:
            session.set_state({"state": state})
            state = run(voiced(), {"x": x[None], "state": state})[1]
        found.append(session.run(["p"], {"x": x[None]})[0])
    return np.concatenate(found)


def expected() -> Array:
    found, state = [], np.zeros((2, 1, UNITS), np.float32)
    for x, mark in zip(FRAMES, MARKS, strict=True):
        p, state = run(voiced(), {"x": x[None], "state": np.zeros_like(state) if mark else state})
        found.append(p)
    return np.concatenate(found)


def db(r: Any, y: Any) -> float:
    r = r.astype(np.float64)
    return float(10 * np.log10(np.sum(r**2) / np.sum((r - y) ** 2)))


def test_evaluate_carries_the_state_of_each_model(made: Path) -> None:
    data = {"x": FRAMES, "reset": MARKS}
    real, code = expected(), streamed(made / "q.onnx")
    for words in ({}, {"samples": 60, "batch": 7}):
        _, told = calib8.evaluate(
            [made / "net.onnx", made / "q.onnx"], data, runtime="calib8", task="speech", threads=1, **words
        )
        assert told.task is not None
        same = ((real > 0.5) == (code > 0.5)).mean(axis=0).min()
        assert told.task.against_float["decisions"] == pytest.approx(same)
        figures = {one.name: one.sqnr_db for one in told.branches}
        assert figures["decisions"] == pytest.approx(db(real, code), abs=1e-3)
        assert abs(db(real, code) - db(real, streamed(made / "q.onnx", own=False))) > 0.05


@pytest.mark.parametrize("threshold", [0.2, 0.8])
def test_a_threshold_decides_wherever_models_are_judged(made: Path, tmp_path: Path, threshold: float) -> None:
    data, words = {"x": FRAMES, "reset": MARKS}, {"task": "speech", "threshold": threshold, "threads": 1}
    models, asked = [made / "net.onnx", made / "q.onnx"], {"runtime": "calib8", **words}
    _, told = calib8.evaluate(models, data, **asked)
    real, code = expected(), streamed(made / "q.onnx")
    same = ((real > threshold) == (code > threshold)).mean(axis=0).min()
    assert told.task is not None and told.task.against_float["decisions"] == pytest.approx(same)
    yes = real > threshold
    if yes.any():
        assert told.task.against_float["missed"] == pytest.approx(
            (yes & (code <= threshold)).sum() / yes.sum()
        )
    found = calib8.tune(
        made / "net.onnx", {"x": normal(40, FRAME, seed=9)}, tmp_path / "t.onnx", judge_data=data,
        target="calib8", effort="fast", min_decisions=0.5, **asked,
    )  # fmt: skip
    code = streamed(tmp_path / "t.onnx")
    same = ((real > threshold) == (code > threshold)).mean(axis=0).min()
    assert found.best.figures.value == pytest.approx(same)


def test_the_verdict_of_quantize_decides_by_the_threshold() -> None:
    meaning = Purpose("speech", threshold=0.9).meaning(load_model(voiced()))
    assert [one.threshold for one in meaning.branches] == [0.9, None]
    sure = np.linspace(0.91, 0.99, 30, dtype=np.float32)
    real = [[np.array([[0.8, one]], np.float32), normal(2, 1, 4, seed=n)] for n, one in enumerate(sure)]
    code = [[one - np.array([[0.4, 0.0]], np.float32), state] for one, state in real]
    told = kept(meaning.branches[0], real, code)
    assert (told.value, told.counted) == (1.0, 60)
    assert kept(replace(meaning.branches[0], threshold=None), real, code).value == 0.5
    [one] = task_verdicts(meaning, ["p", "stateN"], real, code, [{"x": FRAMES[:1]}] * 30)
    assert one.figures["decisions"] == 1.0


def test_thresholds_without_decisions_are_refused(made: Path) -> None:
    models, data = [made / "net.onnx", made / "q.onnx"], {"x": FRAMES, "reset": MARKS}
    for words, told in (
        ({"task": "enhance"}, "threshold: is not of task enhance"),
        ({"task": SpeechJudge()}, r"is given beside a judge.*SpeechJudge\(threshold=…\)"),
        ({}, "no output is said to hold some. Give task='speech' too"),
        ({"task": "speech", "threshold": math.nan}, "is not finite"),
    ):
        with pytest.raises(UsageError, match=told):
            calib8.evaluate(models, data, runtime="calib8", threads=1, **{"threshold": 0.3, **words})
    with pytest.raises(TypeError, match="threshold"):
        calib8.compare(*models, data, task="speech", threshold=0.3)


def test_some_frames_are_judged_in_the_whole_stream(made: Path) -> None:
    data = {"x": FRAMES, "reset": MARKS}
    _, told = calib8.evaluate(
        [made / "net.onnx", made / "q.onnx"], data, runtime="calib8", task="enhance",
        branches={"p": "signal"}, samples=12, threads=1,
    )  # fmt: skip
    assert told.task is not None and told.task.samples == 12
    real, code = expected()[::5], streamed(made / "q.onnx")[::5]
    assert told.task.against_float["sqnr_db"] == pytest.approx(db(real, code), abs=1e-3)


def test_labels_are_decisions_too(made: Path) -> None:
    labels = (expected()[:, 0] > 0.5).astype(np.int64)
    model = made / "one.onnx"
    proto = voiced()
    proto.graph.node.append(helper.make_node("Slice", ["p", "front", "end", "end"], ["first"], name="cut"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "end"))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("first", onnx.TensorProto.FLOAT, [1, 1]))
    onnx.save(proto, model)
    labels[3] = 1 - labels[3]
    [told] = calib8.evaluate(
        [model], {"x": FRAMES, "reset": MARKS, "labels": labels}, task="speech", threads=1
    )
    assert told.task is not None and told.task.against_labels["decisions"] == 59 / 60
    frames = {"x": normal(40, FRAME, seed=9)}
    calib8.quantize(model, frames, target="calib8", effort="fast", threads=1).save(made / "one_q.onnx")
    session = calib8.InferenceSession(made / "one_q.onnx", state={}, threads=1)
    states = np.stack([normal(2, 1, UNITS, seed=n) for n in range(60)])
    alone = {"x": FRAMES, "state": states, "labels": labels}
    pairs = zip(FRAMES, states, strict=True)
    code = np.array([session.run(["first"], {"x": x[None], "state": state})[0].item() for x, state in pairs])
    for threshold in (0.45, 0.6):  # no float model says what the outputs are
        [told] = calib8.evaluate(
            [made / "one_q.onnx"], alone, task="speech", threshold=threshold, runtime="calib8", threads=1
        )
        assert told.task is not None
        assert told.task.against_labels["decisions"] == pytest.approx(((code > threshold) == labels).mean())


def test_tune_promises_decisions_and_signals(made: Path, tmp_path: Path) -> None:
    data, judged = {"x": normal(40, FRAME, seed=9)}, {"x": FRAMES, "reset": MARKS}
    for number, (words, task) in enumerate(
        (({"min_decisions": 0.5}, "speech"), ({"min_si_sdr": 5, "branches": {"p": "signal"}}, None))
    ):
        found = calib8.tune(
            made / "net.onnx", data, tmp_path / f"{number}.onnx", judge_data=judged, runtime="calib8",
            target="calib8", effort="fast", task=task, threads=1, **words,
        )  # fmt: skip
        assert found.kept
        real, code = expected(), streamed(tmp_path / f"{number}.onnx")
        if number:
            assert found.best.figures.value == pytest.approx(_si_sdr(real, code), abs=1e-3)
        else:
            same = ((real > 0.5) == (code > 0.5)).mean(axis=0).min()
            assert found.best.figures.value == pytest.approx(same)


def _si_sdr(r: Array, y: Array) -> float:
    r, y = r.astype(np.float64).reshape(-1), y.astype(np.float64).reshape(-1)
    wanted = r * np.dot(r, y) / np.dot(r, r)
    return float(10 * np.log10(np.sum(wanted**2) / np.sum((wanted - y) ** 2)))
