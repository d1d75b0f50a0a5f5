"""What repairs work on: a prepared float model with its ranges and corrections, and the data they look at.

A repair is a function ``(Candidate, RepairData) → (Candidate, RepairReport)``. It changes nothing that it is
given; where its pattern is not there, it returns the candidate as it came and a report without layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

import onnx_ir as ir

from calib8.data.samples import Dataset
from calib8.dissection.part_identity import Known
from calib8.model.runtime import Arrays
from calib8.progress import Progress, silent
from calib8.quantization.corrections import NO_CORRECTIONS, Corrections, LayerCorrection
from calib8.quantization.quantize import QuantizedGraph, quantize_graph
from calib8.scheme import QuantScheme
from calib8.table import CalibrationTable
from calib8.tasks.branches import Meaning

COSTS_TOO_MUCH: Final = "its codes cost too much accuracy"
"""Why nodes stay float that a repair chose."""


@dataclass(frozen=True)
class Candidate:
    """A model on its way to int8.

    Attributes:
        model: the prepared float graph; repairs that equalize replace it by one of the same function.
        table: ranges of its activations.
        scheme: the target.
        keep_float: names of nodes that stay float because the user wants it.
        power_of_two: all scales of activations are powers of two.
        corrections: what replaces the plain rounding of constants.
        spots: names of tensors that are to have 16-bit codes, see ``calib8.passes.spots``.
        floats: names of nodes that stay float because their codes cost too much accuracy.
    """

    model: ir.Model
    table: CalibrationTable
    scheme: QuantScheme
    keep_float: frozenset[str] = frozenset()
    power_of_two: bool = False
    corrections: Corrections = field(default_factory=lambda: NO_CORRECTIONS)
    spots: frozenset[str] = frozenset()
    floats: frozenset[str] = frozenset()

    def quantized(self, unranged: Mapping[str, str] = MappingProxyType({})) -> QuantizedGraph:
        """The int8 graph.

        Args:
            unranged: nodes that stay float for want of a range → reason.

        Raises:
            TableError: the table lacks a tensor.
        """
        reasons = dict.fromkeys(sorted(self.floats), COSTS_TOO_MUCH) | dict(unranged)
        return quantize_graph(
            self.model, self.table, self.scheme, self.keep_float, float_reasons=reasons,
            power_of_two=self.power_of_two, corrections=self.corrections, spots=self.spots,
        )  # fmt: skip

    @cached_property
    def coded(self) -> QuantizedGraph:
        """The int8 graph, made once for all who only read it.

        Raises:
            TableError: the table lacks a tensor.
        """
        return self.quantized()

    def correction(self, layer: str) -> LayerCorrection:
        """That of one layer, an empty one where there is none."""
        return self.corrections.get(layer, LayerCorrection())


def always(candidate: Candidate) -> bool:
    """Any candidate is worth more work."""
    return True


@dataclass(frozen=True)
class RepairData:
    """What repairs look at.

    Attributes:
        runs: inputs of single runs of the float model: one sample each, in an order that does not depend on
            the order of the files.
        threads: for ONNX Runtime and native code; no result depends on it.
        progress: see ``Progress``.
        prepared: the prepared model as it was before any repair.
        original: the model as it was loaded, its batch normalizations not folded.
        dataset: all calibration samples, which ranges are chosen from; None: ``runs`` are all there are.
        meaning: branches of the outputs; None: those that the model shows.
        more_db: so much more than usual the outputs need where the verdict is not "kept"; all count
            as poor where none lacks even that.
        promises: whether a candidate, changed but with ranges that were not compared, may still be kept:
            comparing them takes longer than all else.
        known: what codes of single layers and tensors were found to do, for the next who asks.
    """

    runs: tuple[Arrays, ...]
    threads: int = 2
    progress: Progress = silent
    prepared: ir.Model | None = None
    original: ir.Model | None = None
    dataset: Dataset | None = None
    meaning: Meaning | None = None
    more_db: float = 0.0
    promises: Callable[[Candidate], bool] = always
    known: Known = field(default_factory=Known, compare=False)

    def after(self, model: ir.Model, report: RepairReport) -> RepairData:
        """What the next repair looks at, ``model`` being the prepared model that this one left."""
        if report.new_original is None:
            return self
        return replace(self, prepared=model, original=report.new_original)


@dataclass(frozen=True)
class RepairReport:
    """What a repair did.

    Attributes:
        layers: names of the layers that it changed, in graph order; empty: nothing to do.
        notes: what else there is to know: layers passed over and why, figures.
        new_original: the model as it would be loaded where the float model is meant to compute something
            else than before: everything is judged by that from then on; else None.
    """

    layers: tuple[str, ...]
    notes: tuple[str, ...] = ()
    new_original: ir.Model | None = None
