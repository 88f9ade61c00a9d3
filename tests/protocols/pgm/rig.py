"""A source and receivers of PGM without a network: packets are caught and handed in by hand."""

from __future__ import annotations

from collections.abc import Hashable

from posthouse.protocols.pgm.receiver import Holding, PgmReceiver
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.protocols.pgm.source import PgmSession, Source
from posthouse.wire.pgm.options import NO_OPTIONS, Fragment, Options
from posthouse.wire.pgm.packets import (
    NAK,
    NCF,
    ODATA,
    RDATA,
    SPM,
    Data,
    Nak,
    PgmPacket,
    Spm,
    Tsi,
    pack_data,
    pack_nak,
    pack_spm,
    read_pgm,
)

TSI = Tsi(b"gsigsi", 4711)
GROUP, PORT, OWN, OTHER = "234.1.1.1", 8001, "10.0.0.1", "10.0.0.2"
FIRST = 0xFFFF_FFF0  # numbers wrap soon
FAST = PgmSettings(rate=100_000_000)
MIDDLE = 30  # what the rigged chance gives for back-off


class Sender:
    """A source whose packets are kept."""

    def __init__(self, settings: PgmSettings = FAST, now_ms: int = 0) -> None:
        self.settings = settings
        self.now_ms = now_ms
        self.packets: list[tuple[int, PgmPacket]] = []  # with the time
        self.raw: list[tuple[int, bytes]] = []  # type and bytes
        self.out: list[Hashable] = []
        self.source = Source(
            PgmSession(TSI, GROUP, PORT, OWN),
            settings,
            self._multicast,
            self.out.extend,
            first_sequence=FIRST,
            now_ms=now_ms,
        )

    def _multicast(self, kind: int, packet: bytes) -> None:
        read = read_pgm(packet)
        assert read.header.type == kind
        self.packets.append((self.now_ms, read))
        self.raw.append((kind, packet))

    def offer(self, *units: bytes) -> None:
        for unit in units:
            self.source.offer(unit, unit, self.now_ms)
        self.source.tick(self.now_ms)

    def run_until(self, until_ms: int) -> None:
        """All ticks that the source asks for, up to that time."""
        for _ in range(2_000_000):
            due = self.source.next_deadline_ms(self.now_ms)
            if due is None or due > until_ms:
                break
            self.now_ms = max(due, self.now_ms)
            before = len(self.packets)
            self.source.tick(self.now_ms)
            again = self.source.next_deadline_ms(self.now_ms)
            assert again is None or again > self.now_ms or len(self.packets) > before
        self.now_ms = max(self.now_ms, until_ms)

    def nak(self, *sequences: int, source: str = OWN, group: str = GROUP, tsi: Tsi = TSI) -> None:
        packet = pack_nak(NAK, tsi, PORT, sequences=sequences, source=source, group=group)
        self.source.receive(read_pgm(packet), self.now_ms)

    def of(self, *kinds: int) -> list[PgmPacket]:
        return [packet for _, packet in self.packets if packet.header.type in kinds]

    def times(self, *kinds: int) -> list[int]:
        return [at for at, packet in self.packets if packet.header.type in kinds]

    def numbers(self, kind: int = ODATA) -> list[int]:
        return [packet.body.sequence for packet in self.of(kind) if isinstance(packet.body, Data)]

    def confirmed(self) -> list[tuple[int, ...]]:
        return [packet.sequences for packet in self.of(NCF)]

    def last_spm(self) -> Spm:
        body = self.of(SPM)[-1].body
        assert isinstance(body, Spm)
        return body


class Hearer:
    """A receiver, and the listener that it works for."""

    def __init__(self, settings: PgmSettings = FAST, limit: int = 1 << 30) -> None:
        self.units: list[bytes] = []
        self.losses: list[int] = []
        self.naks: list[tuple[int, tuple[int, ...]]] = []  # with the time
        self.now_ms = 0
        self.holding = Holding(limit)
        self.receiver = PgmReceiver(
            TSI, OWN, settings, self, lambda low, high: (low + high) // 2, self.holding, 0
        )

    def deliver(self, receiver: PgmReceiver, unit: bytes) -> None:
        self.units.append(unit)

    def lost(self, receiver: PgmReceiver, count: int) -> None:
        self.losses.append(count)

    def send_nak(self, receiver: PgmReceiver, sequences: tuple[int, ...]) -> None:
        self.naks.append((self.now_ms, sequences))

    def spm(
        self,
        leading: int,
        *,
        trailing: int = FIRST,
        sequence: int = 1,
        path: str = OWN,
        options: Options = NO_OPTIONS,
    ) -> None:
        packet = pack_spm(
            TSI,
            PORT,
            sequence=sequence,
            trailing=trailing,
            leading=leading,
            path=path,
            options=options,
        )
        self.receiver.receive(read_pgm(packet), self.now_ms)

    def data(
        self,
        sequence: int,
        data: bytes | None = None,
        *,
        trailing: int = FIRST,
        kind: int = ODATA,
        fragment: Fragment | None = None,
        options: Options = NO_OPTIONS,
    ) -> None:
        packet = pack_data(
            kind,
            TSI,
            PORT,
            sequence=sequence,
            trailing=trailing,
            data=b"%d" % sequence if data is None else data,
            options=options._replace(fragment=fragment),
        )
        self.receiver.receive(read_pgm(packet), self.now_ms)

    def repair(self, sequence: int, *, trailing: int = FIRST) -> None:
        self.data(sequence, trailing=trailing, kind=RDATA)

    def hear(self, kind: int, *sequences: int) -> None:
        packet = pack_nak(kind, TSI, PORT, sequences=sequences, source=OWN, group=GROUP)
        self.receiver.receive(read_pgm(packet), self.now_ms)

    def run_until(self, until_ms: int) -> None:
        while True:
            due = self.receiver.next_deadline_ms()
            if due is None or due > until_ms:
                break
            assert due >= self.now_ms
            self.now_ms = due
            self.receiver.tick(due)
        self.now_ms = until_ms

    def asked(self) -> list[int]:
        return [number for _, sequences in self.naks for number in sequences]

    def texts(self, *sequences: int) -> list[bytes]:
        return [b"%d" % sequence for sequence in sequences]


__all__ = ["NAK", "NCF", "RDATA", "SPM", "Hearer", "Nak", "Sender"]
