"""Einsum of two tensors becomes a MatMul between Transposes and Reshapes: same function, same sums."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.passes.plain_einsum import plain_einsum
from calib8.passes.prepare import prepare
from small_models import graph, normal, ops, relative_difference, run

SIZES = {"b": 2, "h": 3, "i": 4, "j": 5, "d": 6, "e": 7, "c": 3}


def shape(indices: str, free: bool = False) -> list[int | str]:
    return ["N" if free and index == "b" else SIZES[index] for index in indices]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("equation, reshapes", [
    ("bhid,bhjd->bhij", 0), ("bhij,bhjd->bhid", 0), ("bid,dj->bij", 0), ("bhid,bhjd->bijh", 0),
    ("bdij,ed->beij", 0), ("ed,bdij->beij", 0), ("bhid,hde->bie", 2), ("id,jd->ij", 0),
    ("bchi,bcej->bhiej", 3), ("bid , bjd -> bij", 0),
])  # fmt: skip
def test_products(equation: str, reshapes: int, free: bool) -> None:
    left, right = equation.replace(" ", "").split("->")[0].split(",")
    inputs = ", ".join(
        f"float[{', '.join(map(str, shape(part, free)))}] {name}"
        for part, name in ((left, "x"), (right, "z"))
    )
    rank = len(equation.replace(" ", "").split("->")[1])
    output = f"float[{', '.join('ABCDE'[:rank])}] y"
    model = graph(inputs, output, f'y = Einsum<equation="{equation}">(x, z)')
    feeds = {"x": normal(*shape(left)), "z": normal(*shape(right), seed=1)}
    expected = run(model, feeds)
    assert plain_einsum(model) == 1 and plain_einsum(model) == 0
    assert relative_difference(expected, run(model, feeds)) < 1e-5
    made = ops(model)
    assert made["MatMul"] == 1 and made["Reshape"] == reshapes and "Einsum" not in made


@pytest.mark.parametrize("equation", ["bhid,hjd->bhij", "bchid,hjd->bchij", "bchid,ijd->bchij"])
def test_rows_of_unknown_number_stand_before_the_stack(equation: str) -> None:
    """Positions of ViTDet with a free batch: the constant matrices are repeated for every sample."""
    left, right = equation.split("->")[0].split(",")
    sizes = ["N", *shape(left)[1:]]
    inputs = f"float[{', '.join(map(str, sizes))}] x"
    body = f'y = Einsum<equation="{equation}">(x, z)'
    model = graph(
        inputs, f"float[{', '.join('ABCDE'[: len(left)])}] y", body, {"z": normal(*shape(right), seed=1)}
    )
    feeds = {"x": normal(*shape(left))}
    expected = run(model, feeds)
    assert plain_einsum(model) == 1 and ops(model)["Reshape"] == 0
    assert relative_difference(expected, run(model, feeds)) < 1e-5


@pytest.mark.parametrize(
    "equation", ["bid->bdi", "bii,bid->bd", "bd,bd->b", "bid,bjd->bi", "...d,dj->...j", "id,jd"]
)
def test_what_is_no_product_of_matrices_stays(equation: str) -> None:
    operands = equation.split("->")[0].split(",")
    names = ["x", "z"][: len(operands)]
    shapes = [[*shape(part.replace("...", "b"))] for part in operands]
    inputs = ", ".join(
        f"float[{', '.join(map(str, one))}] {name}" for one, name in zip(shapes, names, strict=True)
    )
    model = graph(inputs, "float[A] y", f'y = Einsum<equation="{equation}">({", ".join(names)})')
    assert plain_einsum(model) == 0


def test_a_constant_weight_becomes_that_of_a_layer() -> None:
    """prepare folds the Transpose of the weight, and compares with the original."""
    model = graph(
        "float[2,6,4,5] x", "float[A,B,C,D] y", 'r = Relu(x) y = Einsum<equation="bdij,ed->beij">(r, w)',
        {"w": normal(7, 6)},
    )  # fmt: skip
    made = prepare(model, {"x": normal(2, 6, 4, 5)}).model
    products = [node for node in made.graph if node.op_type == "MatMul"]
    assert len(products) == 1 and "Einsum" not in ops(made)
    assert np.prod(products[0].outputs[0].shape.numpy()) == 2 * 7 * 20
