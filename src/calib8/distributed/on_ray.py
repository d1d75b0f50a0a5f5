"""``OnRay``: data that the workers of a Ray cluster go through, wherever calib8 takes data.

    calib8.quantize("net.onnx", OnRay("s3://bucket/train", workers=64), preprocess="torchvision")

    statistics           one pass over all samples, with parts in a store where one is named
    second passes        the bins of another tool, ranges behind a repair, extremes of channels: a pass each
    scores and repairs   on the samples of lowest digest, which come here
    evaluate             models run there, on all samples; counts and sums come here

The result is that of one process, byte for byte, on CPUs of one type.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import onnx_ir as ir

from calib8.calibration.gatherer import Gatherer
from calib8.calibration.statistics import Statistics
from calib8.data.opening import open_dataset
from calib8.data.reading import Reading
from calib8.data.samples import Dataset, OpenableData, Skipped
from calib8.data.whole import Work
from calib8.distributed.choice import ClusterChoice
from calib8.distributed.cluster import connected, ray_there
from calib8.distributed.collecting import gathered, listed_of, plain_errors, statistics_of
from calib8.distributed.passes import Passes, check_node_labels
from calib8.distributed.waiting import awaited
from calib8.distributed.watch import new_watch
from calib8.distributed.workers import Equipment
from calib8.distributed.works import NOTHING, Joining
from calib8.errors import DataError, UsageError
from calib8.progress import Progress
from calib8.tensors import TensorSpec


@dataclass(frozen=True, eq=False)
class OnRay(OpenableData):
    """Stands for data where data are given.

    Attributes:
        data: see ``calib8.distributed.collect``.
        column: of a ``ray.data.Dataset``: the column that holds the samples.
        ray, workers, threads, checkpoint, mixed, node_labels: see ``ClusterChoice``.

    Raises:
        UsageError: a count below 1; a checkpoint that is no path; no Ray.
    """

    data: Any
    column: str | None = None
    ray: str = "auto"
    workers: int | None = None
    threads: int = 1
    checkpoint: str | os.PathLike[str] | None = None
    mixed: bool = False
    node_labels: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Refuses what cannot be before anything is read."""
        self.choice  # noqa: B018
        ray_there()

    @property
    def choice(self) -> ClusterChoice:
        """The cluster."""
        return ClusterChoice(
            self.ray, self.workers, self.threads, self.checkpoint, self.mixed, self.node_labels
        )

    def opened(self, inputs: Sequence[TensorSpec], reading: Reading) -> Dataset:
        """Its first samples here, all of them there.

        Raises:
            Calib8Error: what can be wrong with data or options.
        """
        first = _first_of(self, inputs, reading)
        settings = replace(reading, data=None, samples=None, labels=None, threads=self.threads)
        there = _There(self, tuple(inputs), settings, reading.samples, first.labels)
        return replace(first, elsewhere=there)


def _first_of(data: OnRay, inputs: Sequence[TensorSpec], reading: Reading) -> Dataset:
    """The dataset as one process reads it; of a ``ray.data.Dataset`` some of the first rows."""
    source = data.data
    if not isinstance(source, str | os.PathLike):
        if not hasattr(source, "map_batches"):
            problem = f"are of type {type(source).__name__}: no dataset of Ray, and no path"
            raise UsageError("data", problem, "Give a ray.data.Dataset, a path or an address")
        source = partial(_rows, data)
    found = open_dataset(
        source, inputs, reading.preprocess, labels=reading.labels, samples=reading.samples,
        skip_bad=reading.skip_bad, input_map=reading.input_map, transform=reading.transform,
    )  # fmt: skip
    return found if source is data.data else replace(found, source="dataset")


def _rows(data: OnRay, most: int = 256) -> Iterator[Any]:
    """The first rows of a dataset of Ray."""
    with connected(data.ray):
        rows = data.data.take(most)
    yield from (row if data.column is None else row[data.column] for row in islice(rows, most))


