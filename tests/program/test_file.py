"""A saved program comes back bit for bit, and nothing but ModelError comes of a broken file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_programs import EXAMPLES, chain, with_step
from hypothesis import given, settings
from hypothesis import strategies as st

from calib8.errors import ModelError, OutputError
from calib8.program.file import ALIGNMENT, CHECKSUM_BYTES, PREFIX, is_program_file, load_program, save_program
from calib8.program.rules import PROFILES, Profile


def assert_equal(left: object, right: object) -> None:
    """Same types and contents all the way down."""
    assert type(left) is type(right)
    if isinstance(left, tuple):
        assert len(left) == len(right)  # type: ignore[arg-type]
        for one, other in zip(left, right, strict=True):  # type: ignore[call-overload]
            assert_equal(one, other)
    elif is_dataclass(left):
        for field in fields(left):
            assert_equal(getattr(left, field.name), getattr(right, field.name))
    elif isinstance(left, np.ndarray):
        assert isinstance(right, np.ndarray)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    else:
        assert left == right


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "profile"), EXAMPLES)
def test_every_instruction_comes_back(name: str, profile: Profile, tmp_path: Path) -> None:
    program = EXAMPLES[name, profile]
    save_program(program, tmp_path / "a.c8p")
    loaded = load_program(tmp_path / "a.c8p")
    assert_equal(program, loaded)
    save_program(loaded, tmp_path / "b.c8p")
    assert (tmp_path / "a.c8p").read_bytes() == (tmp_path / "b.c8p").read_bytes()


@pytest.mark.parametrize("profile", PROFILES)
def test_a_chain_comes_back_and_equal_programs_are_equal_bytes(profile: Profile, tmp_path: Path) -> None:
    save_program(chain(profile), tmp_path / "a.c8p")
    save_program(chain(profile), tmp_path / "b.c8p")
    assert (tmp_path / "a.c8p").read_bytes() == (tmp_path / "b.c8p").read_bytes()
    assert_equal(chain(profile), load_program(str(tmp_path / "a.c8p")))


@pytest.mark.parametrize(
    ("name", "version"), [("Conv", 1), ("Conv of two sides", 2), ("DepthwiseConv of a curve", 2)]
)
def test_functions_behind_layers_need_the_second_format(name: str, version: int, tmp_path: Path) -> None:
    """Programs without them can be read by whoever reads the first one alone."""
    save_program(EXAMPLES[name, "single"], tmp_path / "a.c8p")
    _, found, _, _ = PREFIX.unpack_from((tmp_path / "a.c8p").read_bytes())
    assert found == version


def test_fields_with_a_default_may_be_absent(data: bytes, tmp_path: Path) -> None:
    """So that a field with a default can be added without a new format."""

    def strip(document: Any) -> None:
        image = document["program"]["Program"]["slots"][0]["Slot"]
        del image["scales"], image["zero_point"]

    (tmp_path / "a.c8p").write_bytes(edited(data, strip))
    assert_equal(chain(), load_program(tmp_path / "a.c8p"))


def test_memory_order_does_not_matter(tmp_path: Path) -> None:
    program = EXAMPLES["Conv", "onnx"]
    weight = np.asfortranarray(program.instructions[0].weight)  # type: ignore[attr-defined]
    save_program(program, tmp_path / "a.c8p")
    save_program(with_step(program, weight=weight), tmp_path / "b.c8p")
    assert (tmp_path / "a.c8p").read_bytes() == (tmp_path / "b.c8p").read_bytes()


def test_arrays_are_read_only(tmp_path: Path) -> None:
    save_program(chain(), tmp_path / "a.c8p")
    conv = load_program(tmp_path / "a.c8p").instructions[1]
    with pytest.raises(ValueError, match="read-only"):
        conv.weight[0] = 1  # type: ignore[attr-defined]


def test_arrays_are_aligned_in_the_file(tmp_path: Path) -> None:
    save_program(chain(), tmp_path / "a.c8p")
    data = (tmp_path / "a.c8p").read_bytes()
    length, document = header(data)
    start = PREFIX.size + length + -(PREFIX.size + length) % ALIGNMENT
    places = {offset: (dtype, shape) for dtype, shape, offset in document["arrays"]}
    assert all(offset % ALIGNMENT == 0 for offset in places)
    conv: Any = chain().instructions[1]
    number = document["program"]["Program"]["instructions"][1]["Conv"]["weight"]["array"]
    dtype, shape, offset = document["arrays"][number]
    stored = np.frombuffer(data, dtype, int(np.prod(shape)), start + offset).reshape(shape)
    np.testing.assert_array_equal(stored, conv.weight)


def test_only_saved_programs_look_like_one(tmp_path: Path) -> None:
    save_program(chain(), tmp_path / "a.c8p")
    assert is_program_file(tmp_path / "a.c8p")
    assert is_program_file(str(tmp_path / "a.c8p"))
    (tmp_path / "short").write_bytes((tmp_path / "a.c8p").read_bytes()[:7])
    (tmp_path / "other").write_bytes(b"\x08\x08" + (tmp_path / "a.c8p").read_bytes())
    assert not any(is_program_file(tmp_path / name) for name in ("short", "other", "missing", "."))


def test_a_broken_program_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="stride 0"):
        save_program(with_step(EXAMPLES["Conv", "onnx"], strides=(0, 1)), tmp_path / "a.c8p")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        save_program(chain(), tmp_path / "none" / "a.c8p")


def header(data: bytes) -> tuple[int, Any]:
    """Length and content of the JSON header."""
    length = PREFIX.unpack_from(data)[2]
    return length, json.loads(data[PREFIX.size : PREFIX.size + length])


def sealed(data: bytes) -> bytes:
    """The file with the right checksum."""
    body = data[:-CHECKSUM_BYTES]
    return body + hashlib.sha256(body).digest()


def with_header(data: bytes, text: bytes) -> bytes:
    """The file with another header, lengths and checksum right."""
    magic, version, length, _ = PREFIX.unpack_from(data)
    end = PREFIX.size + length
    arrays = data[end + -end % ALIGNMENT : -CHECKSUM_BYTES]
    gap = bytes(-(PREFIX.size + len(text)) % ALIGNMENT)
    total = PREFIX.size + len(text) + len(gap) + len(arrays) + CHECKSUM_BYTES
    return sealed(PREFIX.pack(magic, version, len(text), total) + text + gap + arrays + bytes(CHECKSUM_BYTES))


def edited(data: bytes, change: Callable[[Any], None]) -> bytes:
    """The file with an edited header."""
    _, document = header(data)
    change(document)
    return with_header(data, json.dumps(document).encode())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A saved chain."""
    path = tmp_path_factory.mktemp("saved") / "chain.c8p"
    save_program(chain(), path)
    return path.read_bytes()


