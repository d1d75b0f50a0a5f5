"""What it costs to start: a process that imports a runtime, loads ResNet-50 and runs it once.

"The model again" finds the plan that an earlier process kept in the cache folder.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calib8 import InferenceSession
from quantized import quantized

NETWORK = "resnet50"

COMMON = """
import sys
import numpy as np
model, plan = sys.argv[1:]
feeds = {"input": np.zeros((1, 3, 224, 224), np.float32)}
"""
"""What all of the processes do first …"""

REPORT = """
with open("/proc/self/status") as lines:
    print(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
"""
"""… and last: the most memory that was theirs, in KiB. What ``wait4`` tells includes the process before."""

PROCESSES: Mapping[str, str] = {
    "import numpy": "",
    "calib8, a plan": """
from calib8 import InferenceSession
InferenceSession(plan).run(None, feeds)
""",
    "calib8, the model": """
import os
os.environ["CALIB8_CACHE"] = "off"
from calib8 import InferenceSession
InferenceSession(model).run(None, feeds)
""",
    "calib8, the model again": """
from calib8 import InferenceSession
InferenceSession(model).run(None, feeds)
""",
    "ONNX Runtime": """
import onnxruntime
onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
""",
    "OpenVINO": """
import openvino
core = openvino.Core()
network = core.read_model(model)
network.reshape([1, 3, 224, 224])
compiled = core.compile_model(network, "CPU", {"PERFORMANCE_HINT": "LATENCY"})
compiled.create_infer_request().infer(feeds)
""",
}
"""What → Python that does it."""


def cold_starts(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Wall time, processor time and peak memory of each process, in turns."""
    model = quantized(NETWORK, folder)
    plan = folder / f"{NETWORK}.c8"
    InferenceSession(model).save(plan)
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in PROCESSES}
    for _ in range(rounds + 1):
        for name, code in PROCESSES.items():
            found[name].append(started(COMMON + code + REPORT, str(model), str(plan)))
    return [{"what": name, **summary(times[1:])} for name, times in found.items()]


def started(
    code: str, *arguments: str, environment: Mapping[str, str] = os.environ
) -> tuple[float, float, float]:
    """Seconds on the clock, seconds of processor, and MB of peak memory of a process of Python."""
    environment = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as printed:
        kibibytes = printed.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the process ended with {process.returncode}:\n{code}")
    return seconds, usage.ru_utime + usage.ru_stime, int(kibibytes) * 1024e-6


def summary(times: Sequence[tuple[float, float, float]]) -> dict[str, float]:
    """Of times of ``started``: fastest and median on the clock, least of the processor, median peak."""
    wall, cpu, memory = zip(*times, strict=True)
    return {
        "min_ms": 1e3 * min(wall),
        "median_ms": 1e3 * statistics.median(wall),
        "cpu_ms": 1e3 * min(cpu),
        "peak_mb": statistics.median(memory),
    }


def cold_start_rows(entries: Sequence[dict[str, Any]]) -> list[str]:
    """A table: a line per process."""
    rows = ["| process | ms | of processor, ms | peak memory, MB |", "|---|---|---|---|"]
    for entry in entries:
        times = f"{entry['min_ms']:.0f} ({entry['median_ms']:.0f}) | {entry['cpu_ms']:.0f}"
        rows.append(f"| {entry['what']} | {times} | {entry['peak_mb']:.0f} |")
    return rows
