"""AIMET's encodings: scale and offset of every tensor, as JSON of version 0.6.1 or 1.0.0.

    real = scale · (code + offset)       codes 0 … 2^bits − 1, offset −(2^bits − 1) … 0: offset = −zero point
    symmetric                            offset −2^(bits−1); the range is ±(2^(bits−1) − 1) · scale

    0.6.1   {name: [{"bitwidth", "dtype", "is_symmetric", "max", "min", "offset", "scale"}]}
    1.0.0   [{"name", "bw", "dtype", "enc_type", "is_sym", "offset": [], "scale": []}]

both as "activation_encodings". Versions before 0.6.1 are of the first form and read as well. A range that is
symmetric around 0 is written as a symmetric encoding, any other with scale and zero point of its uint8 code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from calib8.errors import TableError
from calib8.formats.table_file import (
    EntryCollector,
    TableFile,
    is_symmetric,
    json_object,
    number,
    symmetric_scale,
)
from calib8.qparams import UINT8, activation_qparams
from calib8.table import CalibrationTable, Range

LISTS: Final = "1.0.0"
MAPPINGS: Final = "0.6.1"

_QUANTIZER_ARGS: Final[dict[str, Any]] = {
    "activation_bitwidth": 8,
    "dtype": "int",
    "is_symmetric": True,
    "param_bitwidth": 8,
    "per_channel_quantization": True,
    "quant_scheme": "post_training_tf",
}


class _Encoding(NamedTuple):
    """One entry of the file; lists of one number are that number, ``None`` is missing."""

    name: str
    dtype: str
    bits: float
    symmetric: bool
    scale: Any
    offset: Any
    bounds: tuple[Any, Any]


def recognizes(document: dict[str, Any]) -> bool:
    """There are encodings of activations."""
    return "activation_encodings" in document


def read(text: str, source: str) -> TableFile:
    """Reads either form; float tensors stay float, encodings of weights are kept as they are.

    Raises:
        TableError: neither form, a name twice, encodings per channel, a scale that is not positive, an offset
            beyond the codes.
    """
    document = json_object(text, source)
    if "encodings" in document:
        raise TableError(
            source, f"is of version {document.get('version')}", "Export it as version 1.0.0 or 0.6.1"
        )
    version = str(document.get("version", MAPPINGS))
    entries = EntryCollector(source, f"AIMET {version}")
    for encoding in _encodings(document.get("activation_encodings"), entries):
        if encoding.dtype == "float":
            entries.add_without_scale(encoding.name)
        else:
            entries.add(encoding.name, _bounds(encoding, entries))
    weights = {}
    for encoding in _encodings(document.get("param_encodings", []), entries, channels=True):
        scales = encoding.scale if isinstance(encoding.scale, list) else [encoding.scale]
        weights[encoding.name] = tuple(number(scale) for scale in scales)
    return entries.finish(format="aimet" if version >= LISTS else "aimet-0.6.1", weight_scales=weights)


def write(table: CalibrationTable, version: str = LISTS) -> str:
    """The JSON of a version, ``LISTS`` or ``MAPPINGS``, without encodings of weights."""
    named = sorted(table.entries.items())
    document: dict[str, Any] = {"version": version, "param_encodings": [], "excluded_layers": []}
    if version == LISTS:
        document["activation_encodings"] = [_as_list_entry(name, entry.range) for name, entry in named]
        document["quantizer_args"] = _QUANTIZER_ARGS
    else:
        document["param_encodings"] = {}
        document["activation_encodings"] = {name: [_as_mapping(entry.range)] for name, entry in named}
        document["quantizer_args"] = {
            key: str(value) if isinstance(value, bool) else value for key, value in _QUANTIZER_ARGS.items()
        }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False, sort_keys=True) + "\n"


def _code(chosen: Range) -> tuple[bool, float, int]:
    """Whether it is symmetric, scale and offset."""
    if is_symmetric(chosen) and chosen.magnitude > 0:
        return True, symmetric_scale(chosen), -128
    qparams = activation_qparams(chosen.min, chosen.max, UINT8)
    return False, qparams.scale, -qparams.zero_point


def _as_list_entry(name: str, chosen: Range) -> dict[str, Any]:
    symmetric, scale, offset = _code(chosen)
    return {
        "name": name,
        "bw": 8,
        "dtype": "INT",
        "enc_type": "PER_TENSOR",
        "is_sym": symmetric,
        "offset": [offset],
        "scale": [scale],
    }


def _as_mapping(chosen: Range) -> dict[str, Any]:
    symmetric, scale, offset = _code(chosen)
    return {
        "bitwidth": 8,
        "dtype": "int",
        "is_symmetric": str(symmetric),
        "max": scale * (offset + 255),
        "min": scale * offset,
        "offset": offset,
        "scale": scale,
    }


def _bounds(encoding: _Encoding, entries: EntryCollector) -> tuple[float, float]:
    """The range of an encoding; that of ``min`` and ``max`` where it has no scale."""
    if encoding.scale is None and None not in encoding.bounds:
        return number(encoding.bounds[0]), number(encoding.bounds[1])
    if encoding.bits not in range(2, 33):
        raise entries.error(f"has {encoding.bits:g} bits", name=encoding.name)
    scale = entries.positive(number(encoding.scale), "", encoding.name)
    offset, top = number(encoding.offset), 2 ** int(encoding.bits) - 1
    if not (-top <= offset <= 0 and offset == int(offset)):
        raise entries.error(
            f"the offset {encoding.offset} is not an integer in {-top} … 0", name=encoding.name
        )
    middle = (top + 1) // 2
    if encoding.symmetric and -offset in (middle, middle - 1):
        return -(middle - 1) * scale, (middle - 1) * scale
    return scale * offset, scale * (offset + top)


def _encodings(group: Any, entries: EntryCollector, *, channels: bool = False) -> Iterator[_Encoding]:
    """The entries of a group of either form; more than one number in an entry only for ``channels``."""
    if isinstance(group, dict):
        pairs = [(name, _merged(listed, entries, name)) for name, listed in group.items()]
    elif isinstance(group, list) and all(isinstance(fields, dict) for fields in group):
        pairs = [(str(fields.get("name", "")), fields) for fields in group]
    else:
        raise entries.error("its encodings are neither a mapping nor a list of objects")
    for name, fields in pairs:
        scale, offset = (_single(fields.get(key)) for key in ("scale", "offset"))
        if not channels and (isinstance(scale, list) or isinstance(offset, list)):
            raise entries.error("has one encoding per channel, which activations cannot have", name=name)
        yield _Encoding(
            name=name,
            dtype=str(fields.get("dtype", "int")).lower(),
            bits=number(fields.get("bitwidth", fields.get("bw", 8))),
            symmetric=str(fields.get("is_symmetric", fields.get("is_sym", False))).lower() == "true",
            scale=scale,
            offset=offset,
            bounds=(_single(fields.get("min")), _single(fields.get("max"))),
        )


def _merged(listed: Any, entries: EntryCollector, name: str) -> Mapping[str, Any]:
    """The encodings of the channels of one tensor as one with lists, that of a whole tensor as it is."""
    if isinstance(listed, dict):
        return listed
    if not isinstance(listed, list) or not listed or not all(isinstance(fields, dict) for fields in listed):
        raise entries.error("has no encoding", name=name)
    if len(listed) == 1:
        first: Mapping[str, Any] = listed[0]
        return first
    columns = {key: [fields.get(key) for fields in listed] for key in ("scale", "offset", "min", "max")}
    return {**listed[0], **columns}


def _single(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value
