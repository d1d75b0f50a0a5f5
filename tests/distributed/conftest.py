"""A cluster of Ray in this process's machine, which leaves no process behind."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from needed import needed

# Set before Ray is imported: nothing asks the network, nothing is written outside the session, and a busy
# machine starts it too. Workers are as important as the test that waits for them.
for name, value in {
    "RAY_AUTH_MODE": "disabled",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "300",
}.items():
    os.environ.setdefault(name, value)

STORE_BYTES = 80 << 20
"""Of Ray's object store on a node: the least that it takes is 75 MiB."""


def node_options(processors: int) -> dict[str, Any]:
    """A node of a cluster. Ports that are given are not waited for, which a busy machine takes too long for."""
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


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray with a cluster of one node and two processors."""
    with cluster_of(2):
        import ray

        yield ray
