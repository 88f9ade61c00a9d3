"""Fuzz target: any bytes are PGM packets for a source and a receiver, which stay within bounds."""

from collections.abc import Hashable
from contextlib import suppress

from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.pgm.receiver import ASKED_MAX, Holding, PgmReceiver
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.protocols.pgm.source import PgmSession, Source
from posthouse.protocols.pgm.srmp_bridge import read_unit
from posthouse.wire.pgm.options import NO_OPTIONS, Fragment, Options, Reset
from posthouse.wire.pgm.packets import (
    NAK,
    NCF,
    ODATA,
    RDATA,
    PgmPacket,
    Tsi,
    checksum,
    pack_data,
    pack_nak,
    pack_spm,
    pgm_extent,
    read_pgm,
)

TSI, PORT = Tsi(b"fuzzed", 7), 8001
SOURCE, GROUP = "10.0.0.1", "234.1.1.1"
SETTINGS = PgmSettings(receive_bytes=64 << 10, rate=10_000_000)
UNIT = b"POST x HTTP/1.1\r\n\r\n--b\r\nContent-Length: 3\r\n\r\nabc"
FIN = NO_OPTIONS._replace(fin=True)
FIRST = NO_OPTIONS._replace(fragment=Fragment(9, 0, 8))
SECOND = NO_OPTIONS._replace(fragment=Fragment(9, 4, 8))


def _spm(number: int, leading: int, options: Options = NO_OPTIONS) -> bytes:
    return pack_spm(
        TSI, PORT, sequence=number, trailing=1, leading=leading, path=SOURCE, options=options
    )


def _data(kind: int, sequence: int, data: bytes, options: Options = NO_OPTIONS) -> bytes:
    return pack_data(kind, TSI, PORT, sequence=sequence, trailing=1, data=data, options=options)


def _nak(kind: int, *sequences: int) -> bytes:
    return pack_nak(kind, TSI, PORT, sequences=sequences, source=SOURCE, group=GROUP)


SEEDS = [
    _spm(1, 7) + _data(ODATA, 8, UNIT) + _data(ODATA, 11, b"late"),
    _spm(1, 8) + _data(RDATA, 9, b"frag", FIRST) + _data(ODATA, 10, b"ment", SECOND),
    _spm(1, 8) + _spm(2, 12, FIN) + _nak(NCF, 9, 10, 11) + _data(ODATA, 12, b"x", FIN),
    _nak(NAK, 1, 2, 3) + _spm(3, 5, NO_OPTIONS._replace(reset=Reset())),
]


class _Ear:
    """A receiver's listener that keeps nothing."""

    def deliver(self, receiver: PgmReceiver, unit: bytes) -> None:
        assert 0 < len(unit) <= SETTINGS.unit_bytes
        try:
            read_unit(unit)
        except RemoteProtocolError:
            return

    def lost(self, receiver: PgmReceiver, count: int) -> None:
        assert count > 0

    def send_nak(self, receiver: PgmReceiver, sequences: tuple[int, ...]) -> None:
        assert 0 < len(sequences) <= 63


def _settled(packet: bytes) -> bytes:
    """With the checksum that it should have, or nothing would be read."""
    blank = packet[:6] + b"\0\0" + packet[8:]
    return blank[:6] + checksum(blank).to_bytes(2, "big") + blank[8:]


def _packets(data: bytes) -> list[PgmPacket]:
    found: list[PgmPacket] = []
    at = 0
    try:
        while at < len(data):
            size = pgm_extent(data, at)
            found.append(read_pgm(_settled(data[at : at + size])))
            at += size
    except RemoteProtocolError:
        pass
    return found


def fuzz_one(data: bytes) -> bool:
    """Hands packets to both roles, with time going by between them."""
    with suppress(RemoteProtocolError):
        read_pgm(data)
    packets = _packets(data)
    holding, now_ms = Holding(1 << 20), 0
    receiver = PgmReceiver(TSI, SOURCE, SETTINGS, _Ear(), lambda low, high: high, holding, 0)
    sent: list[Hashable] = []
    session = PgmSession(TSI, GROUP, PORT, SOURCE)
    source = Source(
        session, SETTINGS, lambda kind, packet: None, sent.extend, first_sequence=1, now_ms=0
    )
    for unit in (b"one", bytes(5_000)):
        source.offer(unit, unit, 0)
    for packet in packets:
        receiver.receive(packet, now_ms)
        source.receive(packet, now_ms)
        now_ms += 200
        receiver.tick(now_ms)
        source.tick(now_ms)
        assert receiver.missing <= ASKED_MAX
        assert 0 <= holding.bytes == receiver.held_bytes <= SETTINGS.receive_bytes + 70_000
    while (due := receiver.next_deadline_ms()) is not None and due < 60_000:
        receiver.tick(due)
    return bool(packets)
