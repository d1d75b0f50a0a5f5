"""Tables of results: ratios, shares, and a page that needs no hand."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import other_processors
from cold_start import COMMON, REPORT, cold_start_rows, started
from parts import part_rows
from results import comparison_rows, machine, page, processor
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


def test_processors_of_one_name_are_told_apart(tmp_path: Path) -> None:
    lines = "cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nstepping\t: 1\n"
    (tmp_path / "cpuinfo").write_text(f"{lines}\n{lines.replace('17', '18')}")
    assert processor(tmp_path / "cpuinfo") == "AMD EPYC (family 25, model 17)"
    (tmp_path / "arm").write_text("model name\t: ARM\nprocessor\t: 0\n")
    assert processor(tmp_path / "arm") == "ARM"
    assert processor(tmp_path / "none") and processor(Path("/proc/self/status"))


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


def test_sections_that_were_not_measured_stay_where_they_are() -> None:
    made = document(entry("calib8", 2.0, 3.0))
    row = {"what": "OpenVINO", "min_ms": 80.2, "median_ms": 90.7, "cpu_ms": 70.0, "peak_mb": 31.4}
    before = page({**document(entry("calib8", 9.0, 9.0)), "cold_start": [row]})
    before = before.replace("## Cold start\n", "## Accuracy\n\n### Of one\n\nA figure.\n\n## Cold start\n")
    now = page(made, before)
    titles = [line for line in now.splitlines() if line.startswith("#")]
    assert titles == [
        "# Results", "## Machine", "## Networks, batch 1", "### Not ahead", "## Accuracy", "### Of one",
        "## Cold start", "## Measuring again",
    ]  # fmt: skip
    assert "2.00 (3.00)" in now and "9.00" not in now
    assert page(made, now) == now and page(made, page(made)) == page(made)


def test_what_is_not_ahead_stands_below_its_table() -> None:
    pairs = (("behind", 1.02), ("ahead", 1.03))
    entries = [
        entry(runtime, ms, ms, model=name)
        for name, ratio in pairs
        for runtime, ms in (("calib8", 1.0), ("openvino", ratio))
    ]
    table = page(document(*entries)).split("### Not ahead")[1]
    assert "| behind | " in table and "| ahead | " not in table
    assert "\nNone.\n" in page(document(*entries[2:]))


def test_figures_of_the_first_processor_beside_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, new = tmp_path / "results.md", tmp_path / "new.json"
    new.write_text(json.dumps(document(entry("calib8", 1.0, 1.0), entry("openvino", 1.5, 2.0))))
    eight = entry("calib8", 9.0, 9.0, batch=8)
    file.write_text(page(document(entry("calib8", 2.0, 2.0), entry("openvino", 2.0, 3.0), eight)))
    monkeypatch.setattr(sys, "argv", ["other_processors.py", "--page", str(file)])
    with pytest.raises(SystemExit):
        other_processors.main()
    assert "has no section of another processor" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["other_processors.py", str(new), "--page", str(file)])
    other_processors.main()
    assert "| 1.50 | 2.00 | 25 % | 1.50 | 25 % |" in file.read_text()
    changed = document(entry("calib8", 4.0, 4.0, gmacs=20.0), entry("openvino", 2.0, 2.0), eight)
    file.write_text(page(changed, file.read_text()))
    monkeypatch.setattr(sys, "argv", ["other_processors.py", "--page", str(file)])
    other_processors.main()
    once = file.read_text()
    assert "| 1.50 | 2.00 | 25 % | 0.50 | 10 % |" in once
    other_processors.main()
    assert file.read_text() == once
    monkeypatch.setattr(sys, "argv", [*sys.argv, str(new), "--which", "third"])
    other_processors.main()
    second, third = re.split("## A third processor", file.read_text())
    assert second in once and "| 1.50 | 2.00 | 25 % | 0.50 | 10 % |" in third
