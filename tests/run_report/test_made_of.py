"""How a file was made is told as it says itself; what it does not say, or says oddly, is left out."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from calib8.model.metadata import write_metadata
from calib8.run_report.made_of import how_it_was_made, what_its_bytes_are
from small_models import normal, onnx_model


@pytest.fixture
def model() -> ir.Model:
    net = onnx_model(
        "float[1,3,4,4] x", "float[1,2,4,4] y", "y = Conv(x, w)", {"w": normal(2, 3, 1, 1, seed=1)}
    )
    return ir.from_proto(net)


def told(model: ir.Model) -> dict[str, str]:
    return {one.label: one.value for one in how_it_was_made(model)}


def test_as_the_file_says(model: ir.Model) -> None:
    write_metadata(
        model,
        {"version": "0.1.0", "target": "calib8", "weights": "per-channel", "activations": "int8",
         "method": "mse", "repairs": '["round", "bias"]', "keep_float": '["head"]'},
    )  # fmt: skip
    assert told(model) == {
        "made by": "calib8 0.1.0", "target": "calib8", "activations": "int8", "ranges": "by mse",
        "repairs": "round, bias", "kept in float": "head",
    }  # fmt: skip


def test_a_foreign_file_says_nothing_and_odd_entries_are_left_out(model: ir.Model) -> None:
    assert told(model) == {}
    write_metadata(model, {"repairs": "{", "keep_float": "3", "preprocess": "of another version"})
    assert told(model) == {"made by": "calib8", "repairs": "none was kept"}


def test_bytes_add_up(model: ir.Model) -> None:
    [found] = what_its_bytes_are(model, 1000)
    assert found.value == "1.0 kB" and "stays float 24 bytes, nodes and names 976 bytes" in found.note
    assert list(what_its_bytes_are(model, None)) == []
