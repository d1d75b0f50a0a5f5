"""Which samples score and which are held back: by content, whatever the order; all of them where few."""

from __future__ import annotations

import numpy as np
import pytest
from outlier_nets import CHANNELS, opened, outlier_net, outlier_samples

from calib8.autorange import samples as module
from calib8.autorange.samples import FEWEST_TO_SPLIT, HELD_BACK, SCORED, choose_samples
from small_models import Array, onnx_model


def chosen(items: list[dict[str, Array]]) -> tuple[list[bytes], list[bytes]]:
    _, dataset = opened(outlier_net(1.0), items)
    found = choose_samples(dataset, 2)
    return [r["x"].tobytes() for r in found.scored], [r["x"].tobytes() for r in found.held_back]


def test_no_sample_is_in_both_sets() -> None:
    scored, held_back = chosen(outlier_samples(120))
    assert (len(scored), len(held_back)) == (SCORED, HELD_BACK)
    assert not set(scored) & set(held_back)


def test_the_order_of_the_data_changes_nothing() -> None:
    items = outlier_samples(40)
    again = [items[index] for index in np.random.default_rng(1).permutation(40)]
    assert chosen(items) == chosen(again)
    assert len(chosen(items)[0]) == 20


def test_few_samples_do_both() -> None:
    _, dataset = opened(outlier_net(1.0), outlier_samples(5))
    found = choose_samples(dataset, 2)
    assert found.shared and len(found.scored) == len(found.held_back) == 5
    assert (found.count, found.fewest) == (5, FEWEST_TO_SPLIT)


def test_sixteen_large_samples_are_read_whatever_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_BYTES", 1)
    scored, held_back = chosen(outlier_samples(60))
    assert (len(scored), len(held_back)) == (8, 8)
    assert not set(scored) & set(held_back)


@pytest.mark.parametrize(
    ("rows", "count", "runs", "fewest"), [(4, 16, 2, 0), (4, 15, 0, 16), (64, 128, 1, 0), (64, 100, 0, 128)]
)
def test_samples_of_a_fixed_batch_count_and_not_its_runs(
    rows: int, count: int, runs: int, fewest: int
) -> None:
    constants = {"w": np.ones((2, 3, 1, 1), np.float32)}
    proto = onnx_model(f"float[{rows},3,5,5] x", f"float[{rows},2,5,5] y", "y = Conv(x, w)", constants)
    images = np.random.default_rng(0).standard_normal((count, 3, 5, 5)).astype(np.float32)
    _, dataset = opened(proto, {"x": images})
    found = choose_samples(dataset, 1)
    assert found.shared is not bool(runs)
    if runs:
        assert len(found.scored) == len(found.held_back) == runs
    else:
        assert (found.count, found.fewest) == (count - count % rows, fewest)


def test_large_samples_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    size = CHANNELS * 6 * 6 * 4
    monkeypatch.setattr(module, "LARGEST_BYTES", 20 * size)
    scored, held_back = chosen(outlier_samples(60))
    assert len(scored) + len(held_back) == 20


def test_a_fixed_batch_is_filled_and_the_rest_left_out() -> None:
    constants = {"w": np.ones((2, 3, 1, 1), np.float32)}
    proto = onnx_model("float[4,3,5,5] x", "float[4,2,5,5] y", "y = Conv(x, w)", constants)
    images = np.random.default_rng(0).standard_normal((70, 3, 5, 5)).astype(np.float32)
    _, dataset = opened(proto, {"x": images})
    found = choose_samples(dataset, 1)
    assert {run["x"].shape for run in (*found.scored, *found.held_back)} == {(4, 3, 5, 5)}
    assert len(found.scored) + len(found.held_back) == 17
