"""An embedded queue manager, and stations on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import posthouse
from posthouse import qms
from posthouse.qms import FileServer


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[posthouse.QueueManagerClient]:
    with posthouse.open(tmp_path / "home", name="ALPHA") as manager:
        yield manager


@pytest.fixture
def server(qm: posthouse.QueueManagerClient) -> Iterator[FileServer]:
    """The supervisor's station."""
    with qms.on(qm) as station:
        yield station
