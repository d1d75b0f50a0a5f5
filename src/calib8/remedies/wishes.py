"""What the findings of a diagnosis ask for: the ways to quantize that are worth a trial."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calib8.analysis.basis import METHOD, Basis
from calib8.analysis.diagnose import Diagnosis
from calib8.analysis.findings import OF_CHANNELS
from calib8.calibration.decide import AUTO
from calib8.remedies.treatment import Wish
from calib8.repair.repairs import ESTIMATE

ALWAYS: Final = (("bias",), ("equalize-activations", "bias"))
"""Repairs that are tried whatever the findings are: they cost little, and help where no layer stands out."""

MOST: Final = 6
"""Wishes that are tried."""


def data_explain(diagnosis: Diagnosis, *, again: bool) -> bool:
    """Whether wrong data explain all else, so that no codes are looked at; ``again``: see ``wishes_of``."""
    causes = _causes(diagnosis)
    return "statistics" in causes or (again and bool(causes & {"preprocessing", "input"}))


def _causes(diagnosis: Diagnosis) -> set[str]:
    return {finding.reason.cause for finding in diagnosis.findings}


def wishes_of(diagnosis: Diagnosis, basis: Basis, *, again: bool) -> tuple[Wish, ...]:
    """What the findings ask for, each once; ``again``: to calibrate anew is a remedy too.

    Where the data are not what the network was trained with, nothing helps but other data; where they are
    not what the int8 model was calibrated with, nothing else is worth a look. Repairs that the model has
    already stay where the wish is for something else, and new statistics of batch normalizations in any case:
    without them it would be another function. Ranges that the user gave and that clip are left out in all.
    Nothing is kept in float where the form of the model has no floats.
    """
    causes = _causes(diagnosis)
    if "statistics" in causes:
        return ()
    done = basis.repairs
    estimated = tuple(name for name in done if name == ESTIMATE)
    others = (Wish(METHOD, repairs=done),) if again and basis.method not in (AUTO, METHOD) else ()
    if data_explain(diagnosis, again=again):
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
    wishes = (wish for wish in found if basis.takes_float or not wish.keep_float)
    return tuple(replace(wish, without_ranges=tuple(sorted(set(given)))) for wish in wishes)[:MOST]
