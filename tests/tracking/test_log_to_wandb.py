"""Runs in Weights & Biases, offline: the file of the run holds what was logged."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import calib8
from calib8.tracking.destination import destination
from calib8.tracking.record import RunRecord, Table
from calib8.tracking.to_wandb import WandbRuns
from needed import needed

needed("wandb")


def records(file: Path) -> Iterator[Any]:
    """The records of an offline run: a log in the form of LevelDB behind seven bytes, blocks of 32 KiB."""
    from wandb.proto import wandb_internal_pb2

    data, place, parts = file.read_bytes(), 7, b""
    assert data.startswith(b":W&B")
    while place + 7 <= len(data):
        if 32768 - place % 32768 < 7:  # no header fits into the rest of a block
            place += 32768 - place % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # all of it, or its last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def named(items: Any) -> dict[str, Any]:
    return {one.key or "/".join(one.nested_key): json.loads(one.value_json) for one in items}


def told(place: str) -> dict[str, Any]:
    """Config, summary, rows of the history, tags and artifacts of an offline run."""
    [file] = Path(place).glob("run-*.wandb")
    for _ in range(600):  # the service of wandb writes behind our back
        if any(record.HasField("exit") for record in records(file)):
            break
        time.sleep(0.1)
    found: dict[str, Any] = {"config": {}, "summary": {}, "history": [], "tags": [], "artifacts": []}
    for record in records(file):
        found["config"] |= named(record.run.config.update) | named(record.config.update)
        found["summary"] |= named(record.summary.update)
        found["history"] += [named(record.history.item)] if record.history.item else []
        found["tags"] += record.run.tags
        found["artifacts"] += [one.path for one in record.request.log_artifact.artifact.manifest.contents]
        found["artifacts"] += [one.path for one in record.artifact.manifest.contents]
        found["project"] = record.run.project or found.get("project")
    return found


def test_a_quantization(small: Any) -> None:
    [line] = calib8.log_run(small.made, "wandb:mine", model=small.int8, parameters={"data": "v3"})
    run = told(line.partition(": ")[2])
    assert run["project"] == "mine"
    assert run["config"]["data"] == "v3" and run["config"]["target"].startswith("onnxruntime")
    assert run["config"]["environment"]["calib8"] == calib8.__version__
    assert small.made.verdict is not None and small.made.verdict.word in run["tags"]
    assert {"sqnr_db", "agreement", "bytes/int8"} <= set(run["summary"])
    steps = [row["layers/step"] for row in run["history"] if "layers/local_sqnr_db" in row]
    assert len(steps) > 3 and steps == sorted(steps)
    assert any(row.get("report/_type") == "html-file" for row in run["history"])
    assert run["artifacts"][-1] == small.int8.name


def test_odd_figures_are_words() -> None:
    record = RunRecord(
        "odd", "evaluate", figures={"sqnr_db": float("inf"), "agreement": 0.5},
        layers=Table(("layer", "local_sqnr_db", "cumulative_sqnr_db", "weight_sqnr_db", "saturated"),
                     (("a", float("inf"), None, None, 0.5), ("b", 2.0, None, float("nan"), None))),
    )  # fmt: skip
    run = told(WandbRuns(destination("wandb")).log(record))
    assert run["project"] == "calib8"
    assert (run["summary"]["sqnr_db"], run["summary"]["agreement"]) == ("inf", 0.5)
    assert [row["layers/local_sqnr_db"] for row in run["history"] if "layers/local_sqnr_db" in row] == [2.0]


def test_a_server_that_does_not_answer() -> None:
    code = """
import os, socket
from calib8.errors import OutputError
from calib8.tracking.trackers import checked_trackers
with socket.socket() as taken:  # bound, but nobody listens
    taken.bind(("127.0.0.1", 0))
    os.environ |= {"WANDB_MODE": "online", "WANDB_BASE_URL": f"http://127.0.0.1:{taken.getsockname()[1]}"}
    try:
        checked_trackers("wandb:team/project")
    except OutputError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert "cannot be told of a run (ConnectionRefusedError" in done.stdout, done.stderr
    assert "set WANDB_MODE=offline" in done.stdout