@dataclass(frozen=True, eq=False)
class _There:
    """All samples, on the cluster.

    Attributes:
        data: which.
        inputs: of the model.
        settings: how records become inputs.
        samples: at most so many.
        labels: of the samples, see ``Dataset.labels``.
    """

    data: OnRay
    inputs: tuple[TensorSpec, ...]
    settings: Reading
    samples: int | None
    labels: tuple[int | None, ...] = ()

    @property
    def mixed(self) -> bool:
        """Whether machines may be of several kinds."""
        return self.data.mixed

    @property
    def keeps(self) -> bool:
        """Whether parts of statistics are kept."""
        return self.data.checkpoint is not None

    def counted(
        self, model: ir.Model, tensors: Sequence[str], progress: Progress
    ) -> tuple[Statistics, Sequence[Skipped]]:
        """The statistics of all samples, and the bad ones that were passed over."""
        gatherer = Gatherer.of_prepared(model, tensors, self.inputs, self.settings)
        data = self.data
        part = gathered(gatherer, data.data, data.choice, data.column, self.samples, progress)
        return statistics_of(part, str(data.data)), part.skipped

    def found(self, work: Work[Any], stage: str, progress: Progress) -> Any:
        """What a work finds of all samples.

        Raises:
            Calib8Error: what a worker found wrong, or the cluster lost for good.
        """
        with connected(self.data.ray), plain_errors():
            check_node_labels(self.data.choice)
            content = _Run(self, work, stage, progress).content()
        if content == NOTHING:
            raise DataError(str(self.data.data), "gave no samples", "Give at least one")
        return pickle.loads(content)


class _Run:
    """One pass of a work."""

    def __init__(self, there: _There, work: Work[Any], stage: str, progress: Progress) -> None:
        import ray

        self._there, self._stage, self._progress = there, stage, progress
        data = there.data
        # A worker needs to know how records become inputs; it runs no model but those of the work.
        empty = Gatherer.of_prepared(_no_model(), (), there.inputs, there.settings)
        listed = listed_of(empty, data.data, data.column, there.samples)
        self._listed = None if listed is None else listed.labelled(there.labels, str(data.data))
        self._work = ray.put(work)
        self._watch = new_watch()
        self._joining = Joining(self._work, once=self._listed is not None)
        equipment = Equipment(ray.put(empty), None, self._watch)
        self._passes = Passes(equipment, self._joining, data.choice)

    def content(self) -> bytes:
        """What was found, pickled."""
        if self._listed is None:
            dataset, column = self._there.data.data, self._there.data.column
            return self._joined(partial(self._passes.work_on_blocks, dataset, self._work, column), set())
        left = {unit.key: unit for unit in self._listed.units}
        counted, found = set[str](), [NOTHING]
        while rest := [unit for key, unit in left.items() if key not in counted]:
            before = len(counted)
            found.append(self._joined(partial(self._passes.work_on_units, rest, self._work), counted))
            if len(counted) == before:
                raise DataError(rest[0].name, "was not done by any worker", "Start again")
        return self._joining.joined(found)

    def _joined(self, rows: Callable[[], Iterator[tuple[str, bytes]]], counted: set[str]) -> bytes:
        """The rows of a pass; one that holds a key that was counted is left out, with all its keys."""
        found = NOTHING
        try:
            for named, content in awaited(rows, self._look, self._watch.stop):
                keys = named.split()
                if self._joining.once and counted.intersection(keys):
                    continue
                counted.update(keys)
                found = self._joining.joined([found, content])
        except Exception as error:  # maybe that of a worker which stopped because of another one's
            _, failure = self._watch.look()
            if failure is None or failure is error:
                raise
            raise failure from error
        return found

    def _look(self) -> None:
        done, failure = self._watch.look()
        if failure is not None:
            raise failure
        self._progress(self._stage, done, None if self._listed is None else self._listed.samples)


def _no_model() -> ir.Model:
    return ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": 17}, name="none"), ir_version=8)
