"""Runs that are killed at any moment and started again end with the bytes of one run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_models import FLAGS

TESTS = Path(__file__).parents[1]

EARLY = 400_000
"""Calls of a run until it saves something for the first time."""

CALLS = 12_000
"""One save and a half."""

KILL = f"""import os, random, sys
from pathlib import Path
import calib8.cli.calibrate, calib8.pipeline, calib8.judge, onnxruntime  # loaded once, not in every run
from calib8.cli import main

def saved():
    return checkpoint.stat().st_mtime_ns if checkpoint.exists() else None

tests, checkpoint, wanted, *sys.argv[1:] = sys.argv[1:]
sys.path.insert(0, tests)
from killed import RENAMED, kill_later
checkpoint = Path(checkpoint)
sys.argv[0] = "calib8"
rng, kills, seen = random.Random(5), 0, None
for attempt in range(60):
    run = os.fork()
    if run == 0:
        if kills < int(wanted):  # the first kill comes early, all others after something was saved
            kill_later(checkpoint, min(kills, 1), rng.randrange(RENAMED, {CALLS} if kills else {EARLY}))
        try:
            main()
        except SystemExit as end:  # without the teardown of libraries that were loaded before the fork
            sys.stdout.flush()
            os._exit(int(end.code or 0))
    rng.random()  # another place for the next one
    status = os.waitpid(run, 0)[1]
    if os.WIFEXITED(status):
        print(kills)
        sys.exit(os.WEXITSTATUS(status))
    kills += 1
    assert kills == 1 or saved() != seen, "ended before it saved anything"
    seen = saved()
    sys.stdout.write(f"{{seen is not None}} ")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sixty images, of which the last one is bad."""
    rng = np.random.default_rng(2)
    place = tmp_path / "sixty"
    place.mkdir()
    for index in range(60):
        Image.fromarray(rng.integers(0, 256, (20, 16, 3), dtype=np.uint8)).save(place / f"{index:02}.png")
    (place / "59.png").write_bytes(b"no image")
    return place


@pytest.mark.parametrize("method", ["mse", pytest.param("ema", marks=pytest.mark.slow)])
def test_killed_again_and_again(cli, model: Path, folder: Path, out: Path, method: str) -> None:
    command = ["calibrate", model, "--data", folder, *FLAGS, "--skip-bad", "--method", method]
    whole = cli(*command, "-o", out / "whole.json", "--stats", out / "whole.npz", "--threads", 1)
    assert whole.exit_code == 0, whole.output
    saved = ["--checkpoint", out / "c", "--checkpoint-every", 1, "--threads", 2]
    files = ["-o", out / "table.json", "--stats", out / "stats.npz"]
    process = subprocess.run(
        [sys.executable, "-c", KILL, *map(str, (TESTS, out / "c", 6, *command, *saved, *files))],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.split()[-1] == "6" and process.stdout.count("True") >= 4, process.stdout
    assert (out / "table.json").read_bytes() == (out / "whole.json").read_bytes()
    assert (out / "stats.npz").read_bytes() == (out / "whole.npz").read_bytes()
    assert "59 samples calibrated" in process.stdout and "taken from the checkpoint" in process.stdout
    assert not (out / "c").exists()
    names = {path.name for path in out.iterdir()}
    assert not [name for name in names if name.startswith(".c.")], "what killed runs left is removed"
    assert {name for name in names if not name.startswith(".")} == {
        "table.json", "stats.npz", "whole.json", "whole.npz",
    }  # fmt: skip


def test_a_bad_image_ends_a_run_that_can_be_gone_on_with(cli, model: Path, folder: Path, out: Path) -> None:
    command = ["calibrate", model, "--data", folder, *FLAGS]
    saved = ["--checkpoint", out / "c", "-o", out / "t.json"]
    assert cli(*command, *saved).exit_code == 1
    assert (out / "c").exists() and not (out / "t.json").exists()
    again = cli(*command, *saved, "--skip-bad", "--json", out / "r.json")
    assert again.exit_code == 0, again.output
    assert "56 samples taken from the checkpoint" in again.stdout
    assert "59 samples calibrated" in again.stdout
    assert '"resumed": 56' in (out / "r.json").read_text()
    assert not (out / "c").exists()
    assert cli(*command, "--skip-bad", "-o", out / "u.json").exit_code == 0
    assert (out / "u.json").read_bytes() == (out / "t.json").read_bytes()


def test_a_checkpoint_of_other_data(cli, refused, model: Path, folder: Path, out: Path) -> None:
    command = ["calibrate", model, "--data", folder, *FLAGS, "--checkpoint", out / "c", "-o", out / "t.json"]
    assert cli(*command).exit_code == 1
    content = (out / "c").read_bytes()
    (folder / "00.png").rename(folder / "00a.png")
    result = cli(*command)
    refused(result, 1, "/c: is of other data: ", "its first 56 samples", "Give the same data as before.")
    (folder / "01.png").unlink()
    refused(cli(*command), 1, "/c: was made for data of 60 samples, these have 59", "another checkpoint file")
    assert (out / "c").read_bytes() == content and not (out / "t.json").exists()


def test_a_checkpoint_behind_a_link_is_removed_in_the_end(cli, model: Path, folder: Path, out: Path) -> None:
    (folder / "59.png").unlink()
    (out / "far").mkdir()
    (out / "c").symlink_to("far/c")
    saved = ["--checkpoint", out / "c", "--checkpoint-every", 1, "-o", out / "t.json"]
    assert cli("calibrate", model, "--data", folder, *FLAGS, *saved).exit_code == 0
    assert (out / "c").is_symlink() and not list((out / "far").iterdir())
