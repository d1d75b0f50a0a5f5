"""States of streaming models: declared, stored, found by names or by layers; none where it is not sure."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from calib8.errors import ModelError, UsageError
from calib8.model.load import load_model
from calib8.model.metadata import write_metadata
from calib8.model.states import found_states, moved_from, states_of, stored_states, write_states
from small_models import onnx_model
from stream_nets import streaming


def ports(inputs: str, outputs: str) -> onnx.ModelProto:
    """A model with these ports that computes each output from the input at its place."""
    names = [part.split()[-1] for part in inputs.split(", ")]
    results = [part.split()[-1] for part in outputs.split(", ")]
    zeros = {
        f"z{place}": np.zeros(_sizes(part), np.float32) for place, part in enumerate(outputs.split(", "))
    }
    body = " ".join(
        f"m{i} = ReduceMean<keepdims=0>({names[i % len(names)]}) {to} = Add(z{i}, m{i})"
        for i, to in enumerate(results)
    )
    return onnx_model(inputs, outputs, body, zeros)


def _sizes(port: str) -> list[int]:
    return [int(size) for size in port.split("[")[1].split("]")[0].split(",")]


@pytest.mark.parametrize(
    ("inputs", "outputs", "pairs"),
    [
        ("float[1,4] x, float[2,1,8] state", "float[1,4] y, float[2,1,8] stateN", {"state": "stateN"}),
        ("float[1,4] x, float[1,8] h, float[1,8] c", "float[1,4] y, float[1,8] hn, float[1,8] cn",
         {"h": "hn", "c": "cn"}),
        ("float[1,4] x, float[1,8] h_in", "float[1,4] y, float[1,8] h_out", {"h_in": "h_out"}),
        ("float[1,4] x, float[1,8] prev_hidden", "float[1,4] y, float[1,8] next_hidden",
         {"prev_hidden": "next_hidden"}),
        ("float[1,4] x, float[1,8] conv_cache", "float[1,4] y, float[1,8] conv_cache_out",
         {"conv_cache": "conv_cache_out"}),
        ("float[1,4] x, float[1,8] state", "float[1,4] y, float[1,9] stateN", {}),  # another size
        ("float[1,4] image_in", "float[1,4] image_out", {}),
        ("float[1,4] state", "float[1,4] stateN", {}),  # nothing would be fed
        ("float[1,4] a, float[1,4] b", "float[1,4] y, float[1,4] z", {}),
        ("float[1,4] x, float[1,8] mask_in", "float[1,4] y, float[1,8] mask_out", {}),
    ],
)  # fmt: skip
def test_names_tell_states(inputs: str, outputs: str, pairs: dict[str, str]) -> None:
    assert found_states(load_model(ports(inputs, outputs))) == pairs


def test_layers_tell_states_whatever_they_are_called() -> None:
    model = load_model(streaming("input_3", "tf_op_layer_stack_2"))
    assert found_states(model) == {"input_3": "tf_op_layer_stack_2"}
    assert found_states(load_model(streaming("input_3", "z", z=[2, 1, 4]))) == {"input_3": "z"}


def plain_lstm(
    h: str = "b", c: str = "d", h_out: str = "f", c_out: str = "g", more: str = ""
) -> onnx.ModelProto:
    """An LSTM layer whose states go in and come out as the standard has them: of h and c apart."""
    rng = np.random.default_rng(0)
    return onnx_model(
        f"float[1,1,4] a, float[1,1,3] {h}, float[1,1,3] {c}{', float[1,1,3] cache_in' if more else ''}",
        f"float[1,1,1,3] e, float[1,1,3] {h_out}, float[1,1,3] {c_out}"
        f"{', float[1,1,3] cache_out' if more else ''}",
        f"e, {h_out}, {c_out} = LSTM<hidden_size=3>(a, w, r, , , {h}, {c}) {more}",
        {
            "w": rng.standard_normal((1, 12, 4), np.float32),
            "r": rng.standard_normal((1, 12, 3), np.float32),
        },
    )


def test_h_and_c_of_one_layer_are_told_apart() -> None:
    assert found_states(load_model(plain_lstm())) == {"b": "f", "d": "g"}
    crossed = plain_lstm()
    del crossed.graph.output[2]
    assert found_states(load_model(crossed)) == {"b": "f"}


@pytest.mark.parametrize(
    ("outputs", "told"),
    [
        (("hn", "cn"), {"h": "hn", "c": "cn"}),
        (("cn", "hn"), {"h": "cn", "c": "hn"}),  # called the other way round
        (("hn", "z"), {"h": "hn", "c": "z"}),  # one of them has a telling name
        (("z", "hn"), {"h": "z", "c": "hn"}),  # and it is that of the other
    ],
)
def test_layers_win_over_names(outputs: tuple[str, str], told: dict[str, str]) -> None:
    assert found_states(load_model(plain_lstm("h", "c", *outputs))) == told
    more = plain_lstm("h", "c", *outputs, more="cache_out = Relu(cache_in)")
    assert found_states(load_model(more)) == {**told, "cache_in": "cache_out"}  # names tell the others


def test_declared_states_win_and_none_are_none() -> None:
    model = load_model(streaming())
    assert states_of(model, {}) == {}
    assert states_of(model, None) == {"state": "stateN"}
    for asked, told in (
        ({"s": "stateN"}, "'s' is not an input of streaming. Inputs are x, state"),
        ({"state": "z"}, "'z' is not an output of streaming. Outputs are y, stateN"),
        ({"state": "y"}, "cannot be fed with y: float32 1×2"),
        ({"state": "stateN", "x": "y"}, "cannot be fed with"),
    ):
        with pytest.raises(UsageError) as caught:
            states_of(model, asked)
        assert told in str(caught.value)
    other = load_model(ports("float[1,4] a, float[1,4] b", "float[1,4] y, float[1,4] z"))
    assert states_of(other, {"a": "z"}) == {"a": "z"}
    with pytest.raises(UsageError, match="with one output"):
        states_of(other, {"a": "z", "b": "z"})
    with pytest.raises(UsageError, match="leaves no input"):
        states_of(other, {"a": "y", "b": "z"})


def test_stored_states_and_broken_ones() -> None:
    model = load_model(ports("float[1,4] a, float[1,4] b", "float[1,4] y, float[1,4] z"))
    write_states(model, {"a": "z"})
    assert states_of(model, None) == stored_states(model, "m") == {"a": "z"}
    for text in ('{"a": "q"}', "[1]", "{", '{"a": 1}'):
        write_metadata(model, {"state": text})
        with pytest.raises(ModelError, match="m: its metadata tell states"):
            stored_states(model, "m")


def test_many_paths_and_long_chains_are_walked_once() -> None:
    doubled = "c0 = Identity(x) " + " ".join(
        f"s{i} = Slice(c{i}, from, to, axis) c{i + 1} = Concat<axis=0>(s{i}, s{i})" for i in range(40)
    )
    long = " ".join(
        f"{'y' if i == 1500 else f'i{i}'} = Identity({f'i{i - 1}' if i else 'c40'})" for i in range(1501)
    )
    constants = {"from": np.array([0]), "to": np.array([1]), "axis": np.array([0])}
    model = load_model(
        onnx_model("float[1,3] x, float[1,3] h", "float[A,B] y", f"{doubled} {long}", constants)
    )
    (output,) = model.graph.outputs
    assert [value.name for value in moved_from(output) if value.is_graph_input()] == ["x"]
