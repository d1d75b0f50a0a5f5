"""An int8 graph of which parts alone have codes, judged by its outputs.

The figures are SQNR of the float outputs in dB against the graph without any codes, the mean of a typical
and a total one, the worst branch of the outputs first (``calib8.autorange.check``). All parts are judged in
one sweep (``calib8.dissection.sweep``); where the graph does not allow that, in a session for each
(``Dissection.fallback`` says why). A few samples do: what ranks parts is the difference of many dB, not of
tenths.

    dissection = Dissection(int8 graph, constants, float model, runs, threads)
    dissection.qualities([Part(layers, tensors), …])      any parts, one sweep
    dissection.with_floats(nodes)                         all codes but those of some nodes, one session
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Final

import onnx_ir as ir

from calib8.autorange.check import Check, Expected, check_model, float_outputs, judged
from calib8.dissection.float_constants import FloatConstants
from calib8.dissection.float_nodes import float_nodes, scheme_of
from calib8.dissection.part_identity import Identities, Known
from calib8.dissection.partly_coded import coded_layer_names, coded_tensors, partly_coded
from calib8.dissection.sweep import SWEEP_FAULTS, part_energies
from calib8.dissection.sweep_graph import Part
from calib8.errors import ModelError
from calib8.model.runtime import Arrays, keep_quantizers
from calib8.scheme import TARGETS
from calib8.tasks.branch_outputs import with_branches
from calib8.tasks.branches import Meaning
from calib8.tasks.meaning import meaning_of

FEWEST_DB: Final = 20.0
"""Without any codes the graph must be at least so near to the float model."""


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
        known: Known | None = None,
    ) -> None:
        """Runs the float model, and the graph without any codes to see that it is the same function.

        Args:
            model: a QDQ graph, constants as initializers, types inferred.
            constants: what its layers compute with in the float model.
            reference: the float model, its outputs in the same order.
            runs: inputs of single runs.
            threads: for ONNX Runtime.
            meaning: the branches of the outputs; None: those that the reference shows.
            known: figures of other int8 graphs of the same float model, judged by the same branches; new ones
                are added. None: every part is judged.

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
        self._known = known
        if known is not None:
            self._identities = Identities(model)
            always = (
                (name, self._identities.of_layer(name)) for name in self.layers if name not in constants
            )
            self._place = known.of(reference, runs, tuple(always))

    def quality(self, part: Part) -> float:
        """SQNR of the outputs in dB where only ``part`` has codes, by a session of its own."""
        return self._check(part).sqnr_db

    def _check(self, part: Part) -> Check:
        model = self._partly(part)
        return check_model("", model, self.runs, self.bare, self.threads, configure=keep_quantizers)

    def qualities(
        self, parts: Sequence[Part], on_part: Callable[[int], None] = lambda parts: None
    ) -> tuple[float, ...]:
        """``quality`` of all parts, in one sweep where that can be.

        Args:
            parts: each may name any layers and tensors.
            on_part: called with the number of parts that are done, ``len(parts)`` in all.
        """
        return tuple(check.sqnr_db for check in self.checks(parts, on_part))

    def checks(
        self, parts: Sequence[Part], on_part: Callable[[int], None] = lambda parts: None
    ) -> tuple[Check, ...]:
        """The figures of ``qualities`` with those of each branch; the same arguments."""
        if self._known is None:
            return self._judged(parts, on_part)
        keys: list[Hashable] = [(self._place, self._identities.of(part)) for part in parts]
        new = {key: part for key, part in zip(keys, parts, strict=True) if key not in self._known.checks}
        self._known.checks |= zip(new, self._judged(tuple(new.values()), on_part), strict=True)
        if len(new) < len(parts):
            on_part(len(parts) - len(new))
        return tuple(self._known.checks[key] for key in keys)

    def _judged(self, parts: Sequence[Part], on_part: Callable[[int], None]) -> tuple[Check, ...]:
        """The figures of parts that are not known, in one sweep where that can be."""
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

        And with those that then are in float too (``calib8.dissection.float_nodes``).

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
