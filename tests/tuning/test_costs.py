"""What becomes float together: a layer, its activation, and all that is coded as one with them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.passes.place import place
from calib8.passes.prepare import prepare
from calib8.repair.units import units_of
from calib8.scheme import target_scheme
from calib8.tuning.costs import additions_of, wide_share
from small_models import normal, onnx_model

SAMPLES = normal(24, 3, 8, 8, seed=5)


def chain_net() -> onnx.ModelProto:
    """Two layers; factors of 0.01 … 1 per channel within a chain of functions, taken back at its end."""
    factors = np.geomspace(0.01, 1.0, 8, dtype=np.float32).reshape(1, 8, 1, 1)
    constants = {"w": normal(8, 3, 3, 3), "v": normal(5, 8, 1, 1, seed=1), "down": factors, "up": 1 / factors}
    body = "a = Conv(x, w) h = HardSwish(a) m = Mul(h, down) t = LeakyRelu(m) n = Mul(t, up) y = Conv(n, v)"
    model = onnx_model("float[N,3,8,8] x", "float[N,5,6,6] y", body, constants)
    for node in model.graph.node:
        node.name = node.output[0]
    return model


def test_what_is_coded_as_one_is_one_unit() -> None:
    prepared = prepare(ir.from_proto(chain_net()), {"x": SAMPLES[:1]})
    placement = place(prepared.model, target_scheme("onnxruntime"))
    units = units_of(prepared.model, placement, {"x": SAMPLES[:1]})
    assert [unit.nodes for unit in units] == [("a", "h", "m", "t", "n"), ("y",)]
    layer = units[0]
    assert layer.macs >= 8 * 27 * 36 and layer.work > layer.macs


def test_additions_are_those_of_two_tensors_that_are_coded() -> None:
    """One with a constant adds nothing that was rounded; one that is float already costs nothing more."""
    body = """a = Add(x, z) b = Add(a, k) c = Sub(b, z) d = Mul(c, a) e = Add(d, c) y = Add(e, z)"""
    shape = "float[N,3,8,8]"
    model = onnx_model(f"{shape} x, {shape} z", f"{shape} y", body, {"k": np.ones((3, 1, 1), np.float32)})
    graph = ir.from_proto(onnx.shape_inference.infer_shapes(model))
    for node in graph.graph:
        node.name = node.outputs[0].name
    assert additions_of(graph, frozenset("abcdy")) == ("a", "c", "y")


@pytest.mark.parametrize("floats", [("n",), ("a", "h", "m", "t", "n")])
def test_a_part_of_it_in_float_takes_the_rest_along(floats: tuple[str, ...]) -> None:
    def sqnr_db(keep: tuple[str, ...]) -> float:
        made = calib8.quantize(
            chain_net(), SAMPLES, method="mse", repair=("none",), keep_float=keep, threads=1
        )
        found = calib8.compare(chain_net(), ir.to_proto(made.model), SAMPLES, threads=1)
        return found.outputs.sqnr_db

    assert sqnr_db(floats) > sqnr_db(()) - 0.1


def test_layers_that_read_a_spot_are_work_done_twice() -> None:
    prepared = prepare(ir.from_proto(chain_net()), {"x": SAMPLES[:1]})
    counted = {"a": 300, "y": 100}
    whole, half = (
        place(prepared.model, target_scheme("calib8"), frozenset(floats)) for floats in ((), ("a",))
    )
    assert wide_share(counted, whole, prepared.model, ["x", "n"]) == 1.0
    assert wide_share(counted, whole, prepared.model, ["n"]) == 0.25
    assert wide_share(counted, whole, prepared.model, ["y"]) == 0.0
    assert wide_share(counted, half, prepared.model, ["x"]) == 0.0, "in float"
