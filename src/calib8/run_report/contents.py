"""What an int8 model contains: layers by the type of their weights, tensors of 16 bits, what stays float."""

from __future__ import annotations

from collections import Counter
from typing import Final

from calib8.model.layer import layer_of
from calib8.number_texts import count
from calib8.ops.questions import dequantizes
from calib8.quantization.seal import is_seal
from calib8.run_report.network import Network, Part
from calib8.run_report.told import Figure

NAMED: Final = 3
"""Nodes in float that are named."""


def contents_of(network: Network) -> Figure:
    """One row: ``8 layers with int8 weights, no tensor of 16 bits, nothing stays float``."""
    weights = Counter(filter(None, map(_weights, network.parts)))
    each = [f"{count(number, 'layer')} with {name} weights" for name, number in sorted(weights.items())]
    wide = sum(code.spec.bits > 8 for code in network.codes.values())
    each = each or ["no layer with weights in codes"]
    each.append(f"{count(wide, 'tensor') if wide else 'no tensor'} of 16 bits")
    floats = [part for part in network.parts if part.precision == "float" and not _is_seal(part)]
    if not floats:
        return Figure("int8 contents", ", ".join([*each, "nothing stays float"]))
    each.append(f"{count(len(floats), 'node')} stay{'s' * (len(floats) == 1)} float")
    named = [f"{part.op} {part.name}" for part in floats[:NAMED]]
    named += [f"{len(floats) - NAMED:,} more"] if len(floats) > NAMED else []
    return Figure("int8 contents", ", ".join(each), f"in float: {', '.join(named)}")


def _is_seal(part: Part) -> bool:
    """It computes nothing: calib8 put it there, see ``calib8.quantization.seal``."""
    return part.node is not None and is_seal(part.node)


def _weights(part: Part) -> str:
    """The type of the codes of a layer's weights; empty for float ones, and for what is no layer."""
    layer = layer_of(part.node)
    producer = None if layer is None or layer.weight is None else layer.weight.producer()
    if producer is None or not dequantizes(producer):
        return ""
    codes = producer.inputs[0]
    return "coded" if codes is None or codes.dtype is None else codes.dtype.name.lower()
