"""A real server and the real client over TCP connections that are cut after every N bytes."""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import posthouse
from posthouse import IoTimeout
from posthouse.client.errors import ClientConnectionError
from tests.conftest import Dose
from tests.process import shop
from tests.process.remote_worker import HOST, QUEUE
from tests.support.process.gone_clients import wait_until_gone
from tests.support.process.remote_read_server import ORDERS, house

BODIES = [b"one", b"two".ljust(9000, b"."), b"three"]
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: what was not sent yet is thrown away


class Wire:
    """One connection and its continuation; whoever passes on last closes both.

    Nobody closes what another thread reads from: its number may be that of a new connection by
    then, even one of the client's own.
    """

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.ends = (client, server)
        self.is_cut = False
        self._pumps = 2
        self._lock = threading.Lock()
        for end in self.ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def stop(self) -> None:
        """Wakes those who read; nothing of that is seen at the other ends."""
        self.is_cut = True
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RD)

    def leave(self, reset: bool) -> None:
        """One of two passes on no more."""
        self.stop()
        with self._lock:
            self._pumps -= 1
            if self._pumps:
                return
        for end in self.ends:
            with suppress(OSError):
                if reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            end.close()


class Relay:
    """Passes on this many bytes of both directions together, then cuts the first connection."""

    def __init__(self, port: int, budget: int, reset: bool) -> None:
        self.passed = 0
        self._port, self._budget, self._reset = port, budget, reset
        self._lock = threading.Lock()
        self._wires: list[Wire] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self._acceptor.join()
        self._listener.close()
        for wire in self._wires:
            wire.stop()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                wire = Wire(client, socket.create_connection((HOST, self._port)))
                self._wires.append(wire)
                for ends in (wire.ends, wire.ends[::-1]):
                    pump = (wire, *ends)
                    self._threads.append(threading.Thread(target=self._pump, args=pump))
                    self._threads[-1].start()

    def _pump(self, wire: Wire, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                with self._lock:
                    if wire.is_cut:
                        break
                    room = self._budget - self.passed
                    cut = 0 <= room < len(data)
                    data = data[:room] if cut else data
                    self.passed += len(data)
                    target.sendall(data)
                    if cut:
                        self._budget = -1  # once
                        wire.is_cut = True
                        break
        wire.leave(self._reset)


@contextmanager
def relay(port: int, budget: int, reset: bool) -> Iterator[Relay]:
    made = Relay(port, budget, reset)
    try:
        yield made
    finally:
        made.close()


def one_by_one(queue: posthouse.RemoteQueue, seen: list[posthouse.Message]) -> None:
    while True:
        seen.append(queue.receive(0))


def consuming(queue: posthouse.RemoteQueue, seen: list[posthouse.Message]) -> None:
    with queue.consume(timeout=0, prefetch=4) as consumer:
        while (message := consumer.next()) is not None:
            seen.append(message)
    raise IoTimeout("no more")


Work = Callable[[posthouse.RemoteQueue, list[posthouse.Message]], None]


def read_all(port: int, work: Work) -> tuple[list[posthouse.Message], int]:
    """What an application sees that asks again until nothing is left for it."""
    seen: list[posthouse.Message] = []
    with posthouse.msmq(HOST, rpc_port=port, authentication="none", timeout=10) as far:
        for _ in range(10):
            try:
                work(far.queue(QUEUE), seen)
            except IoTimeout:
                break
            except ClientConnectionError:
                continue
    return seen, far.in_doubt


@pytest.mark.spec("MS-MQRR 3.1.4.9/12", "MS-MQRR 3.1.6.2/2")
@pytest.mark.parametrize("work", [one_by_one, consuming])
def test_connections_that_are_cut_after_any_byte_lose_nothing(
    tmp_path: Path, dose: Dose, work: Work
) -> None:
    figures: Counter[str] = Counter()
    with house(tmp_path) as (server, port), posthouse.connect(server.home) as qm:
        queue = qm.queue(ORDERS)
        queue.send_many(BODIES, recoverable=True)
        with relay(port, 1 << 30, reset=False) as quiet:
            assert [m.body for m in read_all(quiet.port, work)[0]] == BODIES
        for number, budget in enumerate(range(0, quiet.passed, dose(471, 17))):
            queue.send_many(BODIES, recoverable=True)
            with relay(port, budget, reset=bool(number % 2)) as cutting:
                seen, doubts = read_all(cutting.port, work)
            wait_until_gone(qm)
            left = Counter(shop.drain(qm, ORDERS))
            check(seen, left, f"cut after {budget} bytes")
            figures += Counter(cuts=1, doubts=doubts, left=left.total(), seen=len(seen))
        shop.check_balance(qm, locked=0)
    print(dict(figures))
    assert figures["cuts"] > 20


def check(seen: list[posthouse.Message], left: Counter[bytes], why: str) -> None:
    """Never lost; whatever came twice, or was seen and is there, says that it is in doubt."""
    for body in BODIES:
        times = [message.in_doubt for message in seen if message.body == body]
        assert times or left[body], f"{body!r} is lost, {why}"
        assert left[body] <= 1, why
        if len(times) + left[body] > 1:
            assert all(times), f"{body!r} came twice, without a word, {why}"
