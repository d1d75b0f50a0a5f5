"""Commands that are killed, told to end, out of space, or beside one another: a table of commands and faults.

    python scripts/faults.py --kills 20 --seed 7
    python scripts/faults.py --commands tune,calibrate --kills 5 --full 5

Half of the kills come at random calls that change a file, half at random times. After each, every file is the
old one or the complete new one, and the same command ends with what one undisturbed run writes.
``tests/faults`` does the same at a few places. Needs a C compiler.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "faults")]

import attacks  # noqa: E402 - what tests share lies in a folder of theirs
from faulty import CASES, Case, emptied, whole  # noqa: E402

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOCKED: Final = {"tune": "another run is searching in it"}
KINDS: Final = ("killed at a call", "killed at a time", "disk full", "told to end", "two at once", "faults")


def attack(field: attacks.Field, name: str, settings: argparse.Namespace) -> Counter[str]:
    """All faults for a command; how often each was tried, and how many left something wrong."""
    case, draw = CASES[name], random.Random(f"{settings.seed} {name}")
    start = time.monotonic()
    wanted = whole(case, field.given, field.out)
    seconds = time.monotonic() - start
    calls = field.calls(case)
    found: Counter[str] = Counter()

    def tried(kind: str, job: Callable[[], object]) -> None:
        try:
            found[kind] += 1
            if job() is False:  # it had ended already
                found[kind] -= 1
        except AssertionError as wrong:
            found["faults"] += 1
            print(f"{name}, {kind}: {wrong}", flush=True)
            emptied(field.out)

    for _ in range(settings.kills // 2):
        at, before = draw.randint(1, calls), draw.random() < 0.5
        tried(KINDS[0], lambda: attacks.killed_at_a_call(field, case, wanted, at, before))  # noqa: B023
    for _ in range(settings.kills - settings.kills // 2):
        moment = draw.uniform(0.1, 1.0) * seconds
        tried(KINDS[1], lambda: attacks.killed_after(field, case, wanted, moment))  # noqa: B023
    for at in sorted(draw.sample(range(1, calls + 1), min(calls, settings.full))):
        tried(KINDS[2], lambda: attacks.full_from(field, case, wanted, at, at % 2 == 0))  # noqa: B023
    for number in range(settings.signals):
        at = draw.randint(1, calls - 1)
        which = SIGNALS[number % len(SIGNALS)]
        tried(KINDS[3], lambda: attacks.ended_at_a_call(field, case, wanted, which, at))  # noqa: B023
    for _ in range(settings.pairs):
        tried(KINDS[4], lambda: _pair(field, case, wanted, LOCKED.get(name, "")))
    return found


def _pair(field: attacks.Field, case: Case, wanted: dict[str, bytes], refused: str) -> None:
    attacks.two_at_once(field, case, wanted, refused)


def main() -> int:
    """Prints the table; 1 if something was lost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commands", default=",".join(CASES), help="names with commas between them")
    parser.add_argument("--kills", type=int, default=20, help="per command")
    parser.add_argument(
        "--full", type=int, default=10, help="places at which the disk gets full, per command"
    )
    parser.add_argument("--signals", type=int, default=6, help="per command")
    parser.add_argument("--pairs", type=int, default=3, help="two at once, per command")
    parser.add_argument("--seed", type=int, default=7, help="of the places and times")
    settings = parser.parse_args()
    rows: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="faults-") as place:
        field = attacks.open_field(Path(place).resolve())
        for name in settings.commands.split(","):
            rows[name] = attack(field, name, settings)
            print(f"{name}: {dict(rows[name])}", flush=True)
    print(f"\nseed {settings.seed}\n\n| command | {' | '.join(KINDS)} |\n{'|---' * (len(KINDS) + 1)}|")
    for name, found in rows.items():
        print(f"| {name} | {' | '.join(str(found[kind]) for kind in KINDS)} |")
    return int(any(found["faults"] for found in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
