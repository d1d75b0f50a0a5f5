"""Opens and runs plans with numbers of their steps changed: ``plan_mutations.py SEED COUNT FILE.c8…``.

Every changed file has the right checksum. It must be refused, or run; what becomes of its results does not
matter. A process of its own, for a kernel that leaves its buffers may end it.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from calib8 import InferenceSession, ModelError, _core
from calib8.engine.plan import Plan
from calib8.engine.plan_file import load_plan, save_plan

VALUES: Final = (
    0, 1, -1, 2, 3, 4, 5, 7, 8, 16, 63, 64, 65, 100, 127, 128, 255, 256, 1000, 4096, 1 << 20, 1 << 31,
    -(1 << 31), (1 << 31) - 1, 1 << 40, 1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63),
)  # fmt: skip
STEPS: Final = (1, -1, 2, 4, 8, 16, -16, 32, 64, -64)
"""Added to what a field holds: most of what this gives is plausible."""


def mutated(plan: Plan, rng: np.random.Generator) -> Plan:
    """The plan with one, two or three numbers changed."""
    rows = list(plan.rows)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        place = int(rng.integers(len(rows)))
        fields = rows[place].fields.copy()
        field = int(rng.integers(fields.size))
        old = int(fields[field])
        near = [old + step for step in STEPS] + [2 * old, old // 2, -old]
        value = int(rng.choice(near if rng.random() < 0.6 else VALUES))
        fields[field] = max(-(1 << 63), min((1 << 63) - 1, value))
        rows[place] = rows[place]._replace(fields=fields)
    return replace(plan, rows=tuple(rows))


def attempt(path: Path, isa: str) -> str:
    """What becomes of a file; any other error than that of a broken model is passed on."""
    try:
        session = InferenceSession(path, isa=isa, threads=1)
    except ModelError:
        return "refused"
    session.run(None, {spec.name: np.ones(spec.shape, spec.dtype) for spec in session.inputs})  # type: ignore[arg-type]
    return "run"


def main() -> None:
    """Prints the number of each change before it is tried, and at the end what became of them."""
    seed, count, *files = sys.argv[1:]
    rng = np.random.default_rng(int(seed))
    plans = [load_plan(file) for file in files]
    isas = _core.engine.available_isas()
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(int(count)):
            path = Path(folder) / f"{number}.c8"
            save_plan(mutated(plans[number % len(plans)], rng), path)
            print(number, flush=True)
            found[attempt(path, str(rng.choice(isas)))] += 1
            path.unlink()
    print(f"{found['refused']} refused, {found['run']} run")


if __name__ == "__main__":
    main()
