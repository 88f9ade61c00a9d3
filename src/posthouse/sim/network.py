"""A network without sockets: delays, losses, cuts and partitions that follow from a seed.

Both ends of a conversation are pure: they take bytes and a time and give bytes. The network
carries the bytes late, in other pieces, twice, out of order or not at all, as far as the kind of
traffic allows: a stream keeps its bytes and their order until it is cut; a datagram has no such
luck. Everything is driven by a `SimClock`; the same seed and the same calls give the same `trace`.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Literal, NamedTuple, Protocol

from posthouse.sim.clock import SimClock, Timer

DATAGRAM_SIZE_MAX = 65_507  # UDP over IPv4
EPHEMERAL_PORT_FIRST = 49_152
SMALL_PIECE_SIZE = 8  # so that headers are split too
STEPS_MAX = 1_000_000

Reason = Literal["end", "reset", "refused", "timeout"]
"""Why a connection is over: the peer closed, it broke, no listener, no answer."""


class Address(NamedTuple):
    """Where something listens; host is any text, for a multicast group the group's."""

    host: str
    port: int


class Endpoint(Protocol):
    """One end of a stream."""

    def receive(self, data: bytes, now_ms: int) -> bytes:
        """Take the next bytes of the stream, in any pieces; bytes to send back."""

    def closed(self, reason: Reason, now_ms: int) -> None:
        """Learn that the connection is over; not called for one's own close or reset."""


Factory = Callable[["Connection"], Endpoint]
"""Makes the endpoint of one side of a new connection."""

Receiver = Callable[[bytes, Address, int], None]
"""Takes a datagram, its sender and the time."""


@dataclass(frozen=True)
class Conditions:
    """How bad the network is; the chances are per datagram, and per delivery of a stream."""

    delay_ms: tuple[int, int] = (1, 20)
    connect_timeout_ms: int = 20_000
    whole: float = 0.3
    datagram_loss: float = 0.0
    datagram_double: float = 0.0
    stream_reset: float = 0.0
    stream_cut: float = 0.0


class Line(NamedTuple):
    """One line of `SimNetwork.trace`."""

    now_ms: int
    event: str
    source: Address
    target: Address
    size: int = 0
    checksum: int = 0


class Connection:
    """One side of a stream. What is sent before the connection is open waits.

    `home` is the host that has this side; its peer sees `local`, which NAT makes another address.
    """

    def __init__(
        self, network: "SimNetwork", local: Address, remote: Address, home: str | None = None
    ) -> None:
        self.local = local
        self.remote = remote
        self.home = home or local.host
        self.state: Literal["opening", "open", "closed"] = "opening"
        self.on_open: Callable[[], None] = lambda: None  # told when the other side has answered
        self._network = network
        self._endpoint: Endpoint | None = None
        self._peer: Connection | None = None
        self._timeout: Timer | None = None
        self._flight = bytearray()
        self._events = 0
        self._ending = False
        self._cut = False

    def __repr__(self) -> str:
        return f"<{self.local.host}:{self.local.port} {self.state} to {self.remote}>"

    @property
    def unsent(self) -> int:
        """Bytes on their way."""
        return len(self._flight)

    def send(self, data: bytes) -> None:
        """Send bytes; dropped where the connection is closed."""
        if data and self.state != "closed" and not self._ending:
            self._flight += data
            self._network._launch(self)

    def close(self) -> None:
        """End the stream after what was sent; receive nothing from now on."""
        if self.state != "closed" and not self._ending:
            self._ending = True
            self._network._launch(self)

    def reset(self) -> None:
        """Break the connection at once; what is on the way is lost."""
        if self.state != "closed":
            self._network._break(self)


