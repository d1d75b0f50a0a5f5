"""What tests of training share."""

from __future__ import annotations

import pytest
import torch

from calib8.modules import export


@pytest.fixture
def quick_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """TorchScript's exporter, which takes a tenth of the time; tests of the export itself have both."""
    monkeypatch.setitem(export.export_traced.__kwdefaults__, "_dynamo", False)


@pytest.fixture(autouse=True)
def same_dropouts() -> None:
    """Random numbers that do not depend on the tests before."""
    torch.manual_seed(0)
