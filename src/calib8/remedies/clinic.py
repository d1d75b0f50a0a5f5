"""Remedies carried out in memory and measured: what each gains on the samples of the diagnosis.

What the user asked for when the model was made stays as it was: target, types, nodes in float, ranges of
tensors (``calib8.analysis.basis``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import onnx_ir as ir

from calib8 import pipeline
from calib8.analysis.basis import Basis
from calib8.analysis.diagnose import Diagnosis
from calib8.analysis.findings import ENOUGH_DB, TELLING_DB, mac_shares
from calib8.autorange.check import Check
from calib8.autorange.samples import choose_samples
from calib8.errors import Calib8Error, UsageError
from calib8.outcomes import Calibration
from calib8.parameters import parameter
from calib8.passes.place import takes_codes
from calib8.passes.resolve_ranges import shared_with
from calib8.progress import SampleCounter
from calib8.quantization.qdq import readable_copy
from calib8.quantization.quantize import QuantizedGraph
from calib8.remedies.treatment import Remedy, Wish
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.repairs import GAIN_DB, REPAIRS
from calib8.repair.spots import SpotClass, ranked_spots, read_by, work_of_codes
from calib8.repair.wanted import repairs_called
from calib8.table import CalibrationTable


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
        kept = prepared.nodes_called(basis.keep_float) & takes_codes(prepared.model, self.scheme)
        self.basis = replace(basis, keep_float=tuple(sorted(kept)))
        self.shares = mac_shares(prepared.model, diagnosis.dissection.runs[0])
        self.data: RepairData | None = None

    def tried(self, wishes: Sequence[Wish], counter: SampleCounter) -> tuple[Remedy, ...]:
        """Those that help, the one to take first; the best repairs are tried with what costs speed, too.

        Of wishes for more and more spots, which stand in that order, the rest are left out behind one that
        gains ``ENOUGH_DB``, and more spots must gain ``TELLING_DB`` more.
        """
        found, wide = list[Remedy](), list[Remedy]()
        for wish in wishes:
            if not wish.spots:
                found.append(self.remedy(wish))
            elif not any(one.gain_db >= ENOUGH_DB for one in wide):
                wide.append(self.remedy(wish))
            counter(1)
        found += _worth_more(wide)
        found.sort(key=_rank)
        good = [one for one in found if one.gain_db >= TELLING_DB]
        for wish in _together(found) if len(good) > 1 else ():
            together = self.remedy(wish)
            more = together.sqnr_db >= max(one.sqnr_db for one in good) + TELLING_DB
            if more and together.gain_db >= TELLING_DB:
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
        asked = (*self.basis.spots, *wish.spots)
        candidate = self._candidate(table, added, wish.repairs, asked)
        graph = candidate.quantized()
        figures = self.diagnosis.dissection.figures(readable_copy(graph.model))
        shares = [self.shares.get(name) for name in added - frozenset(self.basis.keep_float)]
        total = None if None in shares else sum(share or 0.0 for share in shares)
        spots = tuple(name for name in dict.fromkeys(asked) if name not in graph.spots.refused)
        wide = self._read_by(candidate, graph, wish.spots) if wish.spots else 0.0
        return Remedy(wish, figures, gained(self.diagnosis.figures, figures), total, spots, wide)

    def ranked(self, repairs: Sequence[str]) -> tuple[SpotClass, ...]:
        """Tensors to give 16-bit codes beside what these repairs do, that which helps most per work in front.

        The names are those that ``spots`` of ``calib8.quantize`` takes; none where the target has no such
        codes, or the int8 graph cannot be taken apart.
        """
        if not self.scheme.chooses_spots:
            return ()
        before = self._candidate(self.calibration.table, frozenset(), (), self.basis.spots)
        candidate = self._repaired(before, repairs) if repairs else before
        data = replace(self.repair_data(), runs=tuple(self.diagnosis.dissection.runs))
        try:
            found = ranked_spots(candidate, data)
        except Calib8Error:
            return ()
        known = before.coded.placement.readers.keys()
        return tuple(
            replace(one, members=one.members & known)
            for one in found
            if one.members & known and not one.members & candidate.spots
        )

    def _candidate(
        self, table: CalibrationTable, floats: frozenset[str], repairs: Sequence[str], spots: Sequence[str]
    ) -> Candidate:
        candidate = Candidate(
            self.calibration.prepared.model, table, self.scheme, floats | frozenset(self.basis.keep_float),
            self.basis.power_of_two, spots=frozenset(spots),
        )  # fmt: skip
        return self._repaired(candidate, repairs) if repairs else candidate

    def _read_by(self, candidate: Candidate, graph: QuantizedGraph, spots: Sequence[str]) -> float:
        """The share of the multiply-accumulates that read spots, or what shares a scale with one."""
        model, coded = candidate.model, graph.placement.readers.keys()
        classes = shared_with(model, graph.placement, candidate.table, self.scheme, coded & set(spots))
        work = work_of_codes(model, self.diagnosis.dissection.runs[0])
        return read_by(model, frozenset().union(*classes.values()), work) / max(sum(work.values()), 1)

    def _repaired(self, candidate: Candidate, names: Sequence[str]) -> Candidate:
        data = self.repair_data()
        for name in repairs_called(names):
            candidate, report = REPAIRS[name](candidate, data)
            data = data.after(candidate.model, report)
        return candidate

    def repair_data(self) -> RepairData:
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


def gained(before: Check, now: Check) -> float:
    """By how many dB outputs are better; where the worst of several branches loses, what it loses."""
    least = [min((branch.sqnr_db for branch in check.branches), default=0.0) for check in (before, now)]
    lost = least[1] - least[0]
    return lost if lost < 0.0 else now.sqnr_db - before.sqnr_db


def _worth_more(wide: Sequence[Remedy]) -> list[Remedy]:
    """Of more and more spots those that gain clearly more than fewer ones: the last such alone."""
    best: Remedy | None = None
    for one in wide:
        if one.gain_db >= TELLING_DB and (best is None or one.gain_db >= best.gain_db + TELLING_DB):
            best = one
    return [] if best is None else [best]


def _together(ranked: Sequence[Remedy]) -> Iterator[Wish]:
    """The best repairs with the best nodes in float, and with the best spots."""
    free = (one.wish for one in ranked if one.wish.repairs and not (one.wish.keep_float or one.wish.spots))
    repairs = next(free, None)
    if repairs is None:
        return
    for costly in (
        next((one.wish for one in ranked if one.wish.keep_float), None),
        next((one.wish for one in ranked if one.wish.spots and one.wish.repairs != repairs.repairs), None),
    ):
        if costly is not None:
            yield replace(repairs, keep_float=costly.keep_float, spots=costly.spots)


def _contains(one: Remedy, other: Remedy) -> bool:
    """Whether a remedy is another one and more that gains nothing."""
    more = set(one.wish.repairs) > set(other.wish.repairs)
    same = replace(one.wish, repairs=()) == replace(other.wish, repairs=())
    return more and same and one.sqnr_db < other.sqnr_db + GAIN_DB


def _rank(remedy: Remedy) -> float:
    """Less is better: float layers must earn ``ENOUGH_DB``, layers that multiply twice ``TELLING_DB``."""
    if remedy.macs is None or remedy.macs > 0.0:
        return ENOUGH_DB - remedy.sqnr_db
    return (TELLING_DB if remedy.wide > 0.0 else 0.0) - remedy.sqnr_db
