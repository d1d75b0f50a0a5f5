"""Same images, same bytes: the table does not depend on order, batch size or threads; memory stays flat."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from real_networks import NETWORKS

from calib8.data.opening import open_dataset
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.pipeline import calibrate

IMAGES = 12


@pytest.fixture(scope="module")
def folder(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("images")
    for path in sorted((shared_data / "imagenet" / "calib").glob("*.jpg"))[:IMAGES]:
        shutil.copy(path, target)
    return target


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param("efficientnet_lite0", "mse", marks=pytest.mark.slow),
        ("squeezenet", "mse"),
    ],
)
def test_order_batch_and_threads_give_the_same_bytes(
    name: str, method: str, folder: Path, shared_data: Path
) -> None:
    network = NETWORKS[name]
    model = shared_data / network.file
    settings = [(1, 1), (1, 2), (4, 2), (5, 1)]
    tables = [
        calibrate(
            model, folder, preprocess=network.preprocess, method=method, batch=batch, threads=threads
        ).table.to_json()
        for batch, threads in settings
    ]
    samples = list(open_dataset(folder, graph_inputs(load_model(model)), network.preprocess))
    order = np.random.default_rng(1).permutation(len(samples))
    shuffled = [dict(samples[index].inputs) for index in order]
    tables.append(calibrate(model, shuffled, method=method, batch=3, threads=2).table.to_json())
    assert len(set(tables)) == 1


PEAK = """
import sys
from pathlib import Path
from calib8.pipeline import calibrate
from calib8.data.presets import preset
calibrate(sys.argv[1], sys.argv[2], preprocess=preset("torchvision"), samples=int(sys.argv[3]), method="mse")
[line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(line.split()[1])
"""


def test_peak_memory_does_not_grow_with_the_images(shared_data: Path) -> None:
    model, images = shared_data / NETWORKS["mobilenet_v2"].file, shared_data / "imagenet" / "eval"

    def peak(samples: int) -> int:
        command = [sys.executable, "-c", PEAK, str(model), str(images), str(samples)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])

    few, many = peak(25), peak(200)
    assert abs(many - few) < 0.1 * few
