"""Progress of functions: a callback, a bar where True is given, and nothing without."""

from __future__ import annotations

import inspect
import io
from typing import Any

import pytest
from rich.console import Console

import calib8
from calib8.demo import CALIBRATION_PATH, MODEL_PATH
from calib8.errors import DataError, UsageError
from calib8.progress import bar

DIGITS = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")
FUNCTIONS = [
    name
    for name in calib8.__all__
    if inspect.isfunction(getattr(calib8, name))
    and "progress" in inspect.signature(getattr(calib8, name)).parameters
]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is drawn, on a terminal that somebody watches."""
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=120)
    monkeypatch.setattr(bar, "Console", lambda stderr: console)
    return drawn


def collect(progress: Any) -> calib8.Collection:
    return calib8.collect_statistics(
        MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, samples=8, progress=progress
    )


def test_these_functions_tell_their_progress() -> None:
    assert set(FUNCTIONS) == {
        *("benchmark", "calibrate", "collect_statistics", "compare", "diagnose", "evaluate", "inspect"),
        *("log_run", "quantize", "tune", "write_report"),
    }


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("given", [7, "yes"])
def test_what_is_no_progress_is_refused_at_once(name: str, given: object) -> None:
    function = getattr(calib8, name)
    needed = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    with pytest.raises(
        UsageError, match=rf"progress={given!r}: is neither a function nor True. Give True for"
    ):
        function(*("none.onnx" for _ in needed), progress=given)


def test_a_bar_is_drawn_where_somebody_watches(terminal: io.StringIO) -> None:
    with_bar = collect(True)
    drawn = terminal.getvalue()
    assert "starting" in drawn and "8/8" in drawn
    told = list[tuple[str, int, int | None]]()
    with_callback = collect(lambda *one: told.append(one))
    assert told[-1][1:] == (8, 8) and told[-1][0] in drawn
    assert terminal.getvalue() == drawn, "a callback draws nothing"
    assert with_bar.statistics == with_callback.statistics


def test_the_bar_ends_with_an_error(terminal: io.StringIO) -> None:
    with pytest.raises(DataError):
        calib8.quantize(MODEL_PATH, "nowhere", preprocess=DIGITS, progress=True)
    hidden, shown = "\x1b[?25l", "\x1b[?25h"
    drawn = terminal.getvalue()
    assert drawn.count(hidden) == drawn.count(shown) == 1, "the cursor is there again"


@pytest.mark.parametrize("progress", [True, False, None])
def test_nothing_is_written_into_a_pipe(progress: bool | None, capfd: pytest.CaptureFixture[str]) -> None:
    collect(progress)
    assert capfd.readouterr() == ("", "")
