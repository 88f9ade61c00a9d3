"""Client sessions on a rig: no sockets, turns by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from posthouse.engine.ledger.records import Record
from posthouse.engine.manager import QueueManager
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.message import DeliveryGuarantee, Message, TxSequenceId
from posthouse.protocols.engine_calls import Call, Release
from posthouse.protocols.sessions.handles import SessionLimits
from posthouse.protocols.sessions.protocol import ClientSession
from posthouse.protocols.sessions.session import Api
from posthouse.runtime.driver import Driver
from posthouse.security.access import Caller
from posthouse.wire.frames import frames, payloads
from posthouse.wire.packet.message import deserialize, serialize
from tests.engine.rig import Rig

SEND, RECEIVE, PEEK, MOVE = (
    QueueAccessType.SEND,
    QueueAccessType.RECEIVE,
    QueueAccessType.PEEK,
    QueueAccessType.MOVE,
)
ORDERS = r".\private$\orders"
P = TypeVar("P", bound=payloads.Payload)


class TurnDesk:
    """A desk whose turns end when the test says so."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.turning = False
        self.decisions = 0

    @property
    def manager(self) -> QueueManager:
        return self.driver.manager

    def decide(self, call: Call, release: Release) -> None:
        if not self.turning:
            self.driver.begin_turn()
            self.turning = True
        self.decisions += 1
        self.driver.decide(call, release)

    def append(self) -> None:
        """Ends the turn; nothing is synced."""
        if self.turning:
            self.turning = False
            self.driver.end_turn()

    def settle(self) -> None:
        """Appends, syncs and lets out until nothing is left to do."""
        while True:
            self.append()
            self.driver.sync()
            if not self.driver.release() and not self.turning:
                return


class Client:
    """The other end of a session: requests by name, answers by number."""

    def __init__(
        self,
        desk: Any,
        caller: Caller | None = None,
        *,
        name: bytes = b"",
        greet: bool = True,
        limits: SessionLimits | None = None,
        api: Api | None = None,
        **options: Any,
    ) -> None:
        self.desk = desk
        self.writes: list[list[bytes]] = []
        self.closed = False
        self.pauses: list[bool] = []
        self.answers: dict[int, frames.Frame] = {}
        self.heard: Callable[[frames.Frame], None] = lambda frame: None
        self.requests = 0
        self._splitter = frames.Splitter()
        self.session = ClientSession(
            desk,
            caller or Caller.administrator(),
            "administer",
            self._written,
            api=api,
            limits=limits,
            close=self._close,
            pause=self.pauses.append,
            **options,
        )
        if greet:
            self.welcome = self.ask(payloads.Hello(session=name), payloads.Welcome)

    def _written(self, parts: list[bytes]) -> None:
        self.writes.append(parts)
        for frame in self._splitter.feed(b"".join(parts)):
            assert frame.request not in self.answers, "a request is answered once"
            self.answers[frame.request] = frame
            self.heard(frame)

    def _close(self) -> None:
        self.closed = True

    # -- asking

    def next_request(self) -> int:
        self.requests += 1
        return self.requests

    def put(self, payload: payloads.Payload) -> int:
        """A request on its way; returns its number."""
        request = self.next_request()
        self.session.receive(frames.encode(request, payload))
        return request

    def ask(self, payload: payloads.Payload, kind: type[P]) -> P:
        """A request and its answer."""
        value = self.answer(self.put(payload))
        assert isinstance(value, kind), value
        return value

    def done(self, payload: payloads.Payload) -> None:
        self.ask(payload, payloads.Done)

    def refused(self, payload: payloads.Payload) -> payloads.Refusal:
        return self.ask(payload, payloads.Refusal)

    def answer(self, request: int) -> Any:
        """The decoded answer to a request, once everything is settled."""
        self.desk.settle()
        frame = self.answers[request]
        return frames.decode(frame.kind, frame.payload)

    def waits(self, request: int) -> bool:
        self.desk.settle()
        return request not in self.answers

    # -- short forms

    def open(self, name: str = ORDERS, access: QueueAccessType = SEND) -> int:
        return self.ask(payloads.Open(name, access), payloads.Opened).queue

    def begin(self) -> int:
        return self.ask(payloads.Begin(), payloads.Begun).transaction

    def put_send(
        self, queue: int, packets: Sequence[bytes], *, tx: int = 0, request_id: int = 0
    ) -> int:
        request = self.next_request()
        self.session.receive(frames.encode_send(request, queue, tx, request_id, packets))
        return request

    def send(
        self, queue: int, packets: Sequence[bytes], *, tx: int = 0, request_id: int = 0
    ) -> Any:
        return self.answer(self.put_send(queue, packets, tx=tx, request_id=request_id))

    def put_read(
        self,
        queue: int,
        *,
        kind: int = frames.RECEIVE,
        tx: int = 0,
        cursor: int = 0,
        timeout_ms: int = 0,
        count: int = 1,
        flags: int = 0,
    ) -> int:
        request = self.next_request()
        read = frames.Read(queue, tx, cursor, timeout_ms, count, flags)
        self.session.receive(frames.encode_read(kind, request, read))
        return request

    def read(self, queue: int, **options: Any) -> Any:
        return self.answer(self.put_read(queue, **options))

    def bodies(self, queue: int, **options: Any) -> list[bytes]:
        return [deserialize(m.packet).body for m in self.read(queue, **options)]

    def put_end(
        self,
        queue: int,
        lookup_ids: Sequence[int],
        *,
        request_id: int = 0,
        positive: bool = True,
        message_class: int = 0x4000,
    ) -> int:
        request = self.next_request()
        self.session.receive(
            frames.encode_end(
                request,
                queue,
                request_id,
                lookup_ids,
                positive=positive,
                message_class=message_class,
            )
        )
        return request

    def end(self, queue: int, lookup_ids: Sequence[int], **options: Any) -> Any:
        return self.answer(self.put_end(queue, lookup_ids, **options))


class SessionRig(Rig):
    """A queue manager with a desk for sessions, and the queues that most tests use."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.desk = TurnDesk(self.driver)
        self.create("orders")
        self.create("ledger", transactional=True)

    def restart(self, left: Sequence[Record] | None = None) -> None:
        super().restart(left)
        self.desk = TurnDesk(self.driver)

    def client(self, caller: Caller | None = None, **options: Any) -> Client:
        return Client(self.desk, caller, **options)


def packet(
    body: bytes = b"",
    *,
    to: str = "orders",
    recoverable: bool = True,
    transactional: bool = False,
    **attributes: Any,
) -> bytes:
    """A packet as a client builds it."""
    name = to if "=" in to else f"DIRECT=OS:ALPHA\\private$\\{to}"
    message = Message(body=body, destination_queue_format_name=name, **attributes)
    if recoverable or transactional:
        message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
    if transactional:
        message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
    return serialize(message)


def packets(*bodies: bytes, **attributes: Any) -> list[bytes]:
    """One packet for each body."""
    return [packet(body, **attributes) for body in bodies]
