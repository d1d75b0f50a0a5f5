"""Running a model in ONNX Runtime: the only place that opens its sessions."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import DataError, ModelError
from calib8.files import library_path
from calib8.forks import never_destroy_in_child, whole, whole_imports
from calib8.tensors import TensorSpec

if TYPE_CHECKING:
    import onnx_ir as ir

Arrays = Mapping[str, npt.NDArray[np.generic]]

AT_ONCE: Final = 4
"""At most so many runs of one session at a time: each has memory of its own."""


@dataclass(frozen=True)
class Session:
    """An open ONNX Runtime session.

    Attributes:
        name: what to call the model in messages.
        inputs: specs of the inputs that must be fed.
        outputs: specs of the outputs.
        handle: what runs it.
        runtime: name of what runs it.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    handle: Any
    runtime: str = "onnxruntime"

    def run(self, feeds: Arrays, outputs: Sequence[str] | None = None) -> list[npt.NDArray[Any]]:
        """Outputs (all, or those named) for the arrays fed by input name.

        Raises:
            DataError: names, types or shapes do not fit, or the run fails inside ONNX Runtime.
        """
        try:
            results: list[npt.NDArray[Any]] = self.handle.run(outputs, dict(feeds))
        except Exception as error:
            if not _is_runtime_error(error):
                raise
            raise self._refused(feeds, error) from error
        return results

    def run_into(self, feeds: Arrays, outputs: Mapping[str, npt.NDArray[Any]]) -> None:
        """Writes the named outputs into arrays of the right shape and dtype, allocating nothing for them.

        Raises:
            DataError: as for ``run``, or an array does not fit its output.
        """
        try:
            binding = self.handle.io_binding()
            for name, array in feeds.items():
                binding.bind_cpu_input(name, np.asarray(array, order="C"))
            for name, array in outputs.items():
                binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
            self.handle.run_with_iobinding(binding)
        except Exception as error:
            if not _is_runtime_error(error):
                raise
            raise self._refused(feeds, error) from error

    def _refused(self, feeds: Arrays, error: Exception) -> DataError:
        short = self._other_rows(feeds)
        if short is not None:
            return short
        fed = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in feeds.items())
        wanted = ", ".join(str(spec) for spec in self.inputs)
        return DataError(
            self.name, f"ONNX Runtime refused {fed} ({_reason(error)})", f"The model takes {wanted}"
        )

    def _other_rows(self, feeds: Arrays) -> DataError | None:
        """What to say where arrays fit but for the number of samples that the model takes at once."""
        for spec in self.inputs:
            array, shape = feeds.get(spec.name), spec.shape
            if array is None or not shape or array.ndim != len(shape) or not isinstance(shape[0], int):
                continue
            rest = zip(array.shape[1:], shape[1:], strict=True)
            if array.shape[0] != shape[0] and all(a == b for a, b in rest if isinstance(b, int)):
                problem = f"input '{spec.name}' takes {shape[0]} samples at once, and {array.shape[0]} came"
                cure = f"Give a number of samples that {shape[0]} divides, or a model with a free batch"
                return DataError(self.name, problem, cure)
        return None


def runtime_version() -> str:
    """Version of ONNX Runtime."""
    with whole_imports():
        import onnxruntime

    return str(onnxruntime.__version__)


EXACT_SUMS: Final = "session.x64quantprecision"
"""Setting of ONNX Runtime: "1" lets x86 multiply uint8 by uint8, which cannot saturate. Without VNNI sums are
exact by it alone; with VNNI they are exact anyway, and it makes layers two to three times as slow."""


_NO_KERNEL: Final = "NotImplemented"
"""What ONNX Runtime calls its error where no kernel takes the types of a node."""


_NO_LAYOUT: Final = "Batchwise recurrent operations"
"""What ONNX Runtime calls recurrent layers of layout 1, which no kernel of it computes."""


