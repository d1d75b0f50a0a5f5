"""What the steps of the pipeline hand back: statistics, a table, a model, and how they came about."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from calib8.autorange.choose import AutoReport
from calib8.calibration.kept_runs import KeptRun
from calib8.calibration.statistics import Statistics
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.data.samples import Dataset
from calib8.errors import Calib8Error, UsageError
from calib8.files import TMFILE, check_written_model, checked_path, is_translated
from calib8.formats.bind import Binding
from calib8.model.fix_sizes import KnownSizes
from calib8.model.save import save_model
from calib8.model.work import node_macs
from calib8.notebook import facts, grid, in_notebook, notes
from calib8.number_texts import decibels_cell
from calib8.parameters import Text, escaped
from calib8.passes.float_work import FloatWork, float_work
from calib8.passes.place import Placement
from calib8.passes.prepare import PreparedModel
from calib8.profiles import onnx_profile
from calib8.qparams import QParams
from calib8.repair.result import Repaired
from calib8.table import CalibrationTable, range_grid
from calib8.tasks.branches import Meaning
from calib8.tasks.verdict import Verdict
from calib8.tmfile.magic import is_tmfile_name

if TYPE_CHECKING:
    from calib8.program.program import Program


@dataclass(frozen=True)
class Collection:
    """What ``collect_statistics`` found.

    Attributes:
        prepared: the float graph that the statistics belong to.
        statistics: the counts; every one-pass method can choose from them without the data.
        dataset: the data as it was read (``skipped`` names the bad images).
        resumed: samples that the checkpoint had already, 0 without one.
        fallback: why the values were not counted inside ONNX Runtime's run, which is fastest; empty where
            they were.
        auto: None: no range was chosen.
    """

    prepared: PreparedModel
    statistics: Statistics
    dataset: Dataset
    resumed: int
    fallback: str
    auto: None = None

    def __repr__(self) -> str:
        """One line: how many tensors and samples."""
        return f"<Collection: {len(self.statistics.tensors)} tensors, {self.statistics.samples} samples>"

    def _repr_html_(self) -> str:
        """What was read and seen, for notebooks."""
        seen = grid(
            ("tensor", "values", "smallest", "largest"),
            list(self.statistics.tensors.items()),
            lambda one: (one[0], one[1].count, *_extremes(one[1])),
        )
        return in_notebook(repr(self), _reading_facts(self), seen)


@dataclass(frozen=True)
class Calibration:
    """What ``calibrate`` found.

    Attributes:
        prepared: the float graph that the table belongs to.
        statistics: the counts; other methods can be tried on them without the data. Where they were not to
            be kept, they hold what the table needed.
        table: the chosen ranges.
        dataset: the data as it was read (``skipped`` names the bad images); None with saved statistics.
        resumed: samples that the checkpoint had already, 0 without one.
        fallback: see ``Collection``.
        notes: what to know of the ranges that the user gave.
        auto: how method ``auto`` came to the table, None with any other.
        kept: the samples that were to be kept, in ascending order of their digests; None where none was, or
            a run holds several that do not come apart.
    """

    prepared: PreparedModel
    statistics: Statistics
    table: CalibrationTable
    dataset: Dataset | None
    resumed: int
    fallback: str
    notes: tuple[str, ...]
    auto: AutoReport | None = None
    kept: tuple[KeptRun, ...] | None = None

    def __repr__(self) -> str:
        """One line: how many ranges, by which methods, from how many samples."""
        ranges, samples = len(self.table.entries), self.statistics.samples
        return f"<Calibration: {ranges} ranges by {self.table.methods} from {samples} samples>"

    def _repr_html_(self) -> str:
        """What was read and the ranges that were chosen, for notebooks."""
        return in_notebook(repr(self), _reading_facts(self), notes(self.notes), range_grid(self.table))


@dataclass(frozen=True)
class Quantization:
    """What ``quantize`` made.

    Attributes:
        model: the QDQ model.
        placement: which nodes are quantized, and why the others are not.
        qparams: tensor name → scale and zero point.
        table: the ranges behind them, for the prepared model as it was before any repair.
        prepared: the float graph it was made from, with its largest difference to the original.
        calibration: how the table came about, None if it was given. Its statistics were not to be kept.
        caution: what to know of this activation type in this target, empty if there is nothing.
        binding: which names of a given table were used, None if there were data or statistics.
        notes: what to know of the ranges that the user gave, and of codes of repairs that did not fit.
        repaired: which repairs were tried and what they gained, None where none was wanted.
        meaning: what the float outputs mean, by which all was judged.
        spots: names of the tensors that have 16-bit codes.
        verdict: kept, visibly damaged or ruined, on samples held back; it says so where there were none.
    """

    model: ir.Model
    placement: Placement
    qparams: dict[str, QParams]
    table: CalibrationTable
    prepared: PreparedModel
    calibration: Calibration | None
    caution: str
    binding: Binding | None = None
    notes: tuple[str, ...] = ()
    repaired: Repaired | None = None
    verdict: Verdict | None = None
    meaning: Meaning | None = None
    spots: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        """One line: how much is quantized, which repairs were kept, whether the model is."""
        nodes, quantized = len(self.placement.decisions), len(self.placement.quantized_nodes())
        told = [f"{quantized} of {nodes} nodes quantized"]
        if self.spots:
            told.append(f"{len(self.spots)} tensors of 16 bits")
        steps = () if self.repaired is None else self.repaired.steps
        kept = [name for step in steps if step.kept for name in step.names]
        if kept:
            told.append(f"repairs {', '.join(kept)}")
        if self.verdict is not None:
            told.append(escaped(Text(self.verdict.text)))
        return f"<Quantization: {'; '.join(told)}>"

    def _repr_html_(self) -> str:
        """The repairs that were tried, the nodes that stay float, and what to know, for notebooks."""
        steps = () if self.repaired is None else self.repaired.steps
        tried = grid(
            ("tried", "SQNR before", "SQNR with it", "kept"),
            steps,
            lambda step: (step.name, decibels_cell(step.before_db), decibels_cell(step.after_db), step.kept),
        )
        floats = [one for one in self.placement.decisions if not one.quantized]
        left = grid(("node in float", "op", "why"), floats, lambda one: (one.node, one.op_type, one.reason))
        told = [text for text in (self.caution, *self.notes) if text]
        return in_notebook(repr(self), tried, left, notes(told))

    def save(
        self, path: str | os.PathLike[str], *, shapes: Mapping[str, Sequence[int]] | None = None
    ) -> tuple[str, ...]:
        """Writes the QDQ model; a TFLite file or tmfile where the name ends in ``.tflite`` or ``.tmfile``.

        A TFLite file keeps scales and zero points, and takes images as N×H×W×C; its codes are int8. Quantize
        for the target ``tflite`` to have the codes that TFLite asks for. A tmfile of Tengine keeps scales and
        codes; quantize for the target ``tengine``, all of it.

        Args:
            path: where to.
            shapes: TFLite and Tengine: input name → sizes, where the model leaves them open; a free batch
                counts as 1, free rows and columns as those of the images that it was calibrated with. Other
                free sizes are those of the table, or else of the sample that the model was prepared with; a
                note says which.

        Returns:
            What to know of a TFLite file or tmfile, such as sizes that it took; nothing for an ONNX one.

        Raises:
            UsageError: no path, or the suffix of another kind of file; ``shapes`` that do not fit the model,
                or are given for an ONNX file.
            UnsupportedModelError: TFLite and Tengine: an axis other than the batch is free, and nothing says
                how long it is; or there is no form for something in the model; all of it is listed.
            OutputError: the file cannot be written; an old file stays intact.
        """
        check_written_model(checked_path(path, "model"), also=(TMFILE,))
        if not is_translated(path):
            if shapes:
                problem = "are for TFLite files and tmfiles; an ONNX model keeps its free sizes"
                raise UsageError("shapes", problem, "Leave them out")
            save_model(self.model, path)
            return ()
        if is_tmfile_name(path):
            from calib8.exporting.tmfile.quantized import save_int8_tmfile

            return save_int8_tmfile(self.model, path, shapes or {}, self._known_sizes())
        from calib8.exporting.tflite.quantized import save_tflite

        return save_tflite(self.model, path, shapes, self._known_sizes())

    def _known_sizes(self) -> tuple[KnownSizes, ...]:
        """Sizes of the inputs in the run that the model is from, those that count more first."""
        seen = {name: array.shape for name, array in self.prepared.sample.items()}
        if self.prepared.made_up:
            return (KnownSizes("that it was quantized with", seen),)
        return KnownSizes("of the table", self.table.inputs), KnownSizes("of the first sample", seen)

    def lower(
        self,
        *,
        profile: str | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        integer_only: bool = False,
    ) -> Program:
        """The model as integer instructions; ``InferenceSession`` runs what comes back.

        Args:
            profile: how sums become codes: ``onnx``, ``tflite`` or ``single``. None: ``onnx``, with
                ``integer_only`` ``single``.
            shapes: input name → sizes, where the model leaves them open; a free batch counts as 1.
            integer_only: refuse nodes without an integer form instead of running them in ONNX Runtime.

        Raises:
            ModelError: an axis other than the batch is free and not in ``shapes``.
            UnsupportedModelError: ``integer_only`` and float nodes; all of them are listed.
            UsageError: an unknown profile, or ``onnx`` with ``integer_only``.
        """
        chosen = onnx_profile(profile, integer_only)
        from calib8.program.lower.lower import lower

        return lower(self.model, profile=chosen, shapes=shapes, integer_only=integer_only)

    def float_work(self) -> FloatWork:
        """How much of the multiply-accumulates stays in float in the file, and in which layers."""
        counted = node_macs(self.prepared.model, self.prepared.sample)
        return float_work(counted, self.placement)

    def summary(self) -> str:
        """What is quantized and what is not, in the file and in calib8's engine: one line or more per op.

        The engine's part is that of the integer program (``lower``); a model without one, of free sizes say,
        is told of as its file is.
        """
        try:
            program = self.lower()
        except Calib8Error:
            return self.placement.summary()
        return self.placement.summary(program.float_reasons)


def _extremes(seen: TensorStatistics) -> tuple[float | None, float | None]:
    """Smallest and largest value, None where there was none."""
    return (seen.minimum, seen.maximum) if seen.finite else (None, None)


def _reading_facts(found: Collection | Calibration) -> str:
    """What a run read, for notebooks."""
    skipped = () if found.dataset is None else found.dataset.skipped
    told: list[tuple[str, object]] = [("samples", found.statistics.samples)]
    if found.resumed:
        told.append(("of the checkpoint", found.resumed))
    if skipped:
        told.append(("bad images passed over", len(skipped)))
    return facts(told) + notes([f"{bad.name}: {bad.reason}" for bad in skipped])
