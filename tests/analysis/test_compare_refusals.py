"""Models, options and data that cannot be compared."""

from __future__ import annotations

import math

import graph_edits as edit
import numpy as np
import pytest
from compared import by_tensor
from exact_models import ENDS, LAYERS, S1, W1, exact_float, exact_images, exact_int8, float_constants, kernel

from calib8.analysis.compare import compare
from calib8.errors import DataError, ModelError, UnsupportedModelError, UsageError
from small_models import onnx_model


def test_a_model_of_another_network_is_refused() -> None:
    every = {node.output[0]: f"other {index}" for index, node in enumerate(exact_int8().graph.node[:-1])}
    with pytest.raises(ModelError, match=r"none of its 1 quantized tensors between .*Give the float model"):
        compare(exact_float(), edit.renamed(exact_int8(), every), exact_images(1))
    shorter = exact_float()
    shorter.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 2
    for name in ("w2", "b2"):
        edit.store(shorter, name, edit.array(shorter, name)[:2])
    with pytest.raises(
        ModelError, match=r"its output 'y' has shape \[1, 3, 4, 4\] instead of \[1, 2, 4, 4\]"
    ):
        compare(shorter, exact_int8(), exact_images(1))
    wider = exact_float()
    edit.store(wider, "w1", np.tile(edit.array(wider, "w1"), (2, 1, 1, 1)))
    edit.store(wider, "b1", np.tile(edit.array(wider, "b1"), 2))
    edit.store(wider, "w2", np.tile(edit.array(wider, "w2"), (1, 2, 1, 1)))
    with pytest.raises(ModelError, match=r"'r': its shape is .*it was not made from exact"):
        wider.graph.name = "exact"
        compare(wider, exact_int8(), exact_images(1))


def test_the_models_must_be_a_float_and_a_quantized_one() -> None:
    model, int8, data = exact_float(), exact_int8(), exact_images(1)
    with pytest.raises(UsageError, match=r"they are the wrong way round. Give the float model first."):
        compare(int8, model, data)
    with pytest.raises(UsageError, match=r"is quantized. Give the float model first."):
        compare(int8, int8, data)
    with pytest.raises(UsageError, match=r"is a float model. Give the quantized model second."):
        compare(model, model, data)


def test_a_float_model_may_keep_its_weights_in_codes() -> None:
    """Dequantized constants are a way to store them, no quantized model."""
    text = LAYERS.replace("c =", "w1 = DequantizeLinear<axis=0>(w1q, s1) c =")
    constants = float_constants() | {"w1q": kernel(W1, np.int8), "s1": S1.astype(np.float32)}
    del constants["w1"]
    found = compare(onnx_model(*ENDS, text, constants), exact_int8(), exact_images(2))
    plain = float_constants() | {"w1": kernel(W1 * S1[:, None])}
    expected = compare(onnx_model(*ENDS, LAYERS, plain), exact_int8(), exact_images(2))
    assert [tensor.local for tensor in found.tensors] == [tensor.local for tensor in expected.tensors]
    assert by_tensor(expected)["r"].weight_sqnr_db == math.inf


def test_other_inputs_or_outputs_are_refused() -> None:
    data = exact_images(1)
    with pytest.raises(ModelError, match=r"takes 'z' instead of 'x'. Give the float model that it was made"):
        other = edit.renamed(exact_int8(), {"x": "z"})
        other.graph.input[0].name = "z"
        compare(exact_float(), other, data)
    with pytest.raises(ModelError, match="takes 'x: float32 N×3×4×4' instead of 'x: float32 N×3×5×5'"):
        bigger = onnx_model("float[N,3,5,5] x", "float[N,3,5,5] y", LAYERS, float_constants())
        compare(bigger, exact_int8(), data)
    with pytest.raises(ModelError, match="has 2 outputs instead of 1"):
        more = exact_int8()
        edit.add_output(more, "r")
        compare(exact_float(), more, data)


def test_a_model_without_quantized_activations_is_refused() -> None:
    proto = exact_int8()
    kept = [node for node in proto.graph.node if not {*node.output} & {"xq", "xd", "rq", "rd", "yq", "y"}]
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    weights_only = edit.renamed(proto, {"xd": "x", "rd": "r", "before": "y"})
    with pytest.raises(UnsupportedModelError, match=r"quantizes no activation .*Give a QDQ model."):
        compare(exact_float(), weights_only, exact_images(1))


@pytest.mark.parametrize("scale", [0.0, -0.25, math.nan, math.inf])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    proto = exact_int8()
    edit.store(proto, "sr", np.float32(scale))
    with pytest.raises(ModelError, match=rf"tensor 'r': its scale is {scale}\. Quantize the model again"):
        compare(exact_float(), proto, exact_images(1))


def test_bad_options_and_data_are_refused() -> None:
    model, int8 = exact_float(), exact_int8()
    with pytest.raises(UsageError, match=r"sort='best': unknown order. Use one of local, cumulative."):
        compare(model, int8, exact_images(1), sort="best")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="batch=0"):
        compare(model, int8, exact_images(1), batch=0)
    with pytest.raises(UsageError, match="threads=0"):
        compare(model, int8, exact_images(1), threads=0)
    with pytest.raises(DataError):
        compare(model, int8, [{"x": np.zeros((1, 1, 4, 4), np.float32)}])
    for value in (math.nan, math.inf):
        broken = exact_images(2)
        broken[1]["x"][0, 0, 0, 0] = value
        with pytest.raises(
            DataError, match="sample 1: the float model has NaN or infinite values in tensor 'x'"
        ):
            compare(model, int8, broken)
