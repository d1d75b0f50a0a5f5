"""``evaluate`` on other machines: the evaluations of one process, whatever the pieces and their order.

The machines are two workers of a cluster without its processes: models, pieces and findings go to them and
back as bytes, as Ray sends them.
"""

from __future__ import annotations

import pickle
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.analysis import evaluation_work, paces
from calib8.analysis.open_models import OpenModels
from calib8.analysis.runtimes import Settings
from calib8.calibration.gatherer import Gatherer
from calib8.calibration.origin import this_origin
from calib8.cli.documents import evaluation_document
from calib8.distributed import OnRay, listing, on_ray
from calib8.distributed.collecting import listed_of
from calib8.distributed.jobs import Joined
from calib8.distributed.units import Unit
from calib8.distributed.workers import Equipment, Worker
from calib8.distributed.works import Finding
from calib8.errors import CrashError, DataError, UsageError
from calib8.model.runtime import Session
from judged_pictures import (
    CLASSES,
    COUNT,
    LABELS,
    NAMES,
    PIXELS,
    RECIPE,
    array_file,
    folder,
    label_list,
    models,
    network,
    shards,
    timeless,
)
from needed import needed
from object_store import object_store, put
from small_models import normal, onnx_model
from stored_data import parquet


@dataclass
class Watching:
    """What workers tell; counts the samples that are done."""

    samples: int = 0
    failures: list[Exception] = field(default_factory=list)

    def begin(self, key: str, name: str) -> int:
        return 1

    def done(self, key: str, samples: int) -> None:
        self.samples += samples

    def fail(self, error: Exception) -> None:
        self.failures.append(error)


