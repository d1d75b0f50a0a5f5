"""What repairs must gain to stay, and that those which may change the function must lose nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from small_candidates import candidate_of

from calib8.autorange.check import Check
from calib8.autorange.samples import ChosenSamples
from calib8.repair import held_back, search
from calib8.repair.by_effort import repair_by_effort
from calib8.repair.by_name import repair_by_name
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.repairs import EFFORTS, REPAIRS, RISKY, Effort, Repair
from small_models import normal, onnx_model

PLAIN = 20.0
"""Quality in dB of the model without any repair."""


@pytest.fixture(scope="module")
def plain() -> Candidate:
    model = onnx_model("float[N,4] x", "float[N,3] y", "y = MatMul(x, w)", {"w": normal(4, 3)})
    return candidate_of(model, samples().scored)[0]


def samples() -> ChosenSamples:
    runs = tuple({"x": normal(1, 4, seed=seed)} for seed in range(16))
    return ChosenSamples(runs[:8], runs[8:], shared=False)


def marking(name: str) -> Repair:
    """A repair that leaves its name, so that the judge knows it."""

    def repair(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
        return replace(candidate, floats=candidate.floats | {name}), RepairReport((name,))

    return repair


def judging(
    monkeypatch: pytest.MonkeyPatch, gains: Mapping[str, float], bias: float = 0.0, plain: float = PLAIN
) -> None:
    """Repairs that gain so much, in dB, and a correction of biases that does."""

    def quality(judge: held_back.Judge, one: Candidate) -> Check:
        figure = plain + sum(gains[name] for name in one.floats) + bias * one.power_of_two
        return Check("", figure, figure, figure, 8, figure)

    def corrected(one: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
        return replace(one, power_of_two=True), RepairReport(("layer",))

    for name in gains:
        monkeypatch.setitem(REPAIRS, name, marking(name))  # type: ignore[arg-type]
    monkeypatch.setattr(held_back.Judge, "quality", quality)
    monkeypatch.setattr(search, "correct_biases", corrected)
    monkeypatch.setitem(REPAIRS, "bias", corrected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gains", "kept"),
    [
        ({"scales": 0.09}, set()),
        ({"scales": 0.11}, {"scales"}),
        ({"scales": -1.0}, set()),
        ({"equalize-groups": 0.9}, set()),
        ({"equalize-groups": 1.1}, {"equalize-groups"}),
        ({"scales": 0.05, "round": 0.09}, set()),
        ({"scales": 0.05, "round": 0.2}, {"round"}),
        ({"scales": 0.2, "round": 0.05}, {"scales"}),
        ({"scales": 2.0, "round": 1.0}, {"scales"}),
        ({"scales": 1.0, "round": 2.0}, {"round"}),
    ],
)
def test_an_effort_keeps_what_gains_a_tenth_of_a_decibel(
    plain: Candidate, monkeypatch: pytest.MonkeyPatch, gains: Mapping[str, float], kept: set[str]
) -> None:
    """Where every channel is to fill its codes a whole one; of alternatives the best one stays."""
    judging(monkeypatch, gains)
    stage = tuple((name,) for name in gains)
    monkeypatch.setitem(EFFORTS, "fast", Effort(stages=(stage,), finish=("bias",)))  # type: ignore[arg-type]
    found = repair_by_effort(plain, samples(), "fast", threads=1)
    assert found.candidate.floats == kept
    assert {step.name for step in found.steps if step.kept} == kept


@pytest.mark.parametrize(
    ("start", "gains", "hopes"),
    [
        (20.0, {"round": -2.91}, [False]),
        (20.0, {"round": -2.89}, [True]),
        (20.0, {"equalize-groups": -2.01}, [False]),
        (20.0, {"equalize-groups": -1.99}, [True]),
        (20.0, {"scales": 1.5, "round": -1.51}, [True, False]),
        (20.0, {"scales": 1.5, "round": -1.49}, [True, True]),
        (10.0, {"round": -2.91}, [False]),
        (10.0, {"round": -2.89}, [True]),
    ],
)
def test_ranges_are_compared_where_three_decibels_may_still_be_missing(
    plain: Candidate,
    monkeypatch: pytest.MonkeyPatch,
    start: float,
    gains: Mapping[str, float],
    hopes: list[bool],
) -> None:
    """A repair may ask before it does what takes long: of what it has, with biases corrected."""
    told = list[bool]()
    judging(monkeypatch, gains, bias=5.0, plain=start)

    def asking(name: str) -> Repair:
        def repair(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
            changed, report = marking(name)(candidate, data)
            told.append(data.promises(changed))
            return changed, report

        return repair

    for name in gains:
        monkeypatch.setitem(REPAIRS, name, asking(name))  # type: ignore[arg-type]
    stage = tuple((name,) for name in gains)
    monkeypatch.setitem(EFFORTS, "fast", Effort(stages=(stage,), finish=("bias",)))  # type: ignore[arg-type]
    repair_by_effort(plain, samples(), "fast", threads=1)
    assert told == hopes


@pytest.mark.parametrize(("gain", "kept"), [(-0.5, False), (0.09, False), (0.11, True)])
def test_biases_are_corrected_where_that_gains_a_tenth_of_a_decibel(
    plain: Candidate, monkeypatch: pytest.MonkeyPatch, gain: float, kept: bool
) -> None:
    judging(monkeypatch, {}, gain)
    monkeypatch.setitem(EFFORTS, "fast", Effort(stages=(), finish=("bias",)))  # type: ignore[arg-type]
    found = repair_by_effort(plain, samples(), "fast", threads=1)
    assert found.candidate.power_of_two == kept
    assert [(step.name, step.kept) for step in found.steps] == [("bias", kept)]


@pytest.mark.parametrize("name", [*RISKY, "round"])
@pytest.mark.parametrize("gain", [-2.9, -0.01, 0.0, 0.01])
def test_a_repair_that_may_change_the_function_stays_if_it_loses_nothing(
    plain: Candidate, monkeypatch: pytest.MonkeyPatch, name: str, gain: float
) -> None:
    """One that cannot stays as it was asked for."""
    judging(monkeypatch, {name: gain})
    found = repair_by_name(plain, samples(), [name], threads=1)
    [step] = found.steps
    assert step.after_db == pytest.approx(PLAIN + gain)
    assert step.kept == (name == "round" or gain >= 0.0)
    assert found.candidate.floats == ({name} if step.kept else set())
