"""``view``: reports of a folder, one report or a model in a browser of this machine."""

from __future__ import annotations

import errno
import os
import secrets
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from calib8.analysis.inspection import Inspection, inspect
from calib8.errors import DataError, ModelError, UsageError
from calib8.files import check_file, checked_path
from calib8.parameters import parameter
from calib8.requests import checks_types
from calib8.run_report.page_path import SUFFIXES
from calib8.viewer.list_page import list_page
from calib8.viewer.model_page import model_page
from calib8.viewer.place import Place
from calib8.viewer.report_page import report_page
from calib8.viewer.reports import Listing, Reports
from calib8.viewer.server import Server

MOST_PORTS = 65_535

LOOK_SECONDS = 0.2
"""Between two looks whether the viewer is closed."""

MODELS = (".onnx", ".tflite", ".c8p", ".c8")
"""Suffixes of models, programs and plans."""


class Viewer:
    """A server that is running, until it is closed or the process ends; in a ``with`` statement it is closed.

    Attributes:
        url: of the first page, with the token; who knows it can read what is shown.
    """

    def __init__(self, server: Server, reports: Reports | None = None) -> None:
        """Starts to answer.

        Args:
            server: that listens already.
            reports: that it shows.
        """
        self.url = server.url
        self._server, self._reports = server, reports
        self._thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    def listing(self) -> Listing:
        """The reports as they are now; of a model there are none."""
        return Listing((), ()) if self._reports is None else self._reports.listing()

    def wait(self) -> None:
        """Waits until the viewer is closed, or for Ctrl-C, which closes it.

        It looks again and again: Ctrl-C that comes just before a wait without an end begins would not end it.
        """
        try:
            while self._thread.is_alive():
                time.sleep(LOOK_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        """Ends; nothing is answered any more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Viewer:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()

    def __repr__(self) -> str:
        """With the address."""
        return f"<Viewer: {self.url}>"


@checks_types
def view(path: str | os.PathLike[str], *, port: int = 0, browser: bool = True) -> Viewer:
    """Shows reports of a folder side by side, one report, or what is in a model, in a browser.

    The server answers this machine alone, only who knows the token of its address, and reads only reports
    below the folder. It runs beside the rest of the process: ``wait`` waits for its end.

    Args:
        path: a folder with reports in it or further down, one report, or a model, program or plan.
        port: to listen to, 0: any that is free.
        browser: open the page in the browser where this machine has a screen.

    Raises:
        UsageError: the port is in use or none.
        DataError: there is no such folder or file, or the page is no report.
        Calib8Error: what can be wrong with a model.
    """
    return shown(path, port=port, browser=browser, typed=False)


def shown(path: str | os.PathLike[str], *, port: int, browser: bool, typed: bool) -> Viewer:
    """``view``; ``typed``: texts name parameters as on the command line."""
    given = checked_path(path, "path")
    if not 0 <= port <= MOST_PORTS:
        raise UsageError(
            parameter("port", port), f"must be in 0 … {MOST_PORTS}", "Give 0 for any that is free"
        )
    front, reports = _front(given, typed)
    viewer = Viewer(_listening(port, front, reports), reports)
    if browser and _has_screen():
        webbrowser.open(viewer.url)
    return viewer


def _front(path: Path, typed: bool) -> tuple[Callable[[], str], Reports | None]:
    """What makes the first page, and the reports that may be shown."""
    if path.is_dir():
        reports = Reports(Place(path.resolve()))
        return lambda: list_page(path.resolve().name or "/", reports.listing()), reports
    check_file(path, "Give a folder of reports, a report or a model", DataError)
    if path.suffix.lower() in SUFFIXES:
        return _one_report(path)
    page = model_page(_inspected(path), typed=typed)
    return lambda: page, None


def _inspected(path: Path) -> Inspection:
    """What is in a model; a file that is not called like one need not be meant as one."""
    try:
        return inspect(path)
    except ModelError:
        if path.suffix.lower() in MODELS:
            raise
        problem = "is neither a folder, nor a report, nor a model"
        cure = f"Give a folder of reports, a report ({SUFFIXES[0]}) or a model ({', '.join(MODELS)})"
        raise DataError(str(path), problem, cure) from None


def _one_report(path: Path) -> tuple[Callable[[], str], Reports]:
    real = path.resolve()
    reports = Reports(Place(real.parent, real.name))
    if reports.one(real.name) is None:
        problem = "is no report: it holds no facts of a run"
        raise DataError(str(path), problem, "Write it anew with this calib8, or open it in a browser")
    return lambda: report_page(reports.one(real.name), alone=True), reports


def _listening(port: int, front: Callable[[], str], reports: Reports | None) -> Server:
    try:
        return Server(port, secrets.token_urlsafe(16), front, reports)
    except OSError as error:
        used = error.errno == errno.EADDRINUSE
        problem = "is in use" if used else f"cannot be listened to ({error.strerror or error})"
        cure = f"Give another one, or {parameter('port', 0)} for any that is free"
        raise UsageError(parameter("port", port), problem, cure) from error


def _has_screen(environment: Any = os.environ, platform: str = sys.platform) -> bool:
    """Whether a browser would have a window; one for terminals would take the terminal."""
    return platform in ("darwin", "win32") or any(map(environment.get, ("DISPLAY", "WAYLAND_DISPLAY")))
