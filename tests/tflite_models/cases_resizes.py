"""Random models of resized images."""

from __future__ import annotations

import numpy as np
from cases_functions import random_input
from cases_places import meaning, whole
from single_op import Net

from calib8.tflite.graph import Graph


def resize(rng: np.random.Generator, dtype: str, op: str) -> Graph:
    net = Net()
    batch, rows, columns = (int(n) for n in rng.integers(1, 12, 3))
    sizes = [int(n) for n in rng.integers(1, 25, 2)]
    depth, mode = int(rng.integers(1, 20)), int(rng.integers(0, 3))
    x = random_input(rng, net, (batch % 2 + 1, rows, columns, depth), dtype)
    y = net.output((batch % 2 + 1, *sizes, depth), dtype, meaning(net, x))
    return net.graph(
        op, [x, net.constant(whole(sizes))], [y], 3, align_corners=mode == 1, half_pixel_centers=mode == 2
    )


def resize_bilinear(rng: np.random.Generator, dtype: str) -> Graph:
    return resize(rng, dtype, "RESIZE_BILINEAR")


def resize_nearest_neighbor(rng: np.random.Generator, dtype: str) -> Graph:
    return resize(rng, dtype, "RESIZE_NEAREST_NEIGHBOR")
