"""What ``doctor`` finds on a machine: on this one, on made-up ones, and with packages that are broken."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

import calib8
from calib8 import _core, processors
from calib8.analysis.asked_apart import IMPORT, ask
from calib8.analysis.cpu_limits import Processor, processor_here
from calib8.analysis.doctor import doctor
from calib8.analysis.environment import Environment, Kernels
from calib8.analysis.environment_findings import TEST_VARIABLES, VARIABLES, findings_of
from calib8.analysis.required_packages import ADDS, Extra, Package, required_packages
from calib8.parameters import Text, on_command_line
from calib8.processors import MOST_THREADS, cpu_quota, default_threads, usable_cores

ROOT = Path(__file__).parents[2]
DOCKER = "/docker/0123"


@pytest.fixture(scope="module")
def here() -> Environment:
    """Of this machine; asked once."""
    return doctor()


def machine(folder: Path, files: dict[str, str]) -> Path:
    """A folder that looks like the root of a system."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        # a service inside a slice: the smaller limit counts, wherever it stands
        (
            {
                "proc/self/cgroup": "0::/a.slice/b.service\n",
                "sys/fs/cgroup/a.slice/cpu.max": "50000 100000\n",
                "sys/fs/cgroup/a.slice/b.service/cpu.max": "400000 100000\n",
            },
            0.5,
        ),
        # version 1: a container sees its own group at the top, and the path of the host beside it
        (
            {
                "proc/self/cgroup": f"3:memory:{DOCKER}\n2:cpu,cpuacct:{DOCKER}\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/cpu.cfs_quota_us": "1\n",
                "sys/fs/cgroup/memory/cpu.cfs_period_us": "100000\n",
            },
            2.5,
        ),
        (
            {
                "proc/self/cgroup": f"2:cpu:{DOCKER}\n",
                f"sys/fs/cgroup/cpu{DOCKER}/cpu.cfs_quota_us": "-1\n",
                f"sys/fs/cgroup/cpu{DOCKER}/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/self/cgroup": "0::/../..\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2.0),
        ({"proc/self/cgroup": "nonsense\n", "sys/fs/cgroup/cpu.max": "x y z\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100 0\n"}, None),
    ],
)
def test_the_quota_of_control_groups(tmp_path: Path, files: dict[str, str], cores: float | None) -> None:
    assert cpu_quota(machine(tmp_path, files)) == cores


