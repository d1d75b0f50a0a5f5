"""Pipes in place of files: refused by name, and never waited for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tiny_models import FLAGS

WRITER = """
import sys
while True:
    with open(sys.argv[1], "wb") as pipe:
        pipe.write(b"x")
"""
"""Whoever opens the pipe is given something: a fault is another message, no test that never ends."""


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a pipe of a name."""
    writers = []

    def make(name: str) -> Path:
        path = tmp_path / name
        os.mkfifo(path)
        writers.append(subprocess.Popen([sys.executable, "-c", WRITER, path], stderr=subprocess.DEVNULL))
        return path

    yield make
    for writer in writers:
        writer.kill()
        writer.wait()


COMMANDS = [
    "inspect {pipe.onnx}",
    "inspect {pipe.tflite}",
    "inspect {pipe.c8} --program",
    "quantize {pipe.onnx} --data {images} {flags} -o {out}/q.onnx",
    "quantize {model} --data {pipe.npz} {flags} -o {out}/q.onnx",
    "quantize {model} --data {pipe.npy} {flags} -o {out}/q.onnx",
    "quantize {model} --data {pipe.png} {flags} -o {out}/q.onnx",
    "quantize {model} --data {images} {flags} --labels {pipe.txt} -o {out}/q.onnx",
    "quantize {model} --table {pipe.json} -o {out}/q.onnx",
    "calibrate {pipe.onnx} --data {images} {flags} -o {out}/t.json",
    "calibrate {model} --from-stats {pipe.stats} -o {out}/t.json",
    "calibrate {model} --data {images} {flags} --checkpoint {pipe.ckpt} -o {out}/t.json",
    "evaluate {model} {pipe.onnx} --data {images} {flags}",
    "compare {model} {pipe.onnx} --data {images} {flags}",
    "diagnose {pipe.onnx} --data {images} {flags}",
    "run {pipe.onnx} --data {images} {flags}",
    "compile {pipe.onnx} -o {out}/p.c8",
    "export {pipe.onnx} --to tflite -o {out}/m.tflite",
    "benchmark {pipe.onnx}",
    "tune {pipe.onnx} --data {images} {flags} --min-sqnr 20 -o {out}/q.onnx",
    "tune {model} --data {pipe.npz} {flags} --min-sqnr 20 -o {out}/q.onnx",
    "stats show {pipe.stats}",
    "stats merge {pipe.stats} -o {out}/s",
    "table show {pipe.json}",
    "table diff {pipe.json} {pipe.json}",
    "table convert {pipe.json} --to tensorrt -o {out}/t",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_pipes_are_refused(
    cli, pipe: Callable[[str], Path], model: Path, images: Path, out: Path, command: str
) -> None:
    words: list[object] = []
    made: dict[str, Path] = {}
    for word in command.split():
        if word.startswith("{pipe"):
            if word not in made:
                made[word] = pipe(word.strip("{}"))
            words.append(made[word])
        elif word == "{flags}":
            words.extend(FLAGS)
        else:
            words.append(word.format(model=model, images=images, out=out))
    result = cli(*words)
    assert result.exit_code in (1, 2), result.output
    assert re.search(r"pipe\.\w+: is a pipe, no file", result.output), result.output
    assert list(out.iterdir()) == []
