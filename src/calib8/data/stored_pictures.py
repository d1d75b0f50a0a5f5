"""Pictures elsewhere than in a local folder: loaded in the threads that decode them, nothing is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from calib8.data.arrays import rows_per_batch
from calib8.data.fit import fit_preprocess
from calib8.data.labels import FoundLabels, known_labels, labels_of_names, no_labels
from calib8.data.places import Place
from calib8.data.preprocess import Preprocess
from calib8.data.records import encoded_sample
from calib8.data.samples import Dataset, Pending, Sample, spaced
from calib8.data.stored_files import StoredFile
from calib8.errors import UsageError
from calib8.tensors import TensorSpec


def dataset_of_pictures(
    place: Place,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess | None,
    labels: Path | None,
    samples: int | None,
    skip_bad: bool,
    numbers: Sequence[int | None] = (),
) -> Dataset:
    """The pictures of a place, each file a sample.

    Args:
        place: remote pictures, a folder of them, or files that braces name.
        inputs: those of the model.
        preprocess: what pictures go through.
        labels: a list of ``file label`` lines, for a folder; None: its ``labels.txt`` or sub-folders.
        samples: at most so many, evenly spaced.
        skip_bad: pictures that cannot be decoded are passed over.
        numbers: one label per picture of a place that is no folder, where they are known.

    Raises:
        UsageError: no preprocessing; labels for what is no folder.
        DataError: a list of labels that does not fit.
    """
    fitted = fit_preprocess(preprocess, inputs, place.shown)
    names = [file.name for file in place.files]
    found = FoundLabels(numbers) if numbers else _labels(place, names, labels)
    chosen = spaced(len(names), samples)

    def pending() -> Iterator[Pending]:
        for index in chosen:
            one = _Picture(place.files[index], names[index], found.numbers[index], fitted, inputs[0])
            yield Pending(one.name, one.load, one.fingerprint)

    return Dataset(
        place.shown, pending, len(chosen), rows_per_batch(inputs), fitted, skip_bad, [],
        labels_asked=found.asked, label_note=found.note, class_names=found.names,
        labels=known_labels([found.numbers[index] for index in chosen]),
    )  # fmt: skip


class _Picture:
    """A picture that is read again each time it is wanted; the digest of what was read is kept."""

    def __init__(
        self, file: StoredFile, name: str, label: int | None, fitted: Preprocess, spec: TensorSpec
    ) -> None:
        self.name = name
        self._file, self._label, self._fitted, self._spec = file, label, fitted, spec
        self._digest = b""

    def load(self) -> Sample:
        """The sample."""
        content = self._read()
        return encoded_sample(content, self._fitted, self._spec, self.name, self._label)

    def fingerprint(self) -> bytes:
        """SHA-256 of the file."""
        if not self._digest:
            self._read()
        return self._digest

    def _read(self) -> bytes:
        content = self._file.read()
        self._digest = hashlib.sha256(content).digest()
        return content


def _labels(place: Place, names: Sequence[str], labels: Path | None) -> FoundLabels:
    if place.folder:
        listed = place.labels
        text = None if listed is None else listed.read().decode("utf-8", "replace")
        beside = None if listed is None or text is None else (listed.name, text)
        return labels_of_names(names, labels, beside)
    if labels is not None:
        cure = "Name the folder itself, such as s3://bucket/folder"
        raise UsageError(str(labels), "a list of labels needs an image folder", cure)
    return no_labels(len(names))
