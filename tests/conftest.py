"""What tests share: seeded hypothesis, the marks of the tiers, the folder of real models and images."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from slow_cases import thinned_out
from tiers import TIERS, files, left_out

# Workers share the processors: threads that PyTorch and NumPy start by themselves would only wait for others.
# Set before either is imported. The core and ONNX Runtime have other threads, asked for by number.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Threads share every step, however small the case: what is compared is how kernels divide it.
os.environ.setdefault("CALIB8_SHARE_ALL", "1")

# Every test lowers what it opens, whatever was opened on this machine before.
os.environ["CALIB8_CACHE"] = "off"

# Every graph that a test lowers is held against what the canonical form guarantees.
os.environ.setdefault("CALIB8_CHECK_LOWERING", "1")

settings.register_profile(
    "calib8", derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("wide", deadline=None, max_examples=1000, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "calib8"))

TESTS = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where one tier is asked for and nothing else, the other files are not imported."""
    path = collection_path.relative_to(TESTS).as_posix()
    return left_out(path, config.getoption("markexpr")) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests bear the marks of their files; of those that are thinned out, the other cases are slow."""
    for tier in TIERS:
        paths = {TESTS / path for path in files(tier)}
        for item in items:
            if item.path in paths:
                item.add_marker(tier)
    for item in items:
        if thinned_out(item):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def _cpu_with_vnni(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users are told nothing of saturated sums, whatever CPU runs the tests."""
    monkeypatch.setattr("calib8.analysis.saturation_here.saturates_here", lambda: False)


SHARED_DATA = Path(__file__).parents[1].parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real models and labelled images; present in CI, absent on a user's machine."""
    folder = Path(os.environ.get("CALIB8_SHARED_DATA", SHARED_DATA))
    if folder.is_dir():
        return folder
    if os.environ.get("CI"):
        pytest.fail(f"{folder} is missing: CI must run the tests on real models")
    pytest.skip(f"{folder} is missing: tests on real models and images do not run")
