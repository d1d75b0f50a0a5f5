"""Variables of TFLite models as states: LiteRT's bits over streams, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cases_variables import streaming
from litert import RESOLVERS, litert
from single_op import quantized

import calib8
from calib8.analysis.tflite_inspect import inspect_tflite
from calib8.errors import Calib8Error, ModelError, UnsupportedModelError
from calib8.program.file import load_program, save_program
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph, Operator, Tensor
from calib8.tflite.read import parse
from calib8.tflite.write import serialize, serialize_subgraphs

Array = npt.NDArray[Any]

CODES = quantized(0.5, 3)


class LiteRtStream:
    """A model in LiteRT's reference kernels, with what it keeps between runs."""

    def __init__(self, model: bytes) -> None:
        self._runner = litert.Interpreter(
            model_content=model, experimental_op_resolver_type=RESOLVERS["reference"], num_threads=1
        )
        self._runner.allocate_tensors()

    def run(self, *inputs: Array) -> list[Array]:
        for detail, array in zip(self._runner.get_input_details(), inputs, strict=True):
            self._runner.set_tensor(detail["index"], array)
        self._runner.invoke()
        return [
            np.array(self._runner.get_tensor(each["index"])) for each in self._runner.get_output_details()
        ]


def frames(rng: np.random.Generator, graph: Graph, count: int) -> Array:
    tensor = graph.tensors[graph.inputs[0]]
    if tensor.dtype == "float32":
        return rng.normal(0, 1, (count, *tensor.shape)).astype(np.float32)
    limits = np.iinfo(tensor.dtype)
    made: Array = rng.integers(limits.min, limits.max, (count, *tensor.shape), tensor.dtype, endpoint=True)
    return made


