"""Tables of training: means over seeds, and ratios to float training."""

from __future__ import annotations

import pytest

from qat_tables import accuracy_rows, peer_rows

SHORT = {"images": 10000, "recipe": {"epochs": 2, "rate": 1e-4}}
LONG = {"images": 10000, "recipe": {"epochs": 20, "rate": 1e-4}}
FIGURES = {"simulated": 91.5, "as_simulated": 99.9, "seconds": 100.0}


def test_a_row_and_recipe_have_mean_and_deviation_of_their_seeds() -> None:
    rows = accuracy_rows(
        [
            {"row": "FP32", "seed": None, "top1": 91.0},
            {"row": "PTQ", "seed": None, "top1": 90.5, "seconds": 7.0},
            {"row": "QAT", "seed": 0, "top1": 91.0, **SHORT, **FIGURES},
            {"row": "QAT", "seed": 1, "top1": 92.0, **SHORT, **{**FIGURES, "as_simulated": 99.6}},
            {"row": "QAT", "seed": 0, "top1": 93.0, **LONG, **FIGURES},
        ]
    )
    assert rows[2:] == [
        "| FP32 |  |  | 91.00 |  |  |  |  |",
        "| PTQ |  |  | 90.50 | -0.50 |  |  | 7 |",
        "| QAT | 2 × 10,000, rate 0.0001 | 2 | 91.50 ± 0.71 | +0.50 | 91.50 ± 0.00 | ≥ 99.60 % | 100 |",
        "| QAT | 20 × 10,000, rate 0.0001 | 1 | 93.00 | +2.00 | 91.50 | ≥ 99.90 % | 100 |",
    ]


def test_times_stand_beside_float_training() -> None:
    time = {"network": "resnet20", "layout": "channels-last", "median_ms": 200.4, "min_ms": 190.0}
    rows = peer_rows([{**time, "training": "calib8", "epoch_s": 78.0, "ratio": 1.126}], [])
    assert rows[2:] == ["| resnet20 | channels-last | calib8 | 200 | 190 | 78 | 1.13 |"]


@pytest.mark.parametrize("seeds", [[0], [0, 1]])
def test_accuracy_of_peers_follows(seeds: list[int]) -> None:
    rows = peer_rows([], [{"training": "brevitas", "seed": seed, "top1": 90.0} for seed in seeds])
    assert rows[-1] == f"| brevitas | {len(seeds)} | 90.00{' ± 0.00' if len(seeds) > 1 else ''} |"
