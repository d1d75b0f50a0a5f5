"""Where the target has 16-bit codes, the tensors that lose too much get them, and no layer becomes float."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tuned_nets import LOUD, inputs, one_coarse_layer, one_loud_tensor

import calib8
from calib8.errors import TableError
from calib8.model.metadata import read_metadata
from calib8.repair import enough
from calib8.repair import spots as ranking
from calib8.run_report.of_tune import candidates
from calib8.tuning.folder import Folder
from calib8.tuning.judging import Figures
from calib8.tuning.trial import Settings, Trial
from calib8.tuning.tune import Tuning
from small_models import run

Tune = Callable[..., Tuning]

ENGINE: dict[str, Any] = {"runtime": "calib8", "min_sqnr": 30.0}
SAMPLES = np.clip(inputs(), -1.0, 1.0)


def test_the_tensor_that_ruins_the_outputs_gets_16_bits_and_nothing_is_float(tune: Tune) -> None:
    found = tune(one_loud_tensor(), SAMPLES, **ENGINE)
    assert found.kept and not found.trials[0].kept
    assert found.best.spots == (LOUD,) and found.best.settings.spots == (LOUD,)
    assert found.best.settings.floats == () and found.best.cost == 0.0
    assert found.best.wide == pytest.approx(144 / (108 + 144 + 180))
    assert not any(trial.settings.floats for trial in found.trials)
    codes = {tensor.data_type for tensor in onnx.load(found.path).graph.initializer}
    assert onnx.TensorProto.INT16 in codes
    assert read_metadata(found.path)["spots"] == json.dumps([LOUD]), "so that a diagnosis keeps it"


def test_the_result_runs_in_integers_alone(tune: Tune) -> None:
    found = tune(one_loud_tensor(), SAMPLES, **ENGINE)
    session = calib8.InferenceSession(found.path, integer_only=True, profile="single")
    fresh = np.clip(inputs(32, seed=9), -1.0, 1.0)
    left = run(one_loud_tensor(), {"x": fresh})[0].astype(np.float64)
    right = np.concatenate([session.run(None, {"x": one[None]})[0] for one in fresh]).astype(np.float64)
    assert 10.0 * np.log10(np.sum(left**2) / np.sum((left - right) ** 2)) >= 30.0


def test_other_targets_have_none(tune: Tune, tmp_path: Path) -> None:
    found = tune(one_loud_tensor(), SAMPLES, min_sqnr=30.0)
    assert found.kept and found.best.settings.floats
    assert not any(trial.spots for trial in found.trials)
    assert not (tmp_path / "out.onnx.tune" / "spots.json").exists()


def test_what_no_spot_cures_becomes_float(tune: Tune) -> None:
    """A weight that takes the codes of its channel."""
    found = tune(one_coarse_layer(), SAMPLES, runtime="calib8", min_sqnr=20.0)
    assert found.kept and "b" in found.best.settings.floats


@pytest.mark.slow
def test_spots_that_a_repair_chose_and_nobody_needs_are_given_back(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repairs give spots for a hundred dB."""
    monkeypatch.setattr(enough, "ENOUGH_DB", 100.0)
    monkeypatch.setattr(ranking, "BUDGET", 10.0)
    samples = np.clip(inputs(240), -1.0, 1.0)
    promise = {"runtime": "calib8", "min_sqnr": 40.0}
    found = tune(one_loud_tensor(), samples, effort="balanced", **promise)
    chosen = next(trial for trial in found.trials if trial.settings.effort == "balanced")
    assert found.kept and chosen.settings.spots is None and chosen.kept and chosen.spots
    assert set(found.best.spots) < set(chosen.spots) and found.best.wide < chosen.wide


def test_a_folder_goes_on_and_ends_alike(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tune(one_loud_tensor(), SAMPLES, **ENGINE)
    work, model = tmp_path / "out.onnx.tune", found.path.read_bytes()
    lines = (work / "trials.jsonl").read_text().splitlines()
    assert [Trial.from_json(line) for line in lines] == list(found.trials)
    (work / "trials.jsonl").write_text("".join(f"{line}\n" for line in lines[:2]))
    monkeypatch.setattr("calib8.tuning.spot_steps.ranked_spots", None)  # what is stored is not ranked again
    again = tune(one_loud_tensor(), SAMPLES, **ENGINE)
    assert [one.settings for one in again.trials] == [one.settings for one in found.trials]
    assert again.path.read_bytes() == model


def test_a_model_is_tried_once_though_spots_fall_away(tmp_path: Path) -> None:
    """A node in float reads no codes: what it alone would read with 16 bits is no spot any more."""
    figures = Figures(0.5, 0.5, None, None, 20.0, 8)
    trial = Trial(Settings("fast", floats=("a",), spots=("s", "t")), figures, 0.1, False, 1.0, ("s",))
    plain = Trial(Settings("fast"), figures, 0.0, False, 1.0, ("s",))
    with Folder(tmp_path / "work", {}) as folder:
        folder.add(trial)
        folder.add(plain)
        assert folder.known(Settings("fast", floats=("a",), spots=("s",))) is trial
        assert folder.known(Settings("fast", spots=("s",))) is None, "its biases are corrected with the spot"
    with Folder(tmp_path / "work", {}) as folder:
        assert folder.known(Settings("fast", floats=("a",), spots=("s",))) == trial
        assert folder.known(Settings("fast", floats=("a",))) is None


def test_a_broken_file_of_steps_is_told(tune: Tune, tmp_path: Path) -> None:
    tune(one_loud_tensor(), SAMPLES, **ENGINE)
    (tmp_path / "out.onnx.tune" / "spots.json").write_text('{"steps": [{}]}')
    with pytest.raises(TableError, match=r"spots\.json: is broken .* Remove it and tune again"):
        tune(one_loud_tensor(), SAMPLES, **ENGINE)


def test_neither_threads_nor_the_order_of_the_samples_change_anything(tune: Tune, tmp_path: Path) -> None:
    first = tune(one_loud_tensor(), SAMPLES, **ENGINE).path.read_bytes()
    other = tune(
        one_loud_tensor(), SAMPLES[::-1].copy(), output=tmp_path / "other.onnx", **{**ENGINE, "threads": 2}
    )
    assert other.path.read_bytes() == first


def test_results_name_them(tune: Tune) -> None:
    found = tune(one_loud_tensor(), SAMPLES, **ENGINE)
    assert "0.00 % of the MACs in float, 1 spot;" in repr(found)
    assert "fast, 1 spot" in found._repr_html_()
    assert [one.name for one in candidates(found).shown if one.chosen] == ["fast, 1 spot"]
