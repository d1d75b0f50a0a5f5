"""For the site's Python reference: keywords that a function takes from a TypedDict may be left out.

griffe lists the fields of ``**words: Unpack[ReadingWords]`` as keywords, but looks for ``total=False`` at
the class alone, which with us stands at the classes that it is joined from.
"""

from __future__ import annotations

from typing import Any

from griffe import Class, Extension


class OptionalWords(Extension):
    """Marks every class of words as not total."""

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Before ``unpack_typeddict`` reads the class."""
        if cls.name.endswith("Words"):
            cls.keywords.setdefault("total", "False")
