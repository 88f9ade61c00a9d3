"""The other end of a core, by hand."""

from __future__ import annotations

import itertools
from typing import Any

from posthouse.client.core import SessionCore
from posthouse.client.requests import (
    Ask,
    QueueHandle,
    ReadRequest,
    Request,
    SendRequest,
    TransactionHandle,
)
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.errors import QueueError
from posthouse.wire.frames import frames, payloads
from posthouse.wire.frames.frames import Delivered, Frame, Splitter

ORDERS = r".\private$\orders"


class Peer:
    """The other end: reads what the core sends and answers by hand."""

    def __init__(self, *, greet: bool = True, unanswered_max: int = 64, revision: int = 1) -> None:
        self.now = 0.0
        self.core = SessionCore(b"s" * 16, "test", lambda: self.now)
        self.unanswered_max = unanswered_max
        self.revision = revision
        self.handles = itertools.count(1000)
        if greet:
            self.connect()

    def connect(self) -> list[Frame]:
        """A new connection, welcomed; returns what came behind the greeting."""
        self.core.begin()
        (hello,) = self.heard()
        assert hello.kind == frames.HELLO
        self.answer(hello.request, self.welcome())
        return self.heard()

    def welcome(self) -> payloads.Welcome:
        limits = 1 << 26, 1024, 65536, 10000, self.unanswered_max
        return payloads.Welcome(self.revision, "posthouse", "ALPHA", b"g" * 16, *limits)

    def heard(self) -> list[Frame]:
        return Splitter().feed(b"".join(self.core.take_outgoing()))

    def answer(self, number: int, payload: payloads.Payload) -> None:
        self.core.receive(frames.encode(number, payload))

    def opened(self, frame: Frame, **about: Any) -> list[Frame]:
        """Answers an OPEN; returns what follows from that."""
        assert frame.kind == frames.OPEN
        destination = r"DIRECT=OS:ALPHA\private$\orders"
        opened = payloads.Opened(next(self.handles), destination, destination, False, **about)
        self.answer(frame.request, opened)
        return self.heard()

    def refuse(self, number: int, error: QueueError) -> None:
        self.answer(number, frames.refusal(error))

    # -- requests

    def ping(self) -> Request:
        request = Ask(payloads.Ping, frames.DONE)
        self.core.submit(request)
        return request

    def receive(
        self, handle: QueueHandle, timeout: float | None = None, **options: Any
    ) -> ReadRequest:
        request = ReadRequest(frames.RECEIVE, handle, timeout, 1, self.core.clock, **options)
        self.core.submit(request)
        return request

    def send(
        self, handle: QueueHandle, transaction: TransactionHandle | None = None
    ) -> SendRequest:
        request = SendRequest(handle, [b"packet"], 6, transaction)
        self.core.submit(request)
        return request


def receiving() -> QueueHandle:
    return QueueHandle(ORDERS, QueueAccessType.RECEIVE)


def delivered(lookup_id: int) -> Delivered:
    return Delivered(lookup_id, 0, 0, 0, 0, 0, 3, 0, 0, b"", b"packet")
