"""Labels from lists and from class folders."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calib8.data.labels import folder_labels, integer_label, read_label_list
from calib8.errors import DataError


def listing(folder: Path, text: str) -> Path:
    path = folder / "list.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_given_list(tmp_path: Path) -> None:
    path = listing(tmp_path, "b.png 7\n\nsub/a b.png   3\n")
    assert folder_labels(tmp_path, ["b.png", "sub/a b.png"], path) == [7, 3]


def test_labels_txt_in_the_folder_is_found_and_a_given_list_wins(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("a.png 1\n")
    assert folder_labels(tmp_path, ["a.png"], None) == [1]
    assert folder_labels(tmp_path, ["a.png"], listing(tmp_path, "a.png 2")) == [2]


def test_class_folders_are_numbered_by_name(tmp_path: Path) -> None:
    for name in ("zebra", "ant", "empty_middle", ".hidden"):
        (tmp_path / name).mkdir()
    files = ["ant/1.png", "ant/deep/2.png", "zebra/3.png"]
    assert folder_labels(tmp_path, files, None) == [0, 0, 2]  # the empty folder keeps number 1


def test_no_classes_means_no_labels(tmp_path: Path) -> None:
    (tmp_path / "only").mkdir()
    assert folder_labels(tmp_path, ["only/1.png"], None) == [None]
    (tmp_path / "second").mkdir()
    assert folder_labels(tmp_path, ["1.png", "only/1.png"], None) == [None, None]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a.png 1\ngone.png 2", "lists 1 files that are not images of the folder, such as 'gone.png'"),
        ("a.png 1", "lacks 1 of 2 images, such as 'b.png'"),
        ("a.png cat\nb.png 1", "line 1: 'cat' is not a class number"),
        ("a.png 1\nb.png 1.5", "line 2: '1.5' is not a class number"),
        ("a.png -1\nb.png 1", "'-1' is not a class number"),
        ("a.png\nb.png 1", "'a.png' is not 'file label'"),
        ("a.png 1\na.png 2\nb.png 1", "line 2: lists 'a.png' a second time"),
    ],
)
def test_lists_that_do_not_fit(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        folder_labels(tmp_path, ["a.png", "b.png"], listing(tmp_path, text))
    assert problem in str(caught.value) and "list.txt" in str(caught.value)


def test_unreadable_list(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_label_list(tmp_path / "gone.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match="is a pipe, no file"):
        read_label_list(tmp_path / "pipe.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="cannot be read"):
        read_label_list(tmp_path / "binary.txt")


@pytest.mark.parametrize("value", [3, np.int64(3), np.array([3]), np.array(3, np.uint8)])
def test_integer_labels(value: Any) -> None:
    assert integer_label(value, "x") == 3


@pytest.mark.parametrize("value", [-1, 3.0, True, "3", np.array([1, 2]), None])
def test_other_labels_are_refused(value: Any) -> None:
    with pytest.raises(DataError, match="x: has the label"):
        integer_label(value, "x")
