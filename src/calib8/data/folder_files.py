"""Pictures of a local folder as samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from calib8.data.arrays import rows_per_batch
from calib8.data.fingerprints import file_fingerprint
from calib8.data.labels import known_labels
from calib8.data.preprocess import Preprocess
from calib8.data.samples import Dataset, Pending, file_sample
from calib8.tensors import TensorSpec


def dataset_of_files(
    folder: Path,
    names: Sequence[str],
    labels: Sequence[int | None],
    fitted: Preprocess,
    inputs: Sequence[TensorSpec],
    skip_bad: bool,
) -> Dataset:
    """The pictures of a folder, each file a sample.

    Args:
        folder: where they lie.
        names: paths relative to it, with ``/``.
        labels: one per file.
        fitted: what pictures go through.
        inputs: those of the model.
        skip_bad: pictures that cannot be read are passed over.
    """

    def pending() -> Iterator[Pending]:
        for name, label in zip(names, labels, strict=True):
            path = folder / name
            load = partial(file_sample, path, fitted, inputs[0], name, label)
            yield Pending(name, load, partial(file_fingerprint, path))

    return Dataset(
        str(folder), pending, len(names), rows_per_batch(inputs), fitted, skip_bad, [],
        labels=known_labels(labels),
    )  # fmt: skip
