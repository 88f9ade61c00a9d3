"""`pgm`: multicast messages of 1 KiB at the document's rate; one packet in a hundred is lost.

Two queue managers on this machine, PGM inside of UDP. The second receives from the first only
through a relay, which loses packets by chance; what is missing is asked for and repaired, or the
run fails.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import ClassVar, Final, NamedTuple

from benchmarks.figures import Column, Goal, Outcome, Table, hundredths, tenths, thousands
from benchmarks.peers.ours import PosthouseServer
from benchmarks.peers.server import serving
from benchmarks.run import Run
from posthouse.client.connect import connect
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.wire.pgm.packets import RDATA

NAME = "pgm"
GROUP: Final = "239.77.113.1"
PLACE: Final = f"{GROUP}:8001"
SENDER, HEARER = "127.0.0.2", "127.0.0.3"
LOSS: Final = 0.01
BODY_SIZE: Final = 1024
QUEUE: Final = r".\private$\quotes"
LIMIT_S: Final = 600.0
POLL_S: Final = 0.05
FILLED: Final = 0.9  # of the rate, while there is something to send
DOCUMENT: Final = PgmSettings()
COLUMNS = [
    Column("messages", "messages"),
    Column("arrived", "arrived in order"),
    Column("rate_per_s", "messages/s", tenths),
    Column("bytes_per_s", "bytes/s", thousands),
    Column("filled", "of the limit", hundredths),
    Column("packets", "packets"),
    Column("lost", "lost"),
    Column("repairs", "repairs"),
]


class Ports(NamedTuple):
    """Of UDP: where the sender multicasts, the hearer listens, repairs are asked for."""

    near: int
    far: int
    unicast: int


class Figures(NamedTuple):
    """One run."""

    messages: int
    arrived: int
    seconds: float
    bytes: int
    packets: int
    lost: int
    repairs: int


class MulticastServer(PosthouseServer):
    """Our server with PGM inside of UDP, at the document's rate."""

    title: ClassVar[str] = "Posthouse, multicast"

    def __init__(self, directory: Path, address: str, port: int, unicast: int) -> None:
        super().__init__(directory)
        self.home.mkdir(mode=0o700)
        settings = f"""[pgm]
encapsulation = "udp"
interface = "{address}"
udp_multicast_port = {port}
udp_unicast_port = {unicast}
"""
        (self.home / "posthouse.toml").write_text(settings, encoding="ascii")


class Relay(Thread):
    """Carries packets on, but not all of them."""

    def __init__(self, ports: Ports) -> None:
        super().__init__(name="lossy relay", daemon=True)
        self.bytes = self.packets = self.lost = self.repairs = 0
        self.first_s = self.last_s = 0.0
        self._chance = random.Random(1)
        self._target = GROUP, ports.far
        self._ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._ear.bind((GROUP, ports.near))
        member = socket.inet_aton(GROUP) + socket.inet_aton(SENDER)
        self._ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        self._ear.settimeout(POLL_S)
        self._mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._mouth.bind((SENDER, 0))  # receivers accept packets of the source's address only
        there = socket.inet_aton(HEARER)
        self._mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, there)
        self._ended = False

    def run(self) -> None:
        while not self._ended:
            try:
                packet = self._ear.recv(65_535)
            except TimeoutError:
                continue
            self._count(packet)
            if self._chance.random() < LOSS:
                self.lost += 1
            else:
                self._mouth.sendto(packet, self._target)
        self._ear.close()
        self._mouth.close()

    def _count(self, packet: bytes) -> None:
        self.packets += 1
        self.bytes += len(packet)
        self.repairs += packet[4] == RDATA
        self.last_s = time.monotonic()
        self.first_s = self.first_s or self.last_s

    def end(self) -> None:
        """Stops the relay."""
        self._ended = True
        self.join()


@contextmanager
def relayed(ports: Ports) -> Iterator[Relay]:
    """A relay that runs."""
    relay = Relay(ports)
    relay.start()
    try:
        yield relay
    finally:
        relay.end()


def free_ports() -> Ports:
    """Ports that are free here; another program might take one meanwhile."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket(type=socket.SOCK_DGRAM)) for _ in range(3)]
        for one in found:
            one.bind(("0.0.0.0", 0))
        return Ports(*(one.getsockname()[1] for one in found))


def measure(run: Run) -> Outcome:
    """One run: at this rate it takes its time."""
    count, ports = run.dose(900, 30), free_ports()
    with run.place.fresh(NAME) as directory, ExitStack() as stack:
        bar = stack.enter_context(run.bar(NAME, 3))
        homes: list[Path] = []
        for address, port in ((SENDER, ports.near), (HEARER, ports.far)):
            bar.step(f"starting the manager at {address}")
            folder = directory / address
            folder.mkdir()
            made = MulticastServer(folder, address, port, ports.unicast)
            stack.enter_context(serving(made))
            homes.append(made.home)
        relay = stack.enter_context(relayed(ports))
        bar.step(f"{count} messages")
        figures = _measured(homes[0], homes[1], relay, count)
    return Outcome([_table(figures)], _goals(figures, quick=run.quick))


def _measured(sender: Path, hearer: Path, relay: Relay, count: int) -> Figures:
    bodies = [b"%06d" % number + bytes(BODY_SIZE - 6) for number in range(count)]
    with connect(sender) as source, connect(hearer) as target:
        queue = target.create_queue(QUEUE, multicast=PLACE)
        begin = time.monotonic()
        source.queue(f"MULTICAST={PLACE}").send_many(bodies)
        until = begin + LIMIT_S
        while queue.count() < count and time.monotonic() < until:
            time.sleep(POLL_S)
        seconds = time.monotonic() - begin
        arrived = [message.body for message in queue.browse()]
    in_order = sum(a == b for a, b in zip(arrived, bodies, strict=False))
    sent_s = max(relay.last_s - relay.first_s, POLL_S)
    per_second = int(relay.bytes / min(seconds, sent_s))
    return Figures(count, in_order, seconds, per_second, relay.packets, relay.lost, relay.repairs)


def _table(figures: Figures) -> Table:
    title = f"{NAME}: multicast of 1 KiB messages at {DOCUMENT.rate:,} bytes/s, 1 % of packets lost"
    table = Table(NAME, "rates", title, COLUMNS)
    table.rows.append(
        {
            "messages": figures.messages,
            "arrived": figures.arrived,
            "rate_per_s": figures.messages / figures.seconds,
            "bytes_per_s": figures.bytes,
            "filled": figures.bytes / DOCUMENT.rate,
            "packets": figures.packets,
            "lost": figures.lost,
            "repairs": figures.repairs,
        }
    )
    return table


def _goals(figures: Figures, *, quick: bool) -> list[Goal]:
    """Everything arrives; the limit is used, and kept (a bucket of it may go out at once)."""
    whole = Goal(NAME, "arrived, of all", figures.arrived / figures.messages, 1.0)
    if quick:
        return [whole]
    filled = figures.bytes / DOCUMENT.rate
    used = Goal(NAME, "rate, of the document's limit", filled, FILLED)
    return [whole, used, Goal(NAME, "and not above it", filled, 1.01, at_most=True)]