class SimNetwork:
    """Hosts, streams and datagrams; every choice follows from `seed`."""

    def __init__(self, seed: int, clock: SimClock, conditions: Conditions | None = None) -> None:
        self.seed = seed
        self.clock = clock
        self.conditions = conditions or Conditions()
        self.trace: list[Line] = []
        self._random = Random(seed)
        self._listeners: dict[Address, tuple[str, Factory]] = {}  # with the hosts that have them
        self._receivers: dict[Address, list[tuple[str, Receiver]]] = {}
        self._connections: dict[Connection, None] = {}
        self._blocked: set[tuple[str, str]] = set()
        self._down: set[str] = set()
        self._stalled: list[tuple[str, str, Callable[[], None]]] = []
        self._events = 0
        self._port = EPHEMERAL_PORT_FIRST

    def __repr__(self) -> str:
        return f"SimNetwork(seed={self.seed}, now_ms={self.clock.now_ms}, lines={len(self.trace)})"

    def connections(self) -> list[Connection]:
        """Every side of a connection that is not over, in the order of their beginning."""
        return list(self._connections)

    # What endpoints do

    def listen(self, host: str, port: int, factory: Factory, *, home: str | None = None) -> None:
        """Take connections at an address; `home` has them, where a NAT forwards the port."""
        self._listeners[Address(host, port)] = home or host, factory

    def connect(
        self, host: str, target: Address, factory: Factory, *, seen_as: str | None = None
    ) -> Connection:
        """Begin a connection from a host; its endpoint is made at once and learns how it goes.

        `seen_as` is the address that the other side sees, where there is a NAT between them.
        """
        connection = Connection(self, Address(seen_as or host, self._port), target, host)
        self._port += 1
        self._connections[connection] = None
        wait_ms = self.conditions.connect_timeout_ms
        connection._timeout = self._later(wait_ms, lambda: self._over(connection, "timeout"))
        self._carry(host, target.host, lambda: self._knock(connection))
        connection._endpoint = factory(connection)
        return connection

    def bind(self, address: Address, receiver: Receiver, *, host: str | None = None) -> None:
        """Take datagrams at an address; with `host`, as its member of a multicast group."""
        self._receivers.setdefault(address, []).append((host or address.host, receiver))

    def send_datagram(self, source: Address, target: Address, data: bytes) -> None:
        """Send a datagram: it comes late, in any order, twice, or never, without a report."""
        assert len(data) <= DATAGRAM_SIZE_MAX, len(data)
        self._note("datagram", source, target, data)
        for host, receiver in self._receivers.get(target, []):
            copies = 2 if self._happens(self.conditions.datagram_double) else 1
            for _ in range(copies):
                land = partial(self._land, host, receiver, source, target, data)
                self._later(self._delay_ms(), land)

    # What happens to them

    def partition(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Let nothing through between two hosts: streams wait, datagrams are lost."""
        self._blocked |= {(one, other)} if one_way else {(one, other), (other, one)}

    def heal(self, one: str, other: str) -> None:
        """Let everything through again, in both directions."""
        self._blocked -= {(one, other), (other, one)}
        self._release()

    def cut(self, connection: Connection, *, one_way: bool = False) -> None:
        """Let all bytes vanish from now on without telling anybody: a half-open connection.

        With `one_way` only what this side sends is lost.
        """
        self._note("cut", connection.local, connection.remote)
        connection._cut = True
        if connection._peer is not None and not one_way:
            connection._peer._cut = True

    def reset(self, connection: Connection) -> None:
        """Break a connection in the middle: bytes on the way are lost, both sides are told."""
        self.cut(connection)
        for side in (connection, connection._peer):
            if side is not None:
                self._later(self._delay_ms(), partial(self._over, side, "reset"))

    def kill(self, host: str) -> None:
        """Switch a host off: its sockets are gone, and no peer is told before it is up again."""
        self._down.add(host)
        for connection in [c for c in self._connections if c.home == host]:
            self._forget(connection)
        self._listeners = {a: pair for a, pair in self._listeners.items() if pair[0] != host}
        for address, members in self._receivers.items():
            self._receivers[address] = [pair for pair in members if pair[0] != host]

    def revive(self, host: str) -> None:
        """Switch a host on; it has to listen again, and answers old connections by a reset."""
        self._down.discard(host)
        self._release()

    def move(self, host: str, to: str, *, silently: bool) -> None:
        """Give a host another address. Its connections break, both sides told or none of them."""
        for connection in [c for c in self._connections if c.home == host]:
            (self.cut if silently else self.reset)(connection)
        self._listeners = {
            Address(to, a.port) if a.host == host else a: (to if home == host else home, factory)
            for a, (home, factory) in self._listeners.items()
        }
        moved: dict[Address, list[tuple[str, Receiver]]] = {}
        for address, members in self._receivers.items():
            target = Address(to, address.port) if address.host == host else address
            here = [(to if member == host else member, receiver) for member, receiver in members]
            moved.setdefault(target, []).extend(here)
        self._receivers = moved

    # Time

    def step(self) -> bool:
        """Go on to the next timer of the clock; False if the network has nothing under way."""
        return self._events > 0 and self.clock.run_next()

    def run_until_idle(self, steps_max: int = STEPS_MAX) -> int:
        """Go on until nothing is under way; how many steps that took."""
        for steps in range(steps_max):
            if not self.step():
                return steps
        raise RuntimeError(f"{self!r} is not idle after {steps_max} steps")

    def _later(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        def run() -> None:
            self._events -= 1
            action()

        self._events += 1
        return self.clock.call_later(delay_ms, run)

    def _carry(self, source: str, target: str, action: Callable[[], None]) -> None:
        """Act when a packet of a stream arrives; one that is stopped is sent again later."""

        def arrive() -> None:
            if self._stops(source, target):
                self._stalled.append((source, target, action))
            else:
                action()

        self._later(self._delay_ms(), arrive)

    def _release(self) -> None:
        stalled, self._stalled = self._stalled, []
        for source, target, action in stalled:
            if self._stops(source, target):
                self._stalled.append((source, target, action))
            else:
                self._carry(source, target, action)

    def _stops(self, source: str, target: str) -> bool:
        return target in self._down or (source, target) in self._blocked

    def _delay_ms(self) -> int:
        return self._random.randint(*self.conditions.delay_ms)

    def _happens(self, chance: float) -> bool:
        return self._random.random() < chance

    def _note(self, event: str, source: Address, target: Address, data: bytes = b"") -> None:
        self.trace.append(
            Line(self.clock.now_ms, event, source, target, len(data), zlib.crc32(data))
        )

    # Datagrams

    def _land(
        self, host: str, receiver: Receiver, source: Address, target: Address, data: bytes
    ) -> None:
        if self._stops(source.host, host) or self._happens(self.conditions.datagram_loss):
            self._note("lost", source, target, data)
        elif (host, receiver) in self._receivers.get(target, ()):
            self._note("received", source, target, data)
            receiver(data, source, self.clock.now_ms)

    # Streams

    def _knock(self, client: Connection) -> None:
        if client.state == "closed" or client._cut:
            return
        listener = self._listeners.get(client.remote)
        if listener is None:
            back = partial(self._over, client, "refused")
        else:
            self._accept(client, *listener)
            back = partial(self._answer, client)
        self._carry(client.remote.host, client.home, back)

    def _accept(self, client: Connection, home: str, factory: Factory) -> None:
        server = Connection(self, client.remote, client.local, home)
        server.state = "open"
        server._peer, client._peer = client, server
        self._connections[server] = None
        self._note("accepted", client.local, client.remote)
        server._endpoint = factory(server)

    def _answer(self, client: Connection) -> None:
        assert client._peer is not None
        if not client._peer._cut:
            self._opened(client)

    def _opened(self, client: Connection) -> None:
        if client.state == "opening":
            client.state = "open"
            self._stop_timeout(client)
            self._note("opened", client.local, client.remote)
            if client._flight or client._ending:
                self._launch(client)
            client.on_open()

    def _launch(self, side: Connection) -> None:
        if side.state == "open":
            side._events += 1
            self._carry(side.home, self._home_of_peer(side), lambda: self._arrive(side))

    def _home_of_peer(self, side: Connection) -> str:
        return side.remote.host if side._peer is None else side._peer.home

    def _arrive(self, side: Connection) -> None:
        side._events -= 1
        peer = side._peer
        if side.state == "closed" or peer is None:
            return
        if side._cut:
            side._flight.clear()
        elif peer.state == "closed":
            # The other host no longer has this connection.
            self._carry(peer.home, side.home, partial(self._over, side, "reset"))
        elif self._happens(self.conditions.stream_reset):
            self.reset(side)
        elif self._happens(self.conditions.stream_cut):
            self.cut(side)
        else:
            self._opened(peer)
            self._deliver(side, peer)

    def _deliver(self, side: Connection, peer: Connection) -> None:
        data = self._piece(side)
        if data and not peer._ending:
            assert peer._endpoint is not None
            self._note("delivered", side.local, side.remote, data)
            peer.send(peer._endpoint.receive(data, self.clock.now_ms))
        elif side._ending and not data:
            self._forget(side)
            self._over(peer, "end")
        if side._events == 0 and (side._flight or side._ending):
            self._launch(side)

    def _piece(self, side: Connection) -> bytes:
        """The next bytes of a stream: all there are, or fewer."""
        size = len(side._flight)
        if size and not self._happens(self.conditions.whole):
            size = self._random.randint(1, self._random.choice((size, min(size, SMALL_PIECE_SIZE))))
        data = bytes(side._flight[:size])
        del side._flight[:size]
        return data

    def _break(self, side: Connection) -> None:
        peer = side._peer
        self._forget(side)
        if peer is not None and not side._cut:
            self._carry(side.home, peer.home, partial(self._over, peer, "reset"))

    def _over(self, side: Connection, reason: Reason) -> None:
        if side.state == "closed":
            return
        told = not side._ending
        self._forget(side)
        self._note(reason, side.remote, side.local)
        if told and side._endpoint is not None:
            side._endpoint.closed(reason, self.clock.now_ms)

    def _forget(self, side: Connection) -> None:
        side.state = "closed"
        side._flight.clear()
        self._stop_timeout(side)
        self._connections.pop(side, None)

    def _stop_timeout(self, side: Connection) -> None:
        if side._timeout is not None and side._timeout.callback is not None:
            side._timeout.cancel()
            self._events -= 1
