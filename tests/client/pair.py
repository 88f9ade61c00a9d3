"""A client's core and a server's session back to back: no sockets, connections cut on purpose."""

from __future__ import annotations

from typing import TypeVar

from posthouse.client.core import SessionCore
from posthouse.client.operations import Operation
from posthouse.client.requests import QueueHandle, Request
from posthouse.model.enumerations import QueueAccessType
from posthouse.protocols.sessions.protocol import ClientSession
from posthouse.security.access import Caller
from tests.protocols.admin.session_rig import SessionRig

T = TypeVar("T")
NAME = b"the session name"
ORDERS = r".\private$\orders"
LEDGER = r".\private$\ledger"

# What may happen to one exchange of frames.
CUTS = ("before", "inside", "after", "crash")


class Pair:
    """One client with one queue manager; `cuts` says which exchange of frames goes wrong, how."""

    def __init__(self, cuts: dict[int, str] | None = None) -> None:
        self.rig = SessionRig()
        self.core = SessionCore(NAME, "pair", lambda: self.rig.clock.now_ms / 1000)
        self.cuts = cuts or {}
        self.exchanges = 0
        self.connections = 0
        self.connect()

    def connect(self) -> None:
        self.connections += 1
        self.answers: list[bytes] = []
        self.session = ClientSession(
            self.rig.desk, Caller.administrator(), "administer", self._deliver
        )
        self.core.begin()
        self.exchange()

    def _deliver(self, frames: list[bytes]) -> None:
        self.answers += frames

    def exchange(self) -> None:
        """What the client has goes to the server, and what that answers comes back."""
        data = b"".join(self.core.take_outgoing())
        if not data:
            return
        self.exchanges += 1
        cut = self.cuts.get(self.exchanges)
        if cut == "before":
            self.break_off()
            return
        self.session.receive(data[: len(data) // 2] if cut == "inside" else data)
        self.rig.desk.settle()
        if cut is None:
            self.hear()
        elif cut == "crash":
            self.core.lost()
            self.rig.restart()
            self.connect()
        else:
            self.break_off()

    def hear(self) -> None:
        """Answers that are there reach the client."""
        answers, self.answers = self.answers, []
        for frame in answers:
            self.core.receive(frame)

    def break_off(self) -> None:
        """Both sides lose the connection; the client makes another one."""
        self.core.lost()
        self.session.lost()
        self.rig.desk.settle()
        self.connect()

    # -- operations

    def run(self, operation: Operation[T]) -> T:
        """Drives an operation to its end; time passes where nothing else happens."""
        try:
            while True:
                request = next(operation)
                if request is not None:
                    self.finish(request)
        except StopIteration as end:
            self.exchange()
            value: T = end.value
            return value

    def finish(self, request: Request) -> None:
        for _ in range(100):
            if request.done:
                return
            before = self.exchanges
            self.exchange()
            if self.exchanges == before:
                self.rig.advance(1)
                self.rig.desk.settle()
                self.hear()
        raise AssertionError("a request is never done")

    def handle(self, name: str, access: QueueAccessType) -> QueueHandle:
        return QueueHandle(name, access)

    def bodies(self, name: str) -> list[bytes]:
        return self.rig.bodies(name.rpartition("\\")[2])
