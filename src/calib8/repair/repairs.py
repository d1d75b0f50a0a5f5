"""All repairs by name, which of them exclude each other, and what each effort tries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import onnx_ir as ir

from calib8.autorange.samples import HELD_BACK, SCORED
from calib8.errors import UsageError
from calib8.passes.batch_norm_moments import Moments, batch_norm_moments
from calib8.passes.channel_factors import channel_factors
from calib8.passes.norm_factors import norm_scale
from calib8.repair.ada_round import ada_round
from calib8.repair.batch_norms import estimate_batch_norms
from calib8.repair.bias import correct_biases
from calib8.repair.bias_analytic import correct_biases_analytically
from calib8.repair.bias_sequential import correct_biases_in_sequence
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.constant_channels import cure_constant_channels
from calib8.repair.constant_inputs import cure_constant_inputs
from calib8.repair.cross_layer import cross_layer, differ_by_orders
from calib8.repair.eq_tengine import equalize_outputs_like_tengine
from calib8.repair.equalize_activations import equalize_activations
from calib8.repair.equalize_groups import equalize_groups
from calib8.repair.equalize_norms import equalize_norms
from calib8.repair.equalize_through import equalize_through_functions
from calib8.repair.floats import keep_worst_float
from calib8.repair.high_biases import absorb_expected, absorb_seen
from calib8.repair.second_order_rounding import second_order_rounding
from calib8.repair.spots import choose_spots
from calib8.repair.weight_scales import equalize_outputs, search_weight_scales
from calib8.scheme import QuantScheme

Repair = Callable[[Candidate, RepairData], tuple[Candidate, RepairReport]]

NONE: Final = "none"
"""Stands for no repair at all."""


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Attributes:
        stages: the alternatives of each stage: keys of ``REPAIRS`` that are carried out one after the other;
            what was left out is tried again only where something was kept since (``step.worth_trying``).
        finish: ways to correct biases, keys of ``REPAIRS``.
        repairing, held_back: at most so many runs repair, and judge.
        method: the range method where the user names none.
        if_orders: alternatives that are left out where no channels differ by orders.
    """

    stages: tuple[tuple[tuple[str, ...], ...], ...]
    finish: tuple[str, ...]
    repairing: int = SCORED
    held_back: int = HELD_BACK
    method: str | None = None
    if_orders: tuple[tuple[str, ...], ...] = ()


