"""Models of a search are timed in turns behind it, and nothing about the search changes by that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tuned_nets import even_net, inputs, one_coarse_layer

import calib8
from calib8.run_report.of_tune import candidates
from calib8.tuning import clock
from calib8.tuning import latencies as latencies_module

Visits = list[tuple[str, str]]


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> Visits:
    """Name and runtime of every visit, each of which takes as many milliseconds as its number."""
    seen = Visits()
    opened = latencies_module._visit

    def visited(path: Path, runtime: str, threads: int, feeds: Any) -> list[float]:
        seen.append((path.name, runtime))
        assert opened(path, runtime, threads, feeds)
        return [1e-3 * len(seen)]

    monkeypatch.setattr(latencies_module, "_visit", visited)
    return seen


@pytest.mark.one_in(2)
@pytest.mark.parametrize("runtime", ["onnxruntime", "calib8"])
def test_all_models_are_timed_in_turns(visits: Visits, runtime: str, tmp_path: Path) -> None:
    found = calib8.tune(
        one_coarse_layer(), inputs(), tmp_path / "a.onnx", min_sqnr=30.0, effort="fast", runtime=runtime,
        threads=1, measure_latency=True,
    )  # fmt: skip
    count = len(found.trials)
    assert count > 1
    assert visits == [(f"{place}.onnx", runtime) for place in range(count)] * latencies_module.ROUNDS
    middle = latencies_module.ROUNDS // 2 * count + 1  # the median is the visit of the middle round
    assert found.latencies == pytest.approx(tuple(map(float, range(middle, middle + count))))


def test_the_search_is_the_same_and_goes_on(visits: Visits, tmp_path: Path) -> None:
    """A finished search is timed without another trial; the model is the same, byte for byte."""
    first = calib8.tune(one_coarse_layer(), inputs(), tmp_path / "a.onnx", min_sqnr=30.0, effort="fast")
    made = first.path.read_bytes()
    assert first.latencies == () and visits == []
    again = calib8.tune(
        one_coarse_layer(), inputs(), tmp_path / "a.onnx", min_sqnr=30.0, effort="fast", measure_latency=True
    )
    assert again.trials == first.trials and again.path.read_bytes() == made
    assert len(again.latencies) == len(again.trials)


def test_the_budget_does_not_end_the_timing(
    visits: Visits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is over once the timing has begun."""
    stages = list[str]()

    class Time:
        @staticmethod
        def monotonic() -> float:
            return 1e6 if "timing the models" in stages else 0.0

    monkeypatch.setattr(clock, "time", Time)
    found = calib8.tune(
        even_net(), inputs(), tmp_path / "a.onnx", min_sqnr=10.0, effort="fast", budget="1h",
        measure_latency=True, progress=lambda stage, done, total: stages.append(stage),
    )  # fmt: skip
    assert found.complete and len(found.latencies) == 1
    assert stages.count("timing the models") == latencies_module.ROUNDS + 1


def test_reports_draw_and_list_the_times(visits: Visits, tmp_path: Path) -> None:
    found = calib8.tune(
        one_coarse_layer(), inputs(), tmp_path / "a.onnx", min_sqnr=30.0, effort="fast", measure_latency=True
    )
    assert [one.latency for one in candidates(found).shown] == list(found.latencies)
    slower = replace(found, latencies=tuple(reversed(range(1, len(found.trials) + 1))))
    assert front(slower, lambda place: slower.latencies[place]) == [
        place for place, one in enumerate(candidates(slower).shown) if one.front
    ]
    assert ">ms<" in found._repr_html_() and ">ms<" not in replace(found, latencies=())._repr_html_()
    calib8.write_report(found, tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "a run, ms<" in page and f"{found.latencies[0]:.3f}" in page and "Nothing was timed" not in page
    calib8.write_report(replace(found, latencies=()), tmp_path / "other.html")
    text = (tmp_path / "other.html").read_text(encoding="utf-8")
    assert "a run, ms<" not in text and "Nothing was timed" in text
    assert '"latency":null' in text.replace(": ", ":")


def front(found: calib8.Tuning, cost: Callable[[int], float]) -> list[int]:
    """Written out: no other one is at least as fast and as good, and better in one of the two."""
    points = [(cost(place), -trial.figures.value) for place, trial in enumerate(found.trials)]
    return [
        place
        for place, point in enumerate(points)
        if not any(a <= point[0] and b <= point[1] and (a, b) != point for a, b in points)
    ]
