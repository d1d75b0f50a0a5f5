"""Streaming networks, LSTM and GRU layers: time, error and size of calib8's int8, onnxruntime and OpenVINO.

    python benchmarks/stream_times.py FOLDER --made FOLDER --rounds 15 --json times.json

FOLDER holds silero_vad.onnx, dtln_model_1.onnx and dtln_model_2.onnx, MADE what ``streams.py`` left there
(int8 models). Every runtime gets the same frames of made speech, one after the other, carries the state, and
has one thread. They take turns after every few frames, so that whatever else the machine does meets all of
them. Each frame is timed by itself: told are the median, and in brackets the time that a tenth of the frames
stay below, which a busy machine hardly changes; then the SQNR of the result beside FP32, each with its own
state over the whole stream, and the bytes of the file.

float       FP32 in ONNX Runtime, the file as it is
dynamic     the same with LSTM, MatMul and Gemm quantized by onnxruntime.quantization.quantize_dynamic
openvino    FP32 in OpenVINO, latency mode
calib8      int8 in calib8's engine

LSTM and GRU layers are random ones, [T, 1, I] with H units, one direction or two; calib8 quantizes them by
default. onnxruntime has no dynamic form of GRU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime
import openvino
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import calib8
from calib8.model.fix_inputs import with_fixed
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.passes.prepare import prepare
from speech_made import RATE, made_speech
from streams import STATES, dtln_frames, sqnr_db, vad_frames

Array = npt.NDArray[Any]
Run = Callable[[], Array]
"""The result of one frame; what is carried to the next one stays inside."""

FRAMES: Final = 100
IN_TURN: Final = 8
"""Frames of one runtime before the next one has its turn."""

RUNTIMES: Final = ("float", "dynamic", "openvino", "calib8")
DYNAMIC: Final = ("LSTM", "MatMul", "Gemm")
LAYERS: Final = (
    *(("LSTM", steps, units, units, 1) for units in (128, 256, 512) for steps in (1, 32, 100)),
    ("LSTM", 40, 512, 512, 2),
    *(("GRU", steps, 256, 256, 1) for steps in (1, 32, 100)),
)
"""Op, T, I, H and directions."""

GATES: Final = {"LSTM": 4, "GRU": 3}
HEAD: Final = 8
"""Results of the product behind a layer."""


@dataclass(frozen=True)
class Network:
    """What is timed.

    Attributes:
        name: of the row.
        model: FP32.
        int8: calib8's.
        fed: input → frames [F, …]; each is fed as a batch of one.
        states: input → output that feeds it.
        fixed: other inputs of FP32.
    """

    name: str
    model: Path
    int8: Path
    fed: Mapping[str, Array]
    states: Mapping[str, str]
    fixed: Mapping[str, Array]


def runs(network: Network, made: Path) -> dict[str, tuple[Run, float]]:
    """Runtime → one frame of a stream, and the bytes of its file."""
    plain = prepared(network, made)
    dynamic = made / f"{plain.stem}.dynamic.onnx"
    found = {"float": (in_onnxruntime(network, network.model, network.fixed), network.model.stat().st_size)}
    if any(node.op_type in DYNAMIC for node in onnx.load(plain).graph.node):
        quantize_dynamic(
            plain, dynamic, op_types_to_quantize=list(DYNAMIC), weight_type=QuantType.QInt8, per_channel=True,
            extra_options={"MatMulConstBOnly": True},
        )  # fmt: skip
        found["dynamic"] = (in_onnxruntime(network, dynamic, {}), dynamic.stat().st_size)
    return found | {
        "openvino": (in_openvino(network, plain), plain.stat().st_size),
        "calib8": (in_calib8(network), network.int8.stat().st_size),
    }


def prepared(network: Network, made: Path) -> Path:
    """FP32 with its inputs fixed: what other tools take."""
    path = made / f"{network.model.stem}.prepared.onnx"
    model = with_fixed(
        load_model(network.model), {name: array.item() for name, array in network.fixed.items()}
    )
    specs = {spec.name: spec for spec in graph_inputs(model)}
    sample = {name: frames[:1] for name, frames in network.fed.items()}
    for name in network.states:
        sizes = [size if isinstance(size, int) else 1 for size in specs[name].shape or ()]
        sample[name] = np.zeros(sizes, np.float32)
    onnx.save(ir.to_proto(prepare(model, sample).model), path)
    return path


def frames_of(network: Network) -> Iterator[dict[str, Array]]:
    """Its frames, over and over."""
    return cycle([{name: array[i : i + 1] for name, array in network.fed.items()} for i in range(FRAMES)])


def in_onnxruntime(network: Network, path: Path, fixed: Mapping[str, Array]) -> Run:
    """With the state carried."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    shapes = {
        one.name: [size if isinstance(size, int) else 1 for size in one.shape] for one in session.get_inputs()
    }
    state = {name: np.zeros(shapes[name], np.float32) for name in network.states}
    first = [one.name for one in session.get_outputs() if one.name not in network.states.values()]
    names, frames = [*first, *network.states.values()], frames_of(network)

    def run() -> Array:
        results = session.run(names, {**next(frames), **state, **fixed})
        state.update(zip(network.states, results[len(first) :], strict=True))
        return results[0]

    return run


