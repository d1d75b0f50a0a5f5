"""InferenceSession of TFLite models: ports, bits, what is chosen and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import interpreter as litert

from calib8 import InferenceSession, ModelError, UnsupportedModelError, UsageError
from calib8.tflite.write import serialize, write_tflite
from tflite_nets import (
    CLASSES,
    float_classifier,
    hybrid_classifier,
    onnx_classifier,
    quantized_classifier,
    with_batch_free,
)


def litert_run(model: bytes, codes: np.ndarray) -> np.ndarray:
    runner = litert.Interpreter(
        model_content=model, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF, num_threads=1
    )
    runner.allocate_tensors()
    runner.set_tensor(runner.get_input_details()[0]["index"], codes)
    runner.invoke()
    return np.array(runner.get_tensor(runner.get_output_details()[0]["index"]))


def random_codes(dtype: str, batch: int = 1) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(3).integers(limits.min, limits.max, (batch, 8, 8, 3), dtype, endpoint=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_codes_go_in_and_out_as_the_file_has_them(tmp_path: Path, dtype: str) -> None:
    model, codes = serialize(quantized_classifier(dtype)), random_codes(dtype)
    (tmp_path / "net.tflite").write_bytes(model)
    expected = litert_run(model, codes)
    for source in (tmp_path / "net.tflite", str(tmp_path / "net.tflite"), model):
        for runtime in ("calib8", "reference"):
            session = InferenceSession(source, runtime=runtime)
            assert session.rounding == "tflite"
            [port], [result] = session.get_inputs(), session.get_outputs()
            assert (port.name, port.type, port.shape) == ("image", f"tensor({dtype})", [1, 8, 8, 3])
            assert (result.name, result.shape) == ("scores", [1, CLASSES])
            np.testing.assert_array_equal(session.run(None, {"image": codes})[0], expected)


def test_the_content_counts_and_not_the_name(tmp_path: Path) -> None:
    write_tflite(quantized_classifier(), tmp_path / "net.bin")
    assert InferenceSession(tmp_path / "net.bin").rounding == "tflite"
    (tmp_path / "wrong.tflite").write_bytes(onnx_classifier().SerializeToString())
    with pytest.raises(ModelError, match=r"wrong\.tflite: is not a TFLite model"):
        InferenceSession(tmp_path / "wrong.tflite")


def test_a_plan_of_it_gives_the_same_bits(tmp_path: Path) -> None:
    session, codes = InferenceSession(serialize(quantized_classifier())), random_codes("int8")
    session.save(tmp_path / "net.c8")
    plan = InferenceSession(tmp_path / "net.c8")
    assert plan.rounding == "tflite"
    np.testing.assert_array_equal(plan.run(None, {"image": codes}), session.run(None, {"image": codes}))


def test_other_outputs_end_the_program_there() -> None:
    model, codes = serialize(quantized_classifier()), random_codes("int8")
    session = InferenceSession(model, outputs=["conv"])
    assert [port.shape for port in session.get_outputs()] == [[1, 1, 1, CLASSES]]
    assert [type(step).__name__ for step in session.program.instructions] == ["Conv"]
    [whole] = InferenceSession(model).run(None, {"image": codes})
    np.testing.assert_array_equal(session.run(None, {"image": codes})[0].reshape(1, CLASSES), whole)
    one = InferenceSession(model, outputs=(name for name in ["conv"]))  # type: ignore[arg-type]
    np.testing.assert_array_equal(one.run(None, {"image": codes})[0].reshape(1, CLASSES), whole)
    with pytest.raises(UsageError, match=r"outputs: got 5\. Give a list of names"):
        InferenceSession(model, outputs=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"outputs: the model computes no tensor 'con'"):
        InferenceSession(model, outputs=["con"])
    with pytest.raises(UsageError, match=r"outputs: is one name \('conv'\)"):
        InferenceSession(model, outputs="conv")
    with pytest.raises(UsageError, match=r"outputs: can be chosen of TFLite models only"):
        InferenceSession(onnx_classifier(), outputs=["c"])


def test_a_free_batch_may_be_any() -> None:
    model = serialize(with_batch_free(quantized_classifier()))
    session = InferenceSession(model)
    assert [port.shape for port in session.get_inputs()] == [[None, 8, 8, 3]]
    for batch in (1, 3, 2):
        codes = random_codes("int8", batch)
        expected = np.concatenate([litert_run(model, codes[row : row + 1]) for row in range(batch)])
        np.testing.assert_array_equal(session.run(None, {"image": codes})[0], expected)
    fixed = InferenceSession(model, shapes={"image": (4, 8, 8, 3)})
    assert fixed.get_outputs()[0].shape == [4, CLASSES]
    with pytest.raises(UnsupportedModelError, match=r"custom|no integer form|unknown"):
        first, *others = quantized_classifier().operators
        operators = (replace(first, op="CUSTOM"), *others)
        InferenceSession(serialize(replace(with_batch_free(quantized_classifier()), operators=operators)))


def classifier_of(shape: tuple[int, ...], signature: tuple[int, ...]) -> bytes:
    """The input as a file may have it."""
    graph = quantized_classifier()
    image = replace(graph.tensors[0], shape=shape, signature=signature)
    return serialize(replace(graph, tensors=(image, *graph.tensors[1:])))


def test_sizes_of_the_file_are_taken_where_none_are_given() -> None:
    model, codes = classifier_of((1, 8, 8, 3), (1, -1, -1, 3)), random_codes("int8")
    session = InferenceSession(model)
    assert [port.shape for port in session.get_inputs()] == [[1, None, None, 3]]
    assert session.program.slots[session.program.inputs[0].slot].shape == (1, 8, 8, 3)
    np.testing.assert_array_equal(session.run(None, {"image": codes})[0], litert_run(model, codes))
    assert session.run(None, {"image": np.zeros((1, 9, 10, 3), np.int8)})[0].shape == (6, CLASSES)


def test_sizes_that_nothing_gives_are_asked_for() -> None:
    session = InferenceSession(classifier_of((1, 1, 1, 3), (-1, -1, -1, 3)))
    with pytest.raises(UsageError, match=r"'image' \(\?×\?×\?×3\) are free.*shapes={'image': \(1,…,…,3\)}"):
        _ = session.program
    assert session.run(None, {"image": random_codes("int8", 2)})[0].shape == (2, CLASSES)


def test_fixed_sizes_and_sizes_that_layers_do_not_take_are_refused() -> None:
    model = classifier_of((1, 1, 8, 3), (1, -1, 8, 3))
    with pytest.raises(UsageError, match=r"shape of 'image': 1×9×9×3 does not fit"):
        InferenceSession(model, shapes={"image": (1, 9, 9, 3)})
    session = InferenceSession(model)
    with pytest.raises(UnsupportedModelError, match=r"'conv' \(CONV_2D\): it would make \[1, -1, 1, 10\]"):
        session.run(None, {"image": np.zeros((1, 6, 8, 3), np.int8)})


def test_operators_of_which_the_sizes_are_not_known_are_listed() -> None:
    graph = quantized_classifier()
    image = replace(graph.tensors[0], shape=(1, 1, 1, 3), signature=(1, -1, -1, 3))
    shape = replace(graph.tensors[4], data=None)
    first, second = graph.operators
    custom = replace(first, op="CUSTOM", custom_code="Odd", options={}, outputs=(4,))
    tensors = (image, *graph.tensors[1:4], shape, graph.tensors[5])
    session = InferenceSession(serialize(replace(graph, tensors=tensors, operators=(custom, first, second))))
    with pytest.raises(
        UnsupportedModelError, match=r"image 1×8×8×3: 'shape' \(Odd\): what it makes of other"
    ):
        session.run(None, {"image": random_codes("int8")})


def test_other_outputs_keep_what_computes_sizes() -> None:
    session = InferenceSession(classifier_of((1, 1, 1, 3), (1, -1, -1, 3)), outputs=["conv"])
    assert session.run(None, {"image": np.zeros((1, 9, 10, 3), np.int8)})[0].shape == (1, 2, 3, CLASSES)


def test_another_profile_is_refused() -> None:
    model = serialize(quantized_classifier())
    assert InferenceSession(model, profile="tflite", integer_only=True).rounding == "tflite"
    for profile in ("onnx", "single"):
        with pytest.raises(UsageError, match=rf"profile '{profile}': .* is a TFLite model"):
            InferenceSession(model, profile=profile)
    with pytest.raises(UsageError, match=r"profile 'magic': unknown"):
        InferenceSession(model, profile="magic")


def test_models_without_codes_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match=r"is a float model.*Quantize it first"):
        InferenceSession(serialize(float_classifier()))
    with pytest.raises(UnsupportedModelError, match=r"is a hybrid \(dynamic-range\) model"):
        InferenceSession(serialize(hybrid_classifier()))


def test_what_is_missing_or_cut_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.tflite: no such file"):
        InferenceSession(tmp_path / "none.tflite")
    model = serialize(quantized_classifier())
    (tmp_path / "half.tflite").write_bytes(model[: len(model) // 2])
    with pytest.raises(ModelError, match=r"half\.tflite"):
        InferenceSession(tmp_path / "half.tflite")
