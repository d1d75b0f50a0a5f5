"""Files: looked at before they are read, written so that each is either the old or the complete new one."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from calib8.addresses import is_address
from calib8.errors import Calib8Error, ModelError, OutputError, PlaceError, UsageError
from calib8.type_texts import a_type

WRITTEN_MODELS: Final = (".onnx", ".tflite")
"""Suffixes of the INT8 models that are written."""

TMFILE: Final = ".tmfile"
"""Suffix of Tengine's models, which have codes everywhere: only what needs no float layers is written so."""

OTHER_FILES: Final = frozenset({
    ".bin", ".c8", ".c8p", ".ckpt", ".csv", ".engine", ".gguf", ".gz", ".h5", ".hdf5", ".html", ".joblib",
    ".jpg", ".json", ".keras", ".mar", ".mlmodel", ".mlpackage", ".mnn", ".npy", ".npz", ".om", ".ort",
    ".param", ".params", ".pb", ".pbtxt", ".pdmodel", ".pdparams", ".pickle", ".pkl", ".plan", ".png",
    ".prototxt", ".pt", ".pt2", ".pte", ".pth", ".rknn", ".safetensors", ".table", ".tar", ".tf", ".tmfile",
    ".trt", ".txt", ".uff", ".xml", ".yaml", ".yml", ".zip",
})  # fmt: skip
"""Suffixes of other kinds of models, of weights, data and texts."""

_LONGEST_NAME: Final = 255
"""Bytes of a file's name that file systems take."""

_MARK: Final = re.compile(r"[a-z0-9_]{8}")
"""What a temporary name ends with."""

_OWN_STREAMS: Final = (1, 2)
"""Descriptors of standard output and standard error."""


def checked_path(value: object, what: str) -> Path:
    """A path that was given from Python.

    Args:
        value: a str or an os.PathLike.
        what: it is the path of, for the message, such as ``statistics``.

    Raises:
        UsageError: it is neither.
    """
    if not isinstance(value, str | os.PathLike) or isinstance(path := os.fspath(value), bytes):
        raise UsageError(what, f"is of type {type(value).__name__}, not a path", "Give the path of a file")
    return Path(path)


def check_written_model(path: str | os.PathLike[str], subject: str = "", also: tuple[str, ...] = ()) -> None:
    """Refuses names of INT8 models by which other tools would not know them, or take them for others.

    Args:
        path: of a model to be written; its suffix may be one that says nothing, as in ``model_v1.0``.
        subject: what gives it, with the path, for the message; empty: the path alone.
        also: suffixes that are written here beside ``WRITTEN_MODELS``.

    Raises:
        UsageError: no suffix, or one that is in ``OTHER_FILES``.
    """
    *some, last = (*WRITTEN_MODELS, *also)
    file, kinds = Path(path), f"{', '.join(some)} or {last}"
    if file.name and not file.suffix:
        problem = f"has no suffix; models are written as {kinds}"
        raise UsageError(
            subject or str(file), problem, f"Add {WRITTEN_MODELS[0]}: {file.name}{WRITTEN_MODELS[0]}"
        )
    if file.suffix.lower() not in OTHER_FILES.difference(also):
        return
    cure = f"Give a name such as {file.with_suffix('.onnx').name} or {file.with_suffix('.tflite').name}"
    problem = f"is the name of another kind of file; models are written as {kinds}"
    raise UsageError(subject or str(file), problem, cure)


def is_translated(path: str | os.PathLike[str]) -> bool:
    """A model of this name is a translation of the QDQ model into the form of another runtime."""
    return os.fspath(path).lower().endswith((".tflite", TMFILE))


def check_address(path: str | os.PathLike[str], error: type[Calib8Error]) -> None:
    """Refuses an address such as ``https://…``, also as a ``Path`` has it, with one slash.

    Args:
        path: as it was given; it may exist all the same.
        error: what it belongs to.

    Raises:
        Calib8Error: of the class ``error``.
    """
    name = os.fspath(path)
    if is_address(name) and not os.path.exists(path):  # noqa: PTH110
        problem = "is an address, and calib8 reads and writes files only"
        raise error(name, problem, "Download it, and give the path of the file")


