"""Functions of one tensor between two convolutions: int8 beside float around the function, by runtime.

    python benchmarks/unary_functions.py [--functions Elu,Mish] [--size 56] [--channels 64] [--rounds 60]

Conv → function → Conv is quantized for ``onnxruntime``, ``openvino`` and ``calib8``, as it comes and with the
function kept in float, and both run in turns in their runtime, one thread. For each: µs of both and their
ratio (below 1: int8 is faster), dB of both against FP32, and what the runtime made of the function:

    onnxruntime    the ops around it in the optimized graph
    openvino       precision of the layer that computes it, or the layer that it is fused into
    calib8         the steps of the engine; ``=``: the bits of the NumPy reference
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime

import calib8
from calib8.program.reference.executor import run_program
from engine import names

FUNCTIONS: Final = {
    "Relu": "y = Relu(x)",
    "LeakyRelu": "y = LeakyRelu<alpha=0.1>(x)",
    "Sigmoid": "y = Sigmoid(x)",
    "Tanh": "y = Tanh(x)",
    "HardSwish": "y = HardSwish(x)",
    "HardSigmoid": "y = HardSigmoid(x)",
    "SiLU": "s = Sigmoid(x) y = Mul(x, s)",
    "Elu": "y = Elu(x)",
    "Selu": "y = Selu(x)",
    "Celu": "y = Celu(x)",
    "Gelu": "y = Gelu(x)",
    "Mish": "y = Mish(x)",
    "Softplus": "y = Softplus(x)",
    "Softsign": "y = Softsign(x)",
    "Erf": "y = Erf(x)",
    "Exp": "y = Exp(x)",
    "Abs": "y = Abs(x)",
    "Sqrt of Abs": "a = Abs(x) y = Sqrt(a)",
}
TARGETS: Final = ("onnxruntime", "openvino", "calib8")


def network(function: str, size: int, channels: int) -> onnx.ModelProto:
    """Conv → function → Conv on images of ``channels`` channels."""
    rng = np.random.default_rng(0)
    body = FUNCTIONS[function].replace("y =", "f =").replace("(x", "(c")
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 20]> net (float[1,{channels},{size},{size}] x) => '
        f"(float[1,{channels},{size},{size}] y) {{ c = Conv<pads=[1,1,1,1]>(x, v) {body} "
        "y = Conv<pads=[1,1,1,1]>(f, w) }"
    )
    for name in ("v", "w"):
        array = rng.normal(0, (channels * 9) ** -0.5, (channels, channels, 3, 3)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    for place, node in enumerate(model.graph.node):
        node.name = f"node{place}"
    return model


def in_onnxruntime(file: Path, feed: dict[str, Any]) -> tuple[Callable[[], Any], str]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.optimized_model_filepath = str(file.with_suffix(".opt.onnx"))
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    ops = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    inside = ops[1:-1] if ops[0] in ("QuantizeLinear", "ReorderInput") else ops
    return lambda: session.run(None, feed), " ".join(inside)


def in_openvino(file: Path, feed: dict[str, Any]) -> tuple[Callable[[], Any], str]:
    import openvino

    compiled = openvino.Core().compile_model(str(file), "CPU", {"INFERENCE_NUM_THREADS": 1})
    request, array = compiled.create_infer_request(), next(iter(feed.values()))
    layers = [node.get_rt_info() for node in compiled.get_runtime_model().get_ordered_ops()]
    kinds = [
        f"{layer['layerType'].astype(str)} {layer['runtimePrecision'].astype(str)}"
        for layer in layers
        if layer["layerType"].astype(str) not in ("Input", "Output", "Const", "Reorder")
    ]
    return lambda: request.infer([array]).to_tuple(), " ".join(kinds)


def in_engine(file: Path, feed: dict[str, Any]) -> tuple[Callable[[], Any], str]:
    session = calib8.InferenceSession(file, threads=1)
    steps = [row.opcode for row in session.plan.rows if row.opcode not in ("copy", "fill_halo")]
    expected = run_program(session.program, feed)
    same = all(map(np.array_equal, session.run(None, feed), expected))
    return lambda: session.run(None, feed), f"{'=' if same else 'OTHER BITS'} {' '.join(steps)}"


OPEN: Final = {"onnxruntime": in_onnxruntime, "openvino": in_openvino, "calib8": in_engine}


def medians(runs: list[Callable[[], Any]], rounds: int) -> list[float]:
    """µs of each, run in turns."""
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, times in zip(runs, taken, strict=True):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    return [1e6 * float(np.median(times)) for times in taken]


def row(function: str, target: str, size: int, channels: int, rounds: int) -> list[str]:
    """A line of the table."""
    model = network(function, size, channels)
    feeds = [
        np.random.default_rng(seed).normal(0, 1, (1, channels, size, size)).astype(np.float32)
        for seed in range(20)
    ]
    kept = [node.name for node in model.graph.node[1:-1]]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        onnx.save(model, folder / "float.onnx")
        session = onnxruntime.InferenceSession(folder / "float.onnx", providers=["CPUExecutionProvider"])
        runs, told, decibels = [], "", []
        for name, floats in (("coded", []), ("float", kept)):
            file = folder / f"{name}.onnx"
            made = calib8.quantize(
                folder / "float.onnx", [{"x": feed} for feed in feeds], target=target, repair=["none"],
                method="minmax", keep_float=floats,
            )  # fmt: skip
            made.save(file)
            run, how = OPEN[target](file, {"x": feeds[0]})
            runs.append(run)
            told = told or how
            exact, found = session.run(None, {"x": feeds[0]})[0], run()[0]
            decibels.append(10 * np.log10(np.sum(exact**2) / np.sum((exact - found) ** 2)))
        times = medians(runs, rounds)
    figures = [f"{times[0]:.0f}", f"{times[1]:.0f}", f"{times[0] / times[1]:.2f}"]
    return [function, target, *figures, f"{decibels[0]:.1f}", f"{decibels[1]:.1f}", told]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--functions", type=names, default=list(FUNCTIONS))
    parser.add_argument("--targets", type=names, default=list(TARGETS))
    parser.add_argument("--size", type=int, default=56)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    print("| function | target | int8 µs | float µs | × | int8 dB | float dB | in the runtime |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for function in arguments.functions:
        for target in arguments.targets:
            found = row(function, target, arguments.size, arguments.channels, arguments.rounds)
            print(f"| {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
