"""Runs in MLflow: a run with parameters, metrics, tags and artifacts; its parts are runs nested in it.

MLflow's client alone is used: nothing is set for the process, and a run of the user's own stays as it is.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from calib8.analysis.model_bytes import files_of_model
from calib8.tracking.destination import Destination
from calib8.tracking.reach import check_reachable
from calib8.tracking.record import Part, RunRecord, Table, finite, odd, plain_name
from calib8.tracking.tracker import check_folder, check_installed, in_pieces

EXPERIMENT: Final = "calib8"
"""Where runs stand unless ``MLFLOW_EXPERIMENT_NAME`` names another experiment."""

_PATIENCE: Final = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}
"""Of requests, unless the user says so; MLflow's own would be minutes."""

_PARAMETER, _TAG = 6000, 5000
"""Characters that MLflow takes."""


@dataclass(frozen=True)
class MlflowRuns:
    """A tracking server, a database, or what the environment names."""

    destination: Destination

    def check(self) -> None:
        """See ``Tracker``: the server answers, the experiment is there, its artifacts can be written."""
        check_installed(self.destination, "mlflow")
        with _quiet():
            client, experiment = self._experiment()
            place = str(client.get_experiment(experiment).artifact_location)
        parts = urlsplit(place)
        if parts.scheme in ("", "file"):
            check_folder(Path(parts.path).absolute())

    def log(self, record: RunRecord) -> str:
        """See ``Tracker``."""
        with _quiet():
            client, experiment = self._experiment()
            run = client.create_run(experiment, run_name=record.name).info.run_id
            try:
                _tell(client, run, record)
                for part in record.parts:
                    _nested(client, experiment, run, part)
            except BaseException:
                with suppress(Exception):
                    client.set_terminated(run, "FAILED")
                raise
            client.set_terminated(run)
            return f"run {run} of experiment '{client.get_experiment(experiment).name}'"

    def _experiment(self) -> tuple[Any, str]:
        """The client, and the experiment, made where there is none of that name."""
        from mlflow.tracking import MlflowClient

        client = MlflowClient(tracking_uri=self.destination.place or None)
        address = str(client.tracking_uri)
        if urlsplit(address).scheme in ("http", "https"):
            check_reachable(address)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        found = client.get_experiment_by_name(name)
        return client, str(client.create_experiment(name) if found is None else found.experiment_id)


def _tell(client: Any, run: str, record: RunRecord) -> None:
    tags = {
        "calib8.command": record.command,
        "verdict": record.verdict,
        "verdict.grounds": record.grounds,
        **{f"environment.{plain_name(name)}": value for name, value in record.environment.items()},
        **odd(record.figures),
    }
    _batches(client, run, record.parameters, record.figures, tags)
    for name, points in record.series().items():
        _metrics(client, run, [(name, number, step) for step, number in points])
    _table(client, run, record.layers, "layers.json")
    if record.parts:
        _table(client, run, record.table_of_parts(), f"{record.noun}.json")
    if record.page:
        client.log_text(run, record.page, "report.html")
    for model in record.models:
        for file in files_of_model(model):
            client.log_artifact(run, str(file), "model")


def _nested(client: Any, experiment: str, parent: str, part: Part) -> None:
    tags = {"mlflow.parentRunId": parent, "chosen": str(part.chosen), **odd(part.figures)}
    run = client.create_run(experiment, run_name=part.name, tags={"mlflow.parentRunId": parent}).info.run_id
    _batches(client, run, part.parameters, part.figures, tags)
    client.set_terminated(run)


def _batches(
    client: Any, run: str, parameters: Mapping[str, str], figures: Mapping[str, float],
    tags: Mapping[str, str],
) -> None:  # fmt: skip
    """Parameters, figures and tags, as many at a time as MLflow takes."""
    from mlflow.entities import Param, RunTag

    known = {plain_name(name): value[:_PARAMETER] for name, value in parameters.items() if value}
    for piece in in_pieces([Param(*one) for one in known.items()], 100):
        client.log_batch(run, params=piece)
    for tagged in in_pieces([RunTag(name, value[:_TAG]) for name, value in tags.items() if value], 100):
        client.log_batch(run, tags=tagged)
    _metrics(client, run, [(name, number, 0) for name, number in finite(figures).items()])


def _metrics(client: Any, run: str, numbers: list[tuple[str, float, int]]) -> None:
    """Name, number, step."""
    from mlflow.entities import Metric

    now = int(1e3 * time.time())
    for piece in in_pieces([Metric(name, number, now, step) for name, number, step in numbers], 1000):
        client.log_batch(run, metrics=piece)


def _table(client: Any, run: str, table: Table, name: str) -> None:
    """A table in the form that MLflow shows as one."""
    if table.rows:
        rows = [[_plain(cell) for cell in row] for row in table.rows]
        document = {"columns": list(table.columns), "data": rows}
        client.log_text(run, json.dumps(document, allow_nan=False), name)


def _plain(cell: object) -> object:
    """JSON has no infinity."""
    return str(cell) if isinstance(cell, float) and odd({"": cell}) else cell


@contextmanager
def _quiet() -> Iterator[None]:
    """MLflow says nothing of its databases, and does not try for minutes."""
    unset = [name for name in _PATIENCE if name not in os.environ]
    os.environ.update({name: _PATIENCE[name] for name in unset})
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    before = [one.level for one in loggers]
    try:
        __import__("mlflow")  # it sets the level of its logger
        for one in loggers:
            one.setLevel(logging.ERROR)
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)
        for name in unset:
            os.environ.pop(name, None)
