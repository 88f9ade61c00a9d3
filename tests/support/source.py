"""The source of the product, parsed once for all tests that read it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tools.source_tree import SourceTree

SOURCE = Path(__file__).parents[2] / "src" / "posthouse"


@cache
def source_tree() -> SourceTree:
    return SourceTree(SOURCE)
