"""One pass over the data gives the same bytes however the data is cut, ordered and threaded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from calib8.calibration.collect import Collector, collect
from calib8.calibration.statistics import Statistics, TensorStatistics
from calib8.errors import DataError, UsageError
from calib8.model.runtime import open_session
from calib8.model.taps import tapped_model

RNG = np.random.default_rng(3)
IMAGES = RNG.standard_normal((13, 3, 12, 12)).astype(np.float32)
TENSORS = ("input", "conv", "relu", "pooled", "dense")


@pytest.fixture(scope="module")
def model() -> ir.Model:
    """Conv → Relu → GlobalAveragePool → Flatten → Gemm (whose kernel sums differently for one row) → Gemm."""
    weights = {
        "w": RNG.standard_normal((16, 3, 3, 3)),
        "d": RNG.standard_normal((16, 300)),
        "e": RNG.standard_normal((300, 5)),
    }
    nodes = [
        helper.make_node("Conv", ["input", "w"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "d"], ["dense"]),
        helper.make_node("Gemm", ["dense", "e"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, 12, 12])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 5])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def cut(images: np.ndarray, size: int) -> Iterator[dict[str, np.ndarray]]:
    for start in range(0, len(images), size):
        yield {"input": images[start : start + size]}


@pytest.fixture(scope="module")
def expected(model: ir.Model) -> Statistics:
    return collect(model, TENSORS, cut(IMAGES, 1), threads=1)


def test_the_counts_are_those_of_the_plain_definition(model: ir.Model, expected: Statistics) -> None:
    names = [name for name in TENSORS if name != "input"]
    session = open_session(tapped_model(model, names), threads=1)
    runs = [dict(zip(names, session.run(feeds), strict=True)) | feeds for feeds in cut(IMAGES, 1)]
    for name in TENSORS:
        values = np.concatenate([run[name].reshape(-1) for run in runs])
        assert expected.tensors[name] == TensorStatistics.from_values(values, len(runs))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 5, 13])
def test_batches_threads_and_order_do_not_matter(
    model: ir.Model, expected: Statistics, size: int, threads: int
) -> None:
    order = np.random.default_rng(size * 10 + threads).permutation(len(IMAGES))
    assert collect(model, TENSORS, cut(IMAGES[order], size), threads=threads) == expected


def test_progress_counts_samples(model: ir.Model) -> None:
    seen: list[int] = []
    collect(model, TENSORS, cut(IMAGES, 4), on_batch=seen.append)
    assert seen == [4, 4, 4, 1]


def test_only_inputs_can_be_tapped_without_running_anything(model: ir.Model) -> None:
    found = collect(model, ["input"], cut(IMAGES, 4))
    assert found.tensors["input"] == TensorStatistics.from_values(IMAGES, len(IMAGES))


def test_no_sample_is_an_error(model: ir.Model) -> None:
    with pytest.raises(DataError, match="no sample"):
        collect(model, TENSORS, [])


def test_a_wrong_instruction_set_is_named(model: ir.Model) -> None:
    import os
    import subprocess
    import sys

    code = "from calib8.calibration.statistics import counting_isa; counting_isa()"
    environment = {**os.environ, "CALIB8_ISA": "sse9"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert UsageError.__name__ in result.stderr
    assert "CALIB8_ISA=sse9" in result.stderr


@pytest.mark.parametrize("shape", [(4, 3, 12, 12), (3, 12, 12)])
def test_a_model_with_a_fixed_first_axis_is_never_run_on_a_part_of_it(shape: tuple[int, ...]) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["input"], ["relu"])],
        "fixed",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("relu", TensorProto.FLOAT, shape)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    arrays = [RNG.standard_normal(shape).astype(np.float32) for _ in range(3)]
    found = collect(ir.from_proto(proto), ["relu"], [{"input": array} for array in arrays])
    assert found.tensors["relu"] == TensorStatistics.from_values(
        np.maximum(np.stack(arrays), 0), 3 * shape[0]
    )


@pytest.mark.parametrize("in_graph", [True, False], ids=["inside", "outputs"])
def test_a_cleared_collector_goes_on_as_a_new_one(
    model: ir.Model, expected: Statistics, in_graph: bool
) -> None:
    with Collector(model, TENSORS, in_graph=in_graph) as collector:
        assert collector.add({"input": IMAGES[:4] * np.float32(99)}) == collector.samples
        collector.clear()
        assert collector.samples == 0
        for feeds in cut(IMAGES, 3):
            collector.add(feeds)
        assert collector.statistics() == expected
