"""What the objects of a user raise while their items are read: said in one line, with the item's number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from calib8.errors import Calib8Error, DataError


def told(items: Callable[[], Iterator[Any]], kind: str) -> Iterator[Any]:
    """The items of an object; what it raises is a ``DataError``, with the original as its cause.

    Args:
        items: gives an iterator over them.
        kind: name of the object's type.

    Raises:
        DataError: the object raised something.
    """
    number = 0
    try:
        for item in items():
            yield item
            number += 1
    except (Calib8Error, MemoryError):
        raise
    except Exception as error:  # code of the user's
        problem = f"the data (of type {kind}) raised {type(error).__name__}: {error}"
        raise DataError(f"item {number}", problem, "Mend them; every item is read in its turn") from error


def told_by_number(data: Any, numbers: Sequence[int]) -> Iterator[Any]:
    """The items of these numbers; what the object raises is a ``DataError``, the original its cause.

    Raises:
        DataError: the object raised something, such as an IndexError where it is shorter than it says.
    """
    for number in numbers:
        try:
            item = data[number]
        except (Calib8Error, MemoryError):
            raise
        except Exception as error:  # code of the user's
            problem = f"the data (of type {type(data).__name__}) raised {type(error).__name__}: {error}"
            cure = f"Mend them; by their __len__ they have {len(data)} items, numbered from 0"
            raise DataError(f"item {number}", problem, cure) from error
        yield item