def _biases_in_sequence(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """Corrects biases in one shot, then what that leaves layer by layer."""
    first, report = correct_biases(candidate, data)
    second, more = correct_biases_in_sequence(first, data)
    layers = dict.fromkeys((*report.layers, *more.layers))
    notes = dict.fromkeys((*report.notes, *more.notes))
    return second, RepairReport(tuple(layers), tuple(notes))


def _constants(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """What never changes, in the layers that yield it and in those that read it."""
    first, report = cure_constant_channels(candidate, data)
    second, more = cure_constant_inputs(first, data)
    layers = dict.fromkeys((*report.layers, *more.layers))
    return second, RepairReport(tuple(layers), (*report.notes, *more.notes))


def _biases_analytically(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """Corrects biases by the batch normalizations of the original."""
    return correct_biases_analytically(candidate, _expected("bias-analytic", candidate, data))


def _absorb_analytically(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """Absorbs high biases by the batch normalizations of the original."""
    return absorb_expected(candidate, data, _expected("absorb-analytic", candidate, data))


def _expected(repair: str, candidate: Candidate, data: RepairData) -> dict[str, Moments]:
    """What the batch normalizations of the original tell, its channels scaled as the candidate's.

    Raises:
        UsageError: the original is not known.
    """
    if data.original is None or data.prepared is None:
        raise UsageError(repair, "the model as it was loaded is not known", "Name other repairs")
    changes = channel_factors(data.prepared, candidate.model)
    return {
        name: one.scaled(changes.factors[name]) if name in changes.factors else one
        for name, one in batch_norm_moments(data.original).items()
        if name not in changes.others and changes.axis(name) == 1
    }


ESTIMATE: Final = "bn"
"""The repair that changes what the float model computes; it comes first, and all else is judged by it."""

REPAIRS: Final[Mapping[str, Repair]] = {
    ESTIMATE: estimate_batch_norms,
    "constant-channels": _constants,
    "cle": cross_layer,
    "cle-replace": partial(cross_layer, limits="replace"),
    "absorb": absorb_seen,
    "absorb-analytic": _absorb_analytically,
    "equalize-groups": equalize_groups,
    "equalize-norms": equalize_norms,
    "equalize-through": equalize_through_functions,
    "equalize-activations": equalize_activations,
    "equalize-activations-tight": partial(equalize_activations, margin=1.0),
    "equalize-activations-wide": partial(equalize_activations, margin=1.0, largest=1000.0),
    "scales": search_weight_scales,
    "eq": equalize_outputs,
    "eq-tengine": equalize_outputs_like_tengine,
    "round": second_order_rounding,
    "adaround": ada_round,
    "spots": choose_spots,
    "floats": keep_worst_float,
    "bias": correct_biases,
    "bias-median": partial(correct_biases, average="median"),
    "bias-sequential": _biases_in_sequence,
    "bias-analytic": _biases_analytically,
}
"""All repairs by name, in the order in which they are carried out."""

DATA_FREE: Final = ("scales", "bias-analytic")
"""Repairs that look at no data."""

RISKY: Final = ("cle-replace", "absorb", "absorb-analytic")
"""Repairs after which other samples may give something else in the float model."""

ADDS_OPS: Final = ("equalize-through",)
"""Repairs that put ops into the model: it takes longer."""

ONE_OF: Final = (
    ("cle", "cle-replace"),
    ("absorb", "absorb-analytic"),
    ("equalize-activations", "equalize-activations-tight", "equalize-activations-wide"),
    ("scales", "eq", "eq-tengine"),
    ("round", "adaround"),
    ("bias", "bias-median", "bias-sequential", "bias-analytic"),
)
"""Repairs that do the same in different ways."""


GAIN_DB: Final = 0.1
"""Smaller gains are no reason to change anything."""

LEAST_GAINS_DB: Final[Mapping[str, float]] = {"equalize-groups": 1.0}
"""Repairs that must gain more: every channel then fills the codes of its tensor as far as any sample reached,
those that judge too, and there is no room left for what other images hold."""


def gain_asked(names: Sequence[str]) -> float:
    """What repairs that are carried out in turn must gain to be kept, in dB."""
    return max(LEAST_GAINS_DB.get(name, GAIN_DB) for name in names)


def in_turn(names: Sequence[str]) -> Repair:
    """Several repairs one after the other, as one."""
    repairs = [REPAIRS[name] for name in names]

    def carried_out(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
        layers: dict[str, None] = {}
        notes: list[str] = []
        for repair in repairs:
            candidate, report = repair(candidate, data)
            layers |= dict.fromkeys(report.layers)
            notes += report.notes
        return candidate, RepairReport(tuple(layers), tuple(notes))

    return carried_out


CROSS_LAYER: Final = ("cle",)
"""Comes first where there is one scale per weight: nothing else helps channels that differ by orders."""

_LAYERS: Final = (("equalize-groups",), CROSS_LAYER)
_ACTIVATIONS: Final = (("equalize-activations",), ("equalize-activations-tight",))
_ALL_ACTIVATIONS: Final = (*_ACTIVATIONS, ("equalize-activations-wide",))
SPOTS: Final = (("spots",),)
FLOATS: Final = (("floats",),)
NORMS: Final = (("equalize-norms",),)
"""Left out where there is no normalization of rows."""

_THROUGH: Final = (("equalize-through",),)
ROUND: Final = (("round",),)
"""Comes once more behind spots and floats: beside the noise that these take away its gain may not be seen."""

EFFORTS: Final[Mapping[str, Effort]] = {
    "fast": Effort(stages=(), finish=("bias",), repairing=8, held_back=32, method="mse-behind"),
    "balanced": Effort(
        stages=(_LAYERS, NORMS, _THROUGH, _ACTIVATIONS, ROUND, SPOTS, FLOATS, ROUND),
        finish=("bias", "bias-sequential"),
        if_orders=(CROSS_LAYER,),
    ),
    "best": Effort(
        stages=(
            _LAYERS,
            NORMS,
            _THROUGH,
            _ALL_ACTIVATIONS,
            (("round",), ("eq", "round")),
            SPOTS,
            FLOATS,
            ROUND,
        ),
        finish=("bias", "bias-median", "bias-sequential"),
    ),
}
"""What each effort tries."""


def stages_of(
    effort: Effort, scheme: QuantScheme, model: ir.Model, *, mixed: bool = True
) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """The stages of an effort for a target and a prepared float graph; ``mixed``: layers may be float."""
    left_out = [SPOTS] * (not scheme.chooses_spots) + [FLOATS] * (not (mixed and scheme.mixes_floats))
    left_out += [NORMS] * all(norm_scale(node) is None for node in model.graph)
    stages = tuple(stage for stage in effort.stages if stage not in left_out)
    if scheme.weight_granularity != "per-channel":
        left = any(CROSS_LAYER in stage for stage in stages)
        return stages if left else ((CROSS_LAYER,), *stages)
    if not effort.if_orders or differ_by_orders(model):
        return stages
    return tuple(tuple(one for one in stage if one not in effort.if_orders) for stage in stages)


DEFAULT_EFFORT: Final = "balanced"
