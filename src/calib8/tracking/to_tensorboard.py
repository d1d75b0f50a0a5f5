"""Runs for TensorBoard: a folder per run with one file of events, the page and the models.

    FOLDER/quantize-net.int8.onnx-20261128-043300/
        events.out.tfevents.…   scalars, series, tables and the verdict as text, hyperparameters
        report.html

The events are written with the package ``tensorboard``, without TensorFlow or torch.
"""

from __future__ import annotations

import io
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calib8.analysis.model_bytes import files_of_model
from calib8.files import atomic_output
from calib8.tracking.destination import Destination
from calib8.tracking.record import RunRecord, Table, finite, odd, plain_name
from calib8.tracking.tracker import check_folder, check_installed


@dataclass(frozen=True)
class TensorboardRuns:
    """A folder of runs."""

    destination: Destination

    def check(self) -> None:
        """See ``Tracker``: the folder can be written to, or made."""
        check_installed(self.destination, "tensorboard")
        check_folder(self._folder)

    def log(self, record: RunRecord) -> str:
        """See ``Tracker``."""
        now = time.time()
        events = _events(record, now)
        folder = _new_folder(self._folder, record.name, now)
        with atomic_output(folder / f"events.out.tfevents.{int(now)}.calib8") as temporary:
            temporary.write_bytes(events)
        if record.page:
            with atomic_output(folder / "report.html") as temporary:
                temporary.write_text(record.page, encoding="utf-8")
        for model in record.models:
            for file in files_of_model(model):
                with atomic_output(folder / file.name) as temporary:
                    shutil.copyfile(file, temporary)
        return str(folder)

    @property
    def _folder(self) -> Path:
        return Path(self.destination.place).expanduser().absolute()


def _new_folder(above: Path, name: str, now: float) -> Path:
    """A folder of its own for a run; a second one of the same second has a number."""
    plain = plain_name(name.replace("/", "_")).replace(" ", "-")
    stem = f"{plain}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}"
    for again in range(1, 1000):
        folder = above / (stem if again == 1 else f"{stem}-{again}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if above.is_dir():
                continue
            raise
        return folder
    raise FileExistsError(f"{above} has a thousand runs of this second")


def _events(record: RunRecord, now: float) -> bytes:
    """The file of events."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    written = io.BytesIO()
    writer = RecordWriter(written)
    writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
    for step, value in _values(record):
        event = Event(wall_time=now, step=step, summary=Summary(value=[value]))
        writer.write(event.SerializeToString())
    return written.getvalue()


def _values(record: RunRecord) -> Iterator[tuple[int, Any]]:
    """Steps and values of summaries."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    plain = {plain_name(name): value for name, value in record.parameters.items() if value}
    verdict = {"verdict": record.verdict} if record.verdict else {}
    [hyperparameters] = hparams_pb({**plain, **verdict}).value
    yield 0, hyperparameters
    for name, number in finite(record.figures).items():
        yield 0, Summary.Value(tag=name, simple_value=number)
    for name, points in record.series().items():
        for step, number in points:
            yield step, Summary.Value(tag=name, simple_value=number)
    texts = {
        "verdict": f"**{record.verdict}** {record.grounds}" if record.verdict else record.grounds,
        "parameters": _two_columns(plain),
        "environment": _two_columns(record.environment),
        "figures": _two_columns(odd(record.figures)),
        "layers/all": _markdown(record.layers),
        f"{record.noun}/all": _markdown(record.table_of_parts()) if record.parts else "",
    }
    for tag, text in texts.items():
        if text.strip():
            yield 0, _text(tag, text)


def _text(tag: str, text: str) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.tensorflow_stub.dtypes import string
    from tensorboard.plugins.text import metadata
    from tensorboard.util.tensor_util import make_tensor_proto

    about = metadata.create_summary_metadata(tag, "")
    return Summary.Value(
        tag=tag, metadata=about, tensor=make_tensor_proto(text.encode("utf-8"), dtype=string)
    )


def _two_columns(entries: Mapping[str, str]) -> str:
    return _markdown(Table(("name", "value"), tuple(entries.items()))) if entries else ""


def _markdown(table: Table) -> str:
    """A table as the text panel shows it; no cell breaks it."""
    if not table.rows:
        return ""
    rows = (table.columns, tuple("---" for _ in table.columns), *table.rows)
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)


def _cell(cell: str | float | None) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.6g}" if math.isfinite(cell) else str(cell)
    return " ".join(cell.split()).replace("|", "\\|")
