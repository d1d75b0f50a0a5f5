"""Models of ONNX Runtime's quantizer, which drops activations, are taken apart like calib8's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compared import images
from onnxruntime.quantization import QuantFormat, QuantType
from small_nets import NETS
from test_compare_foreign import foreign

from calib8.analysis.diagnose import diagnose


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"activation_type": QuantType.QInt8, "per_channel": False},
        {"extra_options": {"AddQDQPairToWeight": True}},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["residual", "conv_chain", "squeeze_excite"])
def test_a_sound_model_of_another_tool(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    found = diagnose(NETS[name](), foreign(tmp_path, QuantFormat.QDQ, name, **options), images(4), threads=1)
    assert found.fallback == "" and found.sqnr_db > 25.0
    assert all(loss.damage.both > found.sqnr_db for loss in found.layers)
    # the normalization of one network has made up statistics
    assert {finding.reason.cause for finding in found.findings} <= {"codes", "statistics"}
    layers = [loss for loss in found.layers if loss.row.op_type == "Conv"]
    assert layers and all(loss.damage.weights is not None for loss in layers)
