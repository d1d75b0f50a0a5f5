"""Runs in Weights & Biases: config, summary, series, tables, the page, models as an artifact.

``WANDB_MODE=offline`` keeps a run in the folder ``wandb`` or ``WANDB_DIR``; ``wandb sync`` sends it later.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calib8.analysis.model_bytes import files_of_model
from calib8.tracking.destination import Destination
from calib8.tracking.reach import check_reachable
from calib8.tracking.record import RunRecord, Table, finite, odd, plain_name
from calib8.tracking.tracker import check_folder, check_installed

PROJECT: Final = "calib8"
"""Where runs stand unless a project is given or ``WANDB_PROJECT`` names one."""

_ANSWER: Final = 30
"""Seconds to wait for the server."""


@dataclass(frozen=True)
class WandbRuns:
    """A project."""

    destination: Destination

    def check(self) -> None:
        """See ``Tracker``: the folder can be written to; online, the server knows the key."""
        check_installed(self.destination, "wandb")
        check_folder(Path(os.environ.get("WANDB_DIR") or ".").absolute())
        if os.environ.get("WANDB_MODE", "online") in ("offline", "disabled", "dryrun"):
            return
        import wandb

        check_reachable(wandb.Settings().base_url)
        if wandb.Api(timeout=_ANSWER).viewer is None:
            raise PermissionError("nobody is logged in; run: wandb login")

    def log(self, record: RunRecord) -> str:
        """See ``Tracker``."""
        import wandb

        entity, _, project = self.destination.place.rpartition("/")
        run = wandb.init(
            entity=entity or None,
            project=project or os.environ.get("WANDB_PROJECT") or PROJECT,
            name=record.name[:128],
            job_type=record.command,
            tags=[record.verdict] if record.verdict else None,
            config={plain_name(name): value for name, value in record.parameters.items() if value},
            reinit="create_new",  # a run of the user's own stays as it is
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True,
                init_timeout=_ANSWER,
            ),
        )  # fmt: skip
        try:
            _tell(run, record)
        except BaseException:
            run.finish(exit_code=1)
            raise
        run.finish()
        return str(Path(run.dir).parent if run.offline else run.url)


def _tell(run: Any, record: RunRecord) -> None:
    import wandb

    run.config.update({"environment": dict(record.environment)})
    run.summary.update({**finite(record.figures), **odd(record.figures), "verdict/grounds": record.grounds})
    for noun in ("layers", record.noun):
        run.define_metric(f"{noun}/step", hidden=True)
        run.define_metric(f"{noun}/*", step_metric=f"{noun}/step")
    for row in _rows_of_series(record):
        run.log(row)
    tables = {"layers_table": record.layers, f"{record.noun}_table": record.table_of_parts()}
    whole: dict[str, Any] = {name: _table(table) for name, table in tables.items() if table.rows}
    if record.page:
        whole["report"] = wandb.Html(record.page, inject=False)
    if whole:
        run.log(whole)
    if record.models:
        artifact = wandb.Artifact(f"{record.command}-model", type="model")
        for file in (file for model in record.models for file in files_of_model(model)):
            artifact.add_file(str(file), name=file.name)
        run.log_artifact(artifact).wait() if not run.offline else run.log_artifact(artifact)


def _rows_of_series(record: RunRecord) -> list[dict[str, float]]:
    """What is logged at once: all figures of one layer, or of one part."""
    rows: defaultdict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for name, points in record.series().items():
        noun = name.partition("/")[0]
        for step, number in points:
            rows[noun, step] |= {f"{noun}/step": float(step), name: number}
    return [rows[key] for key in sorted(rows)]


def _table(table: Table) -> Any:
    """A table of texts and finite numbers: a column takes one type."""
    import wandb

    numbers = [all(not isinstance(cell, str) for cell in table.column(name)) for name in table.columns]
    rows = [[_cell(cell, number) for cell, number in zip(row, numbers, strict=True)] for row in table.rows]
    return wandb.Table(columns=list(table.columns), data=rows)


def _cell(cell: str | float | None, number: bool) -> str | float | None:
    if number:
        return None if isinstance(cell, str) or cell is None or odd({"": cell}) else cell
    return "" if cell is None else str(cell)
