"""Cost of calibration beside float inference and beside other tools: time, processor time and memory.

    python benchmarks/calibration.py DATA [--sections images,ratios,command,search,kernels]
        [--networks efficientnet_lite0,resnet50] [--counts 25,50,100,200,400] [--peer-counts 25,200]
        [--tools calib8-mse,…] [--peer-python nncf=PATH] [--rounds 25] [--limit 120] [--memory 18]
        [--json FILE] [--markdown FILE]

- images: calibration by every tool for several numbers of images. Each measurement is a process of its own,
  so that peak memory is its own too. Images are decoded before and read back one by one from a file.
- ratios: gathering in several ways and plain inference, in turns in one process.
- command: ``calib8 calibrate`` and ``calib8 evaluate`` over the same files, decoding included.
- search: every range method alone (``range_search.py``). kernels: counting alone, by instruction set.

What takes more than ``--limit`` seconds or ``--memory`` GB is ended and told so, and not tried with more
images. A tool that this Python lacks is left out; ``--peer-python`` names a Python that has it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from accuracy import load_preprocess
from calibration_tables import sections
from results import machine
from zoo_networks import zoo_topology

HERE = Path(__file__).parent
SECTIONS = ("images", "ratios", "command", "search", "kernels")
TOOLS = (
    "plain", "calib8-mse", "calib8-entropy", "onnxruntime-minmax", "onnxruntime-percentile",
    "onnxruntime-entropy", "nncf", "modelopt-max", "modelopt-entropy",
)  # fmt: skip
NETWORKS = ("efficientnet_lite0", "resnet50")
OPSET = 17
"""What the other tools take: the topology of ResNet-50 comes with an older one."""


def image_files(root: Path, count: int) -> list[Path]:
    """Calibration images, then evaluation images: what is timed needs no labels."""
    folders = (root / "imagenet" / "calib", root / "imagenet" / "eval")
    files = [file for folder in folders for file in sorted(folder.iterdir()) if file.suffix != ".txt"]
    if len(files) < count:
        raise SystemExit(f"{root} holds {len(files)} images, fewer than {count}")
    return files[:count]


def decode(root: Path, count: int, recipe: str | dict, file: Path) -> None:
    """Writes ``count`` preprocessed images as float32."""
    from calib8.data.opening import open_dataset
    from calib8.tensors import TensorSpec

    spec = TensorSpec("input", np.dtype(np.float32), (None, 3, 224, 224))
    preprocess = load_preprocess(recipe)
    folders = (root / "imagenet" / "calib", root / "imagenet" / "eval")
    samples = (sample for folder in folders for sample in open_dataset(folder, [spec], preprocess))
    with file.open("wb") as out:
        for sample in islice(samples, count):
            out.write(np.ascontiguousarray(sample.inputs["input"]).tobytes())


def network_files(names: Sequence[str], root: Path, entry: dict[str, Any], folder: Path) -> dict[str, Path]:
    """A file per network; ResNet-50 gets random weights."""
    files = {}
    for name in names:
        if name == "efficientnet_lite0":
            files[name] = root / entry["file"]
        else:
            made = onnx.load(zoo_topology(name, folder))
            files[name] = folder / f"{name}-{OPSET}.onnx"
            onnx.save(onnx.version_converter.convert_version(made, OPSET), files[name])
    return files


def run_alone(command: Sequence[str], seconds: float | None, gigabytes: float | None) -> dict[str, Any]:
    """What a process printed last, or ``failed`` with the reason."""

    def limit() -> None:
        if gigabytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 2**30),) * 2)

    try:
        result = subprocess.run(
            command, capture_output=True, text=True, cwd=HERE, timeout=seconds, preexec_fn=limit
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"over {seconds:.0f} s"}
    if result.returncode:
        return {"failed": reason(result.stderr, result.returncode, gigabytes)}
    return dict(json.loads(result.stdout.splitlines()[-1]))


def reason(errors: str, code: int, gigabytes: float | None) -> str:
    """One line; an allocation that failed is the limit."""
    signs = ("MemoryError", "bad_alloc", "Failed to allocate", "Unable to allocate", "ArrayMemoryError")
    if gigabytes is not None and (code == -9 or any(sign in errors for sign in signs)):
        return f"over {gigabytes:g} GB"
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1] if lines else f"ended with {code}"


def pythons(tools: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """Tool → the Python that runs it; without those that no Python has."""
    named = dict(text.split("=", 1) for text in given)
    found = {}
    for tool in tools:
        family = tool.partition("-")[0]
        if family in named:
            found[tool] = named[family]
        elif is_ours(tool) or importlib.util.find_spec(family) is not None:
            found[tool] = sys.executable
        else:
            print(f"{tool} is not installed and left out: --peer-python {family}=PATH", file=sys.stderr)
    return found


def is_ours(tool: str) -> bool:
    """Whether this Python runs it, with calib8."""
    return tool.partition("-")[0] in ("plain", "calib8")


def by_images(
    tools: dict[str, str], files: dict[str, Path], images: Path, chosen: argparse.Namespace
) -> list[dict[str, Any]]:
    """A record per network, tool and number of images."""
    records = []
    for network, model in files.items():
        for tool, python in tools.items():
            failed: dict[str, Any] = {}
            for count in chosen.counts if is_ours(tool) else chosen.peer_counts:
                found = failed or one_tool(tool, python, model, images, count, chosen)
                failed = found if "failed" in found else {}
                records.append({"network": network, "tool": tool, "images": count, **found})
                print(json.dumps(records[-1]), file=sys.stderr, flush=True)
    return records


def one_tool(
    tool: str, python: str, model: Path, images: Path, count: int, chosen: argparse.Namespace
) -> dict[str, Any]:
    script = HERE / ("calibration_runs.py" if is_ours(tool) else "calibration_peers.py")
    with tempfile.TemporaryDirectory() as folder:
        command = [python, str(script), tool, str(model), str(images), str(count), folder]
        return run_alone(command, chosen.limit, chosen.memory)


def ratios(files: dict[str, Path], images: Path, rounds: int) -> list[dict[str, Any]]:
    script = str(HERE / "calibration_runs.py")
    commands = {
        network: [sys.executable, script, "ratios", str(model), str(images), str(rounds), "."]
        for network, model in files.items()
    }
    return [{"network": network, **run_alone(call, None, None)} for network, call in commands.items()]


def commands(files: dict[str, Path], root: Path, rounds: int, count: int) -> list[dict[str, Any]]:
    """The fastest of some rounds of ``calib8 calibrate`` and ``calib8 evaluate``, in turns."""
    records = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "images"
        folder.mkdir()
        for index, file in enumerate(image_files(root, count)):
            (folder / f"{index:04}{file.suffix}").write_bytes(file.read_bytes())
        shared = ["--data", str(folder), "--preprocess", "efficientnet_lite", "--threads", "2"]
        calls = {
            "evaluate": shared,
            "calibrate": [*shared, "--method", "mse", "-o", str(Path(name) / "table.json")],
        }
        for network, model in files.items():
            found: dict[str, list[dict[str, Any]]] = {what: [] for what in calls}
            for _ in range(rounds):
                for what, rest in calls.items():
                    found[what].append(timed_command([what, str(model), *rest]))
            records += [
                {"network": network, "command": what, "images": count, **fastest(runs)}
                for what, runs in found.items()
            ]
    return records


def timed_command(arguments: Sequence[str]) -> dict[str, Any]:
    """Wall seconds of the whole process beside what it says of itself."""
    start = time.perf_counter()
    script = str(HERE / "calibration_runs.py")
    found = run_alone([sys.executable, script, "command", *arguments], None, None)
    if "failed" in found:
        raise SystemExit(found["failed"])
    return {**found, "process_s": time.perf_counter() - start}


def fastest(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {key: min(run[key] for run in runs) for key in runs[0]}


def search() -> dict[str, Any]:
    from range_search import onnxruntime_entropy, per_tensor, whole_network

    found = {"per_tensor": per_tensor(20), "network": whole_network(200, 2, 3)}
    if importlib.util.find_spec("onnxruntime.quantization") is not None:
        found["onnxruntime_entropy_ms"] = onnxruntime_entropy()
    return found


def measured(chosen: argparse.Namespace) -> dict[str, Any]:
    """The document; it is written after every section."""
    entry = json.loads((HERE / "models.json").read_text())["efficientnet_lite0"]
    document: dict[str, Any] = {"machine": machine([1, 2]), "results": [], "calibration": {}}
    found = document["calibration"]
    with tempfile.TemporaryDirectory() as name:
        images = Path(name) / "images.f32"
        files = network_files(chosen.networks, chosen.data, entry, Path(name))
        decode(chosen.data, max(8, *chosen.counts, *chosen.peer_counts), entry["preprocess"], images)
        makers = {
            "ratios": lambda: ratios(files, images, chosen.rounds),
            "command": lambda: commands(files, chosen.data, 3, max(chosen.counts)),
            "search": search,
            "kernels": run_kernels,
            "images": lambda: by_images(pythons(chosen.tools, chosen.peer_python), files, images, chosen),
        }
        for section in makers:
            if section in chosen.sections:
                start = time.perf_counter()
                found[section] = makers[section]()
                print(f"{section}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
                if chosen.json:
                    chosen.json.write_text(json.dumps(document, indent=1) + "\n")
    return document


def run_kernels() -> list[dict[str, Any]]:
    script = str(HERE / "calibration_runs.py")
    result = subprocess.run([sys.executable, script, "kernels", "100"], capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(result.stderr)
    return list(json.loads(result.stdout.splitlines()[-1]))


def arguments(texts: Sequence[str] | None = None) -> argparse.Namespace:
    def listed(text: str) -> list[str]:
        return text.split(",")

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--sections", type=listed, default=list(SECTIONS))
    parser.add_argument("--networks", type=listed, default=list(NETWORKS))
    parser.add_argument("--counts", type=numbers, default=[25, 50, 100, 200, 400])
    parser.add_argument("--peer-counts", type=numbers, help="for other tools (default: --counts)")
    parser.add_argument("--tools", type=listed, default=list(TOOLS))
    parser.add_argument("--peer-python", action="append", default=[], metavar="TOOL=PATH")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--limit", type=float, default=120, help="seconds for one measurement")
    parser.add_argument("--memory", type=float, default=18, help="GB of address space for one measurement")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    chosen = parser.parse_args(texts)
    for given, known in ((chosen.sections, SECTIONS), (chosen.networks, NETWORKS), (chosen.tools, TOOLS)):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"unknown {unknown[0]}: there are {', '.join(known)}")
    chosen.peer_counts = chosen.peer_counts or chosen.counts
    return chosen


def main() -> None:
    chosen = arguments()
    text = "\n".join(sections(measured(chosen)["calibration"]))
    print(text)
    if chosen.markdown:
        chosen.markdown.write_text(text)


if __name__ == "__main__":
    main()
