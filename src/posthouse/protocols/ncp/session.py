"""The service connections of NCP clients, over any transport (qms-facts 1.4), and all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.manager import QueueManager
from posthouse.model.completion_codes import (
    BAD_LENGTH,
    FAILURE,
    OUT_OF_DISK_SPACE,
    Q_IO_FAILURE,
    SERVER_OUT_OF_MEMORY,
    UNSUPPORTED,
)
from posthouse.model.errors import (
    InsufficientResources,
    MessageStorageFailed,
    QmsError,
    QueueError,
    Truncated,
)
from posthouse.net.connections import Admission, Connections, Refused
from posthouse.protocols.engine_calls import Answer, Desk
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.protocols.timers import Timers
from posthouse.wire.ncp.calls import NOTHING, NcpCall
from posthouse.wire.ncp.framing import (
    BAD_CONNECTION,
    FUNCTION_GROUPS,
    REPLY,
    Reply,
    Request,
    read_subfunction,
    write_reply,
)
from posthouse.wire.ncp.functions import CALLS

LABEL: Final = "ncp"
UNKNOWN_CALL: Final = "unknown or malformed"
Send = Callable[[bytes], None]
Handler = Callable[["ServiceConnection", QueueManager, Any], tuple[Any, ...] | bytes]
"""Runs a call on the engine: its answer as a record of the call's reply, or already as bytes."""

Handlers = dict[tuple[int, int | None], Handler]


def table(*pairs: tuple[NcpCall[Any, Any], Handler]) -> Handlers:
    """Handlers by the numbers of their calls."""
    return {call.key: handler for call, handler in pairs}


class NcpFigures(NamedTuple):
    """The figures of the endpoint, for the metrics."""

    connections: int
    logged_in: int
    calls: Mapping[str, int]  # by name
    completions: Mapping[str, int]  # by code
    repeated: int
    working: int
    polled: int
    refused: Mapping[str, int]  # by reason


class NcpEndpoint:
    """All service connections, and what they count: the part of `NcpProtocol` that they see."""

    def __init__(
        self,
        desk: Desk,
        settings: NcpSettings,
        server_name: str,
        handlers: Handlers,
        now: Callable[[], int],
        wake: Callable[[int], None],
        connections: Connections | None,
    ) -> None:
        self.desk = desk
        self.settings = settings
        self.handlers = handlers
        self.server_name = server_name
        self.now = now
        self.timers = Timers(wake)
        self.limits = connections or Connections()
        self.services: dict[int, ServiceConnection] = {}
        self.peak = 0
        self.repeated = 0  # replies sent again from memory
        self.working = 0  # requests that were asked again while they ran
        self.polled = 0  # questions of the watchdog
        self._calls: Counter[str] = Counter()
        self._completions: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()

    def admit(self, address: str) -> Admission | None:
        """Counts a connection of that address in, or refuses it."""
        try:
            return self.limits.admit(address)
        except Refused as error:
            self.refused(str(error))
            return None

    # -- what happened

    def begun(self, service: ServiceConnection) -> None:
        """A service connection has its number."""
        self.services[service.number] = service
        self.peak = max(self.peak, len(self.services))

    def over(self, service: ServiceConnection) -> None:
        """It has ended."""
        if self.services.get(service.number) is service:
            del self.services[service.number]

    def completed(self, call: NcpCall[Any, Any] | None, code: int) -> None:
        """A request is answered."""
        self._calls[UNKNOWN_CALL if call is None else call.name] += 1
        self._completions[f"0x{code:02X}"] += 1

    def malformed(self, cause: str) -> None:
        """Bytes that are not NCP."""
        self.refused("malformed")

    def refused(self, reason: str) -> None:
        """A connection or datagram that is turned away."""
        self._refused[reason] += 1

    @property
    def figures(self) -> NcpFigures:
        """For the metrics."""
        return NcpFigures(
            len(self.services),
            sum(service.is_logged_in for service in self.services.values()),
            dict(self._calls),
            dict(self._completions),
            self.repeated,
            self.working,
            self.polled,
            dict(self._refused),
        )


