"""The bar of ``progress=True`` in a notebook: drawn by IPython, in one place, and gone at the end."""

from __future__ import annotations

import builtins
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import calib8
from calib8.demo import CALIBRATION_PATH, MODEL_PATH
from calib8.errors import DataError
from calib8.progress.bar import drawn
from needed import needed

DIGITS = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")
LIMIT = 120
"""Seconds that a kernel may take to start, or between two of its messages."""

Shown = list[tuple[str, str, dict[str, str]]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Calls of IPython, in a process that looks like a kernel: function, place, what is drawn there."""
    calls = Shown()

    def recorded(name: str) -> Any:
        def call(data: dict[str, str], *, raw: bool, display_id: str) -> None:
            assert raw
            calls.append((name, display_id, data))

        return call

    module = types.ModuleType("IPython.display")
    for name in ("display", "update_display"):
        setattr(module, name, recorded(name))
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    return calls


def test_a_bar_is_drawn_below_the_cell(shown: Shown, capfd: pytest.CaptureFixture[str]) -> None:
    calib8.collect_statistics(MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, samples=8, progress=True)
    told = list[tuple[str, int, int | None]]()
    calib8.collect_statistics(
        MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, samples=8, progress=lambda *one: told.append(one)
    )
    assert [name for name, _, _ in shown] == ["display", *["update_display"] * (len(shown) - 1)]
    assert len({place for _, place, _ in shown}) == 1
    first, *_, full, last = (data for _, _, data in shown)
    assert first["text/plain"].startswith("starting")
    assert full["text/plain"].startswith(f"{told[-1][0]}  8/8") and 'max="8" value="8"' in full["text/html"]
    assert last == {"text/plain": "", "text/html": ""}
    assert capfd.readouterr() == ("", ""), "what rich says without ipywidgets"


def test_the_bar_is_gone_after_an_error(shown: Shown) -> None:
    with pytest.raises(DataError):
        calib8.quantize(MODEL_PATH, "nowhere", preprocess=DIGITS, progress=True)
    assert shown[0][0] == "display" and shown[-1][2] == {"text/plain": "", "text/html": ""}


def test_a_stage_is_drawn_at_its_begin_and_its_end(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast it is; and now and then where the clock goes on. Names are no HTML."""
    from calib8.progress import notebook_bar

    now = [100.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(notebook_bar, "time", clock)
    with drawn() as bar:
        for done in range(5):
            bar("a<b", done, 4)
        bar("next", 0, 3600)
        now[0] += 2.0
        bar("next", 1, 3600)
    texts = [data["text/plain"] for _, _, data in shown]
    assert texts == ["starting  0:00", "a<b  0/4  0:00", "a<b  4/4  0:00", "next  0/3600  0:00",
                     "next  1/3600  0.5/s  0:02  1:59:58 left", ""]  # fmt: skip
    assert "a&lt;b" in shown[1][2]["text/html"]


def test_a_kernel_sends_it() -> None:
    """In a real one, where there is one."""
    needed("ipykernel")
    client = needed("jupyter_client")
    folders = [str(Path(calib8.__file__).parents[1]), *filter(None, sys.path)]
    manager = client.KernelManager()
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel(env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)})
    kernel = manager.client()
    try:
        kernel.start_channels()
        kernel.wait_for_ready(timeout=LIMIT)
        code = (
            "import calib8, calib8.demo as d\n"
            "p = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color='gray')\n"
            "calib8.collect_statistics(\n"
            "    d.MODEL_PATH, d.CALIBRATION_PATH, preprocess=p, samples=8, progress=True\n"
            ");"
        )
        asked, sent = kernel.execute(code), list[dict[str, Any]]()
        while not sent or sent[-1]["content"].get("execution_state") != "idle":
            one = kernel.get_iopub_msg(timeout=LIMIT)
            sent += [one] if one["parent_header"].get("msg_id") == asked else []
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)
    kinds = [one["msg_type"] for one in sent]
    assert "error" not in kinds and "stream" not in kinds, sent
    drawn_data = [one["content"]["data"] for one in sent if one["msg_type"] == "update_display_data"]
    assert kinds.count("display_data") == 1 and any("8/8" in data["text/plain"] for data in drawn_data)
    assert drawn_data[-1] == {"text/plain": "", "text/html": ""}
