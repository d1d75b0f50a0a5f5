"""Clusters of Ray on this machine, which leave no process behind."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from needed import needed

STORE_BYTES = 80 << 20
"""Of Ray's object store on a node: the least that it takes is 75 MiB."""


def node_options(processors: int) -> dict[str, Any]:
    """A node of a cluster; ports that are given are not waited for, which busy machines take too long for."""
    names = ("dashboard_agent_listen_port", "metrics_agent_port", "metrics_export_port",
             "runtime_env_agent_port")  # fmt: skip
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in names]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ports = {name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)}
    return {
        "num_cpus": processors, "include_dashboard": False, "object_store_memory": STORE_BYTES, **ports,
    }  # fmt: skip


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
