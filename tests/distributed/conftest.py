"""A cluster of Ray in this process's machine, which leaves no process behind."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
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
"""Of Ray's object store: the least that it takes is 75 MiB."""


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray with a cluster of two processors."""
    needed("ray")
    import ray

    ray.init(
        address="local", num_cpus=2, include_dashboard=False, object_store_memory=STORE_BYTES,
        log_to_driver=False, logging_level=logging.ERROR,
    )  # fmt: skip
    yield ray
    ray.shutdown()
