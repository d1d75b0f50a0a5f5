"""JSON of files that nobody should trust: one error, whatever is wrong with it."""

from __future__ import annotations

import pytest

from calib8.data.framing import Framing
from calib8.data.preprocess import Preprocess
from calib8.errors import DataError, ModelError
from calib8.json_texts import parse_json
from calib8.model.fix_inputs import with_fixed
from calib8.model.load import load_model
from calib8.model.metadata import stored_names, write_metadata
from small_models import normal, onnx_model

BROKEN = ["", "{", "[" * 100_000, "9" * 6_000]


@pytest.mark.parametrize("text", BROKEN, ids=["empty", "open", "deep", "digits"])
def test_what_is_no_json_is_one_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)
    with pytest.raises(DataError, match="is not JSON"):
        Preprocess.from_json(text)
    with pytest.raises(DataError, match="source: holds no"):
        Framing.from_json(text, "source")


def test_what_is_json() -> None:
    assert parse_json(b'{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}


@pytest.mark.parametrize("text", [*BROKEN, "1", "null", "{}", "[[1]]", "[1]"])
def test_lists_of_names_in_a_model(text: str) -> None:
    model = load_model(onnx_model("float[N,3] x", "float[N,2] y", "y = MatMul(x, w)", {"w": normal(3, 2)}))
    write_metadata(model, {"keep_float": text, "fixed": text})
    with pytest.raises(ModelError, match="its metadata 'keep_float' are broken"):
        stored_names(model, "keep_float")
    with pytest.raises(ModelError, match="its metadata 'fixed' are broken"):
        with_fixed(model, {"x": 1})
