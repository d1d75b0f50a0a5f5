"""The int8 model with a free batch axis and with none; what is lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir
import pytest
from session_models import quantized

from calib8.program.lower.lower import lower
from calib8.program.program import Program


@pytest.fixture(scope="module")
def proto() -> onnx.ModelProto:
    return quantized()


@pytest.fixture(scope="module")
def fixed() -> onnx.ModelProto:
    return quantized("1,3,6,6")


@pytest.fixture
def lowered_shapes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of x for which a model was lowered, in order."""
    seen: list[tuple[int, ...]] = []

    def counted(model: ir.Model, *, shapes: Mapping[str, Sequence[int]], **options: Any) -> Program:
        seen.append(tuple(shapes["x"]))
        return lower(model, shapes=shapes, **options)

    monkeypatch.setattr("calib8.session.models.lower", counted)
    return seen
