"""Posthouse with a producer that is a session of MS-MQQB, with the window of 64 that it has."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from benchmarks.peers.drive_posthouse import PosthouseDriver
from benchmarks.peers.driver import Meter, host_and_port
from benchmarks.peers.work import BATCH, Load, Mode
from posthouse.client.binary.sender import BinarySender
from posthouse.client.packets import Options, PacketMaker
from posthouse.model.message import TxSequenceId
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.wire.packet.patch import patch

TIMEOUT_S = 60.0


class Poster(BinarySender):
    """A session that can also send without waiting for acknowledgments."""

    def post(self, packets: Iterable[bytes]) -> list[int]:
        """Puts packets on the wire and waits for nothing but room; for express messages."""
        with self._turn:
            outbound = self._stamped(packets)
            self._waiting.extend(outbound)
            while self._waiting:
                self._step(self._timeout_s)
            return [message.number for message in outbound]


class BinaryDriver(PosthouseDriver):
    """The consumer is an ordinary one."""

    def __init__(self, address: str) -> None:
        url, token_file, self._binary = address.split(" ")
        super().__init__(f"{url} {token_file}")

    def produce(self, queue: str, load: Load, body: bytes, meter: Meter) -> None:
        """Sends all messages and waits once, at the end, for their acknowledgments."""
        host, port = host_and_port(self._binary)
        sender = Poster(host, port, TIMEOUT_S, BinarySettings())
        sender.connect()
        meter.start()
        packets = _packets(rf"DIRECT=TCP:{self._binary}\private$\{queue}", load, body)
        if load.durable:
            sender.send(packets)
        else:
            # Without waiting: the last acknowledgments come only after a timer.
            sender.post(packets)
        meter.stop()
        sender.close()


def _packets(destination: str, load: Load, body: bytes) -> Iterator[bytes]:
    maker = PacketMaker(destination, "BENCH")
    how, transactional = Options(recoverable=load.durable), load.mode is Mode.TRANSACTION
    sequence = TxSequenceId(0, int(time.time()))
    for number in range(1, load.messages + 1):
        packet = maker.packet(body, how, transactional)
        if transactional:
            packet = patch(
                packet,
                sequence_id=sequence,
                sequence_number=number,
                previous_sequence_number=number - 1,
                first=number % BATCH == 1,
                last=number % BATCH == 0,
            )
        yield packet


DRIVER = BinaryDriver
