"""``collect``: statistics of data that the workers of a cluster read, the same bytes as those of one process.

prepare the model once  →  a run (``run``) that counts, but for what is in the store  →  statistics
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calib8.calibration.gatherer import Gatherer
from calib8.calibration.source import Model
from calib8.calibration.statistics import Statistics
from calib8.data.fit import fit_preprocess
from calib8.data.items import InputMap, Transform
from calib8.data.preprocess import Preprocess
from calib8.distributed.choice import ClusterChoice, ClusterWords
from calib8.distributed.cluster import connected, ray_there
from calib8.distributed.counting import Counting
from calib8.distributed.listing import Listed, units_of
from calib8.distributed.part import Part
from calib8.distributed.passes import check_node_labels
from calib8.distributed.run import Run, plain_errors
from calib8.distributed.run_record import RunRecord
from calib8.distributed.store import PARTS, Store
from calib8.errors import DataError, UsageError
from calib8.model.runtime import runtime_version
from calib8.modules.given import Module, as_model
from calib8.parameters import parameter
from calib8.progress import Progress, ShownProgress, callback_of, draws_progress, silent
from calib8.requests import requested, takes_words_of
from calib8.type_texts import a_type

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
    fix: Mapping[str, Any] | None = None,
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
        preprocess, input_map, transform, keep_float, batch, example_inputs, fix: see ``calib8.calibrate``.
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
        fix=fix,
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
        job = Counting(store, choice.mixed, once=listed is not None)
        run = Run(job, gatherer, choice, STAGE, progress, listed.samples if listed else None)
        if listed is None:
            found = run.blocks(dataset, column, frozenset(kept))
        else:
            if there := sorted(kept.intersection(unit.key for unit in listed.units)):
                found = run.keys(there)
                run.before = found.samples
                progress(STAGE, run.before, listed.samples)
            found = run.units(listed.units)
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
        problem = f"{a_type(dataset)} is no dataset of Ray, and no path"
        raise UsageError("dataset", problem, "Give a ray.data.Dataset, a path or an address")
    if samples is not None:
        raise UsageError(parameter("samples"), "is not for a ray.data.Dataset", "Give dataset.limit(N)")
    return None


def _agreed(gatherer: Gatherer, listed: Listed | None, store: Store) -> set[str]:
    """Keys of the parts that are there already, which are of this run."""
    given = gatherer.settings
    preprocess = listed.preprocess if listed else None
    if listed is None and given.preprocess is not None:
        preprocess = fit_preprocess(given.preprocess, gatherer.inputs, "dataset").to_json()
    RunRecord.of(
        gatherer.model_hash, gatherer.tensors, preprocess, listed.digest if listed else None,
        runtime_version(), given.input_map, given.transform,
    ).agree(store)  # fmt: skip
    return store.keys()
