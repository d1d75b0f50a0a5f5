"""What the parts in a store are of: kept beside them as ``run.json``, and compared before a run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from calib8.data.differing import preprocess_difference
from calib8.data.items import InputMap, Transform
from calib8.distributed.function_digest import UntellableError, function_digest
from calib8.distributed.store import PARTS, Store
from calib8.errors import TableError, UsageError
from calib8.json_texts import parse_json
from calib8.parameters import parameter

RECORD: Final = "run.json"
RECORD_FORMAT: Final = "calib8-parts"
RECORD_VERSION: Final = 2

_CURE: Final = f"Give the same arguments as before, or another {PARTS} to start anew"


@dataclass(frozen=True)
class RunRecord:
    """What two runs must have in common so that one can take the parts of the other.

    Attributes:
        model_hash: of the prepared model.
        tensors: digest of the names of the tensors that are looked at.
        preprocess: how images become inputs; None: arrays go in as they are.
        data: digest of the units; None: of a dataset, which is told by its samples alone.
        runtime: version of ONNX Runtime.
        input_map: input → name in a sample, as JSON; None: samples are taken as they are.
        transform: digest of the user's function; None: there is none.
    """

    model_hash: str
    tensors: str
    preprocess: str | None
    data: str | None
    runtime: str
    input_map: str | None = None
    transform: str | None = None

    @classmethod
    def of(
        cls,
        model_hash: str,
        tensors: Sequence[str],
        preprocess: str | None,
        data: str | None,
        runtime: str,
        input_map: InputMap | None = None,
        transform: Transform | None = None,
    ) -> RunRecord:
        """That of a run over some tensors.

        Raises:
            UsageError: ``transform`` holds something that does not say what it is.
        """
        names = hashlib.sha256(json.dumps(sorted(tensors)).encode()).hexdigest()
        taken = None if not input_map else json.dumps(dict(input_map), sort_keys=True, default=str)
        made = None if transform is None else _digest(transform)
        return cls(model_hash, names, preprocess, data, runtime, taken, made)

    def agree(self, store: Store) -> None:
        """Makes sure that the parts of a store are of this run; an empty store becomes this run's.

        Raises:
            TableError: they are of another run, or what is there cannot be read.
            OutputError, OSError: see ``Store.write``.
        """
        content = store.read(RECORD)
        if content is None:
            told = {"format": RECORD_FORMAT, "version": RECORD_VERSION, **asdict(self)}
            store.write(RECORD, json.dumps(told, indent=1).encode())
            return
        self._compare(_read(content, store.name), store.name)

    def _compare(self, old: RunRecord, source: str) -> None:
        for field, problem in _DIFFERENCES.items():
            before, now = getattr(old, field), getattr(self, field)
            if before != now:
                by = preprocess_difference(before, now) if field == "preprocess" else ""
                raise TableError(source, problem.format(old=before, new=now, by=by), _CURE)


def _digest(transform: Transform) -> str:
    try:
        return function_digest(transform)
    except UntellableError as error:
        problem = f"holds a {error}, so that nothing tells it from another one, whose parts are refused"
        cure = f"Make that where the function is called, or leave out {PARTS}"
        raise UsageError(parameter("transform"), problem, cure) from error


_DIFFERENCES: Final = {
    "model_hash": "holds parts of another model",
    "tensors": f"holds parts with another {parameter('keep_float')}",
    "preprocess": "holds parts with another preprocessing ({by})",
    "data": "holds parts of other data, or they were changed since",
    "input_map": f"holds parts with another {parameter('input_map')}",
    "transform": f"holds parts with another {parameter('transform')}",
    "runtime": "holds parts made with ONNX Runtime {old}, not {new}",
}
"""Field → what is wrong where it differs, the first one that does."""


def _read(content: bytes, source: str) -> RunRecord:
    try:
        told = parse_json(content)
        found = (told.pop("format"), told.pop("version"))
        if found != (RECORD_FORMAT, RECORD_VERSION):
            raise ValueError(f"{RECORD} is no {RECORD_FORMAT} of version {RECORD_VERSION}")
        return RunRecord(**told)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TableError(source, f"holds no parts of a run ({error})", f"Give another {PARTS}") from error