def assert_same_stream(model: bytes, fed: Array, least: int = 0) -> None:
    """Every frame of both runtimes has LiteRT's bits; ``least``: so many different outputs come."""
    there, seen = LiteRtStream(model), set()
    sessions = {name: InferenceSession(model, runtime=name) for name in ("reference", "calib8")}
    for number, frame in enumerate(fed):
        wanted = there.run(frame)
        seen.add(wanted[0].tobytes())
        for name, session in sessions.items():
            got = session.run(None, {session.inputs[0].name: frame})
            for one, other in zip(got, wanted, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{name}, frame {number}")
    assert len(seen) >= least


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("initial", ["zeros", "random"])
def test_random_streams(dtype: str, initial: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng((28, seed))
        graph = streaming(rng, dtype, initial)
        assert_same_stream(serialize(graph), frames(rng, graph, 30))


def test_a_thousand_frames() -> None:
    rng = np.random.default_rng(18)
    graph = streaming(rng, "int8", "random")
    assert_same_stream(serialize(graph), frames(rng, graph, 1000), least=90)


def test_a_reset_stream_begins_with_the_initial_values_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    graph = streaming(rng, "int8", "random")
    fed = frames(rng, graph, 12)
    path = tmp_path / "stream.tflite"
    path.write_bytes(serialize(graph))
    calib8.compile(path, tmp_path / "stream.c8")
    save_program(lower_tflite(parse(serialize(graph))), tmp_path / "stream.c8p")
    whole = LiteRtStream(serialize(graph))
    expected = [whole.run(frame)[0] for frame in fed]
    for model in (path, tmp_path / "stream.c8", load_program(tmp_path / "stream.c8p")):
        session = InferenceSession(model)
        assert [state.name for state in session.get_states()] == ["stream_0/states", "stream_1/states"]
        for _ in range(2):
            for frame, wanted in zip(fed, expected, strict=True):
                np.testing.assert_array_equal(session.run(None, {"x": frame})[0], wanted)
            session.reset()


def test_a_state_that_is_saved_goes_on_elsewhere() -> None:
    rng = np.random.default_rng(4)
    graph = streaming(rng, "int8")
    fed, model = frames(rng, graph, 10), serialize(graph)
    whole, first, second = (InferenceSession(model) for _ in range(3))
    expected = [whole.run(None, {"x": frame})[0] for frame in fed]
    for frame in fed[:5]:
        first.run(None, {"x": frame})
    second.set_state(first.get_state())
    for frame, wanted in zip(fed[5:], expected[5:], strict=True):
        np.testing.assert_array_equal(second.run(None, {"x": frame})[0], wanted)


def test_files_come_back() -> None:
    graph = streaming(np.random.default_rng(0), "int8", "random")
    again = parse(serialize(graph))
    assert [(one.name, one.read, one.written) for one in again.states] == [
        (one.name, one.read, one.written) for one in graph.states
    ]
    for one, other in zip(again.states, graph.states, strict=True):
        np.testing.assert_array_equal(one.initial, other.initial)
    assert [one.op for one in again.operators] == [one.op for one in graph.operators]


def test_what_inspect_says(tmp_path: Path) -> None:
    path = tmp_path / "stream.tflite"
    path.write_bytes(serialize(streaming(np.random.default_rng(0), "int8")))
    found = inspect_tflite(path)
    assert [state.name for state in found.states] == ["stream_0/states", "stream_1/states"]
    assert [spec.name for spec in found.inputs] == ["x"]
    assert len(found.outputs) == 1


def test_outputs_that_need_no_state_have_none() -> None:
    model = serialize(streaming(np.random.default_rng(1), "int8"))
    names = [operator.op for operator in parse(model).operators]
    first = parse(model).tensors[parse(model).operators[names.index("CONV_2D")].outputs[0]].name
    session = InferenceSession(model, outputs=[first])
    assert [state.name for state in session.get_states()] == ["stream_0/states"]


# Models by hand: x is fed, v is a variable of four codes


def codes(name: str, **changes: Any) -> Tensor:
    return replace(Tensor(name, (1, 4), "int8", None, CODES), **changes)


def resource(name: str) -> Tensor:
    return Tensor(name, (), "resource")


def handle(place: int, name: str = "v") -> Operator:
    return Operator("VAR_HANDLE", (), (place,), {"container": "", "shared_name": name})


def read(variable: int, place: int) -> Operator:
    return Operator("READ_VARIABLE", (variable,), (place,))


def assign(variable: int, place: int) -> Operator:
    return Operator("ASSIGN_VARIABLE", (variable, place), ())


def add(one: int, other: int, place: int) -> Operator:
    return Operator("ADD", (one, other), (place,), {"fused_activation_function": "NONE"}, 2)


ONCE = Operator("CALL_ONCE", (), (), {"init_subgraph_index": 1})
TENSORS = (codes("x"), resource("v"), codes("r"), codes("y"), codes("z"), resource("w"), codes("s"))
X, V, R, Y, Z, W, S = range(7)


def main(*operators: Operator, outputs: Sequence[int] = (Y,), tensors: Sequence[Tensor] = TENSORS) -> Graph:
    return Graph(tuple(tensors), operators, (X,), tuple(outputs), "main")


def beginning(*names: str, **changes: Any) -> Graph:
    """Assigns 10, 11, 12, 13 to every variable."""
    tensors: list[Tensor] = []
    operators: list[Operator] = []
    for name in names:
        value = np.arange(10, 14, dtype=np.int8).reshape(1, 4)
        tensors += [resource(name), replace(codes("k"), **{"data": value, **changes})]
        operators += [handle(len(tensors) - 2, name), assign(len(tensors) - 2, len(tensors) - 1)]
    return Graph(tuple(tensors), tuple(operators), (), (), "NoOp")


PLAIN = (ONCE, handle(V), read(V, R), add(X, R, Y), assign(V, Y))

TWO = main(
    ONCE, handle(V), handle(W, "w"), read(V, R), read(W, S), add(X, R, Y), add(Y, S, Z), assign(V, Y),
    assign(W, Y), outputs=(Z,),
)  # fmt: skip


@pytest.mark.parametrize(
    "graph",
    {
        "what an output gives": main(*PLAIN),
        "the input of the run before": main(ONCE, handle(V), read(V, R), add(X, R, Y), assign(V, X)),
        "read again": main(*PLAIN[:3], handle(W), read(W, S), add(R, S, Y), add(X, Y, Z), assign(V, Z)),
        "read behind an assignment": main(*PLAIN, handle(W), read(W, S), add(S, X, Z), outputs=(Y, Z, S)),
        "assigned twice": main(*PLAIN, add(Y, X, Z), assign(V, Z)),
        "never assigned": main(*PLAIN[:4]),
        "never read": main(ONCE, handle(V), add(X, X, Y), assign(V, Y)),
        "assigned first": main(handle(V), add(X, X, Z), assign(V, Z), read(V, R), add(X, R, Y)),
        "one tensor for two": TWO,
        "handed from one to the other": main(
            ONCE, handle(V), handle(W, "w"), read(V, R), read(W, S), add(X, S, Y), assign(W, R), assign(V, X)
        ),
        "an output that was read": main(*PLAIN, outputs=(R, Y)),
    }.values(),
)
def test_orders_of_reading_and_assigning(graph: Graph) -> None:
    model = serialize_subgraphs([graph, beginning("v", "w")])
    if not any(operator.op == "CALL_ONCE" for operator in graph.operators):
        model = serialize_subgraphs([graph])
    fed = np.random.default_rng(0).integers(-40, 40, (8, 1, 4), np.int8)
    assert_same_stream(model, fed, least=3)


def test_a_variable_called_like_the_input() -> None:
    graph = main(ONCE, handle(V, "x"), read(V, R), add(X, R, Y), assign(V, Y))
    session = InferenceSession(serialize_subgraphs([graph, beginning("x")]))
    assert [state.name for state in session.get_states()] == ["x#2"]
    assert session.run(None, {"x": np.full((1, 4), 3, np.int8)})[0].tolist() == [[10, 11, 12, 13]]


def refused(graphs: Sequence[Graph], kind: type[Calib8Error]) -> str:
    with pytest.raises(kind) as caught:
        parse(serialize_subgraphs(graphs), "model.tflite")
    return str(caught.value)


SMALL = codes("r", shape=(1, 2))
FLOAT = codes("r", dtype="float32", quantization=None)
OTHER = codes("y", quantization=quantized(0.25, 3))
BEGUN = beginning("v")


@pytest.mark.parametrize(
    ("graphs", "kind", "text"),
    [
        ([main(*PLAIN[1:])], UnsupportedModelError, "'v': is read before anything is assigned"),
        ([main(*PLAIN), beginning("w")], UnsupportedModelError, "'v': is read before anything is assigned"),
        ([main(*PLAIN)], ModelError, "runs subgraph 1 of 1"),
        ([main(*PLAIN[1:], ONCE), BEGUN], ModelError, "stands behind operators that read or assign"),
        ([main(*PLAIN), replace(BEGUN, inputs=(0,))], ModelError, "has inputs or outputs"),
        (
            [main(*PLAIN), replace(BEGUN, operators=(*BEGUN.operators, add(1, 1, 1)))],
            UnsupportedModelError,
            "does more than to assign constants (ADD)",
        ),
        (
            [main(*PLAIN), replace(BEGUN, tensors=(BEGUN.tensors[0], codes("k")))],
            UnsupportedModelError,
            "computes 'k', what variable 'v' begins with",
        ),
        (
            [main(*PLAIN), BEGUN, BEGUN],
            UnsupportedModelError,
            "has 3 subgraphs; 'NoOp' is none that CALL_ONCE",
        ),
        ([main(*PLAIN[2:]), BEGUN], ModelError, "READ_VARIABLE reads no handle"),
        ([main(ONCE, handle(V), assign(X, Y), add(X, X, Y)), BEGUN], ModelError, "reads no handle"),
        ([main(handle(V), add(X, V, Y))], UnsupportedModelError, "reads the variable 'v' itself"),
        (
            [main(handle(V), add(X, X, Y), outputs=(V, Y))],
            UnsupportedModelError,
            "hands out the variable 'v'",
        ),
        ([main(replace(handle(V), inputs=(X,)))], ModelError, "VAR_HANDLE has 1 inputs and 1 outputs"),
        ([main(handle(99))], ModelError, "VAR_HANDLE names tensor 99 of 7"),
        (
            [main(*PLAIN), beginning("v", shape=(4,), data=np.zeros(4, np.int8))],
            UnsupportedModelError,
            "begins with shape [4] and is read with [1, 4]",
        ),
        (
            [main(*PLAIN), beginning("v", dtype="uint8", data=np.zeros((1, 4), np.uint8))],
            ModelError,
            "begins as uint8 and is read as int8",
        ),
        (
            [main(*PLAIN, tensors=(*TENSORS[:2], SMALL, *TENSORS[3:])), BEGUN],
            UnsupportedModelError,
            "begins with shape [1, 4] and is read with [1, 2]",
        ),
        (
            [main(*PLAIN, tensors=(*TENSORS[:3], OTHER, *TENSORS[4:])), BEGUN],
            UnsupportedModelError,
            "'r' and 'y', which differ in scale or zero point",
        ),
        (
            [main(*PLAIN, read(V, Z), tensors=(*TENSORS[:4], FLOAT, *TENSORS[5:])), BEGUN],
            UnsupportedModelError,
            "takes variable 'v' as int8 [1, 4] and float32 [1, 4]",
        ),
        (
            [
                main(*PLAIN[:4], assign(V, Z), tensors=(*TENSORS[:4], BEGUN.tensors[1], *TENSORS[5:])),
                BEGUN,
            ],
            UnsupportedModelError,
            "gets the constant 'k' in every run",
        ),
        ([main(*PLAIN, read(V, R)), BEGUN], ModelError, "writes the model's input 2 'r'"),
    ],
)
def test_contradictions_are_told(graphs: list[Graph], kind: type[Calib8Error], text: str) -> None:
    said = refused(graphs, kind)
    assert "model.tflite" in said
    assert text in said


def test_control_flow_is_told_by_its_subgraph() -> None:
    body = Graph((codes("a"),), (), (0,), (0,), "while_body")
    said = refused([main(add(X, X, Y)), body], UnsupportedModelError)
    assert "has 2 subgraphs; 'while_body' is none that CALL_ONCE runs" in said
    assert "Export one function of the model" in said


def test_a_state_of_a_type_that_programs_do_not_have() -> None:
    wide = {"dtype": "int64", "quantization": None}
    tensors = [replace(tensor, **wide) if tensor.dtype == "int8" else tensor for tensor in TENSORS]
    count = Operator("CAST", (Y,), (len(TENSORS),), {"in_data_type": "INT64", "out_data_type": "FLOAT32"})
    graph = main(
        *PLAIN, count, outputs=(7,), tensors=[*tensors, codes("f", dtype="float32", quantization=None)]
    )
    begun = beginning("v", **wide)
    begun = replace(
        begun, tensors=(begun.tensors[0], replace(begun.tensors[1], data=np.ones((1, 4), np.int64)))
    )
    with pytest.raises(UnsupportedModelError, match="variable 'v' holds int64"):
        lower_tflite(parse(serialize_subgraphs([graph, begun])))


def test_frames_of_another_batch() -> None:
    def freed(graph: Graph) -> Graph:
        tensors = list(graph.tensors)
        tensors[0] = replace(tensors[0], signature=(-1, *tensors[0].shape[1:]))
        return replace(graph, tensors=tuple(tensors))

    graph = freed(streaming(np.random.default_rng(0), "int8"))
    session = InferenceSession(serialize(graph))
    fed = np.zeros((2, *graph.tensors[0].shape[1:]), np.int8)
    with pytest.raises(UnsupportedModelError):
        session.run(None, {"x": fed})


def float_stream(change: Callable[[Array], Array] = lambda begun: begun) -> tuple[bytes, Graph]:
    graph = streaming(np.random.default_rng(2), "float32")
    states = tuple(replace(state, initial=change(state.initial)) for state in graph.states)
    return serialize(replace(graph, states=states)), graph


def test_float_models_are_streams_too(tmp_path: Path) -> None:
    model, graph = float_stream()
    path, fed = tmp_path / "float.tflite", frames(np.random.default_rng(3), graph, 60)
    path.write_bytes(model)
    made = calib8.quantize(path, {"x": fed[:, 0]}, target="calib8", effort="fast")
    made.save(tmp_path / "stream.onnx")
    there, here = LiteRtStream(model), InferenceSession(tmp_path / "stream.onnx")
    assert len(here.get_states()) == 2
    expected = np.stack([there.run(frame)[0] for frame in fed])
    found = np.stack([here.run(None, {"x": frame})[0] for frame in fed])
    noise = np.sum((expected - found) ** 2) / np.sum(expected**2)
    assert 10 * np.log10(noise) < -30


def test_float_models_that_begin_with_other_values_are_told(tmp_path: Path) -> None:
    path = tmp_path / "float.tflite"
    path.write_bytes(float_stream(lambda begun: begun + 1)[0])
    with pytest.raises(UnsupportedModelError, match="'stream_0/states' begins with other values than 0"):
        calib8.quantize(path, {"x": np.zeros((4, 3, 1, 6), np.float32)})
