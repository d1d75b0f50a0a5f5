"""A real network on real images: shards and a run that was left give the bytes of one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from calib8.calibration.merge import merge_statistics
from calib8.data.presets import preset
from calib8.pipeline import Collection, collect_statistics
from calib8.progress import Progress, silent

IMAGES = 9


class LeftError(Exception):
    """The run ends here."""


def test_parts_are_the_whole(shared_data: Path, tmp_path: Path) -> None:
    model, images = shared_data / "models" / "efficientnet_lite0.onnx", shared_data / "imagenet" / "calib"

    def collected(
        checkpoint: Path | None = None, shard: tuple[int, int] | None = None, progress: Progress = silent
    ) -> Collection:
        every = None if checkpoint is None else 1
        return collect_statistics(
            model, images, preprocess=preset("efficientnet_lite"), samples=IMAGES, shard=shard,
            checkpoint=checkpoint, checkpoint_every=every, progress=progress,
        )  # fmt: skip

    def leave(stage: str, done: int, total: int | None) -> None:
        if done >= 8:
            raise LeftError

    whole = collected().statistics
    assert whole.samples == IMAGES
    parts = [collected(shard=(index, 2)).statistics for index in (2, 1)]
    assert merge_statistics(parts).to_bytes() == whole.to_bytes()
    with pytest.raises(LeftError):
        collected(tmp_path / "c", progress=leave)
    rest = collected(tmp_path / "c")
    assert rest.resumed == 4
    assert rest.statistics.to_bytes() == whole.to_bytes()
