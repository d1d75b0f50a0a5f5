"""What analysis says of a chain of functions of one tensor is what quantizing does with it."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
from dissected import dissected
from named_nets import CONV, DATA, RUNS, int8, net

import calib8
from calib8.analysis.compare import compare
from calib8.analysis.diagnose import diagnose
from calib8.analysis.inspect import inspect_model
from calib8.analysis.lint import lint
from calib8.model.load import load_model
from calib8.quantization.qdq import readable_copy

CHAIN = ("h", "m", "n")


def between_layers() -> onnx.ModelProto:
    return net(f"c = {CONV}(x, w) h = HardSwish(c) m = Mul(a, h) n = Add(m, b) y = {CONV}(n, u)")


@pytest.mark.parametrize(
    "body",
    [
        f"c = {CONV}(x, w) h = HardSwish(c) m = Mul(a, h) n = Add(m, b) y = {CONV}(n, u)",
        f"""c = {CONV}(x, w) h = HardSwish(c) m = Mul(h, k) r = Relu(m) n = Mul(r, a) s = Add(n, c)
            y = {CONV}(s, u)""",
        f"c = {CONV}(x, w) h = HardSwish(c) y = LeakyRelu(h)",
        f"c = {CONV}(x, w) h = HardSwish(c) t = LeakyRelu(h) m = Mul(t, k) y = Add(m, b)",
    ],
    ids=["between layers", "two readers", "at the end", "before arithmetic behind the last layer"],
)
def test_inspect_agrees_with_quantize(body: str, tmp_path: Path) -> None:
    found = calib8.quantize(net(body), DATA, method="minmax", repair=("none",), threads=1)
    onnx.save(ir.to_proto(found.model), tmp_path / "int8.onnx")
    inspected = inspect_model(tmp_path / "int8.onnx")
    said = {layer.name for layer in inspected.layers if layer.quantized}
    assert said == found.placement.quantized_nodes()
    assert len(inspected.layers) == len(found.placement.decisions)
    assert lint(tmp_path / "int8.onnx", "onnxruntime") == ()


def test_a_chain_without_codes_on_one_side_is_float(tmp_path: Path) -> None:
    model = int8(between_layers())
    last = next(node for node in model.graph.node if node.output[0] == "n")
    for node in model.graph.node:
        node.input[:] = ["n" if name == "n/dequantized" else name for name in node.input]
    assert last.op_type == "Add"
    onnx.save(model, tmp_path / "open.onnx")
    reasons = {layer.name: layer.reason for layer in inspect_model(tmp_path / "open.onnx").layers}
    assert {reasons[name] for name in CHAIN} == {"no QuantizeLinear follows its result 'n'"}


@pytest.mark.parametrize("floats", [*combinations(CHAIN, 1), ("m", "y"), ("c", "m"), ("n", "y")])
def test_what_a_chain_in_float_gains_is_what_quantizing_gains(floats: tuple[str, ...]) -> None:
    model = between_layers()
    dissection, _ = dissected(model, int8(model), RUNS)
    kept = readable_copy(load_model(int8(model, *floats)))
    found = dissection.with_floats(floats)
    assert found == pytest.approx(dissection.figures(kept).sqnr_db, abs=1e-6)
    if set(floats) <= set(CHAIN):
        assert found == dissection.with_floats(())


def test_the_tensors_of_a_chain_are_compared_and_blamed_by_name() -> None:
    model = between_layers()
    quantized = int8(model)
    rows = {row.tensor: row for row in compare(model, quantized, DATA, threads=1).tensors}
    assert rows["n"].scale is not None and all(
        rows[name].scale is None for name in ("h", "m") if name in rows
    )
    found = diagnose(model, quantized, DATA, threads=1)
    assert {loss.row.node for loss in found.layers if loss.damage.codes is not None} >= {"c", "n", "y"}
