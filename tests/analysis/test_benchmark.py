"""Measuring in turns, and what is made of the times."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from calib8.analysis import benchmark
from calib8.analysis.benchmark import Opened, Subject, Timing, measure, ratio
from calib8.analysis.breakdown import Part, joined
from calib8.session import StepTime


@pytest.fixture(autouse=True)
def short_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "REST_SECONDS", 0.0)
    monkeypatch.setattr(benchmark, "VISIT_SECONDS", 0.0)


def subject(name: str, run: Callable[[], object], macs: int | None = 1000) -> Opened:
    return Opened(Subject("net.onnx", name, 2, 4, macs), lambda: benchmark.visit(run, benchmark.pace()))


def timing(runtime: str, *seconds: float, model: str = "net", threads: int = 1, batch: int = 1) -> Timing:
    return Timing(Subject(model, runtime, threads, batch, 2_000_000), seconds)


def test_subjects_are_visited_in_turns() -> None:
    seen: list[str] = []
    done: list[int] = []
    subjects = [subject(name, lambda name=name: seen.append(name)) for name in "ab"]
    timings = measure(subjects, 2, done.append)
    runs = 1 + benchmark.FEWEST_RUNS
    assert "".join(seen) == 2 * ("a" * runs + "b" * runs)
    assert done == [1, 2]
    assert [t.subject.runtime for t in timings] == ["a", "b"]
    assert all(len(t.seconds) == 2 * benchmark.FEWEST_RUNS for t in timings), "the first run does not count"
    assert [t.subject for t in timings] == [opened.subject for opened in subjects]


def test_a_visit_begins_with_a_rest_and_a_run_that_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of the subject before fall asleep, code and weights come back into the caches."""
    happened: list[object] = []
    monkeypatch.setattr(benchmark, "REST_SECONDS", 0.005)
    monkeypatch.setattr(benchmark.time, "sleep", happened.append)
    measure([subject("a", lambda: happened.append("run"))], 2)
    assert happened == 2 * [0.005, *["run"] * (1 + benchmark.FEWEST_RUNS)]


def test_a_fast_subject_is_run_often_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "VISIT_SECONDS", 1e9)
    [found] = measure([subject("a", lambda: None)], 3)
    assert len(found.seconds) == 3 * benchmark.MOST_RUNS


def test_the_figures_of_a_timing() -> None:
    found = timing("a", *(number * 1e-3 for number in range(100, 0, -1)))
    assert found.median_ms == pytest.approx(50.5)
    assert found.min_ms == pytest.approx(1.0)
    assert found.p95_ms == pytest.approx(95.05)
    assert found.gmacs == pytest.approx(2.0), "2 million in the fastest millisecond"
    assert Timing(Subject("net", "a", 1, 1, None), (1.0,)).gmacs is None


def test_the_ratio_is_to_the_fastest_other_runtime_on_the_same_work() -> None:
    ours, slow, fast = timing("calib8", 2e-3), timing("x", 8e-3), timing("y", 3e-3)
    others = [
        timing("y", 1e-9, threads=2),
        timing("y", 1e-9, batch=8),
        timing("y", 1e-9, model="other"),
        timing("calib8", 1e-9, model="other"),
    ]
    everything = [ours, slow, fast, *others]
    assert ratio(ours, everything) == pytest.approx(1.5)
    assert ratio(fast, everything) == pytest.approx(2 / 3)
    assert ratio(slow, everything) == pytest.approx(1 / 4)
    assert ratio(ours, [ours, *others]) is None


def test_a_profile_takes_the_fastest_of_each_step_and_joins_bands() -> None:
    def steps(*microseconds: int) -> list[StepTime]:
        kinds = (("a", "conv", 8000), ("b", "copy", 0), ("a", "conv", 6000), ("a", "add", 0))
        return [
            StepTime(name, kind, us * 1e-6, macs, 0.0)
            for (name, kind, macs), us in zip(kinds, microseconds, strict=True)
        ]

    parts = joined([steps(4, 2, 9, 1), steps(5, 1, 3, 7)])
    assert [(part.name, part.kind, part.steps) for part in parts] == [
        ("a", "conv", 2), ("b", "copy", 1), ("a", "add", 1)
    ]  # fmt: skip
    assert [part.seconds for part in parts] == pytest.approx([7e-6, 1e-6, 1e-6])
    assert [part.macs for part in parts] == [14000, 0, 0]
    assert parts[0].gmacs == pytest.approx(14000 / 7e-6 * 1e-9)
    assert (parts[1].gmacs, Part("c", "copy", 1, 0.0, 0).gmacs) == (0.0, 0.0)
