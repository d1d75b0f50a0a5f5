"""Samples of any source, through one re-iterable ``Dataset``."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from calib8.data.arrays import conform
from calib8.data.framing import Framing
from calib8.data.images import read_image
from calib8.data.preprocess import Preprocess, apply_preprocess
from calib8.data.remote import StoreError
from calib8.errors import DataError, UsageError
from calib8.parameters import parameter
from calib8.progress import Progress
from calib8.tensors import TensorSpec

Array: TypeAlias = npt.NDArray[np.generic]


class Numbered(Protocol):
    """Samples by number, as a Dataset of PyTorch has them."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, number: int, /) -> Any:
        """One of them."""


class Reader(Protocol):
    """ONNX Runtime's ``CalibrationDataReader``."""

    def get_next(self) -> Any:
        """The next sample, None behind the last one."""


Yielding: TypeAlias = "Iterable[Any] | Callable[[], Iterable[Any]] | Numbered | Reader | Image.Image"
DataSource: TypeAlias = (
    "str | os.PathLike[str] | npt.NDArray[Any] | Mapping[str, Any] | Yielding | OpenableData"
)


@dataclass(frozen=True)
class Sample:
    """One sample.

    Attributes:
        name: file name relative to its folder, ``file[row]``, or ``sample n``.
        inputs: one array per input of the model, of its dtype; axis 0 is the batch, of length 1 for images.
        label: class number >= 0, or None.
    """

    name: str
    inputs: Mapping[str, Array]
    label: int | None


@dataclass(frozen=True)
class Pending:
    """A sample that is not decoded yet; ``load`` and ``fingerprint`` may run in any thread.

    Attributes:
        name: that of the sample.
        load: decodes it.
        fingerprint: SHA-256 of what it is decoded from; empty where that cannot be read.
        held: bytes in memory that it keeps alive.
    """

    name: str
    load: Callable[[], Sample]
    fingerprint: Callable[[], bytes]
    held: int = 0


class Elsewhere(Protocol):
    """Machines that go through all samples where these lie."""

    @property
    def mixed(self) -> bool:
        """Whether they may be of several kinds, which compute other last bits."""

    @property
    def keeps(self) -> bool:
        """Whether parts of statistics are kept for a run that is started again."""

    def counted(
        self, model: Any, tensors: Sequence[str], progress: Progress
    ) -> tuple[Any, Sequence[Skipped]]:
        """The statistics of a prepared model over all samples, and the bad ones that were passed over."""

    def found(self, work: Any, stage: str, progress: Progress) -> Any:
        """What a ``calib8.data.whole.Work`` finds of all samples."""


Schedule: TypeAlias = "Callable[[Iterator[Pending]], Generator[Pending, None, None]]"


