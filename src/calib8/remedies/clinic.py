"""Remedies carried out in memory and measured: what each gains on the samples of the diagnosis.

What the user asked for when the model was made stays as it was: target, types, nodes in float, ranges of
tensors (``calib8.analysis.basis``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from calib8 import pipeline
from calib8.analysis.basis import Basis
from calib8.analysis.diagnose import Diagnosis
from calib8.analysis.findings import ENOUGH_DB, TELLING_DB, mac_shares
from calib8.autorange.check import Check
from calib8.autorange.samples import choose_samples
from calib8.errors import UsageError
from calib8.outcomes import Calibration
from calib8.parameters import parameter
from calib8.passes.place import place
from calib8.progress import SampleCounter
from calib8.quantization.qdq import readable_copy
from calib8.remedies.treatment import Remedy, Wish
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.repairs import GAIN_DB, REPAIRS
from calib8.repair.wanted import repairs_called


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
        return Remedy(wish, figures, gained(self.diagnosis.figures, figures), total, spots)

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


def gained(before: Check, now: Check) -> float:
    """By how many dB outputs are better; where the worst of several branches loses, what it loses."""
    least = [min((branch.sqnr_db for branch in check.branches), default=0.0) for check in (before, now)]
    lost = least[1] - least[0]
    return lost if lost < 0.0 else now.sqnr_db - before.sqnr_db


def _contains(one: Remedy, other: Remedy) -> bool:
    """Whether a remedy is another one and more that gains nothing."""
    more = set(one.wish.repairs) > set(other.wish.repairs)
    same = replace(one.wish, repairs=()) == replace(other.wish, repairs=())
    return more and same and one.sqnr_db < other.sqnr_db + GAIN_DB


def _rank(remedy: Remedy) -> float:
    """Less is better: float layers must earn ``ENOUGH_DB``."""
    costs = remedy.macs is None or remedy.macs > 0.0
    return (ENOUGH_DB if costs else 0.0) - remedy.sqnr_db
