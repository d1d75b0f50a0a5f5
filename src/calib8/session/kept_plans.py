"""Plans of models that were opened before, kept in the user's cache folder.

    KEY.json      profile, inputs and outputs of a model, free axes included
    KEY-SIZES.c8  its plan for certain input sizes

KEY is the SHA-256 of the model's bytes, of what was asked of the session, and of the code that makes plans:
name, size and time of every file of this package and of the libraries that rewrite graphs, and of one file of
each other library that has a part in it. So no model is taken for another one, and no plan of another calib8
is used. Files hold the name that they were written under: one that was copied over another is not believed.

What cannot be read or written is as good as not there: the model is opened as if nothing was kept.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from calib8.engine.plan import Plan
from calib8.engine.plan_file import SUFFIX, load_plan, save_plan
from calib8.errors import Calib8Error, ModelError
from calib8.forks import whole_imports
from calib8.profiles import ALL_PROFILES
from calib8.session.cache_folder import cache_folder, make_room, most_bytes, touch
from calib8.session.ports import Shapes
from calib8.session.prepared import Opened
from calib8.tensors import TensorSpec

if TYPE_CHECKING:  # a plan is opened without the classes of programs
    from calib8.program.program import Program

CODE: Final = ("calib8", "onnx_ir", "onnxscript")
"""Packages of which every file counts."""

LIBRARIES: Final = ("calib8._core", "numpy", "ml_dtypes", "google.protobuf", "onnx")
"""What else has a part in reading models and folding constants: another version has another file."""

CHUNK: Final = 1 << 20

Lower = Callable[[Shapes], "Program"]
Read = Callable[[str | bytes], Opened]
"""Opens a path or the bytes of a model."""


class KeptPlans(NamedTuple):
    """What is kept of one model.

    Attributes:
        folder: where.
        most: bytes of all files there.
        key: begins the names of its files.
        source: the model, a path from the root.
        name: what the session calls it.
        request: what was asked of the session.
    """

    folder: str
    most: int
    key: str
    source: str | bytes
    name: str
    request: tuple[object, ...]

    def opened(self, read: Read) -> Opened | None:
        """The model as it was opened before; None if it was not.

        Args:
            read: opens it; called when a program is wanted that no plan is kept of.
        """
        path = self._path(".json")
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - see cache_folder
                document = _checked(file.read())
            if document["key"] != self.key:
                return None
            found = _opened(document, self._lowering(read))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        touch(path)
        with suppress(OSError):
            make_room(self.folder, self.most)  # the bound may be lower than when they were written
        return found if isinstance(self.source, bytes) else found._replace(name=self.name)

    def plan(self, shapes: Shapes, name: str) -> Plan | None:
        """The plan for these shapes, None if there is none; ``name`` is that of the session."""
        ending = _ending(shapes)
        path, mark = self._path(ending), self._mark(ending)
        if not os.path.isfile(path):  # noqa: PTH113
            return None
        try:
            found = load_plan(path)
        except Calib8Error:
            return None
        if not found.name.startswith(mark):
            return None
        touch(path)
        return replace(found, name=found.name[len(mark) :] or name)

    def keep_opened(self, opened: Opened) -> bool:
        """Keeps what was read; False if the source is not (or no longer) what the key was made of."""
        if not opened.self_contained or _key(self.source, self.request) != self.key:
            return False
        text = json.dumps({"key": self.key, **_document(opened)}, separators=(",", ":"))
        self._keep(".json", lambda path: _write(path, f"{_digest(text.encode())}\n{text}"))
        return True

    def keep_plan(self, shapes: Shapes, plan: Plan, name: str) -> None:
        """Keeps a plan, unless it alone is larger than all files may be together.

        A plan that is called like the session, ``name``, is kept without a name: other paths have the same
        bytes.
        """
        ending, own = _ending(shapes), "" if plan.name == name else plan.name
        kept = replace(plan, name=self._mark(ending) + own)
        if plan.constants.nbytes < self.most:
            self._keep(ending, lambda path: save_plan(kept, path))

    def _keep(self, ending: str, write: Callable[[str], None]) -> None:
        path = self._path(ending)
        with suppress(OSError, Calib8Error):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            write(path)
            if os.path.getsize(path) > self.most:  # noqa: PTH202
                os.remove(path)  # noqa: PTH107
            make_room(self.folder, self.most)

    def _mark(self, ending: str) -> str:
        """What the name of a plan begins with in its file."""
        return f"{self.key}{ending} "

    def _path(self, ending: str) -> str:
        return os.path.join(self.folder, self.key + ending)  # noqa: PTH118

    def lowered_once(self, opened: Opened, read: Read) -> Opened:
        """The model, which lets go of its graph as soon as it has been lowered: no other shapes will come.

        Args:
            opened: what was read.
            read: opens it again, if its program is wanted once more.
        """
        first, again = [opened.lower], self._lowering(read)

        def lower(shapes: Shapes) -> Program:
            known = first.pop() if first else again
            assert known is not None
            return known(shapes)

        return opened._replace(lower=lower)

    def _lowering(self, read: Read) -> Lower:
        """Reads the model when a program of it is wanted: it must still be the one that the plans are of."""

        def check() -> None:
            if _key(self.source, self.request) != self.key:
                problem = "was changed, moved or removed since the session was opened"
                raise ModelError(self.name, problem, "Open the model again")

        @cache
        def lower() -> Lower:
            check()
            opened = read(self.source)
            check()  # nothing happened while it was read
            assert opened.lower is not None
            return opened.lower

        return lambda shapes: lower()(shapes)


def kept_plans(source: object, request: tuple[object, ...]) -> KeptPlans | None:
    """What is, or may be, kept of a model.

    Args:
        source: path of a file, or the bytes of a model; nothing is kept of anything else.
        request: what else decides about the plan; each part must say all of it in its ``repr``.

    Returns:
        None for what nothing is kept of, where the environment switches it off, and for what is no file.

    Raises:
        UsageError: the environment states a bound that is no number.
    """
    folder = cache_folder()
    if folder is None or not isinstance(source, str | os.PathLike | bytes):
        return None
    most, name = most_bytes(), ""
    if most == 0:
        return None
    if not isinstance(source, bytes):
        name = os.fspath(source)
        if not isinstance(name, str):
            return None
        source = os.path.abspath(name)  # noqa: PTH100 - the working folder may change
    key = _key(source, request)
    return None if key is None else KeptPlans(folder, most, key, source, name, request)


def _key(source: str | bytes, request: tuple[object, ...]) -> str | None:
    """What the files of a model are called; None if it, or this calib8, cannot be read."""
    code = _code()
    if code is None:
        return None
    total = hashlib.sha256(code)
    total.update(repr((isinstance(source, bytes), request)).encode("utf-8", "surrogatepass"))
    try:
        for chunk in [source] if isinstance(source, bytes) else _chunks(source):
            total.update(chunk)
    except (OSError, ValueError):
        return None
    return total.hexdigest()


def _chunks(path: str) -> Iterator[memoryview]:
    """The bytes of a file; nothing but a regular file, as a pipe could not be read again."""
    if not os.path.isfile(path):  # noqa: PTH113
        raise OSError("not a file")
    memory = memoryview(bytearray(CHUNK))
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        while size := file.readinto(memory):
            yield memory[:size]


@cache
def _code() -> bytes | None:
    """Tells this calib8, as it lies on the disk, from all others; None where it lies in no files."""
    total = hashlib.sha256()
    try:
        with whole_imports():
            files = [_origin(name) for name in LIBRARIES]
            folders = [os.path.dirname(_origin(name)) for name in CODE]  # noqa: PTH120
        for path in (*files, *(source for folder in folders for source in _sources(folder))):
            status = os.stat(path)  # noqa: PTH116
            text = f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0"
            total.update(text.encode("utf-8", "surrogateescape"))
    except (OSError, ValueError, AttributeError, ImportError):  # in an archive, or put together by hand
        return None
    return total.digest()


def _origin(name: str) -> str:
    """The file of a module, the first one of a package."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ImportError(name)
    return spec.origin


