"""Real networks on real images: they quantize completely, keep their accuracy, and two runtimes agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from real_networks import CLASSIFIERS, EVERY_NETWORK, NETWORKS, Calibrated, Network, Quantized, with_slow_ones

from calib8.analysis.evaluate import Evaluation
from calib8.analysis.lint import lint
from calib8.calibration.choose import choose_table
from calib8.judge import evaluate
from calib8.model.graph import constant
from calib8.model.runtime import open_session
from calib8.ops.groups import WEIGHTED_OPS
from calib8.passes.fold_affine import output_channels
from calib8.pipeline import quantize
from calib8.scheme import TARGETS
from slow_cases import slow_but

BATCH = 20


def judge(data: Path, network: Network, files: list[Path], runtime: str) -> list[Evaluation]:
    batch = 1 if network.evaluation == "photos" else BATCH
    return evaluate(
        files, data / network.evaluation, preprocess=network.preprocess, runtime=runtime, batch=batch
    )


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_no_float_layer_is_left_in_onnxruntime(name: str, quantized: Quantized, tmp_path: Path) -> None:
    optimized = tmp_path / "optimized.onnx"
    open_session(quantized(name), save_optimized=str(optimized))
    ops = Counter(node.op_type for node in onnx.load(optimized).graph.node)
    before = Counter(node.op_type for node in onnx.load(quantized(name)).graph.node)
    assert [ops[op] for op in ("Conv", "FusedConv", "Gemm", "FusedGemm", "MatMul", "FusedMatMul")] == [0] * 6
    assert ops["QLinearConv"] == before["Conv"] > 0


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_the_file_is_about_a_quarter(
    name: str, calibrated: Calibrated, quantized: Quantized, shared_data: Path
) -> None:
    """Codes take one byte instead of four.

    An output channel has 20 bytes besides: a bias in full, the scales and zero points of weight and bias.
    Q/DQ nodes and names take about 2 kB per float node.
    """
    original = (shared_data / NETWORKS[name].file).stat().st_size
    graph = calibrated(name).prepared.model.graph
    layers = [(node, constant(node.inputs[1])) for node in graph if node.op_type in WEIGHTED_OPS]
    channels = sum(output_channels(node, weight) for node, weight in layers if weight is not None)
    size = quantized(name).stat().st_size
    assert size < 0.25 * original + 20 * channels + 2000 * graph.num_nodes()
    assert size < 0.5 * original + 2000 * graph.num_nodes()


@pytest.mark.parametrize(
    "name", with_slow_ones(NETWORKS, "mobilenet_v2", "resnet20", "ultraface", "ocr_detector", "ocr_direction")
)
def test_onnxruntime_and_openvino_agree_with_the_float_model_alike(
    name: str, for_openvino: Quantized, shared_data: Path
) -> None:
    files = [shared_data / NETWORKS[name].file, for_openvino(name)]
    results = {
        runtime: judge(shared_data, NETWORKS[name], files, runtime)[1]
        for runtime in ("onnxruntime", "openvino")
    }
    ours, other = results["onnxruntime"], results["openvino"]
    assert ours.images == other.images > 0
    if name in CLASSIFIERS:
        assert ours.agreement is not None and other.agreement is not None
        assert abs(ours.agreement - other.agreement) <= 0.02
    else:
        assert ours.sqnr_db is not None and other.sqnr_db is not None
        # The detector is the worst: five photos with hardly any text are little to calibrate it on.
        assert ours.sqnr_db > 1.0, "nothing of the float outputs is left"
        # Each rounds in its own places, by processor: on five photos up to 4 dB, one node out of place more.
        assert abs(ours.sqnr_db - other.sqnr_db) <= 6.0


@pytest.mark.parametrize(
    ("name", "points", "agreement"),
    [
        pytest.param("efficientnet_lite0", 0.005, 0.97, marks=pytest.mark.slow),
        pytest.param("resnet20", 0.003, 0.98, marks=pytest.mark.slow),
        pytest.param("resnet56", 0.003, 0.98, marks=pytest.mark.slow),
        ("resnet8", 0.003, 0.98),
    ],
)
def test_accuracy_is_kept(
    name: str, points: float, agreement: float, quantized: Quantized, shared_data: Path
) -> None:
    files = [shared_data / NETWORKS[name].file, quantized(name)]
    reference, result = judge(shared_data, NETWORKS[name], files, "onnxruntime")
    assert reference.top1 is not None and result.top1 is not None and result.agreement is not None
    assert result.top1 >= reference.top1 - points
    assert result.agreement >= agreement


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", slow_but(["resnet8", "resnet20"], NETWORKS))
def test_every_target_passes_its_own_rules(
    name: str, target: str, calibrated: Calibrated, shared_data: Path, tmp_path: Path
) -> None:
    found = calibrated(name)
    table = choose_table(found.statistics, TARGETS[target].activations, "mse")
    network = NETWORKS[name]
    result = quantize(
        shared_data / network.file,
        shared_data / network.calibration,
        table=table,
        target=target,
        preprocess=network.preprocess,
    )
    result.save(tmp_path / "model.onnx")
    assert lint(tmp_path / "model.onnx", target) == ()


def test_branches_of_a_real_model_are_folded_and_a_fixed_input_goes(shared_data: Path) -> None:
    model = shared_data / "models" / "silero_vad_16k_op15.onnx"
    sample = {"input": np.full((1, 576), 0.1, np.float32), "state": np.zeros((2, 1, 128), np.float32)}
    made = quantize(model, [sample], fix={"sr": 16000}, effort="fast").model
    assert [value.name for value in made.graph.inputs] == ["input", "state"]
    found = {node.op_type for node in made.graph}
    assert "LSTM" in found and "If" not in found
