"""``benchmark`` as a function: what is run, told and refused. No time is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calib8
from calib8.analysis import benchmark, benchmark_runtimes
from calib8.demo import CALIBRATION_PATH, MODEL_PATH
from calib8.engine.peak import machine_peak_gmacs
from calib8.errors import ModelError, UnsupportedModelError, UsageError

DIGITS = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")


@pytest.fixture(autouse=True)
def short_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "REST_SECONDS", 0.0)
    monkeypatch.setattr(benchmark, "VISIT_SECONDS", 0.0)


@pytest.fixture(scope="module")
def int8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("speed") / "int8.onnx"
    calib8.quantize(
        MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, method="minmax", effort="fast"
    ).save(path)  # fmt: skip
    return path


def test_models_in_turns(int8: Path) -> None:
    told = list[tuple[str, int, int | None]]()
    found = calib8.benchmark(
        [MODEL_PATH, int8], runtimes=["calib8", "onnxruntime"], threads=1, batch=2, rounds=2, profile=True,
        progress=lambda *one: told.append(one),
    )  # fmt: skip
    subjects = [(one.subject.model, one.subject.runtime, one.subject.batch) for one in found.timings]
    assert subjects == [
        (str(MODEL_PATH), "onnxruntime", 2), (str(int8), "calib8", 2), (str(int8), "onnxruntime", 2)
    ]  # fmt: skip
    alone, ours, theirs = found.timings
    assert found.ratio(alone) is None
    assert found.ratio(ours) == pytest.approx(theirs.median_ms / ours.median_ms)
    assert found.peaks == {1: machine_peak_gmacs(1)}
    assert ours.gmacs is not None and found.of_peak(ours) == pytest.approx(ours.gmacs / found.peaks[1])
    [parts] = found.breakdowns
    assert parts.model == str(int8) and sum(part.macs for part in parts.parts) == ours.subject.macs
    assert found.failures == found.notes == ()
    assert told[-1] == (f"measuring {int8}", 2, 2)


def test_one_model_alone_and_several_threads(int8: Path) -> None:
    found = calib8.benchmark(int8, runtimes=["calib8"], threads=[2, 1], rounds=1)
    assert [one.subject.threads for one in found.timings] == [2, 1]
    assert found.breakdowns == () and set(found.peaks) == {1, 2}


def test_a_runtime_that_nobody_named_may_fail(int8: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(workload: object, threads: int) -> None:
        raise ModelError(str(int8), "OpenVINO cannot load it (no such op)", "Leave it out")

    monkeypatch.setitem(benchmark_runtimes.OPENERS, "openvino", fail)
    monkeypatch.setattr("calib8.analysis.speed.installed_runtimes", lambda: ("calib8", "openvino"))
    found = calib8.benchmark(int8, threads=1, rounds=1)
    assert [one.subject.runtime for one in found.timings] == ["calib8"]
    assert [failure.problem for failure in found.failures] == ["OpenVINO cannot load it (no such op)"]
    with pytest.raises(ModelError, match=r"OpenVINO cannot load it"):
        calib8.benchmark(int8, threads=1, rounds=1, runtimes=["calib8", "openvino"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"threads": 0}, "threads=0: is not a list of numbers of threads. Give numbers from 1 to 256"),
        ({"threads": []}, r"threads=\[\]: is not a list"),
        ({"threads": "1,2"}, "threads='1,2': is not a list"),
        ({"threads": [1, True]}, "is not a list of numbers"),
        ({"threads": (1, 1)}, r"threads=\(1, 1\): names a number twice"),
        ({"rounds": 0}, "rounds=0: must be at least 1"),
        ({"batch": 0}, "batch=0: must be at least 1"),
        ({"runtimes": ["toaster"]}, r"runtimes=\['toaster'\]: unknown runtime 'toaster'. Use some of calib8"),
        ({"runtimes": []}, r"runtimes=\[\]: unknown runtime ''"),
        ({"runtimes": 3}, "runtimes=3: unknown runtime '3'"),
        ({"runtimes": ["calib8", "calib8"]}, "names a runtime twice"),
        ({"runtimes": ["onnxruntime"], "profile": True}, "profile=True: .* Add calib8 to runtimes"),
    ],
)
def test_options_that_mean_nothing(int8: Path, words: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        calib8.benchmark(int8, **words)


def test_models_that_do_not_run() -> None:
    with pytest.raises(UsageError, match=r"no model was given"):
        calib8.benchmark([])
    with pytest.raises(UsageError, match=r"models: is of type NoneType"):
        calib8.benchmark(None)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedModelError, match=r"Quantize it first, or add another runtimes"):
        calib8.benchmark(MODEL_PATH, runtimes=["calib8"])
    with pytest.raises(ModelError, match=r"no such file"):
        calib8.benchmark("none.onnx")
