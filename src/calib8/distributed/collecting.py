"""``collect``: statistics of data that the workers of a cluster read, the same bytes as those of one process.

    prepare the model once  →  a pass over what is not done yet  →  merge rows  →  statistics
                                      ▲                                │
                                      └── what nobody counted ─────────┘

The driver holds the model, the keys of what is to be done, and one part at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from calib8.calibration.gatherer import Gatherer
from calib8.calibration.source import Model
from calib8.calibration.statistics import Statistics
from calib8.data.items import InputMap, Transform
from calib8.data.preprocess import Preprocess
from calib8.distributed.choice import ClusterChoice, ClusterWords
from calib8.distributed.cluster import cause_of, connected, ray_there
from calib8.distributed.listing import Listed, units_of
from calib8.distributed.merging import Merging
from calib8.distributed.part import Part
from calib8.distributed.passes import Pass, Passes, check_node_labels
from calib8.distributed.run_record import RunRecord
from calib8.distributed.store import PARTS, Store
from calib8.distributed.waiting import awaited
from calib8.distributed.watch import Told, new_watch
from calib8.distributed.workers import Equipment
from calib8.errors import Calib8Error, DataError, OutputError, UsageError
from calib8.model.runtime import runtime_version
from calib8.modules.given import Module, as_model
from calib8.parameters import parameter
from calib8.progress import Progress, ShownProgress, callback_of, draws_progress, silent
from calib8.requests import requested, takes_words_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

STAGE = "calibrating"


@draws_progress
@takes_words_of(ClusterChoice)
def collect(
    model: Model | Module,
    dataset: Any,
    *,
    column: str | None = None,
    preprocess: Preprocess | str | None = None,
    samples: int | None = None,
    input_map: InputMap | None = None,
    transform: Transform | None = None,
    keep_float: Sequence[str] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int | None = None,
    skip_bad: bool = False,
    example_inputs: object = None,
    progress: ShownProgress = None,
    **words: Unpack[ClusterWords],
) -> Statistics:
    """Statistics of all samples of a dataset, gathered by the workers of a Ray cluster.

    They are those of ``calib8.collect_statistics`` in one process, byte for byte, on CPUs of one type.
    ``calib8.calibrate(model, statistics=…)`` chooses ranges from them.

    Args:
        model: path or ModelProto of the float model, or a torch module. It is prepared here, once.
        dataset: a ``ray.data.Dataset``, or where the data lie: a folder of pictures, an .npz or an .npy that
            every machine sees under this path.
        column: of a dataset: the column that holds the samples, encoded pictures or arrays; None: the only
            one that could be meant, or those that ``input_map`` names.
        preprocess, input_map, transform, keep_float, batch, example_inputs: see ``calib8.calibrate``.
        samples: at most so many, evenly spaced; not of a ``ray.data.Dataset``, which has ``limit``.
        shapes: input name → sizes, where neither the model nor the preprocessing say them.
        skip_bad: pass over pictures that cannot be decoded.
        progress: True: a bar; or a function of the stage, the samples that all workers have done, and the
            samples in all (None where unknown).
        words: fields of ``ClusterChoice``.

    Raises:
        Calib8Error: what can be wrong with model, data or options, whoever finds it, in one line each.
    """
    choice = requested(ClusterChoice, words)
    ray_there()
    gatherer = Gatherer(
        as_model(model, example_inputs), preprocess=preprocess, keep_float=keep_float, shapes=shapes,
        input_map=input_map, transform=transform, skip_bad=skip_bad, batch=batch, threads=choice.threads,
    )  # fmt: skip
    found = gathered(gatherer, dataset, choice, column, samples, callback_of(progress))
    return statistics_of(found, str(dataset) if isinstance(dataset, str | os.PathLike) else "dataset")


def statistics_of(found: Part, source: str) -> Statistics:
    """The statistics of a whole run.

    Raises:
        DataError: it had no good sample.
    """
    if found.statistics is None:
        bad = f", {found.bad} bad ones were skipped" if found.bad else ""
        raise DataError(source, f"gave no samples{bad}", "Give at least one")
    return found.statistics


def gathered(
    gatherer: Gatherer,
    dataset: Any,
    choice: ClusterChoice,
    column: str | None = None,
    samples: int | None = None,
    progress: Progress = silent,
) -> Part:
    """What ``collect`` makes statistics of: with the bad pictures that were passed over.

    Raises:
        Calib8Error: see ``collect``.
    """
    listed = listed_of(gatherer, dataset, column, samples)
    with connected(choice.ray), plain_errors():
        check_node_labels(choice)
        store = choice.store
        kept = set[str]() if store is None else _agreed(gatherer, listed, store)
        run = _Run(gatherer, choice, store, progress, listed.samples if listed else None)
        found = run.blocks(dataset, column, kept) if listed is None else run.units(listed, kept)
    if found.skipped and not gatherer.settings.skip_bad:
        bad = found.skipped[0]
        cure = f"Give another {PARTS}, or pass over it with {parameter('skip_bad', True)}"
        raise DataError(bad.name, bad.reason, cure)
    return found


def listed_of(gatherer: Gatherer, dataset: Any, column: str | None, samples: int | None) -> Listed | None:
    """The units of a source that is named; None: Ray has blocks of it."""
    if isinstance(dataset, str | os.PathLike):
        if column is not None:
            raise UsageError("column", "is for a ray.data.Dataset", "Leave it out")
        return units_of(os.fspath(dataset), gatherer, samples)
    if not hasattr(dataset, "map_batches"):
        problem = f"a {type(dataset).__name__} is no dataset of Ray, and no path"
        raise UsageError("dataset", problem, "Give a ray.data.Dataset, a path or an address")
    if samples is not None:
        raise UsageError(parameter("samples"), "is not for a ray.data.Dataset", "Give dataset.limit(N)")
    return None


def _agreed(gatherer: Gatherer, listed: Listed | None, store: Store) -> set[str]:
    """Keys of the parts that are there already, which are of this run."""
    RunRecord.of(
        gatherer.model_hash, gatherer.tensors, None if listed is None else listed.preprocess,
        None if listed is None else listed.digest, runtime_version(),
    ).agree(store)  # fmt: skip
    return store.keys()


@dataclass
class _Run:
    """One run: what all its passes share, and what was counted so far."""

    gatherer: Gatherer
    choice: ClusterChoice
    store: Store | None
    progress: Progress
    total: int | None
    found: Part = field(default_factory=Part)
    counted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        import ray

        self.watch: Told = new_watch()
        self.resumed, self.shown = 0, -1
        self.reference = ray.put(self.gatherer)

    def units(self, listed: Listed, kept: set[str]) -> Part:
        """All units, those in the store without doing them again."""
        passes, merging = self._passes(once=True)
        left = {unit.key: unit for unit in listed.units}
        there = sorted(left.keys() & kept)
        if there:
            self._take(merging, partial(passes.over_keys, there))
            self.resumed = self.found.samples + self.found.bad
        while rest := [unit for key, unit in left.items() if key not in self.counted]:
            before = len(self.counted)
            self._take(merging, partial(passes.over_units, rest))
            if len(self.counted) == before:
                raise DataError(rest[0].name, "was not done by any worker", "Start again")
        return self.found

    def blocks(self, dataset: Any, column: str | None, kept: set[str]) -> Part:
        """All blocks of a dataset of Ray."""
        passes, merging = self._passes(once=False)
        self._take(merging, partial(passes.over_blocks, dataset, column, frozenset(kept)))
        return self.found

    def _passes(self, *, once: bool) -> tuple[Passes, Merging]:
        merging = Merging(self.store, self.choice.mixed, once)
        return Passes(Equipment(self.reference, self.store, self.watch), merging, self.choice), merging

    def _take(self, merging: Merging, rows: Pass) -> None:
        """Adds the rows of a pass; one that holds a key that was counted is left out, with all its keys."""
        try:
            for named, content in awaited(rows, self._look, self.watch.stop):
                keys = named.split()
                if merging.once and self.counted.intersection(keys):
                    continue
                self.counted.update(keys)
                self.found = merging.merged([self.found, merging.part(keys, content)])
        except Exception as error:  # maybe that of a worker which stopped because of another one's
            _, failure = self.watch.look()
            if failure is None or failure is error:
                raise
            raise failure from error

    def _look(self) -> None:
        """Tells how far all workers are; ends the run where one of them found what ends it."""
        done, failure = self.watch.look()
        if failure is not None:
            raise failure
        if done != self.shown:
            self.shown = done
            self.progress(STAGE, self.resumed + done, self.total)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors of the cluster as those of one process."""
    try:
        yield
    except Exception as error:  # Ray wraps what its workers raise in types of its own
        cause = cause_of(error)
        if cause is error and isinstance(error, Calib8Error):
            raise
        if isinstance(cause, Calib8Error):
            raise cause from error
        if isinstance(cause, OSError):
            cure = "Look at the machine or store that it speaks of, then start again"
            raise OutputError("cluster", f"could not go on ({cause})", cure) from error
        raise
