"""Small models, images and a runner for the command line."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_models import FLAGS, cnn, save
from typer import main, testing
from typer.testing import CliRunner, Result

from calib8.cli import app

# The runner builds all commands anew for each run, which takes as long as many a run: once will do.
testing._get_command = functools.cache(main.get_command)  # type: ignore[attr-defined]

Cli = Callable[..., Result]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A float model on disk."""
    return save(cnn(), tmp_path / "tiny.onnx")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Six labelled images in two class folders, of different sizes."""
    return save_images(tmp_path / "images")


def save_images(folder: Path) -> Path:
    """The images of the fixture."""
    rng = np.random.default_rng(1)
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


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the int8 form of the model and its program, made once for all tests."""
    folder = tmp_path_factory.mktemp("made")
    model, int8 = save(cnn(), folder / "tiny.onnx"), folder / "int8.onnx"
    data = save_images(folder / "images")
    for arguments in (
        ("quantize", model, "--data", data, *FLAGS, "--repair", "none", "-o", int8),
        ("inspect", int8, "--program", "--save", folder / "int8.c8p"),
    ):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def int8(made_once: Path, tmp_path: Path) -> Path:
    """The int8 form of the model."""
    return Path(shutil.copy(made_once / "int8.onnx", tmp_path))


@pytest.fixture
def saved(made_once: Path, tmp_path: Path) -> Path:
    """The program of the int8 form."""
    return Path(shutil.copy(made_once / "int8.c8p", tmp_path))


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
