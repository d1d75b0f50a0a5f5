"""Which equalization reaches a tensor whose channels differ: it depends on the functions beside it.

layer ─► t ─► Relu, PRelu … ─► layer          factors go through: cle and the like
layer ─► t ─► SiLU, HardSwish … ─► v ─► layer      a function takes them away before it, and gives them
                                               behind it: equalize-through, where layers alone read v
layer ─► SiLU ─► v ─► Concat, Add …           nothing does: float
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from calib8.model.graph import constant
from calib8.ops.questions import divides, multiplies
from calib8.passes.channel_classes import HOMOGENEOUS
from calib8.passes.functions import TensorFunction, feeding_weights, tensor_functions

Repairs = tuple[tuple[str, ...], ...]

FREELY: Final = "Equalize the layers around it"
THROUGH: Final = "Equalize it through the function beside it: its factors are taken away inside"
NOT_AT_ALL: Final = "No factor gets through the function beside it: keep it in float"

_FREE: Final[Repairs] = (("cle", "bias"), ("equalize-activations-wide", "bias"))
_INSIDE: Final[Repairs] = (("equalize-through", "bias"),)


@dataclass(frozen=True)
class Equalizing:
    """What helps a tensor, as a ``Reason`` says it.

    Attributes:
        advice: one sentence.
        repairs: alternatives; empty where there is none.
    """

    advice: str
    repairs: Repairs


def equalizing(model: ir.Model) -> dict[str, Equalizing]:
    """Tensors beside functions that let no factor through → what helps them; others have ``AROUND``.

    Args:
        model: a float graph, its types inferred.
    """
    upstream = feeding_weights(model)
    found: dict[str, Equalizing] = {}
    for function in tensor_functions(model):
        if _lets_factors_through(function):
            continue
        behind = [use.node.op_type for use in function.result.uses()]
        outlet = bool(behind) and set(behind) == {"Conv"} and not function.result.is_graph_output()
        found.setdefault(
            function.source.name or "", _told(function.layer is not None and function.nodes[-1] in upstream)
        )
        found[function.result.name or ""] = _told(outlet)
    return found


AROUND: Final = Equalizing(FREELY, _FREE)


def _told(reached: bool) -> Equalizing:
    return Equalizing(THROUGH, _INSIDE) if reached else Equalizing(NOT_AT_ALL, ())


def _lets_factors_through(function: TensorFunction) -> bool:
    """Whether f(s·t) = s·f(t)."""
    return all(
        node.op_type in HOMOGENEOUS
        or (multiplies(node) and any(constant(value) is not None for value in node.inputs))
        or (divides(node) and constant(node.inputs[1]) is not None)
        for node in function.nodes
    )
