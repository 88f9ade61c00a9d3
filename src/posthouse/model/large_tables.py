"""Keeps very large tables cheap for Python's cyclic garbage collector."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class LargeTable(dict[Key, Value]):
    """A dict that the collector may put aside for good.

    Not a plain dict: the collector lets go of one whose keys and values refer to nothing else, and
    comes back to it with the next entry, however large it is, as if it were new.
    """

    __slots__ = ()
