"""What helps against the findings of a diagnosis: every remedy is carried out and measured first.

    finding → wishes (repairs, nodes in float, another method) → quantized in memory → SQNR of the outputs

The samples are those that the diagnosis looked at; the figures are comparable with its own. What the user
asked for when the model was made stays as it was: target, types, nodes in float, ranges of tensors
(``calib8.analysis.basis``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import onnx_ir as ir

from calib8 import pipeline
from calib8.analysis.basis import METHOD, Basis, basis_of
from calib8.analysis.compare import ComparingWords
from calib8.analysis.diagnose import Diagnosis, diagnose
from calib8.analysis.findings import ENOUGH_DB, OF_CHANNELS, TELLING_DB, mac_shares
from calib8.analysis.model_pair import Model
from calib8.autorange.check import Check
from calib8.autorange.samples import choose_samples
from calib8.calibration.decide import AUTO
from calib8.calibration.range_choice import RangeChoice
from calib8.calibration.ranges.two_pass import needs_data_again
from calib8.data.reading import Reading
from calib8.data.samples import DataSource
from calib8.errors import UsageError
from calib8.model.load import load_model
from calib8.outcomes import Calibration
from calib8.parameters import flag_of, parameter
from calib8.passes.place import place
from calib8.progress import Progress, SampleCounter, silent
from calib8.quantization.qdq import readable_copy
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.repairs import ESTIMATE, GAIN_DB, REPAIRS
from calib8.repair.wanted import repairs_called
from calib8.requests import requested, takes_words_of
from calib8.scheme import TargetChoice
from calib8.tasks.purpose import NOTHING_SAID, Purpose, purpose_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


ALWAYS: Final = (("bias",), ("equalize-activations", "bias"))
"""Repairs that are tried whatever the findings are: they cost little, and help where no layer stands out."""

MOST: Final = 6
"""Wishes that are tried."""

COMPARED: Final = 32
"""Samples of the comparison where nothing else is asked for."""


@dataclass(frozen=True)
class Wish:
    """A way to quantize, beside what the basis says.

    Attributes:
        method: for the ranges, None for that of the basis.
        repairs: keys of ``calib8.repair.repairs.REPAIRS``.
        keep_float: names of nodes beside those of the basis.
        without_ranges: tensors whose range in the basis, given by the user, does not count.
    """

    method: str | None = None
    repairs: tuple[str, ...] = ()
    keep_float: tuple[str, ...] = ()
    without_ranges: tuple[str, ...] = ()

    def applied_to(self, basis: Basis) -> Basis:
        """The basis as far as the ranges go; a method that reads the data again gives way to ``METHOD``."""
        left = tuple(one for one in basis.ranges if one[0] not in self.without_ranges)
        if self.method is not None:
            return replace(basis, method=self.method, percent=None, ranges=left)
        if self.without_ranges and (basis.method == AUTO or needs_data_again(basis.method)):
            return replace(basis, method=METHOD, percent=None, ranges=left)
        return replace(basis, ranges=left)


@dataclass(frozen=True)
class Remedy:
    """A way to quantize that is better than the model that was diagnosed.

    Attributes:
        wish: how.
        figures: of the outputs, as in ``Diagnosis``.
        gain_db: ``sqnr_db`` minus the figure of the model that was diagnosed.
        macs: share of the multiply-accumulates of the nodes that the wish keeps in float, 0 … 1; None where
            unknown.
        spots: names of the tensors that the user gave 16 bits and that have them still.
    """

    wish: Wish
    figures: Check
    gain_db: float
    macs: float | None
    spots: tuple[str, ...] = ()

    @property
    def sqnr_db(self) -> float:
        """Of the outputs, as in ``Diagnosis``."""
        return self.figures.sqnr_db


@dataclass(frozen=True)
class Treated:
    """A diagnosis and what helps.

    Attributes:
        diagnosis: see there.
        remedies: the one to take first; those that gain less than ``TELLING_DB`` are left out.
        tried: how many ways were tried; none where the data are not what the network was trained with.
        basis: what they have in common with the model that was diagnosed.
        made_here: the int8 model was made for the diagnosis.
        purpose: what the user said of the outputs.
    """

    diagnosis: Diagnosis
    remedies: tuple[Remedy, ...]
    tried: int
    basis: Basis
    made_here: bool
    purpose: Purpose = NOTHING_SAID

    def flags(self, remedy: Remedy) -> tuple[str, ...]:
        """The options of ``calib8 quantize`` that carry a remedy out, beside those of the data."""
        wish = remedy.wish
        basis = replace(wish.applied_to(self.basis), spots=remedy.spots)
        nodes = (part for name in wish.keep_float for part in (flag_of("keep_float"), name))
        named, branches = self.purpose.task_name, self.purpose.branches
        task = () if named is None else (flag_of("task"), named)
        meant = (part for at, kind in branches.items() for part in (flag_of("branches"), f"{at}={kind}"))
        repairs = ",".join(wish.repairs) or "none"
        return (*basis.flags(), flag_of("repair"), repairs, *nodes, *task, *meant)


@takes_words_of(Reading, Purpose, without=("labels", "shapes"))
def diagnose_and_treat(
    fp32: Model,
    int8: Model | None,
    data: DataSource | Reading,
    *,
    progress: Progress = silent,
    **words: Unpack[ComparingWords],
) -> Treated:
    """Diagnoses an int8 model and tries what may help.

    Args:
        fp32: path or ModelProto of the float model.
        int8: the QDQ model made from it; None: one made with plain ranges and without repairs.
        data: images or arrays that can be read several times, or a ``Reading``, whose other fields are
            keywords too; they calibrate what is made here. Without ``samples`` that is with all, and
            ``COMPARED`` are compared; ``batch`` is that of the comparison.
        progress: see ``calib8.pipeline.calibrate``.
        words: fields of ``Reading``, and of ``Purpose``: what the outputs mean.

    Raises:
        Calib8Error: what can be wrong with models, data or options, in one line each.
    """
    reading, purpose = requested(Reading, words, data, field="data"), purpose_of(words)
    made, basis = None, Basis()
    quantized: Model
    if int8 is None:
        ranges = RangeChoice(basis.method)
        quantization = pipeline.quantize(
            fp32, _calibrating(reading), ranges=ranges, repair=("none",), task=purpose, progress=progress
        )
        made, quantized = quantization.calibration, ir.to_proto(quantization.model)
    else:
        quantized, basis = int8, basis_of(fp32, int8)
    compared = reading if reading.samples is not None else replace(reading, samples=COMPARED)
    diagnosis = diagnose(fp32, quantized, compared, task=purpose, progress=progress)
    wishes = _wishes(diagnosis, basis, again=int8 is not None)
    remedies: tuple[Remedy, ...] = ()
    if wishes:
        if made is None:
            ranges = RangeChoice(
                basis.method, basis.percent, power_of_two=basis.power_of_two, ranges=dict(basis.ranges)
            )
            made = pipeline.calibrate(
                fp32, _calibrating(replace(reading, preprocess=diagnosis.preprocess)), ranges=ranges,
                target=TargetChoice(basis.target, basis.activations), keep_float=basis.keep_float,
                task=purpose, progress=progress,
            )  # fmt: skip
        clinic = Clinic(diagnosis, made, basis, reading.threads, load_model(fp32))
        basis = clinic.basis
        remedies = clinic.tried(wishes, SampleCounter("trying remedies", len(wishes), progress))
    return Treated(diagnosis, remedies, len(wishes), basis, int8 is None, purpose)


def _calibrating(reading: Reading) -> Reading:
    """The same samples, as many per run as serves calibration; labels are not needed for that."""
    return replace(reading, batch=None, labels=None)


def _wishes(diagnosis: Diagnosis, basis: Basis, *, again: bool) -> tuple[Wish, ...]:
    """What the findings ask for, each once; ``again``: to calibrate anew is a remedy too.

    Where the data are not what the network was trained with, nothing helps but other data; where they are
    not what the int8 model was calibrated with, nothing else is worth a look. Repairs that the model has
    already stay where the wish is for something else, and new statistics of batch normalizations in any case:
    without them it would be another function. Ranges that the user gave and that clip are left out in all.
    """
    causes = {finding.reason.cause for finding in diagnosis.findings}
    if "statistics" in causes:
        return ()
    done = basis.repairs
    estimated = tuple(name for name in done if name == ESTIMATE)
    others = (Wish(METHOD, repairs=done),) if again and basis.method not in (AUTO, METHOD) else ()
    if again and causes & {"preprocessing", "input"}:
        return (Wish(repairs=done), *others)
    found: dict[Wish, None] = {}
    if again and causes & {"bias", "unused"}:  # codes that no calibration on these data gives
        found.setdefault(Wish(repairs=done))
    given = [name for finding in diagnosis.findings for name in finding.reason.without_ranges]
    if given:
        found.setdefault(Wish(repairs=done))
    for finding in diagnosis.findings:
        reason = finding.reason
        if finding.floats and (
            reason.cause == "branches" or (reason.cause in OF_CHANNELS and not reason.repairs)
        ):
            found.setdefault(Wish(repairs=done, keep_float=finding.floats))
        if finding.reason.method is not None and finding.reason.method != basis.method:
            found.setdefault(Wish(finding.reason.method, repairs=done))
        for repairs in finding.reason.repairs:
            found.setdefault(Wish(repairs=(*estimated, *repairs)))
    found |= dict.fromkeys(others)
    if diagnosis.advice is not None:
        found.setdefault(Wish(repairs=done, keep_float=diagnosis.advice.nodes))
    for repairs in ALWAYS:
        found.setdefault(Wish(repairs=(*estimated, *repairs)))
    return tuple(replace(wish, without_ranges=tuple(sorted(set(given)))) for wish in found)[:MOST]


class Clinic:
    """Quantizes in memory, and judges as the diagnosis does."""

    def __init__(
        self,
        diagnosis: Diagnosis,
        calibration: Calibration,
        basis: Basis,
        threads: int,
        original: ir.Model,
    ) -> None:
        """Takes of the basis what is float that could be int8.

        Args:
            diagnosis: of the model to be cured.
            calibration: of its float model, with a method of the basis.
            basis: what its user asked for.
            threads: for ONNX Runtime and native code.
            original: the float model as it was loaded.

        Raises:
            UsageError: the basis names a node that the model does not have.
        """
        self.diagnosis, self.calibration, self.threads = diagnosis, calibration, threads
        self.scheme, self.original = basis.scheme(), original
        prepared = calibration.prepared
        int8_anyway = place(prepared.model, self.scheme).quantized_nodes()
        kept = prepared.nodes_called(basis.keep_float) & int8_anyway
        self.basis = replace(basis, keep_float=tuple(sorted(kept)))
        self.shares = mac_shares(prepared.model, diagnosis.dissection.runs[0])
        self.data: RepairData | None = None

    def tried(self, wishes: Sequence[Wish], counter: SampleCounter) -> tuple[Remedy, ...]:
        """Those that help, the one to take first; the best repairs and nodes are tried together too."""
        found = []
        for wish in wishes:
            found.append(self.remedy(wish))
            counter(1)
        found.sort(key=_rank)
        repairs = next((one.wish for one in found if one.wish.repairs and not one.wish.keep_float), None)
        floats = next((one.wish for one in found if one.wish.keep_float), None)
        good = [one for one in found if one.gain_db >= TELLING_DB]
        if repairs is not None and floats is not None and len(good) > 1:
            together = self.remedy(replace(repairs, keep_float=floats.keep_float))
            if together.sqnr_db >= max(one.sqnr_db for one in good) + TELLING_DB:
                good.append(together)
        needed = [one for one in good if not any(_contains(one, other) for other in good)]
        return tuple(sorted(needed, key=_rank))

    def remedy(self, wish: Wish) -> Remedy:
        """What a wish gains.

        Raises:
            UsageError: it names a node that the model does not have.
        """
        table = self.calibration.table
        if wish.method is not None or wish.without_ranges:
            basis = wish.applied_to(self.basis)
            table = pipeline.calibrate(
                ir.to_proto(self.calibration.prepared.model), statistics=self.calibration.statistics,
                method=basis.method, percent=basis.percent, target=self.scheme.name,
                activations=self.scheme.activation_name, power_of_two=basis.power_of_two,
                ranges=dict(basis.ranges),
                keep_float=self.basis.keep_float,
            ).table  # fmt: skip
        added = self.calibration.prepared.nodes_called(wish.keep_float)
        candidate = Candidate(
            self.calibration.prepared.model, table, self.scheme, added | frozenset(self.basis.keep_float),
            self.basis.power_of_two, spots=frozenset(self.basis.spots),
        )  # fmt: skip
        if wish.repairs:
            candidate = self._repaired(candidate, wish.repairs)
        graph = candidate.quantized()
        figures = self.diagnosis.dissection.figures(readable_copy(graph.model))
        shares = [self.shares.get(name) for name in added - frozenset(self.basis.keep_float)]
        total = None if None in shares else sum(share or 0.0 for share in shares)
        spots = tuple(name for name in self.basis.spots if name not in graph.spots.refused)
        return Remedy(wish, figures, figures.sqnr_db - self.diagnosis.sqnr_db, total, spots)

    def _repaired(self, candidate: Candidate, names: Sequence[str]) -> Candidate:
        data = self._repair_data()
        for name in repairs_called(names):
            candidate, report = REPAIRS[name](candidate, data)
            data = data.after(candidate.model, report)
        return candidate

    def _repair_data(self) -> RepairData:
        """The samples that ``calib8 quantize`` repairs with."""
        if self.data is None:
            if self.calibration.dataset is None:
                raise UsageError("repairs", "look at data, and none are given", f"Give {parameter('data')}")
            chosen = choose_samples(self.calibration.dataset, self.threads)
            self.data = RepairData(
                chosen.scored, self.threads, prepared=self.calibration.prepared.model, original=self.original,
                dataset=chosen.dataset, meaning=self.diagnosis.dissection.meaning,
            )  # fmt: skip
        return self.data


def _contains(one: Remedy, other: Remedy) -> bool:
    """Whether a remedy is another one and more that gains nothing."""
    more = set(one.wish.repairs) > set(other.wish.repairs)
    same = replace(one.wish, repairs=()) == replace(other.wish, repairs=())
    return more and same and one.sqnr_db < other.sqnr_db + GAIN_DB


def _rank(remedy: Remedy) -> float:
    """Less is better: float layers must earn ``ENOUGH_DB``."""
    costs = remedy.macs is None or remedy.macs > 0.0
    return (ENOUGH_DB if costs else 0.0) - remedy.sqnr_db
