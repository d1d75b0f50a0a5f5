"""The peer torchao: PT2E training as its documentation shows it, x86 or XNNPACK quantizer."""

from __future__ import annotations

import torch
from torch import nn
from torchao.quantization.pt2e import (
    disable_observer,
    move_exported_model_to_eval,
    move_exported_model_to_train,
)
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)

BATCH_NORMS = (torch.ops.aten.batch_norm.default, torch.ops.aten.cudnn_batch_norm.default)
TRAINING = 5
"""Which argument of aten.batch_norm says whether it trains."""


def prepared(network: nn.Module, example: torch.Tensor) -> nn.Module:
    """The simulated network in training mode; free batch, uint8 activations, int8 weights per channel."""
    batch = {0: torch.export.Dim("batch", min=2, max=4096)}
    exported = torch.export.export(network.train(), (example,), dynamic_shapes=(batch,)).module()
    quantizer = X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config(is_qat=True))
    return move_exported_model_to_train(prepare_qat_pt2e(exported, quantizer))


def freeze(network: nn.Module) -> None:
    """Ranges stay, BatchNorm uses its moving statistics."""
    network.apply(disable_observer)
    for node in network.graph.nodes:
        if node.target in BATCH_NORMS:
            node.args = (*node.args[:TRAINING], False, *node.args[TRAINING + 1 :])
    network.recompile()


def converted(network: nn.Module) -> nn.Module:
    """The network with Q/DQ operators on integer weights, in eval mode."""
    return move_exported_model_to_eval(convert_pt2e(network))
