"""A gathering of statistics that can be stopped at any moment: what is kept of it, and when it still fits.

A checkpoint is a zip archive of two files:

    checkpoint.json   format, version; the run (``Run``); how far it got (``Mark``); averages of ``ema``
    statistics.npz    the statistics so far, as ``Statistics.save`` writes them

It is written under a temporary name and renamed: whoever kills the run finds the old one or the new one.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from calib8.calibration.moving import Averages
from calib8.calibration.origin import origins_text, this_origin
from calib8.calibration.statistics import Statistics
from calib8.data.differing import preprocess_difference
from calib8.data.samples import Skipped
from calib8.data.trail import Mark
from calib8.errors import TableError
from calib8.files import atomic_output, check_file
from calib8.parameters import parameter

CHECKPOINT_FORMAT: Final = "calib8-checkpoint"
CHECKPOINT_VERSION: Final = 1

_CURE: Final = "Give the same command as before, or another checkpoint file to start anew"


@dataclass(frozen=True)
class Run:
    """What two runs must have in common so that one can go on where the other stopped.

    Attributes:
        preprocess: ``Preprocess.to_json``, None where arrays go in as they are.
        samples: how many samples the data hold, None where only reading tells.
        shard: which part of them is read, such as ``1/4``; None: all.
        decay: that of ``ema``, None for other methods.
        runtime: version of ONNX Runtime.
    """

    preprocess: str | None
    samples: int | None
    shard: str | None
    decay: float | None
    runtime: str


@dataclass(frozen=True)
class Checkpoint:
    """A run that was left.

    Attributes:
        run: which.
        mark: how far it got.
        statistics: of the samples up to there.
        averages: those of ``ema`` up to there, None for other methods.
    """

    run: Run
    mark: Mark
    statistics: Statistics
    averages: Averages | None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file; equal checkpoints give equal bytes.

        Raises:
            OutputError: the file cannot be written; an old file stays intact.
        """
        document = {
            "format": CHECKPOINT_FORMAT,
            "version": CHECKPOINT_VERSION,
            "run": asdict(self.run),
            "mark": asdict(self.mark),
            "averages": None if self.averages is None else dict(sorted(self.averages.items())),
        }
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr(zipfile.ZipInfo("checkpoint.json"), json.dumps(document, indent=1))
            archive.writestr(zipfile.ZipInfo("statistics.npz"), self.statistics.to_bytes())
        with atomic_output(path) as temporary:
            temporary.write_bytes(content.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Reads what ``save`` wrote.

        Raises:
            TableError: the file cannot be read, is no checkpoint, of another version, or broken.
        """
        source = str(path)
        check_file(path, "Give another file", TableError)
        try:
            with zipfile.ZipFile(Path(path)) as archive:
                document = json.loads(archive.read("checkpoint.json"))
                content = archive.read("statistics.npz")
        except Exception as error:  # a damaged archive: zipfile raises a dozen unrelated types
            raise TableError(source, f"is not a checkpoint ({error})", "Give another file") from error
        found = (document.get("format"), document.get("version")) if isinstance(document, dict) else None
        if found != (CHECKPOINT_FORMAT, CHECKPOINT_VERSION):
            problem = f"is no {CHECKPOINT_FORMAT} of version {CHECKPOINT_VERSION}"
            raise TableError(source, problem, "Give another file to start anew")
        statistics = Statistics.from_bytes(content, source)
        try:
            return cls(Run(**document["run"]), _mark(document["mark"]), statistics, _averages(document))
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise TableError(source, f"is broken ({error})", "Remove it to start anew") from error

    def check(self, run: Run, model_hash: str, tensors: Sequence[str], source: str) -> None:
        """Refuses to go on with another run than this one.

        Args:
            run: the one that wants to go on.
            model_hash: its prepared model.
            tensors: the tensors that it looks at.
            source: path of this checkpoint, subject of messages.

        Raises:
            TableError: model, tensors, data, preprocessing, CPU type or anything else of the run differ.
        """
        if self.statistics.model_hash != model_hash:
            raise TableError(source, "was made for another model", _CURE)
        odd = sorted(self.statistics.tensors.keys() ^ set(tensors))
        if odd:
            raise TableError(
                source, f"was made with another {parameter('keep_float')} (tensor '{odd[0]}')", _CURE
            )
        for field, problem in _DIFFERENCES.items():
            old, new = getattr(self.run, field), getattr(run, field)
            if old != new:
                by = preprocess_difference(old, new) if field == "preprocess" else ""
                raise TableError(source, problem.format(old=_said(old), new=_said(new), by=by), _CURE)
        here = this_origin()
        if self.statistics.origins not in ((), (here,)):
            problem = f"was made on {origins_text(self.statistics.origins)}, not on {here}"
            raise TableError(source, problem, "Go on there, or give another checkpoint file to start anew")


_DIFFERENCES: Final = {
    "preprocess": "was made with another preprocessing ({by})",
    "samples": "was made for data of {old} samples, these have {new}",
    "shard": "was made for shard {old}, not {new}",
    "decay": "was made with the decay {old} of ema, not {new}",
    "runtime": "was made with ONNX Runtime {old}, not {new}",
}


def _said(value: object) -> str:
    return "none" if value is None else str(value)


def _mark(fields: dict[str, Any]) -> Mark:
    skipped = tuple(Skipped(**bad) for bad in fields["skipped"])
    mark = Mark(int(fields["done"]), str(fields["last"]), str(fields["chain"]), skipped)
    if len(bytes.fromhex(mark.chain)) != 32 or not len(skipped) <= mark.done:
        raise ValueError(f"chain {mark.chain}, {mark.done} done")
    return mark


def _averages(document: dict[str, Any]) -> Averages | None:
    found = document["averages"]
    return None if found is None else {str(name): (float(a), float(b)) for name, (a, b) in found.items()}
