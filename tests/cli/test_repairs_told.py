"""The list of repairs behind ``quantize`` names each of them once, however often it was tried."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from calib8.autorange.check import Check
from calib8.cli.render import say_repairs
from calib8.cli.terminal import Terminal
from calib8.repair.result import Repaired
from calib8.repair.step import Step


def check(decibels: float) -> Check:
    return Check("", decibels, decibels, decibels, 9, decibels)


def step(name: str, after: float, *notes: str, kept: bool = False, layers: tuple[str, ...] = ("a",)) -> Step:
    return Step((name,), check(20.0), check(after), kept, layers, notes)


def told(*steps: Step) -> list[str]:
    text = io.StringIO()
    console = Console(file=text, width=1000)
    nothing = cast(Any, SimpleNamespace())
    say_repairs(Terminal(console, console, quiet=False), Repaired(nothing, nothing, steps, "balanced", 16))
    return text.getvalue().splitlines()


def test_what_failed_twice_is_listed_once() -> None:
    lines = told(
        step("round", 19.0, "errors 47 % of what they were"), step("bias", 19.5),
        step("floats", 24.0, kept=True), step("round", 19.9, "errors 49 % of what they were"),
        step("spots", 20.0, layers=()), step("spots", 20.0, layers=()), step("bn", 20.0, layers=()),
    )  # fmt: skip
    assert lines == [
        "floats (the worst layers kept in float): total 20.0 → 24.0 dB, typical 20.0 → 24.0 dB on 16 samples "
        "held back, 1 layer",
        "tried, and left out: round (2 times), bias",
        "  note: errors 49 % of what they were",
        "nothing to do for: spots (2 times), bn",
    ]


def test_what_is_part_of_the_result_is_not_left_out() -> None:
    lines = told(
        step("round", 19.0, "a note"), step("floats", 24.0, kept=True), step("round", 25.0, kept=True)
    )
    assert [line.partition(" (")[0] for line in lines] == ["floats", "round"]


def test_what_had_nothing_to_do_at_first_and_failed_later_was_tried() -> None:
    lines = told(step("bias", 20.0, layers=()), step("floats", 24.0, kept=True), step("bias", 19.0))
    assert lines[1:] == ["tried, and left out: bias"]
