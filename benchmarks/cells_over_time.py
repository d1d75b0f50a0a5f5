"""How far the h of quantized LSTM and GRU drifts from the float layer's over thousands of steps.

    python benchmarks/cells_over_time.py --steps 2000 --units 64

A random layer reads smooth noise. Every form has its own states and is never corrected: ONNX Runtime
computes the float layer, the reference of calib8 the quantized one. Of each part of the steps the largest and
the mean |Δh| are printed; an error that feeds on itself would grow from part to part.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import calib8
from calib8.program.lower import lower
from calib8.program.reference.executor import run_program

Array = npt.NDArray[np.float32]
GATES: Final = {"LSTM": 4, "GRU": 3}
FORMS: Final = {"hybrid": "onnx", "integer": "single"}
"""Form → profile that it runs in."""


def network(op: str, steps: int, samples: int, inputs: int, units: int, seed: int) -> onnx.ModelProto:
    """x [T, N, I] → MatMul → the layer → y [T, 1, N, H] as ``h``, and a MatMul behind it."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int, depth: int) -> Array:
        return rng.normal(0, 1 / np.sqrt(depth), shape).astype(np.float32)

    rows = GATES[op] * units
    bias = np.zeros((1, 2 * rows), np.float32)
    if op == "LSTM":
        bias[:, 2 * units : 3 * units] = 1.0  # of the forget gate, as frameworks begin
    arrays = {
        "w": normal(inputs, inputs, depth=inputs),
        "W": normal(1, rows, inputs, depth=inputs),
        "R": normal(1, rows, units, depth=units),
        "B": bias,
        "v": normal(units, 4, depth=units),
    }
    own: dict[str, Any] = {"hidden_size": units} | ({"linear_before_reset": 1} if op == "GRU" else {})
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "before"),
        helper.make_node(op, ["a", "W", "R", "B"], ["h"], "layer", **own),
        helper.make_node("MatMul", ["h", "v"], ["y"], "behind"),
    ]
    shapes = {"x": [steps, samples, inputs], "h": [steps, 1, samples, units], "y": [steps, 1, samples, 4]}
    inputs_, *outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in ("x", "h", "y")
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, op, [inputs_], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def smooth_noise(steps: int, samples: int, inputs: int, seed: int) -> Array:
    """Noise whose neighbours are alike, of variance 1."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, 1, (steps + 15, samples, inputs)).cumsum(axis=0)
    smooth = np.concatenate([noise[15:16] - noise[:1], noise[16:] - noise[1:-15]]) / np.sqrt(15)
    return smooth.astype(np.float32)[:steps]


def errors(
    op: str, form: str, sizes: tuple[int, int, int, int], parts: int, seed: int
) -> list[tuple[float, float]]:
    """The largest and the mean |Δh| in each part of the steps."""
    steps, samples, inputs, units = sizes
    model = network(op, steps, samples, inputs, units, seed)
    calibration = [{"x": smooth_noise(steps, samples, inputs, 1000 + seed + i)} for i in range(2)]
    made = calib8.quantize(
        model, calibration, target="calib8", recurrent=form, repair=("none",), method="minmax"
    )
    program = lower(made.model, profile=FORMS[form], integer_only=form == "integer")  # type: ignore[arg-type]
    feeds = {"x": smooth_noise(steps, samples, inputs, seed)}
    wanted = ort.InferenceSession(model.SerializeToString()).run(["h"], feeds)[0]
    [place] = [place for place, port in enumerate(program.outputs) if port.name == "h"]
    error = np.abs(run_program(program, feeds)[place] - wanted)
    assert isinstance(made.model, ir.Model)
    return [(float(part.max()), float(part.mean())) for part in np.array_split(error, parts)]


def main() -> None:
    """A row per layer and form, averaged over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--inputs", type=int, default=32)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    ends = np.array_split(np.arange(asked.steps), asked.parts)
    heads = [f"{part[0] + 1} … {part[-1] + 1}" for part in ends]
    print("| layer | form |", " | ".join(heads), "|")
    print("|---|---|" + "---|" * asked.parts)
    for op in GATES:
        for form in FORMS:
            sizes = (asked.steps, asked.samples, asked.inputs, asked.units)
            rows = [errors(op, form, sizes, asked.parts, seed) for seed in range(asked.seeds)]
            means = np.mean(rows, axis=0)
            print(f"| {op} | {form} |", " | ".join(f"{most:.3f} ({mean:.4f})" for most, mean in means), "|")


if __name__ == "__main__":
    main()
