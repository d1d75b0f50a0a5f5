"""Calibration by other tools, one measurement a process; needs no calib8, so their own Python can run it.

    python benchmarks/calibration_peers.py TOOL MODEL IMAGES COUNT FOLDER

TOOL is ``onnxruntime-minmax``, ``-entropy`` or ``-percentile``, each with or without ``-tail`` (what lies
behind the last layers with weights stays float), ``nncf``, ``modelopt-max`` or ``-entropy``.
IMAGES holds float32 images of 3x224x224 one behind the other, or is an .npy file of inputs, float32
[samples, …]. Prints JSON: wall and processor seconds of the
calibration (``part_s``, ``part_cpu_s``; None where a tool does not let it be told apart), of the whole
quantization that writes a file (``whole_s``, ``whole_cpu_s``), and the peak of resident memory in MB.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SHAPE = (1, 3, 224, 224)


class Clock:
    """Wall and processor seconds of all that ``timed`` was asked to call; nested calls count once."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self._depth = 0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **keywords: Any) -> Any:
            start = time.perf_counter(), time.process_time()
            self._depth += 1
            try:
                return call(*args, **keywords)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.wall += time.perf_counter() - start[0]
                    self.cpu += time.process_time() - start[1]

        return wrapped


def peak_megabytes() -> float:
    """VmHWM of this process (ru_maxrss would start at the parent's peak)."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def images(file: Path, name: str, count: int, batch: int = 1) -> Iterator[dict[str, np.ndarray]]:
    if file.suffix == ".npy":
        inputs = np.load(file, mmap_mode="r")[:count]
        for start in range(0, len(inputs), batch):
            yield {name: np.array(inputs[start : start + batch])}
        return
    size = 4 * int(np.prod(SHAPE))
    with file.open("rb") as source:
        for start in range(0, count, batch):
            rows = min(batch, count - start)
            values = np.frombuffer(source.read(size * rows), np.float32)
            yield {name: values.reshape(rows, *SHAPE[1:])}


class Reader:
    """What onnxruntime reads calibration data from."""

    def __init__(self, file: Path, name: str, count: int) -> None:
        self._make = lambda: images(file, name, count)
        self.rewind()

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)

    def rewind(self) -> None:
        self._left = self._make()

    def get_first(self) -> dict[str, np.ndarray]:
        return next(self._make())


def onnxruntime_tool(clock: Clock, method: str, model: Path, reader: Reader, folder: Path) -> None:
    from onnxruntime.quantization import CalibrationMethod, QuantType, quantize_static
    from onnxruntime.quantization.calibrate import CalibrationDataReader
    from onnxruntime.quantization.shape_inference import quant_pre_process

    module = importlib.import_module("onnxruntime.quantization.quantize")
    create = module.create_calibrator

    def created(*args: Any, **keywords: Any) -> Any:
        calibrator = clock.timed(create)(*args, **keywords)
        for name in ("collect_data", "compute_data"):
            setattr(calibrator, name, clock.timed(getattr(calibrator, name)))
        return calibrator

    module.create_calibrator = created
    CalibrationDataReader.register(Reader)
    methods = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}
    method, _, tail = method.partition("-")
    quant_pre_process(str(model), str(folder / "clean.onnx"), skip_symbolic_shape=True)
    left_out = tail_of(folder / "clean.onnx") if tail else []
    quantize_static(
        str(folder / "clean.onnx"),
        str(folder / "int8.onnx"),
        reader,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod[methods[method]],
        nodes_to_exclude=left_out,
    )


def tail_of(file: Path) -> list[str]:
    """Names of the nodes from which no layer with weights is reached, the layers themselves left out.

    Nodes without a name get one in the file. A layer of at most 16 constants, such as the weighted mean that
    decodes boxes, counts as decoding.
    """
    import onnx

    model = onnx.load(file)
    sizes = {one.name: int(np.prod(one.dims)) for one in model.graph.initializer}
    kinds = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU")
    before_layers, names = set[str](), list[str]()
    for index, node in reversed(list(enumerate(model.graph.node))):
        node.name = node.name or f"node_{index}"
        small = len(node.input) > 1 and sizes.get(node.input[1], 17) <= 16
        layer = node.op_type in kinds and not small
        if layer or before_layers.intersection(node.output):
            before_layers.update(node.input)
        if not layer and not before_layers.intersection(node.output):
            names.append(node.name)
    onnx.save(model, file)
    return names


def nncf_tool(clock: Clock, method: str, model: Path, reader: Reader, folder: Path, count: int) -> None:
    import nncf
    import onnx
    from nncf.common.tensor_statistics.aggregator import StatisticsAggregator
    from nncf.onnx.statistics.aggregator import ONNXStatisticsAggregator

    for owner in (StatisticsAggregator, ONNXStatisticsAggregator):
        owner.collect_statistics = clock.timed(owner.collect_statistics)

    class Items:
        def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
            reader.rewind()
            return iter(reader.get_next, None)

    made = nncf.quantize(onnx.load(model), nncf.Dataset(Items()), subset_size=count)
    onnx.save(made, folder / "int8.onnx")


def modelopt_tool(method: str, model: Path, reader: Reader, folder: Path) -> None:
    from modelopt.onnx.quantization import quantize

    quantize(
        str(model),
        calibration_method=method,
        calibration_data_reader=reader,
        calibration_eps=["cpu"],
        high_precision_dtype="fp32",
        output_path=str(folder / "int8.onnx"),
    )


def main() -> None:
    tool, model, file, count, folder = sys.argv[1:]
    family, _, method = tool.partition("-")
    import onnx

    name = onnx.load(model, load_external_data=False).graph.input[0].name
    reader = Reader(Path(file), name, int(count))
    part, whole = Clock(), Clock()
    if family == "onnxruntime":
        run = lambda: onnxruntime_tool(part, method, Path(model), reader, Path(folder))  # noqa: E731
    elif family == "nncf":
        run = lambda: nncf_tool(part, method, Path(model), reader, Path(folder), int(count))  # noqa: E731
    elif family == "modelopt":
        importlib.import_module("modelopt.onnx.quantization")
        run = lambda: modelopt_tool(method, Path(model), reader, Path(folder))  # noqa: E731
    else:
        raise SystemExit(f"unknown tool {tool}")
    whole.timed(run)()
    record = {"whole_s": whole.wall, "whole_cpu_s": whole.cpu, "peak_mb": peak_megabytes()}
    told = part.wall > 0
    print(
        json.dumps(record | {"part_s": part.wall if told else None, "part_cpu_s": part.cpu if told else None})
    )


if __name__ == "__main__":
    main()
