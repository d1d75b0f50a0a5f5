"""Sums of 8-bit products in ONNX Runtime: exact in calib8's sessions, on every CPU."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from calib8.model import runtime
from calib8.model.runtime import open_session, saturates_here
from calib8.model.saturation import two_products
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


@pytest.mark.parametrize("saturates", [True, False])
@pytest.mark.parametrize("exact_sums", [True, False])
def test_the_setting_reaches_the_session(
    monkeypatch: pytest.MonkeyPatch, exact_sums: bool, saturates: bool
) -> None:
    """Only where sums would saturate: elsewhere it is slow."""
    entries = dict[str, str]()
    plain = onnxruntime.SessionOptions.add_session_config_entry

    def noted(self: onnxruntime.SessionOptions, name: str, value: str) -> None:
        entries[name] = value
        plain(self, name, value)

    monkeypatch.setattr(onnxruntime.SessionOptions, "add_session_config_entry", noted)
    monkeypatch.setattr(runtime, "saturates_here", lambda: saturates)
    model: ir.Model = two_products()
    open_session(model, exact_sums=exact_sums)
    assert entries == ({"session.x64quantprecision": "1"} if exact_sums and saturates else {})


def test_a_process_without_onnx_ir_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sessions have the setting, which is right everywhere."""
    content = model_bytes(two_products())
    monkeypatch.delitem(sys.modules, "onnx_ir")
    monkeypatch.setattr(runtime, "saturates_here", lambda: pytest.fail("it asked"))
    [codes] = open_session(content).run(LARGEST)
    assert codes.item() == EXACT


def test_the_setting_changes_no_output() -> None:
    """Where nothing saturates all sums are the same with it and without."""
    if saturates_here():
        return
    rng, found = np.random.default_rng(0), []
    codes = rng.integers(0, 256, (1, 3, 9, 11)).astype(np.uint8)
    for value in ("0", "1"):
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry(runtime.EXACT_SUMS, value)
        session = onnxruntime.InferenceSession(
            model_bytes(random_layer()), options, providers=["CPUExecutionProvider"]
        )
        found.append(session.run(None, {"x": codes})[0])
    np.testing.assert_array_equal(found[0], found[1])
    assert np.unique(found[0]).size > 50


def random_layer() -> ir.Model:
    """A QLinearConv with weights of all sizes."""
    weight = np.random.default_rng(1).integers(-128, 128, (40, 3, 3, 3)).astype(np.int8)
    constants = {
        "one": np.array(1, np.float32), "zero": np.array(128, np.uint8), "w": weight,
        "zero_w": np.array(0, np.int8), "scale": np.array(700.0, np.float32),
    }  # fmt: skip
    held = {name: ir.val(name, const_value=ir.tensor(value, name=name)) for name, value in constants.items()}
    x = ir.val("x", ir.DataType.UINT8, (1, 3, 9, 11))
    names = ("one", "zero", "w", "one", "zero_w", "scale", "zero")
    y = ir.val("y", ir.DataType.UINT8, (1, 40, 7, 9))
    node = ir.node("QLinearConv", [x, *(held[name] for name in names)], outputs=[y])
    graph = ir.Graph(
        [x], [y], nodes=[node], initializers=list(held.values()), opset_imports={"": 13}, name="c"
    )
    return ir.Model(graph, ir_version=8)
