"""``calib8 view``: says where it is, what is wrong, and ends at Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from report_folders import told, written
from typer.testing import Result

Cli = Callable[..., Result]
Refused = Callable[..., str]


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    root = tmp_path / "reports"
    written(root / "a.html", told("net.onnx"))
    written(root / "b" / "c.html", told("net.int8.onnx", 99.5))
    (root / "other.html").write_text("no report")
    return root


def hear_ctrl_c() -> None:
    """What a shell starts in the background ignores it, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def running(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A viewer and its address."""
    command = [sys.executable, "-m", "calib8", "view", *map(str, arguments), "--no-browser"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, preexec_fn=hear_ctrl_c, **streams) as process:  # type: ignore[call-overload]
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(r"viewer (http://127\.0\.0\.1:\d+/[\w-]{20,}/)\n", line)
            assert found is not None, line + process.stderr.read()
            assert process.stdout.readline() == "Ctrl-C ends it\n"
            yield process, found[1]
        finally:
            process.kill()


def test_it_ends_at_ctrl_c_with_a_word(reports: Path) -> None:
    with running(reports) as (process, url):
        with urlopen(url, timeout=60) as page:
            assert "net.int8.onnx" in page.read().decode()
        with pytest.raises(HTTPError, match="403"):
            urlopen(re.sub(r"/[\w-]+/$", "/wrong/", url), timeout=60)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == "interrupted: the viewer is closed\n"
    with pytest.raises(OSError):
        urlopen(url, timeout=60)


def test_it_ends_at_a_signal_to_terminate(reports: Path) -> None:
    with running(reports) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_browser_that_is_half_way_through_a_question_does_not_hold_it(reports: Path) -> None:
    with running(reports) as (process, url):
        port = int(url.split(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as waiting:
            waiting.sendall(b"GET / HT")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130


def test_the_port_that_is_asked_for(reports: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(reports, "--port", port) as (_, url):
        assert f":{port}/" in url


def test_a_busy_port_is_told(cli: Cli, refused: Refused, reports: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = cli("view", reports, "--port", port, "--no-browser")
    refused(result, 2, f"--port {port}: is in use. Give another one, or --port 0 for any that is free.")


def test_what_cannot_be_shown_is_told(cli: Cli, refused: Refused, reports: Path, tmp_path: Path) -> None:
    for path, code, says in (
        (reports / "other.html", 1, "is no report"), (tmp_path / "none", 1, "no such file"),
        ("https://host/run.html", 2, "is an address"),
    ):  # fmt: skip
        refused(cli("view", path, "--no-browser"), code, says)
    refused(cli("view", reports, "--no-browser", "--port", 70000), 2, "--port 70000: must be in 0 … 65535")


def test_the_list_for_machines(reports: Path, tmp_path: Path) -> None:
    text = (reports / "a.html").read_text(encoding="utf-8")
    (reports / "cut.html").write_text(text[:1500], encoding="utf-8")
    for k, name in enumerate(("b/c.html", "a.html", "cut.html")):
        os.utime(reports / name, (1000 - k, 1000 - k))
    with running(reports, "--json", tmp_path / "list.json") as (_, url):
        found = json.loads((tmp_path / "list.json").read_text(encoding="utf-8"))
    assert (found["url"], found["others"], found["notes"]) == (url, ["other.html"], [])
    first, second, third = found["reports"]
    assert first == {
        "path": "b/c.html", "title": "net.int8.onnx", "bytes": (reports / "b/c.html").stat().st_size,
        "written": 1000.0, "command": "quantize", "verdict": "kept", "why": None,
        "figures": {"agreement": "99.50 %", "SQNR of boxes": "30.0 dB", "SQNR of scores": "35.0 dB",
                    "size": "1.2 MB"},
    }  # fmt: skip
    assert second["path"] == "a.html"
    assert (third["verdict"], third["figures"]) == (None, None) and "cut off" in third["why"]


@pytest.mark.slow
def test_quiet_prints_nothing(reports: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "calib8", "view", reports, "--no-browser", "--quiet", "--json"]
    with subprocess.Popen(
        [*map(str, command), str(tmp_path / "list.json")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c,
    ) as process:  # fmt: skip
        while not (tmp_path / "list.json").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "interrupted: the viewer is closed\n")
    assert process.returncode == 130