class ServiceConnection:
    """A connection number with its station. Answers go out when what they report is durable."""

    def __init__(self, protocol: NcpEndpoint, address: str, *, datagrams: bool) -> None:
        self.protocol = protocol
        self.settings = protocol.settings
        self.address = address
        self.datagrams = datagrams
        self.ended = False
        self.station: Station | None = None

    @property
    def number(self) -> int:
        """The connection number; 0: there is none yet."""
        return 0 if self.station is None else self.station.number

    def is_of(self, connection: int) -> bool:
        """Whether a request on this connection number is for it: not where it got none."""
        return self.station is not None and not self.ended and self.number == connection

    @property
    def of_station(self) -> Station:
        """The station, for calls: they come only after one was given."""
        assert self.station is not None
        return self.station

    @property
    def is_logged_in(self) -> bool:
        """Whether somebody has logged in on it."""
        return self.station is not None and self.station.object_id != 0

    @property
    def buffer_size_max(self) -> int:
        """What the negotiation accepts at most, and a read on UDP."""
        of_datagrams = self.settings.datagram_buffer_max
        return of_datagrams if self.datagrams else self.settings.buffer_size_max

    # -- from creation to the end

    def create(self, request: Request, send: Send) -> None:
        """0x1111: the reply carries the new connection number."""

        def begin(manager: QueueManager) -> None:
            self.station = manager.stations.begin(LABEL, self.address, unproved=True)
            self.protocol.begun(self)

        def answered(answer: Answer) -> None:
            code = 0 if answer.error is None else completion_of(answer.error, None)
            send(_reply(request, self.number, code))

        self.protocol.desk.decide(begin, answered)

    def destroy(self, request: Request, send: Send) -> None:
        """0x5555: the same as a lost connection, with an answer."""
        self.protocol.desk.decide(
            self._end, lambda answer: send(_reply(request, request.connection, 0))
        )

    def end(self) -> None:
        """Logout, and the clean-up of qms-facts 7.3."""
        if not self.ended:
            self.protocol.desk.decide(self._end, lambda answer: None)

    def _end(self, manager: QueueManager) -> None:
        if self.ended:
            return
        self.ended = True
        self.protocol.over(self)
        if self.station is not None:
            manager.stations.end(self.station)

    # -- requests

    def answer(self, request: Request, send: Send) -> None:
        """0x2222: runs a call and sends its reply once that is durable."""
        call, handler, asked = self._look_up(request)

        def decide(manager: QueueManager) -> bytes:
            self.of_station.task = request.task
            value = handler(self, manager, asked)
            if isinstance(value, bytes):
                return value
            return call.reply.write(value) if call is not None else b""

        def answered(answer: Answer) -> None:
            code = 0 if answer.error is None else completion_of(answer.error, call)
            self.protocol.completed(call, code)
            data = answer.value if isinstance(answer.value, bytes) else b""
            send(_reply(request, request.connection, code, data))

        self.protocol.desk.decide(decide, answered)

    def _look_up(self, request: Request) -> tuple[NcpCall[Any, Any] | None, Handler, Any]:
        """The call with what it asks; what is unknown or too short is a call that refuses."""
        try:
            if request.function in FUNCTION_GROUPS:
                subfunction, data = read_subfunction(request.data)
                call = CALLS.get((request.function, subfunction))
            else:
                call, data = CALLS.get((request.function, None)), request.data
            if call is None:
                return None, _unsupported, NOTHING
            return call, self.protocol.handlers[call.key], call.request.read(data)
        except Truncated:
            return None, _bad_length, NOTHING


def refuse_connection(protocol: NcpEndpoint, request: Request, send: Send) -> None:
    """Who asks on a connection that is not theirs, or is none (qms-facts 1.1)."""
    reply = Reply(
        REPLY, request.sequence, request.connection, request.task, FAILURE, BAD_CONNECTION
    )
    protocol.desk.decide(lambda manager: None, lambda answer: send(write_reply(reply)))


def _reply(request: Request, connection: int, code: int, data: bytes = b"") -> bytes:
    return write_reply(Reply(REPLY, request.sequence, connection, request.task, code, 0, data))


def _unsupported(connection: ServiceConnection, manager: QueueManager, asked: object) -> bytes:
    raise QmsError(UNSUPPORTED, "this call is not served")


def _bad_length(connection: ServiceConnection, manager: QueueManager, asked: object) -> bytes:
    raise QmsError(BAD_LENGTH, "the length of the request is wrong, or too short for its call")


def completion_of(error: QueueError, call: NcpCall[Any, Any] | None) -> int:
    """The byte for a refusal; those that are not of job queues come from the store."""
    if isinstance(error, QmsError):
        return error.completion
    if isinstance(error, InsufficientResources):
        is_write = call is not None and call.subfunction is None
        return OUT_OF_DISK_SPACE if is_write else SERVER_OUT_OF_MEMORY
    return Q_IO_FAILURE if isinstance(error, MessageStorageFailed) else FAILURE
