"""What a simulated model has beside the user's modules: quantizers, layers, ranges, the state of training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import onnx_ir as ir
import torch
import torch.distributed
from torch import Tensor, nn

from calib8.calibration.decide import one_sided_power_of_two
from calib8.errors import CalibrationError
from calib8.passes.place import Placement
from calib8.passes.resolve_ranges import resolve_ranges
from calib8.qparams import QParams
from calib8.quantization.insert import activation_codes
from calib8.scheme import QuantScheme
from calib8.table import GIVEN, POWER_OF_TWO, CalibrationTable, Range, TableEntry
from calib8.training.fake_quantizer import FakeQuantizer
from calib8.training.layers import SimulatedLayer
from calib8.training.plan import Plan

Ranges: TypeAlias = Literal["moving", "fixed", "trained", "lsq"]
BatchNorms: TypeAlias = Literal["corrected", "frozen"]

RANGES: Final[tuple[Ranges, ...]] = get_args(Ranges)
BATCH_NORMS: Final[tuple[BatchNorms, ...]] = get_args(BatchNorms)


@dataclass(frozen=True)
class Recipe:
    """How ranges and BatchNorms behave in training.

    Attributes:
        ranges: ``moving`` averages of the extremes of batches; ``fixed`` as a table has them; ``trained``
            bounds (gradients of TensorFlow's FakeQuantWithMinMaxVars); ``lsq`` learned scales (of the weights
            too).
        batch_norm: ``corrected`` or ``frozen``, see ``calib8.training.layers``.
        decay: weight of what was seen before in a moving average, 0 … 1.
        delay: batches that are trained with activations in float.
    """

    ranges: Ranges
    batch_norm: BatchNorms
    decay: float
    delay: int


class PlacedGraph:
    """The prepared float graph with its placement; plain data that copies of a model share."""

    def __init__(
        self, model: ir.Model, placement: Placement, scheme: QuantScheme, keep_float: frozenset[str]
    ):
        """Holds them."""
        self.model = model
        self.placement = placement
        self.scheme = scheme
        self.keep_float = keep_float

    def __deepcopy__(self, memo: dict[int, Any]) -> PlacedGraph:
        """Nothing of it is ever changed."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: the graph as bytes."""
        return {**self.__dict__, "model": ir.to_proto(self.model).SerializeToString()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Reads what ``__getstate__`` gave."""
        self.__dict__.update(state)
        self.model = ir.from_proto(_parsed(state["model"]))

    def codes(self, table: CalibrationTable) -> dict[str, QParams]:
        """Scale and zero point of every tensor that carries Q/DQ, by the rules of the quantized graph.

        Raises:
            TableError: the table lacks a tensor.
        """
        ranges = self.ranges(table)
        return activation_codes(self.model, self.placement, ranges, self.scheme)

    def ranges(self, table: CalibrationTable) -> dict[str, Range]:
        """The range of every tensor that carries Q/DQ; those that share a scale have one ``Range`` object."""
        rounding = one_sided_power_of_two if table.power_of_two else None
        return resolve_ranges(self.model, self.placement, table, self.scheme, rounding)


def module_key(tensor: str) -> str:
    """The name of a tensor as a ModuleDict takes it: some are those of its own methods."""
    return f"{tensor}_" if hasattr(nn.ModuleDict, tensor) or tensor == "training" else tensor


def tensor_of(key: str) -> str:
    """The tensor that ``module_key`` gave a name to."""
    return key[:-1] if module_key(key[:-1]) == key else key


def _parsed(data: bytes) -> Any:
    import onnx

    return onnx.ModelProto.FromString(data)


class Simulation(nn.Module):
    """The state of simulated quantization; the part of a ``SimulatedModel`` called ``calib8``.

    Attributes:
        quantizers: tensor → what codes it.
        layers: result of a layer → the layer.
        plan: what is simulated where.
        graph: the prepared graph that decides on ranges.
        recipe: how ranges and BatchNorms behave.
        leaders: tensor → the tensor whose quantizer it uses, where learned scales are shared.
        start: the table that training started from, if any.
        steps: batches seen in training mode.
        ranged: whether ranges are known.
        frozen: whether ranges and BatchNorms are frozen.
        in_float: tensors and layers' results that the int8 model has in float after all.
    """

    def __init__(
        self,
        plan: Plan,
        graph: PlacedGraph,
        recipe: Recipe,
        start: CalibrationTable | None,
        leaders: Mapping[str, str],
    ) -> None:
        """A state in which nothing was seen yet."""
        super().__init__()
        self.plan, self.graph, self.recipe = plan, graph, recipe
        self.start, self.leaders = start, leaders
        self.quantizers = nn.ModuleDict()
        self.layers = nn.ModuleDict()
        self.steps = 0
        self.ranged = False
        self.frozen = False
        self.in_float: frozenset[str] = frozenset()

    @property
    def power_of_two(self) -> bool:
        """Whether scales are powers of two, as those of the table that training started from."""
        return self.start is not None and self.start.power_of_two

    def all_quantizers(self) -> Iterator[tuple[str, FakeQuantizer]]:
        """Tensor and what codes it, in graph order."""
        for name, quantizer in self.quantizers.items():
            assert isinstance(quantizer, FakeQuantizer)
            yield tensor_of(name), quantizer

    def all_layers(self) -> Iterator[tuple[str, SimulatedLayer]]:
        """Result and layer, in graph order."""
        for name, layer in self.layers.items():
            assert isinstance(layer, SimulatedLayer)
            yield tensor_of(name), layer

    def finish_step(self) -> None:
        """Takes in what the quantizers saw in a batch in training mode.

        ``m ← d·m + (1−d)·seen`` after the first batch, which is copied. Over several processes the extremes
        of all of them count.

        Raises:
            CalibrationError: a value was NaN or infinite; ranges and the count of batches stay as they were.
        """
        watching = [(name, one) for name, one in self.all_quantizers() if one.seen is not None]
        if watching:
            lows, highs = _extremes([one for _, one in watching])
            self._check(watching, lows, highs)
            decay = self.recipe.decay if self.ranged else 0.0
            before = torch.stack([torch.stack([one.minimum, one.maximum]) for _, one in watching]).tolist()
            for (_, one), old, low, high in zip(watching, before, lows, highs, strict=True):
                one.minimum.fill_(decay * old[0] + (1.0 - decay) * low)
                one.maximum.fill_(decay * old[1] + (1.0 - decay) * high)
                one.seen = None
            self.ranged = True
            self.put_in_force(self.graph.codes(self.table()))
        self.steps += 1
        self.refresh()

    def _check(
        self, watching: list[tuple[str, FakeQuantizer]], lows: list[float], highs: list[float]
    ) -> None:
        for (name, _), low, high in zip(watching, lows, highs, strict=True):
            if not (math.isfinite(low) and math.isfinite(high)):
                for _, one in watching:
                    one.seen = None
                raise CalibrationError(
                    f"tensor '{name}'",
                    f"holds NaN or infinite values in batch {self.steps + 1} of the training",
                    "Lower the learning rate, clip gradients, and look for NaN in the inputs",
                )

    def put_in_force(self, codes: Mapping[str, QParams]) -> None:
        """Gives every quantizer its scale and zero point."""
        for name, quantizer in self.all_quantizers():
            if name in codes:
                quantizer.scale.fill_(codes[name].scale)
                quantizer.zero_point.fill_(codes[name].zero_point)

    def refresh(self) -> None:
        """Brings what follows from the counts up to date: who rounds, who watches, who folds."""
        active = self.ranged and (self.steps >= self.recipe.delay or self.frozen)
        for name, quantizer in self.all_quantizers():
            started = self._started(name)
            given = started is not None and started.method == GIVEN
            quantizer.active = active and name not in self.in_float
            quantizer.fixed = self.frozen
            quantizer.observing = self.recipe.ranges == "moving" and not (self.frozen or given)
        for name, layer in self.all_layers():
            layer.rounded = name not in self.in_float
            layer.folded = self.frozen or self.recipe.batch_norm == "frozen"

    def table(self) -> CalibrationTable:
        """The ranges as they are now, for every tensor that carries Q/DQ.

        Raises:
            CalibrationError: no batch was seen in training mode, and there was no table to start from.
        """
        if not self.ranged:
            raise CalibrationError(
                "model",
                "no batch was seen in training mode, so no range is known",
                "Call .train() on it before the loop, or prepare it with table=",
            )
        found = {name: self._entry(name, quantizer) for name, quantizer in self.all_quantizers()}
        entries = {name: found[self.leaders.get(name, name)] for name in self.plan.readers}
        entries |= {name: entries[other] for name, other in self.plan.aliases.items()}
        model_hash = "" if self.start is None else self.start.model_hash
        return CalibrationTable(model_hash, dict(sorted(entries.items())))

    def _started(self, name: str) -> TableEntry | None:
        """The entry of a tensor in the table that training started from."""
        return None if self.start is None else self.start.entries.get(name)

    def _entry(self, name: str, quantizer: FakeQuantizer) -> TableEntry:
        started = self._started(name)
        if started is not None and (started.method == GIVEN or self.recipe.ranges == "fixed"):
            return started
        low, high = quantizer.bounds()
        found = Range(min(low, high), max(low, high))
        method = f"training: {self.recipe.ranges}" + (POWER_OF_TWO if self.power_of_two else "")
        return TableEntry(found, method, 0.0, self.steps, 0, found)

    def get_extra_state(self) -> dict[str, Any]:
        """For ``state_dict``: what is no tensor."""
        return {
            "steps": self.steps,
            "ranged": self.ranged,
            "frozen": self.frozen,
            "in_float": sorted(self.in_float),
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """From ``load_state_dict``."""
        self.steps, self.ranged = int(state["steps"]), bool(state["ranged"])
        self.frozen, self.in_float = bool(state["frozen"]), frozenset(state["in_float"])
        self.refresh()


def _extremes(quantizers: list[FakeQuantizer]) -> tuple[list[float], list[float]]:
    """Smallest and largest values of the last batch, over all processes; one synchronization for all."""
    pairs = [one.seen for one in quantizers if one.seen is not None]
    lows = torch.stack([low.float() for low, _ in pairs])
    highs = torch.stack([high.float() for _, high in pairs])
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        both: Tensor = torch.cat([-lows, highs])
        both = torch.where(torch.isnan(both), torch.full_like(both, math.inf), both)
        torch.distributed.all_reduce(both, torch.distributed.ReduceOp.MAX)
        lows, highs = -both[: len(pairs)], both[len(pairs) :]
    return lows.tolist(), highs.tolist()
