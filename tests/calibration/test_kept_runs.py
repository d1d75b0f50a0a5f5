"""The samples of lowest digest stay in memory with what the float model yields: no others are read anew."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.autorange.check import float_outputs
from calib8.autorange.samples import choose_samples, kept_samples
from calib8.calibration import kept_runs as module
from calib8.calibration.collect import Collector
from calib8.calibration.gather import Gathered, Gathering, gather
from calib8.calibration.kept_runs import RunKeeper
from calib8.data.opening import open_dataset
from calib8.data.samples import Dataset
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.repair import candidate as coding
from calib8.repair import held_back
from small_models import normal, onnx_model

BODY = """
    c = Conv <pads = [1, 1, 1, 1]> (x, w)   r = Relu (c)   d = Conv <pads = [1, 1, 1, 1]> (r, v)
    a = Add (d, c)   p = GlobalAveragePool (a)   y = Flatten (p)   m = ArgMax <axis = 1> (y)
"""
IMAGES = normal(60, 3, 9, 9, seed=4)


def network(rows: str = "N", outputs: str = "float[{rows},6] y, int64[{rows},1] m") -> onnx.ModelProto:
    constants = {"w": normal(6, 3, 3, 3), "v": normal(6, 6, 3, 3, seed=1)}
    return onnx_model(f"float[{rows},3,9,9] x", outputs.format(rows=rows), BODY, constants)


def opened(model: ir.Model, order: list[int] | None = None) -> Dataset:
    return open_dataset({"x": IMAGES if order is None else IMAGES[order]}, graph_inputs(model), None)


def run(model: ir.Model, dataset: Dataset, keep: int = 24, batch: int | None = None) -> Gathered:
    return gather(model, ("x", "r", "a"), dataset, Gathering(batch, 2, bins=False, keep=keep))


@pytest.mark.parametrize("batch", [1, 3, 4, 60])
def test_what_is_kept_is_what_would_be_read_again(batch: int) -> None:
    model = load_model(network())
    dataset = opened(model)
    anew = choose_samples(dataset, 2, scored=8, held_back=16)
    kept = run(model, dataset, batch=batch).kept
    assert kept is not None
    found = kept_samples(kept, dataset, scored=8, held_back=16)
    for one, other in ((found.scored, anew.scored), (found.held_back, anew.held_back)):
        assert [feeds["x"].tobytes() for feeds in one] == [feeds["x"].tobytes() for feeds in other]
    assert (found.shared, found.dataset) == (False, dataset)
    for [exact], [got] in zip(float_outputs(model, anew.held_back, 1), found.outputs, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-5)


def test_neither_order_nor_batches_matter() -> None:
    model = load_model(network())
    shuffled = [*np.random.default_rng(2).permutation(60)]
    one, two = run(model, opened(model)).kept, run(model, opened(model, shuffled), batch=7).kept
    assert one is not None and two is not None
    for left, right in zip(one, two, strict=True):
        assert left.digest == right.digest
        assert [array.tobytes() for array in left.outputs] == [array.tobytes() for array in right.outputs]


def test_the_lowest_digests_stay_whatever_comes_when() -> None:
    digests = [hashlib.sha256(bytes([index])).digest() for index in range(90)]
    for size in (1, 5, 30):
        keeper = RunKeeper(12)
        for first in range(0, 90, size):
            rows = np.arange(first, min(90, first + size), dtype=np.float32).reshape(-1, 1)
            keeper.add(digests[first : first + size], {"x": rows}, [[row * 2.0] for row in rows])
        runs = keeper.runs()
        assert runs is not None
        assert [found.digest for found in runs] == sorted(digests)[:12]
        for found in runs:
            value = float(digests.index(found.digest))
            assert found.inputs["x"].tolist() == [[value]] and found.outputs[0].tolist() == [2.0 * value]


def test_a_batch_that_does_not_come_apart_ends_it() -> None:
    keeper = RunKeeper(4)
    keeper.add([b"a"], {"x": np.zeros((1, 1))}, [[np.zeros(1)]])
    keeper.add([b"b", b"c"], {"x": np.zeros((2, 1))}, [])
    keeper.add([b"d"], {"x": np.zeros((1, 1))}, [[np.zeros(1)]])
    assert keeper.runs() is None


def test_large_samples_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(network())
    monkeypatch.setattr(module, "LARGEST_BYTES", 5 * IMAGES[0].nbytes)
    monkeypatch.setattr(module, "FEWEST", 2)
    kept = run(model, opened(model)).kept
    assert kept is not None and len(kept) == 5
    monkeypatch.setattr(module, "FEWEST", 7)
    kept = run(model, opened(model)).kept
    assert kept is not None and len(kept) == 7


@pytest.mark.parametrize(("rows", "whole"), [("1", True), ("4", False)])
def test_a_model_with_a_fixed_batch_of_several_keeps_none(rows: str, whole: bool) -> None:
    model = load_model(network(rows))
    assert (run(model, opened(model)).kept is not None) is whole


def test_an_output_of_the_whole_batch_keeps_none() -> None:
    body = BODY + "s = ReduceSum <keepdims = 0> (y)"
    constants = {"w": normal(6, 3, 3, 3), "v": normal(6, 6, 3, 3, seed=1)}
    model = load_model(onnx_model("float[N,3,9,9] x", "float[N,6] y, float s", body, constants))
    assert run(model, opened(model)).kept is None
    assert run(model, opened(model), batch=1).kept is not None


def test_values_counted_as_graph_outputs_come_without_those_of_the_model() -> None:
    with Collector(load_model(network()), ["r"], in_graph=False, outputs=True) as collector:
        collector.add({"x": IMAGES[:4]})
        assert collector.outputs == ()


def test_fast_reads_no_sample_twice_and_runs_no_float_model_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coded = []

    def counted(*args: object, **more: object) -> object:
        coded.append(args)
        return plain(*args, **more)  # type: ignore[arg-type]

    def of_int8_graphs(model: ir.Model, *args: Any) -> object:
        assert any(node.op_type == "QuantizeLinear" for node in model.graph), "the float model is run again"
        return outputs(model, *args)

    plain, outputs = coding.quantize_graph, held_back.float_outputs
    monkeypatch.setattr(coding, "quantize_graph", counted)
    monkeypatch.setattr(held_back, "float_outputs", of_int8_graphs)
    monkeypatch.setattr("calib8.int8_model.choose_samples", None)
    found = calib8.quantize(network(), {"x": IMAGES}, effort="fast")
    assert found.repaired is not None and found.repaired.held_back == 32
    assert len(coded) == 1 + any(step.layers for step in found.repaired.steps)


def test_what_fast_makes_does_not_depend_on_where_its_samples_come_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = calib8.quantize(network(), {"x": IMAGES}, effort="fast")
    monkeypatch.setattr("calib8.int8_model.kept_samples", lambda *args, **more: choose(args[1], more))
    anew = calib8.quantize(network(), {"x": IMAGES}, effort="fast")
    assert ir.to_proto(kept.model).SerializeToString() == ir.to_proto(anew.model).SerializeToString()


def choose(dataset: Dataset, shares: dict[str, int]) -> object:
    return choose_samples(dataset, 2, **shares)
