"""``--ray``: what does not go with it is refused before any work."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import FLAGS

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
    result = cli("calibrate", model, "--data", images, *FLAGS, "--ray", "far:1", "-o", out / "t.json")
    assert result.exit_code == 2, result.output
    assert "--ray far:1: no cluster answers (nobody at far:1)." in " ".join(result.stderr.split())
    assert not list(out.iterdir())


def test_ray_that_is_missing_or_old(cli, model: Path, images: Path, out: Path, monkeypatch) -> None:
    from calib8.distributed import cluster

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
