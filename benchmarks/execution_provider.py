"""calib8's provider in ONNX Runtime: bits and overhead beside our session, speed beside ONNX Runtime's own.

    python benchmarks/execution_provider.py DATA FOLDER --library libonnxruntime_ep_calib8.so
        [--models resnet8,…] [--threads 1,2] [--rounds 200] [--processor-time]
        [--soak 100000] [--opens 500] [--json FILE]

DATA holds the models and images that ``models.json`` names; FOLDER keeps the int8 models and the files of
their plans. Each network is quantized once for ONNX Runtime (u8 · s8, ranges minmax). Three runtimes take
turns in one process: our session, the provider in ONNX Runtime with the same plan, and ONNX Runtime's own
provider with the QDQ model. A time is the median of the fastest tenth of the runs, which other processes
disturb least; with ``--processor-time`` it is that of the thread that calls, for one thread on a machine
that does other work. ``--soak`` runs the first network so often, in 8 threads, and ``--opens`` opens its
session so often; both tell what memory the process holds before and after.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime

import calib8
from calib8.data.opening import open_dataset
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from engine import names
from methods import Network, opened
from results import processor

NAME: Final = "Calib8ExecutionProvider"
IMAGES: Final = 16
COMPARED: Final = 4
WORKERS: Final = 8
PAUSE: Final = 0.08
"""Seconds in which threads stop to spin: those of ONNX Runtime wait for work so for tens of ms."""

Feeds = dict[str, "np.ndarray[Any, np.dtype[Any]]"]
Run = Callable[[Feeds], Sequence["np.ndarray[Any, np.dtype[Any]]"]]


def free_sizes(network: Network) -> dict[str, tuple[int, ...]] | None:
    """Shapes of one sample, for networks that leave more open than the batch."""
    specs = graph_inputs(load_model(network.model))
    if all(isinstance(size, int) for spec in specs for size in (spec.shape or (None,))[1:]):
        return None
    (sample,) = open_dataset(network.data, specs, network.preprocess, samples=1)
    return {name: array.shape for name, array in sample.inputs.items()}


def prepared(name: str, entry: dict[str, Any], data: Path, folder: Path) -> tuple[Path, Path, list[Feeds]]:
    """The int8 model, the file of its plans, and some real inputs."""
    model, plans, inputs = (folder / f"{name}.{kind}" for kind in ("int8.onnx", "plans.onnx", "npz"))
    if not all(path.is_file() for path in (model, plans, inputs)):
        with opened(name, entry, data) as (network, _):
            made = calib8.quantize(
                network.model, network.data, preprocess=network.preprocess, samples=IMAGES,
                target="onnxruntime", method="minmax", effort="fast",
            )  # fmt: skip
            made.save(model)
            calib8.export(model, plans, "epcontext", shapes=free_sizes(network))
            specs = graph_inputs(load_model(network.model))
            samples = open_dataset(network.data, specs, network.preprocess, samples=COMPARED)
            arrays = [sample.inputs for sample in samples]
            np.savez(
                inputs, **{f"{place}/{key}": one[key] for place, one in enumerate(arrays) for key in one}
            )
    stored = np.load(inputs)
    feeds: list[Feeds] = [{} for _ in range(COMPARED)]
    for key in stored.files:
        place, _, port = key.partition("/")
        feeds[int(place)][port] = stored[key]
    return model, plans, feeds


def with_provider(plans: Path, threads: int) -> onnxruntime.InferenceSession:
    """A session of ONNX Runtime whose plans calib8 runs."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    devices = [one for one in onnxruntime.get_ep_devices() if one.ep_name == NAME]
    options.add_provider_for_devices(devices, {"threads": str(threads)})
    return onnxruntime.InferenceSession(str(plans), options, enable_fallback=0)


