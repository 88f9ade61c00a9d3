"""The source role: one session that sends to one group (RFC 3208 5, [MC-MQSRM] 2.1.3.1)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.protocols.pgm.transmit_window import Kept, Sent, TransmitWindow
from posthouse.wire.pgm.options import FRAGMENT_SIZE, NO_OPTIONS, Fragment, Options, Reset
from posthouse.wire.pgm.packets import (
    DATA_OVERHEAD,
    NAK,
    NCF,
    ODATA,
    RDATA,
    SPM,
    Nak,
    PgmPacket,
    Tsi,
    distance,
    follow,
    pack_data,
    pack_nak,
    pack_nla,
    pack_spm,
)

_MS_PER_S = 1000


class TokenBucket:
    """This many bytes a second, and a little at once.

    It counts thousandths of bytes, so that no rate loses anything by rounding.
    """

    __slots__ = ("_at_ms", "_rate", "_size", "_tokens")

    def __init__(self, rate: int, bucket_ms: int, packet_bytes: int, now_ms: int) -> None:
        self._rate = rate
        # One packet has to fit, or it could never leave.
        self._size = max(rate * bucket_ms, packet_bytes * _MS_PER_S)
        self._tokens = self._size
        self._at_ms = now_ms

    def take(self, size: int, now_ms: int) -> bool:
        """Whether this many bytes may leave now; they are counted if so."""
        self._fill(now_ms)
        if self._tokens < size * _MS_PER_S:
            return False
        self._tokens -= size * _MS_PER_S
        return True

    def ready_ms(self, size: int, now_ms: int) -> int:
        """When this many bytes may leave."""
        self._fill(now_ms)
        missing = size * _MS_PER_S - self._tokens
        return now_ms if missing <= 0 else now_ms - (-missing // self._rate)

    def _fill(self, now_ms: int) -> None:
        if now_ms > self._at_ms:
            self._tokens = min(self._tokens + (now_ms - self._at_ms) * self._rate, self._size)
            self._at_ms = now_ms


FIRST_SPMS = 3  # a session begins with this many, for one may get lost
SPM_SIZE = 48  # with options
NEVER = 1 << 62


class PgmSession(NamedTuple):
    """Who sends whereto."""

    tsi: Tsi
    group: str
    port: int  # data-destination port: that of the format name
    address: str  # the source's own, unicast


class DataUnit(NamedTuple):
    """An application data unit, and the token by which its owner finds it."""

    token: Hashable
    data: bytes


class Source:
    """Numbers, sends and repairs. It has no clock: the time comes with every call.

    `multicast` gets each packet with its type; `sent` the tokens of units that are out as a whole.
    """

    def __init__(
        self,
        session: PgmSession,
        settings: PgmSettings,
        multicast: Callable[[int, bytes], None],
        sent: Callable[[list[Hashable]], None],
        *,
        first_sequence: int,
        now_ms: int,
        kept: Kept | None = None,
    ) -> None:
        self.session = session
        self.settings = settings
        kept = kept or Kept(settings.window_total)
        self.window = TransmitWindow(first_sequence, kept, settings.window_bytes)
        self.counts: Counter[str] = Counter()
        self.ended = False
        self.last_unit_ms = now_ms  # when there was something to send the last time
        self._multicast = multicast
        self._sent = sent
        self._bucket = TokenBucket(
            settings.rate, settings.bucket_ms, settings.packet_bytes + DATA_OVERHEAD, now_ms
        )
        self._units: deque[DataUnit] = deque()
        self._offset = 0  # into the first of them
        self._first = first_sequence  # the number that it began with
        self._repairs: dict[int, int] = {}  # number: when it is due
        self._repair_is_next = True  # repairs and new data take turns
        self._spm_sequence = 0
        self._spms_due = FIRST_SPMS
        self._data_since_spm = 0
        self._ambient_at = NEVER
        self._last_spm_ms = now_ms
        self._heartbeat_ms = settings.heartbeat_min_ms
        self._heartbeat_at = now_ms + settings.heartbeat_min_ms
        self._advance_at = now_ms + settings.advance_ms
        self._finishing = False
        self._finished_ms: int | None = None

    # -- calls of the owner

    def offer(self, token: Hashable, data: bytes, now_ms: int) -> None:
        """One more unit to send, after all others; none is longer than `unit_bytes`."""
        assert 0 < len(data) <= self.settings.unit_bytes
        assert not self._finishing
        self._units.append(DataUnit(token, data))
        self.last_unit_ms = now_ms

    def withdraw(self) -> list[Hashable]:
        """Takes back what is not begun; returns its tokens."""
        kept = 1 if self._offset else 0
        tokens = [unit.token for unit in list(self._units)[kept:]]
        while len(self._units) > kept:
            self._units.pop()
        return tokens

    @property
    def unsent_bytes(self) -> int:
        """What is offered and not yet out."""
        return sum(len(unit.data) for unit in self._units) - self._offset

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be sent or sent again."""
        return not self._units and not self._repairs

    @property
    def is_finishing(self) -> bool:
        """Whether it takes no more units."""
        return self._finishing

    def finish(self, now_ms: int) -> None:
        """OPT_FIN (9.7.2): ends when all is out and the window has passed; repairs until then."""
        if not self._finishing:
            self._finishing = True
            self._end_if_all_is_out(now_ms)
            self.tick(now_ms)

    def cancel(self) -> None:
        """OPT_RST (9.8.2): sends are given up; the session is over, NAKs have no effect."""
        if not self.ended:
            self._send_spm(NO_OPTIONS._replace(reset=Reset()))
            self._end()

    def _end(self) -> None:
        self.ended = True
        self._units.clear()
        self._repairs.clear()
        self.window.clear()

    def _end_if_all_is_out(self, now_ms: int) -> None:
        if self._finishing and not self._units and self._finished_ms is None:
            self._finished_ms = now_ms
            self._spms_due = max(self._spms_due, 1)
            self._beat_anew(now_ms)

    # -- packets of receivers

    def receive(self, packet: PgmPacket, now_ms: int) -> None:
        """A NAK for this session; anything else has no effect on a source."""
        nak = packet.body
        if self.ended or packet.header.type != NAK or not isinstance(nak, Nak):
            return
        session = self.session
        ours = pack_nla(session.address), pack_nla(session.group)
        if packet.header.options.parity or (nak.source, nak.group) != ours:
            self.counts["naks_ignored"] += 1
            return
        known = tuple(n for n in packet.sequences if self.window.get(n) is not None)
        if len(known) < len(packet.sequences):
            self.counts["naks_outside"] += 1
        if known:
            self.counts["naks"] += 1
            self._confirm(known)
            for sequence in known:
                self._repairs.setdefault(sequence, now_ms + self._repair_delay_ms(sequence))
        self._pump(now_ms)

    def _confirm(self, sequences: tuple[int, ...]) -> None:
        """An NCF at once (5.2), outside of the rate."""
        session = self.session
        packet = pack_nak(
            NCF,
            session.tsi,
            session.port,
            sequences=sequences,
            source=session.address,
            group=session.group,
        )
        self._put(NCF, packet)

    def _repair_delay_ms(self, sequence: int) -> int:
        """[MC-MQSRM] 2.1.3.1: older packets are repaired first."""
        trailing, leading = self.window.trailing, self.window.leading
        steps = distance(leading, trailing) + 1
        return distance(sequence, trailing) * self.settings.repair_delay_ms // steps

    # -- time

    def tick(self, now_ms: int) -> None:
        """Everything that is due, as far as the rate allows."""
        if self.ended:
            return
        if now_ms >= self._advance_at:
            self._advance(now_ms)
        if now_ms >= self._ambient_at:
            self._spms_due = max(self._spms_due, 1)
            self._ambient_at = NEVER
        if now_ms >= self._heartbeat_at:
            self._spms_due = max(self._spms_due, 1)
            self._heartbeat_ms = min(self._heartbeat_ms * 2, self.settings.heartbeat_max_ms)
            self._heartbeat_at = now_ms + self._heartbeat_ms
        self._pump(now_ms)
        if self._finished_ms is not None and now_ms >= self._finished_ms + self.settings.window_ms:
            self._end()

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When `tick` has something to do."""
        if self.ended:
            return None
        waits = [self._ambient_at, self._heartbeat_at]
        if len(self.window):
            waits.append(self._advance_at)
        if self._finished_ms is not None:
            waits.append(self._finished_ms + self.settings.window_ms)
        if self._spms_due:
            waits.append(self._bucket.ready_ms(SPM_SIZE, now_ms))
        size = self._next_size(now_ms)
        if size:
            waits.append(self._bucket.ready_ms(size, now_ms))
        elif self._repairs:
            waits.append(min(self._repairs.values()))
        return min(waits)

    def _advance(self, now_ms: int) -> None:
        """The window moves in steps of TXW_ADV_IVL, never past a repair that is due (2.1.3.1)."""
        trailing = self.window.trailing
        first = min(self._repairs, key=lambda n: distance(n, trailing), default=None)
        self.window.advance(now_ms - self.settings.window_ms, first)
        missed = (now_ms - self._advance_at) // self.settings.advance_ms
        self._advance_at += (missed + 1) * self.settings.advance_ms

    def _beat_anew(self, now_ms: int) -> None:
        self._heartbeat_ms = self.settings.heartbeat_min_ms
        self._heartbeat_at = now_ms + self._heartbeat_ms

    # -- sending: SPMs first, then repairs and new data in turns (5.1.3)

    def _pump(self, now_ms: int) -> None:
        out: list[Hashable] = []
        while self._send_next(now_ms, out):
            pass
        if out:
            self._end_if_all_is_out(now_ms)
            self._sent(out)
            while self._spms_due and self._send_next(now_ms, out):
                pass

    def _send_next(self, now_ms: int, out: list[Hashable]) -> bool:
        if self._spms_due:
            if not self._bucket.take(SPM_SIZE, now_ms):
                return False
            self._spms_due -= 1
            self._send_spm(NO_OPTIONS._replace(fin=self._finished_ms is not None))
            self._last_spm_ms = now_ms
            return True
        repair = self._due_repair(now_ms)
        if repair is not None:
            return self._send_repair(repair, now_ms)
        return self._may_send_data and self._send_data(now_ms, out)

    @property
    def _may_send_data(self) -> bool:
        """Whether there is something new, and room for it in the window."""
        return bool(self._units) and not self.window.is_full

    def _next_size(self, now_ms: int) -> int:
        """What the next data packet counts for; 0: there is none to send now."""
        repair = self._due_repair(now_ms)
        if repair is not None:
            return self._repair_size(repair)
        return self._data_size if self._may_send_data else 0

    def _send_spm(self, options: Options) -> None:
        session, window = self.session, self.window
        self._spm_sequence = follow(self._spm_sequence)
        packet = pack_spm(
            session.tsi,
            session.port,
            sequence=self._spm_sequence,
            trailing=window.trailing,
            leading=window.leading,
            path=session.address,
            options=options,
        )
        self._data_since_spm = 0
        self._ambient_at = NEVER
        self._put(SPM, packet)

    def _due_repair(self, now_ms: int) -> int | None:
        """The repair to send next; new data has its turn after each."""
        if not self._repairs or (self._may_send_data and not self._repair_is_next):
            return None
        due = [(at, n) for n, at in self._repairs.items() if at <= now_ms]
        return min(due)[1] if due else None

    def _repair_size(self, sequence: int) -> int:
        packet = self.window.get(sequence)
        assert packet is not None, "the window does not pass pending repairs"
        return DATA_OVERHEAD + len(packet.data)

    def _send_repair(self, sequence: int, now_ms: int) -> bool:
        """RDATA (5.3): the same number and data, the trailing edge of now."""
        packet = self.window.get(sequence)
        if not self._bucket.take(self._repair_size(sequence), now_ms):
            return False
        assert packet is not None
        del self._repairs[sequence]
        last = self._finished_ms is not None and sequence == self.window.leading
        options = packet.options._replace(fin=True) if last else packet.options
        self._put_data(RDATA, sequence, packet.data, options)
        self._repair_is_next = False
        self._data_has_gone(now_ms)
        return True

    @property
    def _data_size(self) -> int:
        rest = len(self._units[0].data) - self._offset
        return DATA_OVERHEAD + min(rest, self.settings.packet_bytes - DATA_OVERHEAD)

    def _send_data(self, now_ms: int, out: list[Hashable]) -> bool:
        """ODATA (5.1.1): the next packet of the first unit, in fragments where it is long."""
        if not self._bucket.take(self._data_size, now_ms):
            return False
        unit, start = self._units[0], self._offset
        if not start:
            self._first = self.window.next_sequence
        room = self.settings.packet_bytes - DATA_OVERHEAD
        whole = len(unit.data) <= room + FRAGMENT_SIZE and not start
        end = len(unit.data) if whole else min(start + room, len(unit.data))
        fragment = None if whole else Fragment(self._first, start, len(unit.data))
        is_last = end == len(unit.data)
        self._put_original(unit.data[start:end], fragment, now_ms, last=is_last)
        self._offset = 0 if is_last else end
        if is_last:
            out.append(self._units.popleft().token)
        return True

    def _put_original(
        self, data: bytes, fragment: Fragment | None, now_ms: int, *, last: bool
    ) -> None:
        options = NO_OPTIONS if fragment is None else NO_OPTIONS._replace(fragment=fragment)
        sequence = self.window.add(Sent(now_ms, data, options))
        if last and self._finishing and len(self._units) == 1:
            options = options._replace(fin=True)
        self._put_data(ODATA, sequence, data, options)
        self._repair_is_next = True
        self.last_unit_ms = now_ms
        self._data_has_gone(now_ms)

    def _put_data(self, kind: int, sequence: int, data: bytes, options: Options) -> None:
        session = self.session
        packet = pack_data(
            kind,
            session.tsi,
            session.port,
            sequence=sequence,
            trailing=self.window.trailing,
            data=data,
            options=options,
        )
        self._put(kind, packet)

    def _data_has_gone(self, now_ms: int) -> None:
        """[MC-MQSRM] 2.1.3.1: an ambient SPM each 50 data packets or 0.5 s."""
        settings = self.settings
        self._beat_anew(now_ms)
        self._data_since_spm += 1
        if self._data_since_spm >= settings.ambient_packets:
            self._spms_due = max(self._spms_due, 1)
        elif self._ambient_at == NEVER:
            self._ambient_at = max(self._last_spm_ms + settings.ambient_ms, now_ms)

    def _put(self, kind: int, packet: bytes) -> None:
        self.counts["packets"] += 1
        self.counts["bytes"] += len(packet)
        self.counts[_COUNTED[kind]] += 1
        self._multicast(kind, packet)


_COUNTED = {SPM: "spms", ODATA: "data", RDATA: "repairs", NCF: "confirmations"}
