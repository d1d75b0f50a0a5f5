"""LiteRT in a process of its own: its crashes are errors, and nothing is left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from calib8 import DataError, ModelError
from calib8.analysis.litert import LiteRtModel
from calib8.analysis.litert_process import LiteRtProcess
from calib8.tflite.write import write_tflite
from tflite_nets import depthwise_without_bias, quantized_classifier, softmax_of_many

IMAGE = np.random.default_rng(3).integers(-128, 128, (1, 8, 8, 3), np.int8)


@pytest.fixture
def opened(tmp_path: Path) -> LiteRtProcess:
    write_tflite(quantized_classifier(), tmp_path / "int8.tflite")
    return LiteRtProcess(tmp_path / "int8.tflite", "litert-reference", 1, ["image"], ["scores"])


def test_it_gives_what_litert_gives_here(opened: LiteRtProcess, tmp_path: Path) -> None:
    here = LiteRtModel(tmp_path / "int8.tflite", "litert-reference", 1, ["image"], ["scores"])
    for outputs in (None, ["scores"]):
        for image in (IMAGE, IMAGE[:, ::-1]):
            got, expected = (model.run(outputs, {"image": image}) for model in (opened, here))
            np.testing.assert_array_equal(got, expected)


def test_what_litert_refuses_is_told_and_the_next_run_goes_on(opened: LiteRtProcess) -> None:
    with pytest.raises(DataError, match=r"int8\.tflite: LiteRT refused image int8\[1, 9, 8, 3\]"):
        opened.run(None, {"image": np.zeros((1, 9, 8, 3), np.int8)})
    with pytest.raises(DataError, match=r"int8\.tflite: got x as inputs\. It takes image\."):
        opened.run(None, {"x": IMAGE})
    [scores] = opened.run(None, {"image": IMAGE})
    assert scores.shape == (1, 10)


def test_a_process_that_ends_is_an_error_now_and_later(opened: LiteRtProcess) -> None:
    os.kill(opened._process.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"LiteRT crashes when it runs it \(litert-reference, SIGKILL\)"):
            opened.run(None, {"image": IMAGE})


def test_no_process_is_left_behind(opened: LiteRtProcess, tmp_path: Path) -> None:
    opened.close()
    assert opened._process.returncode is not None
    forgotten = LiteRtProcess(tmp_path / "int8.tflite", "litert", 1, ["image"], ["scores"])
    process = forgotten._process
    del forgotten
    assert process.returncode is not None


def test_convolutions_without_bias_crash_xnnpack(tmp_path: Path) -> None:
    write_tflite(depthwise_without_bias(), tmp_path / "d.tflite")
    feeds = {"image": IMAGE}
    with pytest.raises(ModelError, match=r"d\.tflite: LiteRT crashes .*\(litert, SIG[A-Z]+\)\. Use another"):
        LiteRtProcess(tmp_path / "d.tflite", "litert", 1, ["image"], ["y"]).run(None, feeds)
    reference = LiteRtProcess(tmp_path / "d.tflite", "litert-reference", 1, ["image"], ["y"])
    assert reference.run(None, feeds)[0].shape == (1, 8, 8, 3)


def test_a_crash_that_the_input_makes(tmp_path: Path) -> None:
    write_tflite(softmax_of_many(), tmp_path / "s.tflite")
    opened = LiteRtProcess(tmp_path / "s.tflite", "litert-reference", 1, ["x"], ["y"])
    codes = np.full((1, 600), -128, np.int8)
    codes[0, 7] = 127
    assert opened.run(None, {"x": codes})[0].argmax() == 7
    with pytest.raises(ModelError, match=r"s\.tflite: LiteRT crashes when it runs it \(.*SIGABRT\)"):
        opened.run(None, {"x": np.zeros((1, 600), np.int8)})
