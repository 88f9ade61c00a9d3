from __future__ import annotations

import pytest

from tests.protocols.remote_read.rig import Reader, ServerRig


@pytest.fixture
def rig() -> ServerRig:
    """A queue manager with a queue, and the interface on it."""
    made = ServerRig()
    made.create("orders")
    return made


@pytest.fixture
def reader(rig: ServerRig) -> Reader:
    return rig.reader()
