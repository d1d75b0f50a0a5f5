"""A digest tells functions apart that do something else, and is the same in other processes.

The functions of ``WRITTEN`` are written twice, with one thing changed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from calib8.distributed.function_digest import UntellableError, function_digest, value_digest
from needed import needed
from slow_cases import slow_but


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


class Slotted:
    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

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
    lambda: scaled(2.0),
    lambda: scaled({"a", "b", "c", "d"}),
    lambda: scaled(np.arange(3)),
    lambda: scaled(np.arange(3, dtype=np.float32)),
    lambda: scaled(np.arange(4000)),
    lambda: scaled(np.arange(4000) + (np.arange(4000) == 2000)),
    lambda: scaled(np.array(["a", 2], object)),
    lambda: partial(np.stack, axis=0),
    lambda: partial(np.stack, axis=1),
    lambda: np.stack,
    lambda: len,
    lambda: np.vectorize(scaled(2)),
    lambda: np.vectorize(scaled(3)),
    lambda: np.arange(3).take,
    lambda: np.arange(4).take,
    lambda: {"a": 1}.get,
    lambda: {"a": 2}.get,
    lambda: Shifted(1),
    lambda: Shifted(2),
    lambda: Shifted({"a", "b", "c", "d"}),
    lambda: Shifted(2).other,
    lambda: Chosen(scaled(2)),
    lambda: Chosen(scaled(3)),
    lambda: Slotted(scaled(2)),
    lambda: Slotted(scaled(3)),
    lambda: recursive(0),
    lambda: recursive(1),
]

WRITTEN: Final = {
    "a global": ("MEAN = 1.0\ndef f(x): return x - MEAN", "1.0", "2.0"),
    "an array of the module": ("MEAN = np.float32([1, 2])\ndef f(x): return x - MEAN", "2]", "3]"),
    "a function that it calls": ("def g(x): return x * 2\ndef f(x): return g(x)", "* 2", "* 3"),
    "one that that calls": (
        "def h(x): return x * 2\ndef g(x): return h(x)\ndef f(x): return [g(y) for y in x]",
        "* 2",
        "* 3",
    ),
    "a function in another module": ("import helping\ndef f(x): return helping.g(x)", "", ""),
    "a base class": ("class A:\n  def __call__(s, x): return x + 1\nclass B(A): pass\nf = B()", "1", "2"),
    "a property": (
        "class A:\n  @property\n  def k(s): return 1\n  def __call__(s, x): return x * s.k\nf = A()",
        "return 1",
        "return 2",
    ),
    "a static method": (
        "class A:\n  @staticmethod\n  def k(x): return x * 1\n  def __call__(s, x): return s.k(x)\nf = A()",
        "* 1",
        "* 2",
    ),
    "a value of a class": (
        "class A:\n  k = 1\n  def __call__(s, x): return x * s.k\nf = A()",
        "k = 1",
        "k = 2",
    ),
    "a part of a part": (
        "class A:\n  def __call__(s, x): return x * 1\n"
        "class B:\n  def __init__(s, *a): s.a = a\n  def __call__(s, x): return s.a[0](x)\nf = B(A())",
        "* 1",
        "* 2",
    ),
    "what a cache is around": (
        "import functools\n@functools.lru_cache\ndef f(x): return x * 1",
        "* 1",
        "* 2",
    ),
    "a default": ("def f(x, *, k=1): return x * k", "k=1", "k=2"),
    "an error that is caught": (
        "def f(x):\n  try: return x['a']\n  except KeyError: return 0",
        "KeyError",
        "IndexError",
    ),
}


def written(text: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"__name__": "__main__", "np": np}
    exec(text, space)
    return space["f"]  # type: ignore[no-any-return]


def test_other_functions_have_other_digests() -> None:
    digests = [function_digest(made()) for made in MADE]
    assert len(set(digests)) == len(MADE)
    assert digests == [function_digest(made()) for made in MADE]


@pytest.mark.parametrize("kind", WRITTEN)
def test_what_a_function_stands_on_counts(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, old, new = WRITTEN[kind]
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for number in range(2):
        (tmp_path / "helping.py").write_text(f"def g(x): return x * {number}\ndef other(x): return x")
        monkeypatch.delitem(sys.modules, "helping", raising=False)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        found.append(function_digest(written(text if number == 0 else text.replace(old, new, 1))))
    assert found[0] != found[1]
    assert found[0] == function_digest(written(text)) or kind == "a function in another module"


def test_what_it_does_not_read_does_not_count() -> None:
    """Nor where it is written down."""
    text = "MEAN = 1\nother = 2\ndef f(x): return x.other - MEAN"
    digests = {function_digest(written(one)) for one in (text, f"\n\n{text}", text.replace("2", "3"))}
    assert len(digests) == 1


@pytest.mark.parametrize("seed", slow_but(["1"], ["1", "2"]))
def test_other_processes_have_the_same(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; import test_function_digest as t; "
        "print([t.function_digest(made()) for made in t.MADE], t.function_digest(t.normalizing(0.5)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("] ")[0] + "]" == str([function_digest(made()) for made in MADE])
    assert done.stdout.split("] ")[1].strip() == function_digest(normalizing(0.5))


def normalizing(mean: float) -> Any:
    """A module of torch with a buffer, and a tensor in half precision beside it."""
    torch = needed("torch")

    class Normalizing(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.tensor([mean]))
            self.half = torch.tensor(mean, dtype=torch.bfloat16)

        def forward(self, x: Any) -> Any:
            return x - self.mean

    return Normalizing()


def test_tensors_count_by_their_values() -> None:
    assert function_digest(normalizing(0.5)) == function_digest(normalizing(0.5))
    assert function_digest(normalizing(0.5)) != function_digest(normalizing(0.6))


@pytest.mark.parametrize("held", [threading.Lock(), (one for one in "ab")], ids=["lock", "generator"])
def test_what_does_not_say_what_it_is(held: Any) -> None:
    with pytest.raises(UntellableError, match=type(held).__name__):
        function_digest(scaled([held]))


def test_values_in_one_another() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    other: list[Any] = [1]
    other.append([other])
    assert len({value_digest(each) for each in (ring, other, [1], (1,), [[1]], [1, 1], "1", b"1", 1)}) == 9
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UntellableError, match="list"):
        value_digest(deep)
