"""What a model that calib8 made has stored of the wishes of its user, to be carried out again.

target, activations, weights, keep_float, spots,
repairs, method, power_of_two, ranges               metadata ``calib8.<name>``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import onnx_ir as ir

from calib8.analysis.model_pair import Model, open_pair
from calib8.calibration.decide import AUTO
from calib8.calibration.ranges import METHODS
from calib8.calibration.ranges.two_pass import needs_data_again
from calib8.errors import ModelError, UsageError
from calib8.json_texts import parse_json
from calib8.model.fix_inputs import Fixed
from calib8.model.metadata import PREFIX
from calib8.parameters import flag_of
from calib8.repair.repairs import ONE_OF, REPAIRS
from calib8.scheme import GRANULARITIES, TARGETS, QuantScheme, target_scheme
from calib8.table import Range

METHOD: Final = "mse"
"""The range method where a model tells none that can be asked for."""

TENGINE: Final = "tengine"
"""Target of what becomes a tmfile, which tells nothing of how it was made."""


@dataclass(frozen=True)
class Basis:
    """How a model was made, as far as that is not to change.

    Attributes:
        target: a key of ``calib8.scheme.TARGETS``.
        activations: type of the activations.
        weights: how many scales weights have, see ``calib8.scheme.GRANULARITIES``.
        method: for the ranges; ``auto`` where the user named none.
        percent: for the method ``percentile``.
        power_of_two: all scales of activations are powers of two.
        ranges: tensors of which the user gave the range.
        keep_float: names of nodes that are float.
        repairs: keys of ``calib8.repair.repairs.REPAIRS`` that were carried out.
        spots: names of tensors that were asked to have 16-bit codes.
        recurrent: how recurrent layers are computed where that is not the target's own, see
            ``calib8.scheme.RECURRENCES``.
        takes_float: nodes may stay in float, as they may not in a tmfile.
    """

    target: str = "onnxruntime"
    activations: str = "uint8"
    weights: str = "per-channel"
    method: str = METHOD
    percent: float | None = None
    power_of_two: bool = False
    ranges: tuple[tuple[str, Range], ...] = ()
    keep_float: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    spots: tuple[str, ...] = ()
    recurrent: str | None = None
    takes_float: bool = True

    def scheme(self) -> QuantScheme:
        """Target, type of the activations, scales of the weights, form of recurrent layers."""
        scheme = target_scheme(self.target).with_activations(self.activations).with_weights(self.weights)
        return scheme if self.recurrent is None else scheme.with_recurrent(self.recurrent)

    def flags(self) -> tuple[str, ...]:
        """The options of ``calib8 quantize`` that ask for it, the repairs aside."""
        found: list[str] = []
        if self.target != Basis.target:
            found += [flag_of("target"), self.target]
        if self.activations != target_scheme(self.target).activation_name:
            found += [flag_of("activations"), self.activations]
        if self.weights != Basis.weights:
            found += [flag_of("weights"), self.weights]
        if self.recurrent is not None:
            found += [flag_of("recurrent"), self.recurrent]
        if self.method != AUTO:
            found += [flag_of("method"), self.method]
        if self.percent is not None:
            found += [flag_of("percent"), repr(self.percent)]
        if self.power_of_two:
            found.append(flag_of("power_of_two"))
        for tensor, held in self.ranges:
            found += [flag_of("ranges"), f"{tensor}={held.min!r},{held.max!r}"]
        for node in self.keep_float:
            found += [flag_of("keep_float"), node]
        for tensor in self.spots:
            found += [flag_of("spots"), tensor]
        return tuple(found)

    def words(self) -> dict[str, Any]:
        """The keywords of ``calib8.quantize`` that ask for it, the repairs aside."""
        own = self.activations == target_scheme(self.target).activation_name
        said = {
            "target": None if self.target == Basis.target else self.target,
            "activations": None if own else self.activations,
            "weights": None if self.weights == Basis.weights else self.weights,
            "recurrent": self.recurrent,
            "method": None if self.method == AUTO else self.method,
            "percent": self.percent,
            "power_of_two": self.power_of_two,
            "ranges": dict(self.ranges),
            "keep_float": self.keep_float,
            "spots": self.spots,
        }
        return {name: value for name, value in said.items() if value}


def basis_of(fp32: Model, int8: Model, fix: Fixed | None = None) -> Basis:
    """How calib8 made a model; the defaults for models of other tools. ``fix``: see ``open_pair``.

    Raises:
        ModelError: what it has stored is broken.
        Calib8Error: what can be wrong with the models.
    """
    pair = open_pair(fp32, int8, fix, takes_tengine=True)
    if pair.tengine is not None:
        return Basis(TENGINE, target_scheme(TENGINE).activation_name, takes_float=False)
    stored = {key.removeprefix(PREFIX): text for key, text in pair.int8.metadata_props.items()}
    target, activations = stored.get("target", ""), stored.get("activations", "")
    if target not in TARGETS:
        return Basis()
    try:
        scheme = target_scheme(target).with_activations(activations)
    except UsageError:
        scheme = target_scheme(target)
    recurrent = stored.get("recurrent")
    recurrent = recurrent if recurrent in scheme.takes_recurrent else None
    if stored.get("weights") in GRANULARITIES:
        scheme = scheme.with_weights(stored["weights"])
    nodes = {node.name for node in pair.int8.graph}
    method, percent = _method(stored.get("method", ""))
    try:
        kept = [str(name) for name in _read(stored, "keep_float", []) if name in nodes]
        ranges = {str(name): Range(*map(float, ends)) for name, ends in _read(stored, "ranges", {}).items()}
        spots = tuple(str(name) for name in _read(stored, "spots", []))
        repairs = _repairs([str(name) for name in _read(stored, "repairs", [])])
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelError(
            pair.int8_name, f"what calib8 stored in it cannot be read ({error})", "Quantize the model again"
        ) from error
    return Basis(
        scheme.name, scheme.activation_name, scheme.weight_granularity, method, percent,
        "power_of_two" in stored, tuple(ranges.items()), tuple(kept), repairs, spots, recurrent,
    )  # fmt: skip


def ranges_given(int8: ir.Model) -> tuple[str, ...]:
    """Tensors whose range the user gave; none for models of other tools, or where that is broken."""
    text = int8.metadata_props.get(PREFIX + "ranges", "{}")
    try:
        found = parse_json(text)
    except ValueError:
        return ()
    return tuple(found) if isinstance(found, dict) else ()


def _read(stored: dict[str, str], key: str, missing: Any) -> Any:
    return parse_json(stored[key]) if key in stored else missing


def _method(text: str) -> tuple[str, float | None]:
    """``percentile 99.9`` → name and percent; ``METHOD`` for what cannot be asked for so."""
    name, _, percent = text.partition(" ")
    if name not in (AUTO, *METHODS) and not needs_data_again(name):
        return METHOD, None
    try:
        return name, float(percent) if percent else None
    except ValueError:
        return METHOD, None


def _repairs(steps: list[str]) -> tuple[str, ...]:
    """Steps that were kept, alternatives of an effort among them, as repairs that go together."""
    found = {name for name in steps if name in REPAIRS}
    for group in ONE_OF:
        found -= set([name for name in group if name in found][1:])
    return tuple(name for name in REPAIRS if name in found)
