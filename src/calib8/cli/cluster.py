"""``--ray``: statistics that a cluster gathers, in place of those of this process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final

from calib8.cli.headings import CLUSTER, option
from calib8.cli.options import RangeOptions, StatisticsOptions
from calib8.cli.progress import shown_progress
from calib8.cli.steps import check_ranges, refuse_together
from calib8.cli.terminal import Terminal
from calib8.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calib8.data.reading import Reading
    from calib8.distributed.choice import ClusterChoice
    from calib8.model.load import ModelSource
    from calib8.pipeline import Calibration

_RAY_HELP: Final = (
    "Gather on a cluster of Ray: auto (RAY_ADDRESS, or one that runs on this machine), local (one that is "
    "started for this run) or HOST:PORT."
)
_WORKERS_HELP: Final = "With --ray: at most so many workers. Default: as many as there are processors for."
_PARTS_HELP: Final = (
    "With --ray: keep what is done here, a folder that all machines see or an address such as "
    "s3://bucket/run; a run that is started again does not do it again."
)
_MIXED_HELP: Final = "With --ray: machines may be of several CPU types, whose statistics differ in last bits."


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Which cluster gathers statistics; None: this process does."""

    ray: Annotated[str | None, option(CLUSTER, "--ray", "ADDRESS", _RAY_HELP)] = None
    workers: Annotated[int | None, option(CLUSTER, "--workers", "N", _WORKERS_HELP)] = None
    parts: Annotated[str | None, option(CLUSTER, "--parts", "DIR|URL", _PARTS_HELP)] = None
    mixed: Annotated[bool, option(CLUSTER, "--mixed", None, _MIXED_HELP)] = False

    def choice(self, threads: int | None) -> ClusterChoice:
        """The request that these options are; workers have one thread where nothing else was said.

        Raises:
            UsageError: a count below 1.
        """
        from calib8.distributed.choice import ClusterChoice

        return ClusterChoice(self.ray or "auto", self.workers, threads or 1, self.parts, self.mixed)


def check_cluster(cluster: ClusterOptions, saved: StatisticsOptions, ranges: RangeOptions) -> None:
    """Refuses what does not go with a cluster before any work is done, and options of one without it.

    Raises:
        UsageError: it does not; Ray is missing or too old.
    """
    if cluster.ray is None:
        given = {"--workers": cluster.workers, "--parts": cluster.parts, "--mixed": cluster.mixed}
        refuse_together("no --ray", given, "Give --ray too")
        return
    refuse_together(
        "--ray",
        {
            "--from-stats": saved.from_stats,
            "--shard": saved.shard,
            "--checkpoint": saved.checkpoint,
            "--checkpoint-every": saved.checkpoint_every,
        },
        "Leave it out; --parts keeps what is done",
    )
    try:
        check_ranges(ranges, from_statistics=True)
    except UsageError as error:
        if ranges.method is None:
            raise
        cure = "Choose another method, or leave out --ray"
        raise UsageError(f"--method {ranges.method}", "cannot choose from statistics alone", cure) from error
    cluster.choice(None)
    from calib8.distributed.cluster import ray_there

    ray_there()


def calibrated_on_cluster(
    terminal: Terminal,
    model: ModelSource,
    reading: Reading,
    choice: ClusterChoice,
    ranges: RangeOptions,
    keep_float: Sequence[str],
) -> tuple[Calibration, int]:
    """Ranges from the statistics that a cluster gathers, and how many samples these are of.

    Raises:
        Calib8Error: what can be wrong with model, data, options or the cluster.
    """
    from calib8 import pipeline
    from calib8.calibration.gatherer import Gatherer
    from calib8.distributed.collect import gathered, statistics_of

    with shown_progress(terminal, "preparing the model", "choosing ranges") as progress:
        gatherer = Gatherer(
            model, preprocess=reading.preprocess, keep_float=keep_float, skip_bad=reading.skip_bad,
            batch=reading.batch, threads=choice.threads,
        )  # fmt: skip
        part = gathered(gatherer, reading.data, choice, samples=reading.samples, progress=progress)
        statistics = statistics_of(part, str(reading.data))
        found = pipeline.calibrate(
            model, statistics=statistics, ranges=ranges.choice(), activations=ranges.activations,
            keep_float=keep_float, threads=reading.threads,
        )  # fmt: skip
    dataset = replace(reading.opened(gatherer.inputs), skipped=list(part.skipped))
    return replace(found, dataset=dataset), part.samples
