"""Tengine's own runtime and tool, built from its source: models are run and quantized there.

    cmake -DTENGINE_OPENMP=OFF -DTENGINE_BUILD_QUANT_TOOL=ON … && cmake --build .      BUILD is that folder

The library keeps the state of a process, and ends it where a model does not fit: run each model in a process
of its own.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

PRECISIONS: Final = {"float32": 0, "uint8": 3, "int8": 4}
"""Type of the codes → mode of the runtime."""

MOST_AXES: Final = 8


class Options(ctypes.Structure):
    """Threads, cores and precision."""

    _fields_ = (
        ("threads", ctypes.c_int),
        ("cluster", ctypes.c_int),
        ("precision", ctypes.c_int),
        ("affinity", ctypes.c_uint64),
    )


def library(build: Path) -> ctypes.CDLL:
    """The runtime, ready to be used."""
    path = next(iter(sorted(build.rglob("libtengine-lite.so"))), None)
    if path is None:
        raise SystemExit(f"{build} holds no libtengine-lite.so: give the folder in which Tengine was built")
    found = ctypes.CDLL(str(path))
    for name in ("create_graph", "get_graph_input_tensor", "get_graph_output_tensor", "get_tensor_buffer"):
        getattr(found, name).restype = ctypes.c_void_p
    if found.init_tengine() != 0:
        raise SystemExit("Tengine does not start")
    return found


class Net:
    """A tmfile in the runtime, one thread, one input."""

    def __init__(self, build: Path, path: Path, shape: Sequence[int], dtype: str) -> None:
        self.library, self.dtype = library(build), np.dtype(dtype)
        self.graph = ctypes.c_void_p(self.library.create_graph(None, b"tengine", str(path).encode()))
        if not self.graph:
            raise SystemExit(f"Tengine does not load {path}")
        self.buffer = np.zeros(shape, self.dtype)
        tensor = ctypes.c_void_p(self.library.get_graph_input_tensor(self.graph, 0, 0))
        sizes = (ctypes.c_int * len(shape))(*shape)
        self.library.set_tensor_shape(tensor, sizes, len(shape))
        place = ctypes.c_void_p(self.buffer.ctypes.data)
        self.library.set_tensor_buffer(tensor, place, ctypes.c_int(self.buffer.nbytes))
        options = Options(1, 0, PRECISIONS[dtype], 0)
        if self.library.prerun_graph_multithread(self.graph, options) < 0:
            raise SystemExit(f"Tengine does not prepare {path}")

    def run(self, array: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        """The outputs: floats, or codes."""
        self.buffer[...] = array
        if self.library.run_graph(self.graph, 1) < 0:
            raise SystemExit("Tengine does not run the model")
        count = self.library.get_graph_output_node_number(self.graph)
        return [self.output(number) for number in range(count)]

    def output(self, number: int) -> np.ndarray[Any, Any]:
        tensor = ctypes.c_void_p(self.library.get_graph_output_tensor(self.graph, number, 0))
        sizes = (ctypes.c_int * MOST_AXES)()
        axes = self.library.get_tensor_shape(tensor, sizes, MOST_AXES)
        place = self.library.get_tensor_buffer(tensor)
        many = int(np.prod(sizes[:axes]))
        kind = ctypes.c_uint8 * (many * self.dtype.itemsize)
        return np.frombuffer(bytes(kind.from_address(place)), self.dtype).reshape(sizes[:axes])


def outputs(build: Path, path: Path, inputs: Iterable[np.ndarray[Any, Any]], dtype: str) -> Iterator[Any]:
    """Outputs of a model for one input after the other."""
    net: Net | None = None
    for array in inputs:
        net = net or Net(build, path, array.shape, dtype)
        yield net.run(array)


def quantized(build: Path, model: Path, images: Path, folder: Path, flags: Sequence[object]) -> Path:
    """What the tool makes of a float tmfile; tables and side files lie in ``folder`` too."""
    tool = next(iter(sorted(build.rglob("quant_tool_int8"))), None)
    if tool is None:
        raise SystemExit(f"{build} holds no quant_tool_int8: build it with TENGINE_BUILD_QUANT_TOOL=ON")
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "int8.tmfile"
    words = [tool, "-m", model, "-i", images, "-o", out, *flags]
    done = subprocess.run([*map(str, words)], cwd=folder, capture_output=True, text=True, check=False)
    if not out.is_file():
        raise SystemExit(f"{tool.name} made nothing: {done.stderr[-400:]}")
    return out


def converted(build: Path, model: Path, out: Path) -> Path | None:
    """What the converter makes of an ONNX model: a float tmfile; None where it crashes."""
    tool = next((path for path in sorted(build.rglob("convert_tool")) if path.is_file()), None)
    if tool is None:
        raise SystemExit(f"{build} holds no convert_tool: build it with TENGINE_BUILD_CONVERT_TOOL=ON")
    words = [str(tool), "-f", "onnx", "-m", str(model), "-o", str(out)]
    subprocess.run(words, capture_output=True, check=False)
    return out if out.is_file() else None
