"""The state of a remote reader: open queues, and reads that are under way (3.2.1).

Numbers are those of [MS-MQRR] 3.1.4.
"""

from __future__ import annotations

import time
import uuid
from typing import Any, Final, NamedTuple

from posthouse.client.connection_log import log_attempt, log_lost
from posthouse.client.errors import ServerUnreachable
from posthouse.client.message import Message
from posthouse.client.rpc_link import LinkLost, PendingCall, RpcLink
from posthouse.protocols.remote_read.stubs import METHODS

# dwAccess and dwShareMode (3.1.4.2, 3.1.4.11)
RECEIVE_ACCESS: Final = 0x01
MOVE_ACCESS: Final = 0x04
PEEK_ACCESS: Final = 0x20
DENY_NONE: Final = 0
DENY_SHARE: Final = 1

# ulAction (3.1.4.7)
RECEIVE: Final = 0x00000000
PEEK_CURRENT: Final = 0x80000000
PEEK_NEXT: Final = 0x80000001
LOOKUP_PEEK: Final = {"current": 0x40000010, "next": 0x40000011, "previous": 0x40000012}
LOOKUP_RECEIVE: Final = {"current": 0x40000020, "next": 0x40000021, "previous": 0x40000022}
_TAKING: Final = frozenset((RECEIVE, *LOOKUP_RECEIVE.values()))

INFINITE: Final = 0xFFFFFFFF
RECEIVE_REJECTED: Final = 0xC004
VERSION: Final = (6, 1, 0)  # as every Windows since 2009 sends it; servers ignore it
GRACE_S: Final = 10.0  # how much longer an answer may take than the requested wait
PAUSE_FIRST_S: Final = 0.02
PAUSE_MAX_S: Final = 1.0
FRUITLESS_MAX: Final = 5  # connections in a row that broke over the same question
DOUBTS_MAX: Final = 10_000


class ClientIdentity(NamedTuple):
    """What a client sends of itself when it opens a queue (3.1.4.2, 3.1.4.11)."""

    guid: bytes  # pClientId
    routing_server: bool = False
    workgroup: bool = True  # False: a member of a directory that several machines share


def identity_of_a_program() -> ClientIdentity:
    """A program that works for itself: not a queue manager, not a member of a directory."""
    return ClientIdentity(uuid.uuid4().bytes_le)


class Want(NamedTuple):
    """Which message is read, and how."""

    action: int = RECEIVE
    lookup_id: int = 0
    cursor: int = 0
    body_max: int = INFINITE
    transaction: bytes | None = None  # XACTUOW
    on: RemoteOpenQueue | None = None  # where the cursor is

    @property
    def takes(self) -> bool:
        """Whether the message leaves the queue."""
        return self.action in _TAKING

    @property
    def repeatable(self) -> bool:
        """Cursors and transactions do not outlive their connection."""
        return self.on is None and self.transaction is None


class StartedCall(NamedTuple):
    """A Start method under way."""

    pending: PendingCall
    cursor: int


class RemoteOpenQueue:
    """A queue as it is open on one link, 3.2.1."""

    __slots__ = ("cursors", "handle", "link", "move_context", "ndr64", "waiting")

    def __init__(self, link: RpcLink, handle: bytes, move_context: int) -> None:
        self.link = link
        self.handle = handle
        self.move_context = move_context
        self.ndr64 = link.connection.ndr64
        self.cursors: set[int] = set()
        self.waiting: dict[int, StartedCall] = {}  # by dwRequestId

    def submit(self, opnum: int, request: Any) -> PendingCall:
        """A call, to be sent with the next flush."""
        return self.link.submit(opnum, METHODS[opnum].request.encode(request, ndr64=self.ndr64))


class LockedMessage(NamedTuple):
    """A message that is locked for us until its end."""

    message: Message
    opened: RemoteOpenQueue
    request_id: int


class Outage:
    """How long another connection is tried for."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._since: float | None = None
        self._breaks = 0
        self._pause_s = PAUSE_FIRST_S

    def go_on(self, error: LinkLost | ServerUnreachable) -> None:
        """Returns when it is time for another attempt; raises the error when there is none."""
        now = time.monotonic()
        if isinstance(error, LinkLost):
            if self._since is None or now - self._since > self._limit_s:
                self._since, self._breaks, self._pause_s = now, 0, PAUSE_FIRST_S  # another one
            self._breaks += 1
            if self._breaks == 1:
                log_lost("the other computer", error, self._limit_s)
                return
        if self._since is None or self._breaks > FRUITLESS_MAX:
            raise error
        left_s = self._since + self._limit_s - now
        if left_s <= 0:
            raise error
        log_attempt("the other computer", error)
        time.sleep(min(self._pause_s, left_s))
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
