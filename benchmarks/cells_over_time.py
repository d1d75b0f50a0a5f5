"""How far the h of quantized LSTM and GRU drifts from the float layer's over thousands of steps.

    python benchmarks/cells_over_time.py --steps 2000 --units 64 --svg docs/images/cells_over_time.svg

A random layer reads smooth noise. Every form has its own states and is never corrected: ONNX Runtime
computes the float layer, the reference of calib8 the quantized one. Of each part of the steps the largest and
the mean |Δh| are printed; an error that feeds on itself would grow from part to part. The picture has the
largest |Δh| of every 50 steps.
"""

from __future__ import annotations

import argparse
from pathlib import Path
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

WINDOW: Final = 50
"""Steps of a point of the picture."""


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


def errors(op: str, form: str, sizes: tuple[int, int, int, int], seed: int) -> Array:
    """|Δh| [T, N·H] of all steps."""
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
    error: Array = np.abs(run_program(program, feeds)[place] - wanted)
    assert isinstance(made.model, ir.Model)
    return error.reshape(steps, -1)


def told(error: Array, parts: int) -> Array:
    """[parts, 2]: the largest and the mean |Δh| of each."""
    return np.array([(part.max(), part.mean()) for part in np.array_split(error, parts)], np.float32)


def picture(curves: dict[str, Array], steps: int) -> str:
    """SVG with a line per form: the largest |Δh| of each window over the steps, linear axes from 0."""
    left, top, width, height = 52, 12, 560, 220
    most = float(np.ceil(20 * max(float(curve.max()) for curve in curves.values())) / 20)
    colors = ("#1f6fb2", "#c2571a", "#2f8f4e", "#8a4fa8")

    def centred(x: float, y: float, text: str) -> str:
        return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle">{text}</text>'

    def at(place: float, value: float) -> str:
        return f"{left + width * place:.1f},{top + height * (1 - value / most):.1f}"

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} {top + height + 66}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{left + width + 20}" height="{top + height + 66}" fill="#ffffff"/>',
    ]
    for value in np.linspace(0, most, 6):
        y = top + height * (1 - value / most)
        lines.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#d8d8d8"/>')
        lines.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.2f}</text>')
    for place in np.linspace(0, 1, 5):
        x = left + width * place
        lines.append(centred(x, top + height + 18, f"{place * steps:.0f}"))
    lines.append(centred(left + width / 2, top + height + 36, "steps; largest |Δh|"))
    for number, (name, curve) in enumerate(curves.items()):
        points = " ".join(at((i + 0.5) / len(curve), float(value)) for i, value in enumerate(curve))
        color, x = colors[number], left + number * width / len(curves)
        lines.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        lines.append(f'<path d="M{x:.0f} {top + height + 54}h18" stroke="{color}" stroke-width="3"/>')
        lines.append(f'<text x="{x + 24:.0f}" y="{top + height + 58}">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """A row per layer and form, averaged over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--inputs", type=int, default=32)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--svg", type=Path, help="where the picture goes")
    asked = parser.parse_args()
    curves: dict[str, Array] = {}
    ends = np.array_split(np.arange(asked.steps), asked.parts)
    heads = [f"{part[0] + 1} … {part[-1] + 1}" for part in ends]
    print("| layer | form |", " | ".join(heads), "|")
    print("|---|---|" + "---|" * asked.parts)
    for op in GATES:
        for form in FORMS:
            sizes = (asked.steps, asked.samples, asked.inputs, asked.units)
            found = [errors(op, form, sizes, seed) for seed in range(asked.seeds)]
            means = np.mean([told(error, asked.parts) for error in found], axis=0)
            windows = max(1, asked.steps // WINDOW)
            curves[f"{op}, {form}"] = np.mean([told(error, windows)[:, 0] for error in found], axis=0)
            print(f"| {op} | {form} |", " | ".join(f"{most:.3f} ({mean:.4f})" for most, mean in means), "|")
    if asked.svg is not None:
        asked.svg.write_text(picture(curves, asked.steps), "utf-8")


if __name__ == "__main__":
    main()
