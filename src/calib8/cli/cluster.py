"""``--ray``: data that a cluster goes through, in place of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from calib8.cli.headings import CLUSTER, option
from calib8.cli.pairs import pairs_of
from calib8.cli.steps import refuse_together
from calib8.errors import UsageError

if TYPE_CHECKING:
    from calib8.data.reading import Reading
    from calib8.distributed.choice import ClusterChoice

_RAY_HELP: Final = (
    "Go through the data on a cluster of Ray: auto (RAY_ADDRESS, or one that runs on this machine), local "
    "(one that is started for this run) or HOST:PORT."
)
_WORKERS_HELP: Final = "With --ray: at most so many workers. Default: as many as there are processors for."
_PARTS_HELP: Final = (
    "With --ray: keep what is done here, a folder that all machines see or an address such as "
    "s3://bucket/run; a run that is started again does not do it again."
)
_LABELS_HELP: Final = "With --ray: only machines with these labels of Ray's, such as cpu=icelake."
_MIXED_HELP: Final = "With --ray: machines may be of several CPU types, whose results differ in last bits."


@dataclass(frozen=True, kw_only=True)
class JudgingClusterOptions:
    """Which cluster goes through the data, of which nothing is kept; None: this process does."""

    ray: Annotated[str | None, option(CLUSTER, "--ray", "ADDRESS", _RAY_HELP)] = None
    workers: Annotated[int | None, option(CLUSTER, "--workers", "N", _WORKERS_HELP)] = None
    mixed: Annotated[bool, option(CLUSTER, "--mixed", None, _MIXED_HELP)] = False
    node_labels: Annotated[str | None, option(CLUSTER, "--node-labels", "KEY=VALUE,…", _LABELS_HELP)] = None

    def choice(self, threads: int | None = None) -> ClusterChoice:
        """The same for the rooms below; ``threads``: of a worker, None: one.

        Raises:
            UsageError: a count below 1, labels that are none.
        """
        from calib8.distributed.choice import ClusterChoice

        text, labels = self.node_labels, None
        if text is not None:
            cure = "Give pairs with commas between"
            labels = pairs_of(f"--node-labels {text}", text.split(","), "KEY=VALUE", cure)
        address = self.ray or "auto"
        return ClusterChoice(address, self.workers, threads or 1, self.kept_in, self.mixed, labels)

    @property
    def kept_in(self) -> str | None:
        """Where parts of statistics are kept; None: nowhere."""
        return None

    def spreading(self, threads: int | None) -> Callable[[Reading], AbstractContextManager[Reading]]:
        """``spread`` with so many threads of a worker."""
        return partial(self.spread, threads=threads)

    @contextmanager
    def spread(self, reading: Reading, threads: int | None = None) -> Iterator[Reading]:
        """The reading with data that the cluster goes through, which is joined for the time of the block.

        Args:
            reading: what is read.
            threads: of a worker; None: one.

        Raises:
            UsageError: a count below 1, no Ray, or no cluster there.
        """
        if self.ray is None:
            yield reading
            return
        from calib8.distributed.cluster import connected
        from calib8.distributed.on_ray import OnRay

        data = OnRay(reading.data, cluster=self.choice(threads))
        with connected(self.ray):
            yield replace(reading, data=data)


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(JudgingClusterOptions):
    """Which cluster goes through the data, and where what it counts is kept; None: this process does."""

    parts: Annotated[str | None, option(CLUSTER, "--parts", "DIR|URL", _PARTS_HELP)] = None

    @property
    def kept_in(self) -> str | None:
        """Where parts of statistics are kept; None: nowhere."""
        return self.parts


def check_cluster(
    cluster: ClusterOptions, beside: Mapping[str, object], method: str | None, data: str | None
) -> None:
    """Refuses what does not go with a cluster before any work is done, and options of one without it.

    Args:
        cluster: the options.
        beside: options of one process → what was given, None or False where nothing was.
        method: that chooses ranges; None: not named.
        data: what is gone through; None: nothing.

    Raises:
        UsageError: it does not go; Ray is missing or too old.
    """
    if cluster.ray is None:
        _refuse_without(cluster, {"--parts": cluster.parts})
        return
    refuse_together("--ray", beside, "Leave it out; --parts keeps what is done")
    if data is None:
        raise UsageError(f"--ray {cluster.ray}", "needs data to go through", "Give --data")
    if method == "ema":
        problem = "depends on the order of the samples, and a cluster keeps none"
        raise UsageError("--method ema", problem, "Use --method mean-minmax")
    _check_there(cluster)


def check_judging_cluster(cluster: JudgingClusterOptions, task: str | None) -> None:
    """Refuses what does not go with judging on a cluster before any work is done.

    Args:
        cluster: the options.
        task: whose judge goes through the samples; None: none.

    Raises:
        UsageError: it does not go; Ray is missing or too old.
    """
    if cluster.ray is None:
        _refuse_without(cluster, {})
        return
    cure = "Leave it out, or judge a part of the data without --ray, with --samples"
    refuse_together("--ray", {"--task": task}, cure)
    _check_there(cluster)


def _refuse_without(cluster: JudgingClusterOptions, more: Mapping[str, object]) -> None:
    """Refuses options of a cluster, ``more`` of them too, where there is none."""
    given = {
        "--workers": cluster.workers, **more, "--mixed": cluster.mixed, "--node-labels": cluster.node_labels
    }  # fmt: skip
    refuse_together("no --ray", given, "Give --ray too")


def _check_there(cluster: JudgingClusterOptions) -> None:
    """Refuses options that cannot be, and a Ray that is missing or too old."""
    from calib8.distributed.cluster import ray_there

    cluster.choice()
    ray_there()