def refused(data: bytes, path: Path, problem: str) -> None:
    path.write_bytes(data)
    with pytest.raises(ModelError, match=problem) as caught:
        load_program(path)
    assert str(path) in str(caught.value)


def test_files_that_are_something_else(data: bytes, tmp_path: Path) -> None:
    refused(b"", tmp_path / "a", "is not a saved program")
    refused(b"\x08\x07\x12\x04onnx", tmp_path / "a", "is not a saved program")
    refused(data.replace(b"\r\n", b"\n"), tmp_path / "a", "is not a saved program")
    with pytest.raises(ModelError, match="missing: no such file"):
        load_program(tmp_path / "missing")
    with pytest.raises(ModelError, match="is a folder"):
        load_program(tmp_path)


def test_truncated_and_longer_files(data: bytes, tmp_path: Path) -> None:
    refused(data[:8], tmp_path / "a", "is truncated: 8 bytes")
    refused(data[: PREFIX.size + CHECKSUM_BYTES - 1], tmp_path / "a", "is truncated")
    refused(data[:-1], tmp_path / "a", f"is truncated: {len(data) - 1} of {len(data)} bytes")
    refused(data + b"\0", tmp_path / "a", "is damaged: its checksum")
    refused(sealed(data + b"\0"), tmp_path / "a", f"states format 1 and {len(data)} of {len(data) + 1} bytes")


