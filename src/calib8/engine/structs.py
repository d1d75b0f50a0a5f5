"""Structs of the native core as frozen dataclasses: their fields and kinds are read from the core itself.

    struct FillHalo { View view; int64_t top, …; }     C++: members, and fields(), which names them in order
    class FillHalo(Step): …                            Python: no fields of its own

The core is asked once, when this module is imported. A class that is named after no struct of it has no
fields: it is a base of others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from calib8 import _core

SCHEMAS: Final = _core.engine.structs()
"""Name of a struct in the core → name and type of every field, and what its enumeration calls its values."""

AXES: Final = _core.engine.AXES
"""Numbers of a field that holds one per axis."""

Axes = tuple[int, int, int, int, int, int]

TYPES: Final[dict[str, type]] = {"int": int, "float": float, "axes": tuple}
"""Types of fields; every struct that is declared joins them, so nested ones come first."""

AnyStruct = TypeVar("AnyStruct", bound="Struct")


class Struct:
    """What a struct of the core is here: frozen, compared by its fields, made with all of them.

    Attributes:
        opcode: its name in the core.
        kinds: name → value of its enumeration; empty without one.
    """

    opcode: ClassVar[str]
    kinds: ClassVar[Mapping[str, int]]
    if TYPE_CHECKING:  # what the fields are only the core knows
        __dataclass_fields__: ClassVar[dict[str, Any]]

        def __init__(self, *values: Any, **named: Any) -> None:
            """A value for every field, in their order or by name."""

        def __getattr__(self, name: str) -> Any:
            """A field."""

    def __init_subclass__(cls) -> None:
        """Fields, kinds and opcode of the struct of the same name."""
        opcode = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        if opcode in SCHEMAS:
            members, cls.kinds = SCHEMAS[opcode]
            cls.opcode = opcode
            cls.__annotations__ = {name: TYPES[kind] for name, kind in members}
            TYPES[opcode] = dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        """Rows are numbers without types: what does not fit its field is told here."""
        for field in fields(self):
            value, kind = getattr(self, field.name), field.type
            whole = kind is not tuple or (type(value) is tuple and len(value) == AXES)
            if not isinstance(value, kind) or not whole:  # type: ignore[arg-type]  # types, see above
                raise TypeError(f"{type(self).__name__}.{field.name} is {value!r:.60}, not of {kind}")

    @classmethod
    def zeros(cls: type[AnyStruct]) -> AnyStruct:
        """All numbers 0, all axes too."""
        empty = {int: 0, float: 0.0, tuple: (0,) * AXES}
        return cls(*(empty[kind] if kind in empty else kind.zeros() for kind in cls.__annotations__.values()))
