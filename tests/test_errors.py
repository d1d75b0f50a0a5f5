"""Messages are one line with subject, problem and cure; every error belongs to the tree."""

from __future__ import annotations

import inspect
import pickle

import pytest

from calib8 import errors
from calib8.errors import Calib8Error, ModelError, PlaceError, PromiseError, UnsupportedModelError, UsageError

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Calib8Error)]


def test_the_message_is_subject_problem_cure() -> None:
    error = ModelError("net.onnx", "has 3 heads", "Give it one")
    assert str(error) == "net.onnx: has 3 heads. Give it one."
    assert (error.subject, error.problem, error.cure) == ("net.onnx", "has 3 heads", "Give it one")


def test_line_breaks_and_trailing_dots_vanish() -> None:
    error = ModelError("a\nb", "went\r\n  wrong.", "Try\tagain.")
    assert str(error) == "a b: went wrong. Try again."


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_can_be_caught_at_the_root_and_is_drawn_in_the_tree(kind: type[Calib8Error]) -> None:
    assert issubclass(kind, Calib8Error)
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.exit_code == {UsageError: 2, PlaceError: 2, PromiseError: 3}.get(kind, 1)


@pytest.mark.parametrize("kind", CLASSES)
def test_errors_pass_between_processes(kind: type[Calib8Error]) -> None:
    error = kind("net.onnx", "has 3 heads", "Give it one")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.problem) == (kind, str(error), "has 3 heads")


def test_unsupported_is_a_model_error() -> None:
    assert issubclass(UnsupportedModelError, ModelError)
