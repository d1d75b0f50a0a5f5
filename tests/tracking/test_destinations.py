"""Destinations: what names one, what is refused before any work, and that secrets are shown nowhere."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import calib8
from calib8.addresses import without_secrets
from calib8.errors import OutputError, UsageError
from calib8.tracking.destination import destination
from calib8.tracking.record import RunRecord, by_name, plain_name
from calib8.tracking.trackers import checked_trackers, tell_all
from needed import needed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("mlfow", "unknown tracker 'mlfow'. Did you mean 'mlflow'"),
        ("tensorbord:x", "Did you mean 'tensorboard'"),
        ("", "unknown tracker ''"),
        (None, "unknown tracker"),
        ("tensorboard", "names no folder"),
        ("tensorboard:", "names no folder"),
        ("wandb:a/b/c", "is no project"),
        ("wandb:https://u:secret@host/x", r"wandb:https://\*\*\*@host/x.*is no project"),
        ([], "names no tracker"),
        (["tensorboard:a", "tensorboard:a"], "is given twice"),
    ],
)
def test_what_is_none_is_refused(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        checked_trackers(given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://host:5000/a", "http://host:5000/a"),
        ("http://me:secret@host:5000/a", "http://***@host:5000/a"),
        (
            "postgresql://me:se@cret@host/db?password=secret&a=b",
            "postgresql://***@host/db?password=***&a=***",
        ),
        ("a user@host of no address", "a user@host of no address"),
    ],
)
def test_secrets_are_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_what_other_software_says_of_a_secret_is_not_shown() -> None:
    of = destination("mlflow:http://me:sec%40ret@host/x?key=hidden")
    told = of.cleaned("no login of me:sec%40ret,\n sec@ret or hidden at http://me:sec%40ret@host/x")
    assert not any(secret in told + repr(of) for secret in ("sec%40ret", "sec@ret", "hidden"))
    assert "\n" not in told


@pytest.mark.parametrize(
    ("given", "module"), [("mlflow", "mlflow"), ("wandb:a", "wandb"), ("tensorboard:x", "tensorboard")]
)
def test_a_package_that_is_missing(given: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.util import find_spec

    monkeypatch.setattr(
        "calib8.tracking.tracker.find_spec", lambda name: None if name == module else find_spec(name)
    )
    with pytest.raises(UsageError, match=rf"pip install 'calib8\[{module}\]'"):
        checked_trackers(given)


def test_a_server_that_does_not_answer_and_its_password() -> None:
    needed("mlflow")
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"http://me:secret@127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OutputError, match=r"cannot be told of a run .*refused") as caught:
            checked_trackers(f"mlflow:{address}")
    assert "secret" not in str(caught.value) and "***@127.0.0.1" in str(caught.value)


class _Refusing(BaseHTTPRequestHandler):
    """A server that repeats a secret."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b"me and secret are not known")

    def log_message(self, *_: Any) -> None:
        pass


def test_what_a_server_says_is_told_without_secrets() -> None:
    needed("mlflow")
    with HTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(OutputError, match=r"401.*\*\*\* are not known") as caught:
            checked_trackers(f"mlflow:http://me:secret@127.0.0.1:{server.server_port}")
        server.shutdown()
    assert "secret" not in str(caught.value)


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    needed("tensorboard")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be told of a run"):
        checked_trackers(f"tensorboard:{tmp_path / 'file' / 'runs'}")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_check_makes_no_folder(tmp_path: Path) -> None:
    needed("tensorboard")
    checked_trackers(f"tensorboard:{tmp_path / 'new' / 'runs'}")
    assert list(tmp_path.iterdir()) == []


def test_one_that_fails_keeps_no_other_from_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    needed("tensorboard")
    first, second = checked_trackers(["tensorboard:a", "tensorboard:b"])

    def broken(record: RunRecord) -> str:
        raise RuntimeError("the disk\nis full")

    monkeypatch.setattr(type(first), "log", lambda self, record: broken(record) if self == first else "there")
    places, [failure] = tell_all([first, second], RunRecord("run", "evaluate"))
    assert places == ["tensorboard:b: there"]
    assert "RuntimeError: the disk is full" in str(failure)


def test_log_run_checks_before_it_runs_anything(small: Any) -> None:
    with pytest.raises(UsageError, match="unknown tracker"):
        calib8.log_run(small.made, "nowhere", fp32="missing.onnx")
    with pytest.raises(UsageError, match="of which no report is known"):
        calib8.log_run("text", "tensorboard:runs")  # type: ignore[arg-type]
    assert not Path("runs").exists()


def test_names_that_every_tracker_takes() -> None:
    assert plain_name("sqnr_db/a[0:4]//../é") == "sqnr_db/a_0_4_/_"
    assert plain_name("..") == plain_name("") == "unnamed"
    assert len(plain_name("x" * 900)) == 200
    assert by_name([("a:b", 1.0), ("a;b", 2.0)]) == {"a_b": 1.0, "a_b-2": 2.0}