def test_a_newer_format(data: bytes, tmp_path: Path) -> None:
    magic, _, length, total = PREFIX.unpack_from(data)
    newer = PREFIX.pack(magic, 5, length, total) + data[PREFIX.size :]
    problem = r"made by a newer calib8 \(format 5, this one reads up to 4\). Install that version"
    refused(newer, tmp_path / "a", problem)
    refused(sealed(newer), tmp_path / "a", problem)
    older = PREFIX.pack(magic, 0, length, total) + data[PREFIX.size :]
    refused(sealed(older), tmp_path / "a", "states format 0")


def test_a_changed_weight(data: bytes, tmp_path: Path) -> None:
    changed = bytearray(data)
    changed[-CHECKSUM_BYTES - ALIGNMENT] ^= 1
    refused(bytes(changed), tmp_path / "a", "is damaged: its checksum does not match")


def first_conv(document: Any) -> Any:
    return document["program"]["Program"]["instructions"][1]["Conv"]


def rename(document: Any) -> None:
    step = document["program"]["Program"]["instructions"][1]
    step["Winograd"] = step.pop("Conv")


HEADERS: list[tuple[Callable[[Any], object], str]] = [
    (rename, "holds the unknown type 'Winograd'"),
    (lambda d: first_conv(d).update(alpha=1), "holds a Conv with the unknown field 'alpha'"),
    (lambda d: first_conv(d).pop("strides"), "holds a Conv without 'strides'"),
    (lambda d: d["program"]["Program"].update(profile="fast"), "profile is 'fast'"),
    (lambda d: first_conv(d).update(strides=[0, 1]), "a.c8p, program .*instruction 1 .*stride 0"),
    (lambda d: first_conv(d).update(strides="ab"), "strides is 'ab', not a tuple"),
    (lambda d: first_conv(d).update(low=0.5), "low is 0.5, not int"),
    (lambda d: first_conv(d)["rescale"].update(Slot={}), "an object of 2 names"),
    (lambda d: first_conv(d).update(rescale={"FloatRescale": []}), "a FloatRescale without fields"),
    (lambda d: first_conv(d).update(rescale={"FloatRescale": {}}), "a FloatRescale without 'factor'"),
    (lambda d: first_conv(d).update(weight={"array": 999}), "the array number 999 of"),
    (lambda d: first_conv(d).update(weight={"array": len(d["arrays"])}), "the array number"),
    (lambda d: first_conv(d).update(weight={"array": -1}), "the array number -1"),
    (lambda d: first_conv(d).update(weight={"array": True}), "the array number True"),
    (lambda d: first_conv(d).update(weight={"bytes": 0}), "weight is a bytes"),
    (lambda d: d["arrays"][0].__setitem__(0, "object"), r"the array \['object'"),
    (lambda d: d["arrays"][0].__setitem__(1, 5), "the array "),
    (lambda d: d["arrays"][0].__setitem__(1, [-1]), r"an array of shape \[-1\]"),
    (lambda d: d["arrays"][0].__setitem__(1, [True]), r"an array of shape \[True\]"),
    (lambda d: d["arrays"][0].__setitem__(1, [1] * 99), r"an array of shape \[1, 1"),
    (lambda d: d["arrays"][0].__setitem__(1, [1 << 40, 1 << 40]), "reaches beyond the file"),
    (lambda d: d["arrays"][0].__setitem__(2, 1 << 62), "reaches beyond the file"),
    (lambda d: d["arrays"][0].__setitem__(2, -64), r"the array \['float32', \[0\], -64\]"),
    (lambda d: d["arrays"][0].append(0), "the array "),
    (lambda d: d.pop("arrays"), "without a list of arrays"),
    (lambda d: d.pop("program"), "holds no program"),
    (lambda d: d.update(program=d["program"]["Program"]["slots"][0]), "holds no program"),
    (lambda d: d["program"]["Program"].update(name=[]), "name is a tuple, not str"),
]


