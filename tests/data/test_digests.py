"""Digests of samples: of what was used up, from any thread, whatever the samples are called."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
from PIL import Image

from calib8.data.batches import batches
from calib8.data.digests import DIGEST_BYTES, DigestLog
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
