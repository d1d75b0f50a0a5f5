"""Which tensors are worth a trial with 16-bit codes, where the target has them: more and more of the best.

wish n    the first n of the classes that ``calib8.repair.spots`` ranks by noise gone per work, those left
          out with which more than its budget of multiply-accumulates would be done twice
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calib8.remedies.clinic import Clinic
from calib8.remedies.treatment import Wish
from calib8.repair.spots import BUDGET

TOGETHER: Final = (1, 3, 8)
"""Numbers of spots that are tried together."""


def spot_wishes(clinic: Clinic, others: Sequence[Wish]) -> tuple[Wish, ...]:
    """The wishes, that for one tensor in front; none where the target has 8-bit codes alone.

    Args:
        clinic: what is known of the model; repairs that it has stay.
        others: the other wishes; ranges that these leave out are left out here too.
    """
    repairs = clinic.basis.repairs
    spent, names = 0.0, list[str]()
    for one in clinic.ranked(repairs):
        if spent + one.price <= BUDGET and len(names) < TOGETHER[-1]:
            spent += one.price
            names.append(min(one.members))
    numbers = sorted({min(number, len(names)) for number in TOGETHER} - {0})
    without = others[0].without_ranges if others else ()
    return tuple(
        Wish(repairs=repairs, without_ranges=without, spots=tuple(names[:number])) for number in numbers
    )
