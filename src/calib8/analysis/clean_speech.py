"""How near enhanced sound is to clean sound: frames put together again, file by file.

    frames ── overlap-add ──► y [n]       the mean of what the frames say of a sample
    si_sdr_db        10 log10( Σ (k·s)² / Σ (k·s − y)² ),  k = Σ s·y / Σ s²    s: clean; mean over the files
    si_sdr_input_db  the same of the noisy files

A model gives the samples of its frame, those of the last hop in it, or a mask of the frame's spectrum:
factors of |X|, whose phase is that of the noisy frame. Samples that fewer than half as many frames hold as
others do, at the ends of a file, do not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from calib8.analysis.evaluate import Outputs
from calib8.data.batches import Batch
from calib8.data.clean_sound import CleanPair, CleanSound, frame_of
from calib8.errors import DataError
from calib8.parameters import parameter
from calib8.tasks.figures import LARGEST_DB
from calib8.tasks.judges.interface import F64, Array, mean, told

_LEAST_COVER: Final = 0.5
"""Of the largest sum of windows at a sample: below it there are frames missing at the ends."""


@dataclass(frozen=True)
class _Part:
    """What a frame says of its file.

    Attributes:
        begin: place of the first sample, below 0 in the zeros before the file.
        samples: float64 [n].
        window: how much they count, float64 [n].
    """

    begin: int
    samples: F64
    window: F64

    def added_to(self, whole: F64, values: F64) -> None:
        """Adds one number per sample where these lie in the file."""
        first, last = max(self.begin, 0), min(self.begin + len(values), len(whole))
        if first < last:
            whole[first:last] += values[first - self.begin : last - self.begin]


@dataclass
class _Open:
    """A file of which not all frames were seen.

    Attributes:
        pair: noisy and clean samples.
        sums: of the frames that hold a sample, float64 [models, n].
        cover: sums of their windows, float64 [n].
        seen: frames, and of each model those that it gave something for.
    """

    pair: CleanPair
    sums: F64
    cover: F64
    given: list[int]
    seen: int = 0


@dataclass
class CleanSpeech:
    """What models make of noisy files, beside clean ones.

    Attributes:
        files: both.
        models: how many are judged.
    """

    files: CleanSound
    models: int
    _open: dict[str, _Open] = field(default_factory=dict)
    _found: list[dict[str, float]] = field(default_factory=list)
    _inputs: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begins."""
        self._found = [{} for _ in range(self.models)]

    def add(self, batch: Batch, results: Outputs, output: int) -> None:
        """What every model gave for a batch; None is passed over.

        Args:
            batch: frames.
            results: outputs of every model.
            output: index of the one that is the signal.

        Raises:
            DataError: outputs of another size, or files that cannot be read.
        """
        for row, name in enumerate(batch.names):
            file, number = frame_of(name)
            one, part = self._opened(file), None
            for index, outputs in enumerate(results):
                if outputs is not None:
                    whole = outputs[output]
                    array = whole[row : row + 1] if len(batch.names) > 1 else whole
                    part = self._add(one, index, number, array, name)
            if part is not None:
                part.added_to(one.cover, part.window)
            one.seen += 1
            if one.seen == one.pair.frames:
                self._close(file)

    def told(self) -> list[dict[str, float]]:
        """Figures of every model over the files that it heard whole, see the top of the file."""
        inputs = [{file: self._inputs[file] for file in found} for found in self._found]
        return [
            told({"si_sdr_db": mean(found.values()), "si_sdr_input_db": mean(noisy.values())})
            for found, noisy in zip(self._found, inputs, strict=True)
        ]

    def _opened(self, file: str) -> _Open:
        if file not in self._open:
            pair = self.files.pair(file)
            size = len(pair.clean)
            empty = np.zeros((self.models, size))
            self._open[file] = _Open(pair, empty, np.zeros(size), [0] * self.models)
        return self._open[file]

    def _add(self, one: _Open, index: int, number: int, array: Array, name: str) -> _Part:
        part = self._part(one.pair, number, array.reshape(-1).astype(np.float64), name)
        part.added_to(one.sums[index], part.samples)
        one.given[index] += 1
        return part

    def _part(self, pair: CleanPair, number: int, values: F64, name: str) -> _Part:
        """What an output says of a file.

        Raises:
            DataError: the output is neither samples nor a mask.
        """
        framing, begin = self.files.framing, self.files.begin(number)
        size, hop = framing.frame or 1, self.files.hop
        if framing.spectrum == "magnitude" and len(values) == size // 2 + 1 and framing.stft_size == size:
            window = np.ones(size)
            if framing.window == "hann":
                window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(size) / size)
            spectrum = np.fft.rfft(window * _cut(pair.noisy, begin, size))
            return _Part(begin, np.fft.irfft(values * spectrum, size), window)
        if framing.spectrum == "none" and len(values) in (size, hop):
            return _Part(begin + size - len(values), values, np.ones(len(values)))
        wanted = f"{size} samples" if framing.spectrum == "none" else f"a mask of {size // 2 + 1} magnitudes"
        problem = f"the output has {len(values)} numbers a frame, and clean speech is compared with {wanted}"
        raise DataError(name, problem, f"Leave {parameter('labels')} out: FP32 is the truth then")

    def _close(self, file: str) -> None:
        """The figures of a file of which all frames were seen."""
        one = self._open.pop(file)
        there = one.cover >= _LEAST_COVER * one.cover.max()
        clean = one.pair.clean[there].astype(np.float64)
        if not clean.any():
            return
        self._inputs[file] = si_sdr_db(clean, one.pair.noisy[there].astype(np.float64))
        for index, sums in enumerate(one.sums):
            if one.given[index] == one.pair.frames:
                self._found[index][file] = si_sdr_db(clean, sums[there] / one.cover[there])


def _cut(samples: Array, begin: int, size: int) -> F64:
    """Samples of a frame, zeros before the beginning of the file and behind its end."""
    found = np.zeros(size)
    first, last = max(begin, 0), min(begin + size, len(samples))
    if first < last:
        found[first - begin : last - begin] = samples[first:last]
    return found


def si_sdr_db(clean: F64, found: F64) -> float:
    """Scale-invariant ratio of signal and distortion, −120 … 120 dB.

    Args:
        clean: the signal, not all 0, float64 [n].
        found: what is made of it, float64 [n].
    """
    if not np.isfinite(found).all():
        return -LARGEST_DB
    k = float((clean * found).sum() / (clean * clean).sum())
    signal, noise = float(((k * clean) ** 2).sum()), float(((k * clean - found) ** 2).sum())
    limit = 10.0 ** (LARGEST_DB / 10.0)
    if noise * limit <= signal:
        return LARGEST_DB if signal > 0.0 else -LARGEST_DB
    return float(10.0 * np.log10(max(signal / noise, 1.0 / limit)))
