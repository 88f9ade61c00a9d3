"""Two queue managers that send messages to each other, and a client of each."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TypeVar

import posthouse
from posthouse.api.transfer import OutgoingJson
from posthouse.api.types import QueueJson
from posthouse.protocols.binary.settings import BinarySettings
from tests.client.serving import Serving, serving
from tests.engine.settings import engine_settings

T = TypeVar("T")
PATIENCE_S = 60.0
QUICK = BinarySettings(
    ack_wait_min_ms=100,
    ack_wait_ms=200,
    recoverable_ack_min_ms=20,
    recoverable_ack_max_ms=20,
    order_ack_ms=20,
    retry_connect_ms=600_000,
)


@dataclass
class Neighbours:
    """ALPHA sends, BETA receives; each test takes queues of its own."""

    here: Serving
    there: Serving
    near: posthouse.QueueManagerClient
    far: posthouse.QueueManagerClient

    def __post_init__(self) -> None:
        self._numbers = count(1)

    def path(self, what: str = "queue") -> str:
        """The path name of a queue that nobody has used."""
        return rf".\private$\{what}-{next(self._numbers)}"

    def target(
        self, *, transactional: bool = False, quota_kib: int | None = None
    ) -> posthouse.Queue:
        """A new queue of BETA."""
        return self.far.create_queue(self.path(), transactional=transactional, quota_kib=quota_kib)

    def name_of(self, queue: posthouse.Queue | str) -> str:
        """How ALPHA names a queue of BETA."""
        path = queue if isinstance(queue, str) else queue.name
        return rf"DIRECT=TCP:127.0.0.1:{self.there.binary_port}\{path[2:]}"

    def outgoing(self, name: str) -> tuple[QueueJson, OutgoingJson]:
        """What ALPHA says of an outgoing queue."""
        queue = self.near.queue(name).properties()
        assert queue.outgoing is not None
        return queue, queue.outgoing

    def until_delivered(self, name: str) -> None:
        """BETA has acknowledged everything."""
        until(lambda: not self.near.queue(name).properties().messages)


def until(condition: Callable[[], T]) -> T:
    """What a condition says as soon as it says anything but no."""
    end = monotonic() + PATIENCE_S
    while not (found := condition()):
        assert monotonic() < end, "it does not happen"
    return found


@contextmanager
def neighbours(*, send_insecure_nacks: bool = False) -> Iterator[Neighbours]:
    """Both for the length of a test."""
    homes = [Path(tempfile.mkdtemp(prefix="ph-")) for _ in range(2)]
    alpha, beta = (
        engine_settings(name, send_insecure_nacks=send_insecure_nacks) for name in ("ALPHA", "BETA")
    )
    with (
        serving(homes[0], binary=QUICK, engine=alpha) as here,
        serving(homes[1], binary=QUICK, engine=beta) as there,
        posthouse.connect(here.home) as near,
        posthouse.connect(there.home) as far,
    ):
        yield Neighbours(here, there, near, far)
    for home in homes:
        shutil.rmtree(home)