def in_openvino(network: Network, path: Path) -> Run:
    """With the state carried."""
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    core = openvino.Core()
    model = core.read_model(path)
    sizes = {name: array.shape[1:] for name, array in network.fed.items()}
    model.reshape({
        port: [1, *sizes[port.any_name]] if port.any_name in sizes
        else [size.get_length() if size.is_static else 1 for size in port.partial_shape]
        for port in model.inputs
    })  # fmt: skip
    compiled = core.compile_model(model, "CPU", config)
    request, frames = compiled.create_infer_request(), frames_of(network)
    outputs = {name: compiled.output(name) for name in network.states.values()}
    [first, *_] = [port for port in compiled.outputs if not port.names & outputs.keys()]
    state = {
        port.any_name: np.zeros(tuple(port.shape), np.float32)
        for port in compiled.inputs
        if port.any_name in network.states
    }

    def run() -> Array:
        results = request.infer({**next(frames), **state})
        state.update({name: np.array(results[outputs[output]]) for name, output in network.states.items()})
        return np.array(results[first])

    return run


def in_calib8(network: Network) -> Run:
    """The session carries the state."""
    session, frames = calib8.InferenceSession(network.int8, threads=1), frames_of(network)

    def run() -> Array:
        return session.run(None, next(frames))[0]

    return run


def title(op: str, steps: int, inputs: int, units: int, directions: int) -> str:
    """What the row of a layer is called."""
    return f"{op}, {steps} steps, {inputs} → {units}" + (", both ways" if directions == 2 else "")


