"""A computer with one queue that is read from afar: it does as a test says, and takes notes.

Behind its socket is the runtime of the real server; its methods are the simplest that could work,
and each of them can be made to fail, to wait or to break the connection.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

import posthouse
from posthouse.client.packets import Options, PacketMaker
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    REMOTE_READ,
    Ack,
    ClosedQueue,
    CreatedCursor,
    OpenedQueueForMove,
    OpenQueueResponse,
    Opnum,
    Received,
    Section,
    ServerPort,
    Status,
    not_received,
)
from posthouse.rpc import ept
from posthouse.rpc.association import AssociationGroups
from posthouse.rpc.connection import ServerConnection
from posthouse.rpc.endpoint_mapper import EndpointMapper, Entry
from posthouse.rpc.interface import Call, Interface
from posthouse.rpc.security import Level
from posthouse.rpc.settings import RpcSettings
from posthouse.wire.packet.remote_read import pack_trailers, read_packet

IO_TIMEOUT = 0xC00E001B
CANCELLED = 0xC00E0008
NOT_FOUND = 0xC00E0088
RECEIVE, PEEK_CURRENT, PEEK_NEXT = 0, 0x80000000, 0x80000001
QUEUE = r"DIRECT=OS:far\private$\orders"
MAKER = PacketMaker(QUEUE, "far")


def packet(body: bytes, **how: Any) -> bytes:
    """A UserMessage packet."""
    return MAKER.packet(body, Options(**how), False)


class Break(Exception):
    """The connection breaks instead of an answer."""


Method = Callable[[Any, Call], Any]


class Peer:
    """The computer."""

    def __init__(self, *bodies: bytes, interfaces: bool = True) -> None:
        self.calls: list[tuple[int, Any]] = []
        self.messages: dict[int, bytes] = {}  # packets by lookup id, in queue order
        self.locked: dict[tuple[bytes, int], int] = {}  # lookup ids by handle and request id
        self.handles: set[bytes] = set()
        self.cursors: dict[int, int] = {}  # the lookup id that each stands on
        self.waiting: dict[tuple[bytes, int], tuple[Any, Call]] = {}
        self.instead: dict[int, Method] = {}  # what a method does instead, by opnum
        self.before: dict[int, Method] = {}  # what happens before it does what it does
        self.connections = 0
        self._lookup_ids = iter(range(100, 1 << 20))
        self._numbers = iter(range(1, 1 << 20))
        self._changed = threading.Condition()
        self._groups = AssociationGroups(os.urandom, 1000)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.entries = [Entry(REMOTE_READ, self.port)]
        methods = {opnum: self._method(opnum) for opnum in METHODS}
        self._interfaces = [EndpointMapper(lambda: self.entries).interface]
        if interfaces:
            self._interfaces.append(Interface(REMOTE_READ, "fake", methods, Level.NONE))
        self._open: set[socket.socket] = set()
        for body in bodies:
            self.put(packet(body))
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    # -- what tests do

    def put(self, data: bytes, *, lookup_id: int | None = None) -> int:
        """One more message; whoever waits first gets it."""
        with self._changed:
            lookup_id = next(self._lookup_ids) if lookup_id is None else lookup_id
            self.messages[lookup_id] = data
            for key, (request, call) in list(self.waiting.items()):
                found = self._next(request)
                if found is not None:
                    del self.waiting[key]
                    self._answer(request, call, found)
                    break
            return lookup_id

    def asked(self, opnum: int) -> list[Any]:
        """The requests of a method so far."""
        with self._changed:
            return [request for number, request in self.calls if number == opnum]

    def await_calls(self, opnum: int, count: int = 1) -> None:
        """Until a method was called so often."""
        with self._changed:
            met = self._changed.wait_for(
                lambda: sum(number == opnum for number, _ in self.calls) >= count, 20
            )
            assert met, [number for number, _ in self.calls]

    def await_waiting(self, count: int) -> None:
        """Until this many reads wait."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.waiting) >= count, 20)

    def cut(self) -> None:
        """All connections break."""
        with self._changed:
            connections = set(self._open)
            for connection in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            assert self._changed.wait_for(lambda: not self._open & connections, 20)

    @property
    def opnums(self) -> list[int]:
        """What was called, in order."""
        with self._changed:
            return [number for number, _ in self.calls]

    @property
    def bodies(self) -> list[bytes]:
        """What is in the queue, locked or not."""
        with self._changed:
            return [read_packet(data).message[-4:] for data in self.messages.values()]

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self._accepting.join(20)
        self._listener.close()
        self.cut()

    # -- the network

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with self._changed:
                    self._open.add(connection)
                    self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        def send(parts: list[bytes]) -> None:
            with suppress(OSError):
                connection.sendall(b"".join(parts))

        def close() -> None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

        server = ServerConnection(
            self._interfaces, self._groups, None, RpcSettings(), "127.0.0.1", send, close,
            bug=lambda error: close(),
        )  # fmt: skip
        with suppress(OSError):
            while data := connection.recv(1 << 16):
                with self._changed:
                    server.receive(data)
                    self._changed.notify_all()
        with self._changed:
            server.lost()
            self._open.discard(connection)
            connection.close()
            self._changed.notify_all()

    # -- methods

    def _method(self, opnum: int) -> Callable[[Call], None]:
        own: Method = getattr(self, f"_{Opnum(opnum).name.lower()}")

        def serve(call: Call) -> None:
            request = METHODS[opnum].request.decode(call.stub, ndr64=call.ndr64)
            self.calls.append((opnum, request))
            try:
                if opnum in self.before:
                    self.before[opnum](request, call)
                response = self.instead.get(opnum, own)(request, call)
            except Break:
                self._break(call)
                return
            if isinstance(response, int):
                response = not_received(response) if opnum in (7, 13) else Status(response)
            if response is not None:
                call.answer(METHODS[opnum].response.encode(response, ndr64=call.ndr64))

        return serve

    def _break(self, call: Call) -> None:
        """All of them: a test has one."""
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _get_server_port(self, request: Any, call: Call) -> Any:
        return ServerPort(self.port)

    def _open_queue(self, request: Any, call: Call) -> Any:
        handle = bytes(4) + next(self._numbers).to_bytes(16, "little")
        self.handles.add(handle)
        call.association.group.open(handle, lambda: self._run_down(handle))
        return OpenQueueResponse(handle)

    def _open_queue_for_move(self, request: Any, call: Call) -> Any:
        return OpenedQueueForMove(0x1234_5678_9ABC, self._open_queue(request, call).handle)

    def _run_down(self, handle: bytes) -> None:
        self.handles.discard(handle)
        for table in (self.locked, self.waiting):
            for key in [key for key in table if key[0] == handle]:
                del table[key]

    def _close_queue(self, request: Any, call: Call) -> Any:
        self._run_down(request.handle)
        return ClosedQueue(bytes(20), 0)

    def _create_cursor(self, request: Any, call: Call) -> Any:
        cursor = next(self._numbers)
        self.cursors[cursor] = 0
        return CreatedCursor(cursor, 0)

    def _close_cursor(self, request: Any, call: Call) -> Any:
        del self.cursors[request.cursor]
        return 0

    def _purge_queue(self, request: Any, call: Call) -> Any:
        self.messages.clear()
        return 0

    def _start_receive(self, request: Any, call: Call) -> Any:
        found = self._next(request)
        if found is not None:
            return self._answer(request, call, found)
        if request.lookup_id or not request.timeout:
            return NOT_FOUND if request.lookup_id else IO_TIMEOUT
        self.waiting[request.handle, request.request_id] = request, call
        return None

    _start_transactional_receive = _start_receive

    def _next(self, request: Any) -> int | None:
        free = [one for one in self.messages if one not in self.locked.values()]
        if request.lookup_id:
            return request.lookup_id if request.lookup_id in free else None
        if request.cursor:
            here = self.cursors[request.cursor]
            beyond = request.action == PEEK_NEXT
            free = [one for one in free if (one > here if beyond else one >= here)]
        return free[0] if free else None

    def _answer(self, request: Any, call: Call, lookup_id: int) -> None:
        data = self.messages[lookup_id]
        if request.cursor:
            self.cursors[request.cursor] = lookup_id
        if request.action in (RECEIVE, 0x40000020, 0x40000021, 0x40000022):
            self.locked[request.handle, request.request_id] = lookup_id
        section = Section(0, len(data), data)
        opnum = call.opnum
        response = Received(1_700_000_000, lookup_id, (section,), 0)
        call.answer(METHODS[opnum].response.encode(response, ndr64=call.ndr64))

    def _cancel_receive(self, request: Any, call: Call) -> Any:
        waiting = self.waiting.pop((request.handle, request.request_id), None)
        if waiting is None:
            return 0xC0000225
        waiting[1].answer(METHODS[waiting[1].opnum].response.encode(not_received(CANCELLED)))
        return 0

    def _end_receive(self, request: Any, call: Call) -> Any:
        lookup_id = self.locked.pop((request.handle, request.request_id), None)
        if lookup_id is None:
            return 0xC00E0006
        if request.ack == Ack.ACK:
            self.messages.pop(lookup_id, None)
        return 0

    _end_transactional_receive = _end_receive

    def _move_message(self, request: Any, call: Call) -> Any:
        return 0 if self.messages.pop(request.lookup_id, None) else NOT_FOUND

    def _enlist_remote_transaction(self, request: Any, call: Call) -> Any:
        return 0

    def _set_user_acknowledgement_class(self, request: Any, call: Call) -> Any:
        return 0

    # -- its readers

    def reader(self, **how: Any) -> posthouse.RemoteQueueManager:
        """A reader of this computer."""
        how.setdefault("rpc_port", self.port)
        how.setdefault("timeout", 20)
        return posthouse.msmq("127.0.0.1", **how)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def reading(
    peer: Peer, /, **how: Any
) -> Iterator[tuple[posthouse.RemoteQueueManager, posthouse.RemoteQueue]]:
    """A reader with its queue."""
    with peer.reader(**how) as manager:
        yield manager, manager.queue(r"private$\orders")


def with_trailers(data: bytes, **what: Any) -> bytes:
    """A packet with the headers that remote read adds."""
    fields = {"acknowledgement_class": 0, "aborts": 0, "moves": 0, "last_move": 0} | what
    trailers = pack_trailers(**fields)
    padded = data + bytes(-len(data) % 4)
    size = (len(padded) + len(trailers)).to_bytes(4, "little")
    return padded[:8] + size + padded[12:] + trailers


__all__ = ["IO_TIMEOUT", "Break", "Peer", "ept", "packet", "reading", "with_trailers"]
