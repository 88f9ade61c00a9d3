"""Who takes part, and one round of one of them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.peers.brokers import NatsServer, PostgresServer, RabbitServer, RedisServer
from benchmarks.peers.client import client
from benchmarks.peers.driver import make_driver
from benchmarks.peers.ours import BinaryServer, PairServer, PosthouseServer
from benchmarks.peers.server import Server
from benchmarks.peers.work import DURABLE, Load, Mode, Work
from benchmarks.witness import NotSynced

OURS: Final = "posthouse"
BINARY: Final = "binary"  # its producer is a session of MS-MQQB
PAIR: Final = "pair"  # two of ours: producer to one, consumer at the other


class Peer(NamedTuple):
    """A server with its driver (`drive_*`), and what it can be asked for."""

    server: type[Server]
    library: str
    modes: frozenset[Mode]
    relays: bool = False  # durable messages with both at work
    alone: bool = True  # everything else

    def missing(self) -> str | None:
        """Why it cannot take part here."""
        if find_spec(self.library) is None:
            return f"its Python client {self.library} is not installed (pip install .[bench])"
        return self.server.missing()

    def takes_part(self, work: Work) -> bool:
        """Whether it does a workload."""
        relay = work.both and work.mode is not Mode.EXPRESS
        return work.mode in self.modes and (self.relays if relay else self.alone)


PEERS: Final[dict[str, Peer]] = {
    OURS: Peer(PosthouseServer, "posthouse", DURABLE | {Mode.EXPRESS}, relays=True),
    # A single message is acknowledged once the session pauses (ack_quiet_ms): nothing to compare.
    BINARY: Peer(BinaryServer, "posthouse", frozenset(Mode) - {Mode.SINGLE}),
    PAIR: Peer(PairServer, "posthouse", DURABLE - {Mode.SINGLE}, relays=True, alone=False),
    "rabbitmq": Peer(RabbitServer, "pika", DURABLE | {Mode.EXPRESS}, relays=True),
    "redis": Peer(RedisServer, "redis", DURABLE),
    "nats": Peer(NatsServer, "nats", frozenset({Mode.EXPRESS})),
    "postgresql": Peer(PostgresServer, "asyncpg", DURABLE),
}


class Leg(NamedTuple):
    """One way of the messages, in one round: sending, receiving, or both at once."""

    messages: int
    size: int
    wall_s: float
    server_cpu_s: float
    clients_cpu_s: float
    p50_ms: float | None = None
    p99_ms: float | None = None

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.wall_s

    @property
    def megabytes(self) -> float:
        """Megabytes a second."""
        return self.rate * self.size / 1e6

    @property
    def server_us(self) -> float:
        """Processor time of the server, a message."""
        return self.server_cpu_s / self.messages * 1e6

    @property
    def clients_us(self) -> float:
        """Processor time of producer and consumer, a message."""
        return self.clients_cpu_s / self.messages * 1e6

    @property
    def cpu_us(self) -> float:
        """All together."""
        return self.server_us + self.clients_us


class Entrant(NamedTuple):
    """A peer whose server runs."""

    name: str
    server: Server

    @property
    def peer(self) -> Peer:
        """What it can do."""
        return PEERS[self.name]


Round = dict[str, Leg]  # by the words of the work


def run_round(entrant: Entrant, work: Work, load: Load) -> Round:
    """Everything of a workload, once."""
    queue = f"q{work.name}"
    make_driver(entrant.name, entrant.server.address).prepare(queue, load.mode)
    if work.both:
        return {work.sending: _both(entrant, queue, load)}
    sending = _alone(entrant, "produce", queue, load)
    receiving = _alone(entrant, "consume", queue, load)
    return {work.sending: sending} | ({work.receiving: receiving} if work.receiving else {})


def _both(entrant: Entrant, queue: str, load: Load) -> Leg:
    """From the first message sent to the last one received."""
    name, server = entrant
    with (
        client("consume", name, server.address, queue, load) as consumer,
        client("produce", name, server.address, queue, load) as producer,
    ):
        for child in (consumer, producer):
            child.report("ready")
        before = server.cpu_s()
        for child in (consumer, producer):
            child.tell("go")
        sent, received = producer.report("done"), consumer.report("done")
        return Leg(
            load.messages,
            load.size,
            max(sent["ended"], received["ended"]) - sent["began"],
            server.cpu_s() - before,
            sent["cpu_s"] + received["cpu_s"],
        )


def _alone(entrant: Entrant, role: str, queue: str, load: Load) -> Leg:
    name, server = entrant
    with client(role, name, server.address, queue, load) as child:
        child.report("ready")
        syncs, before = server.syncs(), server.cpu_s()  # the question costs something too
        child.tell("go")
        done = child.report("done")
        leg = Leg(
            load.messages,
            load.size,
            done["ended"] - done["began"],
            server.cpu_s() - before,
            done["cpu_s"],
            *((done["p50_ms"], done["p99_ms"]) if load.mode is Mode.SINGLE else ()),
        )
    if syncs is not None:
        _require_syncs(entrant, role, server.syncs() or 0, syncs, max(done["groups"], 1))
    return leg


def _require_syncs(entrant: Entrant, role: str, after: int, before: int, groups: int) -> None:
    """What the server itself counts; that it does not lie is shown once, from outside."""
    if after - before < groups:
        raise NotSynced(
            f"{entrant.server.title}, {role}: {after - before} syncs for {groups} durable groups"
        )


def make_server(name: str, directory: Path) -> Server:
    """The server of a peer, not running yet."""
    folder = directory / name
    folder.mkdir()
    return PEERS[name].server(folder)
