"""Multicast groups that we listen to, and the sessions of their sources (RFC 3208 2, 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Protocol

from posthouse.protocols.pgm.receiver import Chance, Holding, PgmReceiver
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.protocols.timers import Timers
from posthouse.wire.pgm.packets import NAK, NCF, ODATA, RDATA, SPM, PgmPacket, Tsi, pack_nak

_OF_SOURCES = frozenset({SPM, ODATA, RDATA, NCF})
_BEGINS = frozenset({SPM, ODATA, RDATA})


class MulticastPlace(NamedTuple):
    """Where messages are multicast to: a group and a port (2.1.2)."""

    group: str
    port: int

    def __str__(self) -> str:
        return f"{self.group}:{self.port}"


class Audience(Protocol):
    """Who gets the reports of receivers."""

    def unit_came(self, place: MulticastPlace, source: str, unit: bytes) -> None:
        """An application data unit, in its source's order."""
        ...

    def packets_lost(self, place: MulticastPlace, receiver: PgmReceiver, count: int) -> None:
        """This many packets of a source will never come."""
        ...

    def send_nak(self, group: str, path: str, packet: bytes) -> None:
        """Asks for repairs."""
        ...


class PgmTimer:
    """A source or a receiver among the timers."""

    __slots__ = ("_deadline", "_tick")

    def __init__(self, tick: Callable[[], None], deadline: Callable[[], int | None]) -> None:
        self._tick = tick
        self._deadline = deadline

    def tick(self) -> None:
        """Does what is due."""
        self._tick()

    def next_deadline_ms(self) -> int | None:
        """When something is due again."""
        return self._deadline()


class Reception:
    """All groups that somebody here listens to. It is the `Listener` of every receiver."""

    def __init__(
        self,
        settings: PgmSettings,
        audience: Audience,
        timers: Timers,
        chance: Chance,
        now: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.counts: Counter[str] = Counter()
        self.holding = Holding(settings.receive_total)
        self._audience = audience
        self._timers = timers
        self._chance = chance
        self._now = now
        self._places: dict[MulticastPlace, dict[Tsi, PgmReceiver]] = {}
        self._of: dict[PgmReceiver, tuple[MulticastPlace, PgmTimer]] = {}

    @property
    def places(self) -> set[MulticastPlace]:
        """Where is listened."""
        return set(self._places)

    @property
    def receivers(self) -> list[PgmReceiver]:
        """The sessions, those that have ended too as long as their sources speak."""
        return list(self._of)

    def listen(self, place: MulticastPlace) -> None:
        """Sessions to this place are taken up."""
        self._places.setdefault(place, {})

    def leave(self, place: MulticastPlace) -> None:
        """No queue listens there after this."""
        for receiver in list(self._places.get(place, {}).values()):
            receiver.forget()
            self._drop(receiver)
        self._places.pop(place, None)

    def receive(self, group: str, packet: PgmPacket, sender: str) -> None:
        """A packet that was sent to a group."""
        place, kind = MulticastPlace(group, packet.port), packet.header.type
        sessions = self._places.get(place)
        if sessions is None or (kind not in _OF_SOURCES and kind != NAK):
            self.counts["ignored"] += 1
            return
        receiver = sessions.get(packet.tsi)
        if receiver is None and kind in _BEGINS and not packet.header.options.parity:
            receiver = self._take_up(place, packet.tsi, sender)
        if receiver is None:
            self.counts["ignored"] += 1
        elif kind != NAK and sender != receiver.source:
            self.counts["foreign"] += 1  # only the source's own address counts
        else:
            receiver.receive(packet, self._now())
            self._timers.arm(self._of[receiver][1])

    def _take_up(self, place: MulticastPlace, tsi: Tsi, sender: str) -> PgmReceiver | None:
        if len(self._of) >= self.settings.sessions_max and not self._make_room(sender):
            self.counts["sessions_refused"] += 1
            return None
        self.counts["sessions"] += 1
        now_ms = self._now()
        receiver = PgmReceiver(tsi, sender, self.settings, self, self._chance, self.holding, now_ms)
        timed = PgmTimer(lambda: self._tick(receiver), lambda: self._deadline_ms(receiver))
        self._places[place][tsi] = receiver
        self._of[receiver] = place, timed
        return receiver

    def _make_room(self, sender: str) -> bool:
        """Those that have ended are kept only so that their last words begin nothing new.

        Sessions are easy to make up: an address that has more than its share gives way to others.
        """
        given_up = next((one for one in self._of if one.ended), None)
        if given_up is None:
            shares = Counter(one.source for one in self._of)
            ((largest, count),) = shares.most_common(1)
            if count <= shares[sender] + 1:
                return False
            of_it = [one for one in self._of if one.source == largest]
            given_up = min(of_it, key=lambda one: one.heard_ms)
            given_up.forget()
        self._drop(given_up)
        return True

    def _drop(self, receiver: PgmReceiver) -> None:
        place, timed = self._of.pop(receiver)
        self._timers.forget(timed)
        self._places[place].pop(receiver.tsi, None)
        self.counts.update({f"past_{name}": n for name, n in receiver.counts.items()})

    # -- time

    def _deadline_ms(self, receiver: PgmReceiver) -> int | None:
        if receiver not in self._of:
            return None
        silent_at = receiver.heard_ms + self.settings.silence_ms
        due = receiver.next_deadline_ms()
        return silent_at if due is None else min(due, silent_at)

    def _tick(self, receiver: PgmReceiver) -> None:
        now_ms = self._now()
        if receiver not in self._of:
            return
        if now_ms >= receiver.heard_ms + self.settings.silence_ms:
            receiver.forget()
            self._drop(receiver)
        else:
            receiver.tick(now_ms)

    # -- Listener

    def deliver(self, receiver: PgmReceiver, unit: bytes) -> None:
        """The next unit of a session."""
        self._audience.unit_came(self._of[receiver][0], receiver.source, unit)

    def lost(self, receiver: PgmReceiver, count: int) -> None:
        """Unrecoverable loss is told."""
        self._audience.packets_lost(self._of[receiver][0], receiver, count)

    def send_nak(self, receiver: PgmReceiver, sequences: tuple[int, ...]) -> None:
        """6.3: to the last PGM hop on the way to the source."""
        place = self._of[receiver][0]
        packet = pack_nak(
            NAK,
            receiver.tsi,
            place.port,
            sequences=sequences,
            source=receiver.source,
            group=place.group,
        )
        assert receiver.path is not None
        self._audience.send_nak(place.group, receiver.path, packet)

    def count(self, name: str) -> int:
        """A figure of all sessions, past ones included."""
        return self.counts[f"past_{name}"] + sum(one.counts[name] for one in self._of)
