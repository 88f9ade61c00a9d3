"""The public names of `posthouse` and `posthouse.spark` are what they were, whatever is loaded."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

import posthouse
import posthouse.spark


@pytest.mark.parametrize("package", [posthouse, posthouse.spark], ids=["posthouse", "spark"])
def test_no_module_hides_a_public_name(package: ModuleType) -> None:
    """A module or package of a public name would take its place once somebody imports it."""
    (folder,) = package.__path__
    modules = {path.stem for path in Path(folder).iterdir() if path.suffix in ("", ".py")}
    names = set(package.__all__)
    assert {name for name in names & modules if not _is_module(package, name)} == set()


def _is_module(package: ModuleType, name: str) -> bool:
    return isinstance(getattr(package, name), ModuleType)
