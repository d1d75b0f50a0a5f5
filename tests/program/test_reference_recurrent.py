"""What recurrent layers compute: exact products against ONNX Runtime, codes and functions by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import pytest
from example_programs import with_step
from recurrent_cells import BOUNDED, Layer, onnx_model, random_layer, random_sequences

from calib8.errors import DataError
from calib8.program.costs import macs, weight_bytes
from calib8.program.ops.cell_functions import applied, sigmoid, tanh
from calib8.program.ops.cells import Cell, Weights, coded_rows
from calib8.program.ops.recurrent import computed
from calib8.program.reference.executor import run_program
from calib8.program.rules import CellFunction
from calib8.program.verify import verify

Array = npt.NDArray[Any]
CELLS: tuple[Cell, ...] = ("LSTM", "GRU", "RNN")


def by_onnxruntime(layer: Layer, feeds: dict[str, Array]) -> list[Array]:
    """Y, Y_h and Y_c."""
    session = ort.InferenceSession(onnx_model(layer).SerializeToString())
    return [np.asarray(array) for array in session.run(None, feeds)]


def parts(rows: Array, steps: int) -> list[Array]:
    """The same of a result."""
    return [rows[:steps], *rows[steps:]]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("seed", range(60))
def test_with_exact_products_it_is_the_onnx_operator(seed: int, cell: Cell) -> None:
    """All attributes and inputs, float32 weights in place of codes."""
    rng = np.random.default_rng((1, seed))
    sizes = (int(rng.integers(1, 9)), *(int(size) for size in rng.integers(1, 20, 3)))
    layer = random_layer(rng, cell, sizes)
    verify(layer.program)
    feeds = random_sequences(layer.program, rng)
    arrays = [feeds[port.name] for port in layer.program.inputs]
    got = computed(layer.step, arrays, layer.exact)
    for mine, wanted in zip(parts(got, sizes[0]), by_onnxruntime(layer, feeds), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=0, atol=1e-5 * max(1.0, float(np.abs(wanted).max())))


@pytest.mark.parametrize("cell", CELLS)
def test_codes_stay_near_the_float_operator(cell: Cell) -> None:
    """40 dB and more of ordinary layers, over many steps."""
    for seed, steps in enumerate((5, 40, 200)):
        rng = np.random.default_rng((2, seed))
        layer = random_layer(rng, cell, (steps, 2, 24, 48), usual=True)
        feeds = random_sequences(layer.program, rng)
        (got,) = run_program(layer.program, feeds)
        wanted = by_onnxruntime(layer, feeds)[0]
        noise = np.square(got[:steps] - wanted, dtype=np.float64).sum()
        assert 10 * np.log10(np.square(wanted, dtype=np.float64).sum() / noise) > 37


def test_every_cell_by_loops() -> None:
    """One step of one LSTM, number by number in float32."""
    layer = random_layer(np.random.default_rng(3), "LSTM", (1, 1, 3, 2), usual=True)
    step = with_step(layer.program, directions=("forward",)).instructions[0]
    x = np.array([0.5, -1.0, 0.25], np.float32)
    (got,) = run_program(layer.program, {"x": x.reshape(1, 1, 3)})
    f32 = np.float32
    scale, codes = f32(1.0) / f32(127), [int(np.rint(v * f32(127))) for v in x]
    gates = []
    for row in range(8):
        acc = sum(q * int(w) for q, w in zip(codes, step.weight[0, row], strict=True))  # type: ignore[attr-defined]
        gates.append(f32(acc) * (scale * step.weight_scale[0, row]) + step.bias[0, row])  # type: ignore[attr-defined]
    numbers = np.array(gates, np.float32).reshape(4, 2)
    i, o, g = sigmoid(numbers[0]), sigmoid(numbers[1]), tanh(numbers[3])
    c = sigmoid(numbers[2]) * f32(0) + i * g
    np.testing.assert_array_equal(got[2, 0, 0], c)
    np.testing.assert_array_equal(got[0, 0, 0], o * tanh(c))


def all_numbers() -> npt.NDArray[np.float32]:
    """Every 997th float32 number but NaN, and what matters most."""
    bits = np.arange(0, 1 << 32, 997, dtype=np.uint32)
    numbers = np.concatenate([bits.view(np.float32), np.linspace(-20, 20, 400001, dtype=np.float32)])
    return numbers[~np.isnan(numbers)]


def test_functions_lie_within_two_to_the_minus_23_of_the_exact_ones() -> None:
    x = all_numbers()
    with np.errstate(over="ignore", under="ignore"):
        exact = x.astype(np.float64)
        assert np.abs(sigmoid(x) - 1 / (1 + np.exp(-exact))).max() < 2**-23
        assert np.abs(tanh(x) - np.tanh(exact)).max() < 2**-23


@pytest.mark.slow
def test_functions_are_bounded_symmetric_and_rise() -> None:
    x = np.sort(all_numbers())
    with np.errstate(over="ignore", under="ignore"):
        s, t, mirrored = sigmoid(x), tanh(x), tanh(-x)
    assert s.min() >= 0 and s.max() == 1 and t.min() == -1 and t.max() == 1
    np.testing.assert_array_equal(mirrored, -t)
    assert np.signbit(tanh(np.float32([-0.0]))).all()
    assert np.diff(s.astype(np.float64)).min() > -(2**-23) and np.diff(t.astype(np.float64)).min() > -(2**-23)


def test_what_is_no_number_stays_none() -> None:
    nan = np.full(3, np.nan, np.float32)
    for name in (*BOUNDED, "Relu", "Affine"):
        with np.errstate(invalid="ignore"):
            assert np.isnan(applied(CellFunction(name, 0.5, 0.25), nan)).all(), name  # type: ignore[arg-type]


def test_codes_of_rows() -> None:
    rows = np.array(
        [[0.5, -1.0, 0.25], [0, 0, 0], [1e-31, 0, -1e-32], [1, np.nan, 2], [np.inf, 0, 0]], np.float32
    )
    codes, scales = coded_rows(rows)
    np.testing.assert_array_equal(codes[:3], [[64, -127, 32], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(scales[:3, 0], [np.float32(1) / np.float32(127), 0, 0])
    assert np.isnan(scales[3:]).all()


def test_codes_never_leave_their_range() -> None:
    rng = np.random.default_rng(4)
    rows = (rng.normal(size=(4000, 8)) * np.exp(rng.uniform(-60, 80, (4000, 1)))).astype(np.float32)
    codes, scales = coded_rows(rows)
    assert np.abs(codes).max() == 127 and np.isfinite(scales).all()
    used = scales[:, 0] > 0
    np.testing.assert_array_less(
        np.abs(codes * scales - rows)[used], 0.51 * np.broadcast_to(scales, rows.shape)[used]
    )


def test_sums_are_exact() -> None:
    weight = np.full((1, 1 << 16), 127, np.int8)
    product = Weights(weight, np.ones(1, np.float32), weight, np.ones(1, np.float32))
    rows = np.full((1, 1 << 16), 1.0, np.float32)
    scale = np.float32(1) / np.float32(127)
    assert product.of_inputs(rows)[0, 0] == np.float32(127 * 127 * (1 << 16)) * scale


def test_a_lost_sample_is_lost_from_there_on_and_alone() -> None:
    rng = np.random.default_rng(5)
    layer = random_layer(rng, "LSTM", (5, 3, 4, 6), usual=True, extras=())
    (whole,) = run_program(layer.program, feeds := random_sequences(layer.program, rng))
    feeds["x"][2, 1, 3] = np.inf
    (got,) = run_program(layer.program, feeds)
    np.testing.assert_array_equal(got[:, :, [0, 2]], whole[:, :, [0, 2]])
    for d, direction in enumerate(layer.step.directions):
        before = slice(0, 2) if direction == "forward" else slice(3, 5)
        np.testing.assert_array_equal(got[:5][before, d, 1], whole[:5][before, d, 1])
        after = slice(2, 5) if direction == "forward" else slice(0, 3)
        assert np.isnan(got[:5][after, d, 1]).all() and np.isnan(got[5:, d, 1]).all()


def test_a_state_that_overflows_is_lost() -> None:
    rng = np.random.default_rng(6)
    layer = random_layer(rng, "RNN", (4, 1, 2, 3), usual=True)
    grows = with_step(
        layer.program, functions=(CellFunction("Affine", 1e30, 1.0),) * len(layer.step.directions)
    )
    (got,) = run_program(grows, random_sequences(grows, rng))
    bad = ~np.isfinite(got)
    assert bad[-1].all() and np.isnan(got[bad]).all()
    assert (bad.all(axis=-1) | ~bad.any(axis=-1)).all(), "all units of a sample together"


def test_lengths_that_are_none() -> None:
    rng = np.random.default_rng(7)
    layer = random_layer(rng, "GRU", (4, 3, 2, 2), usual=True, extras=("lengths",))
    for lengths, told in (([4, 5, -1], "has 5 for sample 1"), ([4, 0, -1], "has -1 for sample 2")):
        feeds = {**random_sequences(layer.program, rng), "lengths": np.array(lengths, np.int32)}
        with pytest.raises(DataError, match=f"{told}, and the sequence has 4 steps. Give lengths in 0 … 4"):
            run_program(layer.program, feeds)


def test_costs() -> None:
    layer = random_layer(np.random.default_rng(8), "GRU", (7, 2, 5, 6), usual=True)
    count = len(layer.step.directions)
    assert macs(layer.program, layer.step) == 7 * 2 * count * 18 * (5 + 6)
    assert weight_bytes(layer.program) == count * 18 * (5 + 6 + 4)
