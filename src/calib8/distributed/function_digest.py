"""What a function of the user's does, as a digest: the same in every process of one Python.

    function    its code, its defaults, what it holds of the calls around it, and what it reads of its module
    class       its methods and values, and those of its bases
    object      its class and its state, as ``copy`` would take it
    array       type, sizes and bytes
    package     what is installed counts by name and version, with what it holds; so do modules

What only running it would tell is not seen: what it reads from files, and what it imports while it runs.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dis import get_instructions
from functools import lru_cache
from pathlib import Path
from sysconfig import get_paths
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, type(...))
_UNSAID: Final = frozenset(
    {
        *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__"),
        *("__firstlineno__", "__static_attributes__", "__annotate_func__", "__annotations_cache__"),
        *("__abstractmethods__", "_abc_impl", "__slotnames__"),
    }
)
"""Entries of a class that say nothing of what it does."""


class UntellableError(Exception):
    """Something does not say what it is, such as a lock or an open file; the text is its type."""


def function_digest(function: Callable[..., Any]) -> str:
    """Digest of a function, 64 hexadecimal digits; one that does something else has another.

    Raises:
        UntellableError: it holds something that does not say what it is.
    """
    return value_digest(function).hex()


def value_digest(value: Any) -> bytes:
    """Digest of any value, 32 bytes.

    Raises:
        UntellableError: see ``function_digest``.
    """
    return _Teller().digest(value)


class _Teller:
    """Digests of values that hold one another.

    Attributes:
        known: ``id`` → digest, and the value, so that no other one gets its ``id``.
        inside: ``id`` → depth, of the values that are being told.
    """

    def __init__(self) -> None:
        self.known = dict[int, tuple[bytes, Any]]()
        self.inside = dict[int, int]()

    def digest(self, value: Any) -> bytes:
        """Digest of a value; of one that holds itself, how far above it is."""
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            return _hash(type(value).__name__, repr(value))
        if (found := self.known.get(id(value))) is not None:
            return found[0]
        if (depth := self.inside.get(id(value))) is not None:
            return _hash("above", str(len(self.inside) - depth))
        self.inside[id(value)] = len(self.inside)
        try:
            made = self._made(value)
        except RecursionError as error:
            raise UntellableError(type(value).__qualname__) from error
        finally:
            del self.inside[id(value)]
        self.known[id(value)] = made, value
        return made

    def all(self, kind: str, values: Iterable[Any]) -> bytes:
        """Digest of several values in their order."""
        return _hash(kind, *map(self.digest, values))

    def _made(self, value: Any) -> bytes:
        """Digest of what was not told yet."""
        if isinstance(value, ModuleType):
            return _hash("module", value.__name__, _version(value.__name__))
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, MethodType):
            return self.all("method", (value.__self__, value.__func__))
        if isinstance(value, CodeType):
            return self.all("code", _code(value))
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value)
        if isinstance(value, set | frozenset):
            return _hash(type(value).__name__, *sorted(map(self.digest, value)))
        if type(value) in (list, tuple):
            return self.all(type(value).__name__, value)
        if type(value) is dict:
            return self.all("dict", (each for item in value.items() for each in item))
        return self._other(value)

    def _function(self, function: FunctionType) -> bytes:
        held = [_content(cell) for cell in function.__closure__ or ()]
        told = [function.__defaults__, function.__kwdefaults__, held, function.__dict__]
        if _installed(function.__module__):
            name = f"{function.__module__}.{function.__qualname__}"
            return self.all("function", (name, _version(function.__module__), *told))
        codes = list(_codes(function.__code__))
        names = {name for code in codes for name in code.co_names}
        read = {name for code in codes for name in _globals(code)}
        reads = [each for name in sorted(read) for each in _read(function.__globals__, name, names)]
        return self.all("function", (function.__code__, *told, *reads))

    def _class(self, kind: type) -> bytes:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if _installed(kind.__module__):
            return _hash("class", name, _version(kind.__module__))
        told: list[Any] = [kind.__qualname__, *kind.__bases__]
        for entry, value in sorted(vars(kind).items()):
            if entry not in _UNSAID:
                told += [entry, *_parts(value)]
        return self.all("class", told)

    def _array(self, value: Any) -> bytes:
        if value.dtype.hasobject:
            return self.all("objects", [value.shape, value.reshape(-1).tolist()])
        return _hash("array", value.dtype.str, str(value.shape), value.tobytes())

    def _other(self, value: Any) -> bytes:
        if (wrapped := getattr(value, "__wrapped__", None)) is not None:
            return self.all("wrapper", (type(value), wrapped))
        if isinstance(value, BuiltinFunctionType):
            owner = None if isinstance(value.__self__, ModuleType) else value.__self__
            return self.all("built in", (value.__module__, value.__qualname__, owner))
        if _is_tensor(value):
            flat = value.detach().cpu().contiguous().reshape(-1)
            raw = flat.view(sys.modules["torch"].uint8).numpy()
            return self.all("tensor", (str(value.dtype), tuple(value.shape), raw))
        try:
            state = value.__reduce_ex__(4)
        except Exception as error:
            raise UntellableError(type(value).__qualname__) from error
        if isinstance(state, str):
            return self.all("named", (type(value), state))
        made, arguments, *rest = state
        return self.all("object", (type(value), made, arguments, *map(_listed, rest)))


def _hash(*parts: str | bytes) -> bytes:
    """SHA-256 over parts that cannot run into one another."""
    found = hashlib.sha256()
    for part in parts:
        text = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        found.update(len(text).to_bytes(8, "little") + text)
    return found.digest()


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Code, and all code in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _globals(code: CodeType) -> Iterator[str]:
    """What code reads of its module."""
    for step in get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(step.argval)


def _read(module: Mapping[str, Any], name: str, names: set[str]) -> Iterator[Any]:
    """A name and what it is in a module; where that is a module of the user's, what ``names`` are in it."""
    if name not in module:
        return
    value = module[name]
    yield name
    yield value
    if isinstance(value, ModuleType) and not _installed(value.__name__):
        for inner in sorted(names.intersection(vars(value)) - {name}):
            yield from _read(vars(value), inner, names - {name})