@pytest.mark.parametrize(
    ("allowed", "files", "threads"),
    [
        (64, {}, 64),
        (64, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        (64, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        (64, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 64),
        (64, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1000 100000\n"}, 1),
        (4, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "900000 100000\n"}, 4),
        (
            64,
            {
                "proc/self/cgroup": f"2:cpu,cpuacct:{DOCKER}\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
    ],
)
def test_as_many_threads_as_a_quota_keeps_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: int, files: dict[str, str], threads: int
) -> None:
    monkeypatch.setattr(processors, "allowed_cores", lambda: allowed)
    root = machine(tmp_path, files)
    assert usable_cores(root) == threads
    assert replace(processor_here(root), usable=allowed).threads == threads


def test_a_quota_of_whole_cores_is_obeyed_and_nothing_to_tell_of(here: Environment) -> None:
    fine = clean(here)
    assert findings_of(limited_to(fine, 12.0)) == ()


def test_the_processor_has_the_name_that_the_system_gives_it(tmp_path: Path) -> None:
    text = "processor : 0\nmodel name\t: Some CPU @ 2.0 GHz\nprocessor : 1\nmodel name\t: Another\n"
    assert processor_here(machine(tmp_path, {"proc/cpuinfo": text})).name == "Some CPU @ 2.0 GHz"
    assert processor_here(tmp_path / "none").name  # not empty where the system gives none


def test_what_limits_a_processor() -> None:
    whole = Processor("CPU", "x86_64", 8, 8, None)
    assert whole.limits == ()
    assert "affinity" in replace(whole, usable=2).limits[0]
    assert "quota" in replace(whole, quota=1.5).limits[0]
    assert replace(whole, quota=16.0).limits == ()
    assert len(replace(whole, usable=2, quota=1.0).limits) == 2


@pytest.mark.parametrize(
    ("needed", "version", "older"),
    [
        (">=1.24", "1.23.9", True), (">=1.24", "1.24", False), (">=1.24", "1.24.0rc1", False),
        (">=1.24", "2", False), (">=1.24", "1.100", False), (">=2025.0", "2025", False),
        ("==2.13.0", "2.12.1+cpu", True), ("==2.13.0", "2.13.0+cpu", False), ("<3,>=2.1", "2.0", True),
        ("", "0", False), (">=1.24", None, False), (">=1.24", "unknown", True),
    ],
)  # fmt: skip
def test_a_package_is_older_than_needed(needed: str, version: str | None, older: bool) -> None:
    assert Package("p", needed, version).older == older


def test_requirements_are_those_of_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["numpy>=1.24", "Some.Thing (>=2,<3)", 'plotly>=6; extra == "report"', "bare",
             "torch[cpu]==2.0 ; python_version > '3' and extra == 'qat'"]  # fmt: skip
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: lines)
    always, extras = required_packages()
    assert [(one.name, one.needed) for one in always] == [
        ("Some.Thing", ">=2,<3"), ("bare", ""), ("numpy", ">=1.24")
    ]  # fmt: skip
    assert [(one.name, [p.name for p in one.packages]) for one in extras] == [
        ("qat", ["torch"]), ("report", ["plotly"])
    ]  # fmt: skip
    assert always[2].version == importlib.metadata.version("numpy") and always[0].version is None


def test_broken_metadata_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> list[str]:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text")

    monkeypatch.setattr(importlib.metadata, "requires", broken)
    monkeypatch.setattr(importlib.metadata, "version", broken)
    assert required_packages() == ((), ())


def test_every_extra_says_what_it_adds() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    assert set(re.findall(r"^([\w-]+) = \[", table, re.MULTILINE)) == set(ADDS)


def test_modules_that_break_their_process_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "crashing.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "ending.py").write_text("import os\nprint('calib8 answers no', end='')\nos._exit(3)\n")
    (tmp_path / "failing.py").write_text("raise RuntimeError('old\\nABI')\n")
    (tmp_path / "fine.py").write_text("print('hello')\n__version__ = '1.2'\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = ("crashing", "leaving", "fine", "ending", "failing", "no_such_module")
    answers = ask([IMPORT + name for name in names])
    told = {name: (answers[IMPORT + name].value, str(answers[IMPORT + name].problem)) for name in names}
    assert told == {
        "crashing": (None, "ends the process (SIGILL)"),
        "leaving": (None, "SystemExit: 3"),
        "fine": ("1.2", ""),
        "ending": (None, "ends the process (exit code 3)"),
        "failing": (None, "RuntimeError: old ABI"),
        "no_such_module": (None, "ModuleNotFoundError: No module named 'no_such_module'"),
    }


def test_without_python_to_ask_there_are_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert "cannot be started" in ask(["engine"])["engine"].problem


def test_this_machine(here: Environment) -> None:
    assert here.calib8 == calib8.__version__ == importlib.metadata.version("calib8")
    assert here.processor.cores == os.cpu_count()
    assert here.engine.available == tuple(_core.engine.available_isas())
    assert here.counting.available == tuple(_core.available_isas())
    assert (here.engine.used, here.counting.used) == (_core.engine.isa(), _core.isa())
    assert here.runtime.version and "CPUExecutionProvider" in here.runtime.providers
    assert here.broken == {} and not any(package.older for package in here.packages)
    numpy = next(package for package in here.packages if package.name == "numpy")
    assert numpy.version == importlib.metadata.version("numpy")
    with pytest.raises(FrozenInstanceError):
        here.python = "4"  # type: ignore[misc]


def test_it_prints_itself(here: Environment) -> None:
    assert re.fullmatch(
        rf"<Environment: calib8 {re.escape(calib8.__version__)}, Python .*, engine \w+, \d+ cores, "
        r"\d+ findings?>",
        repr(here),
    )
    lines = here.summary().splitlines()
    assert lines[0].split() == ["calib8", calib8.__version__]
    assert any(line.split()[:1] == ["numpy"] for line in lines)
    missing = replace(here, extras=(Extra("report", "charts", (Package("plotly", ">=6", None),)),))
    assert 'without plotly: pip install "calib8[report]"' in missing.summary()


def test_metadata_without_requirements_are_a_finding(here: Environment) -> None:
    [finding] = findings_of(replace(clean(here), packages=()))
    assert finding.subject == "calib8" and "incomplete" in finding.problem and "anew" in finding.cure
    none = replace(clean(here), packages=(), calib8=None)
    assert [one.problem for one in findings_of(none)] == [
        "has no package metadata, so nothing is known of what it needs"
    ]


def test_the_package_does_without_metadata(here: Environment) -> None:
    [finding] = findings_of(replace(clean(here), calib8=None))
    assert finding.subject == "calib8" and "metadata" in finding.problem


def clean(here: Environment) -> Environment:
    """A machine with which nothing is wrong."""
    kernels = Kernels(("avx2", "reference"), "avx2", "the fastest", Text(""))
    made = replace(
        here, calib8="1", processor=Processor("CPU", "x86_64", 64, 64, None), counting=kernels,
        engine=kernels,
        runtime=replace(here.runtime, saturates=False, packages=("onnxruntime",)), broken={}, variables={},
        packages=(Package("onnx", ">=1.17", "1.18"),), extras=(), cache=replace(here.cache, problem=""),
    )  # fmt: skip
    assert findings_of(made) == ()
    return made


def limited_to(found: Environment, quota: float) -> Environment:
    """The same machine, in a container that may use so many cores' worth of time."""
    return replace(found, processor=replace(found.processor, quota=quota))


def test_every_finding_has_a_cure(here: Environment) -> None:
    fine = clean(here)
    plain = replace(fine.engine, available=("reference",), used="reference")
    forced = replace(fine.engine, used="reference")
    refused = Kernels((), "", "", Text("CALIB8_ISA=sse9: is unknown"))

    def limited(quota: float) -> Environment:
        return replace(fine, processor=replace(fine.processor, quota=quota))

    cases: list[tuple[Environment, str, str]] = [
        (limited(1.5), "1.5 cores' worth of time for 2 threads", "--threads 1,"),
        (limited(0.5), "for 1 thread: a run stops", "Raise the limit"),
        (limited(12.5), "time for 13 threads", "--threads 12,"),
        (replace(fine, engine=plain), "engine: there are only plain loops", "AVX2"),
        (replace(fine, counting=forced, variables={"CALIB8_ISA": "reference"}),
         "counting: runs with reference, because CALIB8_ISA is set", "Unset it"),
        (replace(fine, engine=refused, variables={"CALIB8_ISA": "sse9"}), "=sse9", "Unset CALIB8_ISA"),
        (replace(fine, engine=Kernels((), "", "", Text("no _core"))), "no _core", "Install calib8"),
        (replace(fine, runtime=replace(fine.runtime, packages=("onnxruntime", "onnxruntime-gpu"))),
         "onnxruntime and onnxruntime-gpu", "pip uninstall onnxruntime onnxruntime-gpu"),
        (replace(fine, runtime=replace(fine.runtime, saturates=True)), "no VNNI", "onnxruntime-avx2"),
        (replace(fine, packages=(Package("onnx", ">=1.17", "1.16"),)),
         "onnx: version 1.16 is older than calib8 needs (>=1.17)", 'pip install -U "onnx>=1.17"'),
        (replace(fine, extras=(Extra("report", "", (Package("plotly", ">=6", "5.1"),)),)),
         "plotly: version 5.1", 'pip install -U "plotly>=6"'),
        (replace(fine, packages=(Package("onnx", ">=1.17", None),),
                 broken={"onnx": Text("ModuleNotFoundError: No module named 'onnx'")}),
         "onnx: is not installed", 'pip install "onnx>=1.17"'),
        (replace(fine, packages=(Package("onnx", ">=1.17", None),)),
         "onnx: can be imported, but nothing says which version", 'pip install "onnx>=1.17"'),
        (replace(fine, broken={"onnx": Text("ends the process (SIGILL)")}),
         "onnx: cannot be imported: ends the process (SIGILL)", "pip uninstall onnx, then"),
        (replace(fine, cache=replace(fine.cache, problem="/x cannot be written to")),
         "plan cache: /x cannot", "CALIB8_CACHE"),
        (replace(fine, variables={"CALIB8_CAHCE": "/x"}), "CALIB8_CAHCE: is no variable", "'CALIB8_CACHE'"),
    ]  # fmt: skip
    for found, problem, cure in cases:
        [finding] = findings_of(found)
        line = on_command_line(finding.text)
        assert problem in line and cure in on_command_line(finding.cure), line
        assert line in on_command_line(replace(found, findings=(finding,)).summary())


def test_in_python_the_cure_names_the_keyword(here: Environment) -> None:
    fine = clean(here)
    [finding] = findings_of(limited_to(fine, 3.5))
    assert "Give threads=3," in finding.text


def test_the_variables_are_those_that_are_read() -> None:
    reading = re.compile(
        r"""(?:getenv|environ\.get|environ\[)\W{1,3}(CALIB8_\w+)|: Final = "(CALIB8_[A-Z_]+)\""""
    )
    texts = [
        path.read_text(encoding="utf-8")
        for place, kinds in (("src", ("*.py",)), ("csrc", ("*.cc", "*.h")))
        for kind in kinds
        for path in (ROOT / place).rglob(kind)
    ]
    read = {name for text in texts for pair in reading.findall(text) for name in pair if name}
    assert {*read} <= {*VARIABLES}
    assert {"CALIB8_CPU", "CALIB8_CACHE", "CALIB8_TRACEBACK"} <= read
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert all(name in tests for name in TEST_VARIABLES)


def test_a_broken_numpy_does_not_break_it(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise RuntimeError('another ABI')\n")
    code = "import calib8; found = calib8.doctor(); print(found.broken['numpy'], found.summary(), sep='\\n')"
    places = os.pathsep.join([str(tmp_path), *(place for place in sys.path if place)])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": places}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("RuntimeError: another ABI\n")
    assert "- numpy: cannot be imported: RuntimeError: another ABI. Run pip uninstall numpy" in done.stdout


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"CALIB8_CACHE": "off"}, "none: switched off by CALIB8_CACHE"),
        ({"CALIB8_CACHE": "FILE/below"}, "FILE is no folder"),
        ({"CALIB8_CACHE": "new/folder", "CALIB8_CACHE_MB": "7"}, "0 files, 0.0 of at most 7 MB"),
        ({"CALIB8_CACHE": "kept", "CALIB8_CACHE_MB": "x"}, "CALIB8_CACHE_MB=x is not a number"),
        ({"CALIB8_CACHE": "kept"}, "1 file, 2.0 of at most 1000 MB"),
    ],
)
def test_the_cache_of_plans(
    monkeypatch: pytest.MonkeyPatch, here: Environment, tmp_path: Path, variables: dict[str, str], told: str
) -> None:
    from calib8.analysis.plan_cache import plan_cache

    (tmp_path / "FILE").write_text("no folder")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / f"{'0' * 64}-{'0' * 16}.c8").write_bytes(bytes(2_000_000))
    (tmp_path / "kept" / "of somebody else").write_bytes(bytes(3_000_000))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CALIB8_CACHE_MB", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = replace(clean(here), cache=plan_cache())
    text = replace(found, findings=findings_of(found)).summary()
    assert told in text
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (256, 256), (384, MOST_THREADS)])
def test_no_more_threads_by_default_than_calib8_takes(
    monkeypatch: pytest.MonkeyPatch, cores: int, threads: int
) -> None:
    monkeypatch.setattr(processors, "usable_cores", lambda: cores)
    assert default_threads() == threads
