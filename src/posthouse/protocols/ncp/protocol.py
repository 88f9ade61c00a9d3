"""NCP of one queue manager: all service connections, and their metrics.

Pure: bytes and the time come in, bytes and deadlines go out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from posthouse.net.connections import Admission, Connections, Refused
from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.ncp.calls.jobs import JOB_HANDLERS
from posthouse.protocols.ncp.calls.session import SESSION_HANDLERS
from posthouse.protocols.ncp.datagrams import Datagrams, SendTo
from posthouse.protocols.ncp.handler import Handlers, by_engine
from posthouse.protocols.ncp.login import LOGIN_HANDLERS
from posthouse.protocols.ncp.session import ServiceConnection
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.protocols.ncp.streams import NcpTransport, StreamSession
from posthouse.protocols.timers import Timers
from posthouse.wire.ncp.calls import NcpCall
from posthouse.wire.ncp.functions import CALLS

HANDLERS: Final[Handlers] = {
    **{key: by_engine(call) for key, call in CALLS.items() if call.engine is not None},
    **SESSION_HANDLERS,
    **LOGIN_HANDLERS,
    **JOB_HANDLERS,
}
assert HANDLERS.keys() == CALLS.keys()

UNKNOWN_CALL: Final = "unknown or malformed"


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


class NcpProtocol:
    """Queue services and bindery for NetWare clients.

    `now` is the monotonic clock in milliseconds; `wake` is told when `tick` has something to do.
    """

    handlers: Final = HANDLERS

    def __init__(
        self,
        desk: Desk,
        settings: NcpSettings,
        server_name: str,
        now: Callable[[], int],
        wake: Callable[[int], None] = lambda when_ms: None,
        connections: Connections | None = None,
    ) -> None:
        self.desk = desk
        self.settings = settings
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

    # -- transports

    def accept(self, transport: NcpTransport, address: str) -> StreamSession:
        """A TCP connection."""
        return StreamSession(self, transport, address)

    def datagrams(self, send: SendTo) -> Datagrams:
        """A UDP port."""
        return Datagrams(self, send)

    def admit(self, address: str) -> Admission | None:
        """Counts a connection of that address in, or refuses it."""
        try:
            return self.limits.admit(address)
        except Refused as error:
            self.refused(str(error))
            return None

    def tick(self) -> None:
        """Timers that are due."""
        self.timers.run(self.now())

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
