"""Faults of recurrent layers, and what the verifier has to say of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from example_programs import floats, with_slot, with_step
from planting import Fault, of, slot, step

from calib8.program.program import Program
from calib8.program.rules import CellFunction

NAME = "Recurrent"
SIGMOID = CellFunction("Sigmoid")


def lacking_lengths(program: Program) -> Program:
    """It reads a slot that it does not name."""
    return with_step(program, extras=("h", "c"))


def deep(program: Program) -> Program:
    """More inputs than a sum may have."""
    weight = np.zeros((2, 16, (1 << 16) + 1), np.int8)
    return with_step(with_slot(program, 0, shape=(3, 2, weight.shape[2])), weight=weight)


def as_gru(program: Program) -> Program:
    """Three gates of what were four, and nothing that only an LSTM has."""
    layer = program.instructions[0]
    parts = ("weight", "weight_scale", "recurrent", "recurrent_scale", "bias")
    cut = {part: getattr(layer, part)[:, :12].copy() for part in parts}
    gru = with_step(
        with_slot(program, 4, shape=(4, 2, 2, 4)),
        **cut,
        cell="GRU",
        peephole=floats(),
        functions=(SIGMOID,) * 4,
    )
    without_c = replace(gru, slots=(*gru.slots[:2], *gru.slots[3:]), inputs=(*gru.inputs[:2], gru.inputs[3]))
    ports = tuple(replace(port, slot=number) for number, port in enumerate(without_c.inputs))
    outputs = (replace(without_c.outputs[0], slot=3),)
    gru = replace(without_c, inputs=ports, outputs=outputs)
    return with_step(gru, inputs=(0, 1, 2), outputs=(3,), extras=("h", "lengths"))


def gru_with(**changes: object) -> Fault:
    problem = str(changes.pop("problem"))
    return of(lambda program: with_step(as_gru(program), **changes), problem, NAME)


def lost_scale(kind: str, value: float) -> Fault:
    scale = np.ones((2, 16), np.float32)
    scale[1, 3] = value
    return step(NAME, rf"scale {np.float32(value)} of a", **{f"{kind}_scale": scale})


PARAMETERS = [
    of(lacking_lengths, "reads 4 slots. It reads x, h, c", NAME),
    slot(NAME, 0, r"reads float32 of shape \[3, 2, 5, 1\]. Sequences are float32", shape=(3, 2, 5, 1)),
    slot(NAME, 0, r"reads int32 of shape \[3, 2, 5\]", dtype="int32"),
    slot(
        NAME, 1, r'reads h from "h", float32 of shape \[2, 2, 5\]. It is float32 \[2, 2, 4\]', shape=(2, 2, 5)
    ),
    slot(NAME, 2, 'reads c from "c", int32', dtype="int32"),
    slot(NAME, 3, r'reads lengths from "lengths", float32 of shape \[2\]', dtype="float32"),
    step(NAME, r"recurrent weights of shape \[2, 16\]", recurrent=np.zeros((2, 16), np.int8)),
    step(NAME, r"has weights of shape \[2, 16, 4\]. Give \[2, 16, 5\]", weight=np.zeros((2, 16, 4), np.int8)),
    step(NAME, "has recurrent weights of shape", recurrent=np.zeros((1, 16, 4), np.int8)),
    step(NAME, r"has scales of weights of shape \[16\]", weight_scale=np.ones(16, np.float32)),
    step(NAME, r"has scales of recurrent weights of shape \[1\]", recurrent_scale=floats(1)),
    step(NAME, r"has biases of shape \[1\]", bias=floats(1)),
    step(NAME, r"has inner biases of shape \[2, 4\]. Give \[0\]", inner_bias=np.zeros((2, 4), np.float32)),
    step(NAME, r"has peepholes of shape \[3\]. Give \[2, 12\] or \[0\]", peephole=floats(1, 1, 1)),
    step(NAME, "has 5 functions. Give 6", functions=(SIGMOID,) * 5),
    step(NAME, "reads h, lengths, c. Each once", inputs=(0, 1, 3, 2), extras=("h", "lengths", "c")),
    step(
        NAME, "is a LSTM and has its reset behind", reset_after=True, inner_bias=np.zeros((2, 4), np.float32)
    ),
    gru_with(coupled=True, problem="is a GRU and has coupled gates"),
    gru_with(peephole=np.zeros((2, 12), np.float32), problem=r"peepholes of shape \[2, 12\]. Give \[0\]"),
    gru_with(reset_after=True, problem=r"inner biases of shape \[0\]. Give \[2, 4\]"),
    of(deep, "adds 65537 products. The limit is 65536", NAME),
    step(NAME, "has the weight -128", weight=np.full((2, 16, 5), -128, np.int8)),
    step(NAME, "has the recurrent weight -128", recurrent=np.full((2, 16, 4), -128, np.int8)),
    lost_scale("weight", 0.0),
    lost_scale("weight", np.nan),
    lost_scale("recurrent", np.inf),
    lost_scale("recurrent", -1.0),
    step(NAME, "has the bias nan", bias=np.full((2, 16), np.nan, np.float32)),
    step(NAME, "has the peephole inf", peephole=np.full((2, 12), np.inf, np.float32)),
    step(NAME, "has the number 0.1", clip=0.1),
    step(NAME, "has the number 1e\\+300", functions=(CellFunction("Affine", 1e300, 0.0),) * 6),
    step(NAME, "clips at -1", clip=-1.0),
]
