"""Carries out NCP calls, and maps refusals of the engine to completion codes.

Most calls are one method of the engine, which their entry in `wire/ncp` names. The others have a
handler in `protocols/ncp/calls`.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from posthouse.engine.manager import QueueManager
from posthouse.model.completion_codes import (
    FAILURE,
    OUT_OF_DISK_SPACE,
    Q_IO_FAILURE,
    SERVER_OUT_OF_MEMORY,
)
from posthouse.model.errors import (
    InsufficientResources,
    MessageStorageFailed,
    QmsError,
    QueueError,
)
from posthouse.wire.ncp.calls import NcpCall

if TYPE_CHECKING:
    from posthouse.protocols.ncp.session import ServiceConnection

Handler = Callable[["ServiceConnection", QueueManager, Any], tuple[Any, ...] | bytes]
"""Runs a call on the engine: its answer as a record of the call's reply, or already as bytes."""

Handlers = dict[tuple[int, int | None], Handler]


def table(*pairs: tuple[NcpCall[Any, Any], Handler]) -> Handlers:
    """Handlers by the numbers of their calls."""
    return {call.key: handler for call, handler in pairs}


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


def completion_of(error: QueueError, call: NcpCall[Any, Any] | None) -> int:
    """The byte for a refusal; those that are not of job queues come from the store."""
    if isinstance(error, QmsError):
        return error.completion
    if isinstance(error, InsufficientResources):
        is_write = call is not None and call.subfunction is None
        return OUT_OF_DISK_SPACE if is_write else SERVER_OUT_OF_MEMORY
    return Q_IO_FAILURE if isinstance(error, MessageStorageFailed) else FAILURE
