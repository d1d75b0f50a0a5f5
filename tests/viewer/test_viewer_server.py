"""The server: this machine alone, who knows the token, nothing outside of the folder, nothing written."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest
from example_reports import NASTY
from report_folders import told, written

import calib8
from calib8.errors import DataError, ModelError, UsageError
from calib8.viewer import view as module
from html_reader import Reader, assert_whole


class Answer(NamedTuple):
    status: int
    headers: HTTPResponse
    text: str


@pytest.fixture
def root(tmp_path: Path) -> Path:
    written(tmp_path / "in" / "a.html", told("first", 97.0, 30.0))
    written(tmp_path / "in" / "b" / "c.html", told("second", 99.5, 35.0))
    (tmp_path / "in" / "plain.html").write_text("<!DOCTYPE html>no report")
    (tmp_path / "in" / "secret.txt").write_text("secret")
    written(tmp_path / "out.html", told("outside"))
    return tmp_path / "in"


@pytest.fixture
def viewer(root: Path) -> Iterator[calib8.Viewer]:
    with calib8.view(root, browser=False) as found:
        yield found


def ask(viewer: calib8.Viewer, path: str, method: str = "GET", **headers: str) -> Answer:
    """``path`` behind the token; from the root where it begins with ``/``. Sent as it is written."""
    parts = urlsplit(viewer.url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request(method, path if path[:1] == "/" else parts.path + path, headers=headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer, answer.read().decode("utf-8", "replace"))
    finally:
        connection.close()


PAIR = "pair?report=a.html&report=b/c.html"


def test_the_list_a_report_and_two_of_them(viewer: calib8.Viewer, root: Path) -> None:
    front = ask(viewer, "")
    assert front.status == 200 and "first" in front.text and "second" in front.text
    assert "outside" not in front.text and "1 page that is no report" in front.text
    assert 'src="page/b/c.html"' in ask(viewer, "open?report=b%2Fc.html").text
    assert ask(viewer, "page/a.html").text == (root / "a.html").read_text(encoding="utf-8")
    both = ask(viewer, PAIR)
    assert both.status == 200 and "+2.50 points" in both.text and "+5.0 dB" in both.text
    for name, kind in (("viewer.css", "text/css"), ("viewer.js", "text/javascript")):
        answer = ask(viewer, name)
        assert answer.status == 200 and answer.headers.getheader("Content-Type") == f"{kind}; charset=utf-8"


@pytest.mark.parametrize("path", ["/", "/wrong/", "/wrong/page/a.html", "/favicon.ico", "/%00/", "//"])
def test_without_the_token_nothing_is_told(viewer: calib8.Viewer, path: str) -> None:
    answer = ask(viewer, path)
    assert answer.status == 403 and "first" not in answer.text and viewer.url.split("/")[3] not in answer.text


def test_whatever_is_sent_is_answered_or_closed(viewer: calib8.Viewer) -> None:
    parts = urlsplit(viewer.url)
    host = f"Host: 127.0.0.1:{parts.port}\r\n\r\n".encode()
    for line in (b"GET /\xe9\xff/ HTTP/1.1\r\n", b"GET /" + b"a" * 70_000, b"\x16\x03\x01\r\n", b"GET\r\n",
                 b"GET http://[ HTTP/1.1\r\n"):  # fmt: skip
        with socket.create_connection(("127.0.0.1", parts.port or 0), timeout=60) as connection:
            connection.sendall(line + host)
            answer = connection.recv(4096)
        assert b" 200 " not in answer and (b"[" not in line or b" 403 " in answer), line
    assert ask(viewer, "").status == 200


def test_a_token_that_is_nearly_right_is_wrong(viewer: calib8.Viewer) -> None:
    token = viewer.url.split("/")[3]
    assert len(token) >= 20
    for other in (token[:-1], f"{token}x", token.swapcase(), ""):
        assert ask(viewer, f"/{other}/").status == 403
    assert ask(viewer, f"/{token}").headers.getheader("Location") == f"/{token}/"


def test_every_viewer_has_a_token_of_its_own(root: Path) -> None:
    with calib8.view(root, browser=False) as one, calib8.view(root, browser=False) as other:
        assert one.url.split("/")[3] != other.url.split("/")[3]


def test_another_name_of_this_machine_is_refused(viewer: calib8.Viewer) -> None:
    port = urlsplit(viewer.url).port
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "",
        f"127.0.0.1:{port}.x",
    ):
        assert ask(viewer, "", Host=host).status == 403, host
    assert ask(viewer, "", Host=f"localhost:{port}").status == 200


def test_it_listens_on_the_loopback_address_alone(viewer: calib8.Viewer) -> None:
    assert viewer._server.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "path",
    [
        "page/../../out.html", "page/../out.html", "page/%2e%2e/out.html", "page/..%2fout.html",
        "page/b/%2e%2e/%2e%2e/out.html", "page//etc/passwd", "page/secret.txt", "page/plain.html", "page/",
        "page/a.html%00", "page/a.html/", "page", "b/c.html", "page/b", "viewer.py", "../", "pair",
        "open", "open?report=../out.html", "open?report=plain.html", "open?report=a.html&report=a.html",
        "pair?report=a.html", "pair?report=a.html&report=../out.html", "pair?report=a.html&report=plain.html",
        "pair?" + "&".join(["report=a.html"] * 9), "page/" + "a/" * 3000 + "a.html",
    ],
)  # fmt: skip
def test_no_name_leads_out_of_the_folder(viewer: calib8.Viewer, path: str) -> None:
    answer = ask(viewer, path)
    assert answer.status == 404
    assert "outside" not in answer.text and "secret" not in answer.text.replace("secret.txt", "")
    assert_whole(Reader(answer.text))


def test_links_out_of_the_folder_are_refused(viewer: calib8.Viewer, root: Path) -> None:
    (root / "link.html").symlink_to(root.parent / "out.html")
    (root / "up").symlink_to(root.parent)
    assert ask(viewer, "page/link.html").status == 404 and ask(viewer, "page/up/out.html").status == 404
    front = ask(viewer, "").text
    assert "outside" not in front and "2 links are not followed." in front


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_it_only_reads(viewer: calib8.Viewer, root: Path, method: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert ask(viewer, "page/a.html", method).status == 501
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
            b" 501 ",
            b"GET and HEAD are answered",
        ),
        (b"what is this\r\n\r\n", b" 400 ", b"This is no request."),
        (b"GET / HTTP/9.9\r\n\r\n", b" 505 ", b"This is no request."),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b" 414 ", b"This is no request."),
    ],
    ids=["POST", "words", "version", "long"],
)
def test_what_is_no_request_is_told_in_its_own_words(
    viewer: calib8.Viewer, sent: bytes, status: bytes, says: bytes
) -> None:
    port = int(viewer.url.split(":")[2].split("/")[0])
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as there:
        there.sendall(sent)
        with contextlib.suppress(ConnectionResetError):  # what it did not read of the request
            while piece := there.recv(1 << 16):
                answer += piece
    assert says in answer and b"<" not in answer and b"Python" not in answer
    assert status in answer.split(b"\r\n")[0] or not answer.startswith(b"HTTP")


def test_head_has_no_body(viewer: calib8.Viewer) -> None:
    for path in ("", "page/a.html", PAIR):
        answer = ask(viewer, path, "HEAD")
        assert (answer.status, answer.text) == (200, ""), path


def test_a_report_is_in_a_box_and_the_viewers_pages_in_a_policy(viewer: calib8.Viewer) -> None:
    theirs = ask(viewer, "page/a.html").headers.getheader("Content-Security-Policy") or ""
    assert (
        theirs.startswith("sandbox allow-scripts; default-src 'none';") and "allow-same-origin" not in theirs
    )
    for path in ("", PAIR, "nothing"):
        headers = ask(viewer, path).headers
        ours = headers.getheader("Content-Security-Policy") or ""
        assert "default-src 'none'; script-src 'self';" in ours and "http" not in ours
        assert headers.getheader("Referrer-Policy") == "no-referrer"
        assert headers.getheader("X-Content-Type-Options") == "nosniff"
        assert headers.getheader("Cache-Control") == "no-store"
        assert headers.getheader("Server") == "calib8"


def test_a_report_is_never_shown_without_its_frame(viewer: calib8.Viewer) -> None:
    """A page that is a window of its own could go to another machine and take along what it knows."""
    path = urlsplit(viewer.url).path
    moved = ask(viewer, "page/b/c.html", **{"Sec-Fetch-Dest": "document"})
    assert (moved.status, moved.headers.getheader("Location")) == (302, f"{path}open?report=b%2Fc.html")
    assert ask(viewer, "page/b/c.html", **{"Sec-Fetch-Dest": "iframe"}).status == 200
    split = ask(viewer, "page/a%0d%0aSet-Cookie:x.html", **{"Sec-Fetch-Dest": "document"})
    assert split.headers.getheader("Set-Cookie") is None
    ours = ask(viewer, "open?report=a.html").headers.getheader("Content-Security-Policy") or ""
    assert "frame-src 'self'" in ours


def test_pages_are_whole_and_ask_for_nothing_elsewhere(viewer: calib8.Viewer) -> None:
    for path in ("", PAIR, "open?report=a.html"):
        read = Reader(ask(viewer, path).text)
        assert_whole(read)
        for tag, attributes in read.elements:
            for key in ("src", "href", "action"):
                assert not (attributes.get(key) or "").startswith(("http", "//")), (tag, attributes)


def test_names_cannot_break_out_of_a_page(tmp_path: Path) -> None:
    odd = "\"><img src=x onerror=alert(1)>&'é\udcff %41+?#;.html"
    title = NASTY + "x"
    written(tmp_path / odd, told(title))
    written(tmp_path / "<b>" / "c\nd.html", told("<i>second</i>"))
    with calib8.view(tmp_path, browser=False) as viewer:
        front = ask(viewer, "").text
        read = Reader(front)
        assert_whole(read)
        links = [a["href"] or "" for tag, a in read.elements if tag == "a" and "report=" in (a["href"] or "")]
        boxes = [a["value"] or "" for tag, a in read.elements if a.get("name") == "report"]
        assert len(links) == len(boxes) == 2 and all(one.isascii() for one in (*links, *boxes))
        for link in links:
            assert ask(viewer, link).status == 200, link
        both = ask(viewer, "pair?" + urlencode([("report", box) for box in boxes])).text
        assert "onerror" in both and "Verdicts" in both
        for text in (front, both):
            assert "<img" not in text and "<i>" not in text and "<b>" not in text and "\u202e" not in text


def test_broken_pages_are_listed_with_a_sentence_and_shown_as_they_are(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.html", told("first")).read_text(encoding="utf-8")
    (tmp_path / "cut.html").write_text(whole[:1500], encoding="utf-8")
    (tmp_path / "half.html").write_text(whole[: len(whole) // 2], encoding="utf-8")
    (tmp_path / "newer.html").write_text(whole.replace('"version":1', '"version":2', 1), encoding="utf-8")
    with calib8.view(tmp_path, browser=False) as viewer:
        front = ask(viewer, "").text
        assert (
            "the page is cut off" in front
            and "The page is cut off: its end is missing." in front
            and "A newer calib8 wrote it" in front
        )
        assert "its end is missing" in ask(viewer, "pair?report=half.html&report=newer.html").text
        both = ask(viewer, "pair?report=cut.html&report=newer.html").text
        assert "the page is cut off" in both and "Figures" not in both and both.count("<iframe") == 2


def test_a_folder_without_reports_says_so(tmp_path: Path) -> None:
    with calib8.view(tmp_path, browser=False) as viewer:
        assert "No report is here" in ask(viewer, "").text
        written(tmp_path / "a.html", told("new one"))
        assert "new one" in ask(viewer, "").text  # as the folder is now


def test_inputs_are_no_nodes_of_the_list(tmp_path: Path) -> None:
    report = told("net")
    first = replace(report.network[0], precision="input")
    written(tmp_path / "a.html", replace(report, network=(first, *report.network[1:])))
    with calib8.view(tmp_path, browser=False) as viewer:
        assert ">4 of 5<" in ask(viewer, "").text


def test_one_report_alone(root: Path) -> None:
    with calib8.view(root / "a.html", browser=False) as viewer:
        front = ask(viewer, "")
        assert 'src="page/a.html"' in front.text and ask(viewer, "page/a.html").status == 200
        assert ask(viewer, "page/b/c.html").status == 404
        (root / "a.html").unlink()
        assert "not here any more" in ask(viewer, "").text


def test_what_cannot_be_shown_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "no.onnx").write_text("no model")
    np.savez(tmp_path / "held.npz", x=np.zeros(3))
    (tmp_path / "table.json").write_text("{}")
    for path, error, says in (
        (root / "plain.html", DataError, "is no report"), (root / "none.html", DataError, "no such file"),
        (tmp_path / "none", DataError, "no such file. Give a folder of reports"),
        (tmp_path / "no.onnx", ModelError, "no.onnx"),
        (3, UsageError, "not a path"),
        (tmp_path / "held.npz", DataError, r"neither a folder, nor a report.*Give a folder"),
        (tmp_path / "table.json", DataError, "neither a folder, nor a report, nor a model"),
    ):  # fmt: skip
        with pytest.raises(error, match=says):
            calib8.view(path, browser=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("port", "says"),
    [(-1, "port=-1: must be in 0 … 65535. Give 0"), (65_536, "port=65536: must be in"),
     (True, "port: is of type bool"), (1.5, "port: is of type float"),
     ("x", r"port: is of type str \('x'\)")],
)  # fmt: skip
def test_what_is_no_port_is_refused(root: Path, port: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        calib8.view(root, port=port, browser=False)


def test_a_busy_port_is_told_with_a_cure(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port={port}: is in use. Give another one, or port=0 for any"):
            calib8.view(root, port=port, browser=False)
    with calib8.view(root, port=port, browser=False) as viewer:
        assert f":{port}/" in viewer.url


def test_a_closed_viewer_answers_nobody(root: Path) -> None:
    viewer = calib8.view(root, browser=False)
    assert repr(viewer) == f"<Viewer: {viewer.url}>" and len(viewer.listing().reports) == 2
    viewer.close()
    viewer.close()
    viewer.wait()
    with pytest.raises(ConnectionRefusedError):
        ask(viewer, "")


def test_a_browser_is_opened_where_there_is_a_screen(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(module.webbrowser, "open", opened.append)
    monkeypatch.setattr(module, "_has_screen", lambda: True)
    with calib8.view(root) as viewer:
        assert opened == [viewer.url]
    calib8.view(root, browser=False).close()
    monkeypatch.setattr(module, "_has_screen", lambda: False)
    calib8.view(root).close()
    assert len(opened) == 1


def test_what_has_a_screen() -> None:
    has = module._has_screen
    assert has({"DISPLAY": ":0"}, "linux") and has({"WAYLAND_DISPLAY": "w"}, "linux") and has({}, "darwin")
    assert not has({}, "linux") and not has({"DISPLAY": ""}, "linux")
