"""TCP on asyncio for protocols between queue managers: connections, names, one timer."""

from __future__ import annotations

import asyncio
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, cast

from posthouse.model.enumerations import ConnectionStatus
from posthouse.net.connections import Admission, Connections
from posthouse.net.peer_disconnects import Departures, is_cut_off
from posthouse.net.sockets import (
    GONE,
    UNREACHABLE,
    address_of,
    keep_alive,
    let_go,
    look_up,
    words_of,
)
from posthouse.protocols.engine_calls import OneTurn, Turns
from posthouse.protocols.memory import (
    RECEIVE,
    SEND,
    SMALL_REQUEST,
    UNSYNCED,
    Holder,
    MemoryAccount,
)
from posthouse.protocols.transport import ConnectionOwner, Resolved

POLL_S: Final = 0.01  # while a stop waits for what has begun
LINGER_S: Final = 10.0  # for the last bytes to a peer that may not read them
RESOLVES_MAX: Final = 16  # names looked up at once
CONNECTS_MAX: Final = 256  # connections begun at once
READ_BUFFER: Final = 256 << 10
WRITE_BUFFER: Final = 1 << 20  # above it nothing more is fetched for a peer

Opening = Callable[[], Coroutine[Any, Any, Any]]


class ConnectFailure(Protocol):
    """Who waits for a connection, where there is none."""

    def failed(self, status: ConnectionStatus, words: str) -> None:
        """There is no connection."""
        ...


class Machine(Protocol):
    """The protocol whose connections these are."""

    stopping: bool

    def refused(self, reason: str) -> None:
        """A connection was turned away or ended."""
        ...

    def tick(self) -> None:
        """The time that it asked for has come."""
        ...

    def stop(self) -> None:
        """Everything ends."""
        ...


