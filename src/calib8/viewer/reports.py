"""The reports of a place: which of its pages are some, and what these tell.

Of a page no more is read than its facts, and again only where it was written anew.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace

from calib8.run_report.facts import PageFacts, Unread, facts_in
from calib8.viewer.place import Place


@dataclass(frozen=True)
class Report:
    """A report.

    Attributes:
        path: see ``Place.pages``.
        facts: what it tells; in a listing without layers.
        bytes: of the page.
        written: when, in seconds since 1970.
    """

    path: str
    facts: PageFacts | Unread
    bytes: int
    written: float

    @property
    def title(self) -> str:
        """What to call it."""
        return self.facts.title or self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Listing:
    """What a place holds.

    Attributes:
        reports: those written last come first.
        others: pages that are no reports.
        notes: sentences on what was not looked at.
    """

    reports: tuple[Report, ...]
    others: tuple[str, ...]
    notes: tuple[str, ...] = ()


class Reports:
    """The reports of a place as they are at the moment."""

    def __init__(self, place: Place) -> None:
        """Looks at nothing yet."""
        self.place = place
        self._known: dict[str, tuple[tuple[int, int, int], Report | None]] = {}
        self._lock = threading.Lock()

    def listing(self) -> Listing:
        """All of them, without their layers."""
        found = self.place.pages()
        with self._lock:
            seen = {path: self._seen(path) for path in found.paths}
            self._known = {path: self._known[path] for path in seen if path in self._known}
        reports = [one for one in seen.values() if isinstance(one, Report)]
        notes = [
            f"{found.links} links are not followed." if found.links > 1 else "1 link is not followed."
        ] * bool(found.links)
        notes += [f"Folders that cannot be read: {found.closed}."] * bool(found.closed)
        notes += ["There are more folders or pages: name a folder further down."] * found.more
        gone = [path for path, one in seen.items() if one is None]
        return Listing(
            tuple(sorted(reports, key=lambda one: (-one.written, one.path))), tuple(gone), tuple(notes)
        )

    def one(self, path: str) -> Report | None:
        """A report with all that it tells; None where there is none that may be shown."""
        file = self.place.opened(path)
        if file is None:
            return None
        with file:
            found, now = facts_in(file), os.fstat(file.fileno())
        return None if found is None else Report(path, found, now.st_size, now.st_mtime)

    def _seen(self, path: str) -> Report | None:
        file = self.place.opened(path)
        if file is None:
            return None
        with file:
            now = os.fstat(file.fileno())
            stamp = (now.st_ino, now.st_mtime_ns, now.st_size)
            known = self._known.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            facts = facts_in(file)
        if isinstance(facts, PageFacts):
            facts = replace(facts, layers=())
        found = None if facts is None else Report(path, facts, now.st_size, now.st_mtime)
        self._known[path] = (stamp, found)
        return found
