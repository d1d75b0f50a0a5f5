"""What a cluster of Ray costs and gains on this machine: memory, one worker, two, and a slow one among fast.

    python benchmarks/distributed.py memory --samples 10000 100000
    python benchmarks/distributed.py memory --samples 10000 100000 --ray-alone
    python benchmarks/distributed.py speed --samples 2000
    python benchmarks/distributed.py slow --samples 2000

A tiny network on generated rows for memory, a network of the size of MobileNet's first layers for speed.
Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import calib8
from calib8.distributed import collect


def network(channels: int, layers: int, size: int) -> onnx.ModelProto:
    """Convolutions of 3×3 with ReLU behind each, on 3×size×size."""
    rng = np.random.default_rng(0)
    nodes, constants, before = [], [], "x"
    for layer in range(layers):
        inputs = 3 if layer == 0 else channels
        weights = rng.normal(0, (2 / (9 * inputs)) ** 0.5, (channels, inputs, 3, 3)).astype(np.float32)
        constants.append(onnx.numpy_helper.from_array(weights, f"w{layer}"))
        nodes.append(helper.make_node("Conv", [before, f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        before = f"r{layer}"
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, size, size])],
        [helper.make_tensor_value_info(before, TensorProto.FLOAT, None)],
        constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def own_mb() -> float:
    """Memory of this process in MB, without the pages of Ray's object store, which it shares with others."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    kib = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(":") for line in lines)
        if "kB" in rest
    }
    return (kib["RssAnon"] + kib["RssFile"]) / 1024


class Most:
    """The most memory of this process, looked at again and again."""

    def __init__(self) -> None:
        self.mb = own_mb()

    def look(self, *_: object) -> None:
        self.mb = max(self.mb, own_mb())


@dataclass(frozen=True)
class Noted:
    """A transform that notes the most memory of the process that calls it, and may take its time."""

    folder: str
    seconds: float = 0.0
    slowed: float = 0.0
    every: int = 1

    def __call__(self, item: Any) -> Any:
        if random.randrange(self.every):
            return item
        mine = Path(self.folder) / str(os.getpid())
        if not mine.exists():
            mine.write_text("0")
        first = min(int(file.name) for file in Path(self.folder).iterdir() if file.name.isdigit())
        if self.seconds:
            time.sleep(self.slowed if os.getpid() == first else self.seconds)
        mine.write_text(f"{max(float(mine.read_text()), own_mb()):.0f}")
        return item


def rows_of_ray(samples: int, size: int) -> Any:
    """Generated rows, the same ones every time, which lie nowhere."""
    import ray

    def made(batch: dict[str, Any]) -> dict[str, Any]:
        rng = np.random.default_rng(int(batch["id"][0]))
        return {"x": rng.normal(0, 1, (len(batch["id"]), 3, size, size)).astype(np.float32)}

    return ray.data.range(samples, override_num_blocks=-(-samples // 256)).map_batches(made, batch_size=256)


class Nothing:
    """What a worker of Ray does with a block, less what calib8 does with it; its row is as large."""

    def __init__(self, transform: Noted) -> None:
        self._transform = transform

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        for row in batch["x"]:
            self._transform(row)
        return {"content": np.array([os.urandom(15_000)], object)}


def first_row(batch: dict[str, Any]) -> dict[str, Any]:
    """What a task of Ray does that joins rows, less the joining."""
    return {"content": batch["content"][:1]}


def counted(rows: Any, transform: Noted, driver: Most) -> None:
    """Statistics of all rows."""
    collect(network(4, 2, 8), rows, column="x", transform=transform, workers=2, progress=driver.look)


def passed(rows: Any, transform: Noted, driver: Most) -> None:
    """All rows go through as many steps and processes of Ray, which do nothing with them."""
    from ray.data import ActorPoolStrategy

    pool = ActorPoolStrategy(min_size=1, max_size=2, max_tasks_in_flight_per_actor=2)
    found = rows.map_batches(
        Nothing, batch_size=256, batch_format="numpy", fn_constructor_args=(transform,), compute=pool,
        num_cpus=1,
    )  # fmt: skip
    for needs in ({"num_cpus": 0}, {"num_cpus": 0, "memory": 1}):
        found = found.map_batches(first_row, batch_size=16, batch_format="numpy", **needs)
    for _ in found.iter_rows():
        driver.look()


def memory(samples: list[int], run: Callable[[Any, Noted, Most], None]) -> None:
    """Most memory of driver and workers over the number of samples; run once for each, growing."""
    print("| samples | driver, MB | worker, MB | seconds |\n|---:|---:|---:|---:|")
    for count in sorted(samples):
        with tempfile.TemporaryDirectory() as folder:
            start, driver = time.perf_counter(), Most()
            run(rows_of_ray(count, 8), Noted(folder, every=64), driver)
            took = time.perf_counter() - start
            workers = [int(file.read_text()) for file in Path(folder).iterdir() if file.name.isdigit()]
        print(f"| {count:,} | {driver.mb:.0f} | {max(workers)} | {took:.0f} |", flush=True)


def timed(samples: int, run: Callable[[], object]) -> float:
    """Samples per second."""
    start = time.perf_counter()
    run()
    return samples / (time.perf_counter() - start)


def speed(samples: int) -> None:
    """One worker beside the plain function, two beside one; every run once before, to start processes."""
    with tempfile.TemporaryDirectory() as folder:
        rows = np.random.default_rng(0).normal(0, 1, (samples, 3, 64, 64)).astype(np.float32)
        place = Path(folder) / "rows.npy"
        np.save(place, rows)
        model = network(32, 6, 64)
        plain = timed(samples, lambda: calib8.collect_statistics(model, place, threads=1))
        one = timed(samples, lambda: collect(model, place, workers=1))
        two = timed(samples, lambda: collect(model, place, workers=2))
    print("| run | samples/s | beside the line above |\n|---|---:|---:|")
    print(f"| plain, one thread | {plain:.1f} | |")
    print(f"| one worker | {one:.1f} | {one / plain:.2f} |")
    print(f"| two workers | {two:.1f} | {two / one:.2f} |")


def slow(samples: int) -> None:
    """How far all workers are over time, where one of two takes ten times as long."""
    told = list[tuple[float, int]]()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        collect(
            network(4, 2, 8), rows_of_ray(samples, 8), column="x", workers=2,
            transform=Noted(folder, 0.002, 0.02),
            progress=lambda stage, done, total: told.append((time.perf_counter() - start, done)),
        )  # fmt: skip
    print("| seconds | samples done |\n|---:|---:|")
    for seconds, done in told:
        print(f"| {seconds:.1f} | {done:,} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("memory", "speed", "slow"))
    parser.add_argument("--samples", type=int, nargs="+", default=[2000])
    parser.add_argument("--ray-alone", action="store_true", help="memory: workers that do nothing")
    asked = parser.parse_args()
    import ray

    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    try:
        if asked.what == "memory":
            memory(asked.samples, passed if asked.ray_alone else counted)
        else:
            {"speed": speed, "slow": slow}[asked.what](asked.samples[0])
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
