"""TFLite models in LiteRT, with one of its three sets of kernels.

litert              XNNPACK, which LiteRT takes by default; its own kernels for what that does not have
litert-optimized    its own optimized kernels
litert-reference    its reference kernels, which define what a TFLite model computes
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import DataError, ModelError, UsageError
from calib8.parameters import parameter

Array = npt.NDArray[Any]

LITERT: Final[Mapping[str, str]] = {
    "litert": "AUTO",
    "litert-optimized": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "litert-reference": "BUILTIN_REF",
}
"""Runtime → name of LiteRT's resolver of operators."""

REFUSALS: Final = (ValueError, RuntimeError, TypeError)
"""What LiteRT raises."""


class LiteRtModel:
    """A model in LiteRT behind the ``run`` of an ONNX Runtime session; for one thread at a time.

    Where LiteRT crashes, so does this process: ``LiteRtProcess`` has the model in another one.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        runtime: str,
        threads: int,
        inputs: Sequence[str],
        outputs: Sequence[str],
        keeps: bool = False,
    ) -> None:
        """Opens the model.

        Args:
            path: of the file.
            runtime: a key of ``LITERT``.
            threads: that it may use, 0 for what it takes by itself.
            inputs, outputs: names of the ports in the order of the file.
            keeps: a run begins with what the run before left in the model's variables, else with zeros.

        Raises:
            UsageError: LiteRT is not installed.
            ModelError: it cannot load the model.
        """
        self._name, self._inputs, self._outputs = os.fspath(path), tuple(inputs), tuple(outputs)
        self._keeps = keeps
        check_installed(runtime)
        from ai_edge_litert import interpreter as litert

        kernels = getattr(litert.OpResolverType, LITERT[runtime])
        try:
            self._interpreter = litert.Interpreter(
                model_path=self._name, num_threads=threads or None, experimental_op_resolver_type=kernels
            )
            self._ready = not self._waits_for_sizes()
            if self._ready:
                self._interpreter.allocate_tensors()
        except REFUSALS as error:
            problem = f"LiteRT cannot load it ({_reason(error)})"
            cure = f"Export the model again, or use another {parameter('runtime')}"
            raise ModelError(self._name, problem, cure) from error

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """Outputs (all, or those named) for the arrays fed by input name.

        Raises:
            DataError: names, types or shapes do not fit.
        """
        missing = [name for name in self._inputs if name not in feeds]
        if missing or len(feeds) != len(self._inputs):
            got = ", ".join(feeds) or "nothing"
            raise DataError(self._name, f"got {got} as inputs", f"It takes {', '.join(self._inputs)}")
        try:
            self._feed(feeds)
            if not self._keeps:
                self._interpreter.reset_all_variables()
            self._interpreter.invoke()
        except REFUSALS as error:
            fed = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in feeds.items())
            problem = f"LiteRT refused {fed} ({_reason(error)})"
            raise DataError(self._name, problem, "Check types and shapes") from error
        results = self.results()
        return results if outputs is None else [results[self._outputs.index(name)] for name in outputs]

    def invoke(self) -> None:
        """Runs on what was fed last; the outputs stay where LiteRT has them."""
        self._interpreter.invoke()

    def results(self) -> list[Array]:
        """All outputs of the last run."""
        details = self._interpreter.get_output_details()
        return [np.array(self._interpreter.get_tensor(detail["index"])) for detail in details]

    def _waits_for_sizes(self) -> bool:
        """Sizes behind the batch are free: what the file has in their place need not make sense."""
        signatures = (detail["shape_signature"] for detail in self._interpreter.get_input_details())
        return any(-1 in signature[1:] for signature in signatures)

    def _feed(self, feeds: Mapping[str, Array]) -> None:
        arrays = [feeds[name] for name in self._inputs]
        details = self._interpreter.get_input_details()
        changed = [
            (detail["index"], array.shape)
            for detail, array in zip(details, arrays, strict=True)
            if tuple(detail["shape"]) != array.shape
        ]
        for index, shape in changed:
            self._interpreter.resize_tensor_input(index, shape, strict=True)
        if changed or not self._ready:
            self._interpreter.allocate_tensors()
            self._ready = True
        for detail, array in zip(details, arrays, strict=True):
            self._interpreter.set_tensor(detail["index"], np.ascontiguousarray(array))


def check_installed(runtime: str) -> None:
    """Refuses a runtime of ``LITERT`` where LiteRT is missing, without loading it.

    Raises:
        UsageError: it is not installed.
    """
    if find_spec("ai_edge_litert") is None:
        cure = "Install it with: pip install 'calib8[litert]'"
        raise UsageError(parameter("runtime", runtime), "LiteRT is not installed", cure)


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__
