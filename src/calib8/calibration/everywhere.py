"""``gather``, here or where the samples lie.

here         one pass
elsewhere    statistics of all samples come from there; then the samples of lowest digest, which run here
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from calib8.calibration.gather import Gathered, Gathering, gather
from calib8.calibration.lowest import LowestWork, keep_here, lowest_wanted
from calib8.calibration.moving import EMA
from calib8.data.samples import Dataset
from calib8.errors import DataError, UsageError
from calib8.parameters import parameter
from calib8.progress import Progress


def gathered(
    model: ir.Model,
    tensors: Sequence[str],
    dataset: Dataset,
    how: Gathering,
    progress: Progress,
) -> Gathered:
    """See ``calib8.calibration.gather.gather``.

    Raises:
        UsageError: the samples lie elsewhere, and what is asked for can only be told here.
        Calib8Error: as ``gather``, and what can be wrong elsewhere.
    """
    if dataset.elsewhere is None:
        return gather(model, tensors, dataset, how, progress)
    _refuse(how)
    statistics, dataset.skipped[:] = dataset.elsewhere.counted(model, tensors, progress)
    if not statistics.samples:
        raise DataError(dataset.source, "gave no samples", "Give at least one")
    wanted = lowest_wanted(statistics.digests, dataset.rows_per_batch)
    found = dataset.elsewhere.found(LowestWork(wanted), "fetching samples", progress)
    keep_here(dataset, found, wanted)
    if not how.keep:
        return Gathered(statistics)
    few = replace(dataset, elsewhere=None, count=len(found), skipped=[])
    here = gather(model, tensors, few, replace(how, bins=False), progress)
    return Gathered(statistics, kept=here.kept)


def _refuse(how: Gathering) -> None:
    where = "is not for data that lie elsewhere"
    if how.decay is not None:
        problem = "depends on the order of the samples, and other machines keep none"
        raise UsageError(parameter("method", EMA), problem, f"Use {parameter('method', 'mean-minmax')}")
    if how.shard is not None:
        raise UsageError(parameter("shard"), where, "Leave it out: every machine takes its part by itself")
    if how.checkpoint:
        cure = "Name a place for the parts where the data are named"
        raise UsageError(parameter("checkpoint"), where, cure)
