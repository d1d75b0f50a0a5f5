"""Models of ONNX Runtime's quantizer, which drops activations, are taken apart like calib8's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from compared import images
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from test_compare_foreign import foreign

import calib8
from broken_nets import detector, samples
from calib8.analysis.diagnose import diagnose
from small_nets import NETS


@pytest.mark.one_in(3)
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


def test_a_concat_of_another_tool_goes_by_the_name_that_quantize_takes(tmp_path: Path) -> None:
    proto, data = detector(), samples()
    for node in proto.graph.node:
        node.name = ""
    onnx.save(proto, tmp_path / "float.onnx")
    reader = Batches(data)
    quantize_static(
        str(tmp_path / "float.onnx"), str(tmp_path / "int8.onnx"), reader, quant_format=QuantFormat.QDQ
    )
    int8 = onnx.load(tmp_path / "int8.onnx")
    for node in int8.graph.node:
        node.name = ""
    found = diagnose(proto, int8, data, threads=1)
    first = found.findings[0]
    assert (first.node, first.reason.cause) == ("detections_out", "branches") and first.gain_db > 10.0
    assert first.floats[0] == "detections_out"
    again = calib8.quantize(
        proto, data, method="mse", repair=("none",), keep_float=[*first.floats, first.node or ""], threads=1
    )
    assert "Concat" in {d.op_type for d in again.placement.decisions if not d.quantized}
    for loss in found.layers:
        assert loss.row.node is None or again.prepared.nodes_called([loss.row.node])


class Batches(CalibrationDataReader):  # type: ignore[misc]
    """Samples as ONNX Runtime's quantizer reads them."""

    def __init__(self, data: list[dict[str, Any]]) -> None:
        self.rest = iter(data)

    def get_next(self) -> dict[str, Any] | None:
        return next(self.rest, None)
