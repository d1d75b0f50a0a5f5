"""What is read: data, how images become inputs, and how many samples, as one value."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypedDict

from calib8.data.framing import Framing
from calib8.data.items import InputMap, Transform
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.data.presets import known_preprocess
from calib8.data.samples import Dataset, DataSource, OpenableData, check_samples
from calib8.data.sound import is_sound
from calib8.errors import UsageError
from calib8.parameters import parameter
from calib8.processors import refuse_many_threads
from calib8.progress import check_positive
from calib8.requests import Request
from calib8.tensors import TensorSpec
from calib8.type_texts import a_type


@dataclass(frozen=True, eq=False)
class Reading(Request):
    """Which samples are read, and how.

    Attributes:
        data: images or arrays, see ``calib8.data.opening.open_dataset``; None where something else, such as
            saved statistics, takes their place.
        preprocess: how images become inputs, or the name of a preset; not needed for arrays.
        labels: a list of ``file class-number`` lines for an image folder, or the labels of a task.
        samples: at most so many; None: all.
        batch: samples per run, None for what is fastest; no result depends on it.
        threads: for decoding, models and native code; no result depends on it.
        skip_bad: pass over images that cannot be read.
        shapes: without data: input name → sizes, where neither model nor preprocessing say them.
        input_map: of data that yield items: input name, or ``label`` → column, or place in a tuple.
        transform: is called with every item that the data yield, and returns one that can be read.
        fix: input name → the value that it always has, a number or an array. It becomes a constant of the
            model, which has no such input any more.
        state: of a streaming model: input → output that feeds it in the next frame; samples are frames in
            their order then, and an array ``reset`` beside them is 1 where a stream begins, else 0. None: as
            the model has stored it, or as names and layers tell; an empty mapping: none.
        framing: how sound becomes frames, for WAV files.

    Raises:
        UsageError: a count below 1, a preset that does not exist, no framing, shapes beside data.
    """

    data: DataSource | None = field(default=None, repr=False)
    preprocess: Preprocess | str | None = None
    labels: str | os.PathLike[str] | None = None
    samples: int | None = None
    batch: int | None = None
    threads: int = 2
    skip_bad: bool = False
    shapes: Mapping[str, Sequence[int]] | None = None
    input_map: InputMap | None = None
    transform: Transform | None = None
    fix: Mapping[str, Any] | None = None
    state: Mapping[str, str] | None = None
    framing: Framing | None = None

    def __post_init__(self) -> None:
        """Checks what can be checked without the data."""
        super().__post_init__()
        check_samples(self.samples)
        check_positive("batch", self.batch_size)
        check_positive("threads", self.threads)
        refuse_many_threads(self.threads)
        known_preprocess(self.preprocess)
        given: object = self.framing
        if given is not None and not isinstance(given, Framing):
            raise UsageError("framing", f"is {a_type(given)}", "Give such as calib8.Framing(16000)")
        if self.shapes and self.data is not None:
            raise UsageError("shapes", "are given beside data, which have their own", "Leave them out")

    @property
    def batch_size(self) -> int:
        """Samples per run, where 1 serves best."""
        return 1 if self.batch is None else self.batch

    def opened(self, inputs: Sequence[TensorSpec], *, elsewhere: bool = False) -> Dataset:
        """The samples for the inputs of a model.

        Args:
            inputs: those of the model.
            elsewhere: whoever asks can do with samples that other machines go through, see
                ``Dataset.elsewhere``: those here are only some of them.

        Raises:
            UsageError: there are no data; options that do not fit them; data on other machines.
            DataError: what can be wrong with the data.
        """
        if self.data is None:
            raise UsageError(parameter("data"), "were not given", f"Give {parameter('data')}")
        if isinstance(self.data, OpenableData):
            found = self.data.opened(inputs, self)
            if found.elsewhere is not None and not elsewhere:
                problem = "are gone through by other machines, and this looks at all samples here"
                takers = "calibrate, collect_statistics, quantize and evaluate"
                cure = f"Give the data themselves; {takers} take these"
                raise UsageError(parameter("data"), problem, cure)
            return found
        return open_dataset(
            self.data,
            inputs,
            self.preprocess,
            labels=self.labels,
            samples=self.samples,
            skip_bad=self.skip_bad,
            input_map=self.input_map,
            transform=self.transform,
            framing=self.framing,
        )


def framed_as_stored(reading: Reading, stored: Callable[[], Framing | None]) -> Reading:
    """The reading; sound of which it does not say how it becomes frames is cut as a model has stored it.

    Args:
        reading: what is read.
        stored: gives that of a model, None where it has none; called for sound alone.

    Raises:
        DataError: what is stored is broken.
    """
    data = reading.data
    if reading.framing is not None or not isinstance(data, str | os.PathLike) or not is_sound(Path(data)):
        return reading
    return replace(reading, framing=stored())


class SampleWords(TypedDict, total=False):
    """The fields of a ``Reading`` that every function takes as keywords."""

    preprocess: Preprocess | str | None
    samples: int | None
    threads: int
    skip_bad: bool
    input_map: InputMap | None
    transform: Transform | None
    fix: Mapping[str, Any] | None
    state: Mapping[str, str] | None
    framing: Framing | None


class LabelWords(TypedDict, total=False):
    """The labels, where they count."""

    labels: str | os.PathLike[str] | None


class BatchWords(TypedDict, total=False):
    """The samples per run, where they can be chosen."""

    batch: int | None


class ShapeWords(TypedDict, total=False):
    """The sizes of inputs, where there may be no data."""

    shapes: Mapping[str, Sequence[int]] | None


class ReadingWords(SampleWords, LabelWords, BatchWords, ShapeWords):
    """All of them."""


NOTHING_READ: Final = Reading()