def check_file(path: str | os.PathLike[str], cure: str, error: type[Calib8Error]) -> None:
    """Refuses what is no regular file: opening a pipe would wait for ever.

    Args:
        path: of anything that is about to be read.
        cure: what to give in its place.
        error: what it belongs to.

    Raises:
        Calib8Error: of the class ``error``: a folder, something else that is no file, or nothing at all.
    """
    if os.path.isfile(path):  # noqa: PTH113 - a path that no file can have is no file, and no error
        return
    name = os.fspath(path)
    if os.path.isdir(path):  # noqa: PTH112
        raise error(name, "is a folder", cure)
    if os.path.exists(path):  # noqa: PTH110
        raise error(name, f"is a {_kind(os.stat(path).st_mode)}, no file", cure)  # noqa: PTH116
    check_address(path, error)
    raise error(name, "no such file", cure)


def library_path(path: str | os.PathLike[str]) -> str:
    """The path of a model as libraries in C++ take it: UTF-8, whatever the locale.

    Raises:
        ModelError: its bytes are no UTF-8.
    """
    try:
        return os.fsencode(path).decode()
    except UnicodeDecodeError as error:
        problem = "has a name that is not UTF-8, under which onnx and the runtimes open nothing"
        raise ModelError(os.fspath(path), problem, "Rename the file or its folder") from error


def check_model_file(path: str | os.PathLike[str], cure: str) -> None:
    """``check_file`` for a model, program or plan.

    Raises:
        ModelError: what it refuses.
    """
    check_file(path, cure, ModelError)


def output_file(path: str | os.PathLike[str]) -> Path:
    """The file that writing to ``path`` makes or replaces: links are followed, as a shell's ``>`` does.

    A link to a file stays and the file behind it is meant; so is one that a link names and that is not there
    yet, where its folder is.

    Raises:
        OutputError: no path, a folder, device, pipe or socket, a link that leads nowhere, or what this
            process prints to.
    """
    if not _is_path(path):
        raise OutputError("path", f"is {a_type(path)}", "Give the path of a file")
    name = os.fspath(path)
    while (found := _stat_of_output(name)) is not None:
        if not stat.S_ISREG(found.st_mode):
            raise OutputError(name, f"is a {_kind(found.st_mode)}, no file", "Give the path of a file")
        if any(_is_descriptor(found, number) for number in _OWN_STREAMS):
            raise OutputError(name, "is where the messages of this command go", "Give a file of its own")
        real = os.path.realpath(name)
        if _is_at(found, real):
            return Path(real)
        if _is_at(found, name):  # else another process replaced or removed it meanwhile
            raise OutputError(name, "is an open file without a name", "Give the path of a file")
    return _new_file(Path(name))


def _stat_of_output(name: str) -> os.stat_result | None:
    """What is at the end of all links; None: nothing yet."""
    try:
        return os.stat(name)  # noqa: PTH116
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # links in a circle; no path can hold a zero byte
        raise _cannot_write(name, error) from error


def _is_at(found: os.stat_result, path: str) -> bool:
    """Whether a file is the one at a path."""
    try:
        return os.path.samestat(found, os.stat(path))  # noqa: PTH116
    except OSError:
        return False


def _new_file(path: Path) -> Path:
    """Where a file comes to lie that does not exist yet; itself unless it is a link."""
    if not path.is_symlink():
        return path
    real = Path(os.path.realpath(path))
    if real.parent.is_dir():
        return real
    raise OutputError(str(path), f"is a link to '{real}', whose folder does not exist", "Remove the link")


