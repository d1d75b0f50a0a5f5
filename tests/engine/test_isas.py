"""One variable forces the sets of the engine and of the statistics kernel, and the forced ones run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from example_programs import EXAMPLES

from bits import ISAS
from calib8 import _core
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine

CONVOLUTION = EXAMPLES["Conv", "onnx"]
COUNTS = {"avx512vnni": ("avx512", "avx2"), "avxvnni": ("avx2",), "neondot": ("reference",)}
"""Set of the engine → sets that count beside it, best first."""

BOTH = """
from calib8 import _core
from calib8.calibration.statistics import counting_isa
print(_core.engine.isa(), counting_isa())
"""


def run_python(code: str, isa: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "CALIB8_ISA"}
    if isa is not None:
        environment["CALIB8_ISA"] = isa
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def counting(isa: str) -> str:
    counters = _core.available_isas()
    return next(name for name in (isa, *COUNTS.get(isa, ())) if name in counters)


@pytest.mark.parametrize("isa", ISAS)
def test_one_variable_forces_both(isa: str) -> None:
    result = run_python(BOTH, isa)
    assert result.stdout.split() == [isa, counting(isa)], result.stderr


@pytest.mark.parametrize("counter", _core.available_isas())
def test_names_of_the_statistics_kernel_force_both_too(counter: str) -> None:
    engine = next(name for name in ISAS if counting(name) == counter)
    assert run_python(BOTH, counter).stdout.split() == [engine, counter]


def test_the_fastest_set_is_the_default() -> None:
    assert ISAS[-1] == "reference"
    for unset in (None, ""):
        assert run_python(BOTH, unset).stdout.split()[0] == ISAS[0]


FLAGS = {
    "avx512vnni": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx2", "fma"},
    "avxvnni": {"avx_vnni", "avx2", "fma"},
    "avx2": {"avx2", "fma"},
    "neondot": {"asimddp"},
    "reference": set(),
}
"""Set → what Linux calls the instructions that it needs."""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists what a processor has in /proc/cpuinfo")
def test_no_set_is_missing_that_the_processor_has() -> None:
    words = set(Path("/proc/cpuinfo").read_text().split())
    assert tuple(name for name, flags in FLAGS.items() if flags <= words) == ISAS


def test_unknown_and_missing_sets_are_refused_with_the_list() -> None:
    missing = {"avxvnni", "avx512vnni", "neondot", "sse9"}.difference(ISAS)
    assert missing
    for name in missing:
        with pytest.raises(ValueError, match=f"'{name}' is unknown or not available.*{', '.join(ISAS)}"):
            _core.engine.kernel_origins(name)
        with pytest.raises(ValueError, match=name):
            Engine(compile_program(CONVOLUTION), isa=name)
    result = run_python(BOTH, "sse9")
    assert result.returncode != 0 and "'sse9'" in result.stderr and "reference" in result.stderr


@pytest.mark.parametrize("isa", ISAS)
def test_every_kernel_comes_from_the_set_or_one_below(isa: str) -> None:
    origins = _core.engine.kernel_origins(isa)
    assert sorted(origins) == sorted(_core.engine.schemas())
    assert set(origins.values()) <= set(ISAS[ISAS.index(isa) :])
    assert origins["conv"] == isa


@pytest.mark.parametrize("isa", ISAS)
def test_an_engine_runs_the_kernels_of_its_set(isa: str) -> None:
    plan = compile_program(CONVOLUTION)
    engine = Engine(plan, isa=isa)
    assert engine.isa == isa
    table = _core.engine.kernel_origins(isa)
    assert engine._native.origins == [table[row.opcode] for row in plan.rows]


def test_forcing_is_seen_by_a_session_without_a_choice() -> None:
    code = """
import sys
sys.path[:0] = ["tests/engine", "tests/program"]
from example_programs import EXAMPLES
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
engine = Engine(compile_program(EXAMPLES["Conv", "onnx"]))
print(engine.isa, *engine._native.origins)
"""
    for isa in ISAS:
        result = run_python(code, isa)
        name, *origins = result.stdout.split()
        assert name == isa, result.stderr
        assert isa in origins
