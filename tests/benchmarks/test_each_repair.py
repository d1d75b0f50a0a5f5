"""The table of what repairs gain by themselves, from the records of the script."""

from __future__ import annotations

from typing import Any

from each_repair import gains, lines, wishes


def record(repair: str, db: float | None, weights: str = "per-channel", target: str = "onnxruntime") -> Any:
    return {"network": "net", "repair": repair, "target": target, "weights": weights, "db": db}


RECORDS = [
    record("none", 20.0),
    record("bias", 21.0),
    record("cle", 22.5),
    record("round", 20.5),
    record("bn", None),
    record("bias-median", 20.05),
    record("none", 18.0, target="calib8"),
    record("bias", 19.0, target="calib8"),
    record("spots", 29.0, target="calib8"),
    record("none", 10.0, "per-tensor"),
    record("bias", 12.0, "per-tensor"),
    record("cle", 11.0, "per-tensor"),
]


def test_repairs_are_compared_with_bias_alone_and_biases_with_nothing() -> None:
    found = gains(RECORDS)
    assert found["cle"] == [(1.5, 21.0, "net"), (-1.0, 12.0, "net, one scale")]
    assert found["round"] == [(-0.5, 21.0, "net")]
    assert found["bias"] == [(2.0, 10.0, "net, one scale"), (1.0, 20.0, "net")]
    assert found["spots"] == [(10.0, 19.0, "net")]
    assert "bn" not in found and "none" not in found


def test_a_line_tells_where_a_repair_helps_most_and_least() -> None:
    told = lines(RECORDS)
    assert told[2:4] == [
        "| `cle` | 1 of 2 | net 21.0 → 22.5; net, one scale 12.0 → 11.0 | net, one scale 12.0 → 11.0 |",
        "| `round` | 0 of 1 | net 21.0 → 20.5 | net 21.0 → 20.5 |",
    ]
    assert any(line.startswith("| `bias-median` | 0 of 1 |") for line in told)  # less than LEAST_DB


def test_every_repair_is_asked_for_once_per_kind_of_scales() -> None:
    asked = list(wishes(["cle", "spots", "bias", "bias-median"]))
    assert len(asked) == len({wish[:3] for wish in asked}) == 14
    assert ("spots", "calib8", "per-tensor", ["spots", "bias"]) in asked
    assert ("bias-median", "onnxruntime", "per-channel", ["bias-median"]) in asked
