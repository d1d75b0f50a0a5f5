"""What was asked for: an effort or repairs by name, checked before any work is done."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from calib8.errors import UsageError
from calib8.parameters import either, one_of, parameter
from calib8.repair.repairs import DATA_FREE, DEFAULT_EFFORT, EFFORTS, NONE, ONE_OF, REPAIRS, Effort
from calib8.requests import Request


@dataclass(frozen=True)
class Repairs:
    """What was asked for; false where it is nothing.

    Attributes:
        effort: a key of ``EFFORTS``, empty where repairs are named.
        names: keys of ``REPAIRS`` in the order in which they are carried out.
        mixed: an effort may leave a few layers in float.
    """

    effort: str = ""
    names: tuple[str, ...] = ()
    mixed: bool = True

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.effort or self.names)

    @property
    def method(self) -> str | None:
        """The range method that goes with the effort, None for the default one."""
        return EFFORTS[self.effort].method if self.effort else None

    @property
    def samples(self) -> int:
        """How many to keep while ranges are chosen in one pass; 0 where samples are read again anyway."""
        plan = EFFORTS[self.effort] if self.effort else None
        return 0 if plan is None or plan.method is None else plan.repairing + plan.held_back


@dataclass(frozen=True)
class RepairChoice(Request):
    """What is done to keep the accuracy.

    Attributes:
        effort: how much is tried, a key of ``calib8.repair.repairs.EFFORTS``. None: ``balanced`` where there
            are data to calibrate with, else nothing.
        repair: keys of ``calib8.repair.repairs.REPAIRS`` to carry out, in place of an effort; ``("none",)``
            for none at all. All but ``DATA_FREE`` ones need data.
        keep_float: names of nodes to keep in float.
        spots: names of tensors whose codes have 16 bits in place of 8, see ``calib8.passes.spots``; only the
            targets ``calib8`` and ``tflite`` have such codes.

    Raises:
        UsageError: both effort and repairs, or one that does not exist.
    """

    effort: str | None = None
    repair: Sequence[str] | None = None
    keep_float: Sequence[str] = ()
    spots: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Checks the names that are known without a model."""
        super().__post_init__()
        self.wanted(with_data=True, with_table=True)

    def wanted(self, *, with_data: bool, with_table: bool) -> Repairs:
        """The repairs, see ``repairs_wanted``."""
        return repairs_wanted(self.effort, self.repair, with_data=with_data, with_table=with_table)


class RepairWords(TypedDict, total=False):
    """The fields of a ``RepairChoice`` beside the repairs, as keywords."""

    effort: str | None
    keep_float: Sequence[str]
    spots: Sequence[str]


def repairs_wanted(
    effort: str | None, names: Sequence[str] | None, *, with_data: bool, with_table: bool
) -> Repairs:
    """What to do: what was asked for, else ``DEFAULT_EFFORT`` where ranges are chosen from data.

    Raises:
        UsageError: both are given, one does not exist, or there are no data for them.
    """
    option = parameter("repair" if effort is None else "effort")
    if effort is not None and names is not None:
        problem = f"does not go with {parameter('effort')}"
        raise UsageError(parameter("repair"), problem, "Name repairs, or give an effort")
    found = Repairs("" if effort is None else effort, repairs_called(names or ()))
    if effort is not None:
        effort_called(effort)
    if found.effort and not with_data:
        raise UsageError(option, "repairs look at data, and none are given", f"Give {parameter('data')}")
    check_data(found.names, with_data=with_data)
    if effort is None and names is None and with_data and not with_table:
        return Repairs(DEFAULT_EFFORT)
    return found


def check_data(names: Sequence[str], *, with_data: bool) -> None:
    """Refuses repairs that need data where there are none.

    Raises:
        UsageError: there is one.
    """
    blind = [name for name in names if name not in DATA_FREE]
    if blind and not with_data:
        cure = f"Give {parameter('data')}; without them there are {', '.join(DATA_FREE)}"
        raise UsageError(parameter("repair", [blind[0]]), "it looks at data, and none are given", cure)


def effort_called(name: str) -> Effort:
    """The effort of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in EFFORTS:
        raise UsageError(parameter("effort", name), "unknown effort", one_of(name, EFFORTS))
    return EFFORTS[name]


def repairs_called(names: Sequence[str]) -> tuple[str, ...]:
    """The repairs of those names in the order in which they are carried out, each once.

    Raises:
        UsageError: one does not exist, two exclude each other, or ``NONE`` stands beside others.
    """
    if NONE in names:
        if len(set(names)) > 1:
            raise UsageError(
                parameter("repair", list(names)), f"'{NONE}' stands alone", "Name repairs, or none"
            )
        return ()
    if "" in names:
        typed = shlex.quote(",".join(names))
        given = either(f"repair={list(names)!r}", f"--repair {typed}")
        cure = f"Write names separated by single commas, or {NONE}"
        raise UsageError(given, "a name is empty", cure)
    unknown = [name for name in names if name not in REPAIRS]
    if unknown:
        cure = f"{one_of(unknown[0], REPAIRS, 'Use some of')}, or {NONE}"
        raise UsageError(parameter("repair", [unknown[0]]), "unknown repair", cure)
    for group in ONE_OF:
        twice = [name for name in group if name in names]
        if len(twice) > 1:
            problem = f"'{twice[0]}' and '{twice[1]}' do the same in two ways"
            raise UsageError(parameter("repair", list(names)), problem, "Choose one of them")
    return tuple(name for name in REPAIRS if name in names)
