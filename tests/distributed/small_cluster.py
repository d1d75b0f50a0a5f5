"""Clusters of Ray on this machine, which leave no process behind."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from needed import needed

STORE_BYTES = 80 << 20
"""Of Ray's object store on a node: the least that it takes is 75 MiB."""


def node_options(processors: int) -> dict[str, Any]:
    """A node of a cluster."""
    return {"num_cpus": processors, "include_dashboard": False, "object_store_memory": STORE_BYTES}


@contextmanager
def cluster_of(*processors: int) -> Iterator[Any]:
    """A cluster with a node for each number of processors, which this process has joined."""
    needed("ray")
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=node_options(processors[0]))
    try:
        for more in processors[1:]:
            cluster.add_node(**node_options(more))
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