class Stream(asyncio.BufferedProtocol, ABC):
    """One TCP connection: the `Transport` of its owner, which `begin` returns; None to refuse it.

    All connections read into the one buffer of their node: what is in it is the owner's before the
    next of them reads.
    """

    def __init__(
        self, node: StreamNode, admission: Admission | None, who: ConnectFailure | None = None
    ) -> None:
        self._node = node
        self._admission = admission  # None: we connect to somebody else
        self._who = who  # waits for the connection, where we connect
        self._owner: ConnectionOwner | None = None
        self._holder: Holder | None = None
        self._address = ""
        self.local_address = ""
        self._paused = False  # by the owner
        self._waiting = b""  # bytes of the peer that wait for the next turn
        self._linger: asyncio.TimerHandle | None = None
        self.writable = True

    @abstractmethod
    def begin(self, address: str) -> ConnectionOwner | None:
        """The connection is there; called once."""

    @property
    @abstractmethod
    def is_proven(self) -> bool:
        """Whether the peer has shown what it wants: a handshake, a whole request."""

    # -- from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Gives the connection its owner, or turns it away."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        here = self._transport.get_extra_info("sockname")
        self.local_address = str(here[0]).removeprefix("::ffff:") if here else ""
        address = address_of(self._transport)
        if self._admission is None:
            keep_alive(self._transport.get_extra_info("socket"))
            self._node.connections.room.taken += 1
        else:
            self._admission.drop = self._transport.abort
        self._address = address
        self._holder = self._node.memory.open(address, self._too_much, self._continue)
        self._node.open.add(self)
        self._owner = self._first_owner(address)
        if self._owner is None:
            self._transport.abort()

    def _first_owner(self, address: str) -> ConnectionOwner | None:
        """None: the connection is not wanted, or the peer has closed it already."""
        who, self._who = self._who, None
        if self._node.stopping:
            return None
        if address != GONE:
            return self.begin(address)
        if who is not None:  # it would wait for ever: for the loop the connection was made
            words = "the peer closed the connection at once"
            who.failed(ConnectionStatus.SOCKET_CONNECT_FAILURE, words)
        return None

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go; few while much is held, for they cannot be put back."""
        node, memory = self._node, self._node.memory
        ample = 4 * memory.used < memory.limit and not node.turns.is_crowded()
        return node.buffer if ample else node.small_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes of the peer."""
        if self._owner is None or self._node.stopping:
            return
        data = bytes(self._node.buffer[:nbytes])
        if self._waiting:  # read before reading was paused
            self._waiting += data
        elif self._node.turns.is_crowded():
            self._waiting = data
            self._read_or_wait()
            self._node.turns.later(self._take_waiting)
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        owner = self._owner
        if owner is None or self._node.stopping:
            return
        owner.receive(data)
        self._count()
        admission = self._admission
        if admission is not None and admission.unproven and self.is_proven:
            admission.prove()

    def _take_waiting(self) -> None:
        """The turn has come in which there is time for the peer's bytes."""
        data, self._waiting = self._waiting, b""
        if data:
            self._take(data)
            self._read_or_wait()

    def pause_writing(self) -> None:
        """The peer does not read fast enough."""
        self.writable = False
        self._count()
        self._read_or_wait()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self.writable = True
        self._read_or_wait()
        if self._owner is not None:
            self._count()
            self._owner.pump()

    def eof_received(self) -> bool:
        """The peer sends nothing more."""
        return self._admission is not None and self._admission.ends(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, by either side."""
        if not self._address:
            return
        self._take_waiting()
        if self._linger is not None:
            self._linger.cancel()
        if self._holder is not None:
            self._holder.leave()
            self._holder = None
        self._node.departures.forget(self._transport)
        self._node.open.discard(self)
        if self._admission is None:
            self._node.connections.room.give()
        else:
            self._admission.leave()
        # Nothing refers in a circle, or half a packet would stay until somebody looks for circles.
        let_go(self._transport)
        owner, self._owner = self._owner, None
        if owner is not None:
            words = "the peer closed the connection" if exc is None else f"connection lost: {exc}"
            owner.lost(words)

    # -- Transport

    def send(self, parts: list[bytes]) -> None:
        """Writes, or keeps what the peer does not take now."""
        self._transport.writelines(parts)
        self._count()

    def close(self) -> None:
        """Ends it when what was written is sent, or its peer does not read it."""
        if not self._transport.is_closing():
            self._transport.close()
            self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    def pause(self) -> None:
        """The owner has enough for now."""
        self._paused = True
        self._read_or_wait()

    def resume(self) -> None:
        """The owner takes more."""
        self._paused = False
        self._read_or_wait()

    def relieved(self) -> None:
        """What the owner holds has become less."""
        self._count()

    def later(self, work: Callable[[], None]) -> None:
        """Does something when a turn has time for it, as for the bytes of peers."""
        self._node.turns.later(work)

    # -- memory

    def _unsent(self) -> int:
        unsent = self._transport.get_write_buffer_size()
        return unsent if unsent > SMALL_REQUEST else 0  # the end of the rest is not reported

    def _count(self) -> None:
        """Puts what the owner holds on the account, and waits where there is no room."""
        holder, owner = self._holder, self._owner
        if holder is None or owner is None:
            return
        held, unsynced, bytes_of = owner.held_bytes, owner.unsynced_bytes, holder.bytes
        unsent, taken = self._unsent(), held + len(self._waiting)
        if taken != bytes_of[RECEIVE]:
            holder.hold(RECEIVE, taken)
        if unsynced != bytes_of[UNSYNCED]:
            holder.hold(UNSYNCED, unsynced)
        if unsent != bytes_of[SEND]:
            holder.hold(SEND, unsent)
        self._look_at_size(holder, max(owner.announced_bytes, held))
        if unsynced and not holder.waiting and holder.is_ahead_of_disk:
            holder.wait()
            self._read_or_wait()

    def _look_at_size(self, holder: Holder, size: int) -> None:
        """What is announced is reserved, or is not read before there is room for it."""
        if holder.follow(size, self._node.now):
            self._read_or_wait()

    def _too_much(self, reason: str) -> None:
        self._node.machine.refused(reason)
        self._transport.abort()

    def _continue(self) -> None:
        """There may be memory again: what waited asks before it reads on."""
        holder, owner = self._holder, self._owner
        if holder is not None and owner is not None:
            self._look_at_size(holder, max(owner.announced_bytes, owner.held_bytes))
            self._read_or_wait()

    @property
    def is_deaf(self) -> bool:
        """Whether nothing is read because the peer does not read either."""
        return False

    def _read_or_wait(self) -> None:
        if self._transport.is_closing():
            return
        short = self._holder is not None and self._holder.waiting
        if short:
            self._node.departures.watch(self._transport, self._left)
        else:
            self._node.departures.forget(self._transport)
        if self._paused or short or self._waiting or self.is_deaf or self._node.stopping:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _left(self) -> None:
        """The peer sends no more: what it began cannot become whole, and is let go with it."""
        owner = self._owner
        if owner is None or is_cut_off(self._transport, owner.announced_bytes - owner.held_bytes):
            self._transport.abort()

    # -- the stop

    def stop_reading(self) -> None:
        """The server stops: what came is answered as far as it is safe, nothing more comes."""
        self._read_or_wait()

    @property
    def unsynced(self) -> bool:
        """Whether something of the peer is neither safe nor answered yet."""
        return self._owner is not None and self._owner.unsynced_bytes > 0


class StreamNode:
    """The connections of one protocol, and what a `Network` can do for it."""

    def __init__(
        self,
        memory: MemoryAccount | None,
        connections: Connections | None,
        now: Callable[[], int],
        connect_timeout_ms: int,
    ) -> None:
        self.memory = memory or MemoryAccount()
        self.connections = connections or Connections()
        self.now = now
        self.stopping = False
        self.turns: Turns = OneTurn()
        self.machine: Machine
        self.open: set[Stream] = set()
        self.departures = Departures()  # of peers that are not read from
        self.buffer = memoryview(bytearray(READ_BUFFER))
        self.small_buffer = self.buffer[:SMALL_REQUEST]
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._resolving = asyncio.Semaphore(RESOLVES_MAX)
        self._connecting = asyncio.Semaphore(CONNECTS_MAX)
        self._stopped: asyncio.Future[None] | None = None

    # -- Network

    def wake_at(self, when_ms: int) -> None:
        """One timer for everything."""
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(when_ms - self.now(), 0) / 1000
        self._timer = self._loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if not self.stopping:
            self.machine.tick()

    def resolve(self, host: str, done: Resolved) -> None:
        """Asks the system's resolver, in a thread."""
        self.run(self._resolve(host, done))

    async def _resolve(self, host: str, done: Resolved) -> None:
        addresses: list[str] = []
        words = ""
        try:
            async with self._resolving:
                addresses = await look_up(host)
        except UNREACHABLE as error:
            words = f"{host} cannot be resolved: {words_of(error)}"
        done(addresses, words)

    async def connected(self, where: str, open_it: Opening, who: ConnectFailure) -> None:
        """Opens a connection within `connect_timeout_ms`, or states why there is none."""
        room = self.connections.room
        if not room.take():
            who.failed(_STATUS.SOCKET_CONNECT_FAILURE, "this machine has too many connections open")
            return
        try:
            async with self._connecting, asyncio.timeout(self._connect_timeout_s):
                await open_it()
        except TimeoutError:
            who.failed(_STATUS.SOCKET_CONNECT_FAILURE, f"{where} does not answer")
        except ConnectionRefusedError:
            who.failed(_STATUS.CONNECTION_REFUSED, f"there is no listener on {where}")
        except ssl.SSLError as error:
            words = f"{where} is not trusted: {getattr(error, 'verify_message', '') or error}"
            who.failed(_STATUS.CERTIFICATE_VALIDATION_FAILURE, words)
        except UNREACHABLE as error:
            words = f"{where} cannot be reached: {words_of(error)}"
            who.failed(_STATUS.SOCKET_CONNECT_FAILURE, words)
        finally:
            room.give()  # the connection itself has its own

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Beside everything else; ends with the stop."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the stop

    async def stop(self, deadline_s: float) -> None:
        """Reads nothing more; closes when what came is safe and answered, or time is up."""
        if self._stopped is not None:  # another listener does it
            await self._stopped
            return
        self._stopped = self._loop.create_future()
        self.stopping = True
        self.machine.stopping = True
        for stream in list(self.open):
            stream.stop_reading()
        end = self._loop.time() + deadline_s
        while self._loop.time() < end and any(stream.unsynced for stream in self.open):
            await asyncio.sleep(POLL_S)
        self.machine.stop()
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)
        self.departures.close()
        self._stopped.set_result(None)


_STATUS = ConnectionStatus


def monotonic_ms() -> int:
    """The clock of connections."""
    return time.monotonic_ns() // 1_000_000
