"""A small disk in memory."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

DISK = "size=64m"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, and a small one."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", DISK, "posthouse", tmp_path], check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)
