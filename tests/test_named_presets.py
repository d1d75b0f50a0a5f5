"""From Python a preset may be given by its name, and what is no preprocessing is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.analysis.observed import observe
from calib8.errors import UsageError
from calib8.remedies import diagnose
from small_models import normal, onnx_model

DATA = {"images": np.random.default_rng(0).integers(0, 256, (20, 28, 28)).astype(np.uint8)}

Call = Callable[[Any], Any]


def network() -> onnx.ModelProto:
    body = "c = Conv<strides=[4,4]>(x, w) r = Relu(c) d = Conv(r, v) p = GlobalAveragePool(d) y = Flatten(p)"
    weights = {"w": normal(4, 1, 5, 5, seed=1), "v": normal(3, 4, 1, 1, seed=2)}
    return onnx_model("float[N,1,28,28] x", "float[N,3] y", body, weights)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    """Name → what takes a preprocessing, with everything else given."""
    folder = tmp_path_factory.mktemp("named")
    first, second, third = folder / "float.onnx", folder / "int8.onnx", folder / "tuned.onnx"
    onnx.save(network(), first)
    plain: dict[str, Any] = {"method": "minmax", "repair": ("none",)}
    made = calib8.quantize(first, DATA, preprocess=calib8.preset("mnist"), **plain)
    made.save(second)
    table = made.table
    return {
        "calibrate": lambda p: calib8.calibrate(first, DATA, preprocess=p, method="minmax").table,
        "collect": lambda p: calib8.collect_statistics(first, DATA, preprocess=p).statistics.to_bytes(),
        "quantize": lambda p: calib8.quantize(first, DATA, preprocess=p, **plain).qparams,
        "table": lambda p: calib8.quantize(first, table=table, preprocess=p).model.metadata_props,
        "evaluate": lambda p: calib8.evaluate([first, second], DATA, preprocess=p)[1].sqnr_db,
        "preflight": lambda p: calib8.preflight(first, DATA, preprocess=p),
        "compare": lambda p: calib8.compare(first, second, DATA, preprocess=p),
        "observe": lambda p: observe(second, DATA, preprocess=p),
        "diagnose": lambda p: diagnose(first, second, DATA, preprocess=p).diagnosis.layers,
        "tune": lambda p: (
            calib8.tune(
                first, DATA, third, preprocess=p, min_sqnr=5.0, effort="fast", work=_new(folder)
            ).best.figures
        ),
    }


def _new(folder: Path) -> Path:
    return folder / f"work{len(list(folder.iterdir()))}"


NAMES = (
    "calibrate", "collect", "quantize", "table", "evaluate", "preflight", "compare", "observe", "diagnose",
    "tune",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_the_preset(calls: dict[str, Call], name: str) -> None:
    assert calls[name]("mnist") == calls[name](calib8.preset("mnist"))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_none_is_refused_with_the_cure(calls: dict[str, Call], name: str) -> None:
    with pytest.raises(UsageError, match=r"preprocess='resnet': unknown preset.*mnist"):
        calls[name]("resnet")
    for given in ({"mean": 0}, 3, 0, ("mnist",)):
        with pytest.raises(UsageError, match=r"is of type .*name of a preset, such as 'torchvision'"):
            calls[name](given)
