"""Bias correction in one shot: what rounded weights add to a channel on average is taken out of its bias.

    e[c, i] = mean over pixels of ((W_q − W) ∗ x_i)[c]          run i, float input x_i, padding included
    b'[c]   = b[c] − (mean or median over i of e[c, i])         before the activation

Before a Sigmoid and the like pixels count by their slope (``layer_means``): of the logits of a mask nearly
all are far from 0, and what they need would move its border.

Every layer is looked at by itself, behind the float model's own activations: what goes wrong in one layer
does not reach another. One pass of the float model with a small copy of each layer gives all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from calib8.model.runtime import run_each
from calib8.progress import SampleCounter
from calib8.repair.biases import put_biases, without_error
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.coded_layers import CodedLayer, Doubles, coded_layers
from calib8.repair.layer_means import channel_means, settling_function, weight_error_model

Average = Literal["mean", "median"]

ENOUGH_RUNS: Final = 16
"""What more of them change is less than 0.3 dB, up or down, on networks for ImageNet and CIFAR-10."""

FLOAT64_TINY: Final = float(np.finfo(np.float64).tiny)


def correct_biases(
    candidate: Candidate, data: RepairData, *, average: Average = "mean", most_runs: int = ENOUGH_RUNS
) -> tuple[Candidate, RepairReport]:
    """Takes the mean error of rounded weights out of the biases; a layer without a bias gets one.

    Afterwards the mean of ``W_q ∗ x + b' − (W ∗ x + b)`` over the runs and pixels is 0 in every channel, the
    weighed mean before a settling function.
    A bias that an earlier correction put there is replaced; codes of weights stay.

    Args:
        candidate: what to correct.
        data: what to look at; without runs nothing is done.
        average: over runs; the median passes over single odd ones.
        most_runs: only the first so many runs are looked at, ≥ 1.

    Returns:
        The corrected candidate, and a report with the layers changed; notes tell of channels that keep their
        bias because int32 has no room for a new one, and of layers that cannot have any.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    layers = coded_layers(candidate, candidate.coded)
    runs = data.runs[:most_runs]
    with_bias = [layer for layer in layers if layer.layer.takes_bias and runs]
    errors = _weight_errors(candidate, with_bias, replace(data, runs=runs))
    biases = [
        without_error(layer, layer.bias, over_runs(found, average))
        for layer, found in zip(with_bias, errors, strict=True)
    ]
    return put_biases(candidate, layers, biases)


def over_runs(errors: Doubles, average: Average) -> Doubles:
    """Mean or median over axis 0 of float64 [runs, channels], whatever the order of the runs."""
    ordered = np.sort(errors, axis=0)
    found: Doubles = np.median(ordered, axis=0) if average == "median" else np.mean(ordered, axis=0)
    return found


def _weight_errors(candidate: Candidate, layers: Sequence[CodedLayer], data: RepairData) -> list[Doubles]:
    """float64 [runs, output channels] for every layer."""
    if not layers:
        return []
    counter = SampleCounter("correcting biases", len(data.runs), data.progress)
    rows = []
    for means in run_each(weight_error_model(candidate.model, layers), data.runs, threads=data.threads):
        rows.append([channel_means(array) for array in means])
        counter(1)
    columns = (np.array(column) for column in zip(*rows, strict=True))
    return [
        next(columns) if settling_function(layer.node) is None else _weighed(next(columns), next(columns))
        for layer in layers
    ]


def _weighed(errors: Doubles, weights: Doubles) -> Doubles:
    """float64 [runs, channels] whose mean is Σ g e / Σ g over all runs; 0 where no place counts."""
    mean = np.mean(np.sort(weights, axis=0), axis=0)
    return np.divide(errors, mean, out=np.zeros_like(errors), where=mean > FLOAT64_TINY)
