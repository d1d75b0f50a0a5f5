"""What cannot be: every refusal names what is wrong and what to do."""

from __future__ import annotations

import copy
import math
from functools import cache
from typing import Any

import pytest
import torch
from networks import network
from test_state import Small, prepared, small
from torch import Tensor, nn
from trained import images_and_labels, train

import calib8
from calib8 import training
from calib8.qparams import QuantSpec
from calib8.scheme import QuantScheme
from calib8.training.preparing import TableWarning
from calib8.training.simulated_model import SimulatedModel

PICTURES = images_and_labels(1)[0][0]

pytestmark = pytest.mark.usefixtures("quick_export")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scheme": "nowhere"}, "target='nowhere': unknown target"),
        ({"scheme": 8}, "scheme: is of type int"),
        ({"scheme": "tengine", "activations": "uint8"}, "takes int8-symmetric only"),
        ({"scheme": QuantScheme("mine", takes=("int8",))}, "cannot run activations of type uint8"),
        ({"scheme": QuantScheme("mine", activations=QuantSpec(4, True, False))}, "activations of 4 bits"),
        ({"scheme": QuantScheme("mine", weights=QuantSpec(8, False, False))}, "symmetric of 2 … 8 bits"),
        ({"weights": "per-row"}, "unknown granularity"),
        ({"ranges": "guessed"}, "unknown. Use one of moving, fixed, trained, lsq"),
        ({"ranges": "lsq"}, "needs ranges to start from"),
        ({"ranges": "fixed"}, "needs ranges to start from"),
        ({"batch_norm": "melted"}, "Use one of corrected, frozen"),
        ({"decay": 1.0}, "decay=1.0: is not in 0 … 1"),
        ({"decay": math.nan}, "decay=nan"),
        ({"decay": "0.9"}, "decay='0.9'"),
        ({"delay": -1}, "delay=-1: is not a number of batches"),
        ({"delay": 1.5}, "delay=1.5: is not a number of batches"),
        ({"table": "table.json"}, "table: is of type str"),
        ({"keep_float": ["conv9"]}, "keep_float='conv9': no module and no node.*such as 'conv[12]'"),
        ({"keep_float": "conv1"}, "keep_float: is one string"),
    ],
)
def test_options(options: dict[str, Any], told: str) -> None:
    with pytest.raises(calib8.UsageError, match=told.replace("(", r"\(")):
        training.prepare(small(), PICTURES, **options)


def test_a_table_of_another_model() -> None:
    data = [{"x": picture[None].numpy()} for picture in PICTURES]
    table = calib8.calibrate(network("mobilenet_v2"), data, example_inputs=PICTURES, method="minmax").table
    with pytest.raises(calib8.TableError, match="is not in the table, which lacks"):
        training.prepare(small(), PICTURES, table=table)


def test_nothing_was_seen() -> None:
    model = prepared().eval()
    model(PICTURES)
    for finish in (training.freeze, training.convert):
        with pytest.raises(calib8.CalibrationError, match=r"no batch was seen in training mode.*\.train\(\)"):
            finish(model)
    assert not model.calib8.frozen


def test_training_in_eval_mode() -> None:
    model = prepared("fixed").eval()
    with pytest.raises(calib8.UsageError, match="trained in eval mode"):
        train(model, images_and_labels(1))
    train(model.train(), images_and_labels(1))
    model.eval()(PICTURES).sum().backward()  # of a trained model gradients may be looked at


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_no_numbers(value: float) -> None:
    model = prepared()
    model(PICTURES)
    before = copy.deepcopy(model.state_dict())
    broken = PICTURES.clone()
    broken[0, 0, 0, 0] = value
    with pytest.raises(calib8.CalibrationError, match="'x': holds NaN or infinite values in batch 2"):
        model(broken)
    after = model.state_dict()
    names = [name for name in before if name.startswith("calib8.quantizers.")]
    assert all(torch.equal(before[name], after[name]) for name in names)
    assert model.calib8.steps == 1
    model(PICTURES)