def _code(code: CodeType) -> list[Any]:
    """What code does, wherever it is written down."""
    return [
        code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags,
        code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount,
        getattr(code, "co_exceptiontable", b""), list(code.co_consts),
    ]  # fmt: skip


def _content(cell: Any) -> object:
    """What a function holds of the call around it; nothing yet where that call has not come so far."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _parts(value: Any) -> tuple[Any, ...]:
    """What an entry of a class consists of."""
    if isinstance(value, staticmethod | classmethod):
        return type(value).__name__, value.__func__
    if isinstance(value, property):
        return "property", value.fget, value.fset, value.fdel
    if type(value).__name__ in ("member_descriptor", "getset_descriptor", "method_descriptor"):
        return (value.__name__,)  # a slot
    return (value,)


def _listed(part: Any) -> Any:
    """Items of a container, which come as an iterator."""
    return list(part) if isinstance(part, Iterator) else part


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and value.layout == torch.strided


@lru_cache
def _installed(module: str | None) -> bool:
    """Whether a module is a part of Python, of a package that is installed, or of calib8."""
    name = (module or "").partition(".")[0]
    if name == "__main__":
        return False
    if not name or name == "calib8" or name in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    places = {Path(get_paths()[kind]) for kind in ("purelib", "platlib", "stdlib")}
    return file is not None and any(Path(file).is_relative_to(place) for place in places)


def _version(module: str | None) -> str:
    """That of the package of a module, where it says one."""
    package = sys.modules.get((module or "").partition(".")[0])
    return str(getattr(package, "__version__", ""))
