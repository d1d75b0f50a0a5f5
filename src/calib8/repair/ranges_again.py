"""Ranges behind an equalization that took away most of the noise by which they were chosen.

    d_0     quality in dB where the ranges were chosen
    d       quality behind the equalization
    d − d_0 ≥ ``MOST_DB``    at least half of the noise is gone: the ranges are chosen for the new model

``auto`` takes what serves the outputs best, by whole models. With one channel 500 times as large as others
of its tensor that is whatever cuts this channel off: the other channels get codes, and what that costs
elsewhere is not seen beside the noise there is. Equalization makes the channel as large as the others; from
then on what the same method cuts off all other tensors is most of the noise.

The ranges to compare with are those of one method for all tensors: each by its own distribution, whatever the
rest of the model did to the outputs. Those of tensors that equalization changed come from statistics of the
new model; all others hold what they held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.refit import refitted
from calib8.table import CalibrationTable

MOST_DB: Final = 3.0
"""What equalization must gain: with less, most of the noise by which ranges were chosen is still there."""

EQUALIZES: Final = frozenset({"cle", "equalize-groups", "equalize-norms", "equalize-through"})
"""Repairs that change how large channels are, and so what ranges are good."""


@dataclass(frozen=True)
class RangesAgain:
    """Ranges to compare with behind an equalization.

    Attributes:
        name: what they are called there.
        plain: ranges by one method for the model before all repairs.
        chosen: the ranges that were chosen for it.
    """

    name: str
    plain: CalibrationTable
    chosen: CalibrationTable

    def __call__(self, candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
        """The equalized candidate with such ranges, as it came where it has them; runs over all samples.

        Raises:
            CalibrationError: a tensor held NaN or infinite values.
            ModelError, DataError: ONNX Runtime cannot run the model, or the samples cannot be read again.
        """
        before = self.chosen.entries
        changed = [name for name, entry in candidate.table.entries.items() if entry is not before.get(name)]
        found = refitted(replace(candidate, table=self.plain), candidate.model, changed, data)
        return candidate if same_ranges(found.table, candidate.table) else found, RepairReport(())


def ranges_again(tables: Mapping[str, CalibrationTable], chosen: CalibrationTable) -> RangesAgain | None:
    """What to compare with; None where there is nothing else than what was chosen.

    Args:
        tables: ranges by one method for the model before all repairs, by name; the last ones are compared.
        chosen: the ranges that were chosen for it.
    """
    for name, table in reversed(list(tables.items())):
        return None if same_ranges(table, chosen) else RangesAgain(f"{name} again", table, chosen)
    return None


def same_ranges(left: CalibrationTable, right: CalibrationTable) -> bool:
    """Whether two tables say the same, however it was found."""
    pairs = [{name: entry.range for name, entry in table.entries.items()} for table in (left, right)]
    return pairs[0] == pairs[1]
