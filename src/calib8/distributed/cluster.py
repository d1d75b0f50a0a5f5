"""Ray: whether it is there, which cluster, and what of its errors a user is told."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Final

from calib8.errors import Calib8Error, UsageError
from calib8.parameters import parameter

LEAST: Final = (2, 40)
"""The oldest Ray that has what is used here."""

SECONDS_TO_ANSWER: Final = 10.0

_SETTINGS: Final = b"\x04"
_GREETING: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + bytes(5)
"""How HTTP/2 begins, with a frame of settings that are as usual; the answer is such a frame."""

_NO_STACKS: Final = "RAY_IGNORE_UNHANDLED_ERRORS"

_INSTALL: Final = "Run: pip install 'calib8[ray]'"


def ray_there() -> Any:
    """The package, imported.

    Raises:
        UsageError: it is missing or too old.
    """
    if find_spec("ray") is None:
        raise UsageError("Ray", "the package ray is not installed", _INSTALL)
    found = _version("ray")
    if tuple(int(number) for number in re.findall(r"\d+", found)[:2]) < LEAST:
        raise UsageError("Ray", f"version {found} is too old", f"{_INSTALL}, which takes 2.40 or newer")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    return ray


@contextmanager
def connected(address: str) -> Iterator[None]:
    """A cluster for the time of the block; one that this process has joined already is left as it is.

    Args:
        address: ``local``: one is started on this machine, and ended behind the block; ``auto``: that of the
            environment variable RAY_ADDRESS, or one that runs on this machine; else ``host:port``.

    Raises:
        UsageError: no Ray, or no cluster there.
    """
    ray = ray_there()
    with _quiet():
        if ray.is_initialized():
            yield
        else:
            with _joined(ray, address):
                yield


@contextmanager
def _joined(ray: Any, address: str) -> Iterator[None]:
    """A cluster that this process has not joined yet, see ``connected``."""
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options["include_dashboard"] = False
    try:
        _answers(os.environ.get("RAY_ADDRESS", "") if address == "auto" else address)
        ray.init(**options)
    except Exception as error:  # Ray raises ConnectionError, RuntimeError, ValueError and others
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        cure = "Start one by Ray's own command ray start, or give 'local' to have one for this run"
        raise UsageError(parameter("ray", address), f"no cluster answers ({reason})", cure) from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray writes no stack for every result that nobody fetches: whoever waits is told what went wrong."""
    before = os.environ.get(_NO_STACKS)
    os.environ[_NO_STACKS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_STACKS]


def _answers(address: str) -> None:
    """Tries the port of ``host:port``: Ray itself waits for minutes, and ends the process in the end.

    Raises:
        OSError: nobody listens there, or somebody who does not speak HTTP/2 as Ray does.
    """
    found = re.fullmatch(r"(?:\w+://)?\[?([^\[\]/]+?)\]?:(\d+)", address)
    if found is None:
        return
    with socket.create_connection((found[1], int(found[2])), timeout=SECONDS_TO_ANSWER) as there:
        if os.environ.get("RAY_USE_TLS", "0") not in ("1", "true", "True"):
            there.sendall(_GREETING)
            if there.recv(9)[3:4] != _SETTINGS:
                raise ConnectionError("what listens there is not Ray")


def usable_workers(workers: int | None, threads: int) -> int:
    """How many workers to have: what was asked for, else as many as there are processors for.

    Raises:
        UsageError: the cluster has no machine for even one; one without any processor may get machines yet
            where a number was asked for.
    """
    nodes: list[dict[str, Any]] = ray_there().nodes()
    processors = [int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]]
    most = sum(each // threads for each in processors)
    if not most and (workers is None or any(processors)):
        problem = f"has no room for a worker of {threads} threads"
        raise UsageError("cluster", problem, f"Give fewer {parameter('threads')}, or add machines")
    return workers or most


def check_room_beside(threads: int) -> None:
    """Refuses a worker beside which the cluster has no processor left, for tasks that read a dataset.

    Raises:
        UsageError: it is so.
    """
    processors = int(ray_there().cluster_resources().get("CPU", 0))
    if processors <= threads:
        problem = f"has {processors} processors, all of which a worker takes: nothing could read the dataset"
        cure = "Add a machine, or give the path of the data in place of a dataset of Ray"
        raise UsageError("cluster", problem, cure)


def cause_of(error: BaseException) -> BaseException:
    """What really happened, where Ray has wrapped it: a ``Calib8Error`` wherever there is one.

    Args:
        error: what Ray raised.

    Returns:
        The error that a user is to be told; ``error`` itself where it is none that calib8 knows.
    """
    seen: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        one = waiting.pop(0)
        if not isinstance(one, BaseException) or one in seen:
            continue
        seen.append(one)
        waiting += [getattr(one, "cause", None), one.__cause__, one.__context__]
    for one in seen:
        if isinstance(one, Calib8Error):
            return _again(one)
    told = " ".join(map(str, seen))
    missing = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", told)
    if missing:
        cure = (
            "Install calib8 on every machine of the cluster, or start Ray with "
            "runtime_env={'pip': ['calib8']}"
        )
        return UsageError("cluster", f"its workers lack the package {missing[1].partition('.')[0]}", cure)
    plain = next((one for one in seen if isinstance(one, OSError) and not _is_of_ray(one)), None)
    return plain or error


def fault_of_rows(error: BaseException) -> BaseException | None:
    """What a function raised with which the user's dataset of Ray makes its rows; None: it was not that.

    Args:
        error: what Ray raised; calib8's own faults leave workers as ``WorkerFaultError``.
    """
    cause = getattr(error, "cause", None)
    if not isinstance(cause, Exception) or isinstance(cause, Calib8Error | OSError) or _is_of_ray(cause):
        return None
    return None if type(cause).__module__ == "calib8.distributed.workers" else cause


def said_by(error: BaseException) -> str:
    """The message of an error without the lines that Ray adds to it."""
    first = error.args[0] if len(error.args) == 1 else str(error)
    return next(iter(str(first).splitlines()), "")


def _again(error: Calib8Error) -> Calib8Error:
    """The error without what Ray made of its class: ``RayTaskError`` is made a second base of it."""
    kind: Any = next(kind for kind in type(error).__mro__ if kind.__module__ == "calib8.errors")
    return error if type(error) is kind else kind(error.subject, error.problem, error.cure)


def _is_of_ray(error: BaseException) -> bool:
    return type(error).__module__.startswith("ray.")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "0"
