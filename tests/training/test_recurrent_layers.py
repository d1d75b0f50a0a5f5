"""Recurrent layers in training: refused by name, or kept in float while what is around them is simulated."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import calib8
from calib8 import training

FRAMES = torch.randn(2, 8, 10, generator=torch.Generator().manual_seed(3))

pytestmark = pytest.mark.usefixtures("quick_export")


class Reader(nn.Module):
    """A convolution over time, a recurrent layer, a linear one."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 16, 3, padding=1)
        self.rnn = kind(16, 12, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(24, 5)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.rnn(torch.relu(self.conv(x)).transpose(1, 2))
        result: Tensor = self.fc(y)
        return result


class Stepping(nn.Module):
    """One step of a cell."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.cell = nn.Linear(8, 6), nn.GRUCell(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.cell(self.fc(x))
        return result


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_are_refused_by_name(kind: type[nn.LSTM] | type[nn.GRU]) -> None:
    told = rf"does not simulate: 'rnn' \({kind.__name__}\).*keep_float=\['rnn'\].*calib8\.quantize"
    for target in ("calib8", "onnxruntime"):
        with pytest.raises(calib8.UnsupportedModelError, match=told):
            training.prepare(Reader(kind), FRAMES, target)


def test_cells_are_refused_by_name() -> None:
    with pytest.raises(calib8.UnsupportedModelError, match=r"'cell' \(GRUCell\)"):
        training.prepare(Stepping(), FRAMES[:, :, 0])


def test_kept_in_float_what_is_around_them_trains() -> None:
    """The int8 file has the layer in float, and gives what training simulated."""
    model = training.prepare(Reader(nn.LSTM).train(), FRAMES, "calib8", keep_float=["rnn"])
    model(FRAMES).square().mean().backward()
    gradients = [model.get_parameter(name).grad for name in ("conv.weight", "rnn.weight_hh_l0", "fc.weight")]
    assert all(one is not None and bool(one.abs().max() > 0) for one in gradients)
    training.freeze(model)
    made = training.convert(model)
    quantized = {one.op_type for one in made.placement.decisions if one.quantized}
    assert "Conv" in quantized and "LSTM" not in quantized
    with torch.no_grad():
        wanted = model.eval()(FRAMES).numpy()
    program = made.lower(shapes={"x": FRAMES.shape})
    [got] = calib8.InferenceSession(program).run(None, {program.inputs[0].name: FRAMES.numpy()})
    np.testing.assert_allclose(got, wanted, rtol=0, atol=0.05 * float(np.abs(wanted).max()))
