"""Lengths of sequences that a session is fed with: valid ones are computed, others refused by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

import calib8
from calib8.errors import DataError
from small_models import onnx_model, run

Array = npt.NDArray[Any]
STEPS, SAMPLES, UNITS = 5, 3, 4

DIRECT = "int32[3] lens", "seq = Identity(x) h, hn, cn = LSTM<hidden_size=4>(seq, W, R, B, lens)"
COMPUTED = (
    "int64[3] lens",
    "seq = Identity(x) less = Sub(lens, one) short = Cast<to=6>(less) "
    "h, hn, cn = LSTM<hidden_size=4>(seq, W, R, B, short)",
)
"""Lengths as they are fed, and one less than what is fed."""


def normal(*shape: int, seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@cache
def made(ports: str, body: str) -> tuple[Any, bytes]:
    """The float model and its INT8 one."""
    constants = {
        "W": normal(1, 4 * UNITS, 6, seed=1),
        "R": normal(1, 4 * UNITS, UNITS, seed=2),
        "B": normal(1, 8 * UNITS, seed=3),
        "V": normal(UNITS, 2, seed=4),
        "one": np.array(1, np.int64),
        "axes": np.array([1], np.int64),
    }
    body += " flat = Squeeze(h, axes) y = MatMul(flat, V)"
    model = onnx_model(
        f"float[{STEPS},{SAMPLES},6] x, {ports}", f"float[{STEPS},{SAMPLES},2] y", body, constants
    )
    dtype = np.int32 if ports == DIRECT[0] else np.int64
    data = [{"x": normal(STEPS, SAMPLES, 6, seed=n), "lens": np.array([5, 3, 1], dtype)} for n in range(8)]
    quantized = calib8.quantize(model, data, target="calib8", effort="fast", threads=1)
    return model, ir.to_proto(quantized.model).SerializeToString()


@pytest.mark.parametrize("runtime", ["calib8", "reference"])
@pytest.mark.parametrize(("ports", "body"), [DIRECT, COMPUTED])
def test_lengths_beyond_the_sequence_are_refused(ports: str, body: str, runtime: str, tmp_path: Path) -> None:
    model, quantized = made(ports, body)
    (tmp_path / "q.onnx").write_bytes(quantized)
    session = calib8.InferenceSession(tmp_path / "q.onnx", runtime=runtime, threads=1)
    direct = ports == DIRECT[0]
    dtype, more = (np.int32, 0) if direct else (np.int64, 1)
    x = normal(STEPS, SAMPLES, 6, seed=50)
    good = {"x": x, "lens": np.array([5, 0, 2], dtype) + dtype(more)}
    [before] = session.run(None, good)
    [expected] = run(model, good)
    assert np.abs(before - expected).max() < 0.1 * np.abs(expected).max()
    for wrong in (6, -1, 900):
        bad = {"x": x, "lens": np.array([5, wrong, 2], dtype) + dtype(more)}
        with pytest.raises(Exception, match="sequence_lens"):
            run(model, bad)
        with pytest.raises(
            DataError, match=f"has {wrong} for sample 1, and the sequence has 5 steps"
        ) as told:
            session.run(None, bad)
        assert not direct or "'lens'" in str(told.value)
    np.testing.assert_array_equal(session.run(None, good)[0], before)
