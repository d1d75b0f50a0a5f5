"""Tables of results: ratios, shares, and a page that needs no hand."""

from __future__ import annotations

from typing import Any

import pytest

from cold_start import COMMON, REPORT, cold_start_rows, started
from parts import part_rows
from results import comparison_rows, machine, page
from rounding import rounding_rows


def entry(runtime: str, minimum: float, median: float, threads: int = 1, **more: Any) -> dict[str, Any]:
    values = {"model": "resnet50", "batch": 1, "gmacs": 50.0, "p95_ms": 99.0}
    return {**values, "runtime": runtime, "threads": threads, "min_ms": minimum, "median_ms": median, **more}


def document(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"machine": {**machine([1]), "peak_gmacs": {"1": 200.0}}, "results": list(entries)}


def test_a_row_per_network_and_number_of_threads() -> None:
    rows = comparison_rows(
        document(
            entry("calib8", 2.0, 3.0),
            entry("onnxruntime", 6.0, 6.0),
            entry("openvino", 3.0, 7.5),
            entry("calib8", 1.0, 1.5, threads=2, gmacs=None),
            entry("openvino", 0.5, 0.75, threads=2),
        )
    )
    titles = "calib8 | ONNX Runtime | OpenVINO"
    assert rows[0] == f"| network | GMAC | threads | {titles} | ratio, fastest | ratio, median | of peak |"
    assert rows[2:] == [
        "| resnet50 | 4.09 | 1 | 2.00 (3.00) | 6.00 (6.00) | 3.00 (7.50) | 1.50 | 2.00 | 25 % |",
        "| resnet50 | 4.09 | 2 | 1.00 (1.50) | – | 0.50 (0.75) | 0.50 | 0.50 | – |",
    ]


def test_peers_alone_have_no_ratio() -> None:
    rows = comparison_rows(document(entry("openvino", 3.0, 3.5, batch=4)))
    assert rows[2] == "| resnet50 | 16.36 | 1 | 3.00 (3.50) | – | – | – |"


def test_the_page_tells_machine_and_versions() -> None:
    made = document(entry("calib8", 2.0, 3.0), entry("openvino", 3.0, 7.5))
    text = page(made)
    assert made["machine"]["processor"] in text
    assert "200 with 1" in text
    assert f"onnxruntime {made['machine']['versions']['onnxruntime']}" in text
    assert "\n".join(comparison_rows(made)) in text
    assert "## Networks, batch 1\n" in text


def test_what_profiles_cost_stands_beside_their_times() -> None:
    times = {"onnx": 2.0, "tflite": 3.0, "single": 2.1}
    made = {name: {"min_ms": ms, "median_ms": ms + 1} for name, ms in times.items()}
    rows = rounding_rows([{"model": "resnet50", "threads": 2, **made}])
    assert rows[0] == "| network | threads | onnx | tflite | single |"
    assert rows[2] == "| resnet50 | 2 | 2.00 (3.00) | 3.00 (4.00) +50 % | 2.10 (3.10) +5 % |"


def test_parts_tell_their_share_of_time_and_peak() -> None:
    parts = [
        {"name": "c", "kind": "conv", "steps": 1, "seconds": 3e-6, "macs": 3e5},
        {"name": "q", "kind": "quantize", "steps": 1, "seconds": 1e-6, "macs": 0.0},
    ]
    assert part_rows({"model": "resnet50", "parts": parts}, 200.0)[2:] == [
        "| c | conv | 3.0 | 75.0 | 100 | 50 % |",
        "| q | quantize | 1.0 | 25.0 | – | – |",
    ]


def test_processes_that_start() -> None:
    wall, cpu, memory = started(COMMON + "keep = np.ones(50_000_000, np.uint8)" + REPORT, "model", "plan")
    assert cpu > 0 and wall > 0 and memory > 50
    with pytest.raises(RuntimeError, match=r"ended with 3"):
        started("raise SystemExit(3)")
    row = {"what": "import numpy", "min_ms": 80.2, "median_ms": 90.7, "cpu_ms": 70.0, "peak_mb": 31.4}
    assert cold_start_rows([row])[2] == "| import numpy | 80 (91) | 70 | 31 |"


def test_each_section_is_there_that_was_measured() -> None:
    made = document(entry("calib8", 2.0, 3.0), entry("calib8", 9.0, 9.0, batch=8))
    text = page(made)
    assert "## Networks, batch 1\n" in text and "## Networks, batch 8\n" in text
    assert text.count("| resnet50 | ") == 2
    assert "Cold start" not in text and "## Rounding profiles" not in text
    row = {"what": "OpenVINO", "min_ms": 80.2, "median_ms": 90.7, "cpu_ms": 70.0, "peak_mb": 31.4}
    assert "## Cold start\n\n" in page({**made, "cold_start": [row]})