def open_session(
    model: ir.Model | str | os.PathLike[str] | bytes,
    *,
    threads: int = 0,
    save_optimized: str | None = None,
    name: str | None = None,
    configure: Callable[[Any], None] = lambda options: None,
    exact_sums: bool = True,
) -> Session:
    """Opens a model on the CPU with all graph optimisations.

    Args:
        model: a graph, the path of an .onnx file, or the bytes of one.
        threads: intra-op threads, 0 for all cores.
        save_optimized: where to write the graph as ONNX Runtime optimized it.
        name: what to call the model in messages; None: its path or the graph's name.
        configure: changes the ``onnxruntime.SessionOptions`` further.
        exact_sums: no pair of 8-bit products saturates; without it x86 without VNNI gives other outputs than
            other processors (``calib8.model.saturation``).

    Raises:
        ModelError: ONNX Runtime cannot load the model.
    """
    with whole_imports():
        import onnxruntime  # a plan without float parts does without

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # what fails is raised
    if save_optimized is not None:
        options.optimized_model_filepath = save_optimized
    name = name or _name(model)
    try:
        configure(options)
        handle = _open_exact(model, options) if exact_sums else _open_whole(model, options)
    except Exception as error:
        if not _is_runtime_error(error):
            raise
        if isinstance(model, str | os.PathLike) and _NO_LAYOUT in str(error):
            return open_session(
                _with_layout(model), threads=threads, save_optimized=save_optimized, name=name,
                configure=configure, exact_sums=exact_sums,
            )  # fmt: skip
        reason = _reason(error)
        raise ModelError(name, f"ONNX Runtime cannot load it ({reason})", _cure(reason)) from error
    never_destroy_in_child(handle)
    return Session(name, _specs(handle.get_inputs()), _specs(handle.get_outputs()), handle)


def _cure(reason: str) -> str:
    """What helps where ONNX Runtime cannot load a model."""
    if "same node name" in reason:
        return "Rename one of the two"
    if "EPContext" in reason:
        return "Open it with the provider of its plans, or give the model that they were made of"
    return "Check it with onnx.checker"


def _with_layout(path: str | os.PathLike[str]) -> ir.Model:
    """The model of a file with recurrent layers as ONNX Runtime has kernels for them."""
    import onnx_ir as ir

    from calib8.model.time_first import time_first

    model = ir.load(library_path(path))
    time_first(model, os.fspath(path))
    return model


@cache
def saturates_here() -> bool:
    """Whether two products that leave int16 together come out too small, in a session with the defaults."""
    with whole_imports():
        from calib8.model.saturation import CODE, EXACT, two_products

    session = open_session(two_products(), threads=1, name="two products", exact_sums=False)
    [codes] = session.run({"a": np.full((1, 2), CODE, np.uint8)})
    return int(codes.item()) != EXACT


def _may_saturate(model: ir.Model | str | os.PathLike[str] | bytes) -> bool:
    """To ask costs a process without onnx_ir, as those that open plans are, more than it could gain."""
    return (isinstance(model, bytes) and "onnx_ir" not in sys.modules) or saturates_here()


def _open_exact(model: ir.Model | str | os.PathLike[str] | bytes, options: Any) -> Any:
    """With sums that do not saturate; as it comes where that has no kernel, as for int8 times uint8."""
    if not _may_saturate(model):
        return _open_whole(model, options)
    options.add_session_config_entry(EXACT_SUMS, "1")
    try:
        return _open_whole(model, options)
    except Exception as error:
        if type(error).__name__ != _NO_KERNEL:
            raise
        options.add_session_config_entry(EXACT_SUMS, "0")
        return _open_whole(model, options)


def _open_whole(model: ir.Model | str | os.PathLike[str] | bytes, options: Any) -> Any:
    with whole():  # ONNX Runtime sets up what all sessions of a process share
        return _open(model, options)


