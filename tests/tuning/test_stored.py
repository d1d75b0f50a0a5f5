"""What repairs left comes back from its file as it was, and gives the same int8 model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tuned_nets import even_net, inputs

import calib8
from calib8.errors import TableError
from calib8.model.save import model_bytes
from calib8.repair.candidate import Candidate
from calib8.repair.result import Repaired
from calib8.scheme import target_scheme
from calib8.tuning.stored import load_repaired, save_repaired


def repaired(*names: str) -> tuple[Candidate, Repaired]:
    found = calib8.quantize(even_net(), inputs(24), method="mse", repair=names, threads=1)
    assert found.repaired is not None
    return Candidate(found.prepared.model, found.table, target_scheme("onnxruntime")), found.repaired


@pytest.mark.parametrize("names", [("cle", "round", "bias"), ("bias",)])
def test_the_int8_model_is_the_same(names: tuple[str, ...], tmp_path: Path) -> None:
    start, done = repaired(*names)
    changed = "cle" in names
    start = start if changed else replace(start, model=done.candidate.model)
    save_repaired(done, start, tmp_path / "file.npz")
    again = load_repaired(start, tmp_path / "file.npz")
    assert again.steps == done.steps and again.table == done.table
    assert (again.effort, again.held_back) == (done.effort, done.held_back)
    with np.load(tmp_path / "file.npz") as content:
        assert ("model" in content) == changed
    assert done.candidate.corrections
    left, right = (model_bytes(found.candidate.quantized().model) for found in (done, again))
    assert left == right


def test_a_model_that_cannot_be_decoded_is_told(tmp_path: Path) -> None:
    start, done = repaired("cle", "bias")
    path = tmp_path / "file.npz"
    save_repaired(done, start, path)
    with np.load(path) as content:
        arrays = dict(content)
    arrays["model"][: len(arrays["model"]) // 2] = 0xFF
    np.savez(path, **arrays)
    with pytest.raises(TableError, match=r"file\.npz: is broken .* Remove it and tune again"):
        load_repaired(start, path)


def test_a_broken_file_is_told(tmp_path: Path) -> None:
    start, done = repaired("bias")
    path = tmp_path / "file.npz"
    save_repaired(done, start, path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(TableError, match="is broken"):
        load_repaired(start, path)
