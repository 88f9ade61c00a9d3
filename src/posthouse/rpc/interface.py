"""Interfaces of a server, and a call on one of them from its request to its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from posthouse.rpc.association import Association
from posthouse.rpc.security import Identity, Level
from posthouse.rpc.syntax import SyntaxId

BACKLOG_MAX: Final = 1 << 20
"""Above this many bytes that a client has not taken a method does well to wait until it has."""


class Call(ABC):
    """A call that was received as a whole. A method answers it once: at once, or when it can."""

    __slots__ = ("address", "association", "identity", "level", "ndr64", "on_gone", "opnum", "stub")

    def __init__(
        self,
        association: Association,
        address: str,
        identity: Identity | None,
        level: Level,
        opnum: int,
        stub: bytes,
        *,
        ndr64: bool,
    ) -> None:
        self.association = association
        self.address = address
        self.identity = identity  # None: the client has not authenticated
        self.level = level
        self.opnum = opnum
        # Little-endian values: the runtime refuses others. Empty once the method has returned.
        self.stub = stub
        self.ndr64 = ndr64
        # Called, while the method has not answered, on a cancel, an orphaned call or the end of the
        # connection. The method still answers (an answer without a waiting client is dropped).
        self.on_gone: Callable[[], None] | None = None

    @abstractmethod
    def answer(self, stub: bytes) -> None:
        """The response; dropped where the client is gone or has had one."""

    @abstractmethod
    def fault(self, status: int) -> None:
        """The method has run and throws."""

    def backlog(self) -> int:
        """Bytes answered on the call's connection that its client has not taken yet."""
        return 0

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Calls back once, when the backlog is at most `BACKLOG_MAX` or the client is gone."""
        callback()


Serve = Callable[[Call], None]


class Interface(NamedTuple):
    """What a server offers under one name."""

    syntax: SyntaxId
    name: str
    methods: Mapping[int, Serve]  # an opnum that is not here is out of range
    minimum_level: Level = Level.PRIVACY
