"""How a run is spread over a cluster, as one value."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from calib8.distributed.store import Store
from calib8.processors import refuse_many_threads
from calib8.progress import check_positive
from calib8.requests import Request


@dataclass(frozen=True)
class ClusterChoice(Request):
    """Which cluster, how many workers, and where their parts are kept.

    Attributes:
        ray: ``auto``, ``local`` or ``host:port``, see ``calib8.distributed.cluster.connected``; where the
            process has joined a cluster already, that is taken.
        workers: at most so many; None: as many as the cluster has processors for.
        threads: of one worker, for decoding, the float model and counting; each takes a processor.
        checkpoint: a folder that all machines see, or an address such as ``s3://bucket/run``, where the part
            of every unit is kept as soon as it is done; a run that is started again does not do these.
        mixed: take what was found on machines that compute other bits.
        node_labels: only machines with these labels of Ray's work, such as those of one CPU type.

    Raises:
        UsageError: a count below 1; a checkpoint that is no path.
    """

    ray: str = "auto"
    workers: int | None = None
    threads: int = 1
    checkpoint: str | os.PathLike[str] | None = None
    mixed: bool = False
    node_labels: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Refuses what is no number of workers, and no place."""
        super().__post_init__()
        check_positive("workers", 1 if self.workers is None else self.workers)
        check_positive("threads", self.threads)
        refuse_many_threads(self.threads)
        if self.checkpoint is not None:
            Store.at(self.checkpoint)

    @property
    def store(self) -> Store | None:
        """Where parts are kept."""
        return None if self.checkpoint is None else Store.at(self.checkpoint)


class ClusterWords(TypedDict, total=False):
    """The fields of a ``ClusterChoice``, as keywords."""

    ray: str
    workers: int | None
    threads: int
    checkpoint: str | os.PathLike[str] | None
    mixed: bool
    node_labels: Mapping[str, str] | None
