"""``calib8 run``: one model on images, the best classes of each or figures of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from calib8.cli.documents import finite
from calib8.cli.headings import RESULTS
from calib8.cli.options import (
    DataOption,
    OpenableArgument,
    PreprocessOptions,
    ReadingOptions,
    ReportOptions,
    RuntimeOptions,
)
from calib8.cli.outputs import check_outputs, write_json
from calib8.cli.preprocessing import chosen_preprocess, stored_in_file
from calib8.cli.progress import shown_progress
from calib8.cli.render import plain_table, say_skipped, shape_text
from calib8.cli.terminal import Terminal, open_terminal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from calib8.data.batches import Batch
    from calib8.data.reading import Reading
    from calib8.data.samples import Dataset
    from calib8.model.runtime import Session

TopOption = Annotated[
    int,
    typer.Option("--top", metavar="N", help="How many of the best classes to show.", rich_help_panel=RESULTS),
]


@dataclass(frozen=True)
class _Classes:
    """The best classes of one image, best first, with their scores as the model gives them."""

    image: str
    classes: tuple[int, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True)
class _Output:
    """Figures of one output of a model on one batch, over its finite values (NaN where there are none)."""

    image: str
    output: str
    shape: tuple[int, ...]
    minimum: float
    mean: float
    maximum: float


def run(
    model: OpenableArgument,
    data: DataOption,
    *,
    top: TopOption = 5,
    running: RuntimeOptions,
    reading: ReadingOptions,
    preprocessing: PreprocessOptions,
    report: ReportOptions,
) -> None:
    """Show what a model says about images.

    The best classes of each image with their scores, or figures of the outputs where they are no scores.

    Without preprocessing flags the images are treated as the model was calibrated.
    """
    terminal = open_terminal(report.quiet)
    check_outputs({"--json": report.json}, [model, data])
    preprocess = chosen_preprocess(preprocessing, stored_in_file([model]))

    from calib8.analysis.runtimes import default_runtime, open_in_runtime
    from calib8.progress import check_positive

    check_positive("top", top)
    request = reading.of(data, preprocess)
    session = open_in_runtime(
        model,
        running.runtime or default_runtime([model]),
        request.threads,
        profile=running.profile,
        integer_only=running.integer_only,
    )
    dataset = request.opened(session.inputs)
    results = _run_all(terminal, session, dataset, request, top)
    say_skipped(terminal, dataset.skipped)
    terminal.show(_table(results))
    if report.json is not None:
        write_json(report.json, {"model": str(model), "results": [_document(result) for result in results]})


def _run_all(
    terminal: Terminal, session: Session, dataset: Dataset, reading: Reading, top: int
) -> list[_Classes | _Output]:
    from calib8.data.batches import batches

    results: list[_Classes | _Output] = []
    done = 0
    with shown_progress(terminal, "reading images") as progress:
        for batch in batches(dataset, reading.batch_size, reading.threads):
            outputs = session.run(batch.inputs)
            results.extend(_classes(batch, outputs[0], top) or _figures(session, batch, outputs))
            done += len(batch.names)
            progress("running", done, dataset.count)
    return results


def _classes(batch: Batch, output: npt.NDArray[Any], top: int) -> list[_Classes]:
    """One entry per image; none if the output is not a row of scores for each."""
    from calib8.analysis.evaluate import best_classes, class_scores

    scores = class_scores(output)
    if scores is None or len(scores) != len(batch.names):
        return []
    return [
        _Classes(name, tuple(map(int, best)), tuple(float(row[index]) for index in best))
        for name, row, best in zip(batch.names, scores, best_classes(scores, top), strict=True)
    ]


def _figures(session: Session, batch: Batch, outputs: Sequence[npt.NDArray[Any]]) -> list[_Output]:
    names = ", ".join(batch.names)
    return [_output(names, spec.name, array) for spec, array in zip(session.outputs, outputs, strict=True)]


def _output(image: str, name: str, array: npt.NDArray[Any]) -> _Output:
    import numpy as np

    values: npt.NDArray[np.float64] = (
        array.astype(np.float64).reshape(-1) if array.dtype.kind in "biuf" else np.empty(0)
    )
    values = values[np.isfinite(values)]
    low, mean, high = (values.min(), values.mean(), values.max()) if values.size else (np.nan,) * 3
    return _Output(image, name, array.shape, float(low), float(mean), float(high))


def _table(results: Sequence[_Classes | _Output]) -> Table:
    if isinstance(results[0], _Classes):
        table = plain_table("image", "class: score, best first")
    else:
        table = plain_table("image", "output", "shape", "min", "mean", "max")
    for result in results:
        table.add_row(*_row(result))
    return table


def _row(result: _Classes | _Output) -> tuple[str, ...]:
    if isinstance(result, _Classes):
        pairs = zip(result.classes, result.scores, strict=True)
        return result.image, "  ".join(f"{number}: {score:.4g}" for number, score in pairs)
    figures = (f"{value:.4g}" for value in (result.minimum, result.mean, result.maximum))
    return result.image, result.output, shape_text(result.shape), *figures


def _document(result: _Classes | _Output) -> dict[str, Any]:
    if isinstance(result, _Classes):
        scores = [finite(score) for score in result.scores]
        return {"image": result.image, "classes": list(result.classes), "scores": scores}
    return {
        "image": result.image,
        "output": result.output,
        "shape": list(result.shape),
        "minimum": finite(result.minimum),
        "mean": finite(result.mean),
        "maximum": finite(result.maximum),
    }
