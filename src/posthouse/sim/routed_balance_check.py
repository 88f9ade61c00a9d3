"""Checks the books of a routed trial: hop by hop, and with messages that go in circles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from posthouse.directory.routing import HOPS_MAX
from posthouse.engine.ledger.effects import Effects, Event
from posthouse.engine.ledger.records import EXPRESS, MESSAGE, unpack_arrival
from posthouse.engine.queues.queue import DEADLETTER
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import ACK_NEG_ARRIVAL, ACK_REACH_QUEUE, ACK_RECEIVE
from posthouse.model.message_classes import NACK_HOP_COUNT_EXCEEDED, NORMAL
from posthouse.sim.balance_check import Account, Traces
from posthouse.sim.managers import SimManager
from posthouse.sim.messages import STRANGE, End, Letter, Told
from posthouse.wire.binary.order_acks import ack_class
from posthouse.wire.packet.headers import HOPS
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize

Sheet = tuple[str, int]
"""Label and class: a message and reports of it have one label and different classes."""


class Ways:
    """What routers do with messages, as it is decided; what a crash undoes is decided again."""

    def __init__(self) -> None:
        self.hops: dict[Sheet, set[int]] = {}  # hop counts that messages were passed on with
        self.copies: dict[Sheet, Counter[str]] = {}  # how often somebody had them to pass on
        self.refused: Counter[Sheet] = Counter()  # for their hop count; perhaps undone
        self.surely_refused: Counter[Sheet] = Counter()
        self.faults: list[str] = []

    def turned(self, machine: SimManager, effects: Effects) -> None:
        """A turn of a router is about to be written down."""
        own = machine.manager.machine.identifier
        for kind, _, head, packet in effects.records:
            if kind not in (MESSAGE, EXPRESS):
                continue
            if unpack_arrival(head + packet).row.queue != DEADLETTER:  # refused: not passed on
                self._stored(machine.name, own, packet)
        for event in effects.events:
            if event.name == "hop_count_exceeded":
                self._exceeded(_sheet(event), event.details["hops"])

    def told(self, machine: SimManager, event: Event) -> None:
        """What a router reports is durable."""
        if event.name == "hop_count_exceeded":
            self.surely_refused[_sheet(event)] += 1

    def _stored(self, machine: str, own: bytes, packet: bytes) -> None:
        """Of what others have sent to others, each hop comes after the one before."""
        seen = summarize(packet)
        hops = seen.user_flags & HOPS
        if seen.address_guid in (NULL_GUID, own) or (seen.source_guid == own and not hops):
            return
        if ack_class(packet, seen.base_flags, seen.user_flags):
            return  # all of them have one label
        sheet = Packet(packet, seen).label, seen.message_class
        if sheet[0].startswith(STRANGE):
            return  # it comes with any hop count
        before = self.hops.setdefault(sheet, set())
        if not hops or (hops > 1 and hops - 1 not in before):
            self.faults.append(f"{sheet} has hop count {hops} at {machine}, before: {before}")
        before.add(hops)
        self.copies.setdefault(sheet, Counter())[machine] += 1

    def _exceeded(self, sheet: Sheet, hops: object) -> None:
        self.refused[sheet] += 1
        if sheet in self.hops and (hops != HOPS_MAX or HOPS_MAX not in self.hops[sheet]):
            self.faults.append(f"{sheet} was refused after {hops} hops, seen {self.hops[sheet]}")


def _sheet(event: Event) -> Sheet:
    return str(event.details["label"])[1:-1], int(str(event.details["code"]))


class RoutedAccount(Account):
    """The account of a routed trial: more machines may lose, delay or loop messages."""

    def __init__(
        self,
        told: Told,
        machines: list[SimManager],
        *,
        insecure_nacks: bool,
        tight: frozenset[str],
        routers: frozenset[str],
        ways: Ways,
    ) -> None:
        super().__init__(told, machines, insecure_nacks=insecure_nacks, tight=tight)
        self.routers = sorted(routers)
        self.ways = ways

    def check(self) -> list[str]:
        """Looks at everything."""
        for name, hops in self.told.hops.items():
            if hops > HOPS_MAX:
                self._fault(f"{name} came over {hops} routers")
        self.faults += self.ways.faults
        return super().check()

    def _on_the_way(self, letter: Letter) -> list[SimManager]:
        found = super()._on_the_way(letter)
        return found + [self.machines[name] for name in self.routers]

    # -- what a circle leaves

    def _traces_of(self, letter: Letter) -> Traces:
        """The traces of a message, without dead letters and acknowledgments for going round in a
        circle.

        Each refusal leaves what its sender has asked for, and nothing else does.
        """
        traces = super()._traces_of(letter)
        dead, negative = self._dead_of_circles(letter), self._told_of_circles(letter)
        here = dead.pop(letter.sender, 0)
        return traces._replace(
            dead_at_sender=traces.dead_at_sender - here,
            dead_elsewhere=traces.dead_elsewhere - sum(dead.values()),
            negative=traces.negative - negative,
        )

    def _refusals(self, letter: Letter, message_class: int = NORMAL) -> tuple[int, int]:
        """How often it was refused for its hop count: surely, and at most."""
        sheet = letter.name, message_class
        return self.ways.surely_refused[sheet], self.ways.refused[sheet]

    def _dead_of_circles(self, letter: Letter) -> Counter[str]:
        """Dead letters for a circle, by machine; those of a sequence are at their sender."""
        reasons, its_own = self.found.reasons, self._is_sequenced(letter)
        machines = [name for name in self.machines if name != letter.sender or not its_own]
        why = letter.name, NACK_HOP_COUNT_EXCEEDED
        dead = Counter({name: n for name in machines if (n := reasons[(name, *why)])})
        least, most = self._refusals(letter)
        if its_own or not letter.negative:
            least = most = 0
        if not least <= dead.total() <= most:
            self._fault(f"{letter.name}: {dead} for {least} to {most} refusals in circles")
        return dead

    def _told_of_circles(self, letter: Letter) -> int:
        """Negative acknowledgments for a circle; they may have gone round in circles themselves."""
        found = self.found.acks[letter.name, NACK_HOP_COUNT_EXCEEDED]
        least, most = self._refusals(letter)
        lost = self._refusals(letter, NACK_HOP_COUNT_EXCEEDED)[1]
        if not self._is_told(letter, ACK_NEG_ARRIVAL):
            most = 0
        least = min(least, most, 0 if lost else 1)
        if not least <= found <= most:
            self._fault(f"{letter.name}: {found} acknowledgments for {most} refusals in circles")
        return found

    def _is_sequenced(self, letter: Letter) -> bool:
        return letter.kind == "transactional"

    # -- outcomes

    def _outcomes(self, letter: Letter, ends: set[End]) -> Iterator[Traces]:
        """More may be told of what hurries; less of what was refused in a circle, or told there."""
        found = list(super()._outcomes(letter, ends))
        if letter.fate != "aborted":
            if self._refusals(letter)[1]:
                found += self._circled(letter, ends)
            if letter.hurries:
                found += self._hurried(letter, ends)
        yield from self._untold(letter, found)

    def _circled(self, letter: Letter, ends: set[End]) -> Iterator[Traces]:
        """It did not come, or another copy of it did: its sender takes the first answer it gets."""
        sequenced = self._is_sequenced(letter)
        gone = Traces(
            journal=int(letter.positive and not sequenced),
            dead_at_sender=int(letter.negative and sequenced),
        )
        yield gone
        if sequenced:
            for end in ends:
                yield self._ended(letter, end)._replace(
                    journal=0, dead_at_sender=gone.dead_at_sender
                )

    def _hurried(self, letter: Letter, ends: set[End]) -> Iterator[Traces]:
        """Each machine on its way may be too late with a copy of it, and reports that.

        Its sender's too, if that is a router to which copies have come back. Of a sequence only
        its sender keeps a dead letter, and one.
        """
        told = len(self.routers) + 1 if self._is_told(letter, ACK_NEG_ARRIVAL) else 0
        copies: Counter[str] = Counter()
        if letter.negative and not self._is_sequenced(letter):
            copies += self.ways.copies.get((letter.name, NORMAL), copies)
        here = copies[letter.sender]
        for traces in set(self._late(letter, ends)):
            for elsewhere in range(copies.total() - here + 1):
                for at_sender in range(here + 1):
                    for negative in range(told + 1):
                        yield traces._replace(
                            dead_at_sender=traces.dead_at_sender + at_sender,
                            dead_elsewhere=traces.dead_elsewhere + elsewhere,
                            negative=traces.negative + negative,
                        )

    def _late(self, letter: Letter, ends: set[End]) -> Iterator[Traces]:
        """Whether it came or not, its sender has handed it to a router in time, or given it up.

        What a router has in hand is no longer the sender's; but a sequence is.
        """
        yield from super()._outcomes(letter, ends)
        came = [self._ended(letter, end) for end in ends]
        yield from (self._turned_away(letter), *came)
        if not self._is_sequenced(letter):
            for its_end in (Traces(), *came):
                for mine in (Traces(journal=int(letter.positive)), self._given_up(letter)):
                    yield its_end._replace(
                        journal=mine.journal,
                        dead_at_sender=mine.dead_at_sender,
                        negative=its_end.negative + mine.negative,
                    )

    def _untold(self, letter: Letter, found: list[Traces]) -> Iterator[Traces]:
        """Acknowledgments go round in circles as well, and leave no trace ([MS-MQQB] 3.1.5.8.2:
        a message that asks for nothing is dropped).
        """
        yield from found
        classes = [code for name, code in self.ways.refused if name == letter.name]
        lost = {ACK_REACH_QUEUE: "reached", ACK_RECEIVE: "received", NORMAL: ""}
        for code in classes:
            field = lost.get(code, "negative")
            if field:
                found += [traces._replace(**{field: 0}) for traces in found]
        yield from found