def _sources(folder: str) -> Iterator[str]:
    """All modules below a folder, in the order of their names."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir() and entry.name != "__pycache__":
                yield from _sources(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.path


def _ending(shapes: Shapes) -> str:
    """Of the name of the plan for these shapes."""
    text = json.dumps([[name, list(map(int, sizes))] for name, sizes in shapes.items()])
    return f"-{hashlib.sha256(text.encode()).hexdigest()[:16]}{SUFFIX}"


def _write(path: str, text: str) -> None:
    with whole_imports():
        from calib8.files import atomic_output  # who finds a plan writes nothing

    with atomic_output(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _checked(data: bytes) -> dict[str, Any]:
    """The document of a file; raises ValueError if it is damaged."""
    stated, _, text = data.partition(b"\n")
    if stated.decode("ascii") != _digest(text):
        raise ValueError("another digest")
    document: dict[str, Any] = json.loads(text)
    return document


def _document(opened: Opened) -> dict[str, Any]:
    return {
        "name": opened.name,
        "profile": opened.profile,
        "inputs": [_spec_row(spec) for spec in opened.inputs],
        "outputs": [_spec_row(spec) for spec in opened.outputs],
        "at_once": opened.at_once,
        "states": dict(opened.states),
    }


def _spec_row(spec: TensorSpec) -> list[Any]:
    return [spec.name, spec.dtype.str, None if spec.shape is None else list(spec.shape), spec.counted]


def _opened(document: dict[str, Any], lower: Lower) -> Opened:
    """Raises ValueError, TypeError or KeyError for what ``_document`` did not make."""
    [profile] = [known for known in ALL_PROFILES if known == document["profile"]]
    inputs, outputs = (_specs(document[key]) for key in ("inputs", "outputs"))
    states = {str(read): str(written) for read, written in document["states"].items()}
    at_once = bool(document["at_once"])
    return Opened(document["name"], profile, inputs, outputs, lower, at_once=at_once, states=states)


def _specs(rows: Sequence[Sequence[Any]]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(str(name), np.dtype(dtype), None if sizes is None else tuple(sizes), counted)
        for name, dtype, sizes, counted in rows
    )