def test_a_training_that_diverged() -> None:
    model = prepared()
    train(model, images_and_labels(1))
    with torch.no_grad():
        model.get_parameter("conv2.weight")[0, 0, 0, 0] = math.nan
    with pytest.raises(calib8.ModelError, match=r"'conv2\.weight': holds NaN"):
        training.convert(model)
    with pytest.raises(calib8.CalibrationError, match="holds NaN or infinite values in batch 2"):
        model(PICTURES)


def test_a_learned_scale_that_diverged() -> None:
    model = prepared("lsq")
    quantizer = dict(model.calib8.all_quantizers())["x"]
    assert quantizer.step is not None
    with torch.no_grad():
        quantizer.step.fill_(math.nan)
    with pytest.raises(calib8.ModelError, match=r"'calib8\.quantizers\.x\.step': holds NaN"):
        training.convert(model)


def test_what_is_prepared_already() -> None:
    with pytest.raises(calib8.UsageError, match="simulates quantization already"):
        training.prepare(prepared(), PICTURES)


def test_other_modules_do_not_simulate() -> None:
    for function in (training.freeze, training.convert):
        with pytest.raises(calib8.UsageError, match="Small: does not simulate quantization"):
            function(small())


class Softened(Small):
    """Rounds inside of one function, where no code can be simulated."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = nn.functional.normalize(x)
        return self.fc(self.bn2(self.conv2(x)).mean([2, 3]))


def test_places_that_cannot_be_simulated() -> None:
    with pytest.raises(calib8.UnsupportedModelError, match=r"codes lie inside 'normalize'.*keep_float"):
        training.prepare(Softened(), PICTURES)
    model = training.prepare(Softened(), PICTURES, keep_float=["normalize"])
    assert isinstance(model, SimulatedModel)


@cache
def with_float_layer() -> SimulatedModel:
    return training.prepare(small(), PICTURES, keep_float=["conv2", "bn2"])


def test_what_stays_float() -> None:
    model = copy.deepcopy(with_float_layer())
    assert {plan.product for plan in model.calib8.plan.layers} == {"conv1", "fc"}
    train(model, images_and_labels(2))
    result = training.convert(model)
    reasons = {one.op_type: one.reason for one in result.placement.decisions if not one.quantized}
    assert "Conv" in reasons
    assert training.agreement(model, result, PICTURES).largest <= 1


def test_wrapped_modules_are_unwrapped() -> None:
    model = training.prepare(nn.DataParallel(small()), PICTURES)
    assert "conv1.weight" in model.state_dict()


def test_a_module_that_cannot_be_copied() -> None:
    module = small()
    module.held = torch.ones(1, requires_grad=True) * 2.0  # type: ignore[assignment]
    with pytest.raises(calib8.UsageError, match="Small: cannot be copied"):
        training.prepare(module, PICTURES)


def test_no_module() -> None:
    with pytest.raises(calib8.UsageError, match="is of type str"):
        training.prepare("model.onnx", PICTURES)  # type: ignore[arg-type]


class Deviating(Small):
    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        return self.fc(self.bn2(self.conv2(x)).std([2, 3]) + x.mean([2, 3]))


def test_the_function_is_named() -> None:
    with pytest.raises(calib8.UnsupportedModelError, match="codes lie inside 'std'"):
        training.prepare(Deviating(), PICTURES)
    training.prepare(Deviating(), PICTURES, keep_float=["std"])


@pytest.mark.parametrize("frozen", [False, True])
def test_ranges_that_nobody_watches(frozen: bool) -> None:
    model = prepared("fixed")
    train(model, images_and_labels(1))
    if frozen:
        training.freeze(model)
    with torch.no_grad():
        model.get_parameter("conv2.weight")[0, 0, 0, 0] = math.nan
    with pytest.raises(calib8.CalibrationError, match="model: yields NaN in training"):
        model(PICTURES)


def test_a_table_of_other_weights() -> None:
    data = [{"x": picture[None].numpy()} for picture in PICTURES]
    module = small()
    table = calib8.calibrate(module, data, example_inputs=PICTURES, method="minmax").table
    training.prepare(module, PICTURES, table=table)
    with torch.no_grad():
        module.get_parameter("conv1.weight").mul_(30.0)
    with pytest.warns(TableWarning, match="made for other weights"):
        training.prepare(module, PICTURES, table=table)
