"""Registers calib8's provider with ONNX Runtime, which then runs the plans in ONNX files.

    import onnxruntime, onnxruntime_ep_calib8

    onnxruntime_ep_calib8.register()
    session = onnxruntime.InferenceSession(
        "net.onnx", providers=["Calib8ExecutionProvider", "CPUExecutionProvider"]
    )

``calib8 export --to epcontext`` writes such files. ONNX Runtime 1.25 and newer take the name of the provider;
1.23 and 1.24 need ``session_options()`` in its place, which newer ones take too.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import onnxruntime

NAME: Final = "Calib8ExecutionProvider"
"""Of the provider."""

OLDEST: Final = "1.23"
"""ONNX Runtime that takes providers from outside."""


def get_library_path() -> str:
    """Path of the library, for programs that register it themselves.

    Raises:
        FileNotFoundError: the package is not whole.
    """
    path = Path(__file__).parent / "libonnxruntime_ep_calib8.so"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file. Install onnxruntime-ep-calib8 again")
    return str(path)


def get_ep_names() -> list[str]:
    """Names of the providers in the library: one."""
    return [NAME]


def register() -> None:
    """Makes ONNX Runtime know the provider; once for a process, further calls do nothing.

    Raises:
        ImportError: there is no onnxruntime, or it is older than 1.23.
        FileNotFoundError: the package is not whole.
    """
    runtime = _runtime()
    if not _devices(runtime):
        runtime.register_execution_provider_library(NAME, get_library_path())


def session_options(
    options: onnxruntime.SessionOptions | None = None,
    *,
    threads: int | None = None,
    isa: str | None = None,
) -> onnxruntime.SessionOptions:
    """Options of a session whose nodes go to calib8 first, then to ONNX Runtime's own provider.

    Give them as ``sess_options``, without ``providers``. The provider is registered first, if it is not yet.

    Args:
        options: to be added to; None: new ones.
        threads: that share the work of a run, 1 … 256; None: as many as processors may be used.
        isa: instruction set, such as ``avx2``; None: the fastest of this machine. All give the same bits.

    Raises:
        ImportError, FileNotFoundError: as for ``register``.
    """
    runtime = _runtime()
    register()
    found = runtime.SessionOptions() if options is None else options
    wanted = {"threads": threads, "isa": isa}
    given = {name: str(value) for name, value in wanted.items() if value is not None}
    found.add_provider_for_devices(_devices(runtime)[:1], given)  # of several registrations one
    return found


def _devices(runtime: object) -> list[object]:
    """The machine as a device of the provider; nothing where it is not registered."""
    return [device for device in runtime.get_ep_devices() if device.ep_name == NAME]  # type: ignore[attr-defined]


def _runtime() -> object:
    if find_spec("onnxruntime") is None:
        raise ImportError(f"there is no onnxruntime. Install onnxruntime {OLDEST} or newer")
    import onnxruntime

    if not hasattr(onnxruntime, "register_execution_provider_library"):
        problem = f"onnxruntime {onnxruntime.__version__} takes no providers from outside"
        raise ImportError(f"{problem}. Install onnxruntime {OLDEST} or newer")
    return onnxruntime
