"""``calib8 benchmark``: what is run and written, and what is refused. No time is judged."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from json_output import load

from calib8 import InferenceSession
from calib8.analysis import benchmark, benchmark_runtimes
from calib8.engine.peak import machine_peak_gmacs
from calib8.engine.run import available_isas
from calib8.errors import ModelError

MACS = 16 * 16 * 4 * 3 * 9 + 14 * 14 * 6 * 4 * 9 + 5 * 6
RUNTIMES = ("calib8", "onnxruntime", "openvino")


@pytest.fixture(autouse=True)
def short_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "REST_SECONDS", 0.0)
    monkeypatch.setattr(benchmark, "VISIT_SECONDS", 0.0)


def test_every_runtime_with_every_number_of_threads(cli, int8: Path, out: Path) -> None:
    result = cli("benchmark", int8, "--threads", "1,2", "--batch", "3", "--rounds", "2", "--json", out / "b")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    document = load(out / "b")
    assert list(document) == ["results"]
    entries = document["results"]
    assert [(e["threads"], e["runtime"]) for e in entries] == [(n, r) for n in (1, 2) for r in RUNTIMES]
    for entry in entries:
        assert list(entry) == [
            "model", "runtime", "threads", "batch", "median_ms", "min_ms", "p95_ms", "gmacs"
        ]  # fmt: skip
        assert (entry["model"], entry["batch"]) == (str(int8), 3)
        assert 0 < entry["min_ms"] <= entry["median_ms"] <= entry["p95_ms"]
        assert math.isclose(entry["gmacs"], 3 * MACS / entry["min_ms"] * 1e-6)
    lines = [line.split() for line in result.stdout.strip().splitlines()]
    assert (
        " ".join(lines[0])
        == "model runtime threads batch median ms min ms p95 ms vs float vs others GMAC/s of peak"
    )
    for entry, line in zip(entries, lines[1:7], strict=True):
        assert line[:4] == [str(int8), entry["runtime"], str(entry["threads"]), "3"]
        assert line[4] == f"{entry['median_ms']:.3f}"
        same = [e["median_ms"] for e in entries if e["threads"] == entry["threads"] and e is not entry]
        assert line[7] == "–", "no float model is there"
        assert line[8] == f"{min(same) / entry['median_ms']:.2f}"
        assert line[11] == "%"
    even = [line for line in result.stdout.strip().splitlines() if "other work disturbed" not in line]
    for threads, first in (("1 thread", 8), ("2 threads", 12)):
        said = even[first : first + 4]
        of_these = [e["median_ms"] for e in entries if e["threads"] == int(threads[0])]
        assert said[0].startswith(f"{threads}, 3 samples a run: {int8} takes {min(of_these):.3f} ms in ")
        slower = sorted(of_these)[1:]
        assert [re.findall(r"([\d.]+) ×", line) for line in said[1:3]] == [
            [f"{one / min(of_these):.1f}"] for one in slower
        ]
        assert "give the float model too" in said[3]


@pytest.mark.slow
def test_models_run_where_they_can(cli, model: Path, int8: Path, saved: Path, out: Path) -> None:
    plan = int8.with_suffix(".c8")
    InferenceSession(int8).save(plan)
    flags = ("--threads", "1", "--rounds", "1", "--runtime", "onnxruntime,calib8", "--json", out / "b")
    result = cli("benchmark", model, int8, saved, plan, *flags)
    assert result.exit_code == 0, result.output
    assert [(e["model"], e["runtime"]) for e in load(out / "b")["results"]] == [
        (str(model), "onnxruntime"),
        (str(int8), "onnxruntime"),
        (str(int8), "calib8"),
        (str(saved), "calib8"),
        (str(plan), "calib8"),
    ]
    works = [e["gmacs"] * e["min_ms"] * 1e6 for e in load(out / "b")["results"]]
    assert works == pytest.approx([MACS] * 5)
    lines = result.stdout.strip().splitlines()
    row = lines[5].split()
    assert row[8] == "–", "nothing to compare with"
    times = {(e["model"], e["runtime"]): e["median_ms"] for e in load(out / "b")["results"]}
    assert row[7] == f"{times[str(model), 'onnxruntime'] / times[str(plan), 'calib8']:.2f}"
    assert f"1 thread: {plan} takes {times[str(plan), 'calib8']:.3f} ms in calib8" in lines
    ending = f"with the float model ({times[str(model), 'onnxruntime']:.3f} ms)"
    assert any(line.endswith(ending) for line in lines)  # a line on other work may follow


@pytest.mark.slow  # tests/analysis/test_speed.py has profiles too
def test_the_time_of_every_part(cli, int8: Path, out: Path) -> None:
    flags = ("--threads", "1,2", "--rounds", "1", "--runtime", "calib8", "--profile", "--json", out / "b")
    result = cli("benchmark", int8, *flags)
    assert result.exit_code == 0, result.output
    document = load(out / "b")
    assert len(document["results"]) == len(document["profiles"]) == 2
    for threads, found in enumerate(document["profiles"], start=1):
        assert (found["model"], found["threads"]) == (str(int8), threads)
        assert f"threads {threads}, {found['isa']} (" in result.stdout
        parts = found["parts"]
        assert math.isclose(sum(part["us"] * part["gmacs"] * 1e3 for part in parts), MACS)
        assert math.isclose(sum(part["us"] for part in parts), 1e3 * found["ms"])
        for part in parts:
            assert part["kind"] and part["steps"] >= 1 and part["name"] in result.stdout


def test_shares_are_of_the_fastest_instruction_set(
    cli, int8: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIB8_ISA", "reference")
    flags = ("--threads", "1", "--rounds", "1", "--runtime", "calib8", "--profile", "--json", out / "b")
    result = cli("benchmark", int8, *flags)
    assert result.exit_code == 0, result.output
    peak = f"{machine_peak_gmacs(1):.0f} GMAC/s"
    assert f"threads 1, reference (peak with {available_isas()[0]}: {peak}): " in result.stdout
    [found] = load(out / "b")["profiles"]
    part = max(found["parts"], key=lambda part: part["gmacs"])
    share = f"{100 * part['gmacs'] / machine_peak_gmacs(1):.1f} %"
    assert any(
        part["name"] in line and line.endswith(share) for line in map(str.rstrip, result.stdout.splitlines())
    )


def test_without_threads_one_and_all_cores(cli, int8: Path, out: Path) -> None:
    from calib8.processors import usable_cores

    flags = ("--rounds", "1", "--runtime", "onnxruntime", "--json", out / "b", "--quiet")
    result = cli("benchmark", int8, *flags)
    assert (result.exit_code, result.output) == (0, "")
    assert [e["threads"] for e in load(out / "b")["results"]] == sorted({1, usable_cores()})


@pytest.mark.slow
def test_shapes(cli, refused, int8: Path, out: Path) -> None:
    flags = ("--threads", "1", "--rounds", "1", "--runtime", "calib8", "--json", out / "b")
    result = cli("benchmark", int8, *flags, "--shape", "image=2,3,16,16")
    assert result.exit_code == 0, result.output
    assert load(out / "b")["results"][0]["batch"] == 2
    result = cli("benchmark", int8, *flags, "--shape", "image=2,4,16,16")
    refused(result, 2, "shape of 'image': 2×4×16×16 does not fit")
    result = cli("benchmark", int8, "--threads", "1", "--batch", "100000000")
    refused(
        result, 2, "'image: float32 100000000×3×16×16' has more than 2,147,483,647 elements. Give a smaller"
    )
    refused(cli("benchmark", int8, *flags, "--shape", "image"), 2, "--shape image: is not a name and sizes")


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("text", ["", "0", "1,", "one", "1;2", "-1", "1.5", "257", "²"])
def test_threads_that_are_no_numbers(cli, refused, int8: Path, out: Path, text: str) -> None:
    result = cli("benchmark", int8, "--threads", text, "--json", out / "b")
    refused(result, 2, f"--threads {text}: is not a list of numbers", "from 1 to 256")


@pytest.mark.usefixtures("nothing_left")
def test_options_that_mean_nothing(cli, refused, model: Path, int8: Path, saved: Path, out: Path) -> None:
    def run(*flags: object, path: Path = int8) -> Any:
        return cli("benchmark", path, *flags, "--json", out / "b")

    refused(run("--threads", "2,1,2"), 2, "--threads 2,1,2: names a number twice")
    refused(run("--batch", "0"), 2, "--batch 0: must be at least 1")
    refused(run("--rounds", "0"), 2, "--rounds 0: must be at least 1")
    refused(run("--runtime", "calib8,toaster"), 2, "unknown runtime 'toaster'", "openvino")
    refused(run("--runtime", "calib8,calib8"), 2, "names a runtime twice")
    refused(
        run("--runtime", "openvino", "--profile"),
        2,
        "--profile: shows the parts of a plan of calib8",
        "Add calib8",
    )
    refused(
        run("--profile", path=model), 2, f"--profile: shows the parts of a plan, but {model} runs in other"
    )
    refused(run("--runtime", "calib8", path=model), 1, f"{model}: is a float model", "Quantize it")
    refused(run("--runtime", "openvino", path=saved), 2, f"{saved} is a program", "Add the runtime calib8")
    refused(run("--batch", "2", path=saved), 2, "--batch 2: ", "image: float32 1×3×16×16")
    refused(cli("benchmark", out / "none.onnx"), 1, "none.onnx: no such file")
    refused(cli("benchmark", int8, "--json", int8), 2, "is the same file as an input")


@pytest.mark.usefixtures("nothing_left")
def test_a_runtime_that_is_not_installed(
    cli, refused, int8: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openvino", None)
    result = cli("benchmark", int8, "--runtime", "openvino", "--json", out / "b")
    refused(result, 2, "--runtime openvino: OpenVINO is not installed", "pip install")


def test_only_installed_runtimes_are_taken_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert benchmark_runtimes.installed_runtimes() == (*RUNTIMES, "litert")
    monkeypatch.setattr(benchmark_runtimes, "find_spec", lambda name: None if name == "openvino" else name)
    assert benchmark_runtimes.installed_runtimes() == ("calib8", "onnxruntime", "litert")


@pytest.mark.slow
def test_a_model_that_a_runtime_cannot_load(
    cli, refused, int8: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx.load(int8)
    model.graph.node[-1].domain = "nowhere"
    model.opset_import.append(onnx.helper.make_opsetid("nowhere", 1))
    broken = int8.with_name("broken.onnx")
    onnx.save(model, broken)
    for runtime, name in (("onnxruntime", "ONNX Runtime"), ("openvino", "OpenVINO")):
        result = cli("benchmark", broken, "--runtime", runtime, "--json", out / "b")
        refused(result, 1, f"{broken}: {name} cannot load it (")
    assert not (out / "b").exists()
    reason = f"{int8}: OpenVINO cannot load it (no such op). Leave it out."

    def fail(workload: object, threads: int) -> None:
        raise ModelError(str(int8), "OpenVINO cannot load it (no such op)", "Leave it out")

    monkeypatch.setitem(benchmark_runtimes.OPENERS, "openvino", fail)
    result = cli("benchmark", int8, "--threads", "1", "--rounds", "1", "--json", out / "b")
    assert result.exit_code == 0, result.output
    assert f"note: {reason}" in result.stdout
    assert [entry["runtime"] for entry in load(out / "b")["results"]] == ["calib8", "onnxruntime"]
    refused(cli("benchmark", int8, "--runtime", "openvino,calib8"), 1, reason)
