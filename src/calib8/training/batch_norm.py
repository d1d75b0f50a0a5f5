"""Statistics of BatchNorms, taken anew from a model whose weights and activations are rounded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from calib8.errors import DataError, UsageError
from calib8.modules.modes import in_mode
from calib8.training.conversion import unwrapped
from calib8.training.norms import affine
from calib8.training.simulated_model import layer_norms


def reestimate_batch_norms(model: nn.Module, batches: Iterable[Any]) -> int:
    """Replaces the moving statistics of every BatchNorm by the averages over some batches.

    Weights that oscillate between two codes, and small batches, leave moving averages that do not fit the
    last weights. For scales per channel: new statistics move the codes of weights that share one scale. To be
    called before ``freeze``; nothing else of the model changes, and nothing at all where this raises.

    Args:
        model: what ``prepare`` gave.
        batches: inputs, each a tensor or a tuple of tensors; what follows the inputs, as labels do, is left
            out.

    Returns:
        Number of batches.

    Raises:
        UsageError: the model is frozen already, or does not simulate quantization.
        DataError: there was no batch.
    """
    simulated = unwrapped(model)
    if simulated.calib8.frozen:
        raise UsageError("model", "is frozen: its BatchNorms are folded", "Re-estimate before freeze")
    norms = [one for one in simulated.modules() if isinstance(one, _BatchNorm)]
    momenta = [one.momentum for one in norms]
    before = [{name: value.clone() for name, value in one.named_buffers()} for one in norms]
    count = 0
    with in_mode(simulated, training=False):
        for layer, norm in layer_norms(simulated):
            layer.folded, layer.kept_factors = False, affine(norm)[0].detach()
        for one in norms:
            one.reset_running_stats()
            one.momentum = None  # the average of all batches
            one.training = True
        try:
            count = _run(simulated, batches, len(simulated.example_inputs))
        finally:
            for one, momentum, stored in zip(norms, momenta, before, strict=True):
                one.momentum = momentum
                if not count:  # nothing was seen, or something was raised
                    for name, value in one.named_buffers():
                        value.copy_(stored[name])
            for _, layer in simulated.calib8.all_layers():
                layer.kept_factors = None
            simulated.calib8.refresh()
    if not count:
        raise DataError("batches", "there are none", "Give some batches of training inputs")
    return count


def _run(model: nn.Module, batches: Iterable[Any], inputs: int) -> int:
    """Calls a model with the first so many parts of every batch."""
    count = 0
    with torch.no_grad():
        for batch in batches:
            model(*(batch[:inputs] if isinstance(batch, (tuple, list)) else (batch,)))
            count += 1
    return count
