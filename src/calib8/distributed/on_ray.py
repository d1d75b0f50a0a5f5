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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from calib8.calibration.gatherer import Gatherer
from calib8.calibration.statistics import Statistics
from calib8.data.opening import open_dataset
from calib8.data.reading import Reading
from calib8.data.samples import Dataset, OpenableData, Skipped
from calib8.data.whole import Work
from calib8.distributed.choice import ClusterChoice, ClusterWords
from calib8.distributed.cluster import connected, ray_there
from calib8.distributed.collecting import gathered, listed_of, statistics_of
from calib8.distributed.passes import check_node_labels, quiet_rows
from calib8.distributed.run import Run, plain_errors, rows_of_user
from calib8.distributed.works import Finding
from calib8.errors import DataError, UsageError
from calib8.parameters import parameter
from calib8.progress import Progress
from calib8.requests import requested, takes_words_of
from calib8.tensors import TensorSpec

if TYPE_CHECKING:
    from typing_extensions import Unpack


class OnRay(OpenableData):
    """Stands for data where data are given.

    Attributes:
        data: see ``calib8.distributed.collect``.
        column: of a ``ray.data.Dataset``: the column that holds the samples.
        cluster: which cluster goes through them, and how.
    """

    @takes_words_of(ClusterChoice)
    def __init__(
        self,
        data: Any,
        column: str | None = None,
        *,
        cluster: ClusterChoice | None = None,
        **words: Unpack[ClusterWords],
    ) -> None:
        """Refuses what cannot be before anything is read.

        Args:
            data, column: see above.
            cluster: in place of words.
            words: fields of ``ClusterChoice``.

        Raises:
            UsageError: a count below 1; a checkpoint that is no path; no Ray.
        """
        self.data, self.column = data, column
        self.cluster = requested(ClusterChoice, words, cluster)
        ray_there()

    def opened(self, inputs: Sequence[TensorSpec], reading: Reading) -> Dataset:
        """Its first samples here, all of them there.

        Raises:
            Calib8Error: what can be wrong with data or options.
        """
        first = _first_of(self, inputs, reading)
        settings = replace(reading, data=None, samples=None, labels=None, threads=self.cluster.threads)
        there = _There(self, tuple(inputs), settings, reading.samples, first.labels)
        return replace(first, elsewhere=there)


def _first_of(data: OnRay, inputs: Sequence[TensorSpec], reading: Reading) -> Dataset:
    """The dataset as one process reads it; of a ``ray.data.Dataset`` some of the first rows."""
    source = data.data
    if reading.framing is not None:
        problem = "are WAV files, whose frames are cut by one machine alone"
        raise UsageError(str(source), problem, f"Leave out {parameter('ray')}, or give arrays (.npz)")
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
    with connected(data.cluster.ray), plain_errors(), rows_of_user():
        first = data.data.limit(most)
        with quiet_rows(first):
            rows = list(first.iter_rows())
    yield from (row if data.column is None else row[data.column] for row in rows)


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
        return self.data.cluster.mixed

    @property
    def keeps(self) -> bool:
        """Whether parts of statistics are kept."""
        return self.data.cluster.checkpoint is not None

    def counted(
        self, model: ir.Model, tensors: Sequence[str], progress: Progress
    ) -> tuple[Statistics, Sequence[Skipped]]:
        """The statistics of all samples, and the bad ones that were passed over."""
        gatherer = Gatherer.of_prepared(model, tensors, self.inputs, self.settings)
        data = self.data
        part = gathered(gatherer, data.data, data.cluster, data.column, self.samples, progress)
        return statistics_of(part, str(data.data)), part.skipped

    def found(self, work: Work[Any], stage: str, progress: Progress) -> Any:
        """What a work finds of all samples.

        Raises:
            Calib8Error: what a worker found wrong, or the cluster lost for good.
        """
        import ray

        data, cluster = self.data, self.data.cluster
        # A worker needs to know how records become inputs; it runs no model but those of the work.
        empty = Gatherer.of_prepared(_no_model(), (), self.inputs, self.settings)
        with connected(cluster.ray), plain_errors():
            check_node_labels(cluster)
            listed = listed_of(empty, data.data, data.column, self.samples)
            listed = None if listed is None else listed.labelled(self.labels, str(data.data))
            job = Finding(ray.put(work), once=listed is not None)
            run = Run(job, empty, cluster, stage, progress, listed.samples if listed else None)
            found = run.blocks(data.data, data.column) if listed is None else run.units(listed.units)
        if found is None:
            raise DataError(str(data.data), "gave no samples", "Give at least one")
        return found


def _no_model() -> ir.Model:
    return ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": 17}, name="none"), ir_version=8)
