"""Chains cut into bands: the same bits, whatever the strides, windows and sizes of the bands."""

from __future__ import annotations

import pytest
from nets import Net

from bits import assert_same_bits
from calib8.engine import bands
from calib8.engine.compile import compile_program


@pytest.fixture(autouse=True)
def small_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bands, "SMALLEST_BYTES", 1)
    monkeypatch.setattr(bands, "BAND_BYTES", 700)


def convs(net: Net, dtype: str = "uint8") -> int:
    x = net.input(2, 11, 9, 6, dtype=dtype, zero_point=5)
    return net.add(net.conv(net.conv(net.conv(x, 8, kernel=5), 12, kernel=1), 6), x)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_chains_of_convolutions(dtype: str) -> None:
    net = Net(seed=1)
    program = net.program(convs(net, dtype))
    assert len(compile_program(program).steps) > 12
    assert_same_bits(program)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_strides_and_depthwise_layers(stride: int) -> None:
    net = Net(seed=stride)
    x = net.input(1, 14, 6, 8)
    y = net.conv(net.depthwise(net.conv(x, 16, kernel=1), stride), 8, kernel=3, stride=stride)
    assert_same_bits(net.program(y))


@pytest.mark.parametrize("band_bytes", [1, 100, 10**9])
def test_bands_of_one_row_and_of_all_rows(monkeypatch: pytest.MonkeyPatch, band_bytes: int) -> None:
    monkeypatch.setattr(bands, "BAND_BYTES", band_bytes)
    net = Net(seed=4)
    assert_same_bits(net.program(convs(net)))


def test_a_residual_from_within_ends_the_chain() -> None:
    net = Net(seed=2)
    x = net.input(1, 8, 8, 8)
    y = net.conv(x, 8)
    assert_same_bits(net.program(net.add(net.conv(net.conv(y, 8), 8), y)))


def test_windows_that_skip_the_last_rows() -> None:
    net = Net(seed=6)
    x = net.input(1, 9, 9, 4)
    y = net.conv(net.conv(x, 4), 4, kernel=2, stride=4, pad=0)
    assert_same_bits(net.program(y))
