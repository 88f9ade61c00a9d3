"""The receiver role: what one source sends, in order and complete (RFC 3208 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.protocols.pgm.unit_assembly import Assembly
from posthouse.wire.pgm.options import NAK_LIST_MAX
from posthouse.wire.pgm.packets import (
    NAK,
    NCF,
    RDATA,
    Data,
    Nak,
    PgmPacket,
    Spm,
    Tsi,
    distance,
    follow,
    unpack_nla,
)

PACKET_COST = 512  # what a packet takes in memory beside its data
ASKED_MAX = 1_024  # numbers that repairs are asked for at once; the others wait for their turn

BACK_OFF, WAIT_NCF, WAIT_DATA, GIVEN_UP = range(4)
Chance = Callable[[int, int], int]
"""A number between two, both included."""


class Missing:
    """A number that was not received: how far asking for it has come (6.3)."""

    __slots__ = ("at_ms", "confirmed", "state", "tries")

    def __init__(self) -> None:
        self.state = BACK_OFF
        self.at_ms = 0  # when the state ends by itself
        self.tries = 0  # NAKs without confirmation, in a row
        self.confirmed = 0  # waits for data that brought none


class Holding:
    """What all receivers together hold of packets whose turn has not come."""

    __slots__ = ("bytes", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0


class Listener(Protocol):
    """Who a receiver works for."""

    def deliver(self, receiver: PgmReceiver, unit: bytes) -> None:
        """The next application data unit."""
        ...

    def lost(self, receiver: PgmReceiver, count: int) -> None:
        """This many packets will never come (6.3: unrecoverable data loss)."""
        ...

    def send_nak(self, receiver: PgmReceiver, sequences: tuple[int, ...]) -> None:
        """Sends a NAK to the path address, and to the group."""
        ...


class PgmReceiver:
    """One session of a source, as seen from here. The time comes with every call."""

    def __init__(
        self,
        tsi: Tsi,
        source: str,
        settings: PgmSettings,
        listener: Listener,
        chance: Chance,
        holding: Holding,
        now_ms: int,
    ) -> None:
        self.tsi = tsi
        self.source = source  # the address that its packets come from
        self.path: str | None = None  # where NAKs go, once an SPM has told
        self.settings = settings
        self.counts: Counter[str] = Counter()
        self.ended = ""  # why, once it is
        self.heard_ms = now_ms
        self.held_bytes = 0
        self._listener = listener
        self._chance = chance
        self._holding = holding
        self._spm_sequence: int | None = None
        self._next: int | None = None  # the first number that is not delivered; None: none seen
        self._leading = 0  # the last number that is known to exist
        self._asked = 0  # up to here every number is held, delivered or in `_missing`
        self._held: dict[int, PgmPacket] = {}
        self._missing: dict[int, Missing] = {}
        self._heap: list[tuple[int, int]] = []  # of deadlines; those that no longer hold, too
        self._final: int | None = None  # the last number there will ever be
        self._assembly = Assembly(settings.unit_bytes)

    @property
    def missing(self) -> int:
        """How many numbers are being asked for."""
        return len(self._missing)

    # -- what comes from the source

    def receive(self, packet: PgmPacket, now_ms: int) -> None:
        """A packet of this session, of the source's or another receiver's NAK."""
        body = packet.body
        if isinstance(body, Nak):
            self._matching(packet, now_ms)
        elif packet.header.options.parity:
            self.counts["ignored"] += 1  # of forward error correction, which is left out
        elif isinstance(body, Spm):
            self.heard_ms = now_ms
            self._spm(packet, body, now_ms)
        elif isinstance(body, Data):
            self.heard_ms = now_ms
            self._data(packet, body, now_ms)

    def _spm(self, packet: PgmPacket, spm: Spm, now_ms: int) -> None:
        """Source Path Messages (6.2)."""
        last = self._spm_sequence
        if self.ended or (last is not None and distance(spm.sequence, last) <= 0):
            return
        self._spm_sequence = spm.sequence
        self._learn_path(unpack_nla(spm.path), now_ms)
        if packet.options.reset is not None:
            self._end("reset by its source")
            return
        if self._next is None:
            self._begin(follow(spm.leading))
        if packet.options.fin:
            self._final = spm.leading
        self._trail(spm.trailing)
        self._extend(spm.leading)
        self._deliver()
        self._ask(now_ms)

    def _learn_path(self, path: str, now_ms: int) -> None:
        """Notes the last PGM hop on the way to the source, if the operator has listed it.

        Otherwise a stranger could make us send NAKs to any address at any rate. In that case the
        source gets the NAKs; it answers them as well (RFC 3208 16).
        """
        if path != self.source and path not in self.settings.network_elements:
            self.counts["paths_refused"] += 1
            path = self.source
        if self.path is None:
            for sequence, missing in self._missing.items():  # they could not be asked for so far
                self._back_off(sequence, missing, now_ms)
        self.path = path

    def _begin(self, sequence: int) -> None:
        """6.1: with the first data or SPM seen; nothing in front of it is asked for."""
        self._next = sequence
        self._leading = self._asked = follow(sequence, -1)

    def _data(self, packet: PgmPacket, data: Data, now_ms: int) -> None:
        """Receiving and discarding data packets (6.1)."""
        if self.ended:
            return
        if self._next is None:
            self._begin(data.sequence)
        self._trail(data.trailing)
        if self._accepts(packet, data.sequence):
            if packet.options.fin:
                self._final = data.sequence
            self._hold(packet, data.sequence)
            self._extend(data.sequence)
            if packet.header.type == RDATA:
                self.counts["repaired"] += 1
        self._deliver()
        self._ask(now_ms)

    def _accepts(self, packet: PgmPacket, sequence: int) -> bool:
        assert self._next is not None
        ahead = distance(sequence, self._next)
        if ahead < 0 or sequence in self._held:
            self.counts["duplicates"] += 1
            return False
        holding, more = self._holding, _cost(packet)
        full = self.held_bytes + more > self.settings.receive_bytes
        full = full or holding.bytes + more > holding.limit
        if ahead >= self.settings.receive_packets or (full and ahead):
            self.counts["beyond"] += 1  # it is asked for when there is room
            return False
        return True

    def _hold(self, packet: PgmPacket, sequence: int) -> None:
        self._held[sequence] = packet
        self._count(_cost(packet))
        self._missing.pop(sequence, None)

    def _count(self, grown: int) -> None:
        self.held_bytes += grown
        self._holding.bytes += grown

    # -- the window

    def _trail(self, trailing: int) -> None:
        """What lies in front of the trailing edge and is no longer here cannot be had (6.3)."""
        assert self._next is not None
        if distance(trailing, self._next) <= 0:
            return
        passed = [n for n in self._held if distance(n, trailing) < 0]
        for sequence in sorted(passed, key=lambda n: distance(n, trailing)):
            self._skip(distance(sequence, self._next))
            self._take(sequence)
        self._skip(distance(trailing, self._next))
        for sequence in [n for n in self._missing if distance(n, trailing) < 0]:
            del self._missing[sequence]
        if distance(trailing, self._leading) > 0:
            self._leading = follow(trailing, -1)

    def _skip(self, count: int) -> None:
        """This many numbers are given up."""
        if count:
            assert self._next is not None
            self._next = follow(self._next, count)
            self._assembly.broken()
            self.counts["lost"] += count
            self._listener.lost(self, count)

    def _extend(self, leading: int) -> None:
        """There are packets up to this number; only this many fit into the window."""
        assert self._next is not None
        last = follow(self._next, self.settings.receive_packets - 1)
        if distance(leading, last) > 0:
            leading = last
        if distance(leading, self._leading) > 0:
            self._leading = leading

    def _deliver(self) -> None:
        """Contiguous data, in the order of its numbers (6.1)."""
        while not self.ended and self._next is not None:
            missing = self._missing.get(self._next)
            if self._next in self._held:
                self._take(self._next)
            elif missing is not None and missing.state == GIVEN_UP:
                del self._missing[self._next]
                self._skip(1)
            else:
                break
        if not self.ended and self._is_complete:
            self._end("finished")

    @property
    def _is_complete(self) -> bool:
        """Whether everything up to OPT_FIN is delivered or given up."""
        final, following = self._final, self._next
        return final is not None and following is not None and distance(following, final) > 0

    def _take(self, sequence: int) -> None:
        packet = self._held.pop(sequence)
        self._count(-_cost(packet))
        self._next = follow(sequence)
        unit = self._assembly.add(sequence, packet.options.fragment, packet.data)
        if unit:
            self.counts["units"] += 1
            self._listener.deliver(self, unit)

    def forget(self) -> None:
        """No queue listens after this."""
        self._end("left")

    def _end(self, why: str) -> None:
        self.ended = why
        self._count(-self.held_bytes)
        self._held.clear()
        self._missing.clear()
        self._heap.clear()
        self._assembly.broken()

    # -- what is missing (6.3)

    def _ask(self, now_ms: int) -> None:
        """New numbers go to back-off, not too many at once."""
        if self._next is not None and distance(self._next, self._asked) > 1:
            self._asked = follow(self._next, -1)
        while len(self._missing) < ASKED_MAX and distance(self._leading, self._asked) > 0:
            self._asked = follow(self._asked)
            if self._asked not in self._held:
                missing = self._missing[self._asked] = Missing()
                self._back_off(self._asked, missing, now_ms)

    def _back_off(self, sequence: int, missing: Missing, now_ms: int) -> None:
        settings = self.settings
        wait_ms = self._chance(settings.back_off_min_ms, settings.back_off_max_ms)
        self._set(sequence, missing, BACK_OFF, now_ms + wait_ms)

    def _set(self, sequence: int, missing: Missing, state: int, at_ms: int) -> None:
        missing.state, missing.at_ms = state, at_ms
        heappush(self._heap, (at_ms, sequence))
        if len(self._heap) > 4 * ASKED_MAX:  # most of it no longer holds
            self._heap = [(m.at_ms, n) for n, m in self._missing.items() if m.state != GIVEN_UP]
            heapify(self._heap)

    def _matching(self, packet: PgmPacket, now_ms: int) -> None:
        """NCFs, and NAKs of other receivers."""
        kind = packet.header.type
        if self.ended or self._next is None or kind not in (NAK, NCF):
            return
        if packet.header.options.parity:
            return
        if kind == NCF:
            self._find_by(packet.sequences, now_ms)
        for sequence in packet.sequences:
            missing = self._missing.get(sequence)
            if missing is not None:
                self._suppress(sequence, missing, kind, now_ms)

    def _find_by(self, sequences: tuple[int, ...], now_ms: int) -> None:
        """A confirmed number that was never seen is a loss."""
        assert self._next is not None
        for sequence in sequences:
            if 0 <= distance(sequence, self._next) < self.settings.receive_packets:
                self._extend(sequence)
        self._ask(now_ms)

    def _suppress(self, sequence: int, missing: Missing, kind: int, now_ms: int) -> None:
        settings = self.settings
        if missing.state == GIVEN_UP:
            return
        if kind == NCF:
            missing.tries = 0
        if kind == NCF or missing.state in (BACK_OFF, WAIT_DATA):
            self._set(sequence, missing, WAIT_DATA, now_ms + settings.repair_wait_ms)

    # -- time

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        while self._heap:
            at_ms, sequence = self._heap[0]
            missing = self._missing.get(sequence)
            if missing is not None and missing.at_ms == at_ms:
                return at_ms
            heappop(self._heap)
        return None

    def tick(self, now_ms: int) -> None:
        """Numbers whose wait is over."""
        due: list[int] = []
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, sequence = heappop(self._heap)
            missing = self._missing.get(sequence)
            if missing is not None and missing.at_ms == at_ms:
                if missing.state == BACK_OFF:
                    due.append(sequence)
                else:
                    self._expired(sequence, missing, now_ms)
        if due:
            self._nak(due, now_ms)
        self._deliver()
        self._ask(now_ms)

    def _expired(self, sequence: int, missing: Missing, now_ms: int) -> None:
        """No NCF, or no data, in time: back to the beginning, or the end (6.3)."""
        settings = self.settings
        if missing.state == WAIT_NCF:
            missing.tries += 1
        else:
            missing.confirmed += 1
        if missing.tries >= settings.nak_retries or missing.confirmed >= settings.data_retries:
            missing.state, missing.at_ms = GIVEN_UP, -1
        else:
            self._back_off(sequence, missing, now_ms)

    def _nak(self, due: list[int], now_ms: int) -> None:
        """Sends NAKs for what is due: none before an SPM has given the path (6.2), the oldest
        first (6.3).
        """
        settings = self.settings
        if self.path is None:
            for sequence in due:
                at_ms = now_ms + settings.nak_repeat_ms
                self._set(sequence, self._missing[sequence], BACK_OFF, at_ms)
            return
        assert self._next is not None
        following = self._next
        due.sort(key=lambda n: distance(n, following))
        for sequence in due:
            at_ms = now_ms + settings.nak_repeat_ms
            self._set(sequence, self._missing[sequence], WAIT_NCF, at_ms)
        for at in range(0, len(due), NAK_LIST_MAX + 1):
            self.counts["naks"] += 1
            self._listener.send_nak(self, tuple(due[at : at + NAK_LIST_MAX + 1]))


def _cost(packet: PgmPacket) -> int:
    return PACKET_COST + len(packet.data)
