"""Counting tapped tensors inside ONNX Runtime, while their values are in the cache (``tap_graph``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import onnx_ir as ir

from calib8 import _core
from calib8.calibration.output_taps import Outputs, apart, one_sample, samples_of
from calib8.calibration.statistics import TensorStatistics
from calib8.calibration.tap_graph import open_tapped
from calib8.errors import CalibrationError, DataError
from calib8.model.graph import graph_inputs
from calib8.model.runtime import Arrays


class GraphTaps:
    """Runs a model whose nodes count; keeps no tensor and no thread.

    Whether a batch has the bits of its samples is told by fingerprints of the tensors, since nothing else of
    them is left after a run.
    """

    def __init__(
        self,
        model: ir.Model,
        tensors: Sequence[str],
        states: Mapping[str, _core.TensorAccumulator],
        *,
        threads: int,
        block: int | None,
        outputs: bool = False,
    ) -> None:
        """Opens the model; see ``Collector`` and ``open_tapped``."""
        self._names = [value.name or "" for value in model.graph.outputs] if outputs else []
        self.outputs: tuple[Outputs, ...] = ()
        types = {spec.name: spec.dtype for spec in graph_inputs(model)}
        inside = [name for name in tensors if types.get(name, np.float32) == np.float32]
        self._outside = {name: states[name] for name in tensors if name not in inside}
        self._count = len(inside)
        self._threads = threads
        self._taps = _core.Taps([states[name] for name in inside], threads)
        self._session, self._tokens = open_tapped(model, inside, self._taps.key, threads=threads, block=block)

    def together(self, feeds: Arrays, size: int) -> None:
        """Runs and counts ``size`` samples at once."""
        self._taps.begin(size)
        self.outputs = apart(self._run(feeds), size)
        self._count_outside(feeds, size)

    def apart(self, feeds: Arrays, size: int) -> None:
        """The same, sample by sample."""
        found: tuple[Outputs, ...] = ()
        for index in range(size):
            self.together(one_sample(feeds, index), 1)
            found += self.outputs
        self.outputs = found

    def both(self, feeds: Arrays, size: int) -> bool:
        """Runs ``size`` samples at once and one by one, counts them once; whether all bits were the same."""
        whole = self._together_uncounted(feeds, size)
        same, parts, singles = bool(whole), self.outputs, list[Outputs]()
        for index in range(size):
            self._taps.begin(1, fingerprints=True)
            singles.append(self._run(one_sample(feeds, index)))
            for (shape, prints), (row_shape, row_prints) in zip(whole, self._latest(), strict=False):
                rows = row_shape[0] if row_shape else 0
                same = (
                    same and rows > 0 and shape[0] == size * rows and prints[index : index + 1] == row_prints
                )
        self._count_outside(feeds, size)
        self.outputs = tuple(singles)
        return same and _same(parts, singles)

    @property
    def half_counted(self) -> bool:
        """Whether the latest run has counted something, and so has spoilt the counts if it failed."""
        return self._taps.fired > 0

    def wait(self) -> None:
        """Nothing to wait for: a run has counted when it ends."""

    def close(self) -> None:
        """Nothing to close."""

    def _run(self, feeds: Arrays) -> Outputs:
        """Returns the outputs of the model where they are wanted."""
        found = self._session.run(feeds, [*self._names, self._tokens[0]])
        if self._taps.fired != self._count:
            raise CalibrationError(
                f"model '{self._session.name}'",
                f"only {self._taps.fired} of {self._count} taps were run",
                "Calibrate with graph outputs",
            )
        return found[:-1]

    def _together_uncounted(self, feeds: Arrays, size: int) -> list[tuple[list[int], list[int]]]:
        """What a batch looks like; nothing where the model cannot run one, whatever its inputs promise."""
        self._taps.begin(size, count=False, fingerprints=True)
        try:
            self.outputs = apart(self._run(feeds), size)
        except DataError:
            self.outputs = ()
            return []
        return self._latest()

    def _latest(self) -> list[tuple[list[int], list[int]]]:
        return [(self._taps.shape(i), self._taps.fingerprints(i)) for i in range(self._count)]

    def _count_outside(self, feeds: Arrays, size: int) -> None:
        """Inputs of other types than float32, which a tap cannot read."""
        for name, state in self._outside.items():
            array = np.ascontiguousarray(feeds[name], np.float32)
            _core.accumulate([(state, array, samples_of(array, size))], self._threads)


def _same(parts: Sequence[Outputs], singles: Sequence[Outputs]) -> bool:
    """Whether the outputs of a batch that came apart have the bits of its samples run one by one."""
    pairs = [
        pair for part, single in zip(parts, singles, strict=False) for pair in zip(part, single, strict=True)
    ]
    return all(np.array_equal(part, single, equal_nan=part.dtype.kind == "f") for part, single in pairs)


@cache
def channel_block() -> int:
    """Channels to a block where ONNX Runtime keeps tensors in blocks on this machine; 8 where it does not.

    Found by counting a tensor that is known, which proves the taps themselves as well.

    Raises:
        Calib8Error: taps do not work with this ONNX Runtime.
    """
    values = np.arange(-30, 30, dtype=np.float32).reshape(2, 3, 5, 2)
    expected = TensorStatistics.from_values(values.sum(axis=1, keepdims=True).repeat(5, 1), 2)
    for block in (8, 16):
        state = _core.TensorAccumulator()
        taps = GraphTaps(_known_model(), ["y"], {"y": state}, threads=1, block=block)
        try:
            taps.together({"x": values}, 2)
        except DataError:  # the tap was told the wrong layout
            continue
        if TensorStatistics.from_accumulator(state) == expected:
            return block
    raise CalibrationError(
        "ONNX Runtime", "does not count a known tensor rightly", "Calibrate with graph outputs"
    )


def _known_model() -> ir.Model:
    """Five times the sum over three channels, an odd number of channels for any block."""
    weights = ir.tensor(np.ones((5, 3, 1, 1), np.float32), name="w")
    w = ir.Value(
        name="w", shape=ir.Shape([5, 3, 1, 1]), type=ir.TensorType(ir.DataType.FLOAT), const_value=weights
    )
    x, y = (
        ir.Value(name=name, shape=ir.Shape(["N", *sizes]), type=ir.TensorType(ir.DataType.FLOAT))
        for name, sizes in (("x", (3, 5, 2)), ("y", (5, 5, 2)))
    )
    node = ir.Node("", "Conv", [x, w], outputs=[y], name="conv")
    graph = ir.Graph([x], [y], nodes=[node], initializers=[w], opset_imports={"": 17}, name="known")
    return ir.Model(graph, ir_version=8)
