"""A digest tells functions apart that do something else, and is the same in other processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from calib8.distributed.function_digest import function_digest


def scaled(by: Any) -> Callable[[Any], Any]:
    return lambda item: item * by


class Shifted:
    """A function with attributes."""

    def __init__(self, by: Any) -> None:
        self.by = by

    def __call__(self, item: Any) -> Any:
        return item + self.by

    def other(self, item: Any) -> Any:
        return item - self.by


class Chosen:
    """One that holds what cannot be pickled, and itself."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function, self.itself = function, self

    def __call__(self, item: Any) -> Any:
        return self.function(item)


def recursive(depth: int) -> Callable[[Any], Any]:
    def again(item: Any) -> Any:
        return item if depth else again(item)

    return again


MADE: list[Callable[[], Callable[..., Any]]] = [
    lambda: lambda item: item["a"],
    lambda: lambda item: item["b"],
    lambda: lambda item: item in {"a", "b", "c"},
    lambda: scaled(2),
    lambda: scaled(3),
    lambda: scaled(np.arange(3)),
    lambda: partial(np.stack, axis=0),
    lambda: partial(np.stack, axis=1),
    lambda: np.stack,
    lambda: len,
    lambda: Shifted(1),
    lambda: Shifted(2),
    lambda: Shifted(2).other,
    lambda: Chosen(scaled(2)),
    lambda: Chosen(scaled(3)),
    lambda: recursive(0),
    lambda: recursive(1),
]


def test_other_functions_have_other_digests() -> None:
    digests = [function_digest(made()) for made in MADE]
    assert len(set(digests)) == len(MADE)
    assert digests == [function_digest(made()) for made in MADE]


@pytest.mark.parametrize("seed", ["1", "2"])
def test_other_processes_have_the_same(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; import test_function_digest as t; "
        "print([t.function_digest(made()) for made in t.MADE])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([function_digest(made()) for made in MADE])
