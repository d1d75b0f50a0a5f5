"""One variable forces the sets of the engine and of the statistics kernel, and the forced ones run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from example_programs import EXAMPLES

from bits import ISAS
from calib8 import _core
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from processors import NAMES, PROCESSORS, Processor

CONVOLUTION = EXAMPLES["Conv", "onnx"]
BOTH = """
from calib8 import _core
from calib8.calibration.statistics import counting_isa
print(_core.engine.isa(), counting_isa())
"""


def run_python(code: str, isa: str | None = None, cpu: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "CALIB8_ISA"}
    changes = {"CALIB8_ISA": isa, "CALIB8_CPU": cpu}
    environment.update({name: value for name, value in changes.items() if value is not None})
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


def choice(features: Sequence[str], name: str = "") -> tuple[str, str]:
    """Sets of the engine and of the statistics."""
    return _core.engine.chosen_isa(features, name), _core.chosen_isa(features, name)


@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda processor: processor.name)
def test_the_choice_on_a_processor(processor: Processor) -> None:
    """Without its instructions: only the names are chosen."""
    assert _core.engine.available_isas(processor.features) == list(processor.engine)
    assert _core.available_isas(processor.features) == list(processor.counting)
    assert choice(processor.features) == (processor.engine[0], processor.counting[0])
    assert _core.cpu_type(processor.features) == processor.cpu_type
    for name in NAMES:
        if name in processor.forced:
            assert choice(processor.features, name) == processor.forced[name], name
            continue
        for chosen_isa, known in (
            (_core.engine.chosen_isa, processor.engine),
            (_core.chosen_isa, processor.counting),
        ):
            with pytest.raises(ValueError, match=f"'{name}' is unknown or .*, which has {', '.join(known)}$"):
                chosen_isa(processor.features, name)


SEEN = """
from calib8 import _core
from calib8.calibration.statistics import counting_isa
from calib8.engine.run import available_isas, default_isa
print(*_core.features())
print(default_isa(), counting_isa(), _core.cpu_type(), sep=";")
print(*available_isas(), ";", *_core.available_isas())
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda processor: processor.name)
def test_a_process_sees_no_more_than_it_is_told(processor: Processor) -> None:
    """And no more than there is, whatever it is told."""
    told = run_python(SEEN, cpu=processor.cpuinfo)
    features, chosen, sets = told.stdout.splitlines()
    both = [name for name in _core.processor_features() if name in processor.features]
    assert features.split() == both, told.stderr
    assert chosen.split(";") == [*choice(both), _core.cpu_type()]
    assert sets.split(" ; ") == [" ".join(module.available_isas(both)) for module in (_core.engine, _core)]
    if set(processor.features) <= set(_core.processor_features()):
        assert chosen.split(";")[:2] == [processor.engine[0], processor.counting[0]]
    for name in processor.engine:
        if name not in _core.engine.available_isas(both):
            refused = run_python(SEEN, name, processor.cpuinfo)
            assert refused.returncode != 0 and f"UsageError: CALIB8_ISA={name}" in refused.stderr


def test_words_that_mean_nothing_leave_the_plain_loops() -> None:
    features, chosen, _ = run_python(SEEN, cpu="none").stdout.splitlines()
    assert features == "" and chosen.split(";")[:2] == ["reference", "reference"]
    everything = run_python(SEEN, cpu="").stdout.splitlines()
    assert everything[0].split() == _core.processor_features()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", sorted({*ISAS, *_core.available_isas()}))
def test_one_variable_forces_both(name: str) -> None:
    result = run_python(BOTH, name)
    assert result.stdout.split() == list(choice(_core.features(), name)), result.stderr


def test_the_fastest_set_is_the_default() -> None:
    assert ISAS[-1] == "reference"
    for unset in (None, ""):
        assert run_python(BOTH, unset).stdout.split()[0] == ISAS[0]


AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx2", "fma"}
FLAGS = {
    "amx": {"amx_tile", "amx_int8", *AVX512},
    "avx512vnni": AVX512,
    "avxvnni": {"avx_vnni", "avx2", "fma"},
    "avx2": {"avx2", "fma"},
    "neoni8mm": {"asimd", "asimddp", "i8mm"},
    "neondot": {"asimd", "asimddp"},
    "neon": {"asimd"},
    "reference": set(),
}
"""Set → what Linux calls the instructions that it needs."""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists what a processor has in /proc/cpuinfo")
def test_no_set_is_missing_that_the_processor_has() -> None:
    words = set(Path("/proc/cpuinfo").read_text().split())
    features = _core.processor_features()
    assert set(features) == words & {name for processor in PROCESSORS for name in processor.features}
    found = _core.engine.available_isas(features)
    assert [name for name, flags in FLAGS.items() if flags <= words] == found


def test_unknown_and_missing_sets_are_refused_with_the_list() -> None:
    missing = {"amx", "avxvnni", "avx512vnni", "neoni8mm", "neondot", "neon", "sse9"}.difference(ISAS)
    assert missing
    for name in missing:
        with pytest.raises(ValueError, match=f"'{name}' is unknown or not available.*{', '.join(ISAS)}"):
            _core.engine.kernel_origins(name)
        with pytest.raises(ValueError, match=name):
            Engine(compile_program(CONVOLUTION), isa=name)
    result = run_python(BOTH, "sse9")
    assert result.returncode != 0 and "'sse9'" in result.stderr and "reference" in result.stderr


SMALL_STACK = """
import ctypes
from calib8 import _core
class Stack(ctypes.Structure):
    _fields_ = [("memory", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(8192)
small = Stack(ctypes.addressof(memory), 0, 8192)
before = WHEN == "before" and ctypes.CDLL(None).sigaltstack(ctypes.byref(small), None)
isas = _core.engine.available_isas()
after = WHEN == "after" and ctypes.CDLL(None).sigaltstack(ctypes.byref(small), None)
print(before + 0, after + 0, *isas)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone gives tiles to processes that ask for them")
def test_a_small_stack_for_signals_stays_possible() -> None:
    """Tiles are not asked for where they are hidden, and not there where such a stack came first."""
    before = run_python(SMALL_STACK.replace("WHEN", "'before'"))
    assert before.returncode == 0 and before.stdout.split()[0] == "0"
    assert "amx" not in before.stdout.split()
    hidden = run_python(SMALL_STACK.replace("WHEN", "'after'"), cpu="avx2 fma")
    assert hidden.returncode == 0 and hidden.stdout.split()[:2] == ["0", "0"]


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
