"""Ray as all tests have it: it asks no network and writes nothing outside of its session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from small_cluster import cluster_of

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


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray with a cluster of one node and two processors."""
    with cluster_of(2):
        import ray

        yield ray
