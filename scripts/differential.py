"""Random quantized graphs in calib8 and in other runtimes: what differs, in codes, sorted into classes.

    python scripts/differential.py --count 1000 --seed 7
    python scripts/differential.py --seconds 600 --peers onnxruntime,unoptimized,openvino,litert

A graph is a small QDQ network of random operators, scales and zero points. calib8's engine runs it with the
rounding of the peer (``onnx``; both run a TFLite file of the graph where the peer is LiteRT):

    same        every code
    one apart   some codes are one apart, as where an exact value lies between two codes
    more        codes are further apart: one that is one apart, multiplied by a layer behind it
    refused     the peer or the export has no form of the graph

Any difference from the engine to NumPy's reference, or to LiteRT's reference kernels, is a fault. The others
round otherwise where ONNX does not say how; docs/numerics.md, section 5, says where and why.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("program/lower", "exporting", "tflite_models", "")]

import onnxruntime  # noqa: E402 - what tests share lies in folders of theirs
from exported import as_fed  # noqa: E402
from litert import litert_outputs  # noqa: E402
from qdq_nets import Net, lowered, runtime_outputs  # noqa: E402

from calib8.errors import Calib8Error, NoFormError  # noqa: E402
from calib8.exporting.tflite.export import to_tflite  # noqa: E402
from calib8.program.program import Program  # noqa: E402
from calib8.program.reference.executor import run_program  # noqa: E402
from calib8.session import InferenceSession  # noqa: E402
from calib8.tflite.write import serialize  # noqa: E402

Array = npt.NDArray[Any]
Shape = tuple[int, int, int]
CLASSES: Final = ("same", "one apart", "more", "refused")
PEERS: Final = ("reference", "onnxruntime", "unoptimized", "openvino", "litert")
MUST: Final = ("reference", "litert")
"""Peers from which nothing may differ."""


@dataclass
class Value:
    """A tensor in codes: its name, channels, rows and columns, scale and zero point."""

    name: str
    shape: Shape
    scale: float
    zero: int


class Growing:
    """A graph that grows operator by operator from one image."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.net = Net(seed)
        self.ops: list[str] = []
        channels, rows = int(self.rng.integers(1, 9)), int(self.rng.integers(4, 17))
        self.shape: Shape = (channels, rows, int(self.rng.integers(4, 17)))
        self.values = [self.coded("x", self.shape)]
        for _ in range(int(self.rng.integers(1, 8))):
            self.step()

    def coded(self, name: str, shape: Shape, near: float = 0.05) -> Value:
        """A value with a quantizer behind it."""
        scale = float(np.float32(near * self.rng.uniform(0.5, 1.6)))
        zero = int(self.rng.choice([0, 3, 100, 128, 131, 255], p=[0.15, 0.1, 0.3, 0.3, 0.1, 0.05]))
        return Value(self.net.coded(name, scale, zero), shape, scale, zero)

    def step(self) -> None:
        """One operator more; what does not fit is left out."""
        value = self.values[int(self.rng.integers(max(0, len(self.values) - 3), len(self.values)))]
        kinds = (
            self.conv,
            self.depthwise,
            self.pool,
            self.pad,
            self.function,
            self.pair,
            self.join,
            self.mean,
        )
        weights = np.array([4, 2, 3, 2, 3, 3, 1, 1], float)
        kind = kinds[int(self.rng.choice(len(kinds), p=weights / weights.sum()))]
        made = kind(value)
        if made is not None:
            self.ops.append(kind.__name__)
            self.values.append(made)

    def conv(self, value: Value) -> Value:
        """Convolution of any kernel, with a bias and perhaps a Relu."""
        channels, rows, columns = value.shape
        kernel, outputs = int(self.rng.choice([1, 3])), int(self.rng.integers(1, 9))
        stride = int(self.rng.choice([1, 2]))
        weight = self.net.weight(outputs, channels, kernel, kernel)
        bias = self.net.bias(outputs, weight, value.scale)
        text = (
            f"Conv<pads={[kernel // 2] * 4}, strides=[{stride}, {stride}]> ({value.name}, {weight}, {bias})"
        )
        return self._layer(text, (outputs, -(-rows // stride), -(-columns // stride)))

    def depthwise(self, value: Value) -> Value:
        """Depthwise convolution."""
        channels = value.shape[0]
        weight = self.net.weight(channels, 1, 3, 3)
        bias = self.net.bias(channels, weight, value.scale)
        text = f"Conv<group={channels}, pads=[1, 1, 1, 1]> ({value.name}, {weight}, {bias})"
        return self._layer(text, value.shape)

    def _layer(self, text: str, shape: Shape) -> Value:
        name = self.net.op(text)
        if self.rng.random() < 0.5:
            name = self.net.op(f"Relu ({name})")
        return self.coded(name, shape, 0.1)

    def pool(self, value: Value) -> Value | None:
        """Max or average, with or without a border, and perhaps a Relu behind it."""
        channels, rows, columns = value.shape
        kernel, stride, border = (int(self.rng.choice(list(some))) for some in ((2, 3), (1, 2), (0, 1)))
        sizes = [(size + 2 * border - kernel) // stride + 1 for size in (rows, columns)]
        if min(sizes) < 1:
            return None
        op = str(self.rng.choice(["MaxPool", "AveragePool"]))
        window = f"kernel_shape=[{kernel}, {kernel}], strides=[{stride}, {stride}], pads={[border] * 4}"
        name = self.net.op(f"{op}<{window}> ({value.name})")
        shape = (channels, sizes[0], sizes[1])
        if op == "MaxPool":
            return Value(self.net.coded(name, value.scale, value.zero), shape, value.scale, value.zero)
        return self.coded(self._relu(name), shape, value.scale)

    def _relu(self, name: str) -> str:
        return self.net.op(f"Relu ({name})") if self.rng.random() < 0.3 else name

    def pad(self, value: Value) -> Value | None:
        """A border of zeros; at random without codes between it and what follows."""
        channels, rows, columns = value.shape
        if rows > 20:
            return None
        amounts = self.net.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
        name = self.net.op(f"Pad ({value.name}, {amounts}, {self.net.constant(0.0)})")
        if self.rng.random() < 0.3:
            name = self.net.op(f"AveragePool<kernel_shape=[3, 3]> ({name})")
            return self.coded(self._relu(name), value.shape, value.scale)
        shape = (channels, rows + 2, columns + 2)
        return Value(self.net.coded(name, value.scale, value.zero), shape, value.scale, value.zero)

    def function(self, value: Value) -> Value:
        """A function of one value."""
        text = str(
            self.rng.choice(["Sigmoid ({0})", "HardSwish ({0})", "LeakyRelu<alpha=0.1> ({0})", "Relu ({0})"])
        )
        near = 1 / 256 if text.startswith("Sigmoid") else value.scale
        return self.coded(self.net.op(text.format(value.name)), value.shape, near)

    def pair(self, value: Value) -> Value:
        """A sum or product of two values of a shape."""
        others = [other for other in self.values if other.shape == value.shape]
        other = others[int(self.rng.integers(len(others)))]
        op = str(self.rng.choice(["Add", "Mul"]))
        name = self.net.op(f"{op} ({value.name}, {other.name})")
        return self.coded(self._relu(name), value.shape, 0.1 if op == "Add" else 0.3)

    def join(self, value: Value) -> Value | None:
        """Channels of two values side by side."""
        others = [other for other in self.values if other.shape[1:] == value.shape[1:]]
        other = others[int(self.rng.integers(len(others)))]
        channels = value.shape[0] + other.shape[0]
        if channels > 24:
            return None
        name = self.net.op(f"Concat<axis=1> ({value.name}, {other.name})")
        return self.coded(name, (channels, *value.shape[1:]))

    def mean(self, value: Value) -> Value:
        """Mean of an image."""
        return self.coded(
            self.net.op(f"GlobalAveragePool ({value.name})"), (value.shape[0], 1, 1), value.scale
        )

    def proto(self) -> onnx.ModelProto:
        """The graph; its output is the last value."""
        x = f"float[1,{','.join(map(str, self.shape))}] x"
        return self.net.proto(x, self.values[-1].name)


def unoptimized(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """ONNX Runtime node by node, as the graph is written."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    outputs: list[Array] = session.run(None, dict(feeds))
    return outputs


def openvino(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """OpenVINO in a process of its own, which a graph may end."""
    from calib8.analysis.runtimes import open_in_runtime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        onnx.save(proto, path)
        session = open_in_runtime(path, "openvino", threads=1)
        return session.run(dict(feeds))


def litert_pair(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> tuple[Array, Array]:
    """One TFLite file of the graph, in the engine and in LiteRT's reference kernels."""
    program = lowered(proto, "tflite")
    exported = to_tflite(program)
    shapes = [exported.graph.tensors[place].shape for place in exported.graph.inputs]
    fed = [as_fed(feeds[port.name], shape) for port, shape in zip(program.inputs, shapes, strict=True)]
    content = serialize(exported.graph)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        path.write_bytes(content)
        session = InferenceSession(path, threads=1)
        [mine] = session.run(None, dict(zip((one.name for one in session.get_inputs()), fed, strict=True)))
    [theirs] = litert_outputs(content, fed)
    return np.asarray(mine), theirs


def kind_of(mine: Array, theirs: Array, scale: float) -> str:
    """The class of a difference."""
    apart = np.rint((mine.astype(np.float64) - theirs.astype(np.float64)) / scale)
    if not apart.any():
        return "same"
    return "one apart" if np.abs(apart).max() == 1 else "more"


def compared(seed: int, peers: tuple[str, ...]) -> dict[str, str]:
    """What becomes of graph ``seed`` in each peer."""
    growing = Growing(seed)
    proto, scale = growing.proto(), growing.values[-1].scale
    feeds = {"x": growing.rng.normal(0, 2.5, (1, *growing.shape)).astype(np.float32)}
    program: Program = lowered(proto)
    [mine] = InferenceSession(program, threads=1).run(None, feeds)
    jobs: dict[str, Callable[[], tuple[Array, Array]]] = {
        "reference": lambda: (mine, run_program(program, feeds)[0]),
        "onnxruntime": lambda: (mine, runtime_outputs(proto, feeds)[0]),
        "unoptimized": lambda: (mine, unoptimized(proto, feeds)[0]),
        "openvino": lambda: (mine, openvino(proto, feeds)[0]),
        "litert": lambda: litert_pair(proto, feeds),
    }
    found = {"ops": " ".join(growing.ops)}
    for peer in peers:
        try:
            first, second = jobs[peer]()
        except (Calib8Error, NoFormError):
            found[peer] = "refused"
            continue
        found[peer] = kind_of(first, second, scale)
    return found


def main() -> int:
    """Prints classes per peer; 1 if something differs that must not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200, help="graphs")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="most of all graphs together")
    parser.add_argument("--seed", type=int, default=7, help="of the graphs")
    parser.add_argument("--peers", default=",".join(PEERS), help="names with commas between them")
    parser.add_argument("--only", type=int, help="this graph alone")
    settings = parser.parse_args()
    peers = tuple(settings.peers.split(","))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    examples: dict[tuple[str, str], list[str]] = defaultdict(list)
    begun, tried = time.monotonic(), 0
    numbers = range(settings.count) if settings.only is None else [settings.only]
    for number in numbers:
        if time.monotonic() - begun > settings.seconds:
            break
        found, tried = compared(settings.seed * 1_000_000 + number, peers), tried + 1
        for peer in peers:
            counts[peer][found[peer]] += 1
            if found[peer] not in ("same", "refused") and len(examples[peer, found[peer]]) < 5:
                examples[peer, found[peer]].append(f"{number} ({found['ops']})")
    print(f"{tried} graphs of seed {settings.seed}\n\n| peer | {' | '.join(CLASSES)} |\n|{'---|' * 5}")
    for peer in peers:
        print(f"| {peer} | {' | '.join(str(counts[peer][kind]) for kind in CLASSES)} |")
    for (peer, kind), names in examples.items():
        print(f"{peer}, {kind}: {', '.join(names)}")
    faults = sum(counts[peer][kind] for peer in MUST for kind in CLASSES[1:3])
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
