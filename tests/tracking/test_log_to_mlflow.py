"""Runs in a real MLflow, in a database: what is read back is what was found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import calib8
from calib8.tracking.destination import destination
from calib8.tracking.record import Part, RunRecord, Table
from calib8.tracking.to_mlflow import MlflowRuns
from needed import needed

needed("mlflow")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One for all tests: MLflow takes seconds to make it."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/runs.db"


@pytest.fixture
def uri(database: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The database, with an experiment of the test's own."""
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", request.node.name)
    return database


def runs(uri: str, experiment: str = "") -> tuple[Any, list[Any]]:
    """The client, and all runs, the first one first."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    found = client.get_experiment_by_name(experiment or os.environ["MLFLOW_EXPERIMENT_NAME"])
    return client, sorted(client.search_runs([found.experiment_id]), key=lambda run: run.info.start_time)


def test_a_quantization(uri: str, small: Any, tmp_path: Path) -> None:
    [place] = calib8.log_run(
        small.made, f"mlflow:{uri}", fp32=small.fp32, model=small.int8, parameters={"data set": "v3"}
    )
    client, found = runs(uri)
    run = found[0]
    assert run.info.run_id in place and run.info.status == "FINISHED"
    assert run.data.params["target"].startswith("onnxruntime") and run.data.params["data set"] == "v3"
    compared = calib8.compare(small.fp32, small.int8, small.data)
    logged = run.data.metrics
    assert logged["bytes/int8"] == small.int8.stat().st_size
    assert logged["bytes/fp32"] == small.fp32.stat().st_size
    assert {"sqnr_db", "agreement", "nodes/int8"} <= set(logged)
    assert small.made.verdict is not None
    assert run.data.tags["verdict"] == small.made.verdict.word
    assert run.data.tags["environment.calib8"] == calib8.__version__
    series = client.get_metric_history(run.info.run_id, "layers/local_sqnr_db")
    table = json.loads(read(client, run, "layers.json", tmp_path))
    column = table["columns"].index("local_sqnr_db")
    values = [(step, row[column]) for step, row in enumerate(table["data"]) if isinstance(row[column], float)]
    assert sorted((one.step, one.value) for one in series) == values
    assert {row[0] for row in table["data"]} >= {one.node for one in compared.tensors if one.node}
    assert read(client, run, "report.html", tmp_path).startswith("<!DOCTYPE html>")
    copy = client.download_artifacts(run.info.run_id, f"model/{small.int8.name}", str(tmp_path))
    assert Path(copy).read_bytes() == small.int8.read_bytes()


def read(client: Any, run: Any, name: str, folder: Path) -> str:
    return Path(client.download_artifacts(run.info.run_id, name, str(folder))).read_text(encoding="utf-8")


def test_candidates_of_tune_are_nested_runs(uri: str, small: Any, tmp_path: Path) -> None:
    tuned = calib8.tune(small.fp32, small.data, tmp_path / "tuned.onnx", min_sqnr=10, effort="fast")
    calib8.log_run(tuned, f"mlflow:{uri}")
    _, (run, *nested) = runs(uri)
    assert len(nested) == len(tuned.trials)
    assert {one.data.tags["mlflow.parentRunId"] for one in nested} == {run.info.run_id}
    [best] = [one for one in nested if one.data.tags["chosen"] == "True"]
    assert best.data.metrics["value"] == tuned.best.figures.value == run.data.metrics["value"]
    assert run.data.tags["verdict"] == "promise kept"


def test_a_benchmark_has_its_timings(uri: str, small: Any) -> None:
    found = calib8.benchmark([small.int8], runtimes=("onnxruntime",), threads=(1,), rounds=2)
    calib8.log_run(found, f"mlflow:{uri}")
    _, (run, nested) = runs(uri)
    [timing] = found.timings
    assert run.data.metrics["median_ms"] == nested.data.metrics["median_ms"] == timing.median_ms
    assert run.data.metrics["images_per_second"] == pytest.approx(1e3 / timing.median_ms)


def test_odd_figures_are_words_and_long_texts_are_cut(uri: str, tmp_path: Path) -> None:
    record = RunRecord(
        "odd",
        "evaluate",
        parameters={"long": "x" * 9000, "a[0:4]": "1", "empty": ""},
        figures={"sqnr_db": float("inf"), "nothing": float("nan"), "agreement": 0.5},
        layers=Table(
            ("layer", "local_sqnr_db", "cumulative_sqnr_db", "weight_sqnr_db", "saturated"),
            (("a", float("-inf"), None, None, None), ("b", 3.0, None, None, None)),
        ),
        parts=(Part("one", figures={"worst": float("-inf")}),),
    )
    MlflowRuns(destination(f"mlflow:{uri}")).log(record)
    client, (run, nested) = runs(uri)
    assert run.data.metrics == {"agreement": 0.5, "layers/local_sqnr_db": 3.0}
    assert (run.data.tags["sqnr_db"], run.data.tags["nothing"]) == ("inf", "nan")
    assert nested.data.tags["worst"] == "-inf"
    assert len(run.data.params["long"]) == 6000 and run.data.params["a_0_4_"] == "1"
    assert "empty" not in run.data.params
    assert json.loads(read(client, run, "layers.json", tmp_path))["data"][0][1] == "-inf"


def test_the_environment_names_the_place(uri: str, small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME")
    calib8.log_run(small.made, "mlflow")
    assert len(runs(uri, "calib8")[1]) >= 1


@pytest.mark.filterwarnings("ignore")  # of MLflow, in what the user calls
def test_a_run_of_the_users_own_stays_open(uri: str, small: Any) -> None:
    import mlflow

    mlflow.set_tracking_uri(uri)
    try:
        with mlflow.start_run() as mine:
            calib8.log_run(small.made, f"mlflow:{uri}")
            active = mlflow.active_run()
            assert active is not None and active.info.run_id == mine.info.run_id
            mlflow.log_metric("after", 1.0)
    finally:
        mlflow.set_tracking_uri(None)
    own, other = runs(uri)[1][:2]
    assert own.info.run_id == mine.info.run_id and own.data.metrics == {"after": 1.0}
    assert not own.data.params and other.data.params
