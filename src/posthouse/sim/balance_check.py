"""Checks the books of a trial: what was sent against what is found in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from posthouse.engine.ledger.books import sender_books_of
from posthouse.engine.queues.queue import DEADLETTER, DEADXACT, JOURNAL, Queue
from posthouse.model.message import (
    ACK_NEG_ARRIVAL,
    ACK_NEG_RECEIVE,
    ACK_POS_ARRIVAL,
    ACK_POS_RECEIVE,
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    INFINITE,
)
from posthouse.sim.managers import SimManager
from posthouse.sim.messages import ADMIN, JOURNALED, PLAIN, SEQUENCED, End, Letter, Told
from posthouse.sim.workload import home
from posthouse.wire.packet.packet import Packet


class Traces(NamedTuple):
    """How often a message, or what shows of it, is found when everything has settled."""

    journal: int = 0  # the sender's
    dead_at_sender: int = 0
    dead_elsewhere: int = 0  # at its target, or on its way there
    kept: int = 0  # in the journal of its queue
    reached: int = 0  # acknowledgments, by kind
    received: int = 0
    negative: int = 0


class Found:
    """What lies in the system queues and administration queues of all machines."""

    def __init__(self, machines: list[SimManager]) -> None:
        self.journal: dict[str, Counter[str]] = {}
        self.dead: dict[str, Counter[str]] = {}
        self.reasons: Counter[tuple[str, str, int]] = Counter()  # dead letters: machine, name, why
        self.kept: Counter[str] = Counter()
        self.acks: Counter[tuple[str, int]] = Counter()
        for machine in machines:
            self._look_into(machine)

    def _look_into(self, machine: SimManager) -> None:
        numbered = machine.manager.queues.numbered
        self.journal[machine.name] = Counter(_labels(machine, numbered(JOURNAL)))
        dead = [*_reasons(machine, numbered(DEADLETTER)), *_reasons(machine, numbered(DEADXACT))]
        self.dead[machine.name] = Counter(name for name, _ in dead)
        self.reasons.update((machine.name, *each) for each in dead)
        for name in JOURNALED:
            journal = home(machine.manager, name).journal
            assert journal is not None
            self.kept.update(_labels(machine, journal))
        for packet in _packets(machine, home(machine.manager, ADMIN)):
            self.acks[packet.label, packet.message_class] += 1

    def traces_of(self, letter: Letter) -> Traces:
        """What there is of one message."""
        name = letter.name
        acks = {code: n for (label, code), n in self.acks.items() if label == name}
        reached, received = acks.pop(ACK_REACH_QUEUE, 0), acks.pop(ACK_RECEIVE, 0)
        return Traces(
            self.journal[letter.sender][name],
            self.dead[letter.sender][name],
            sum(dead[name] for machine, dead in self.dead.items() if machine != letter.sender),
            self.kept[name],
            reached,
            received,
            sum(acks.values()),
        )


def _packets(machine: SimManager, queue: Queue) -> Iterator[Packet]:
    for _, number in queue.state.order.forward():
        yield Packet(machine.manager.messages.packet(number))


def _labels(machine: SimManager, queue: Queue) -> list[str]:
    return [packet.label for packet in _packets(machine, queue)]


def _reasons(machine: SimManager, queue: Queue) -> Iterator[tuple[str, int]]:
    """Of dead letters: the name, and the class that states why."""
    messages = machine.manager.messages
    for _, number in queue.state.order.forward():
        yield Packet(messages.packet(number)).label, messages.row(number).message_class


class Account:
    """The checks. Each fault is a line; none: everything is as promised."""

    def __init__(
        self,
        told: Told,
        machines: list[SimManager],
        *,
        insecure_nacks: bool,
        tight: frozenset[str] = frozenset(),
    ) -> None:
        self.told = told
        self.tight = tight  # queues with a quota
        self.vanished = told.vanished.copy()  # ends that no application can have seen
        self.machines = {machine.name: machine for machine in machines}
        self.insecure_nacks = insecure_nacks
        self.found = Found(machines)
        self.faults: list[str] = []
        self.is_left_out: Callable[[Queue], bool] = lambda queue: False  # of outgoing queues
        self.arrived: Counter[str] = Counter()  # letters seen in their queues, by kind

    def check(self) -> list[str]:
        """Looks at everything."""
        for letter in self.told.letters.values():
            if letter.kind == "express":
                self._check_express(letter)
            else:
                self._check_durable(letter)
        self._check_groups()
        self._check_order()
        for machine in self.machines.values():
            self._check_books(machine)
        return self.faults

    def _fault(self, text: str) -> None:
        self.faults.append(text)

    # -- each message

    def _places(self, letter: Letter) -> set[int]:
        return self.told.places.get((letter.target, letter.queue), {}).get(letter.name, set())

    def _check_durable(self, letter: Letter) -> None:
        """Exactly once, and all that follows from its end exactly once."""
        places, ends = self._places(letter), self.told.ends.get(letter.name, [])
        self.arrived[letter.kind] += bool(places)
        if len(places) > 1 or len(ends) > 1:
            self._fault(f"{letter.name} came more than once: places {places}, ends {ends}")
        traces = self._traces_of(letter)
        allowed = set(self._outcomes(letter, self._ends_of(letter)))
        if copies := self.told.copies[letter.name]:
            allowed = set(self._beside_copies(allowed, copies))
        if traces not in allowed and not self._has_vanished(letter, traces):
            near = sorted(allowed)[:3]
            self._fault(
                f"{letter.name} ({letter.fate}, ends {ends or self.told.doubts.get(letter.name)},"
                f" seen {len(places)} times): {traces}, allowed e.g. {near}"
            )

    def _beside_copies(self, outcomes: set[Traces], copies: int) -> Iterator[Traces]:
        """What else may be told of a message of which a stranger has sent copies.

        A stranger may not ask for acknowledgments to others, so a copy that comes first gets none;
        and each copy that is turned away is a message of its own to whom it is told.
        """
        for each in outcomes:
            for reached in {each.reached, 0}:
                for received in {each.received, 0}:
                    for negative in range(each.negative + copies + 1):
                        for dead in range(each.dead_elsewhere, each.dead_elsewhere + copies + 1):
                            yield each._replace(
                                reached=reached,
                                received=received,
                                negative=negative,
                                dead_elsewhere=dead,
                            )

    def _traces_of(self, letter: Letter) -> Traces:
        """What is found of a message, as far as `_outcomes` has to explain it."""
        return self.found.traces_of(letter)

    def _has_vanished(self, letter: Letter, traces: Traces) -> bool:
        """Whether a waiting reader may have got it in the moment in which its machine fell."""
        place = letter.target, letter.queue
        possible = letter.fits and not self.told.ends.get(letter.name) and self.vanished[place] > 0
        if not possible or traces not in set(self._outcomes(letter, {"received"})):
            return False
        self.vanished[place] -= 1
        return True

    def _outcomes(self, letter: Letter, ends: set[End]) -> Iterator[Traces]:
        """What may be found of a message that came to one of these ends, if it came."""
        if letter.fate != "accepted" and not self._is_seen(letter):
            yield Traces()
        if letter.fate == "aborted":
            return
        if not letter.fits:
            yield self._turned_away(letter)
        else:
            yield from (self._ended(letter, end) for end in ends)
        if letter.queue in self.tight and not letter.posted:
            yield self._turned_away(letter)
        if letter.hurries:
            yield from self._too_late(letter, ends)

    def _is_seen(self, letter: Letter) -> bool:
        return bool(self._places(letter) or self.told.ends.get(letter.name))

    def _ends_of(self, letter: Letter) -> set[End]:
        """How it may have ended in its queue."""
        told = self.told.ends.get(letter.name)
        if told:
            return set(told)
        ends = set(self.told.doubts.get(letter.name, ()))
        if letter.live_s != INFINITE:
            ends.add("expired")
        return ends

    def _ended(self, letter: Letter, end: End) -> Traces:
        """It came to its queue and was received there, or not."""
        good, sequenced = end == "received", letter.kind == "transactional"
        # Over HTTP a journal does not wait for what became of the message, and a message that its
        # reader rejects is not kept by their machine ([MC-MQSRM] 3.1.5.1.8.4, 3.1.7.3.2).
        delivered = good or not sequenced or letter.posted
        kept_there = not sequenced and not (letter.posted and end == "rejected")
        return Traces(
            journal=int(letter.positive and delivered),
            dead_at_sender=int(letter.negative and not good and sequenced),
            dead_elsewhere=int(letter.negative and not good and kept_there),
            kept=int(good and letter.queue in JOURNALED),
            reached=int(bool(letter.acks & ACK_POS_ARRIVAL)),
            received=int(good and bool(letter.acks & ACK_POS_RECEIVE)),
            negative=int(not good and self._is_told(letter, ACK_NEG_RECEIVE)),
        )

    def _is_told(self, letter: Letter, kind: int) -> bool:
        """Decision 80: whether a stranger's machine states what went wrong."""
        return self.insecure_nacks and bool(letter.acks & kind)

    def _turned_away(self, letter: Letter) -> Traces:
        """Its target does not want it, and keeps it; for a sequence that is a final acknowledgment.

        Over HTTP it is the answer to the post, so the sender's own machine shows of it.
        """
        if letter.posted:
            return self._given_up(letter)
        sequenced = letter.kind == "transactional"
        return Traces(
            journal=int(letter.positive and not sequenced),
            dead_at_sender=int(letter.negative and sequenced),
            dead_elsewhere=int(letter.negative and not sequenced),
            negative=int(self._is_told(letter, ACK_NEG_ARRIVAL)),
        )

    def _too_late(self, letter: Letter, ends: set[End]) -> Iterator[Traces]:
        """Its time was over at the sender, at its target's door, or at both.

        The sender's machine may not have learned that it came in time; then it reports the expiry.
        """
        given_up = self._given_up(letter)
        yield given_up
        for refusal in self._late_at_the_door(letter):
            yield refusal
            yield given_up._replace(
                dead_elsewhere=refusal.dead_elsewhere,
                negative=given_up.negative + refusal.negative,
            )
        if letter.fits:
            for end in ends:
                came = self._ended(letter, end)._replace(
                    journal=0, dead_at_sender=given_up.dead_at_sender
                )
                yield came  # only its final answer came too late
                yield came._replace(negative=came.negative + given_up.negative)
                if letter.posted and letter.kind == "transactional":  # delivery was told in time
                    yield came._replace(journal=int(letter.positive and letter.negative))

    def _late_at_the_door(self, letter: Letter) -> list[Traces]:
        """How its target turns it away, and what that leaves if its sender learns of it in time.

        Over HTTP it is answered as if all were well, but a stream has no receipt for it.
        """
        if letter.posted:
            sequenced = letter.kind == "transactional"
            return [] if sequenced else [Traces(journal=int(letter.positive))]
        return [self._turned_away(letter)]

    def _given_up(self, letter: Letter) -> Traces:
        """Its own machine states that it did not come."""
        return Traces(
            dead_at_sender=int(letter.negative),
            negative=int(bool(letter.acks & ACK_NEG_ARRIVAL)),
        )

    def _check_express(self, letter: Letter) -> None:
        """At most once, and surely while no machine on its way forgets what it had in memory."""
        lives = [machine.crashes for machine in self._on_the_way(letter)]
        places, ends = self._places(letter), self.told.ends.get(letter.name, [])
        self.arrived["express"] += bool(places)
        if len(ends) > 1 + lives[1]:
            self._fault(f"{letter.name} was received {len(ends)} times")
        if letter.fate == "aborted" and places:
            self._fault(f"{letter.name} came though it was never sent")
        if not any(lives):
            self._check_durable(letter)
            self.arrived["express"] -= bool(places)

    def _on_the_way(self, letter: Letter) -> list[SimManager]:
        """Its sender's machine, its target's, and whatever may lie between them."""
        return [self.machines[name] for name in (letter.sender, letter.target)]

    # -- messages among others

    def _check_groups(self) -> None:
        """A transaction happened, or it did not."""
        groups: dict[int, list[Letter]] = {}
        for letter in self.told.letters.values():
            vanished = self.told.vanished[letter.target, letter.queue] > 0
            unsure = letter.fate == "asked" and letter.fits and not vanished
            if letter.kind == "transactional" and unsure:
                groups.setdefault(letter.group, []).append(letter)
        for letters in groups.values():
            calm = [x for x in letters if not x.hurries and x.queue not in self.tight]
            seen = {self._is_seen(x) or x.name in self.told.doubts for x in calm}
            if len(seen) > 1:
                self._fault(f"half a transaction: {[letter.name for letter in calm]}")

    def _check_order(self) -> None:
        """Transactional messages of one sender to one queue come as they were committed."""
        for (machine, queue), names in self.told.places.items():
            if queue not in SEQUENCED:
                continue
            last: dict[tuple[str, str], Letter] = {}
            ours = names.keys() & self.told.letters.keys()
            for name in sorted(ours, key=lambda name: min(names[name])):
                letter = self.told.letters[name]
                stream = letter.sender, letter.format_name
                before = last.get(stream)
                if before is not None and before.order > letter.order:
                    self._fault(f"{name} came after {before.name} to {queue} of {machine}")
                last[stream] = letter

    # -- each machine

    def _check_books(self, machine: SimManager) -> None:
        for queue in machine.manager.queues.all():
            for books in machine.manager.queues.books_apart(queue):
                if not books.balanced:
                    self._fault(f"books of {queue.name} on {machine.name}: {books}")
        for queue in machine.manager.queues.outgoing_queues():
            if not self.is_left_out(queue):
                self._check_outgoing(machine, queue)
        for name in (*PLAIN, *SEQUENCED):
            if home(machine.manager, name).state.count:
                self._fault(f"{name} on {machine.name} is not empty")

    def _check_outgoing(self, machine: SimManager, queue: Queue) -> None:
        transfer = machine.manager.transfer
        books = sender_books_of(queue, transfer.unacknowledged(queue))
        if not books.balanced or books.unsent or books.unacknowledged:
            self._fault(f"sender's books of {queue.name} on {machine.name}: {books}")
        report = transfer.report(queue)
        if report.no_ack_count or transfer.arrived(queue):
            self._fault(f"sequences of {queue.name} on {machine.name}: {report}")
