"""Random graphs with quantizers in random places and float nodes among them give the right numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qdq_nets import Net, lowered, random_feeds

from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile
from small_models import run

Tensor = tuple[str, tuple[int, ...]]
SCALES = (0.04, 0.05, 0.06)
TOLERANCE = 0.5
"""A code is at most 0.06 wide, and some layers add several wrong ones up."""

POINTWISE = (
    "Relu ({0})", "Sigmoid ({0})", "HardSwish ({0})", "Clip ({0}, {low}, {high})", "Add ({0}, {row})",
    "Mul ({column}, {0})", "CumSum ({0}, {axis})", "Softmax <axis = 0> ({0})", "Neg ({0})", "Sin ({0})",
)  # fmt: skip
IMAGE = (
    ("Conv <group = {c}, pads = [1, 1, 1, 1]> ({0}, {depthwise})", lambda n, c, h, w: (n, c, h, w)),
    ("Conv ({0}, {pointwise})", lambda n, c, h, w: (n, 3, h, w)),
    ("MaxPool <kernel_shape = [2, 2], pads = [1, 1, 0, 0]> ({0})", lambda n, c, h, w: (n, c, h, w)),
    ("AveragePool <kernel_shape = [1, 1]> ({0})", lambda n, c, h, w: (n, c, h, w)),
    ("GlobalAveragePool ({0})", lambda n, c, h, w: (n, c, 1, 1)),
    ('Resize <mode = "nearest"> ({0}, , {double})', lambda n, c, h, w: (n, c, 2 * h, w)),
    ("ReduceMax <axes = [1]> ({0})", lambda n, c, h, w: (n, 1, h, w)),
    ("MatMul ({0}, {matrix})", lambda n, c, h, w: (n, c, h, 4)),
)


class Growing:
    """A graph that grows node by node from one image in codes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.net = Net(draw(st.integers(0, 1000)))
        self.tensors: list[Tensor] = [(self.net.coded("x", 0.05, 120), (1, 4, 6, 6))]

    def add(self) -> None:
        name, shape = self.draw(st.sampled_from(self.tensors[-3:]))
        kinds = [self.pointwise, self.pair, self.move, self.picture]
        made = self.draw(st.sampled_from(kinds[: 4 if len(shape) == 4 else 3]))(name, shape)
        if math.prod(made[1]) > 4000:
            return
        role = self.draw(st.sampled_from(["coded", "coded", "both", "float"]))
        if role != "coded":
            self.tensors.append(made)
        if role != "float":
            scale, zero = self.draw(st.sampled_from(SCALES)), self.draw(st.sampled_from([100, 128]))
            self.tensors.append((self.net.coded(made[0], scale, zero), made[1]))

    def pointwise(self, name: str, shape: tuple[int, ...]) -> Tensor:
        net = self.net
        constants = {
            "low": net.constant(-1.0),
            "high": net.constant(1.7),
            "row": net.constant(net.rng.normal(size=shape[-1])),
            "column": net.constant(net.rng.uniform(0.5, 1, (shape[0], *(1,) * (len(shape) - 1)))),
            "axis": net.constant(len(shape) - 1, np.int64),
        }
        return net.op(self.draw(st.sampled_from(POINTWISE)).format(name, **constants)), shape

    def pair(self, name: str, shape: tuple[int, ...]) -> Tensor:
        other = self.draw(st.sampled_from([tensor for tensor in self.tensors if tensor[1] == shape]))[0]
        op = self.draw(st.sampled_from(["Add", "Sub", "Mul", "Max", "Min"]))
        return self.net.op(f"{op} ({name}, {other})"), shape

    def move(self, name: str, shape: tuple[int, ...]) -> Tensor:
        net, axis = self.net, self.draw(st.integers(0, len(shape) - 1))
        kind = self.draw(st.sampled_from(["transpose", "reshape", "slice", "gather", "concat"]))
        if kind == "transpose":
            axes = self.draw(st.permutations(range(len(shape))))
            return net.op(f"Transpose <perm = {list(axes)}> ({name})"), tuple(shape[a] for a in axes)
        if kind == "reshape":
            sizes = (*shape[:axis], 1, *shape[axis:]) if len(shape) < 4 else (shape[0] * shape[1], *shape[2:])
            return net.op(f"Reshape ({name}, {net.constant(sizes, np.int64)})"), sizes
        if kind == "slice":
            start, end, where = (net.constant([value], np.int64) for value in (-2, 1000, axis))
            size = min(2, shape[axis])
            return net.op(f"Slice ({name}, {start}, {end}, {where})"), (
                *shape[:axis],
                size,
                *shape[axis + 1 :],
            )
        if kind == "gather":
            indices = net.constant([0, shape[axis] - 1, 0], np.int64)
            return net.op(f"Gather <axis = {axis}> ({name}, {indices})"), (
                *shape[:axis],
                3,
                *shape[axis + 1 :],
            )
        other = self.draw(st.sampled_from([tensor for tensor in self.tensors if tensor[1] == shape]))[0]
        size = 2 * shape[axis]
        return net.op(f"Concat <axis = {axis}> ({name}, {other})"), (*shape[:axis], size, *shape[axis + 1 :])

    def picture(self, name: str, shape: tuple[int, ...]) -> Tensor:
        net = self.net
        text, result = self.draw(st.sampled_from(IMAGE))
        constants = {
            "depthwise": lambda: net.weight(shape[1], 1, 3, 3),
            "pointwise": lambda: net.weight(3, shape[1], 1, 1),
            "matrix": lambda: net.weight(shape[3], 4, axis=1),
            "double": lambda: net.constant([1, 1, 2, 1]),
        }
        used = {key: make() for key, make in constants.items() if f"{{{key}}}" in text}
        return net.op(text.format(name, c=shape[1], **used)), result(*shape)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("profile", PROFILES)
@settings(max_examples=40)
@given(data=st.data())
def test_random_graphs(profile: Profile, data: st.DataObject) -> None:
    growing = Growing(data.draw)
    for _ in range(data.draw(st.integers(2, 8))):
        growing.add()
    outputs = dict.fromkeys(name for name, _ in growing.tensors[-2:])
    proto = growing.net.proto("float[1,4,6,6] x", *outputs)
    program = lowered(proto, profile)
    feeds = random_feeds(program, 1, 1.5)
    for expected, got in zip(run(proto, feeds), run_program(program, feeds), strict=True):
        assert expected.shape == got.shape
        span = max(1.0, float(np.abs(expected).max()) / 4)
        assert np.abs(expected.astype(np.float64) - got).max() <= TOLERANCE * span
