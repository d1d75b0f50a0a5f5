"""Networks beside other runtimes: how differences are counted, and how they are told."""

from __future__ import annotations

from typing import Any

import numpy as np

from same_bits_tables import apart_text, cells, page, rows

EQUAL = {"values": 300, "differing": 0, "steps": 0.0}


def record(**more: Any) -> dict[str, Any]:
    onnx = {
        "layers": 21, "quantized": 20, "floats": 1, "float_nodes": ["a"], "engine_numpy": EQUAL,
        "engine_optimized": EQUAL, "engine_unoptimized": {"values": 300, "differing": 30, "steps": 2.04},
        "first_apart": {"tensor": "t", "differing": 1, "values": 18432},
    }  # fmt: skip
    found = {"network": "torchvision:net", "exporter": "dynamo", "size": 96, "onnxruntime": onnx}
    return {**found, "tflite": {"engine_litert": EQUAL}, **more}


def test_a_line_tells_all_runtimes() -> None:
    line = [
        "net",
        "dynamo",
        "20 of 21",
        "1",
        "equal",
        "10 %, 2 steps",
        "1 of 18,432",
        "equal",
        "equal",
        "",
        "",
        "",
    ]
    assert cells(record()) == line
    assert len(line) == rows([])[0].count("|") - 1


def test_what_failed_is_told_in_its_place() -> None:
    assert cells({"network": "a", "exporter": "dynamo", "failed": "export: no"})[-1] == "export: no"
    assert cells(record(onnxruntime={"failed": "X: no"}))[-4:] == ["equal", "", "", "X: no"]
    text = "X: net.tflite: 2 parts have no form in TFLite: '/a/norm' (LayerNorm), '/b' (GroupNorm): …"
    refused = cells(record(tflite={"failed": text}))
    assert refused[-4:] == ["refused", "", "", "TFLite: LayerNorm has no form"]
    both = cells(record(network="vit_tiny_patch16_224", tflite={"failed": text}))
    assert both[-1] == "TFLite: LayerNorm has no form"


def test_the_target_of_the_engine_and_the_trace_have_columns() -> None:
    own = {**record()["onnxruntime"], "coded_share": 0.98765, "floats": 2}
    assert cells(record(calib8=own, trace={}))[-3:-1] == ["98.77 %, 2 Float; equal", "yes"]
    worse = {
        **own,
        "floats": 0,
        "coded_share": 1.0,
        "engine_numpy": {"values": 3, "differing": 1, "steps": 9.0},
    }
    assert cells(record(calib8=worse))[-3:-1] == ["100 %; equal, not the reference's bits", ""]
    failed = cells(record(calib8={"failed": "A: no"}, trace={"failed": "B: no at /usr/lib/net.py:3"}))
    assert failed[-3:-1] == ["A: no", "B: no"]


def test_differences_in_words() -> None:
    assert apart_text(EQUAL) == "equal"
    assert apart_text({"values": 300, "differing": 300, "steps": 2e-5}) == "last bits"


def test_the_page_holds_the_table_and_the_versions() -> None:
    text = page([record()], "timm 1.0")
    assert "\n".join(rows([record()])) in text and "(timm 1.0)" in text


def test_counting() -> None:
    from same_bits import apart, codes_apart

    wanted = [[np.array([0.0, 51.0, 255.0])], [np.array([1.0, 2.0, 3.0])]]
    given = [[np.array([0.0, 53.0, 255.0])], [np.array([1.0, 2.0, 3.5])]]
    assert apart(wanted, given) == {"values": 6, "differing": 2, "steps": 2.0}
    codes = np.arange(24, dtype=np.uint8).reshape(1, 2, 3, 4)
    other = codes.transpose(0, 2, 3, 1).copy()
    assert codes_apart(other, codes) == 0
    other[0, 0, 0, 0] += 100
    assert codes_apart(other, codes) == 1