def through(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def found_by_workers(there: Any, work: Any, stage: str, progress: Any) -> Any:
    """In place of ``found`` of a cluster: pieces go to two workers by turns, findings join by lot."""
    empty = Gatherer.of_prepared(on_ray._no_model(), (), there.inputs, there.settings)
    listed = listed_of(empty, there.data.data, None, there.samples)
    assert listed is not None and len(listed.units) > 1
    watch, job = Watching(), Finding(through(work), once=True)
    workers = [Worker(Equipment(through(empty), through(job), watch)) for _ in range(2)]
    rows = [
        workers[number % 2].piece(unit.key, unit.name, Unit.from_json(unit.to_json()).records)
        for number, unit in enumerate(listed.labelled(there.labels, "data").units)
    ]
    random.Random(len(rows)).shuffle(rows)
    progress(stage, watch.samples, listed.samples)
    return Joined(job, [Joined(job, rows[:2]).row(), Joined(job, rows[2:]).row()]).total


@pytest.fixture(autouse=True)
def _workers(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = needed("ray")
    monkeypatch.setattr(ray, "get", lambda value: value)
    monkeypatch.setattr(listing, "SAMPLES_PER_UNIT", 15)
    monkeypatch.setattr(listing, "UNITS_PER_READ", 1)
    monkeypatch.setattr(on_ray._There, "found", found_by_workers)
    monkeypatch.setattr(paces, "FEWEST_ROUNDS", 1)
    monkeypatch.setattr(paces, "ENOUGH_SECONDS", 0.0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("judged")


@pytest.fixture(scope="module")
def pair(place: Path) -> list[Path]:
    return models(place)


@pytest.fixture(scope="module")
def pictures(place: Path) -> Path:
    return folder(place / "pictures")


def both(files: list[Path], data: Any, **words: Any) -> list[calib8.Evaluation]:
    """The evaluations, which are those of one process."""
    words = {"preprocess": RECIPE} | words
    there = calib8.evaluate(files, OnRay(data), **words)
    here = calib8.evaluate(files, data, **words)
    assert all(one.seconds is None for one in there)
    assert list(there) == timeless(here)
    assert evaluation_document(there) == evaluation_document(timeless(here))
    return list(there)


def top1(files: list[Path], labels: list[int]) -> float:
    """Counted from pixels and labels alone."""
    values = (PIXELS[: len(labels)].astype(np.float32) - 128) / 64
    [scores] = outputs_of(files[0], values.transpose(0, 3, 1, 2))
    return float(np.mean(scores.argmax(1) == labels))


def outputs_of(path: Path, values: Any) -> list[Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    outputs: list[Any] = session.run(None, {"x": values})
    return outputs


def test_folders_of_classes(pair: list[Path], pictures: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    found = both(pair, pictures, progress=lambda *step: told.append(step))
    assert ("evaluating", COUNT, COUNT) in told
    assert found[0].top1 == top1(pair, LABELS) and found[0].labelled == COUNT
    assert {one.name for one in found[1].classes} == set(CLASSES)
    assert None not in (found[1].sqnr_db, found[1].agreement, found[1].verdict)


def test_a_list_of_labels(pair: list[Path], pictures: Path, tmp_path: Path) -> None:
    labels = [number % 4 for number in range(COUNT)]
    found = both(pair, pictures, labels=label_list(tmp_path / "labels.txt", labels))
    assert found[0].top1 == top1(pair, labels)
    assert {one.name for one in found[0].classes} == set("0123")
    with pytest.raises(DataError, match="lacks 99 of 100 images"):
        (tmp_path / "short.txt").write_text(f"{NAMES[0]} 1\n")
        calib8.evaluate(pair, OnRay(pictures), preprocess=RECIPE, labels=tmp_path / "short.txt")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("words", [{}, {"samples": 37}, {"batch": 8}, {"label_offset": 1}])
def test_arrays_with_labels(pair: list[Path], tmp_path: Path, words: dict[str, Any]) -> None:
    found = both(pair, array_file(tmp_path / "data.npz"), **words)
    assert found[0].labelled == words.get("samples", COUNT)


def test_arrays_that_go_in_as_they_are(pair: list[Path], tmp_path: Path) -> None:
    values = ((PIXELS.astype(np.float32) - 128) / 64).transpose(0, 3, 1, 2)
    np.savez(tmp_path / "data.npz", x=values, labels=np.array(LABELS))
    assert both(pair, tmp_path / "data.npz", preprocess=None)[0].top1 == top1(pair, LABELS)
    np.save(tmp_path / "data.npy", values)
    assert both(pair, tmp_path / "data.npy", preprocess=None)[0].top1 is None


def test_shards(pair: list[Path], tmp_path: Path) -> None:
    found = both(pair, shards(tmp_path / "shards"))
    assert found[0].top1 == top1(pair, LABELS) and found[0].fed is not None
    assert found[0].fed.source == str(tmp_path / "shards")


def test_parquet_files(tmp_path: Path) -> None:
    wide = onnx_model(
        "float[N,3,5,6] x", "float[N,2] y", "a = Conv(x, w)  b = GlobalAveragePool(a)  y = Flatten(b)",
        {"w": normal(2, 3, 1, 1)},
    )  # fmt: skip
    onnx.save(wide, tmp_path / "float.onnx")
    data = parquet(tmp_path / "rows")
    calib8.quantize(tmp_path / "float.onnx", data, preprocess=RECIPE, repair=["none"]).save(
        tmp_path / "int8.onnx"
    )
    found = both([tmp_path / "float.onnx", tmp_path / "int8.onnx"], data)
    assert found[0].labelled == 10


def test_a_folder_in_a_store(pair: list[Path], pictures: Path, tmp_path: Path) -> None:
    some, labels = NAMES[:32], [number % 4 for number in range(32)]
    for name in some:
        (tmp_path / "few" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "few" / name).write_bytes((pictures / name).read_bytes())
    listed = tmp_path / "labels.txt"
    listed.write_text("".join(f"{name} {label}\n" for name, label in zip(some, labels, strict=True)))
    with object_store("judged") as store:
        put(store, tmp_path / "few", "few", "judged")
        first = both(pair, "s3://judged/few")[0]
        assert (first.labelled, {one.name for one in first.classes}) == (32, set(CLASSES))
        assert both(pair, "s3://judged/few", labels=listed)[0].top1 == top1(pair, labels)


def test_rows_keep_their_names_where_labels_do_not_fit(tmp_path: Path) -> None:
    files = models(tmp_path, outputs=2)
    [first, _] = both(files, array_file(tmp_path / "data.npz"))
    wrong = LABELS.index(2)
    assert first.top1 is None and first.labels_left_out.startswith(
        f"data.npz[{wrong}]: its label 2 is beyond"
    )
    assert str(files[0]) in first.labels_left_out
    [first, _] = both(files, folder(tmp_path / "pictures"))
    assert first.labels_left_out.startswith("dog/")


def test_labels_that_are_none(pair: list[Path], tmp_path: Path) -> None:
    odd = array_file(tmp_path / "data.npz", labels=np.zeros((COUNT, 4), np.float32))
    [first, _] = both(pair, odd)
    assert first.top1 is None and any("labels were found that do not fit" in text for text in first.warnings)


def test_a_bad_picture(pair: list[Path], tmp_path: Path) -> None:
    data = folder(tmp_path / "pictures")
    (data / NAMES[50]).write_bytes(b"no picture")
    assert both(pair, data, skip_bad=True)[0].images == COUNT - 1
    with pytest.raises(DataError, match=NAMES[50]):
        calib8.evaluate(pair, OnRay(data), preprocess=RECIPE)


def test_a_piece_without_a_good_picture(pair: list[Path], tmp_path: Path) -> None:
    data = folder(tmp_path / "pictures")
    for name in sorted(NAMES)[15:30]:
        (data / name).write_bytes(b"no picture")
    assert both(pair, data, skip_bad=True)[0].images == COUNT - 15


def test_what_a_model_that_is_mostly_wrong_is_asked(tmp_path: Path) -> None:
    """The doubts of ``evaluate`` stand on the first samples, which are read here."""
    adrift = onnx_model(
        "float[N,3,6,6] x", "float[N,12] y",
        "a = Conv(x, w)  b = BatchNormalization(a, one, zero, far, one)  c = GlobalAveragePool(b)"
        "  d = Flatten(c)  y = Gemm(d, v)",
        {"w": normal(8, 3, 3, 3), "v": normal(8, 12), "one": np.ones(8, np.float32),
         "zero": np.zeros(8, np.float32), "far": np.full(8, 500.0, np.float32)},
    )  # fmt: skip
    onnx.save(adrift, tmp_path / "float.onnx")
    [found] = both([tmp_path / "float.onnx"], array_file(tmp_path / "data.npz"))
    assert found.top1 is not None and found.top1 < 0.5
    assert any("sees other values than in training" in text for text in found.warnings)


def test_verdicts_on_some_samples(pictures: Path, tmp_path: Path) -> None:
    """Outputs that are no classes are judged on the samples of lowest digest, wherever these lie."""
    maps = onnx_model("float[N,3,6,6] x", "float[N,4,4,4] y", "y = Conv(x, w)", {"w": normal(4, 3, 3, 3)})
    onnx.save(maps, tmp_path / "float.onnx")
    made = calib8.quantize(tmp_path / "float.onnx", pictures, preprocess=RECIPE, repair=["none"])
    made.save(tmp_path / "int8.onnx")
    files = [tmp_path / "float.onnx", tmp_path / "int8.onnx"]
    verdicts = [both(files, data)[1].verdict for data in (pictures, array_file(tmp_path / "data.npz"))]
    for verdict in verdicts:
        assert verdict is not None and verdict.text.endswith("; on 64 of the 100 samples")


@pytest.mark.parametrize("runtime", ["calib8", "reference"])
def test_other_runtimes(pair: list[Path], pictures: Path, runtime: str) -> None:
    found = both(pair, pictures, runtime=runtime)
    assert found[1].runtime.startswith(f"{runtime}/")


def test_constants_beside_a_model(pair: list[Path], pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    beside: dict[str, Any] = {"save_as_external_data": True, "location": "parts/w.bin", "size_threshold": 0}
    onnx.save(network(), tmp_path / "large.onnx", **beside)
    assert (tmp_path / "parts" / "w.bin").stat().st_size
    assert both([tmp_path / "large.onnx", pair[1]], pictures)[0].top1 == top1(pair, LABELS)


class Ending(Session):
    """A model that ends its runtime with one of its samples."""

    def run(self, feeds: Any, outputs: Any = None) -> list[Any]:
        if any(np.array_equal(row, ENDING) for row in feeds["x"]):
            raise CrashError(self.name, "crashes", "Use another runtime")
        results: list[Any] = self.handle.run(feeds, outputs)
        return results


ENDING = ((PIXELS[60].astype(np.float32) - 128) / 64).transpose(2, 0, 1)


def test_a_model_that_ends_its_runtime(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = OpenModels.sessions

    def sessions(self: OpenModels, threads: int) -> list[Session]:
        made = opened(self, threads)
        return [*made[:-1], Ending(made[-1].name, made[-1].inputs, made[-1].outputs, made[-1])]

    monkeypatch.setattr(OpenModels, "sessions", sessions)
    data = array_file(tmp_path / "data.npz")
    first, second = both([*pair, pair[1]], data)[0::2]
    assert first.images == COUNT and second.images == 0
    assert second.failure is not None and second.failure.startswith(f"{pair[1]}: crashes")
    for judge in (lambda: calib8.evaluate([pair[1]], OnRay(data)), lambda: calib8.evaluate([pair[1]], data)):
        with pytest.raises(CrashError, match="crashes"):
            judge()


def test_models_are_called_as_the_user_does(pair: list[Path]) -> None:
    carried = through(OpenModels(pair, "onnxruntime", Settings(1)))
    sessions = carried.sessions(1)
    assert [one.name for one in sessions] == list(map(str, pair)) and carried.sessions(1) is sessions
    with pytest.raises(DataError, match=str(pair[0])) as refused:
        sessions[0].run({"x": np.zeros((1, 3, 6), np.float32)})
    assert "calib8-" not in refused.value.text


@pytest.fixture(scope="module")
def others(pair: list[Path], place: Path) -> dict[str, Path]:
    """The INT8 model in the forms that other runtimes take."""
    calib8.compile(pair[1], place / "int8.plan")
    made = calib8.quantize(pair[0], PIXELS[:20], preprocess=RECIPE, repair=["none"], target="tflite")
    made.save(place / "int8.tflite")
    return {"plan": place / "int8.plan", "tflite": place / "int8.tflite", "onnx": pair[1]}


@pytest.mark.parametrize("form", ["plan", "tflite"])
def test_models_of_other_forms(pair: list[Path], pictures: Path, others: dict[str, Path], form: str) -> None:
    found = both([pair[0], others[form]], pictures, runtime="calib8")
    assert found[1].sqnr_db is not None and found[1].model == str(others[form])


@pytest.mark.parametrize(
    ("runtime", "package", "form"),
    [("openvino", "openvino", "onnx"), ("litert", "ai_edge_litert", "tflite")],
)
def test_runtimes_with_processes_of_their_own_open_what_was_carried(
    pair: list[Path], others: dict[str, Path], runtime: str, package: str, form: str
) -> None:
    needed(package)
    here = OpenModels([pair[0], others[form]], runtime, Settings(1))
    there = through(here)
    feeds = {"x": ((PIXELS[:1].astype(np.float32) - 128) / 64).transpose(0, 3, 1, 2)}
    for one, other in zip(here.sessions(1), there.sessions(1), strict=True):
        assert (one.name, one.runtime, one.outputs) == (other.name, other.runtime, other.outputs)
        assert all(map(np.array_equal, one.run(feeds), other.run(feeds)))


@pytest.mark.parametrize("mixed", [False, True])
def test_machines_of_several_kinds(
    pair: list[Path], pictures: Path, monkeypatch: pytest.MonkeyPatch, mixed: bool
) -> None:
    turns = iter(range(1000))
    other = replace(this_origin(), cpu="another")
    monkeypatch.setattr(evaluation_work, "this_origin", lambda: (this_origin(), other)[next(turns) % 2])
    words = {"preprocess": RECIPE}
    if mixed:
        found = calib8.evaluate(pair, OnRay(pictures, mixed=True), **words)
        assert list(found) == timeless(calib8.evaluate(pair, pictures, **words))
        return
    with pytest.raises(UsageError, match=r"cluster: ran the models on another with ONNX Runtime .* and "):
        calib8.evaluate(pair, OnRay(pictures), **words)


def test_what_is_not_told_there_is_refused(pair: list[Path], pictures: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"preprocess": RECIPE}
    with pytest.raises(UsageError, match=r"task='classify': judges sample by sample.*samples"):
        calib8.evaluate(pair, OnRay(pictures), task="classify", **words)
    with pytest.raises(UsageError, match="judge: judges sample by sample"):
        calib8.evaluate(pair, OnRay(pictures), judge=lambda one, other: 1.0, **words)
    with pytest.raises(UsageError, match="checkpoint: keeps parts of statistics"):
        calib8.evaluate(pair, OnRay(pictures, checkpoint=tmp_path / "parts"), **words)
    with pytest.raises(UsageError, match="a list of labels needs an image folder"):
        calib8.evaluate(pair, OnRay(shards(tmp_path / "tar")), labels=label_list(tmp_path / "l.txt"), **words)
    assert not (tmp_path / "parts").exists()
