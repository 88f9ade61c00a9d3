"""NCP of one queue manager: its calls, and the transports that they come by.

Most calls are one method of the engine, which their entry in `wire/ncp` names. The others have a
handler in `calls` or `login.py`.

Pure: bytes and the time come in, bytes and deadlines go out.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from posthouse.engine.manager import QueueManager
from posthouse.net.connections import Connections
from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.ncp.calls.jobs import JOB_HANDLERS
from posthouse.protocols.ncp.calls.session import SESSION_HANDLERS
from posthouse.protocols.ncp.datagrams import Datagrams, SendTo
from posthouse.protocols.ncp.login import LOGIN_HANDLERS
from posthouse.protocols.ncp.session import Handler, Handlers, NcpEndpoint, ServiceConnection
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.protocols.ncp.streams import NcpTransport, StreamSession
from posthouse.wire.ncp.calls import NcpCall
from posthouse.wire.ncp.functions import CALLS


def by_engine(call: NcpCall[Any, Any]) -> Handler:
    """The handler of a call whose entry names a method of the engine.

    `tests/protocols/job_queue/test_ncp_table.py` holds the entries against the signatures.
    """
    assert call.engine is not None, call.name
    method_of = attrgetter(f"{call.engine.part}.{call.engine.method}")
    arguments = call.engine.arguments

    def handle(connection: ServiceConnection, manager: QueueManager, asked: Any) -> Any:
        values = [getattr(asked, field) for field in arguments]
        return call.answer_with(method_of(manager)(connection.of_station, *values))

    return handle


HANDLERS: Final[Handlers] = {
    **{key: by_engine(call) for key, call in CALLS.items() if call.engine is not None},
    **SESSION_HANDLERS,
    **LOGIN_HANDLERS,
    **JOB_HANDLERS,
}
assert HANDLERS.keys() == CALLS.keys()


class NcpProtocol(NcpEndpoint):
    """Queue services and bindery for NetWare clients.

    `now` is the monotonic clock in milliseconds; `wake` is told when `tick` has something to do.
    """

    def __init__(
        self,
        desk: Desk,
        settings: NcpSettings,
        server_name: str,
        now: Callable[[], int],
        wake: Callable[[int], None] = lambda when_ms: None,
        connections: Connections | None = None,
    ) -> None:
        super().__init__(desk, settings, server_name, HANDLERS, now, wake, connections)

    def accept(self, transport: NcpTransport, address: str) -> StreamSession:
        """A TCP connection."""
        return StreamSession(self, transport, address)

    def datagrams(self, send: SendTo) -> Datagrams:
        """A UDP port."""
        return Datagrams(self, send)

    def tick(self) -> None:
        """Timers that are due."""
        self.timers.run(self.now())
