"""The ranges by any method: from statistics, from a second look at the data, or as ``auto`` chooses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calib8.autorange.choose import AutoReport, choose_automatically
from calib8.autorange.plain import plain_tables
from calib8.autorange.score_ranges import with_whole_scores
from calib8.calibration.collect_layouts import count_again
from calib8.calibration.decide import AUTO, Wish, decide
from calib8.calibration.functions_behind import functions_for
from calib8.calibration.gather import Gathered
from calib8.calibration.source import Source
from calib8.progress import Progress
from calib8.scheme import QuantScheme
from calib8.table import CalibrationTable, Range
from calib8.tasks.branches import Meaning


def chosen_table(
    source: Source,
    found: Gathered,
    wish: Wish,
    scheme: QuantScheme,
    given: Mapping[str, Range],
    meaning: Meaning | None,
    *,
    keep_float: Sequence[str],
    batch: int | None,
    threads: int,
    progress: Progress,
) -> tuple[CalibrationTable, AutoReport | None]:
    """The table, and what ``auto`` saw.

    Args:
        source: the prepared model and its data, which are None with saved statistics.
        found: what was gathered of it.
        wish: the method.
        scheme: target that ``auto`` checks with; its type of activations.
        given: ranges of the user.
        meaning: branches of the outputs, None where they are not known.
        keep_float, batch, threads, progress: see ``calib8.calibrate``.

    Raises:
        Calib8Error: what can be wrong with the data or the choice.
    """
    model, statistics, spec = source.prepared.model, found.statistics, scheme.activations
    functions = functions_for(wish.method, model)
    if source.dataset is None or wish.method != AUTO:
        counts = None
        if source.dataset is not None:
            counts = count_again(
                wish.method, model, statistics, source.dataset, batch=batch, threads=threads,
                progress=progress, without=given,
            )  # fmt: skip
        seen = statistics, found.averages
        table = decide(*seen, spec, wish, given, counts, functions, threads=threads)
        return with_whole_scores(table, model, meaning, statistics.tensors, spec, wish), None
    plain = plain_tables(
        statistics, spec, power_of_two=wish.power_of_two, given=given, functions=functions, threads=threads
    )
    table, report = choose_automatically(
        model, plain, source.dataset, scheme, keep_float=source.prepared.nodes_called(keep_float),
        meaning=meaning, threads=threads, progress=progress,
    )  # fmt: skip
    return with_whole_scores(table, model, meaning, statistics.tensors, spec, wish), report
