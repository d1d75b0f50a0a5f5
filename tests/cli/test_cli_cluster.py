"""``--ray``: what does not go with it is refused before any work."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tiny_models import FLAGS

from calib8.calibration.gatherer import Gatherer
from calib8.distributed import cluster, on_ray
from calib8.distributed.listing import units_of
from needed import needed


@pytest.mark.parametrize("command", ["calibrate", "quantize"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workers", "2"), "--workers: does not go with no --ray. Give --ray too."),
        (("--parts", "run"), "--parts: does not go with no --ray. Give --ray too."),
        (("--mixed",), "--mixed: does not go with no --ray. Give --ray too."),
        (("--node-labels", "cpu=a"), "--node-labels: does not go with no --ray. Give --ray too."),
        (("--ray", "local", "--node-labels", "cpu"), "--node-labels cpu: 'cpu' is no KEY=VALUE."),
        (("--ray", "local", "--node-labels", "a=1,=2"), "--node-labels a=1,=2: '=2' is no KEY=VALUE."),
        (("--ray", "local", "--node-labels", "a=1,a=2"), "--node-labels a=1,a=2: 'a=2' comes again."),
        (("--ray", "local", "--labels", "l.txt"), "--labels: does not go with --ray."),
        (("--ray", "local", "--method", "ema"), "--method ema: depends on the order of the samples"),
        (("--ray", "local", "--workers", "0"), "--workers 0: must be at least 1."),
    ],
)
def test_what_does_not_go_with_a_cluster(
    cli, command: str, model: Path, images: Path, out: Path, words: tuple[str, ...], said: str
) -> None:
    name = "t.json" if command == "calibrate" else "m.onnx"
    result = cli(command, model, "--data", images, *FLAGS, *words, "-o", out / name)
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.stderr.split()) and "Traceback" not in result.output
    assert not list(out.iterdir())


def test_a_cluster_that_does_not_answer(cli, model: Path, images: Path, out: Path, monkeypatch) -> None:
    ray = needed("ray")

    def refuse(**options: object) -> None:
        raise ConnectionError(f"nobody at {options['address']}")

    monkeypatch.setattr(ray, "init", refuse)
    result = cli("calibrate", model, "--data", images, *FLAGS, "--ray", "auto", "-o", out / "t.json")
    assert result.exit_code == 2, result.output
    assert "--ray auto: no cluster answers (nobody at auto)." in " ".join(result.stderr.split())
    assert not list(out.iterdir())


def test_a_port_where_something_else_listens(cli, model: Path, images: Path, out: Path) -> None:
    """Such as the pages of Ray's own dashboard."""
    needed("ray")

    class Quiet(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Quiet) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        address = f"127.0.0.1:{server.server_port}"
        result = cli("calibrate", model, "--data", images, *FLAGS, "--ray", address, "-o", out / "t.json")
        server.shutdown()
        serving.join()
    assert result.exit_code == 2, result.output
    said = f"--ray {address}: no cluster answers (what listens there is not Ray)."
    assert said in " ".join(result.stderr.split())


@pytest.mark.parametrize("scheme", ["", "ray://", "auto"])
def test_a_port_where_nobody_listens(
    cli, model: Path, images: Path, out: Path, scheme: str, monkeypatch
) -> None:
    """Ray itself would wait there for minutes."""
    needed("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    if scheme == "auto":
        monkeypatch.setenv("RAY_ADDRESS", address)
    address = "auto" if scheme == "auto" else f"{scheme}{address}"
    result = cli("calibrate", model, "--data", images, *FLAGS, "--ray", address, "-o", out / "t.json")
    assert result.exit_code == 2, result.output
    assert f"--ray {address}: no cluster answers ([Errno 111] " in " ".join(result.stderr.split())
    assert not list(out.iterdir())


def test_ray_that_is_missing_or_old(cli, model: Path, images: Path, out: Path, monkeypatch) -> None:
    words = ("calibrate", model, "--data", images, *FLAGS, "--ray", "local", "-o", out / "t.json")
    monkeypatch.setattr(cluster, "find_spec", lambda name: object())
    monkeypatch.setattr(cluster, "version", lambda name: "2.9.3")
    assert "version 2.9.3 is too old" in " ".join(cli(*words).stderr.split())
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    result = cli(*words)
    assert result.exit_code == 2
    assert "Ray: the package ray is not installed. Run: pip install 'calib8[ray]'." in " ".join(
        result.stderr.split()
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workers", "2"), "--workers: does not go with no --ray. Give --ray too."),
        (("--mixed",), "--mixed: does not go with no --ray. Give --ray too."),
        (
            ("--ray", "local", "--task", "classify"),
            "--task: does not go with --ray. Leave it out, or judge a",
        ),
        (("--ray", "local", "--workers", "0"), "--workers 0: must be at least 1."),
        (("--ray", "local", "--parts", "run"), "Error: No such option '--parts'."),
    ],
)
def test_what_does_not_go_with_judging_on_a_cluster(
    cli, model: Path, images: Path, out: Path, words: tuple[str, ...], said: str
) -> None:
    needed("ray")
    result = cli("evaluate", model, "--data", images, *FLAGS, *words, "--json", out / "found.json")
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.stderr.split()) and "Traceback" not in result.output
    assert not list(out.iterdir())


def test_evaluate_tells_of_a_cluster_what_it_tells_of_one_process(
    cli, model: Path, int8: Path, images: Path, out: Path, monkeypatch
) -> None:
    """Everything but times; the cluster is this process."""
    needed("ray")
    asked = []

    def found(there, work, stage, progress):
        choice = there.data.cluster
        asked.append((choice.ray, choice.workers, choice.threads, choice.mixed))
        listed = units_of(
            str(images), Gatherer.of_prepared(on_ray._no_model(), (), there.inputs, there.settings), None
        )
        [unit] = listed.labelled(there.labels, "images").units
        data = replace(there.settings, data=unit.records()).opened(there.inputs)
        return work.over(data, 1, lambda samples: None)

    monkeypatch.setattr(on_ray._There, "found", found)
    monkeypatch.setattr(cluster, "connected", lambda address: nullcontext())
    words = ("evaluate", model, int8, "--data", images, *FLAGS)
    there = cli(
        *words, "--ray", "auto", "--workers", "3", "--threads", "1", "--mixed", "--json", out / "there.json"
    )
    here = cli(*words, "--json", out / "here.json")
    assert (there.exit_code, here.exit_code) == (0, 0), there.output + here.output
    assert asked == [("auto", 3, 1, True)]
    told, expected = (json.loads((out / name).read_text()) for name in ("there.json", "here.json"))
    for one in expected["models"]:
        assert one.pop("seconds") > 0 and one["top1"] is not None
    assert [one.pop("seconds") for one in told["models"]] == [None, None]
    assert told == expected
