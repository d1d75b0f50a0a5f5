"""What ``check_provider.py`` runs in an environment without calib8: the provider, beside stored outputs."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

import numpy as np
import onnxruntime
import onnxruntime_ep_calib8 as provider


def check(session: onnxruntime.InferenceSession, folder: Path) -> None:
    """All samples at once, one by one, and from several threads."""
    stored = np.load(folder / "expected.npz")
    values, logits = stored["values"], stored["logits"]
    name, wrong = session.get_inputs()[0].name, []

    def run(first: int, last: int) -> None:
        given = session.run(None, {name: values[first:last]})[0]
        if given.tobytes() != logits[first:last].tobytes():
            wrong.append((first, last))

    run(0, len(values))
    threads = [threading.Thread(target=run, args=(n % 4, n % 4 + 1)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, f"other bits for the samples {wrong}"


def refused(path: str, options: onnxruntime.SessionOptions) -> str:
    """What ONNX Runtime says of a file that is wrong."""
    try:
        onnxruntime.InferenceSession(path, options, enable_fallback=0)
    except Exception as error:
        return str(error)
    raise AssertionError(f"{path} was opened")


def main() -> None:
    """Ends with an AssertionError where something is not as it should be."""
    folder = Path(sys.argv[1])
    provider.register()
    provider.register()
    for file in ("plans.onnx", "beside.onnx"):
        for threads in (1, 2):
            options = provider.session_options(threads=threads)
            session = onnxruntime.InferenceSession(str(folder / file), options)
            assert session.get_providers()[0] == provider.NAME
            check(session, folder)
    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 25):
        names = [(provider.NAME, {"threads": "1"}), "CPUExecutionProvider"]
        check(onnxruntime.InferenceSession(str(folder / "plans.onnx"), providers=names), folder)
    damaged = bytearray((folder / "plans.onnx").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (folder / "damaged.onnx").write_bytes(damaged)
    said = refused(str(folder / "damaged.onnx"), provider.session_options())
    assert "node 'calib8': its plan: is damaged" in said, said
    for _ in range(50):
        onnxruntime.InferenceSession(str(folder / "plans.onnx"), provider.session_options())
    onnxruntime.unregister_execution_provider_library(provider.NAME)
    check(session, folder)
    del session
    gc.collect()


if __name__ == "__main__":
    main()
