"""Data of models whose axis 0 is time: every form of the same samples gives the same statistics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.data.opening import open_dataset
from calib8.errors import DataError
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.tensors import UNTOLD, TensorSpec
from small_models import onnx_model, run

SAMPLES, STEPS, WIDTH, UNITS = 7, 5, 4, 6
X = np.random.default_rng(1).standard_normal((SAMPLES, STEPS, WIDTH), np.float32)

FORMS: dict[str, Any] = {
    "array": X,
    "named array": {"x": X},
    "whole inputs": X[:, :, None],
    "list": list(X),
    "list of batches": [sample[:, None] for sample in X],
    "list of named": [{"x": sample[:, None]} for sample in X],
    "axes of the model": [{"x": X.transpose(1, 0, 2)}],
}


def recurrent(shape: str, op: str = "GRU") -> Any:
    rng, rows = np.random.default_rng(0), (4 if op == "LSTM" else 3) * UNITS
    return onnx_model(
        f"float[{shape}] x", f"float[A,1,B,{UNITS}] y", f"y = {op}<hidden_size={UNITS}>(x, w, r)",
        {
            "w": rng.standard_normal((1, rows, WIDTH), np.float32),
            "r": rng.standard_normal((1, rows, UNITS), np.float32),
        },
    )  # fmt: skip


SHAPES = ("T,N,4", "5,N,4", "steps,b,4", "5,other,4", "A,1,4", "5,1,4")
TAKEN = [
    (shape, form) for shape in SHAPES for form in FORMS if ",1," not in shape or form != "axes of the model"
]
"""Models for one sample at a time take no batch, see below."""


@pytest.mark.parametrize(("shape", "form"), TAKEN)
def test_sequences_begin_anew_with_every_sample(shape: str, form: str) -> None:
    model = recurrent(shape)
    expected = run(recurrent("T,N,4"), {"x": X.transpose(1, 0, 2)})[0]
    found = calib8.collect_statistics(model, FORMS[form]).statistics.tensors["y"]
    assert found.count == expected.size
    np.testing.assert_allclose([found.minimum, found.maximum], [expected.min(), expected.max()], rtol=1e-5)


@pytest.mark.parametrize("shape", ["P,Q,4", "5,Q,4", "P,1,4"])
def test_where_nothing_tells_the_axis_samples_are_whole(shape: str) -> None:
    """Axes are lost in the Reshape: what can only be a guess is refused, the rest is run as it is."""
    rng = np.random.default_rng(0)
    flat = np.array([-1, WIDTH])
    constants = {
        "w": rng.standard_normal((1, 3 * UNITS, WIDTH), np.float32),
        "r": rng.standard_normal((1, 3 * UNITS, UNITS), np.float32),
        "flat": flat, "m": np.eye(WIDTH, dtype=np.float32), "sizes": np.array([STEPS, -1, WIDTH]),
    }  # fmt: skip
    body = "f = Reshape(x, flat) g = MatMul(f, m) s = Reshape(g, sizes) y = GRU<hidden_size=6>(s, w, r)"
    model = onnx_model(f"float[{shape}] x", f"float[C,1,D,{UNITS}] y", body, constants)
    assert graph_inputs(load_model(model))[0].batch_axis == UNTOLD
    expected = run(recurrent("T,N,4"), {"x": X.transpose(1, 0, 2)})[0]
    for data in (X[:, :, None], [{"x": sample[:, None]} for sample in X], [x[:, None] for x in X]):
        found = calib8.collect_statistics(model, data).statistics.tensors["y"]
        assert found.count == expected.size
        reached = [found.minimum, found.maximum]
        np.testing.assert_allclose(reached, [expected.min(), expected.max()], rtol=1e-5)
    for data in (X, {"x": X}, list(X), [X], [X.transpose(1, 0, 2)]):
        with pytest.raises(DataError) as caught:
            calib8.collect_statistics(model, data)
        assert "Give a list of {'x': array} with the axes of the model" in str(caught.value)


@pytest.mark.parametrize("op", ["GRU", "LSTM"])
def test_every_form_of_data_is_judged_alike(op: str, tmp_path: Path) -> None:
    """Axes without telling names: the float model's layers tell ``evaluate`` which one counts samples."""
    calib8.quantize(recurrent("P,Q,4", op), X, target="calib8", effort="fast", threads=1).save(
        tmp_path / "int8.onnx"
    )
    onnx.save(recurrent("P,Q,4", op), tmp_path / "fp32.onnx")
    models = [tmp_path / "fp32.onnx", tmp_path / "int8.onnx"]
    expected, coded = (run(onnx.load(path), {"x": X.transpose(1, 0, 2)})[0] for path in models)
    noise = float(np.sum(np.square(expected.astype(np.float64) - coded)))
    by_hand = 10 * np.log10(float(np.sum(np.square(expected.astype(np.float64)))) / noise)
    for name in FORMS:
        found = calib8.evaluate(models, FORMS[name], threads=1)[1]
        assert found.sqnr_db == pytest.approx(by_hand, abs=0.01), name


