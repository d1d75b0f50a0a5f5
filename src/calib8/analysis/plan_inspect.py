"""What a plan holds, and the memory that it takes to run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from calib8.engine.plan import Plan
from calib8.engine.plan_file import load_plan
from calib8.engine.run import Engine
from calib8.errors import ModelError
from calib8.session.prepared import RECURRENT


@dataclass(frozen=True, eq=False)
class PlanInspection:
    """What ``inspect_plan`` found.

    Attributes:
        path: of the file.
        plan: what is in it.
        scratch_bytes: memory that each thread needs beside the arena of the plan.
    """

    path: str
    plan: Plan
    scratch_bytes: int

    @property
    def steps(self) -> Mapping[str, int]:
        """Kind → number of steps, most frequent first."""
        return dict(Counter(row.opcode for row in self.plan.rows).most_common())

    @property
    def float_gates(self) -> tuple[str, ...]:
        """Recurrent layers whose products are integers, and whose gates and states are float32."""
        steps = zip(self.plan.rows, self.plan.step_names, strict=True)
        return tuple(dict.fromkeys(name for row, name in steps if row.opcode == RECURRENT))

    @property
    def integer_macs(self) -> int:
        """Multiply-accumulates of one run in integers."""
        return sum(self.plan.step_macs)


def inspect_plan(path: str | os.PathLike[str]) -> PlanInspection:
    """Looks at a plan; nothing is run.

    Raises:
        ModelError: it is damaged, or the native core would not run it.
    """
    plan = load_plan(path)
    try:
        scratch = Engine(plan, isa="reference").scratch_bytes
    except ValueError as error:
        cure = "Compile it again from the model"
        raise ModelError(os.fspath(path), f"cannot be run ({error})", cure) from error
    return PlanInspection(os.fspath(path), plan, scratch)
