"""Tables of what calibration costs: ratios to inference, columns by number of images, tools that gave up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from calibration import arguments, pythons, run_alone
from calibration_peers import Clock, Reader, images
from calibration_runs import block_time, kernels
from calibration_tables import command_rows, image_rows, kernel_rows, ratio_rows, search_rows, sections
from engine import joined


def run_of(tool: str, count: int, **more: Any) -> dict[str, Any]:
    figures = {"part_s": 1.5, "part_cpu_s": 2.5, "whole_s": 3.0, "whole_cpu_s": 4.0, "peak_mb": 1234.5}
    return {"network": "net", "tool": tool, "images": count, **figures, **more}


def test_a_column_per_number_of_images() -> None:
    records = [run_of("nncf", 50, peak_mb=99.6), run_of("nncf", 25), run_of("modelopt-max", 25, part_s=None)]
    assert image_rows(records, "part_s") == [
        "| network | tool | 25 images | 50 images |",
        "| --- | --- | --- | --- |",
        "| net | nncf | 1.50 (3.00) | 1.50 (3.00) |",
        "| net | modelopt-max | – (3.00) | – |",
    ]
    assert image_rows(records, "part_cpu_s")[2] == "| net | nncf | 2.50 (4.00) | 2.50 (4.00) |"
    assert image_rows(records, "peak_mb")[2] == "| net | nncf | 1,234 | 100 |"


def test_a_tool_that_gave_up_says_why() -> None:
    record = {"network": "net", "tool": "nncf", "images": 400, "failed": "over 14 GB"}
    assert image_rows([record], "peak_mb")[2] == "| net | nncf | over 14 GB |"


def test_gathering_is_compared_with_inference() -> None:
    def row(way: str, batch: int, ms: float) -> dict[str, Any]:
        return {"way": way, "batch": batch, "ms": ms, "median_ms": 2 * ms, "cpu_ms": ms}

    rows = [row("plain inference", 1, 2.0), row("plain inference", 4, 1.5), row("taps", 4, 2.5)]
    table = ratio_rows([{"network": "net", "elements": 5e6, "rows": rows}])
    assert table[3] == "| net | plain inference | 4 | 1.50 (3.00) | 0.75 | 0.75 | 0.75 | – |"
    assert table[4] == "| net | taps | 4 | 2.50 (5.00) | 1.25 | 1.25 | 1.25 | 0.20 |"


def test_the_command_is_compared_with_evaluation() -> None:
    base = {"network": "net", "images": 100, "process_s": 5.0, "cpu_s": 6.0, "peak_mb": 200.0}
    records = [
        {**base, "command": "evaluate", "wall_s": 4.0},
        {**base, "command": "calibrate", "wall_s": 5.0},
    ]
    assert command_rows(records)[3] == "| net | `calib8 calibrate` | 100 | 5.00 | 5.00 | 6.00 | 200 | 1.25 |"


def test_searches_and_sections_that_were_measured() -> None:
    found = {
        "per_tensor": [{"tensor": "normal", "code": "uint8", "bins": 3000, "ms": {"mse": 0.5}}],
        "network": [{"tensors": 200, "threads": 2, "wall_s": 1.25, "processor_s": 2.0}],
    }
    assert "| normal | uint8 | 0.500 |" in search_rows(found)
    texts = list(sections({"search": found}))
    assert len(texts) == 1 and texts[0].startswith("## Calibration: choosing ranges\n")
    assert "1.25 s, 2.00 s of processors" in texts[0]


def test_counting_is_timed_on_every_instruction_set() -> None:
    found = kernels(1)
    assert all(record["ns"] > 0 for record in found)
    assert len(kernel_rows(found)) == 2 + 6
    assert block_time(lambda feeds: None, [{}])[0] >= 0


def test_readers_give_all_images_again_and_again(tmp_path: Path) -> None:
    file = tmp_path / "images"
    file.write_bytes(bytes(3 * 3 * 224 * 224 * 4))
    reader = Reader(file, "x", 3)
    assert [sum(1 for _ in iter(reader.get_next, None)), reader.rewind()] == [3, None]
    assert reader.get_next() is not None
    assert [feeds["x"].shape[0] for feeds in images(file, "x", 3, 2)] == [2, 1]


def test_nested_calls_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(100))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(times)))
    clock = Clock()
    inner = clock.timed(lambda: None)
    clock.timed(lambda: inner())()
    assert clock.wall == 2.0  # four looks at the clock: the inner two are part of it


def test_processes_that_fail_or_take_too_long() -> None:
    assert run_alone([sys.executable, "-c", "print('{\"a\": 1}')"], 600, None) == {"a": 1}
    assert run_alone([sys.executable, "-c", "raise SystemExit('broken')"], 600, None) == {"failed": "broken"}
    assert (
        run_alone([sys.executable, "-c", "import time; time.sleep(6000)"], 0.5, None)["failed"] == "over 0 s"
    )
    large = "b = bytearray(2**33)"
    assert run_alone([sys.executable, "-c", large], 600, 2) == {"failed": "over 2 GB"}


def test_tools_need_a_python(capsys: pytest.CaptureFixture[str]) -> None:
    found = pythons(["plain", "nncf", "modelopt-max"], ["nncf=/else/python", "modelopt=/other/python"])
    assert found == {"plain": sys.executable, "nncf": "/else/python", "modelopt-max": "/other/python"}
    with pytest.raises(SystemExit):
        arguments(["data", "--tools", "nothing"])
    assert "unknown nothing" in capsys.readouterr().err


def test_measurements_of_several_runs_are_joined(tmp_path: Path) -> None:
    parts = [{"images": [run_of("plain", 25)]}, {"kernels": []}, {"images": [run_of("nncf", 25)]}]
    files = [tmp_path / f"{index}.json" for index in range(len(parts))]
    for file, found in zip(files, parts, strict=True):
        document = {"machine": {"processor": "one"}, "results": [], "calibration": found}
        file.write_text(json.dumps(document))
    made = joined(files)["calibration"]
    assert [record["tool"] for record in made["images"]] == ["plain", "nncf"]
    assert made["kernels"] == []
