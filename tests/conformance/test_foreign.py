"""Quantized models of other tools: they lower, they run, and they give what ONNX Runtime gives.

tests/foreign/README.md says what the models are and where the expected outputs come from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from bits import assert_native_gives
from calib8.errors import UnsupportedModelError
from calib8.model.load import load_model
from calib8.program.instructions import Dequantize, RealFunction
from calib8.program.lower.lower import lower
from calib8.program.program import Port, Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile
from small_models import run

FOLDER: Final = Path(__file__).parents[1] / "foreign"
SAME: Final = 0.02  # steps: results that no code carries differ in the last bits of float32
LAYOUTS: Final = {(1, 3, 16, 16): "nchw", (1, 16, 16, 3): "nhwc"}

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Expected:
    """What must come out of a model.

    Attributes:
        floats: kinds of ops inside Float instructions, in alphabetical order; none: all is integer.
        reals: functions of float32 values that a program computes itself but in profile ``tflite``, whose
            ``floats`` these then are.
        equal: smallest share of outputs equal to ONNX Runtime's, profile ``onnx``.
        steps: largest difference in steps of the output's scale, profile ``onnx``.
        tflite, single: the same for those profiles, against float32 arithmetic between Q and DQ.
        top1: smallest share of images of the same class as ONNX Runtime's, profile ``onnx``.
        reference: outputs to compare with under ``onnx``: ``fused``, or ``exact`` where ONNX Runtime's fusion
            computes something else, or nothing.
    """

    floats: tuple[str, ...] = ()
    reals: tuple[str, ...] = ()
    equal: float = 1.0
    steps: float = 0.0
    tflite: float = 3.0
    single: float = 0.0
    top1: float = 1.0
    reference: str = "fused"


ALIKE: Final = Expected()
# A bias or an affine layer folded into integers is rounded to a multiple of sx·sw: a few codes move by one.
FOLDED: Final = Expected(equal=0.95, steps=1, single=1)
# The same where the last layer's result is not quantized: what moved anywhere before shows in every value.
OPEN: Final = Expected(equal=0.0, steps=1.5, single=1.5)

# fmt: off
MODELOPT_MOBILENET: Final = ("Conv", "Gemm", "GlobalAveragePool", "HardSigmoid", "HardSwish", "ReduceMean",
                             "Relu", "Softmax")
MODELOPT_POOLS: Final = ("Add", "AveragePool", "Conv", "MatMul", "Mul", "Pad", "Relu", "Resize", "Slice",
                         "Sub", "Tanh")
# fmt: on
MODELOPT_RESNET: Final = ("Add", "Conv", "Flatten", "Gemm", "GlobalAveragePool", "MaxPool", "Mul", "Relu")
PRELU_SUB_TANH: Final = ("AveragePool", "PRelu", "Sub", "Tanh")
NNCF_MOBILENET: Final = ("Conv", "GlobalAveragePool", "HardSigmoid", "Relu", "Softmax")

MODELS: Final[dict[str, Expected]] = {
    "hand_bare_batch_norm": FOLDED,
    "hand_channel_shuffle": ALIKE,
    "hand_codes_at_the_border": ALIKE,
    "hand_contrib_domain": ALIKE,
    "hand_data_movement": ALIKE,
    # Scales of 0.02, 0.03 and 0.04: a quarter of the sums are ties, and float32 decides them by its last bit.
    "hand_duplicated_pairs": Expected(tflite=4, single=3),
    "hand_lowest_weights": ALIKE,
    "hand_nhwc_border": ALIKE,
    "hand_no_zero_points": ALIKE,
    "hand_odd_biases": FOLDED,
    "hand_opset_10": Expected(single=1),
    "hand_opset_21": ALIKE,
    # ONNX Runtime quantizes the weight of the float Conv on its own account.
    "hand_partly_float": Expected(("Conv", "Relu"), reference="exact"),
    "hand_prelu": ALIKE,
    "hand_shared_dequantize": ALIKE,
    "hand_tensorrt_placement": ALIKE,
    # MatMul of two activations and Softmax: float32 sums of another order.
    "hand_two_activations": Expected(equal=0.99, steps=1, single=1),
    "hand_two_scales": ALIKE,
    "hand_weight_axes": ALIKE,
    "hand_weight_zero_points": Expected(single=1),
    "hand_yolo_head": Expected(single=1),
    # ModelOpt leaves Convs of few channels in float, TensorRT runs them faster so.
    "modelopt_detector_max": replace(
        OPEN, floats=("Concat", "Conv", "LeakyRelu", "Mul", "Reshape", "Sigmoid", "Transpose")
    ),
    "modelopt_mobilenet_max": replace(OPEN, floats=MODELOPT_MOBILENET),
    "modelopt_pools_max": replace(OPEN, floats=MODELOPT_POOLS),
    "modelopt_pytorch": replace(OPEN, floats=("Add", "Relu")),
    "modelopt_resnet_dla": replace(OPEN, tflite=4),
    "modelopt_resnet_entropy": replace(OPEN, floats=MODELOPT_RESNET),
    "modelopt_resnet_max": replace(OPEN, floats=MODELOPT_RESNET),
    "nncf_detector_mixed": replace(
        OPEN, floats=("Concat", "Reshape", "Sigmoid", "Transpose"), reals=("Sigmoid",)
    ),
    # NNCF puts no codes between a Conv and HardSwish: calib8 computes it as a curve of the sums, within 0.04
    # of a code. Squeeze and excitation is in float. What a depthwise Conv reads, it quantizes per channel;
    # those layers are integer.
    "nncf_mobilenet_mixed": replace(OPEN, floats=NNCF_MOBILENET, steps=2, single=2),
    "nncf_mobilenet_performance": replace(OPEN, floats=NNCF_MOBILENET, steps=2, single=2),
    "nncf_pools_performance": replace(OPEN, floats=("Sub", "Tanh")),
    "nncf_resnet_bias_by_layer": OPEN,
    "nncf_resnet_mixed": OPEN,
    "nncf_resnet_mixed_full_range": OPEN,
    "nncf_resnet_performance": OPEN,
    "onnxruntime_detector_operator_u8s8": ALIKE,
    "onnxruntime_detector_qdq_s8s8_channel": ALIKE,
    "onnxruntime_detector_qdq_u8s8": ALIKE,
    "onnxruntime_mobilenet_operator_u8u8": ALIKE,
    "onnxruntime_mobilenet_qdq_forced": ALIKE,
    "onnxruntime_mobilenet_qdq_s8s8": ALIKE,
    "onnxruntime_mobilenet_qdq_u8s8_channel": ALIKE,
    "onnxruntime_mobilenet_qdq_unprepared": Expected(("HardSwish", "ReduceMean")),
    # ONNX Runtime's Resize on codes cuts their fraction off where it should round; ConvTranspose stays float.
    "onnxruntime_pools_operator_u8s8_channel": Expected(
        ("ConvTranspose", "Relu", "Sub", "Tanh"), equal=0.6, steps=2, single=2, top1=0.8
    ),
    # ONNX Runtime quantizes no PRelu, Sub and Tanh, nor what an AveragePool reads from them.
    "onnxruntime_pools_qdq_s8s8": Expected(PRELU_SUB_TANH, single=1),
    "onnxruntime_pools_qdq_u8s8_channel": Expected(PRELU_SUB_TANH, single=1),
    "onnxruntime_resnet_operator_s8s8_channel": ALIKE,
    "onnxruntime_resnet_operator_u8s8": ALIKE,
    "onnxruntime_resnet_operator_u8u8": ALIKE,
    "onnxruntime_resnet_qdq_asymmetric_weights": ALIKE,
    "onnxruntime_resnet_qdq_contrib": ALIKE,
    "onnxruntime_resnet_qdq_dedicated": ALIKE,
    "onnxruntime_resnet_qdq_float_bias": Expected(single=1),
    "onnxruntime_resnet_qdq_keep_relu": ALIKE,
    "onnxruntime_resnet_qdq_s8s8": ALIKE,
    "onnxruntime_resnet_qdq_s8s8_channel": ALIKE,
    "onnxruntime_resnet_qdq_symmetric": Expected(tflite=4),
    "onnxruntime_resnet_qdq_u8s8": ALIKE,
    "onnxruntime_resnet_qdq_u8s8_channel": ALIKE,
    "onnxruntime_resnet_qdq_u8u8": ALIKE,
    "onnxruntime_resnet_qdq_u8u8_channel": ALIKE,
    "onnxruntime_resnet_qdq_unprepared": ALIKE,
    "onnxruntime_resnet_qdq_weight_pair": ALIKE,
    "pytorch_fake_quantize_channel": FOLDED,
    "pytorch_fake_quantize_script": FOLDED,
    "pytorch_fake_quantize_tensor": FOLDED,
    "pytorch_pt2e_x86": OPEN,  # torch.ao rounds no result of a pooling: the last layer reads float.
    "pytorch_qat_seven_bits": replace(
        FOLDED, floats=("Flatten", "Gemm", "GlobalAveragePool"), reference="exact"
    ),
    "pytorch_qat_symmetric": replace(FOLDED, floats=("Flatten", "Gemm", "GlobalAveragePool")),
}


@cache
def program(name: str, profile: Profile) -> Program:
    return lower(load_model(FOLDER / f"{name}.onnx"), profile=profile)


def samples(lowered: Program) -> Array:
    """What is fed, one after the other."""
    slot = lowered.slots[lowered.inputs[0].slot]
    rows: Array = np.load(FOLDER / "images.npz")["codes" if slot.dtype == "uint8" else LAYOUTS[slot.shape]]
    return rows


@cache
def outputs(name: str, profile: Profile) -> dict[str, Array]:
    """By name, sample by sample along the first axis."""
    lowered = program(name, profile)
    (source,) = lowered.inputs
    results = [run_program(lowered, {source.name: row}) for row in samples(lowered)]
    return {
        port.name: np.stack([result[index] for result in results])
        for index, port in enumerate(lowered.outputs)
    }


def step(lowered: Program, port: Port, values: Array) -> float:
    """What one code of an output is worth; 1/255 of the range of its values where no code carries it."""
    if lowered.slots[port.slot].is_codes:
        return 1.0
    for instruction in lowered.instructions:
        if port.slot in instruction.outputs and isinstance(instruction, Dequantize):
            source = lowered.slots[instruction.inputs[0]]
            if source.is_codes:
                return source.scale
    return float(np.ptp(values)) / 255


def differences(name: str, profile: Profile, reference: str) -> Array:
    """Of all outputs and samples, in steps, ≥ 0."""
    lowered, found = program(name, profile), outputs(name, profile)
    kept = np.load(FOLDER / f"{name}.npz")
    apart = []
    for port in lowered.outputs:
        expected = kept[f"{reference}/{port.name}"]
        assert found[port.name].shape == expected.shape
        assert found[port.name].dtype == expected.dtype
        distance = np.abs(found[port.name].astype(np.float64) - expected)
        apart.append(distance.ravel() / step(lowered, port, expected))
    return np.concatenate(apart)


def float_ops(lowered: Program) -> tuple[str, ...]:
    """The kinds of ops that ONNX Runtime runs, in alphabetical order; Q/DQ around them do not count."""
    models = [onnx.load_from_string(instruction.model) for instruction in lowered.float_instructions]
    found = {node.op_type for model in models for node in model.graph.node}
    return tuple(sorted(found - {"QuantizeLinear", "DequantizeLinear"}))


def real_functions(lowered: Program) -> tuple[str, ...]:
    """Names of the functions of float32 values that a program computes itself, in alphabetical order."""
    steps = [step for step in lowered.instructions if isinstance(step, RealFunction)]
    return tuple(sorted({step.function.name for step in steps}))


def is_classifier(name: str) -> bool:
    return all(values.shape[1:] == (1, 10) for values in np.load(FOLDER / f"{name}.npz").values())


def test_every_kept_model_is_listed() -> None:
    assert sorted(MODELS) == sorted(path.stem for path in FOLDER.glob("*.onnx"))


@pytest.mark.parametrize("name", MODELS)
def test_kept_files_belong_together(name: str) -> None:
    """Every model says who made it, and ONNX Runtime of this machine still gives the kept outputs."""
    model = onnx.load(FOLDER / f"{name}.onnx")
    assert any(item.key == "made_by" and item.value for item in model.metadata_props)
    kept = np.load(FOLDER / f"{name}.npz")
    images = np.load(FOLDER / "images.npz")
    (source,) = model.graph.input
    sizes = tuple(axis.dim_value or 1 for axis in source.type.tensor_type.shape.dim)
    codes = source.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    feed = images["codes" if codes else LAYOUTS[sizes]][0]
    for port, found in zip(model.graph.output, run(model, {source.name: feed}), strict=True):
        expected = kept[f"exact/{port.name}"][0]
        assert np.ptp(expected) > 0
        np.testing.assert_allclose(found, expected, atol=float(np.ptp(expected)) / 50)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", MODELS)
def test_the_native_engine_gives_the_same_bits(name: str, profile: Profile) -> None:
    lowered, found = program(name, profile), outputs(name, profile)
    feeds = {lowered.inputs[0].name: samples(lowered)[0]}
    assert_native_gives(lowered, feeds, [found[port.name][0] for port in lowered.outputs])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", MODELS)
def test_float_instructions(name: str, profile: Profile) -> None:
    lowered, wanted = program(name, profile), MODELS[name]
    own = wanted.reals if profile != "tflite" else ()
    assert real_functions(lowered) == own
    assert float_ops(lowered) == (() if own else wanted.floats)


@pytest.mark.parametrize("name", MODELS)
def test_onnx_profile_gives_the_codes_of_onnxruntime(name: str) -> None:
    apart = differences(name, "onnx", MODELS[name].reference)
    assert np.mean(apart <= SAME) >= MODELS[name].equal
    assert np.max(apart) <= MODELS[name].steps + SAME


@pytest.mark.parametrize("name", MODELS)
def test_integer_profiles_stay_close_to_float_arithmetic(name: str) -> None:
    assert np.max(differences(name, "tflite", "exact")) <= MODELS[name].tflite + SAME
    assert np.max(differences(name, "single", "exact")) <= MODELS[name].single + SAME


@pytest.mark.parametrize("name", [name for name in MODELS if is_classifier(name)])
def test_top1_equal(name: str) -> None:
    kept = np.load(FOLDER / f"{name}.npz")
    for port, found in outputs(name, "onnx").items():
        expected = kept[f"{MODELS[name].reference}/{port}"]
        assert np.mean(found.argmax(-1) == expected.argmax(-1)) >= MODELS[name].top1


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MODELS)
def test_integer_only_refuses_float_by_name(name: str) -> None:
    model = load_model(FOLDER / f"{name}.onnx")
    if not MODELS[name].floats:
        assert not lower(model, profile="single", integer_only=True).float_instructions
        return
    lowered = program(name, "single")
    nodes = [node for step in lowered.float_instructions for node in step.nodes]
    nodes += [step.name for step in lowered.instructions if isinstance(step, RealFunction)]
    with pytest.raises(UnsupportedModelError) as refusal:
        lower(model, profile="single", integer_only=True)
    assert nodes and all(node in str(refusal.value) for node in nodes)
