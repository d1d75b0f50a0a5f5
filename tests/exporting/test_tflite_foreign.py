"""Quantized models of other tools as TFLite files: LiteRT gives what the integer program gives.

Results that no quantizer codes come from float32 operators, which may differ in the last bits; so do layers
that stay in float.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from exported import as_given, litert_gives, random_feeds

from calib8.errors import UnsupportedModelError
from calib8.exporting.tflite.export import TfliteExport, to_tflite
from calib8.model.load import load_model
from calib8.program.lower.lower import lower
from calib8.program.program import Program
from calib8.program.reference.executor import run_program

FOLDER: Final = Path(__file__).parents[1] / "foreign"
MODELS: Final = sorted(path.stem for path in FOLDER.glob("*.onnx"))
LAST_BITS: Final = 1e-6
NEARLY: Final = 0.05
"""Of the range of an output: what inexact parts may change."""

SYMMETRIC: Final = "its weights are not symmetric"
BEHIND: Final = "a function follows it without codes between them"

REFUSED: Final[dict[str, tuple[str, ...]]] = {
    "hand_weight_zero_points": (SYMMETRIC,),
    "modelopt_pools_max": (BEHIND,),
    "nncf_detector_mixed": (BEHIND,),
    "nncf_mobilenet_mixed": (BEHIND,),
    "nncf_mobilenet_performance": (BEHIND,),
    "nncf_pools_performance": (BEHIND, "which does not count, is not that of SAME"),
    "onnxruntime_mobilenet_operator_u8u8": (SYMMETRIC,),
    "onnxruntime_mobilenet_qdq_unprepared": (SYMMETRIC,),
    "onnxruntime_pools_operator_u8s8_channel": ("which does not count, is not that of SAME",),
    "onnxruntime_resnet_operator_u8u8": (SYMMETRIC,),
    "onnxruntime_resnet_qdq_asymmetric_weights": (SYMMETRIC,),
    "onnxruntime_resnet_qdq_u8u8": (SYMMETRIC,),
}
"""Model → what its refusal says."""

FLOAT_INSIDE: Final = frozenset({
    "modelopt_mobilenet_max", "modelopt_resnet_entropy", "modelopt_resnet_max",
    "onnxruntime_pools_qdq_u8s8_channel", "pytorch_qat_seven_bits", "pytorch_qat_symmetric",
})  # fmt: skip
"""Models with codes behind layers in float, whose last bits may make another code."""

TOLD: Final[dict[str, str]] = {
    "hand_lowest_weights": "weight codes of -128 became -127",
    "hand_tensorrt_placement": "its sums have no quantizer; coded with scale",
    "onnxruntime_resnet_qdq_u8u8_channel": "weight codes of -128 became -127",
    "pytorch_pt2e_x86": "weight codes of -128 became -127",
}
"""Models that are not kept exactly → what is told of them; all others give the same bits."""


@cache
def program_of(name: str) -> Program:
    return lower(load_model(FOLDER / f"{name}.onnx"), profile="tflite")


@cache
def exported(name: str) -> TfliteExport:
    return to_tflite(program_of(name), name=name)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", sorted(set(MODELS) - set(REFUSED)))
def test_a_foreign_model_as_a_tflite_file(name: str) -> None:
    program, result = program_of(name), exported(name)
    feeds = random_feeds(program, np.random.default_rng(0))
    wanted = run_program(program, feeds)
    given = litert_gives(result, [feeds[port.name] for port in program.inputs])
    in_float = any("is computed in float32" in note for note in result.notes) or program.float_instructions
    for want, got in zip(wanted, given, strict=True):
        values = as_given(got, want.shape)
        if name in TOLD:
            assert any(TOLD[name] in note for note in result.notes)
            assert np.abs(values - want).max() < NEARLY * np.ptp(want)
        elif name in FLOAT_INSIDE:
            assert program.float_instructions
            assert np.abs(values - want).max() < NEARLY * np.ptp(want)
        elif in_float:
            np.testing.assert_allclose(values, want, rtol=LAST_BITS, atol=LAST_BITS)
        else:
            np.testing.assert_array_equal(values, want)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_form_is_listed_at_once(name: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        exported(name)
    message = str(caught.value)
    assert message.startswith(f"{name}: ") and "target='tflite'" in caught.value.cure
    assert all(part in message for part in REFUSED[name]), message
