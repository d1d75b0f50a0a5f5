"""What a diagnosis hands back: what was found, what helps, and how to quantize with it.

    finding → wishes (repairs, 16-bit codes, nodes in float, another method)
            → quantized in memory → SQNR of the outputs

``Treatment.words`` are the keywords of ``calib8.quantize`` that carry a remedy out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from calib8.analysis.basis import METHOD, Basis
from calib8.analysis.branch_losses import BranchLoss
from calib8.analysis.diagnose import Diagnosis
from calib8.analysis.findings import Finding, LayerLoss
from calib8.autorange.check import Check
from calib8.calibration.decide import AUTO
from calib8.calibration.ranges.two_pass import needs_data_again
from calib8.notebook import grid, in_notebook, shortened
from calib8.number_texts import count, decibels_cell, percent
from calib8.parameters import Text, escaped, flag_of, parameter
from calib8.tasks.purpose import NOTHING_SAID, Purpose


@dataclass(frozen=True)
class Wish:
    """A way to quantize, beside what the basis says.

    Attributes:
        method: for the ranges, None for that of the basis.
        repairs: keys of ``calib8.repair.repairs.REPAIRS``.
        keep_float: names of nodes beside those of the basis.
        without_ranges: tensors whose range in the basis, given by the user, does not count.
        spots: names of tensors that get 16-bit codes, beside those of the basis.
    """

    method: str | None = None
    repairs: tuple[str, ...] = ()
    keep_float: tuple[str, ...] = ()
    without_ranges: tuple[str, ...] = ()
    spots: tuple[str, ...] = ()

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
        spots: names of the tensors that were asked to have 16 bits, those of the basis too, and have them.
        wide: share of the multiply-accumulates that read the spots of the wish, and are done twice, 0 … 1.
    """

    wish: Wish
    figures: Check
    gain_db: float
    macs: float | None
    spots: tuple[str, ...] = ()
    wide: float = 0.0

    @property
    def sqnr_db(self) -> float:
        """Of the outputs, as in ``Diagnosis``."""
        return self.figures.sqnr_db

    @property
    def text(self) -> str:
        """What to do, in words."""
        wish, parts = self.wish, list[str]()
        if wish.repairs:
            parts.append(f"repair with {', '.join(wish.repairs)}")
        if wish.spots:
            named = ", ".join(f"'{name}'" for name in wish.spots)
            parts.append(f"give {named} 16-bit codes")
        if wish.keep_float:
            number = "this node" if len(wish.keep_float) == 1 else f"these {len(wish.keep_float)} nodes"
            parts.append(f"keep {number} in float: {', '.join(wish.keep_float)}")
        if wish.without_ranges:
            given = ", ".join(f"'{name}'" for name in wish.without_ranges)
            parts.append(f"leave out {parameter('ranges')} of {given}")
        if wish.method or not parts:
            named = f" with {parameter('method', wish.method)}" if wish.method else ""
            parts.append(f"calibrate again{named}")
        return Text("; ".join(parts))


@dataclass(frozen=True)
class Treatment:
    """What ``diagnose`` found, and what helps.

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

    def __repr__(self) -> str:
        """One line: how much is lost, and what gives it back."""
        causes = count(len(self.findings), "cause") if self.findings else "no cause stands out"
        found = f"{decibels_cell(self.sqnr_db)} dB, {causes}"
        if not self.remedies:
            tried = "no remedy tried" if not self.tried else f"{self.tried} tried, no remedy helps"
            return f"<Treatment: {found}, {tried}>"
        best = self.remedies[0]
        return f"<Treatment: {found}; {escaped(shortened(best.text))}: {best.gain_db:+.1f} dB>"

    def _repr_html_(self) -> str:
        """Causes, remedies and layers, for notebooks."""
        causes = grid(
            ("cause at", "what is wrong", "what may help"),
            self.findings,
            lambda one: (one.node or one.tensor or "data", one.reason.text, one.reason.advice),
        )
        remedies = grid(
            ("remedy", "SQNR dB", "gain dB", "MACs in float", "MACs done twice"),
            self.remedies,
            lambda one: (
                one.text,
                decibels_cell(one.sqnr_db),
                f"{one.gain_db:.2f}",
                percent(one.macs),
                percent(one.wide),
            ),
        )
        worst = grid(
            ("layer", "op", "outputs with its codes alone, dB", "local dB", "cumulative dB", "MACs"),
            self.layers,
            _layer_row,
        )
        return in_notebook(repr(self), causes, remedies, worst)

    @property
    def layers(self) -> tuple[LayerLoss, ...]:
        """What the codes of every layer alone do to the outputs, worst damage first."""
        return self.diagnosis.layers

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The causes, the most important first."""
        return self.diagnosis.findings

    @property
    def branches(self) -> tuple[BranchLoss, ...]:
        """Of the outputs, each with the layers that ruin it; empty where there is a single one."""
        return self.diagnosis.branches

    @property
    def sqnr_db(self) -> float:
        """Of the outputs of the model that was diagnosed; of several branches the worst decides."""
        return self.diagnosis.sqnr_db

    def words(self, remedy: Remedy) -> dict[str, Any]:
        """The keywords of ``calib8.quantize`` that carry a remedy out.

        They go beside the float model and the data themselves, not a ``Reading`` of them: the preprocessing
        is among them. ``samples``, ``skip_bad`` and the like are those of this call.

        Args:
            remedy: one of ``remedies``.
        """
        wish, preprocess = remedy.wish, self.diagnosis.preprocess
        found = replace(wish.applied_to(self.basis), spots=remedy.spots).words()
        floats = (*found.pop("keep_float", ()), *wish.keep_float)
        said = {
            "keep_float": floats,
            "task": self.purpose.task,
            "branches": self.purpose.branches,
            "threshold": self.purpose.threshold,
            "preprocess": preprocess,
            "framing": self.diagnosis.framing,
        }
        given = {name: value for name, value in said.items() if value or value == 0.0}
        return {**found, "repair": wish.repairs or ("none",), **given}

    def flags(self, remedy: Remedy) -> tuple[str, ...]:
        """The options of ``calib8 quantize`` that carry a remedy out, beside those of the data."""
        wish = remedy.wish
        basis = replace(wish.applied_to(self.basis), spots=remedy.spots)
        nodes = (part for name in wish.keep_float for part in (flag_of("keep_float"), name))
        named, branches = self.purpose.task_name, self.purpose.branches
        task = () if named is None else (flag_of("task"), named)
        meant = (part for at, kind in branches.items() for part in (flag_of("branches"), f"{at}={kind}"))
        limit = self.purpose.threshold
        deciding = () if limit is None else (flag_of("threshold"), repr(limit))
        repairs = ",".join(wish.repairs) or "none"
        return (*basis.flags(), flag_of("repair"), repairs, *nodes, *task, *meant, *deciding)


def _layer_row(loss: LayerLoss) -> tuple[object, ...]:
    row = loss.row
    figures = (loss.damage.both, row.local.sqnr_db, row.cumulative.sqnr_db)
    return (
        row.node or f"input '{row.tensor}'",
        row.op_type,
        *map(decibels_cell, figures),
        percent(loss.macs),
    )
