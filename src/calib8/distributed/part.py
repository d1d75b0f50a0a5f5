"""A part: what one unit or block of samples gave, and what several of them give together.

    part.zip    part.json        samples, bad pictures, the names of some of them
                statistics.npz   as ``Statistics.to_bytes`` writes them; lacking where no sample was good

Parts merge as statistics do: exactly, in any order.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Final

from calib8.calibration.statistics import Statistics
from calib8.data.samples import Skipped
from calib8.errors import TableError
from calib8.json_texts import parse_json

PART_FORMAT: Final = "calib8-part"
PART_VERSION: Final = 1

MOST_NAMED: Final = 1000
"""Bad pictures that are told by name; memory ends somewhere, their number is always whole."""


@dataclass(frozen=True)
class Part:
    """Statistics of some samples, and what was passed over on the way.

    Attributes:
        samples: good ones.
        bad: pictures that were passed over.
        skipped: the first of them, by name.
        statistics: of the good ones; None where there was none.
    """

    samples: int = 0
    bad: int = 0
    skipped: tuple[Skipped, ...] = ()
    statistics: Statistics | None = None

    @classmethod
    def of(cls, samples: int, skipped: Sequence[Skipped], statistics: Statistics | None) -> Part:
        """What a pass through some samples gave."""
        return cls(samples, len(skipped), _first(skipped), statistics)

    def merge(self, other: Part, *, mixed: bool = False) -> Part:
        """Both together; exact, associative and commutative.

        Args:
            other: of other samples.
            mixed: they may come from machines that compute other bits.

        Raises:
            CalibrationError: they do not belong together, or are mixed and need not be.
        """
        both = [part.statistics for part in (self, other) if part.statistics is not None]
        return Part(
            self.samples + other.samples,
            self.bad + other.bad,
            _first((*self.skipped, *other.skipped)),
            reduce(lambda a, b: a.merge(b, mixed=mixed), both) if both else None,
        )

    def to_bytes(self) -> bytes:
        """As a file; equal parts give equal bytes."""
        told = {
            "format": PART_FORMAT,
            "version": PART_VERSION,
            "samples": self.samples,
            "bad": self.bad,
            "skipped": [asdict(one) for one in self.skipped],
        }
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr(zipfile.ZipInfo("part.json"), json.dumps(told))
            if self.statistics is not None:
                archive.writestr(zipfile.ZipInfo("statistics.npz"), self.statistics.to_bytes())
        return content.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, source: str) -> Part:
        """What ``to_bytes`` gave; ``source`` names it in messages.

        Raises:
            TableError: it is no part, of another version, or broken.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                told = parse_json(archive.read("part.json"))
                names = archive.namelist()
                inner = archive.read("statistics.npz") if "statistics.npz" in names else None
            if (told["format"], told["version"]) != (PART_FORMAT, PART_VERSION):
                raise ValueError(f"it is no {PART_FORMAT} of version {PART_VERSION}")
            skipped = tuple(Skipped(**one) for one in told["skipped"])
            samples, bad = int(told["samples"]), int(told["bad"])
        except Exception as error:  # a damaged archive: zipfile raises a dozen unrelated types
            cure = "Remove it, and what it is of is done again"
            raise TableError(source, f"is not a part of a run ({error})", cure) from error
        return cls(samples, bad, skipped, None if inner is None else Statistics.from_bytes(inner, source))


def merged(parts: Sequence[Part], *, mixed: bool = False) -> Part:
    """All of them together; none at all are a part of nothing.

    Raises:
        CalibrationError: as for ``Part.merge``.
    """
    return reduce(lambda a, b: a.merge(b, mixed=mixed), parts, Part())


def _first(skipped: Sequence[Skipped]) -> tuple[Skipped, ...]:
    return tuple(sorted(skipped, key=lambda one: (one.name, one.reason))[:MOST_NAMED])
