"""States of a streaming model: inputs that read, in the next run, what an output gave in this one.

    frame ──► model ──► result
    state ──►       ──► stateN ─┐        {"state": "stateN"}
      ▲─────────────────────────┘ (next frame)

A user declares them. Without that they are found where nothing else can be meant: because the input is read
as first state of a recurrent layer and the output is its last one, or by their names, where no layer says
something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import onnx_ir as ir

from calib8.errors import ModelError, UsageError
from calib8.json_texts import parse_json
from calib8.model.graph import tensor_spec
from calib8.model.metadata import stored_entries, write_metadata
from calib8.ops.groups import ARRANGING_OPS, FIRST_STATES, RECURRENT
from calib8.tensors import TensorSpec, check_states, may_be_alike

States: TypeAlias = Mapping[str, str]
"""Input → output that feeds it in the next run."""

STATE: Final = "state"
"""Entry of the metadata."""

WORDS: Final = frozenset(
    ("state", "states", "h", "c", "hidden", "cell", "memory", "mem", "cache", "buffer", "context", "past")
)
"""One of them is a part of every name that tells a state by itself."""

BEFORE: Final = frozenset(("in", "input", "prev", "previous", "initial", "init", "old", "past", "0"))
AFTER: Final = frozenset(("out", "output", "n", "new", "next", "final", "last", "updated", "present"))
"""Parts that the names of an input and of the output that feeds it do not share."""

MOVES: Final = ARRANGING_OPS | {"Identity", "Gather"}
"""Ops that hand values on: between the ends of a model and its recurrent layers."""

LAST_STATES: Final = (1, 2)
"""Places of the states among the outputs of a recurrent node, h and c, as those of ``FIRST_STATES``."""

Held: TypeAlias = frozenset[tuple[ir.Node, int]]
"""States that a tensor holds: of which layers, and which of theirs (0 for h, 1 for c)."""


def states_of(model: ir.Model, asked: States | None) -> dict[str, str]:
    """The states of a model.

    Args:
        model: a float model.
        asked: those that a user declares, an empty mapping for none; None: those that the model has stored,
            or that are found.

    Raises:
        UsageError: declared states that cannot be.
    """
    if asked is not None:
        _check(model, asked, model.graph.name or "the model")
        return dict(asked)
    return dict(stored_states(model, model.graph.name or "model")) or found_states(model)


def are_told(model: ir.Model, asked: States | None) -> bool:
    """Whether the states of ``states_of`` are declared or stored, and not merely found.

    Raises:
        ModelError: those that are stored are broken.
    """
    return asked is not None or bool(stored_states(model, model.graph.name or "model"))


def write_states(model: ir.Model, states: States) -> None:
    """Stores them in the metadata of the model; none are not stored."""
    if states:
        write_metadata(model, {STATE: json.dumps(dict(states))})


def stored_states(model: ir.Model, name: str) -> States:
    """What ``write_states`` stored.

    Raises:
        ModelError: it is broken; ``name`` is what to call the model.
    """
    text = stored_entries(model).get(STATE)
    if text is None:
        return {}
    try:
        found = parse_json(text)
        if not (isinstance(found, dict) and all(isinstance(one, str) for one in found.values())):
            raise ValueError(text)
        _check(model, found, name)
    except (ValueError, UsageError) as error:
        problem = f"its metadata tell states that it does not have ({text:.60})"
        raise ModelError(name, problem, "Make it again from the float model") from error
    return found


def found_states(model: ir.Model) -> dict[str, str]:
    """States that nobody declared, where nothing else can be meant; at least one input is none."""
    reads, writes = _specs(model.graph.inputs), _specs(model.graph.outputs)
    pairs = _by_layers(model, reads, writes)
    carried = set(pairs.values())
    for read, written in _by_name(reads, writes).items():
        if written not in carried:
            pairs.setdefault(read, written)
    return {read: pairs[read] for read in reads if read in pairs} if len(pairs) < len(reads) else {}


def _specs(values: Iterable[ir.Value]) -> dict[str, TensorSpec]:
    return {value.name or "": tensor_spec(value) for value in values}


def _check(model: ir.Model, states: States, name: str) -> None:
    reads, writes = _specs(model.graph.inputs), _specs(model.graph.outputs)
    check_states(states, tuple(reads.values()), tuple(writes.values()), name)


def _by_name(reads: Mapping[str, TensorSpec], writes: Mapping[str, TensorSpec]) -> dict[str, str]:
    """Pairs whose names say so: ``state`` and ``stateN``, ``h_in`` and ``h_out``."""
    before, after = _stems(reads, BEFORE), _stems(writes, AFTER)
    return {
        read: after[stem]
        for stem, read in before.items()
        if stem in after and may_be_alike(reads[read], writes[after[stem]])
    }


def _stems(names: Iterable[str], left_out: frozenset[str]) -> dict[str, str]:
    """What is left of each name without the parts that tell before and after → the name; not twice."""
    found: dict[str, list[str]] = {}
    for name in names:
        parts = _parts(name)
        stem = [part for part in parts if part not in left_out] or parts
        if WORDS & set(stem):
            found.setdefault(" ".join(stem), []).append(name)
    return {stem: same[0] for stem, same in found.items() if len(same) == 1}


def _parts(name: str) -> list[str]:
    """``decoder.stateN`` → decoder, state, n; ``hn`` → h, n."""
    parts = [one.lower() for one in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    return [piece for part in parts for piece in (("h", "n") if part == "hn" else _cell(part))]


def _cell(part: str) -> tuple[str, ...]:
    return ("c", "n") if part == "cn" else (part,)


def _by_layers(
    model: ir.Model, reads: Mapping[str, TensorSpec], writes: Mapping[str, TensorSpec]
) -> dict[str, str]:
    """Pairs of the first and the last states of the same recurrent layers, with nothing but moves between."""
    layers = [node for node in model.graph if node.op_type in RECURRENT and node.domain == ""]
    begun: dict[Held, list[str]] = {}
    ended: dict[Held, list[str]] = {}
    for found, sides in ((begun, _begun(layers)), (ended, _ended(model, set(layers)))):
        for name, held in sides.items():
            found.setdefault(frozenset(held), []).append(name)
    pairs = {}
    for same, names in begun.items():
        others = ended.get(same, [])
        if len(names) == len(others) == 1 and may_be_alike(reads[names[0]], writes[others[0]]):
            pairs[names[0]] = others[0]
    return pairs


def _begun(layers: Iterable[ir.Node]) -> dict[str, set[tuple[ir.Node, int]]]:
    """Graph input → first states of recurrent layers that it holds."""
    found: dict[str, set[tuple[ir.Node, int]]] = {}
    for node in layers:
        for state, place in enumerate(FIRST_STATES):
            value = node.inputs[place] if place < len(node.inputs) else None
            for source in () if value is None else moved_from(value):
                if source.is_graph_input():
                    found.setdefault(source.name or "", set()).add((node, state))
    return found


def _ended(model: ir.Model, layers: set[ir.Node]) -> dict[str, set[tuple[ir.Node, int]]]:
    """Graph output → last states of recurrent layers that it holds, and nothing else."""
    found: dict[str, set[tuple[ir.Node, int]]] = {}
    for value in model.graph.outputs:
        sources = [one for one in moved_from(value) if one.const_value is None]
        held = {
            (node, LAST_STATES.index(place))
            for one in sources
            if (node := one.producer()) in layers and (place := one.index()) in LAST_STATES
        }
        if sources and len(held) == len(set(sources)):
            found[value.name or ""] = held
    return found


def moved_from(value: ir.Value) -> Iterator[ir.Value]:
    """Where values come from, behind ops that only hand them on; sizes and indices apart."""
    waiting, seen = [value], {value}
    while waiting:
        one = waiting.pop()
        producer = one.producer()
        if producer is None or producer.op_type not in MOVES:
            yield one
            continue
        read = producer.inputs if producer.op_type == "Concat" else producer.inputs[:1]
        new = dict.fromkeys(other for other in read if other is not None and other not in seen)
        seen.update(new)
        waiting += reversed(new)