def own_provider(model: Path, threads: int) -> onnxruntime.InferenceSession:
    """A session of ONNX Runtime alone."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def runners(model: Path, plans: Path, feeds: list[Feeds], threads: int) -> dict[str, Run]:
    """Name → what runs the network once."""
    shapes = {name: array.shape for name, array in feeds[0].items()}
    ours = calib8.InferenceSession(model, threads=threads, shapes=shapes)
    provider, own = with_provider(plans, threads), own_provider(model, threads)
    return {
        "session": lambda fed: ours.run(None, fed),
        "provider": lambda fed: provider.run(None, fed),
        "onnxruntime": lambda fed: own.run(None, fed),
    }


def same_bits(runs: dict[str, Run], feeds: list[Feeds]) -> bool:
    """Whether the provider gives what our session gives, for every input."""
    pairs = [(runs["provider"](fed), runs["session"](fed)) for fed in feeds]
    return all(
        a.shape == b.shape and a.tobytes() == b.tobytes()
        for given, wanted in pairs
        for a, b in zip(given, wanted, strict=True)
    )


def times(
    runs: dict[str, Run], feeds: list[Feeds], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Milliseconds of a run, by runner; they take turns, each when the threads of the one before sleep."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 3):
        for name, run in runs.items():
            time.sleep(PAUSE)
            run(feeds[turn % len(feeds)])  # wakes the threads of this one
            start = clock()
            run(feeds[turn % len(feeds)])
            if turn >= 3:  # the first ones warm up
                found[name].append(1000 * (clock() - start))
    return {name: float(np.median(np.sort(each)[: max(1, rounds // 10)])) for name, each in found.items()}


def resident() -> float:
    """Megabytes of the process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def soak(plans: Path, feeds: list[Feeds], runs: int) -> dict[str, Any]:
    """Many runs of one session in several threads: outputs that differ, and memory before and after."""
    session = with_provider(plans, 2)
    wanted = [session.run(None, fed) for fed in feeds]
    wrong = [0] * WORKERS

    def work(place: int, count: int) -> None:
        for turn in range(count):
            given, right = session.run(None, feeds[turn % len(feeds)]), wanted[turn % len(feeds)]
            wrong[place] += any(a.tobytes() != b.tobytes() for a, b in zip(given, right, strict=True))

    def all_at_once(count: int) -> None:
        threads = [threading.Thread(target=work, args=(place, count)) for place in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    all_at_once(max(1, runs // (10 * WORKERS)))  # what is kept for later runs is there now
    before = resident()
    all_at_once(runs // WORKERS)
    return {"runs": runs, "wrong": sum(wrong), "before_mb": before, "after_mb": resident()}


def opens(plans: Path, feeds: list[Feeds], count: int) -> dict[str, Any]:
    """A session opened, run and closed, many times: memory after a tenth of them, and at the end."""
    wanted, before = with_provider(plans, 2).run(None, feeds[0]), 0.0
    wrong = 0
    for turn in range(count):
        session = with_provider(plans, 2)
        given = session.run(None, feeds[0])
        wrong += any(a.tobytes() != b.tobytes() for a, b in zip(given, wanted, strict=True))
        del session
        if turn + 1 == max(1, count // 10):
            gc.collect()
            before = resident()
    gc.collect()
    return {"opens": count, "wrong": wrong, "before_mb": before, "after_mb": resident()}


def main() -> None:
    """Prints a line per network and number of threads."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    entries = json.loads((Path(__file__).parent / "models.json").read_text(encoding="utf-8"))
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--models", type=names, default=list(entries))
    parser.add_argument("--threads", type=names, default=["1", "2"])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--soak", type=int, default=0)
    parser.add_argument("--opens", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    onnxruntime.register_execution_provider_library(NAME, str(arguments.library.resolve()))
    clock = time.thread_time if arguments.processor_time else time.perf_counter
    document: dict[str, Any] = {
        "processor": processor(),
        "onnxruntime": onnxruntime.__version__,
        "load": os.getloadavg()[0],
        "rows": [],
    }
    print(
        "| network | threads | bits | session ms | provider ms | overhead | onnxruntime ms | × |\n"
        + "|---" * 8
        + "|"
    )
    for name in arguments.models:
        model, plans, feeds = prepared(name, entries[name], arguments.data, arguments.folder)
        for threads in map(int, arguments.threads):
            runs = runners(model, plans, feeds, threads)
            same, found = same_bits(runs, feeds), times(runs, feeds, arguments.rounds, clock)
            document["rows"].append({"network": name, "threads": threads, "same_bits": same, **found})
            ours, provider, own = (found[kind] for kind in ("session", "provider", "onnxruntime"))
            cells = (
                f"{ours:.3f}",
                f"{provider:.3f}",
                f"{provider / ours - 1:+.1%}",
                f"{own:.3f}",
                f"{own / provider:.2f}",
            )
            print(
                f"| {name} | {threads} | {'equal' if same else 'DIFFER'} | {' | '.join(cells)} |", flush=True
            )
    if arguments.soak or arguments.opens:
        _, plans, feeds = prepared(
            arguments.models[0], entries[arguments.models[0]], arguments.data, arguments.folder
        )
        for kind, work, count in (("soak", soak, arguments.soak), ("opens", opens, arguments.opens)):
            if count:
                document[kind] = work(plans, feeds, count)
                print(kind, document[kind], flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