def layer(op: str, steps: int, inputs: int, units: int, directions: int, folder: Path) -> Network:
    """A layer with random weights and a product of its units with a small matrix, quantized by default."""
    rng, rows = np.random.default_rng((steps, inputs, units)), GATES[op] * units
    reach = 1 / np.sqrt(units)
    weights = {
        name: rng.uniform(-reach, reach, (directions, *sizes)).astype(np.float32)
        for name, sizes in (("W", (rows, inputs)), ("R", (rows, units)), ("B", (2 * rows,)))
    }
    weights["V"] = rng.normal(0, reach, (units, HEAD)).astype(np.float32)
    direction = "forward" if directions == 1 else "bidirectional"
    own: dict[str, Any] = {"linear_before_reset": 1} if op == "GRU" else {}
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0, 2]),
        helper.make_node(op, ["turned", "W", "R", "B"], ["h"], hidden_size=units, direction=direction, **own),
        helper.make_node("MatMul", ["h", "V"], ["y"]),
    ]
    value = lambda name, sizes: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes)  # noqa: E731
    graph = helper.make_graph(
        nodes, op, [value("x", [1, steps, inputs])], [value("y", [steps, directions, 1, HEAD])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    model, int8 = (
        folder / f"{op.lower()}_{steps}_{inputs}_{units}_{directions}{end}" for end in (".onnx", ".int8.onnx")
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    fed = {"x": rng.normal(0, 1, (FRAMES, steps, inputs)).astype(np.float32)}
    if not int8.exists():
        calib8.quantize(model, fed, target="calib8", samples=50, effort="fast", state={}).save(int8)
    return Network(title(op, steps, inputs, units, directions), model, int8, fed, {}, {})


def networks(folder: Path, made: Path) -> list[Network]:
    """Those of ``streams.py``."""
    noisy = made_speech(FRAMES * 512 / RATE + 1, 3).noisy
    frames = np.stack([frame for frame, _ in zip(dtln_frames(noisy), range(FRAMES), strict=False)])
    spectra = np.abs(np.fft.rfft(frames)).astype(np.float32)
    silero = Network(
        "silero_vad", folder / "silero_vad.onnx", made / "silero_vad.int8.onnx",
        {"input": vad_frames(noisy)[:FRAMES]}, {"state": "stateN"}, {"sr": np.array(RATE)},
    )  # fmt: skip
    pairs = (
        ("DTLN, model 1", "dtln_model_1", "input_2", spectra),
        ("DTLN, model 2", "dtln_model_2", "input_4", frames),
    )
    dtln = [
        Network(
            name, folder / f"{stem}.onnx", made / f"{stem}.int8.onnx", {port: array[:, None]},
            STATES[f"{stem}.onnx"], {},
        )
        for name, stem, port, array in pairs
    ]  # fmt: skip
    return [silero, *dtln]


def chosen(folder: Path, made: Path, only: str) -> Iterator[Network]:
    """Those whose names hold a text, layers behind the others."""
    yield from (one for one in networks(folder, made) if only in one.name)
    yield from (layer(*sizes, made) for sizes in LAYERS if only in title(*sizes))


def timed(network: Network, made: Path, rounds: int) -> dict[str, Any]:
    """Microseconds per frame: the median, and the fastest tenth; dB beside FP32; megabytes."""
    found = runs(network, made)
    streams = {name: np.stack([run() for _ in range(FRAMES)]) for name, (run, _) in found.items()}
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, (run, _) in found.items():
            run()
            for _ in range(IN_TURN):
                start = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - start)
    return {
        "network": network.name,
        "fastest_us": {name: 1e6 * statistics.quantiles(each, n=10)[0] for name, each in seconds.items()},
        "median_us": {name: 1e6 * statistics.median(each) for name, each in seconds.items()},
        "sqnr_db": {name: sqnr_db(streams["float"], each) for name, each in streams.items()},
        "megabytes": {name: size / 1e6 for name, (_, size) in found.items()},
    }


def cell(row: dict[str, Any], name: str) -> str:
    """What a runtime took and gave, as a cell of the table."""
    if name not in row["median_us"]:
        return "–"
    told = [f"{row['median_us'][name]:.0f} ({row['fastest_us'][name]:.0f})", f"{row['megabytes'][name]:.2f}"]
    if name != "float":
        told.insert(1, f"{row['sqnr_db'][name]:.1f}")
    return ", ".join(told)


def main() -> None:
    """Prints a row per network, as a table of Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--made", type=Path, help="folder with the int8 models; default: FOLDER")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", default="", help="rows whose names hold this")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    made, rows = asked.made or asked.folder, []
    ratios = [f"{name} : calib8" for name in RUNTIMES[:-1]]
    print("| µs per frame, dB, MB | " + " | ".join((*RUNTIMES, *ratios)) + " |")
    print("|---|" + "---|" * len((*RUNTIMES, *ratios)))
    for network in chosen(asked.folder, made, asked.only):
        row = timed(network, made, asked.rounds)
        fastest = row["fastest_us"]
        ratios = [
            f"{fastest[name] / fastest['calib8']:.2f}" if name in fastest else "–" for name in RUNTIMES[:-1]
        ]
        print(
            "| " + " | ".join([row["network"], *(cell(row, name) for name in RUNTIMES), *ratios]) + " |",
            flush=True,
        )
        rows.append(row)
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