@pytest.mark.parametrize(("change", "problem"), HEADERS, ids=[problem for _, problem in HEADERS])
def test_headers_that_are_well_formed_and_wrong(
    data: bytes, tmp_path: Path, change: Callable[[Any], None], problem: str
) -> None:
    refused(edited(data, change), tmp_path / "a.c8p", problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"{", "a header that is no JSON"),
        (b"\xff\xfe", "a header that is no JSON"),
        (b"[]", "without a list of arrays"),
        (b"[" * 100_000, "nested beyond"),
        (b'{"arrays":[],"program":' + b"[" * 600 + b"]" * 600 + b"}", "holds"),
        (b"9" * 5000, "a header that is no JSON"),
    ],
    ids=["cut", "binary", "list", "deep", "deep list", "long number"],
)
def test_headers_that_are_no_header(data: bytes, tmp_path: Path, text: bytes, problem: str) -> None:
    refused(with_header(data, text), tmp_path / "a.c8p", problem)


def test_a_header_longer_than_the_file(data: bytes, tmp_path: Path) -> None:
    magic, version, _, total = PREFIX.unpack_from(data)
    longer = PREFIX.pack(magic, version, 1 << 63, total) + data[PREFIX.size :]
    refused(
        sealed(longer), tmp_path / "a.c8p", "a header of 9223372036854775808 bytes, more than the file has"
    )


def test_random_damage_is_refused(data: bytes, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(8), tmp_path / "a.c8p"
    for _ in range(300):
        damaged = bytearray(data[: rng.integers(1, len(data) + 1)])
        for place in rng.integers(0, len(damaged), rng.integers(1, 4)):
            damaged[place] ^= 1 << rng.integers(8)
        refused(bytes(damaged), path, "truncated|damaged|newer|not a saved program")


@settings(max_examples=200)
@given(drawn=st.data())
def test_random_damage_under_a_right_checksum_loads_or_is_refused(
    data: bytes, tmp_path_factory: pytest.TempPathFactory, drawn: st.DataObject
) -> None:
    """Whoever computes checksums can write anything: nothing but ModelError may come of it."""
    length, _ = header(data)
    changed = bytearray(data)
    places = st.integers(8, PREFIX.size + length - 1)
    for _ in range(drawn.draw(st.integers(1, 3))):
        changed[drawn.draw(places)] = drawn.draw(
            st.integers(0, 255) | st.sampled_from(b'0123456789-[]{},:"e.')
        )
    path = tmp_path_factory.getbasetemp() / "fuzz.c8p"
    path.write_bytes(sealed(bytes(changed)))
    try:
        load_program(path)
    except ModelError as error:
        assert str(path) in str(error)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.sampled_from([1 << 31, 1 << 64, 0.5, "Conv", "int8", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["array", "Slot"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places_of(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON document."""
    keys = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [(value, key) for key, _ in keys]
    for container, key in list(found):
        found += places_of(container[key])
    return found


@settings(max_examples=200)
@given(drawn=st.data())
def test_any_value_anywhere_in_the_header_loads_or_is_refused(
    data: bytes, tmp_path_factory: pytest.TempPathFactory, drawn: st.DataObject
) -> None:
    def change(document: Any) -> None:
        container, key = drawn.draw(st.sampled_from(places_of(document)))
        container[key] = drawn.draw(VALUES)

    path = tmp_path_factory.getbasetemp() / "fuzz.c8p"
    path.write_bytes(edited(data, change))
    try:
        load_program(path)
    except ModelError as error:
        assert str(path) in str(error)