def _kind(mode: int) -> str:
    """What it is that is no regular file."""
    kinds = ((stat.S_ISDIR, "folder"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"))
    return next((kind for test, kind in kinds if test(mode)), "device")


def _is_descriptor(found: os.stat_result, number: int) -> bool:
    """Whether a file is the one that a descriptor of this process writes to."""
    try:
        return os.path.samestat(found, os.fstat(number))
    except OSError:  # closed
        return False


def check_output(
    subject: str, path: str | os.PathLike[str], taken: Iterable[tuple[str, str | os.PathLike[str]]]
) -> None:
    """Makes sure, before an hour is spent, that a result will have a place and destroy nothing.

    Args:
        subject: what is to be written, for the message, such as ``--output out.onnx``.
        path: of it.
        taken: files that are read or written too, each after what to call it.

    Raises:
        UsageError: it is one of them.
        PlaceError: the folder is missing or cannot be written to, or the path is no regular file.
    """
    for other, taken_path in taken:
        if _same_file(path, taken_path):
            raise UsageError(subject, f"is the same file as {other}", "Choose another path")
    check_place(subject, path)


def check_place(subject: str, path: str | os.PathLike[str]) -> None:
    """Makes sure that a file can be written, whatever is there.

    Args:
        subject: what is to be written, for the message.
        path: of it.

    Raises:
        PlaceError: the folder is missing or cannot be written to, or the path is no regular file.
    """
    try:
        file = output_file(path)
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OutputError as error:
        raise PlaceError(subject, error.problem, error.cure) from error
    except OSError as error:
        reason, cure = error.strerror or str(error), "Choose a folder that exists and is writable"
        raise PlaceError(subject, f"cannot be written ({reason})", cure) from error


def _same_file(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samefile(path, other)  # noqa: PTH121
    except (OSError, ValueError):
        return os.path.realpath(path) == os.path.realpath(other)


@contextmanager
def atomic_output(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary path beside the file meant by ``path`` and renames it onto that on success.

    On any error the temporary file is removed and the old file is left as it was. Links stay what they are,
    see ``output_file``; a file that exists keeps its mode, a new one has what the umask leaves.

    Raises:
        OutputError: no path to a file, the folder is missing, not writable, or the disk is full.
    """
    target, subject = output_file(path), os.fspath(path)
    made: list[int | Path] = []
    try:
        temporary = _held_temporary(target, made)
        yield temporary
        temporary.chmod(_mode(target))
        temporary.replace(target)
    except OSError as error:
        raise _cannot_write(subject, error) from error
    finally:
        for one in made:
            if isinstance(one, int):
                os.close(one)
            else:
                one.unlink(missing_ok=True)


def _held_temporary(target: Path, made: list[int | Path]) -> Path:
    """A new file beside another one, locked, so that nobody takes it for a leftover.

    Args:
        target: the other one.
        made: gets the name before the file is there, and the descriptor: whatever interrupts, both are known.
    """
    while True:
        temporary = target.with_name(f"{_beginning(target)}{os.urandom(4).hex()}")
        made[:] = [temporary]
        try:
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            made.clear()
            continue
        made.append(handle)
        if _locked(handle) and os.path.exists(temporary):  # noqa: PTH110
            return temporary
        made.remove(handle)  # it was taken for a leftover just now
        os.close(handle)


def _locked(handle: int) -> bool:
    """Locks an open file, unless another process has; the system lets go of locks when a process ends."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _beginning(target: Path) -> str:
    """What temporary names beside a file begin with; as long as there is room for."""
    name = os.fsencode(target.name)[: _LONGEST_NAME - len("..12345678")]
    return f".{os.fsdecode(name)}."


def _mode(target: Path) -> int:
    """Permissions of a file that exists, else those of a new one."""
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o666 & ~_umask()


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Removes the temporary files that killed processes left beside ``path`` while they wrote it.

    Those that another process is writing now stay.
    """
    with suppress(OSError, OutputError):
        target = output_file(path)
        beginning = _beginning(target)
        for file in target.parent.iterdir():
            left = file.name.startswith(beginning) and _MARK.fullmatch(file.name[len(beginning) :])
            if left and not _is_held(file):
                file.unlink(missing_ok=True)


def _is_held(file: Path) -> bool:
    """Whether a process is writing it now."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True  # gone, or nothing that was left by a write
    try:
        return not _locked(handle)
    finally:
        os.close(handle)


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def _cannot_write(subject: str, error: OSError | ValueError) -> OutputError:
    reason = getattr(error, "strerror", None) or str(error)
    return OutputError(subject, f"cannot be written ({reason})", "Choose a writable path with free space")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
