"""What is timed when models are evaluated: in turns, behind all decoding, whatever their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from calib8.analysis import paces
from calib8.analysis.paces import FirstSamples, seconds_per_sample
from calib8.data.batches import Batch
from calib8.errors import CrashError
from calib8.model.runtime import Session

Array = npt.NDArray[Any]


class Machine:
    """A clock, who ran last, and who ran at all.

    Attributes:
        takes: model → seconds of a run.
        slower: what it takes more behind another model, or for a shape not seen yet.
        drift: by so much every run takes longer than the one before.
    """

    def __init__(self, takes: dict[str, float], slower: float = 5.0, drift: float = 0.0) -> None:
        self.takes, self.slower, self.drift = takes, slower, drift
        self.now, self.last, self.runs = 0.0, ("", ()), list[str]()

    def session(self, name: str) -> Session:
        return Timed(name, (), (), self)


class Timed(Session):
    """A model of a machine."""

    def run(self, feeds: Any, outputs: Sequence[str] | None = None) -> list[Array]:
        machine, this = self.handle, (self.name, feeds["x"].shape)
        machine.now += machine.takes[self.name] + machine.drift * len(machine.runs)
        machine.now += machine.slower * (machine.last != this)
        machine.last = this
        machine.runs.append(self.name)
        return [np.zeros((len(feeds["x"]), 3), np.float32)]


class Crashing(Session):
    """A model that ends its runtime."""

    def run(self, feeds: Any, outputs: Sequence[str] | None = None) -> list[Array]:
        raise CrashError(self.name, "crashes", "Use another runtime")


def kept(*sizes: int) -> FirstSamples:
    first = FirstSamples()
    for size in sizes:
        first.add(Batch({"x": np.zeros((size, 2), np.float32)}, (None,) * size, ("image",) * size))
    return first


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a machine's clock the one that is read."""

    def use(machine: Machine) -> Machine:
        monkeypatch.setattr(paces.time, "perf_counter", lambda: machine.now)
        monkeypatch.setattr(paces.time, "sleep", lambda seconds: None)
        return machine

    return use


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_the_order_of_the_models_does_not_matter(
    timed: Any, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setattr(paces, "LONG_SECONDS", 100.0)
    monkeypatch.setattr(paces, "ENOUGH_SECONDS", 1e9)
    machine = timed(Machine({"a": 1.0, "b": 2.0}))
    found = seconds_per_sample([machine.session(name) for name in order], kept(4))
    assert dict(zip(order, found, strict=True)) == {"a": 0.25, "b": 0.5}
    assert len(machine.runs) == 2 * 2 * paces.MOST_ROUNDS


def test_a_machine_that_gets_slower_hits_all_alike(timed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever came first in all rounds would look faster."""
    monkeypatch.setattr(paces, "LONG_SECONDS", 100.0)
    monkeypatch.setattr(paces, "ENOUGH_SECONDS", 1e9)
    machine = timed(Machine({"a": 1.0, "b": 1.0}, drift=0.01))
    found = seconds_per_sample([machine.session("a"), machine.session("b")], kept(1))
    begun = machine.runs[::4]
    assert begun == (["a", "b"] * paces.MOST_ROUNDS)[: paces.MOST_ROUNDS]
    assert None not in found and abs(found[0] - found[1]) <= 0.02 + 1e-9


def test_slow_models_are_not_run_for_long(timed: Any) -> None:
    machine = timed(Machine({"a": 60.0}))
    [found] = seconds_per_sample([machine.session("a")], kept(2))
    assert machine.runs == ["a"] * paces.FEWEST_ROUNDS
    assert found == 30.0


def test_the_first_samples_are_kept_in_their_batches() -> None:
    assert [len(one.names) for one in kept(20, 20, 20).batches] == [20, 20]
    assert kept(100, 1).count == 100
    assert kept(*[1] * 50).count == paces.SAMPLES


def test_a_model_that_ends_its_runtime_has_no_pace(timed: Any) -> None:
    machine = timed(Machine({"a": 1.0}, slower=0.0))
    sessions = [machine.session("a"), None, Crashing("c", (), (), None)]
    assert seconds_per_sample(sessions, kept(1)) == [1.0, None, None]
