"""Models of all tools keep the guarantees of the canonical form, and the form is reached in one go."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
from canonical_checks import check_guarantees

from calib8.model.graph import model_hash
from calib8.program.lower.canonical import canonical_qdq

MODELS = sorted((Path(__file__).parents[3] / "foreign").glob("*.onnx"))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_guarantees_hold(path: Path) -> None:
    proto = onnx.load(path)
    model = canonical_qdq(ir.from_proto(proto))
    check_guarantees(model, proto)
    again = canonical_qdq(model)
    assert model_hash(again) == model_hash(model)


def test_there_are_models() -> None:
    assert len(MODELS) > 50
