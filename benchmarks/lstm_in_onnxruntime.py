"""LSTM in ONNX Runtime: float, and with the int8 weights of ``recurrent="hybrid"`` (DynamicQuantizeLSTM).

    python benchmarks/lstm_in_onnxruntime.py [MODEL.onnx …] --rounds 40

Layers are random ones, [T, N, I] with H units in one direction or two, and a small product behind them;
models are streaming ones (DTLN), fed with random frames, their states carried. Each is quantized for
``onnxruntime`` twice. All three run in ONNX Runtime with one thread, in turns of eight runs: told is what a
tenth of the runs stay below, which a busy machine hardly changes; the SQNR of the outputs beside FP32 (of a
model each with its own states, over 200 frames), and the bytes of the file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import calib8
from calib8.model.graph import graph_inputs, graph_outputs
from calib8.model.load import load_model
from calib8.model.states import states_of

Array = npt.NDArray[Any]
LAYERS: Final = (
    (1, 1, 128, 128, 1),
    (1, 1, 512, 512, 1),
    (50, 1, 128, 128, 1),
    (50, 1, 256, 256, 2),
    (100, 4, 256, 512, 1),
    (25, 1, 64, 48, 2),
)
"""T, N, I, H and directions."""

RESULTS: Final = 8
IN_TURN: Final = 8
FRAMES: Final = 200


def layer(steps: int, samples: int, inputs: int, units: int, directions: int) -> onnx.ModelProto:
    """x [T, N, I] → LSTM → its results as rows → a product → y."""
    rng = np.random.default_rng(1)
    wide = directions * units
    arrays = {
        "W": rng.normal(0, inputs**-0.5, (directions, 4 * units, inputs)),
        "R": rng.normal(0, units**-0.5, (directions, 4 * units, units)),
        "B": rng.normal(0, 0.1, (directions, 8 * units)),
        "V": rng.normal(0, wide**-0.5, (wide, RESULTS)),
    }
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    constants.append(numpy_helper.from_array(np.array([steps, samples, wide]), "sizes"))
    way = "bidirectional" if directions == 2 else "forward"
    nodes = [
        helper.make_node("LSTM", ["x", "W", "R", "B"], ["h"], "cell", hidden_size=units, direction=way),
        helper.make_node("Transpose", ["h"], ["t"], "turned", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["t", "sizes"], ["rows"], "rows"),
        helper.make_node("MatMul", ["rows", "V"], ["y"], "head"),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [steps, samples, inputs])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [steps, samples, RESULTS])
    graph = helper.make_graph(nodes, "layer", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def frames_of(path: Path, count: int, seed: int) -> list[dict[str, Array]]:
    """Random frames, quiet and loud ones, of the inputs that are no states."""
    model = load_model(path)
    states, rng = states_of(model, None), np.random.default_rng(seed)
    specs = [spec for spec in graph_inputs(model) if spec.name not in states]
    loud = np.exp(rng.normal(-1, 1, count)).astype(np.float32)
    sizes = {spec.name: [one if isinstance(one, int) else 1 for one in spec.shape or ()] for spec in specs}
    return [
        {name: (by * np.abs(rng.normal(size=shape))).astype(np.float32) for name, shape in sizes.items()}
        for by in loud
    ]


class Opened:
    """A model in ONNX Runtime, one thread, its states carried."""

    def __init__(self, path: Path, states: Mapping[str, str]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.size, self._states = path.stat().st_size, states
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._names = [one.name for one in self._session.get_outputs()]
        shapes = {
            one.name: [s if isinstance(s, int) else 1 for s in one.shape]
            for one in self._session.get_inputs()
        }
        self._now = {name: np.zeros(shapes[name], np.float32) for name in states}

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        found = dict(zip(self._names, self._session.run(None, {**feeds, **self._now}), strict=True))
        self._now = {state: found[output] for state, output in self._states.items()}
        return [array for name, array in found.items() if name not in self._states.values()]


def told(name: str, path: Path, frames: Sequence[Mapping[str, Array]], rounds: int, folder: Path) -> None:
    """One row of the table."""
    states = states_of(load_model(path), None)
    assert len(graph_outputs(load_model(path))) > 0
    paths = [path]
    for form in (None, "hybrid"):
        made = calib8.quantize(
            path, list(frames[: FRAMES // 2]), target="onnxruntime", recurrent=form, threads=1
        )
        paths.append(folder / f"{form}.onnx")
        made.save(paths[-1])
    judged = [Opened(one, states) for one in paths]
    results = [
        np.concatenate([np.ravel(one.run(frame)[0]) for frame in frames[FRAMES // 2 :]]) for one in judged
    ]
    errors = [np.sum((results[0] - found) ** 2.0) for found in results[1:]]
    found_db = [10 * np.log10(np.sum(results[0] ** 2.0) / error) for error in errors]
    times = timed([Opened(one, states) for one in paths], frames, rounds)
    cells = [f"{1e6 * least:.0f}" for least in times]
    sizes = [f"{one.size / 1e6:.2f}" for one in judged]
    columns = [
        f"{cells[0]}, {sizes[0]}",
        *(f"{cells[place]}, {found_db[place - 1]:.1f}, {sizes[place]}" for place in (1, 2)),
        *(f"{times[place] / times[2]:.2f}" for place in (0, 1)),
    ]
    print(f"| {name} | {' | '.join(columns)} |", flush=True)


def timed(opened: Sequence[Opened], frames: Sequence[Mapping[str, Array]], rounds: int) -> list[float]:
    """Seconds below which a tenth of the runs stay."""
    taken: list[list[float]] = [[] for _ in opened]
    for number in range(rounds):
        for one, list_of in zip(opened, taken, strict=True):
            for place in range(IN_TURN):
                feeds = frames[(number * IN_TURN + place) % len(frames)]
                start = time.perf_counter()
                one.run(feeds)
                list_of.append(time.perf_counter() - start)
    return [float(np.percentile(each, 10)) for each in taken]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    asked = parser.parse_args()
    print("| µs, dB, MB | FP32 | int8, LSTM float | int8, LSTM hybrid | FP32 : hybrid | float : hybrid |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in asked.models:
            told(path.stem, path, frames_of(path, FRAMES, 3), asked.rounds, folder)
        for sizes in LAYERS:
            onnx.save(layer(*sizes), folder / "layer.onnx")
            rng = np.random.default_rng(2)
            frames = [{"x": rng.standard_normal(sizes[:3], np.float32)} for _ in range(FRAMES)]
            steps, samples, inputs, units, directions = sizes
            title = f"LSTM [{steps}, {samples}, {inputs}], {units} units" + (
                ", both directions" if directions == 2 else ""
            )
            told(title, folder / "layer.onnx", frames, asked.rounds, folder)


if __name__ == "__main__":
    main()
