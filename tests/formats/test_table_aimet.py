"""AIMET's encodings of versions 0.4 to 1.0.0, weights, float tensors, what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_tables import bounds, json_names, ranges_of, scales, symmetric_table, table_of

from calib8.errors import TableError
from calib8.formats import aimet
from calib8.qparams import UINT8, activation_qparams

VERSIONS = pytest.mark.parametrize("version", [aimet.LISTS, aimet.MAPPINGS])


def asymmetric_mapping(**changes: Any) -> dict[str, Any]:
    """Scale 1/64, zero point 114."""
    fields = {"bitwidth": 8, "dtype": "int", "is_symmetric": "False", "scale": 1 / 64, "offset": -114}
    return {**fields, "min": -114 / 64, "max": 141 / 64, **changes}


def mapping(**changes: Any) -> str:
    encoding = asymmetric_mapping(**changes)
    return json.dumps({"version": "0.6.1", "activation_encodings": {"a": [encoding]}, "param_encodings": {}})


def listing(**changes: Any) -> str:
    fields = {"name": "a", "bw": 8, "dtype": "INT", "enc_type": "PER_TENSOR", "is_sym": False}
    fields |= {"scale": [1 / 64], "offset": [-114], **changes}
    return json.dumps({"version": "1.0.0", "activation_encodings": [fields], "param_encodings": []})


@pytest.mark.parametrize("text", [mapping(), mapping(offset=-114.0), listing(), mapping(scale=None)])
def test_an_asymmetric_encoding(text: str) -> None:
    assert ranges_of(aimet.read(text, "e").table) == {"a": (-114 / 64, 141 / 64)}


@pytest.mark.parametrize(
    ("bits", "offset", "limit"), [(8, -128, 127), (8, -127, 127), (16, -32768, 32767), (4, -8, 7)]
)
def test_a_symmetric_encoding_is_symmetric(bits: int, offset: int, limit: int) -> None:
    texts = (
        mapping(is_symmetric="True", offset=offset, bitwidth=bits),
        listing(is_sym=True, offset=[offset], bw=bits),
    )
    for text in texts:
        assert ranges_of(aimet.read(text, "e").table) == {"a": (-limit / 64, limit / 64)}


def test_an_unsigned_symmetric_encoding_begins_at_0() -> None:
    assert ranges_of(aimet.read(listing(is_sym=True, offset=[0]), "e").table) == {"a": (0.0, 255 / 64)}


def test_the_oldest_form_has_no_dtype() -> None:
    document = json.loads(mapping())
    document["version"] = "0.4.0"
    del document["activation_encodings"]["a"][0]["dtype"]
    read = aimet.read(json.dumps(document), "e")
    assert read.table.entries["a"].method == "AIMET 0.4.0"
    assert read.format == "aimet-0.6.1"


@VERSIONS
@given(scale_of=st.dictionaries(json_names, scales, min_size=1))
def test_symmetric_scales_come_back_to_the_bit(version: str, scale_of: dict[str, float]) -> None:
    table = symmetric_table(scale_of)
    text = aimet.write(table, version)
    assert ranges_of(aimet.read(text, "e").table) == ranges_of(table)
    assert json.loads(text)["version"] == version


@VERSIONS
@given(ranges=st.dictionaries(json_names, bounds, min_size=1))
def test_asymmetric_ranges_come_back_as_the_same_code(
    version: str, ranges: dict[str, tuple[float, float]]
) -> None:
    read = aimet.read(aimet.write(table_of(ranges), version), "e").table
    for name, pair in ranges.items():
        found = read.entries[name].range
        if pair[0] != -pair[1]:
            assert activation_qparams(found.min, found.max, UINT8) == activation_qparams(*pair, UINT8)


def test_written_forms_are_those_of_the_specification() -> None:
    table = table_of({"a": (-114 / 64, 141 / 64), "s": (-127 / 64, 127 / 64)})
    lists = json.loads(aimet.write(table))["activation_encodings"]
    common = {"bw": 8, "dtype": "INT", "enc_type": "PER_TENSOR", "scale": [1 / 64]}
    assert lists == [
        {"name": "a", "is_sym": False, "offset": [-114], **common},
        {"name": "s", "is_sym": True, "offset": [-128], **common},
    ]
    mappings = json.loads(aimet.write(table, aimet.MAPPINGS))["activation_encodings"]
    assert mappings["a"] == [asymmetric_mapping()]
    assert mappings["s"] == [asymmetric_mapping(is_symmetric="True", offset=-128, min=-2.0, max=127 / 64)]


def test_float_tensors_stay_float() -> None:
    document = json.loads(mapping())
    document["activation_encodings"]["f"] = [{"bitwidth": 16, "dtype": "float"}]
    read = aimet.read(json.dumps(document), "e")
    assert read.without_scale == ("f",) and set(read.table.entries) == {"a"}


def test_encodings_of_weights_are_kept() -> None:
    document = json.loads(mapping())
    document["param_encodings"] = {"w": [asymmetric_mapping(), asymmetric_mapping(scale=0.5)]}
    assert aimet.read(json.dumps(document), "e").weight_scales == {"w": (1 / 64, 0.5)}
    document = json.loads(listing())
    document["param_encodings"] = [{"name": "w", "scale": [0.25, 0.5], "offset": [-128, -128]}]
    assert aimet.read(json.dumps(document), "e").weight_scales == {"w": (0.25, 0.5)}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"version": "2.0.0", "encodings": []}', "is of version 2.0.0"),
        ('{"activation_encodings": 3}', "neither a mapping nor a list"),
        ('{"activation_encodings": [3]}', "neither a mapping nor a list"),
        ('{"activation_encodings": {}}', "holds no tensor"),
        ('{"activation_encodings": {"a": []}}', "tensor 'a': has no encoding"),
        ('{"activation_encodings": {"a": [{}], "a": [{}]}}', "'a' comes twice"),
        (listing(name=""), "has no tensor name"),
        (listing(scale=[0.0]), "tensor 'a': the scale 0 is not"),
        (listing(scale=[-1.0]), "tensor 'a': the scale -1 is not"),
        (listing(scale=[float("nan")]), "tensor 'a': the scale nan is not"),
        (listing(scale="0.5"), "tensor 'a': the scale nan is not"),
        (listing(scale=[1.0, 2.0], offset=[0, 0]), "tensor 'a': has one encoding per channel"),
        (listing(offset=[1]), "tensor 'a': the offset 1 is not an integer in -255"),
        (listing(offset=[-256]), "tensor 'a': the offset -256"),
        (listing(offset=[-0.5]), "tensor 'a': the offset -0.5"),
        (listing(bw=64), "tensor 'a': has 64 bits"),
        (listing(bw="x"), "tensor 'a': has nan bits"),
        (mapping(scale=None, min=1.0, max=0.0), "tensor 'a': [1.0, 0.0] is not a range"),
    ],
)
def test_what_is_broken_is_named(text: str, problem: str) -> None:
    with pytest.raises(TableError) as caught:
        aimet.read(text, "my.encodings")
    assert "my.encodings" in str(caught.value) and problem in str(caught.value)


def test_a_name_in_a_list_twice_is_refused() -> None:
    document = json.loads(listing())
    document["activation_encodings"] *= 2
    with pytest.raises(TableError, match="'a': comes twice"):
        aimet.read(json.dumps(document), "e")


def test_double_precision_scales_are_rounded_to_float32() -> None:
    read = aimet.read(listing(scale=[0.1], offset=[-128], is_sym=True), "e").table
    assert read.entries["a"].range.max == 127 * float(np.float32(0.1))
