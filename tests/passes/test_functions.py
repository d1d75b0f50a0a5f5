"""Which nodes are one function of one tensor: by name, and against all sets of nodes that there are."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.model.graph import activation_inputs
from calib8.passes.functions import chains, tensor_functions
from calib8.passes.place import calibration_tensors, place
from calib8.scheme import TARGETS
from small_models import Array, graph, normal

ORT = TARGETS["onnxruntime"]
CONV = "Conv<pads=[1,1,1,1]>"
CONSTANTS: dict[str, Array] = {
    "w": normal(4, 4, 3, 3),
    "v": normal(4, 4, 3, 3, seed=1),
    "k": np.float32(1.4),
    "h": np.float32(0.5),
    "one": np.float32(1),
    "wide": normal(1, 4, 1, 1, seed=2),
}


def image(body: str, outputs: str = "float[A,B,C,D] y") -> ir.Model:
    used = {name: array for name, array in CONSTANTS.items() if f"{name})" in body or f", {name}," in body}
    used |= {name: array for name, array in CONSTANTS.items() if f"({name}," in body}
    return graph("float[N,4,8,8] x", outputs, body, used)


FUNCTIONS = {
    "SiLU": "s = Sigmoid(c) n = Mul(c, s)",
    "HardSwish": "s = HardSigmoid<alpha=0.1666667>(c) n = Mul(s, c)",
    "Mish": "p = Softplus(c) t = Tanh(p) n = Mul(c, t)",
    "GELU": "d = Div(c, k) e = Erf(d) a = Add(e, one) m = Mul(c, a) n = Mul(m, h)",
    "a square": "t = Tanh(c) n = Mul(t, t)",
    "softsign": "a = Abs(c) b = Add(a, one) n = Div(c, b)",
    "two steps": "s = Sigmoid(c) m = Mul(c, s) t = LeakyRelu(m) n = Mul(t, wide)",
    "two branches": "r = Relu(c) s = Sigmoid(c) n = Mul(r, s)",
    "a residual": "s = Sigmoid(c) m = Mul(c, s) n = Add(m, c)",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_code_lies_inside_of_a_function(name: str) -> None:
    model = image(f"c = {CONV}(x, w) {FUNCTIONS[name]} y = {CONV}(n, v)")
    inside = tuple(node.name for node in list(model.graph)[1:-1])
    placement = place(model, ORT)
    assert list(placement.readers) == ["x", "c", "n", "y"]
    assert placement.chains == (inside,)
    assert placement.quantized_nodes() == {"c", "y", *inside}
    assert set(placement.readers) <= set(calibration_tensors(model))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("chosen", [1, -2])
def test_a_function_is_float_as_a_whole(name: str, chosen: int) -> None:
    model = image(f"c = {CONV}(x, w) {FUNCTIONS[name]} y = {CONV}(n, v)")
    placement = place(model, ORT, frozenset({list(model.graph)[chosen].name or ""}))
    assert placement.quantized_nodes() == {"c", "y"}
    assert list(placement.readers) == ["x", "c", "n", "y"]


@pytest.mark.parametrize(
    ("body", "coded"),
    [
        (f"s = Sigmoid(c) m = Mul(c, s) g = {CONV}(c, v) n = Add(m, g)", ["x", "c", "m", "g", "n", "y"]),
        (f"s = Sigmoid(c) m = Mul(c, s) g = {CONV}(s, v) n = Add(m, g)", ["x", "c", "s", "m", "g", "n", "y"]),
        ("p = GlobalAveragePool(c) s = Sigmoid(p) n = Mul(c, s)", ["x", "c", "p", "s", "n", "y"]),
        ("t = Tanh(x) n = Mul(c, t)", ["x", "c", "t", "n", "y"]),
    ],
    ids=["the source is read again", "an inner tensor is read again", "a gate", "two tensors"],
)
def test_what_is_read_elsewhere_or_comes_from_two_tensors_keeps_its_codes(
    body: str, coded: list[str]
) -> None:
    model = image(f"c = {CONV}(x, w) {body} y = {CONV}(n, v)")
    assert list(place(model, ORT).readers) == coded


def test_an_inner_tensor_that_leaves_the_graph_keeps_its_codes() -> None:
    body = f"c = {CONV}(x, w) s = Sigmoid(c) n = Mul(c, s) y = {CONV}(n, v)"
    model = image(body, "float[A,B,C,D] y, float[A,B,C,D] s")
    assert list(place(model, ORT).readers) == ["x", "c", "s", "n", "y"]
    assert chains(model) == ()


@pytest.mark.parametrize(
    "op", ["Erf", "Mish", "Elu", "Softplus", "Gelu", "Swish", "Sin", "Cos", "Atan", "Log", "Asinh", "Shrink"]
)
def test_ops_with_an_integer_form_as_functions_alone(op: str) -> None:
    def model(body: str, outputs: str = "float[A,B,C,D] y") -> ir.Model:
        used = {name: CONSTANTS[name] for name in "wv" if f", {name})" in body}
        return graph("float[N,4,8,8] x", outputs, body, used, opset=24)

    between = model(f"c = {CONV}(x, w) n = {op}(c) y = {CONV}(n, v)")
    assert place(between, ORT).quantized_nodes() == {"c", "n", "y"}
    assert place(between, TARGETS["tflite"]).quantized_nodes() == {"c", "y"}
    for body, coded, outputs in (
        (f"n = {op}(x) y = {CONV}(n, w)", ["n", "y"], "float[A,B,C,D] y"),
        (f"c = {CONV}(x, w) y = {op}(c)", ["x", "c"], "float[A,B,C,D] y"),
        (
            f"c = {CONV}(x, w) n = {op}(c) d = LpNormalization(n) y = {CONV}(d, v)",
            ["x", "c", "d", "y"],
            "float[A,B,C,D] y",
        ),
        (
            f"c = {CONV}(x, w) n = {op}(c) y = {CONV}(n, v) t = Sigmoid(n)",
            ["x", "c", "n", "t", "y"],
            "float[A,B,C,D] y, float[A,B,C,D] t",
        ),
    ):
        found = model(body, outputs)
        assert sorted(place(found, ORT).readers) == sorted(coded), body
        assert set(coded) <= set(calibration_tensors(found))


@pytest.mark.parametrize("body", ["y = Sigmoid(c)", "s = Sigmoid(c) y = Mul(c, s)"])
def test_an_output_may_call_its_free_sizes_as_it_likes(body: str) -> None:
    """Inference knows nothing of the name that the file gives the batch of an output."""
    for outputs in ("float[other,4,8,8] y", "float[N,4,8,8] y"):
        model = image(f"c = {CONV}(x, w) {body}", outputs)
        assert list(place(model, TARGETS["calib8"]).readers) == ["x", "y"]


def test_a_factor_that_repeats_its_tensor_is_no_function() -> None:
    """[1, 4, 8, 8] times [4, 1, 1, 1]: a size that is known is another one behind."""
    used = {"w": CONSTANTS["w"], "v": CONSTANTS["v"], "rows": normal(4, 1, 1, 1)}
    body = f"c = {CONV}(x, w) m = Mul(c, rows) t = Tanh(m) y = {CONV}(t, v)"
    model = graph("float[1,4,8,8] x", "float[4,4,8,8] y", body, used)
    assert [one.source.name for one in tensor_functions(model)] == ["m"]


def random_graph(rng: np.random.Generator) -> ir.Model:
    """Three to seven elementwise nodes between two layers; some of their tensors are outputs too."""
    values, lines = ["c"], []
    for number in range(int(rng.integers(3, 8))):
        name = f"e{number}"
        first, second = (str(rng.choice(values[-3:])) for _ in range(2))
        op = rng.choice(["Sigmoid({0})", "Mul({0}, {1})", "Add({0}, {1})", "Mul({0}, k)", "Relu({0})"])
        lines.append(f"{name} = {str(op).format(first, second)}")
        values.append(name)
    out = "float[A,B,C,D] y" + (f", float[N,4,8,8] {rng.choice(values[1:])}" if rng.random() < 0.4 else "")
    return image(f"c = {CONV}(x, w) {' '.join(lines)} y = {CONV}({values[-1]}, v)", out)


def is_function(nodes: tuple[ir.Node, ...]) -> bool:
    """The definition: one tensor is read from outside, nothing but the last result is read outside."""
    made = {node.outputs[0] for node in nodes}
    sources = {value for node in nodes for value in activation_inputs(node)} - made
    inner = made - {nodes[-1].outputs[0]}
    closed = all(not value.is_graph_output() for value in inner)
    closed = closed and all(use.node in nodes for value in inner for use in value.uses())
    producer = next(iter(sources)).producer() if len(sources) == 1 else None
    fused = producer is not None and producer.op_type in ("Conv", "Mul", "Add") and sole_relu(sources, nodes)
    return len(sources) == 1 and closed and all(value.uses() for value in inner) and not fused


def sole_relu(sources: set[ir.Value], nodes: tuple[ir.Node, ...]) -> bool:
    """Whether a layer, product or sum computes its one reader, a Relu, itself."""
    [source] = sources
    uses = list(source.uses())
    return len(uses) == 1 and not source.is_graph_output() and uses[0].node.op_type == "Relu"


@pytest.mark.parametrize("seed", range(60))
def test_functions_are_the_largest_of_all_sets_of_nodes(seed: int) -> None:
    model = random_graph(np.random.default_rng(seed))
    nodes = [node for node in model.graph if node.op_type != "Conv" and reaches(node)]
    subsets = [
        set(s) for size in range(1, len(nodes) + 1) for s in combinations(nodes, size) if is_function(s)
    ]
    largest = {frozenset(s) for s in subsets if not any(s < other for other in subsets)}
    found = [f for f in tensor_functions(model) if all(reaches(node) for node in f.nodes)]
    assert {frozenset(function.nodes) for function in found} == largest
    for function in found:
        [source] = {value for node in function.nodes for value in activation_inputs(node)} - {
            node.outputs[0] for node in function.nodes
        }
        assert function.source is source
        assert function.result is function.nodes[-1].outputs[0]


def reaches(node: ir.Node) -> bool:
    """Whether the last layer comes behind a node."""
    uses = [use.node for use in node.outputs[0].uses()]
    return any(user.op_type == "Conv" or reaches(user) for user in uses)


@pytest.mark.parametrize("places", [(1, 1, 8, 8), (1, 4, 8, 8), (8, 8)])
def test_positions_are_no_function_where_an_engine_makes_tables(places: tuple[int, ...]) -> None:
    """A target that computes functions from tables adds the codes of the constant; others join the nodes."""
    model = graph(
        "float[N,4,8,8] x",
        "float[A,B,C,D] y",
        f"c = {CONV}(x, w) m = Sigmoid(c) p = Add(m, places) n = Tanh(p) y = {CONV}(n, v)",
        {"w": CONSTANTS["w"], "v": CONSTANTS["v"], "places": normal(*places)},
    )
    assert place(model, ORT).chains == (("m", "p", "n"),)
    placement = place(model, TARGETS["calib8"])
    assert placement.chains == (("m",),) and {"p", "n"} <= placement.quantized_nodes()
    assert {"m", "p", "n"} <= set(placement.readers) <= set(calibration_tensors(model))
