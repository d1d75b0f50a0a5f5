"""Tables of results: ratios, shares, and a page that needs no hand."""

from __future__ import annotations

from typing import Any

from results import comparison_rows, machine, page


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
