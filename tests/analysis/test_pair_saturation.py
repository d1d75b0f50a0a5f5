"""Pairs that saturate without VNNI: the worst case and what was seen, against plain loops."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from one_layer_models import Array, can_saturate, coded, pair_sums, real, window_products

import calib8
from calib8.analysis.observed import observe, pairs_in_file
from calib8.analysis.pair_saturation import LayerPairs
from calib8.data.presets import PRESETS
from calib8.errors import UnsupportedModelError
from calib8.model.save import save_model
from calib8.quantization.quantize import quantize_graph
from calib8.scheme import target_scheme
from small_nets import Net, clean


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save(proto, path)
    return path


def expected(products: list[tuple[int, list[tuple[int, int]]]]) -> dict[int, tuple[int, int, float]]:
    """Output channel → smallest and largest sum of its unsafe pairs, and the share that int16 cuts."""
    sums: dict[int, list[int]] = defaultdict(list)
    for output, found in products:
        for first, second, total in pair_sums(found):
            if can_saturate(first, second):
                sums[output].append(total)
    return {
        output: (min(seen), max(seen), sum(not -32768 <= one <= 32767 for one in seen) / len(seen))
        for output, seen in sums.items()
    }


def seen(layer: LayerPairs) -> dict[int, tuple[int, int, float]]:
    found = {}
    for channel in layer.unsafe:
        assert channel.observed is not None and channel.saturated is not None
        found[channel.channel] = (*channel.observed, channel.saturated)
    return found


@pytest.mark.parametrize(
    ("shape", "inputs", "group", "stride", "dilation", "pads"),
    [
        ((8, 3, 3, 3), 3, 1, 1, 1, (1, 1, 1, 1)),
        ((6, 2, 2, 3), 4, 2, 2, 1, (0, 1, 1, 0)),
        ((4, 5, 1, 1), 5, 1, 1, 1, (0, 0, 0, 0)),
        ((4, 1, 3, 3), 2, 2, 1, 2, (2, 2, 2, 2)),
    ],
)
@pytest.mark.parametrize("signed", [False, True])
def test_sums_of_a_convolution_are_those_of_plain_loops(
    shape: tuple[int, ...], inputs: int, group: int, stride: int, dilation: int, pads: tuple[int, ...],
    signed: bool, tmp_path: Path,
) -> None:  # fmt: skip
    rng = np.random.default_rng(sum(shape))
    weight = rng.integers(-127, 128, shape).astype(np.int8)
    codes = rng.choice([0, 1, 200, 254, 255], (2, inputs, 6, 7))
    shift = 128 if signed else 0  # ONNX Runtime takes int8 codes as uint8, 128 higher
    proto = coded(
        "Conv", weight, ("N", inputs, 6, 7), group=group, strides=[stride] * 2, dilations=[dilation] * 2,
        pads=list(pads), signed=signed, point=3 - shift,
    )  # fmt: skip
    [layer] = observe_pairs(proto, {"x": real(codes - shift, 3 - shift)}, tmp_path)
    products = list(window_products(codes, weight, group, stride, dilation, pads, 3))
    wanted = expected(products)
    assert seen(layer) == wanted
    assert len(wanted) > 0 and any(share > 0 for _, _, share in wanted.values())


def observe_pairs(proto: onnx.ModelProto, feeds: dict[str, Array], folder: Path) -> tuple[LayerPairs, ...]:
    rows = len(next(iter(feeds.values())))
    data = [{name: array[index : index + 1] for name, array in feeds.items()} for index in range(rows)]
    found = observe(saved(proto, folder), data, pairs=True)
    assert found.samples == rows and found.pairs is not None
    return found.pairs


@pytest.mark.parametrize(("op_type", "attributes"), [("Gemm", {"transB": 1}), ("Gemm", {}), ("MatMul", {})])
def test_sums_of_a_matrix_product_are_those_of_plain_loops(
    op_type: str, attributes: dict[str, Any], tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    rows = rng.integers(-127, 128, (6, 7)).astype(np.int8)
    codes = rng.integers(100, 256, (3, 7))
    weight = rows if attributes else np.ascontiguousarray(rows.T)
    [layer] = observe_pairs(coded(op_type, weight, ("N", 7), **attributes), {"x": real(codes)}, tmp_path)
    products = [
        (output, list(zip(map(int, row), map(int, rows[output]), strict=True)))
        for row in codes
        for output in range(6)
    ]
    assert seen(layer) == expected(products) != {}


def test_the_worst_case_names_the_pair(tmp_path: Path) -> None:
    weight = np.zeros((3, 2, 1, 2), np.int8)
    weight[0] = [[[100, 1]], [[29, 127]]]  # pairs (100, 29) and (1, 127)
    weight[1] = [[[100, -128 + 1]], [[28, 127]]]  # (100, 28) and (−127, 127)
    weight[2] = [[[-60, -65]], [[-68, -65]]]  # (−60, −68) and (−65, −65)
    [layer] = pairs_in_file(saved(coded("Conv", weight, ("N", 2, 4, 4)), tmp_path))
    assert (layer.layer, layer.channels, layer.pairs) == ("layer", 3, 2)
    first, second = layer.unsafe
    assert (first.channel, first.pair, first.weights) == (0, 0, (100, 29))
    assert (first.low, first.high) == (0, 255 * 129)
    assert (second.channel, second.pair, second.weights) == (2, 1, (-65, -65))
    assert (second.low, second.high) == (-255 * 130, 0)
    assert first.observed is None and first.saturated is None


def test_layers_that_cannot_saturate_are_told_as_safe(tmp_path: Path) -> None:
    safe = np.tile(np.int8([127, -127, 64, 64]), (2, 1)).reshape(2, 4, 1, 1)
    [layer] = pairs_in_file(saved(coded("Conv", safe, ("N", 4, 4, 4)), tmp_path))
    assert layer.unsafe == ()
    [layer] = observe_pairs(
        coded("Conv", safe, ("N", 4, 4, 4)), {"x": real(np.full((1, 4, 4, 4), 255))}, tmp_path
    )
    assert layer.unsafe == ()


def test_kernels_without_pairs_are_left_out(tmp_path: Path) -> None:
    heavy = np.full((4, 1, 3, 3), 127, np.int8)
    assert pairs_in_file(saved(coded("Conv", heavy, ("N", 4, 8, 8), group=4), tmp_path)) == ()
    turned = np.full((4, 2, 2, 2), 127, np.int8)
    assert pairs_in_file(saved(coded("ConvTranspose", turned, ("N", 4, 8, 8)), tmp_path)) == ()
    unsigned = coded("Conv", np.full((4, 4, 1, 1), 255, np.uint8), ("N", 4, 8, 8))
    assert pairs_in_file(saved(unsigned, tmp_path)) == ()


@pytest.mark.parametrize("net", ["conv_chain", "residual", "classifier", "squeeze_excite", "upsample"])
def test_the_target_avx2_has_no_channel_that_can_saturate(net: str, tmp_path: Path) -> None:
    before = pairs_in_file(saved(clean(net, "onnxruntime"), tmp_path))
    after = pairs_in_file(saved(clean(net, "onnxruntime-avx2"), tmp_path))
    assert any(layer.unsafe for layer in before)
    assert not any(layer.unsafe for layer in after)
    assert [layer.layer for layer in before] == [layer.layer for layer in after]


def test_only_qdq_models_have_pairs_to_look_at(tmp_path: Path) -> None:
    net = Net()
    with pytest.raises(UnsupportedModelError, match="float model"):
        pairs_in_file(saved(net.model(net.conv("x", 4, 4)), tmp_path))
    with pytest.raises(UnsupportedModelError, match="float model"):
        observe(tmp_path / "model.onnx", [{"x": np.zeros((1, 4, 8, 8), np.float32)}], pairs=True)


@pytest.mark.slow
def test_seven_bits_would_cost_more(shared_data: Path, tmp_path: Path) -> None:
    """ResNet-20 for AVX2 stays within 2 dB of the model for VNNI; 7 bits for all channels lose more."""
    model, data = shared_data / "models" / "resnet20_cifar10.onnx", shared_data / "cifar10"
    preprocess = PRESETS["cifar10"]
    found = calib8.calibrate(
        model, data / "train1024.npz", preprocess=preprocess, method="mse", samples=64, threads=1
    )
    scheme = target_scheme("onnxruntime")
    halved = replace(scheme, weights=replace(scheme.weights, bits=7))
    files = [model]
    for name, wanted in (("plain", scheme), ("avx2", target_scheme("onnxruntime-avx2")), ("half", halved)):
        files.append(tmp_path / f"{name}.onnx")
        save_model(quantize_graph(found.prepared.model, found.table, wanted, frozenset()).model, files[-1])
    results = calib8.evaluate(files, data / "test5000.npz", preprocess=preprocess, samples=100, threads=1)
    plain, avx2, half = (result.sqnr_db or 0.0 for result in results[1:])
    assert plain - 2.0 < avx2
    assert half < avx2
    assert not any(layer.unsafe for layer in pairs_in_file(files[2]))
