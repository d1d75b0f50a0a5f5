"""What a comparison of two models holds: figures of every tensor, and of the outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from calib8.analysis.counterparts import LeftOut
from calib8.analysis.noise import Distance
from calib8.analysis.output_sums import BranchDistance
from calib8.notebook import grid, in_notebook
from calib8.number_texts import decibels_cell, percent

Sort = Literal["local", "cumulative"]
SORTS: Final[tuple[Sort, ...]] = ("local", "cumulative")


@dataclass(frozen=True)
class TensorComparison:
    """One quantized tensor, or float output, of the int8 model against the float model's.

    Attributes:
        tensor: its name in the float model.
        node: the layer that computes it: the last node with weights, else the last that is no Relu or Clip;
            None for an input of the model.
        op_type: of that node, empty for an input.
        nodes: all nodes between it and the tensors compared before it, in graph order.
        dtype: type of its codes such as ``uint8``; None, as the next three, for a float output.
        scale, zero_point: real = scale · (code − zero_point); one number, or one per channel.
        representable: real values of the smallest and the largest code.
        observed: smallest and largest value of the float model's tensor.
        values: elements compared, over all samples.
        saturated: share of the float model's values that lie more than half a step outside of
            ``representable``, 0 … 1; None for a float output.
        vanished: share of them that are not 0 and lie less than half a step from it, 0 … 1; None likewise.
        local, cumulative: the layer alone, and the int8 model up to here.
        weight_sqnr_db: SQNR of the layer's weight against the float one, inf if it is exact; None without a
            weight in codes, or where the float model has no such weight.
    """

    tensor: str
    node: str | None
    op_type: str
    nodes: tuple[str, ...]
    dtype: str | None
    scale: tuple[float, ...] | None
    zero_point: tuple[int, ...] | None
    representable: tuple[float, float] | None
    observed: tuple[float, float]
    values: int
    saturated: float | None
    vanished: float | None
    local: Distance
    cumulative: Distance
    weight_sqnr_db: float | None


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` found.

    Attributes:
        fp32, int8: the models.
        images: samples seen.
        sort: what ``tensors`` are sorted by.
        tensors: worst SQNR first.
        left_out: quantized tensors that are not compared, and why; each belongs to the layer behind it.
        outputs: all float outputs of the int8 model together.
        agreement: share of samples with the float model's best class, 0 … 1; None where the first output is
            no row of class scores.
        estimated: batch normalizations of the float model that were given the statistics which the int8
            model was made with (the repair ``bn``): the float model with its own is not compared.
        branches: of the outputs where they have several, the worst first: ``outputs`` tells of the loudest.
    """

    fp32: str
    int8: str
    images: int
    sort: Sort
    tensors: tuple[TensorComparison, ...]
    left_out: tuple[LeftOut, ...]
    outputs: Distance
    agreement: float | None
    estimated: int = 0
    branches: tuple[BranchDistance, ...] = ()

    def __repr__(self) -> str:
        """One line: the models, and the loss at the outputs."""
        of = [(f"worst branch {one.name}", one.distance) for one in self.branches[:1]]
        what, distance = of[0] if of else ("outputs", self.outputs)
        told = [f"{self.images} samples", f"{what} {decibels_cell(distance.sqnr_db)} dB"]
        if self.agreement is not None:
            told.append(f"agreement {percent(self.agreement)}")
        return f"<Comparison: {self.int8!r} with {self.fp32!r}, {', '.join(told)}>"

    def _repr_html_(self) -> str:
        """The tensors, the worst first, for notebooks."""
        tensors = grid(
            ("layer", "op", "tensor", "local dB", "cumulative dB", "cosine", "saturated"),
            self.tensors,
            lambda one: (
                one.node or "input",
                one.op_type,
                one.tensor,
                decibels_cell(one.local.sqnr_db),
                decibels_cell(one.cumulative.sqnr_db),
                one.cumulative.cosine,
                percent(one.saturated),
            ),
        )
        branches = grid(
            ("branch", "kind", "SQNR dB"),
            self.branches,
            lambda one: (one.name, one.kind, decibels_cell(one.distance.sqnr_db)),
        )
        return in_notebook(repr(self), branches, tensors)