def run_each(
    model: ir.Model,
    runs: Sequence[Arrays],
    *,
    threads: int,
    configure: Callable[[Any], None] = lambda options: None,
) -> Generator[list[npt.NDArray[Any]], None, None]:
    """Opens a model and yields the outputs of every run, in their order.

    Several runs go on at once, with one thread each as long as there are more runs than threads: none waits
    for another one then, as the threads of a single run do at the end of every node.

    Args:
        model: a graph.
        runs: inputs of single runs.
        threads: for all of it, ≥ 1; no result depends on it.
        configure: as for ``open_session``.

    Returns:
        A generator; closing it ends the threads.

    Raises:
        ModelError, DataError: from iterating, as for ``open_session`` and ``Session.run``.
    """
    at_once = max(1, min(threads, len(runs), AT_ONCE))
    session = open_session(model, threads=max(1, threads // at_once), configure=configure)
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="calib8-run")
    going: deque[Future[list[npt.NDArray[Any]]]] = deque()
    try:
        for feeds in runs:
            going.append(pool.submit(session.run, feeds))
            if len(going) > at_once:
                yield going.popleft().result()
        while going:
            yield going.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def keep_quantizers(options: Any) -> None:
    """For ``configure`` of ``open_session``: Q and DQ are what is wanted, and computed as they stand.

    ONNX Runtime would move them, fuse them away, put the float weight of a layer between them into codes of
    its own, or multiply weights of 4 bits with activations that it rounds to 8. Constant codes are
    dequantized when the model is opened. It would also drop a Relu before codes of 2 or 4 bits or of float8,
    as if these began at 0.
    """
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.add_session_config_entry("optimization.disable_specified_optimizers", "ReluQuantRewrite")


def as_written(options: Any) -> None:
    """For ``configure`` of ``open_session``: every node by itself, the plain meaning of a graph."""
    import onnxruntime

    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    without_second_weights(options)


def without_second_weights(options: Any) -> None:
    """For ``configure`` of ``open_session``: no second copy of the weights in the order that kernels like."""
    options.add_session_config_entry("session.disable_prepacking", "1")


def _name(model: ir.Model | str | os.PathLike[str] | bytes) -> str:
    if isinstance(model, bytes):
        return "model"
    return str(model) if isinstance(model, str | os.PathLike) else model.graph.name or "model"


def _open(model: ir.Model | str | os.PathLike[str] | bytes, options: Any) -> Any:
    import onnxruntime

    providers = ["CPUExecutionProvider"]
    if isinstance(model, bytes):
        return onnxruntime.InferenceSession(model, options, providers=providers)
    if isinstance(model, str | os.PathLike):
        return onnxruntime.InferenceSession(library_path(model), options, providers=providers)
    # bytes and paths, as plans have them, do without the libraries of models
    with whole_imports():
        from calib8.model.memory import LARGE, trim_heap
        from calib8.model.save import constant_bytes, model_bytes, save_beside_constants

    if constant_bytes(model) < LARGE:
        return onnxruntime.InferenceSession(model_bytes(model), options, providers=providers)
    with tempfile.TemporaryDirectory(prefix="calib8-") as folder:
        path = Path(folder) / "model.onnx"
        save_beside_constants(model, path)
        handle = onnxruntime.InferenceSession(str(path), options, providers=providers)
    trim_heap()
    return handle


def _specs(arguments: Iterable[Any]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(arg.name, _dtype(arg.type), _shape(arg.shape)) for arg in arguments)


def _dtype(text: str) -> np.dtype[np.generic]:
    """``tensor(float)`` → float32; anything that is not a plain tensor → object."""
    names = {"float": "float32", "double": "float64", "string": "object", "bfloat16": "object"}
    inner = text.removeprefix("tensor(").removesuffix(")")
    try:
        return np.dtype(names.get(inner, inner))
    except TypeError:
        return np.dtype(object)


def _shape(sizes: Sequence[int | str | None] | None) -> tuple[int | str | None, ...] | None:
    if sizes is None:
        return None
    return tuple(None if isinstance(size, int) and size < 0 else size for size in sizes)


def _is_runtime_error(error: Exception) -> bool:
    """ONNX Runtime's exceptions derive from Exception directly; they are known by their module."""
    return type(error).__module__.startswith("onnxruntime") or isinstance(
        error, (ValueError, RuntimeError, TypeError)
    )


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
