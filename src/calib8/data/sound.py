"""WAV files as samples: frames in the order of the files and of time, with a mark where a file begins.

    a.wav   frame 0  frame 1  frame 2      reset  1 0 0
    b.wav   frame 0  frame 1               reset  1 0

A folder, a file or a pattern is read. Only frames that are used are read; a file that has to be resampled is
in memory whole, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import gcd
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np

from calib8.data.arrays import conform, rows_per_batch
from calib8.data.fingerprints import array_fingerprint
from calib8.data.framing import F32, Framing, placed
from calib8.data.labels import known_labels, labels_of_folder, no_labels
from calib8.data.listed_files import FileKind
from calib8.data.samples import Array, Dataset, Pending, Sample, spaced
from calib8.data.wav import WAV_SUFFIXES, Wav, read_header
from calib8.errors import DataError, UsageError
from calib8.number_texts import count
from calib8.parameters import Text, parameter
from calib8.tensors import TensorSpec

SOUND: Final = FileKind("WAV", "WAV files", WAV_SUFFIXES)

RESET: Final = "reset"
"""What data may hold beside the inputs: not 0 where a stream begins."""

_CURE: Final = "Give a folder of WAV files, a WAV file, or a pattern such as 'speech/*.wav'"


def is_sound(path: Path) -> bool:
    """Whether a path stands for WAV files: by its name, or a folder that holds one."""
    if path.suffix.lower() in WAV_SUFFIXES:
        return True
    try:
        return path.is_dir() and any(SOUND.holds(one) for one in path.rglob("*"))
    except OSError:  # whoever lists it says what is wrong
        return False


def refuse_unframed(path: Path) -> None:
    """Refuses sound of which nothing says how it becomes frames.

    Raises:
        UsageError: the path stands for WAV files.
    """
    if is_sound(path):
        cure = f"Give {parameter('rate', 16000)} or what else it is"
        raise UsageError(str(path), "holds sound, and nothing says at which rate the model hears it", cure)


@dataclass(frozen=True)
class _Cut:
    """One file and how many frames it has.

    Attributes:
        name: of the file.
        wav: what its header says; None: it is bad, and ``error`` says why.
        frames: how many.
        error: what is wrong with it.
    """

    name: str
    wav: Wav | None
    frames: int
    error: DataError | None = None


@dataclass
class _Resampled:
    """The file that was resampled last: frames of it are asked for one after the other."""

    framing: Framing
    _path: Path | None = None
    _samples: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    _lock: Lock = field(default_factory=Lock)

    def of(self, wav: Wav) -> F32:
        """All samples of a file at the rate of the model, float32 [n]."""
        with self._lock:
            if self._path != wav.path:
                mono = _mono(wav.samples(0, wav.length), self.framing, wav.name)
                self._samples, self._path = _at_rate(mono, wav.rate, self.framing.rate), wav.path
            return self._samples


def dataset_of_sound(
    path: Path,
    inputs: Sequence[TensorSpec],
    framing: Framing,
    labels: Path | None,
    samples: int | None,
    skip_bad: bool,
) -> Dataset:
    """Frames of WAV files.

    Args:
        path: a folder, read with its sub-folders in ascending order of the paths, a file or a pattern.
        inputs: the one that takes the frames; ``reset`` beside it is the mark where a file begins.
        framing: how sound becomes frames.
        labels: a list of ``file label`` lines; None: sub-folders are classes. Frames have the label of their
            file.
        samples: at most so many frames, evenly spaced.
        skip_bad: files that cannot be read, or are too short, are passed over.

    Raises:
        UsageError: the model takes other inputs too, options that do not fit, or a package is missing.
        DataError: no such files, labels that do not fit, and without ``skip_bad`` a bad file.
    """
    folder, files = SOUND.listed(path, _CURE)
    fed = tuple(spec for spec in inputs if spec.name != RESET or len(inputs) == 1)
    fitted = framing.fitted(fed, str(path))
    cuts = [_cut_of(folder / name, name, fitted, skip_bad) for name in files]
    found = labels_of_folder(folder, files, labels) if path.is_dir() else no_labels(len(files))
    places = [(cut, number, frame) for number, cut in enumerate(cuts) for frame in range(cut.frames)]
    chosen = [places[index] for index in spaced(len(places), samples)]
    numbers = [found.numbers[file] for _, file, _ in chosen]
    read, marked = _Resampled(fitted), len(fed) < len(inputs)

    def pending() -> Iterator[Pending]:
        for (cut, _, frame), label in zip(chosen, numbers, strict=True):
            name = f"{cut.name}[{frame}]"
            load = partial(_sample, cut, frame, name, read, fed[0], label, marked)
            yield Pending(name, load, partial(_fingerprint, cut, frame, read))

    return Dataset(
        str(path), pending, len(chosen), rows_per_batch(inputs), None, skip_bad, [],
        labels_asked=found.asked, label_note=found.note, class_names=found.names,
        label_cure=Text(f"Mend them, or name others with {parameter('labels')}"),
        labels=known_labels(numbers), total=len(places), framing=fitted,
    )  # fmt: skip


def _cut_of(path: Path, name: str, framing: Framing, skip_bad: bool) -> _Cut:
    """The frames of a file; a bad one that is to be passed over counts as one.

    Raises:
        DataError: it cannot be read, has another rate, or not one frame.
    """
    try:
        wav = read_header(path, name)
        return _Cut(name, wav, _frames_of(wav, framing))
    except DataError as error:
        if not skip_bad:
            raise
        return _Cut(name, None, 1, error)


def _frames_of(wav: Wav, framing: Framing) -> int:
    length = wav.length
    if wav.rate != framing.rate:
        if not framing.resample:
            problem = f"has {wav.rate} samples per second, and the model hears {framing.rate}"
            cure = f"Convert it, or let SciPy do it with {parameter('resample', True)}"
            raise DataError(wav.name, problem, cure)
        up, down = _ratio(wav.rate, framing.rate)
        length = -(-length * up // down)
    if framing.channel is not None and framing.channel >= wav.channels:
        problem = f"has {count(wav.channels, 'channel')}, and no number {framing.channel}"
        raise DataError(wav.name, problem, f"Give a number from 0 to {wav.channels - 1}")
    frames = framing.frames_in(length)
    if not frames:
        problem = f"holds {count(length, 'sample')} ({wav.seconds:.3g} s), and a frame has {framing.frame}"
        cure = f"Leave it out, or fill it with zeros: {parameter('pad_end', True)}"
        raise DataError(wav.name, problem, cure)
    return frames


def whole_file(path: Path, name: str, framing: Framing) -> F32:
    """A file at the rate of the model, one channel: float32 [n].

    Raises:
        DataError: it cannot be read, or has another rate or no such channel.
        UsageError: it has to be resampled, and SciPy is not installed.
    """
    wav = read_header(path, name)
    _frames_of(wav, framing)
    mono = _mono(wav.samples(0, wav.length), framing, name)
    return mono if wav.rate == framing.rate else _at_rate(mono, wav.rate, framing.rate)


def _samples_of(wav: Wav, frame: int, read: _Resampled) -> F32:
    """One frame of a file, float32 [frame], zeros before its beginning and behind its end."""
    framing = read.framing
    size, hop = framing.frame or 1, framing.hop or 1
    begin = frame * hop - framing.lead
    if wav.rate == framing.rate:
        first, last = min(max(begin, 0), wav.length), min(max(begin + size, 0), wav.length)
        there = _mono(wav.samples(first, last), framing, wav.name)
    else:
        every = read.of(wav)
        first, last = min(max(begin, 0), len(every)), min(max(begin + size, 0), len(every))
        there = every[first:last]
    whole = np.zeros(size, np.float32)
    whole[first - begin : last - begin] = there
    return whole


def _sample(
    cut: _Cut, frame: int, name: str, read: _Resampled, spec: TensorSpec, label: int | None, marked: bool
) -> Sample:
    """A frame as the model takes it; raises the DataError of a bad file."""
    if cut.wav is None:
        assert cut.error is not None
        raise cut.error
    values = read.framing.values(_samples_of(cut.wav, frame, read))
    inputs: dict[str, Array] = {spec.name: conform(placed(values, spec, name), spec, name, partial=True)}
    if marked:
        inputs[RESET] = np.array([frame == 0], np.int64)
    return Sample(name, inputs, label)


def _fingerprint(cut: _Cut, frame: int, read: _Resampled) -> bytes:
    if cut.wav is None:
        return b""
    try:
        return array_fingerprint({"samples": _samples_of(cut.wav, frame, read)})
    except DataError:
        return b""


def _mono(samples: F32, framing: Framing, name: str) -> F32:
    """One channel of [n, channels]: the one that is asked for, or the mean of all.

    Raises:
        DataError: a sample is NaN or infinite.
    """
    one = samples[:, framing.channel] if framing.channel is not None else samples.mean(axis=1)
    if not np.isfinite(one).all():
        raise DataError(name, "holds samples that are NaN or infinite", "Write it anew, or leave it out")
    return np.ascontiguousarray(one, np.float32)


def _ratio(rate: int, wanted: int) -> tuple[int, int]:
    """How many samples become of how many."""
    common = gcd(rate, wanted)
    return wanted // common, rate // common


def _at_rate(samples: F32, rate: int, wanted: int) -> F32:
    """Resampled by SciPy's polyphase filter.

    Raises:
        UsageError: SciPy is not installed.
    """
    try:
        from scipy.signal import resample_poly
    except ImportError as missing:
        problem = "needs the package scipy, which is not installed"
        cure = "Run: pip install 'calib8[audio]'"
        raise UsageError(parameter("resample", True), problem, cure) from missing
    up, down = _ratio(rate, wanted)
    found: F32 = resample_poly(samples.astype(np.float64), up, down).astype(np.float32)
    return found
