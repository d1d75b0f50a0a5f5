"""Placement of what looks through windows: forms without integers are float and say why."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from place_nets import reasons

from calib8.passes.place import place
from calib8.scheme import TARGETS
from small_models import graph, normal

CONV = "Conv<pads=[1,1,1,1,1,1]>"
WEIGHTS = {"w": normal(4, 4, 3, 3, 3), "v": normal(4, 4, 3, 3, 3, seed=1)}


def volume(middle: str, **weights: tuple[int, ...]) -> ir.Model:
    """``b`` made of ``a`` between two convolutions over three axes."""
    constants = {**WEIGHTS, **{name: normal(*shape, seed=5) for name, shape in weights.items()}}
    body = f"a = {CONV}(x, w) {middle} y = {CONV}(b, v)"
    return graph("float[1,4,4,6,6] x", "float[A,B,C,D,E] y", body, constants)


def told(middle: str, **weights: tuple[int, ...]) -> str:
    return reasons(place(volume(middle, **weights), TARGETS["calib8"])).get("b", "")


@pytest.mark.parametrize("attributes, kernel, why", [
    ("group=2", (3, 3, 3), "it has groups, and its frames overlap"),
    ("group=2,strides=[2,2,2]", (3, 3, 3), "it has groups, and its frames overlap"),
    ("group=2,strides=[2,2,2],pads=[1,0,0,0,0,0]", (2, 2, 2), "it has groups, and its frames overlap"),
    ("group=2,strides=[2,2,2],output_padding=[1,0,0]", (2, 2, 2), "it has groups, and its frames overlap"),
    ("group=2,strides=[2,2,2]", (2, 2, 2), ""),
    ("group=2,strides=[1,2,2]", (1, 3, 3), ""),
    ("strides=[2,2,2]", (3, 3, 3), ""),
])  # fmt: skip
def test_transposed_convolutions_of_volumes(attributes: str, kernel: tuple[int, ...], why: str) -> None:
    outputs = 2 if "group" in attributes else 4
    assert told(f"b = ConvTranspose<{attributes}>(a, t)", t=(4, outputs, *kernel)) == why


@pytest.mark.parametrize("dilations, why", [("[1,1,1]", ""), ("[2,1,1]", "its window is dilated")])
def test_average_pools_with_gaps(dilations: str, why: str) -> None:
    middle = f"b = AveragePool<kernel_shape=[2,2,2],dilations={dilations}>(a)"
    model = graph("float[1,4,4,6,6] x", "float[A,B,C,D,E] y", f"a = {CONV}(x, w) {middle} y = {CONV}(b, v)",
                  WEIGHTS, opset=19)  # fmt: skip
    assert reasons(place(model, TARGETS["calib8"])).get("b", "") == why


@pytest.mark.parametrize("mode, why", [
    ("linear", "it interpolates along other axes than rows and columns"), ("nearest", ""),
])  # fmt: skip
def test_resized_volumes(mode: str, why: str) -> None:
    sizes = f'b = Resize<mode="{mode}">(a, , f)'
    constants = {**WEIGHTS, "f": normal(5) * 0 + (1, 1, 2, 2, 2)}
    model = graph("float[1,4,4,6,6] x", "float[A,B,C,D,E] y", f"a = {CONV}(x, w) {sizes} y = {CONV}(b, v)",
                  {name: array.astype("float32") for name, array in constants.items()})  # fmt: skip
    assert reasons(place(model, TARGETS["calib8"])).get("b", "") == why
