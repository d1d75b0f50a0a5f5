"""Plans of models that were opened before, kept in the user's cache folder.

    KEY.json      profile, inputs and outputs of a model, free axes included
    KEY-SIZES.c8  its plan for certain input sizes

KEY is the SHA-256 of the model's bytes, of what was asked of the session, and of the code that makes plans
(name, size and time of every file of this package and of the libraries that read models). So no model is
taken for another one, and no plan of another calib8 is used.

What cannot be read or written is as good as not there: the model is opened as if nothing was kept.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from calib8.engine.plan import Plan
from calib8.engine.plan_file import SUFFIX, load_plan, save_plan
from calib8.errors import Calib8Error, ModelError
from calib8.forks import whole_imports
from calib8.profiles import PROFILES
from calib8.session.cache_folder import cache_folder, make_room, most_bytes, touch
from calib8.session.ports import Shapes
from calib8.session.prepared import Opened
from calib8.tensors import TensorSpec

if TYPE_CHECKING:  # a plan is opened without the classes of programs
    from calib8.program.program import Program

LIBRARIES: Final = ("calib8._core", "numpy", "onnx", "onnx_ir", "onnxscript")
"""The native core; what makes a graph of a file, and folds its constants."""

CHUNK: Final = 1 << 20

Source = str | os.PathLike[str] | bytes
Lower = Callable[[Shapes], "Program"]


class KeptPlans(NamedTuple):
    """What is kept of one model.

    Attributes:
        folder: where.
        bound: bytes of all files there.
        key: begins the names of its files.
        source: the model.
        request: what was asked of the session.
    """

    folder: str
    bound: int
    key: str
    source: Source
    request: tuple[object, ...]

    def opened(self, read: Callable[[], Opened]) -> Opened | None:
        """The model as it was opened before; None if it was not.

        Args:
            read: opens it; called when a program is wanted that no plan is kept of.
        """
        path = self._path(".json")
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - see cache_folder
                found = _opened(json.loads(file.read()), self._lowering(read))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        touch(path)
        return found if isinstance(self.source, bytes) else found._replace(name=os.fspath(self.source))

    def plan(self, shapes: Shapes) -> Plan | None:
        """The plan for these shapes; None if there is none."""
        path = self._path(_ending(shapes))
        if not os.path.isfile(path):  # noqa: PTH113
            return None
        try:
            found = load_plan(path)
        except Calib8Error:
            return None
        touch(path)
        return found

    def keep_opened(self, opened: Opened) -> bool:
        """Keeps what was read; False if the source is not (or no longer) what the key was made of."""
        if not opened.self_contained or _key(self.source, self.request) != self.key:
            return False
        text = json.dumps(_document(opened), separators=(",", ":"))
        self._keep(".json", lambda path: _write(path, text))
        return True

    def keep_plan(self, shapes: Shapes, plan: Plan) -> None:
        """Keeps a plan, unless it alone is as large as all files may be together."""
        if plan.constants.nbytes < self.bound:
            self._keep(_ending(shapes), lambda path: save_plan(plan, path))

    def _keep(self, ending: str, write: Callable[[str], None]) -> None:
        with suppress(OSError, Calib8Error):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            write(self._path(ending))
            make_room(self.folder, self.bound)

    def _path(self, ending: str) -> str:
        return os.path.join(self.folder, self.key + ending)  # noqa: PTH118

    def lowered_once(self, opened: Opened, read: Callable[[], Opened]) -> Opened:
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

    def _lowering(self, read: Callable[[], Opened]) -> Lower:
        """Reads the model when a program of it is wanted: it must still be the one that the plans are of."""

        @cache
        def lower() -> Lower:
            opened = read()
            if _key(self.source, self.request) != self.key:
                raise ModelError(
                    opened.name, "has changed since the session was opened", "Open the model again"
                )
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
    bound, key = most_bytes(), _key(source, request)
    return None if key is None else KeptPlans(folder, bound, key, source, request)


def _key(source: Source, request: tuple[object, ...]) -> str | None:
    """What the files of a model are called; None if it cannot be read."""
    total = hashlib.sha256(_code())
    total.update(repr(request).encode("utf-8", "surrogatepass"))
    try:
        for chunk in [source] if isinstance(source, bytes) else _chunks(source):
            total.update(chunk)
    except (OSError, ValueError):
        return None
    return total.hexdigest()


def _chunks(path: str | os.PathLike[str]) -> Iterator[memoryview]:
    """The bytes of a file; nothing but a regular file, as a pipe could not be read again."""
    if not os.path.isfile(path):  # noqa: PTH113
        raise OSError("not a file")
    memory = memoryview(bytearray(CHUNK))
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        while size := file.readinto(memory):
            yield memory[:size]


@cache
def _code() -> bytes:
    """Tells this calib8, as it lies on the disk, from all others."""
    total = hashlib.sha256()
    package = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
    with whole_imports():
        specs = [find_spec(name) for name in LIBRARIES]
    libraries = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    found = [*libraries, *_sources(package)]
    for path in found:
        status = os.stat(path)  # noqa: PTH116
        total.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return total.digest()


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


def _document(opened: Opened) -> dict[str, Any]:
    return {
        "name": opened.name,
        "profile": opened.profile,
        "inputs": [_spec_row(spec) for spec in opened.inputs],
        "outputs": [_spec_row(spec) for spec in opened.outputs],
        "at_once": opened.at_once,
    }


def _spec_row(spec: TensorSpec) -> list[Any]:
    return [spec.name, spec.dtype.str, None if spec.shape is None else list(spec.shape)]


def _opened(document: dict[str, Any], lower: Lower) -> Opened:
    """Raises ValueError, TypeError or KeyError for what ``_document`` did not make."""
    [profile] = [known for known in PROFILES if known == document["profile"]]
    inputs, outputs = (_specs(document[key]) for key in ("inputs", "outputs"))
    return Opened(document["name"], profile, inputs, outputs, lower, at_once=bool(document["at_once"]))


def _specs(rows: Sequence[Sequence[Any]]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(str(name), np.dtype(dtype), None if sizes is None else tuple(sizes))
        for name, dtype, sizes in rows
    )
