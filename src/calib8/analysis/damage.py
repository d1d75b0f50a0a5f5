"""What each layer alone does to the outputs: all of the model in float but the codes of one layer.

weights    only the codes of its weight and bias
codes      only the codes of the tensor that it yields
both       weights and codes of that layer

The figures are SQNR of the float outputs in dB against the graph without any codes, the mean of a typical
and a total one, the worst branch of the outputs first (``calib8.autorange.check``). All parts are judged in
one sweep (``calib8.analysis.sweep``); where the graph does not allow that, in a session for each
(``Dissection.fallback`` says why). A layer is looked at on a few samples: what ranks layers is the difference
of many dB, not of tenths.

    dissection = Dissection(int8 graph, constants, float model, runs, threads)
    dissection.qualities([Part(layers, tensors), …])      any parts, one sweep; ``checks`` tells branches too
    dissection.with_floats(nodes)                         all codes but those of some nodes, one session
    damages(dissection, taps)                             three parts per tap
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import onnx_ir as ir

from calib8.analysis.counterparts import Tap
from calib8.analysis.float_nodes import float_nodes, scheme_of
from calib8.analysis.float_reference import FloatConstants, FloatReference
from calib8.analysis.partly_coded import coded_layer_names, coded_tensors, partly_coded
from calib8.analysis.sweep import SWEEP_FAULTS, part_energies
from calib8.analysis.sweep_graph import Part
from calib8.autorange.check import LARGEST_DB, Check, Expected, check_model, float_outputs, judged
from calib8.errors import ModelError
from calib8.model.runtime import Arrays, keep_quantizers
from calib8.quantization.qdq import label
from calib8.scheme import TARGETS
from calib8.tasks.branch_outputs import with_branches
from calib8.tasks.branches import Meaning
from calib8.tasks.meaning import meaning_of

FEWEST_DB: Final = 20.0
"""Without any codes the graph must be at least so near to the float model."""

NOTHING: Final = Part((), ())


@dataclass(frozen=True)
class Damage:
    """SQNR of the outputs in dB where only this has codes; None where there are no such codes.

    Attributes:
        weights: the layer's weight and bias.
        codes: the tensor that it yields.
        both: the two together.
        branches: of each branch of the outputs, the two together; empty where there is a single one.
    """

    weights: float | None
    codes: float | None
    both: float
    branches: Mapping[str, float] = field(default_factory=dict)


class Dissection:
    """An int8 graph that can be taken apart, and the outputs that it is judged by.

    Attributes:
        model: the graph.
        plain: the graph without any codes.
        scheme: the target that it was made for; that of ONNX Runtime where calib8 did not make it.
        meaning: the branches of its outputs.
        fallback: why parts were judged one by one, empty where they were swept or none was judged.
    """

    def __init__(
        self,
        model: ir.Model,
        constants: Mapping[str, FloatConstants],
        reference: ir.Model,
        runs: Sequence[Arrays],
        threads: int,
        meaning: Meaning | None = None,
    ) -> None:
        """Runs the float model, and the graph without any codes to see that it is the same function.

        Args:
            model: a QDQ graph, constants as initializers, types inferred.
            constants: what its layers compute with in the float model.
            reference: the float model, its outputs in the same order.
            runs: inputs of single runs.
            threads: for ONNX Runtime.
            meaning: the branches of the outputs; None: those that the reference shows.

        Raises:
            ModelError: the graph without codes computes something else than the float model.
        """
        self.meaning = meaning_of(reference) if meaning is None else meaning
        self.scheme = scheme_of(model) or TARGETS["onnxruntime"]
        self.model, self.constants = model, constants
        self.runs, self.threads, self.fallback = runs, threads, ""
        self.layers, self.tensors = coded_layer_names(model), coded_tensors(model)
        self.expected = Expected.of(float_outputs(reference, runs, threads), self.meaning)
        self.plain = partly_coded(model, constants, tensors=(), layers=())
        found = check_model("", self.plain, runs, self.expected, threads).sqnr_db
        if found < FEWEST_DB:
            raise ModelError(
                model.graph.name or "model",
                f"without its codes it is no longer the float model (outputs agree to {found:.1f} dB)",
                "Give the float model that it was made from",
            )
        self.bare = Expected.of(float_outputs(self.plain, runs, threads), self.meaning)

    def quality(self, part: Part) -> float:
        """SQNR of the outputs in dB where only ``part`` has codes, by a session of its own."""
        return self._check(part).sqnr_db

    def _check(self, part: Part) -> Check:
        model = self._partly(part)
        return check_model("", model, self.runs, self.bare, self.threads, configure=keep_quantizers)

    def qualities(
        self, parts: Sequence[Part], on_part: Callable[[int], None] = lambda parts: None
    ) -> tuple[float, ...]:
        """``quality`` of all parts; the arguments are those of ``checks``."""
        return tuple(check.sqnr_db for check in self.checks(parts, on_part))

    def checks(
        self, parts: Sequence[Part], on_part: Callable[[int], None] = lambda parts: None
    ) -> tuple[Check, ...]:
        """The outputs where only a part has codes, for all parts, in one sweep where that can be.

        Args:
            parts: each may name any layers and tensors.
            on_part: called with the number of parts that are done, ``len(parts)`` in all.
        """
        if not parts:
            return ()
        done = 0

        def count(number: int) -> None:
            nonlocal done
            done += number
            on_part(number)

        try:
            found = part_energies(
                with_branches(self.model, self.meaning),
                self.constants,
                parts,
                self.runs,
                [self.meaning.cut(outputs) for outputs in self.bare.outputs],
                self.threads,
                count,
            )
        except SWEEP_FAULTS as error:
            self.fallback = f"{error.subject}: {error.problem}"
            return self._one_by_one(parts, done, on_part)
        signals = self.bare.signals
        return tuple(judged("", energies, self.meaning, signals) for energies in found)

    def _one_by_one(
        self, parts: Sequence[Part], done: int, on_part: Callable[[int], None]
    ) -> tuple[Check, ...]:
        """A session for each part; so many are already said to be done."""
        found = []
        for number, part in enumerate(parts):
            found.append(self._check(part))
            on_part(1 if number >= done else 0)
        return tuple(found)

    def with_floats(self, nodes: Collection[str]) -> float:
        """SQNR of the outputs in dB, against the float model, with the named nodes in float.

        And with those that then are in float too (``calib8.analysis.float_nodes``).

        Args:
            nodes: their labels.
        """
        return self.figures(self._with_floats(nodes)).sqnr_db

    def whole(self) -> Check:
        """SQNR of the outputs, against the float model, of the int8 graph."""
        return self.figures(self._with_floats(()))

    def _with_floats(self, nodes: Collection[str]) -> ir.Model:
        floats = float_nodes(self.plain, self.scheme, nodes) if nodes else frozenset[str]()
        return partly_coded(
            self.model, self.constants, tensors=self.tensors, layers=self.layers, floats=floats
        )

    def figures(self, model: ir.Model) -> Check:
        """SQNR of the outputs, against the float model, of another int8 form of it."""
        return check_model("", model, self.runs, self.expected, self.threads)

    def _partly(self, part: Part) -> ir.Model:
        return partly_coded(self.model, self.constants, tensors=part.tensors, layers=part.layers)


def damages(
    dissection: Dissection, taps: Sequence[Tap], on_part: Callable[[int], None] = lambda parts: None
) -> tuple[Damage, ...]:
    """What every tapped layer alone does to the outputs, in the order of the taps.

    Args:
        dissection: the int8 graph.
        taps: places where it is compared.
        on_part: called with the number of parts that are done, of ``number_of_parts`` in all.
    """
    pairs = [(weight_part(dissection, tap), code_part(dissection, tap)) for tap in taps]
    parts = list(dict.fromkeys(part for pair in pairs for part in _single_and_both(*pair)))
    found = dict(zip(parts, dissection.checks(parts, on_part), strict=True))
    result = []
    for weights, codes in pairs:
        alone = [found[part].sqnr_db if part is not None else None for part in (weights, codes)]
        together = _single_and_both(weights, codes)
        check = found[together[-1]] if together else None
        branches = {} if check is None else {one.name: one.sqnr_db for one in check.branches}
        result.append(Damage(alone[0], alone[1], LARGEST_DB if check is None else check.sqnr_db, branches))
    return tuple(result)


def number_of_parts(dissection: Dissection, taps: Sequence[Tap]) -> int:
    """How many parts ``damages`` judges."""
    pairs = ((weight_part(dissection, tap), code_part(dissection, tap)) for tap in taps)
    return len({part for pair in pairs for part in _single_and_both(*pair)})


def _single_and_both(weights: Part | None, codes: Part | None) -> list[Part]:
    """Each that there is, and last the two together."""
    single = [part for part in (weights, codes) if part is not None]
    return [*single, single[0] + single[1]] if len(single) == 2 else single


def weight_part(dissection: Dissection, tap: Tap) -> Part | None:
    """The weight codes of the layer behind a tap, if it has such and a float weight to compare with."""
    name = tap.layer.node
    known = name is not None and name in dissection.layers and name in dissection.constants
    return Part((str(name),), ()) if known else None


def code_part(dissection: Dissection, tap: Tap) -> Part | None:
    """The codes of a tapped tensor."""
    return Part((), (tap.value,)) if tap.code is not None and tap.value in dissection.tensors else None


def reference_constants(
    int8: ir.Model, taps: Sequence[Tap], reference: FloatReference
) -> dict[str, FloatConstants]:
    """What the layers of the int8 graph compute with in the float model, where it has such a layer."""
    nodes = {label(node): node for node in int8.graph}
    coded, found = set(coded_layer_names(int8)), {}
    for tap in taps:
        name, output = tap.layer.node, tap.layer.reference
        if name is None or output is None or name not in coded:
            continue
        weight = nodes[name].inputs[1]
        shape = () if weight is None or weight.shape is None else tuple(weight.shape.numpy())
        constants = reference.constants(output, shape)
        if constants is not None:
            found[name] = constants
    return found
