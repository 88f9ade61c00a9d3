from __future__ import annotations

import pytest

from tests.protocols.job_queue.rig import JOB_SERVER, NcpRig
from tests.protocols.job_queue.walk import Walk


@pytest.fixture
def rig() -> NcpRig:
    """A queue manager with NCP on it."""
    return NcpRig()


@pytest.fixture
def walk(rig: NcpRig) -> Walk:
    """A queue with a user, an operator and a server, each on a connection of its own."""
    for name in ("ALICE", "OSCAR", "MALLORY"):
        rig.user(name)
    rig.user("SERVER", JOB_SERVER)
    queue = rig.queue(users="ALICE", operators="OSCAR", servers=f"SERVER/{JOB_SERVER}")
    return Walk(rig, queue)