def opened(shape: Sequence[int | str | None], data: Any, **options: Any) -> list[np.ndarray]:
    spec = TensorSpec("x", np.dtype(np.float32), tuple(shape))
    return [sample.inputs["x"] for sample in open_dataset(data, [spec], None, **options)]


def test_a_batch_that_may_be_either_is_asked_about() -> None:
    with pytest.raises(DataError) as caught:
        opened(("T", "N", 4), [X])
    assert "axis 1 counts samples: they may be 5 samples, or 7 one after the other" in str(caught.value)
    assert "(numpy.moveaxis(array, 0, 1) where axis 0 counts samples)" in str(caught.value)
    (whole,) = opened(("T", "N", 4), [X], transform=lambda x: {"x": x})
    assert whole.shape == X.shape
    (turned,) = opened(("T", "N", 4), [X], transform=lambda x: {"x": np.moveaxis(x, 0, 1)})
    assert np.array_equal(turned, X.transpose(1, 0, 2))


def test_a_batch_that_fits_one_way_is_read_that_way() -> None:
    rows = opened((5, "N", 4), [X])
    assert [row.shape for row in rows] == [(5, 1, 4)] * SAMPLES
    assert np.array_equal(rows[3][:, 0], X[3])
    (whole,) = opened((5, "N", 4), [X.transpose(1, 0, 2)])
    assert whole.shape == (5, SAMPLES, 4)


LABELS = np.arange(SAMPLES)
TURNED = X.transpose(1, 0, 2)


@pytest.mark.parametrize("shape", [("T", "N", 4), (5, "N", 4), ("T", 1, 4)])
@pytest.mark.parametrize(
    "data",
    [
        [(X, LABELS)],  # what a DataLoader yields: the labels tell what counts samples
        [(TURNED, LABELS)],
        [({"x": TURNED}, LABELS)],
        list(zip(X, LABELS, strict=True)),
        [(sample[:, None], label) for sample, label in zip(X, LABELS, strict=True)],
        [({"x": sample[:, None]}, label) for sample, label in zip(X, LABELS, strict=True)],
    ],
    ids=["batch", "batch of the model", "named batch", "samples", "whole samples", "named samples"],
)
def test_labels_belong_to_sequences(shape: Sequence[int | str | None], data: Any) -> None:
    spec = TensorSpec("x", np.dtype(np.float32), tuple(shape), counted=1)
    samples = list(open_dataset(data, [spec], None))
    assert [sample.label for sample in samples] == LABELS.tolist()
    for sample, expected in zip(samples, X, strict=True):
        np.testing.assert_array_equal(sample.inputs["x"], expected[:, None])


def test_a_batch_of_several_inputs_is_cut_where_each_has_its_samples() -> None:
    specs = [
        TensorSpec("x", np.dtype(np.float32), ("T", "N", 4)),
        TensorSpec("lens", np.dtype(np.int32), ("N",)),
    ]
    lengths = np.arange(1, SAMPLES + 1, dtype=np.int32)
    samples = list(open_dataset([({"x": TURNED, "lens": lengths}, LABELS)], specs, None))
    assert len(samples) == SAMPLES
    for number, sample in enumerate(samples):
        np.testing.assert_array_equal(sample.inputs["x"], X[number][:, None])
        assert sample.inputs["lens"].tolist() == [number + 1]
    rows = list(open_dataset({"x": X, "lens": lengths}, specs, None))
    assert [row.inputs["x"].shape for row in rows] == [(STEPS, 1, WIDTH)] * SAMPLES
    assert [row.inputs["lens"].tolist() for row in rows] == [[number + 1] for number in range(SAMPLES)]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (X.transpose(1, 0, 2), ".transpose(1, 0, 2)"),
        ([{"x": X}], ".transpose(1, 0, 2)"),
        (X[:, :4], ""),
    ],
)
def test_the_cure_makes_the_array_fit(data: Any, code: str) -> None:
    with pytest.raises(DataError) as caught:
        opened((5, "N", 4), data)
    if not code:
        assert caught.value.cure == "Give arrays of the model's type and shape, batch axis included"
        return
    assert caught.value.cure == f"Give array{code}, so that the axes are those of the model"
    array = data if isinstance(data, np.ndarray) else data[0]["x"]
    mended = eval(f"array{code}", {"array": array})
    assert opened((5, "N", 4), mended if isinstance(data, np.ndarray) else [{"x": mended}])


def test_one_sample_of_a_model_for_one() -> None:
    with pytest.raises(DataError, match="has float32 5×7×4"):
        opened((5, 1, 4), [{"x": X.transpose(1, 0, 2)}])
    (spec,) = graph_inputs(load_model(recurrent("5,1,4")))
    assert spec.batch_axis == 1
