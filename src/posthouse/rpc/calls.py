"""One call in the server, from its dispatch to its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from posthouse.rpc import pdu
from posthouse.rpc.association import Association
from posthouse.rpc.fragments import cut
from posthouse.rpc.interface import Call
from posthouse.rpc.security import Identity, Level
from posthouse.rpc.security_contexts import Login


class Counts:
    """What has happened on all connections of a server."""

    def __init__(self) -> None:
        self.binds = 0
        self.calls = 0
        self.waiting = 0  # calls that are not answered
        self.waiting_of: Counter[str] = Counter()  # by where their clients are
        self.faults: Counter[int] = Counter()  # by status
        self.naks: Counter[int] = Counter()  # by reason
        self.logins_refused = 0
        self.violations = 0
        self.bugs = 0


class Answers(Protocol):
    """The connection that a call has come on, which its answer leaves on."""

    address: str

    @property
    def backlog(self) -> int:
        """Bytes answered that the client has not taken yet."""
        ...

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Calls back once: when little is left of the backlog, or the connection is gone."""
        ...

    def answer(self, call: ServerCall, stub: bytes) -> None:
        """Sends a response, unless the client is gone or has had one."""
        ...

    def throw(self, call: ServerCall, status: int) -> None:
        """Sends a fault."""
        ...


class ServerCall(Call):
    """A call on a connection. Made for every call: no more is done here than has to be."""

    __slots__ = ("_connection", "call_id", "context_id", "is_protected", "login")

    def __init__(
        self,
        connection: Answers,
        association: Association,
        identity: Identity | None,
        level: Level,
        opnum: int,
        stub: bytes,
        ndr64: bool,
        call_id: int,
        context_id: int,
        login: Login | None,
    ) -> None:
        self.association = association
        self.address = connection.address
        self.identity = identity
        self.level = level
        self.opnum = opnum
        self.stub = stub
        self.ndr64 = ndr64
        self.on_gone = None
        self._connection = connection
        self.call_id = call_id
        self.context_id = context_id
        self.login = login
        self.is_protected = login is not None and level > 2  # CONNECT protects nothing

    def answer(self, stub: bytes) -> None:
        """The response; dropped where the client is gone or has had one."""
        self._connection.answer(self, stub)

    def fault(self, status: int) -> None:
        """The method has run and throws."""
        self._connection.throw(self, status)

    def backlog(self) -> int:
        """Bytes answered on the call's connection that its client has not taken yet."""
        return self._connection.backlog

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Calls back once, when the client has taken most of that, or is gone."""
        self._connection.when_drained(callback)


def response(call: ServerCall, stub: bytes, frag_length: int) -> list[bytes]:
    """The PDUs of an answer, none larger than the client takes."""
    protection = call.login.protection if call.login is not None and call.is_protected else None
    if protection is None:
        pieces = cut(stub, (frag_length - pdu.CALL_HEADER_SIZE) & ~7)
    else:
        pieces = cut(stub, protection.room(frag_length))
    pdus, left, last = [], len(stub), len(pieces) - 1
    for nth, piece in enumerate(pieces):
        flags = (0 if nth else pdu.FIRST_FRAG) | (pdu.LAST_FRAG if nth == last else 0)
        head = pdu.pack_response(call.context_id, b"", alloc_hint=left)
        if protection is None:
            pdus.append(pdu.pack(pdu.RESPONSE, flags, call.call_id, head + piece))
        else:
            pdus.append(protection.pack(pdu.RESPONSE, flags, call.call_id, head, piece))
        left -= len(piece)
    return pdus
