"""Sums of 8-bit products in ONNX Runtime: exact in calib8's sessions, on every CPU."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from calib8.model.runtime import open_session
from calib8.model.saturation import saturates_here, two_products
from calib8.model.save import model_bytes

LARGEST = {"a": np.full((1, 2), 255, np.uint8)}
EXACT = round((255 * 127 + 255 * 127) / 512)


def test_sessions_do_not_saturate() -> None:
    [codes] = open_session(two_products()).run(LARGEST)
    assert codes.item() == EXACT


def test_the_question_is_what_a_session_with_the_defaults_does() -> None:
    session = onnxruntime.InferenceSession(model_bytes(two_products()), providers=["CPUExecutionProvider"])
    [codes] = session.run(None, LARGEST)
    assert saturates_here() == (codes.item() != EXACT)
    assert codes.item() in (EXACT, round((2**15 - 1) / 512))


def test_cpus_with_vnni_do_not_saturate() -> None:
    flags = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not flags.exists():
        assert not saturates_here()
        return
    features = set(flags.read_text().split())
    assert saturates_here() == ("avx2" in features and not {"avx512_vnni", "avx_vnni"} & features)


@pytest.mark.parametrize("exact_sums", [True, False])
def test_the_setting_reaches_the_session(monkeypatch: pytest.MonkeyPatch, exact_sums: bool) -> None:
    entries = dict[str, str]()
    plain = onnxruntime.SessionOptions.add_session_config_entry

    def noted(self: onnxruntime.SessionOptions, name: str, value: str) -> None:
        entries[name] = value
        plain(self, name, value)

    monkeypatch.setattr(onnxruntime.SessionOptions, "add_session_config_entry", noted)
    model: ir.Model = two_products()
    open_session(model, exact_sums=exact_sums)
    assert entries == ({"session.x64quantprecision": "1"} if exact_sums else {})