@dataclass(frozen=True)
class Skipped:
    """A bad image that was passed over."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class Stream:
    """The frames that samples of a streaming model are taken of.

    Attributes:
        frames: all of them, in their order, without states.
        fed: the inputs that a frame has.
        carried: the inputs that are states.
        places: state → place among the outputs of the one that feeds it.
        marked: an array ``reset`` beside the inputs is not 0 where a stream begins.
    """

    frames: Dataset
    fed: tuple[TensorSpec, ...]
    carried: tuple[TensorSpec, ...]
    places: Mapping[str, int]
    marked: bool


@dataclass
class Dataset:
    """A source of samples that gives the same ones, in the same order, on every iteration.

    Attributes:
        source: what it was opened from, for messages.
        pending: a new iterator over the samples to come.
        count: number of samples before bad images are skipped; None where only iterating tells.
        rows_per_batch: rows (entries of axis 0) the model takes at once; None: any number; 1 also where
            the samples cannot be stacked.
        preprocess: what images go through, size and layout filled in; None where arrays go in as they are.
        skip_bad: bad images are passed over instead of raised.
        skipped: those of the latest iteration, in order.
        taken: good samples that were used up before and do not come any more, see ``Trail``.
        labels_asked: the user named the labels; they were not just found beside the samples.
        label_note: why labels that were found are not used; empty where there are none, or they are.
        left_out: the same, of labels that come with the samples: known once these were read.
        label_cure: what to do about labels that do not fit.
        class_names: of the labels, by number; empty where only numbers are known.
        elsewhere: goes through all samples on other machines; those here are the first of them then, or all.
        labels: of the samples to come, in their order, where they do not come with what is read; empty
            where they do, or where there are none.
        total: samples of the source, of which some may have been chosen; None: not known.
        stream: what frames are taken of whose states a float model gave; None: they are no such frames.
        framing: how sound becomes frames, filled in; None where the data are no sound.
    """

    source: str
    pending: Callable[[], Iterator[Pending]]
    count: int | None
    rows_per_batch: int | None
    preprocess: Preprocess | None
    skip_bad: bool
    skipped: list[Skipped]
    taken: int = 0
    labels_asked: bool = False
    label_note: str = ""
    left_out: Sequence[str] = ()
    label_cure: str = "Mend them, or give inputs alone"
    class_names: tuple[str, ...] = ()
    elsewhere: Elsewhere | None = None
    labels: tuple[int | None, ...] = ()
    total: int | None = None
    stream: Stream | None = None
    framing: Framing | None = None

    @property
    def carried(self) -> bool:
        """Whether these are frames of a stream, whose states a float model gave."""
        return self.stream is not None

    @property
    def why_no_labels(self) -> str:
        """Why labels do not count, as far as the samples were read; empty where none are left out."""
        return self.label_note or (self.left_out[0] if self.left_out else "")

    def __iter__(self) -> Iterator[Sample]:
        """The samples, decoded one by one.

        Raises:
            DataError: a sample is bad (and not to be skipped), or there is none at all.
        """
        return self.loaded(_one_by_one)

    def loaded(self, schedule: Schedule) -> Generator[Sample, None, None]:
        """The samples, where ``schedule`` may start loading ahead but keeps the order.

        Raises:
            DataError: as for iterating.
        """
        self.skipped.clear()
        given = self.taken
        with closing(schedule(self.pending())) as items:
            for item in items:
                try:
                    sample = item.load()
                except DataError as error:
                    if not self.skip_bad or isinstance(error, StoreError):
                        raise
                    self.skipped.append(Skipped(item.name, error.problem))
                    continue
                given += 1
                yield sample
        if not given:
            bad = f", {len(self.skipped)} bad ones were skipped" if self.skipped else ""
            raise DataError(
                self.source, f"gave no samples{bad}", "Give at least one; a function must start anew"
            )


class OpenableData(ABC):
    """Base of objects that open themselves where data are given, such as what lies on other machines."""

    @abstractmethod
    def opened(self, inputs: Sequence[TensorSpec], reading: Any) -> Dataset:
        """The samples for the inputs of a model; with ``elsewhere`` set those here may be some of all.

        Args:
            inputs: those of the model.
            reading: the ``calib8.data.reading.Reading`` whose ``data`` are this object.

        Raises:
            Calib8Error: what can be wrong with data or options.
        """


def check_samples(samples: int | None) -> None:
    """Refuses a number of samples below 1.

    Raises:
        UsageError: it is.
    """
    if samples is not None and samples < 1:
        raise UsageError(parameter("samples", samples), "is too few", "Give at least 1")


def image_sample(values: Array, spec: TensorSpec, name: str, label: int | None) -> Sample:
    """What one image became, as a sample of an input: with a batch axis where the input has one."""
    batched = values if spec.shape is not None and len(spec.shape) == 3 else values[None]
    return Sample(name, {spec.name: conform(batched, spec, name, partial=True)}, label)


def file_sample(path: Path, p: Preprocess, spec: TensorSpec, name: str, label: int | None) -> Sample:
    """The image of a file, preprocessed, as a sample of an input.

    Raises:
        DataError: it cannot be decoded, or what becomes of it does not fit the input.
    """
    return image_sample(apply_preprocess(read_image(path, name), p, name), spec, name, label)


def spaced(total: int, samples: int | None) -> Sequence[int]:
    """At most ``samples`` of the indices 0 … total − 1, evenly spaced: ``i·total // samples``, ascending."""
    if samples is None or samples >= total:
        return range(total)
    return [index * total // samples for index in range(samples)]


def _one_by_one(pending: Iterator[Pending]) -> Generator[Pending, None, None]:
    yield from pending
