"""The server: answers this machine alone, only who knows the token, and writes nothing.

    /TOKEN/                     the list, or what else the front is
    /TOKEN/pair?report=…&report=…
    /TOKEN/open?report=…        a report in a frame
    /TOKEN/page/a/b.html        what is in the frame: it reaches nothing, and cannot leave this machine
    /TOKEN/viewer.css, viewer.js

Another page of the browser cannot guess the token, and a name that somebody points at this machine is refused
by the header ``Host``.
"""

from __future__ import annotations

import hmac
import shutil
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs

from calib8.viewer.frame import framed, from_address, open_address, script, style_sheet
from calib8.viewer.pair_page import pair_page
from calib8.viewer.report_page import report_page
from calib8.viewer.reports import Report, Reports

HOST: Final = "127.0.0.1"

OURS: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a page of the viewer may do."""

THEIRS: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
"""What a report may do: draw itself. It has no origin, and reads neither the list nor other reports."""

HTML: Final = "text/html; charset=utf-8"
SECONDS: Final = 30
"""After so long without a sign a connection is closed."""


class Server(ThreadingHTTPServer):
    """Listens when it is made.

    Attributes:
        token: that every address holds.
        front: makes the first page.
        reports: that may be shown; None: there are none.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, token: str, front: Callable[[], str], reports: Reports | None) -> None:
        """Raises OSError where the port cannot be listened to."""
        super().__init__((HOST, port), _Handler)
        self.token, self.front, self.reports = token, front, reports

    @property
    def url(self) -> str:
        """Of the first page."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of browsers that go away."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = SECONDS

    def do_GET(self) -> None:
        """A page, style or script."""
        port = self.server.server_port
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            return self._refuse("This is not the name of this server.")
        path, _, query = self.path.partition("?")
        token, slash, rest = path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(errors="replace"), self.server.token.encode()):
            return self._refuse("The token is wrong. Open the address that was printed.")
        if not slash:
            return self._moved(f"/{token}/")
        files = {"viewer.css": ("text/css", style_sheet), "viewer.js": ("text/javascript", script)}
        if rest in files:
            kind, made = files[rest]
            return self._say(f"{kind}; charset=utf-8", made())
        if rest == "":
            return self._say(HTML, self.server.front())
        if rest == "pair":
            return self._pair(query)
        if rest == "open":
            return self._open(query)
        if rest.startswith("page/"):
            return self._page(from_address(rest.removeprefix("page/")))
        return self._missing("There is no such page.")

    do_HEAD = do_GET  # noqa: N815

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request that can be answered: in a line of the viewer's own."""
        self.close_connection = True
        known = code == HTTPStatus.NOT_IMPLEMENTED
        why = "Pages are only shown here: GET and HEAD are answered." if known else "This is no request."
        self._say("text/plain; charset=utf-8", f"{why}\n", HTTPStatus(code))

    def version_string(self) -> str:
        """The name of the server, and no version of Python."""
        return "calib8"

    def log_message(self, format: str, *arguments: Any) -> None:
        """Says nothing: the terminal belongs to the command."""

    def _asked(self, query: str, most: int) -> list[Report]:
        """The reports that an address names; those that are not here are left out."""
        try:
            names = parse_qs(query, max_num_fields=most).get("report", [])
        except ValueError:
            return []
        reports = self.server.reports
        found = [] if reports is None else [reports.one(from_address(name)) for name in names]
        return [one for one in found if one is not None]

    def _pair(self, query: str) -> None:
        found = self._asked(query, 2)
        if len(found) != 2:
            return self._missing("Two reports belong on this page. Choose them in the list.")
        return self._say(HTML, pair_page(*found))

    def _open(self, query: str) -> None:
        found = self._asked(query, 1)
        if not found:
            return self._missing("There is no such report.")
        return self._say(HTML, report_page(found[0], alone=False))

    def _page(self, path: str) -> None:
        """What is in a frame; whoever asks for it without one gets it in a frame."""
        reports = self.server.reports
        if reports is not None and self.headers.get("Sec-Fetch-Dest") == "document":
            return self._moved(f"/{self.server.token}/{open_address(path)}")
        if reports is None or reports.one(path) is None:
            return self._missing("There is no such report.")
        file = reports.place.opened(path)
        if file is None:
            return self._missing("There is no such report.")
        with file:
            self._begin(HTTPStatus.OK, HTML, THEIRS)
            if self.command != "HEAD":
                shutil.copyfileobj(file, self.wfile)

    def _say(self, kind: str, text: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        body = text.encode()
        self._begin(status, kind, OURS, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, why: str) -> None:
        self._say("text/plain; charset=utf-8", f"{why}\n", HTTPStatus.FORBIDDEN)

    def _missing(self, why: str) -> None:
        body = f'<section><p>{why}</p><p><a href="/{self.server.token}/">All reports</a></p></section>'
        text = framed("Not found", body)
        for name in ("viewer.css", "viewer.js"):
            text = text.replace(f'"{name}"', f'"/{self.server.token}/{name}"')
        self._say(HTML, text, HTTPStatus.NOT_FOUND)

    def _moved(self, place: str) -> None:
        self.send_response(HTTPStatus.FOUND)
        self.send_header("Location", place)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _begin(self, status: HTTPStatus, kind: str, policy: str, size: int | None = None) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind, "Content-Security-Policy": policy, "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }  # fmt: skip
        for name, value in headers.items():
            self.send_header(name, value)
        if size is not None:
            self.send_header("Content-Length", str(size))
        self.end_headers()
