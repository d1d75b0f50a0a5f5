"""Clean recordings of noisy ones: WAV files of the same names in another folder.

noisy/a.wav   noisy/b/c.wav          clean/a.wav   clean/b/c.wav
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from calib8.data.framing import F32, Framing
from calib8.data.samples import Dataset
from calib8.data.sound import SOUND, whole_file
from calib8.data.wav import read_header
from calib8.errors import DataError, UsageError
from calib8.number_texts import count
from calib8.parameters import parameter


@dataclass(frozen=True)
class CleanPair:
    """A noisy file and what should be heard in it.

    Attributes:
        noisy, clean: samples at the rate of the model, −1 … 1, float32 [n].
        frames: how many frames are made of it.
    """

    noisy: F32
    clean: F32
    frames: int


@dataclass(frozen=True)
class CleanSound:
    """Clean files beside noisy ones, and how these become frames.

    Attributes:
        noisy, clean: the folders.
        frames: noisy file → how many frames it has, in the order of the files.
        framing: how sound becomes frames, all of it known.
    """

    noisy: Path
    clean: Path
    frames: dict[str, int]
    framing: Framing

    @cached_property
    def hop(self) -> int:
        """Samples from one frame to the next."""
        return self.framing.hop or 1

    def begin(self, frame: int) -> int:
        """The place of the first sample of a frame in its file; below 0 in the zeros before it."""
        return frame * self.hop - self.framing.lead

    def pair(self, name: str) -> CleanPair:
        """Both files of a name, read whole.

        Raises:
            DataError: one cannot be read, or they are of unequal length.
        """
        noisy, clean = (whole_file(folder / name, name, self.framing) for folder in (self.noisy, self.clean))
        if len(noisy) != len(clean):
            problem = f"has {len(clean)} samples, and the noisy file {len(noisy)}"
            raise DataError(str(self.clean / name), problem, "Cut both alike")
        return CleanPair(noisy, clean, self.frames[name])


def frame_of(sample: str) -> tuple[str, int]:
    """File and number of a frame by the name of its sample, such as ``a.wav[3]``."""
    name, _, number = sample.rpartition("[")
    return name, int(number.rstrip("]"))


def clean_sound(labels: Path, dataset: Dataset) -> CleanSound:
    """The clean files of a dataset.

    Args:
        labels: folder of files with the names, and in the sub-folders, of the noisy ones.
        dataset: frames of WAV files.

    Raises:
        UsageError: the data are no WAV files, only some of their frames are asked for, or ``labels`` is no
            folder.
        DataError: a noisy file without a clean one, or a clean one that cannot be read.
    """
    if dataset.framing is None:
        problem = "clean speech is compared with what a model makes of WAV files, and these data are none"
        raise UsageError(str(labels), problem, f"Give a folder of them as {parameter('data')}")
    if dataset.count != dataset.total:
        problem = (
            f"leaves {dataset.count} of {count(dataset.total or 0, 'frame')}, and files are judged whole"
        )
        raise UsageError(parameter("samples"), problem, "Leave it out, or give fewer files")
    if not labels.is_dir():
        cure = "Give the folder of the clean WAV files, of the same names as the noisy ones"
        raise UsageError(str(labels), "is not a folder of clean speech", cure)
    folder, _ = SOUND.listed(Path(dataset.source), "Give a folder of WAV files")
    frames = dict(Counter(frame_of(one.name)[0] for one in dataset.pending()))
    missing = [name for name in frames if not (labels / name).is_file()]
    if missing:
        problem = (
            f"{len(missing)} of {count(len(frames), 'noisy file')} have no clean one, such as '{missing[0]}'"
        )
        raise DataError(str(labels), problem, "Give a clean file of the same name for each")
    for name in frames:
        read_header(labels / name, str(labels / name))
    return CleanSound(folder, labels, frames, dataset.framing)
