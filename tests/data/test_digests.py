"""Digests of samples: of what was used up, from any thread, whatever the samples are called."""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calib8.data.batches import batches
from calib8.data.digests import DIGEST_BYTES, MOST_DIGESTS, DigestLog, lowest_digests
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.tensors import TensorSpec

INPUT = TensorSpec("x", np.dtype(np.float32), ("N", 3, 8, 8))


def digests(folder: Path, *, threads: int = 1, stop: int | None = None) -> tuple[bytes, ...]:
    """Those of a run through a folder that ends after so many batches of two."""
    dataset = open_dataset(folder, [INPUT], Preprocess(), skip_bad=True)
    log = DigestLog(dataset)
    with closing(batches(log.dataset, 2, threads)) as pieces:
        for number, piece in enumerate(pieces):
            if number == stop:
                break
            log.advance(piece.names)
    if stop is None:
        assert [bad.name for bad in dataset.skipped] == ["bad.png"], "the list of what was skipped is shared"
    return log.digests()


def test_only_what_was_used_up_counts(tmp_path: Path) -> None:
    for index in range(5):
        pixels = np.random.default_rng(index).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{index}.png")
    (tmp_path / "bad.png").write_bytes(b"no image")
    whole = digests(tmp_path)
    assert len(set(whole)) == 5 and {len(digest) for digest in whole} == {DIGEST_BYTES}
    assert whole == tuple(sorted(whole)) == digests(tmp_path, threads=3)
    some = digests(tmp_path, stop=1)
    assert len(some) == 2 and set(some) < set(whole)
    for index in range(5):
        (tmp_path / f"{index}.png").rename(tmp_path / f"{9 - index} renamed.png")
    assert digests(tmp_path) == whole
    (tmp_path / "copy.png").write_bytes((tmp_path / "9 renamed.png").read_bytes())
    assert len(digests(tmp_path)) == 6 and set(digests(tmp_path)) == set(whole)


def test_of_many_samples_the_lowest_are_known_however_they_were_parted() -> None:
    many = [hashlib.sha256(bytes(divmod(index, 256))).digest()[:16] for index in range(60_000)]
    many += many[:9_000]  # some come twice
    whole = lowest_digests(many)
    assert len(whole) == MOST_DIGESTS and list(whole) == sorted(many)[:MOST_DIGESTS]
    for parts in (2, 7):
        found: tuple[bytes, ...] = ()
        for part in range(parts):
            found = lowest_digests(found, lowest_digests(many[part::parts]))
        assert found == whole


def test_a_long_run_does_not_keep_all_digests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("calib8.data.digests.MOST_DIGESTS", 3)
    arrays = np.random.default_rng(0).normal(0, 1, (20, 3, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", arrays)
    log = DigestLog(open_dataset(tmp_path / "x.npy", [INPUT], None))
    most = 0
    with closing(batches(log.dataset, 2, 1)) as pieces:
        for piece in pieces:
            log.advance(piece.names)
            most = max(most, len(log._passed))
    found = log.digests()
    assert most < 8 and len(found) == 3
    monkeypatch.undo()
    everything = DigestLog(open_dataset(tmp_path / "x.npy", [INPUT], None))
    with closing(batches(everything.dataset, 2, 1)) as pieces:
        for piece in pieces:
            everything.advance(piece.names)
    assert found == everything.digests()[:3]
