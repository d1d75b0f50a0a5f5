"""TFLite files whose signature leaves sizes free, on the command line: asked for, told, taken from images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from json_output import load

from calib8 import InferenceSession
from calib8.analysis.workloads import open_workload
from calib8.tflite.graph import Graph
from tflite_nets import float_classifier, quantized_classifier, written

PIXELS = ("--mean", "128", "--scale", "1/128")
MACS = 10 * 8 * 8 * 3
"""Of the classifiers at the size of their file."""


def with_image_free(net: Graph, shape: tuple[int, ...]) -> Graph:
    """Rows and columns are free; the file has a shape in their place."""
    image = replace(net.tensors[0], shape=shape, signature=(-1, -1, -1, 3))
    return replace(net, tensors=(image, *net.tensors[1:]))


def test_free_sizes_on_the_command_line(cli, refused, out: Path) -> None:
    path = written(with_image_free(quantized_classifier(), (1, 1, 1, 3)), out / "any.tflite")
    command, plan = ("compile", path, "-o", out / "p.c8"), out / "p.c8"
    refused(
        cli(*command), 2, "any.tflite: sizes of its input 'image' (?×?×?×3) are free", "--shape image=1,…,…,3"
    )
    refused(cli("inspect", path, "--program"), 2, "--shape image=")
    refused(cli("export", path, "--to", "tflite", "-o", out / "e.tflite"), 2, "--shape image=")
    refused(cli("benchmark", path), 2, "--shape image=")
    assert cli(*command, "--shape", "image=2,9,8,3").exit_code == 0
    assert InferenceSession(plan).get_outputs()[0].shape == [4, 10]
    result = cli("export", path, "--to", "tflite", "-o", out / "e.tflite", "--shape", "image=1,9,8,3")
    assert result.exit_code == 0 and "note:" not in result.stdout, result.output
    assert InferenceSession(out / "e.tflite").get_inputs()[0].shape == [1, 9, 8, 3]


def test_sizes_of_the_file_are_told(cli, out: Path) -> None:
    path = written(with_image_free(quantized_classifier(), (1, 8, 8, 3)), out / "some.tflite")
    commands = (
        ("compile", path, "-o", out / "p.c8"),
        ("inspect", path, "--program"),
        ("export", path, "--to", "program", "-o", out / "p.c8p"),
        ("benchmark", path, "--rounds", "1", "--threads", "1", "--runtime", "calib8"),
    )
    for command in commands:
        result = cli(*command)
        assert result.exit_code == 0, result.output
        assert "note: the input 'image' has free sizes; those of the file are taken: 1×8×8×3" in result.stdout
    result = cli(*commands[-1], "--shape", "image=1,9,9,3")
    assert result.exit_code == 0 and "note:" not in result.stdout
    assert [open_workload(path, batch).macs for batch in (None, 3)] == [MACS, 3 * MACS]
    assert open_workload(path, shapes={"image": (1, 9, 9, 3)}).macs == 4 * MACS


def test_images_of_any_size_run_alike_in_all_runtimes(cli, out: Path) -> None:
    """Codes in the own runtimes and LiteRT's; a float model is translated for the sizes that it is fed."""
    images = np.random.default_rng(5).integers(0, 256, (3, 12, 9, 3), np.uint8)
    np.savez(out / "images.npz", images=images)
    nets = {"codes": quantized_classifier(), "float": float_classifier()}
    found: dict[str, list[Any]] = {}
    for name, net in nets.items():
        path = written(with_image_free(net, (1, 1, 1, 3)), out / f"{name}.tflite")
        own = ("calib8", "reference") if name == "codes" else ("onnxruntime",)
        for runtime in (*own, "litert-reference"):
            command = (
                "run",
                path,
                "--data",
                out / "images.npz",
                *PIXELS,
                "--size",
                "12,9",
                "--runtime",
                runtime,
            )
            result = cli(*command, "--json", out / "r.json")
            assert result.exit_code == 0, result.output
            results = load(out / "r.json")["results"]
            found.setdefault(name, []).append([entry["mean"] for entry in results])
    assert found["codes"][0] == found["codes"][1] == found["codes"][2]
    np.testing.assert_allclose(found["float"][0], found["float"][1], rtol=1e-4)
