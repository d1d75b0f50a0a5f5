"""Statistics of records as they come: the model is prepared once and opened once, for any number of calls.

    add(records)   counts them                    add(records)      take()  →  statistics of both
    pickle         carries the prepared model and the settings, and nothing that was counted

Statistics merge exactly, so those of many gatherers are those of one run through all records, wherever and in
whatever order they were added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from calib8.calibration.collect import Collector
from calib8.calibration.gather import preprocess_text, taken_in
from calib8.calibration.origin import this_origin
from calib8.calibration.source import Model, prepare_for_table, tensors_to_calibrate
from calib8.calibration.statistics import Statistics
from calib8.data.batches import batches
from calib8.data.digests import DigestLog, lowest_digests
from calib8.data.items import InputMap, Transform
from calib8.data.preprocess import Preprocess
from calib8.data.reading import Reading
from calib8.data.samples import Dataset, DataSource, Skipped
from calib8.errors import UsageError
from calib8.model.carried import Carried
from calib8.model.graph import graph_inputs, model_hash
from calib8.model.load import naming_file
from calib8.requests import checks_types
from calib8.tensors import TensorSpec

if TYPE_CHECKING:
    from typing_extensions import Self


class Gatherer:
    """Counts what a float model computes for records, one call after another.

    It may be pickled, or put into an object store: the copy has the prepared model, so that a worker neither
    reads nor prepares it, and begins with nothing counted.

    Attributes:
        skipped: bad pictures that were passed over since the last ``take``.
    """

    @checks_types
    def __init__(
        self,
        model: Model,
        *,
        preprocess: Preprocess | str | None = None,
        keep_float: Sequence[str] = (),
        shapes: Mapping[str, Sequence[int]] | None = None,
        input_map: InputMap | None = None,
        transform: Transform | None = None,
        skip_bad: bool = False,
        batch: int | None = None,
        threads: int = 1,
        fix: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepares the model, which is run on made-up inputs for that.

        Args:
            model: path or ModelProto of the float model.
            preprocess, input_map, transform: how records become inputs, see ``calib8.calibrate``.
            keep_float: names of nodes that will stay float.
            shapes: input name → sizes, where neither the model nor the preprocessing say them.
            skip_bad: pass over pictures that cannot be decoded, see ``skipped``.
            batch: samples per run, None for what is fastest; no result depends on it.
            threads: for decoding, the float model and counting; no result depends on it.
            fix: input name → the value that it always has, see ``calib8.data.reading.Reading``.

        Raises:
            Calib8Error: what can be wrong with model or options, in one line each.
        """
        settings = Reading(
            None, preprocess, batch=batch, threads=threads, skip_bad=skip_bad, shapes=shapes,
            input_map=input_map, transform=transform, fix=fix,
        )  # fmt: skip
        original, prepared = prepare_for_table(model, settings)
        with naming_file(original):
            tensors = tensors_to_calibrate(prepared.model, prepared.nodes_called(keep_float))
        read = replace(settings, shapes=None, fix=None)
        self._begin(prepared.model, tensors, tuple(graph_inputs(original)), read)

    @classmethod
    def of_prepared(
        cls, model: ir.Model, tensors: Sequence[str], inputs: Sequence[TensorSpec], settings: Reading
    ) -> Self:
        """One for a model that is prepared already.

        Args:
            model: the prepared graph.
            tensors: what is counted.
            inputs: those of the model as it was loaded.
            settings: how records are read; without data and shapes.
        """
        found = cls.__new__(cls)
        found._begin(model, tensors, tuple(inputs), settings)
        return found

    def _begin(
        self, model: ir.Model, tensors: Sequence[str], inputs: tuple[TensorSpec, ...], settings: Reading
    ) -> None:
        self._model, self._tensors, self._inputs, self._settings = model, tuple(tensors), inputs, settings
        self._collector: Collector | None = None
        self._forget()

    def _forget(self) -> None:
        self.skipped: list[Skipped] = []
        self._preprocess: str | None = None
        self._digests: tuple[bytes, ...] = ()

    @property
    def model_hash(self) -> str:
        """That of the prepared model, as its statistics have it."""
        return model_hash(self._model)

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the tensors that are looked at."""
        return self._tensors

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Those of the model."""
        return self._inputs

    @property
    def settings(self) -> Reading:
        """How records are read."""
        return self._settings

    @property
    def samples(self) -> int:
        """Samples that were added since the last ``take``."""
        return 0 if self._collector is None else self._collector.samples

    def add(self, records: DataSource) -> int:
        """Counts records; returns how many samples they were.

        Args:
            records: anything that ``calib8.calibrate`` takes as data: a list of encoded pictures, arrays or
                ``{input name: array}``, a batch, a path …

        Raises:
            Calib8Error: a record is bad and not to be passed over, or does not fit the model; nothing that
                was added since the last ``take`` counts then.
        """
        try:
            opened = replace(self._settings, data=records).opened(self._inputs)
            dataset = replace(opened, taken=int(opened.skip_bad))  # no fault that none of these is good
            return self._added(dataset)
        except BaseException:  # Ctrl-C too: some samples are counted by then, and are not noted
            self.close()
            raise

    def _added(self, dataset: Dataset) -> int:
        collector = self._opened()
        before, log, threads = collector.samples, DigestLog(dataset), self._settings.threads
        most = self._settings.batch or collector.batch_size
        with closing(batches(log.dataset, most, threads)) as pieces:
            for _ in taken_in(collector, log, pieces):
                pass
        self.skipped.extend(dataset.skipped)
        self._preprocess = self._preprocess or preprocess_text(dataset)
        self._digests = lowest_digests(self._digests, log.digests())
        return collector.samples - before

    def _opened(self) -> Collector:
        if self._collector is None:
            self._collector = Collector(self._model, self._tensors, threads=self._settings.threads)
        return self._collector

    def take(self) -> Statistics:
        """The statistics of what was added since the last ``take``; the next records begin anew.

        Raises:
            UsageError: nothing was added.
        """
        if not self.samples:
            raise UsageError("Gatherer", "has nothing to give", "Add records before each take")
        collector = self._opened()
        found = replace(
            collector.statistics(), preprocess=self._preprocess, origins=(this_origin(),),
            digests=self._digests,
        )  # fmt: skip
        collector.clear()
        self._forget()
        return found

    def close(self) -> None:
        """Ends the model and forgets what was counted; ``add`` opens it again."""
        if self._collector is not None:
            self._collector.close()
        self._collector = None
        self._forget()

    def __enter__(self) -> Self:
        """Itself, closed at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Gatherer], tuple[Any, ...]]:
        """The prepared model and the settings."""
        return _again, (Carried(self._model), self._tensors, self._inputs, self._settings)


def _again(
    carried: Carried, tensors: Sequence[str], inputs: tuple[TensorSpec, ...], settings: Reading
) -> Gatherer:
    return Gatherer.of_prepared(carried.model, tensors, inputs, settings)
