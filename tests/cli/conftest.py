"""Small models, images and a runner for the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_models import FLAGS, cnn, save
from typer.testing import CliRunner, Result

from calib8.cli import app

Cli = Callable[..., Result]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A float model on disk."""
    return save(cnn(), tmp_path / "tiny.onnx")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Six labelled images in two class folders, of different sizes."""
    rng = np.random.default_rng(1)
    folder = tmp_path / "images"
    for index in range(6):
        path = folder / "ab"[index % 2] / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = (16 + index, 16, 3)
        Image.fromarray(rng.integers(0, 256, size, dtype=np.uint8)).save(path)
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An empty folder for results; what is refused must leave it empty."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def int8(cli: Cli, model: Path, images: Path, tmp_path: Path) -> Path:
    """The int8 form of the model."""
    path = tmp_path / "int8.onnx"
    made = cli("quantize", model, "--data", images, *FLAGS, "--repair", "none", "-o", path)
    assert made.exit_code == 0, made.output
    return path


@pytest.fixture
def saved(cli: Cli, int8: Path, tmp_path: Path) -> Path:
    """The program of the int8 form."""
    path = tmp_path / "int8.c8p"
    made = cli("inspect", int8, "--program", "--save", path)
    assert made.exit_code == 0, made.output
    return path


@pytest.fixture
def nothing_left(out: Path) -> Iterator[None]:
    """Asserts at the end of the test that nothing was written."""
    yield
    assert list(out.iterdir()) == []


@pytest.fixture
def cli() -> Cli:
    """Runs the command line in this process."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in a process of its own; ``before`` is Python to run there first."""

    def run(
        *arguments: object, before: str = "", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        code = f"{before}\nfrom calib8.cli import main\nmain()"
        return subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
        )

    return run


@pytest.fixture
def refused() -> Callable[..., str]:
    """Asserts that a run ended with one line of error that holds all the parts; gives the line."""

    def check(result: Result, code: int, *parts: str) -> str:
        assert result.exit_code == code, result.output
        lines = result.stderr.strip().splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("error: ")
        assert "Traceback" not in result.output
        for part in parts:
            assert part in lines[0]
        return lines[0]

    return check
