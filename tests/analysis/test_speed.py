"""``benchmark`` as a function: what is run, told and refused. No time is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calib8
from calib8.analysis import benchmark, benchmark_runtimes
from calib8.analysis.benchmark import Subject, Timing
from calib8.analysis.benchmark_words import conclusions
from calib8.analysis.speed import Benchmark
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
    assert told[-1] == (f"measuring {MODEL_PATH}, {int8}", 2, 2), "all in the same rounds"
    assert found.of_float(alone) is None
    assert found.of_float(ours) == pytest.approx(alone.median_ms / ours.median_ms)
    assert found.conclusions() == conclusions(found.timings)


def timing(
    model: str, runtime: str, ms: float, *, threads: int = 1, macs: int | None = 9, is_float: bool = False
) -> Timing:
    return Timing(Subject(model, runtime, threads, 1, macs, is_float), (1e-3 * ms,))


def test_conclusions_compare_with_the_float_model_and_with_other_runtimes() -> None:
    floats = [timing("f", "onnxruntime", 24.0, is_float=True), timing("f", "openvino", 12.0, is_float=True)]
    ours = [timing("q", "onnxruntime", 5.0), timing("q", "calib8", 10.0)]
    two = [timing("f", "onnxruntime", 3.0, threads=2, is_float=True), timing("q", "calib8", 6.0, threads=2)]
    assert conclusions([*floats, *ours, *two]) == (
        "1 thread: q takes 5.000 ms in ONNX Runtime",
        "  2.4 × as fast as OpenVINO with the float model (12.000 ms)",
        "  4.8 × as fast as ONNX Runtime with the float model (24.000 ms)",
        "  2.0 × as fast as calib8 with the same model (10.000 ms)",
        "2 threads: q takes 6.000 ms in calib8",
        "  0.5 × as fast as ONNX Runtime with the float model (3.000 ms)",
    )


def test_what_codes_gain_in_a_runtime_that_is_not_the_fastest() -> None:
    floats = [timing("f", "onnxruntime", 24.0, is_float=True), timing("f", "openvino", 12.0, is_float=True)]
    told = conclusions([*floats, timing("q", "calib8", 2.0), timing("q", "onnxruntime", 8.0)])
    assert told[0] == "1 thread: q takes 2.000 ms in calib8"
    assert told[-1] == "  in ONNX Runtime alone it is 3.0 × as fast as the float model (24.000 → 8.000 ms)"


def test_the_float_model_of_the_same_runtime_is_compared_with() -> None:
    floats = (timing("f", "openvino", 12.0, is_float=True), timing("f", "onnxruntime", 24.0, is_float=True))
    ours, theirs = timing("q", "calib8", 2.0), timing("q", "onnxruntime", 8.0)
    found = Benchmark((*floats, ours, theirs), (), (), {1: 1.0})
    assert found.of_float(theirs) == 3.0 and found.of_float(ours) == 6.0
    assert found.of_float(floats[0]) is None


def test_runs_that_other_work_disturbed_are_told() -> None:
    def uneven(model: str, least: float, *, is_float: bool = False) -> Timing:
        subject = Subject(model, "onnxruntime", 1, 1, 9, is_float)
        return Timing(subject, (1e-3 * least, *[2e-3 * least] * 8, *[9e-3 * least] * 2))

    told = conclusions([uneven("f", 8.0, is_float=True), timing("q", "calib8", 1.0)])
    assert told[1:] == (
        "  16.0 × as fast as ONNX Runtime with the float model (16.000 ms)",
        "  other work disturbed these runs (95th percentile up to 4.5 × the median); "
        "by the fastest runs the first of these is 8.0 ×",
    )


def test_without_the_same_network_in_float_nothing_is_compared_with_it() -> None:
    alone = conclusions([timing("q", "calib8", 1.0)])
    assert alone[1:] == ("  give the float model too to see how many times as fast as it this is",)
    other = timing("g", "onnxruntime", 1.0, macs=8, is_float=True)
    told = conclusions([timing("q", "calib8", 1.0), other])
    assert told[1:] == (
        "  the float model is another network: it has other multiply-accumulates or samples a run",
    )
    assert conclusions([other]) == ()
    unknown = [timing("q", "calib8", 1.0, macs=None), timing("f", "openvino", 1.0, macs=None, is_float=True)]
    assert conclusions(unknown)[1:] == told[1:], "not known to be the same network"


@pytest.mark.slow
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
        ({"threads": "1,2"}, r"threads: is of type str \('1,2'\), not a whole number or a list"),
        ({"threads": [1, True]}, r"threads: holds a value that is of type bool \(True\), not a whole number"),
        ({"threads": (1, 1)}, r"threads=\(1, 1\): names a number twice"),
        ({"rounds": 0}, "rounds=0: must be at least 1"),
        ({"batch": 0}, "batch=0: must be at least 1"),
        ({"runtimes": ["toaster"]}, r"runtimes=\['toaster'\]: unknown runtime 'toaster'. Use some of calib8"),
        ({"runtimes": []}, r"runtimes=\[\]: unknown runtime ''"),
        ({"runtimes": 3}, r"runtimes: is of type int \(3\), not a list"),
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
