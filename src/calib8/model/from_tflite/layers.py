"""Layers with weights: CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV, FULLY_CONNECTED, BATCH_MATMUL.

Convolution2DTransposeBias of MediaPipe is a TRANSPOSE_CONV with its inputs in another order.

file                               ONNX
CONV_2D            OHWI            Conv [O, I, H, W], groups where I is less deep than the input
DEPTHWISE_CONV_2D  1HWO            Conv [O, 1, H, W], as many groups as input channels
TRANSPOSE_CONV     OHWI            ConvTranspose [I, O, H, W]
FULLY_CONNECTED    [O, I]          Gemm with transB, or MatMul [I, O] and Add for more axes than two
"""

from __future__ import annotations

from dataclasses import asdict, replace

import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.from_tflite.builder import Builder
from calib8.model.from_tflite.orders import Order, as_filed, channels_first
from calib8.model.from_tflite.windows import same_pads, strides, window
from calib8.tflite.custom import transpose_conv_bias as transpose_conv_bias_options
from calib8.tflite.graph import Operator

IMAGE = channels_first(4)


def image_size(builder: Builder, place: int) -> tuple[int, int]:
    """Rows and columns of an NHWC tensor.

    Raises:
        NoFormError: it has not four axes, or its size is free.
    """
    if len(builder.sizes(place)) != 4:
        raise NoFormError(f"'{builder.name(place)}' has {len(builder.sizes(place))} axes, not 4")
    return builder.size(place, 1), builder.size(place, 2)


def conv_2d(builder: Builder, operator: Operator) -> None:
    """2-D convolution."""
    x, weight = operator.inputs[:2]
    depth = builder.tensor(weight).shape[3]
    _conv(builder, operator, (0, 3, 1, 2), builder.size(x, 3) // depth)


def depthwise_conv_2d(builder: Builder, operator: Operator) -> None:
    """One filter, or several, per channel."""
    _conv(builder, operator, (3, 0, 1, 2), builder.size(operator.inputs[0], 3))


def _conv(builder: Builder, operator: Operator, layout: Order, groups: int) -> None:
    x, weight = operator.inputs[:2]
    have, out = image_size(builder, x), image_size(builder, operator.outputs[0])
    attributes = window(operator, have, out, builder.tensor(weight).shape[1:3])
    inputs = [builder.read(x, IMAGE), builder.read(weight, layout), *_bias(builder, operator, 2)]
    builder.write_activated(operator, IMAGE, "Conv", inputs, group=groups, **attributes)


def _bias(builder: Builder, operator: Operator, at: int) -> list[ir.Value]:
    given = len(operator.inputs) > at and operator.inputs[at] >= 0
    return [builder.read(operator.inputs[at])] if given else []


def transpose_conv(builder: Builder, operator: Operator) -> None:
    """Transposed convolution: padded as the convolution that would lead from its output to its input."""
    _transposed(builder, operator, operator.inputs[2], _bias(builder, operator, 3))


def transpose_conv_bias(builder: Builder, operator: Operator) -> None:
    """MediaPipe's transposed convolution: input, weights OHWI and bias; strides and padding in its bytes."""
    options = transpose_conv_bias_options(operator)
    if len(operator.inputs) != 3 or min(operator.inputs) < 0:
        raise NoFormError(f"it has the inputs {list(operator.inputs)}, not 3")
    plain = replace(operator, options=asdict(options))
    _transposed(builder, plain, operator.inputs[0], _bias(builder, operator, 2))


def _transposed(builder: Builder, operator: Operator, x: int, bias: list[ir.Value]) -> None:
    weight = operator.inputs[1]
    have, out = image_size(builder, x), image_size(builder, operator.outputs[0])
    kernel, steps = builder.tensor(weight).shape[1:3], strides(operator)
    before = same_pads(operator, out, [-(-n // step) for n, step in zip(out, steps, strict=True)], kernel)[:2]
    axes = zip(have, out, kernel, steps, before, strict=True)
    after = [(n - 1) * step + size - pad - wanted for n, wanted, size, step, pad in axes]
    added = [max(-pad, 0) for pad in after]
    if any(extra >= step for extra, step in zip(added, steps, strict=True) if extra):
        raise NoFormError(f"its output is {list(out)}, more than its windows reach")
    inputs = [builder.read(x, IMAGE), builder.read(weight, (3, 0, 1, 2)), *bias]
    builder.write_activated(
        operator,
        IMAGE,
        "ConvTranspose",
        inputs,
        kernel_shape=list(kernel),
        strides=steps,
        pads=[*before, *(max(pad, 0) for pad in after)],
        output_padding=added,
    )


def fully_connected(builder: Builder, operator: Operator) -> None:
    """[…, I] times [O, I]; without ``keep_num_dims`` all axes but the last one of the weights become one."""
    x, weight = operator.inputs[:2]
    if operator.options.get("weights_format", "DEFAULT") != "DEFAULT":
        raise NoFormError("its weights are shuffled")
    y = operator.outputs[0]
    rank = len(builder.sizes(y))
    bias = _bias(builder, operator, 2)
    if rank > 2:
        product = builder.emit(
            f"{builder.name(y)}/product",
            "MatMul",
            [builder.read(x, builder.filed(x)), _turned(builder, weight)],
        )
        op, inputs = ("Add", [product, *bias]) if bias else ("Identity", [product])
        builder.write_activated(operator, as_filed(rank), op, inputs)
        return
    inputs = [_rows(builder, x, builder.tensor(weight).shape[1]), builder.read(weight, as_filed(2)), *bias]
    builder.write_activated(operator, as_filed(2), "Gemm", inputs, transB=1)


def _rows(builder: Builder, place: int, width: int) -> ir.Value:
    value = builder.read(place, builder.filed(place))
    sizes = builder.sizes(place)
    if len(sizes) == 2 and sizes[1] == width:
        return value
    title = f"{builder.name(place)}/rows"
    return builder.emit(title, "Reshape", [value, builder.numbers(f"{title}/shape", [-1, width])])


def _turned(builder: Builder, place: int) -> ir.Value:
    """A tensor with its last two axes exchanged."""
    rank = len(builder.sizes(place))
    return builder.read(place, (*range(rank - 2), rank - 1, rank - 2))


def batch_matmul(builder: Builder, operator: Operator) -> None:
    """Matrix products over the last two axes, either side transposed where its option says so."""
    sides = []
    for place, option in zip(operator.inputs, ("adj_x", "adj_y"), strict=True):
        turned = bool(operator.options.get(option, False))
        sides.append(_turned(builder, place) if turned else builder.read(place, builder.filed(place)))
    builder.write(operator.outputs[0], builder.filed(operator.outputs[0]), "MatMul", sides)
