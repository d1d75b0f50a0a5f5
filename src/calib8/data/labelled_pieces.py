"""Some samples of a local folder or array file with their labels, as data of their own.

Plain values: a cluster sends them to the machines that read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from calib8.data.fit import fit_preprocess
from calib8.data.folder_files import dataset_of_files
from calib8.data.opening import rows_of_arrays
from calib8.data.presets import known_preprocess
from calib8.data.samples import Dataset, OpenableData
from calib8.data.stored_arrays import open_arrays
from calib8.tensors import TensorSpec

if TYPE_CHECKING:
    from calib8.data.reading import Reading


@dataclass(frozen=True)
class FolderFiles(OpenableData):
    """Some pictures of a folder.

    Attributes:
        folder: where they lie.
        names: paths relative to it, with ``/``.
        labels: one per file.
    """

    folder: Path
    names: tuple[str, ...]
    labels: tuple[int | None, ...]

    def opened(self, inputs: Sequence[TensorSpec], reading: Reading) -> Dataset:
        """The samples, in this order.

        Raises:
            UsageError: no preprocessing.
        """
        fitted = fit_preprocess(known_preprocess(reading.preprocess), inputs, str(self.folder))
        return dataset_of_files(self.folder, self.names, self.labels, fitted, inputs, reading.skip_bad)


@dataclass(frozen=True)
class ArrayRows(OpenableData):
    """Some rows of an .npz or .npy.

    Attributes:
        path: the file.
        rows: their numbers.
        labels: one per row.
    """

    path: Path
    rows: Sequence[int]
    labels: tuple[int | None, ...]

    def opened(self, inputs: Sequence[TensorSpec], reading: Reading) -> Dataset:
        """The samples, in this order, called as in the whole file.

        Raises:
            UsageError, DataError: see ``calib8.data.opening.open_dataset``.
        """
        arrays, preprocess = open_arrays(self.path), known_preprocess(reading.preprocess)
        return rows_of_arrays(
            arrays, self.path.name, inputs, preprocess,
            labelled=dict(zip(self.rows, self.labels, strict=True)),
        )  # fmt: skip
