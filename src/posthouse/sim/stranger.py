"""An attacker among simulated queue managers: it has all information and no credentials.

It has all GUIDs, the identifiers of sequences, and the message numbers that were given out or come
next; it overhears what is sent, and it opens connections when it likes. It has addresses of its own
and cannot send from those of others. `posthouse.sim.stranger_trial` runs it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from posthouse.model.guids import NULL_GUID
from posthouse.protocols.binary.ack_window import ReceivedCounts
from posthouse.protocols.binary.next_hop_lookup import STANDARD_PORT
from posthouse.sim.forgery import (
    HUGE,
    Aim,
    Forger,
    Slot,
    given_out,
    next_ordinal,
    next_slot,
    posted,
    receipts_url,
)
from posthouse.sim.machine import World
from posthouse.sim.managers import SimManager
from posthouse.sim.messages import PLAIN, SEQUENCED, STRANGE, Kind, Told
from posthouse.sim.network import Address, Connection, Reason
from posthouse.sim.srmp_network import HTTP_PORT
from posthouse.wire.binary.internal import (
    connection_parameters,
    establish_connection,
    establish_connection_response,
    read_establish_connection,
    session_ack,
)
from posthouse.wire.binary.stream import PacketKind, PacketSplitter, packet_kind
from posthouse.wire.packet.headers import SessionHeader
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import RECOVERABLE, summarize
from posthouse.wire.packet.packet_prefixes import is_internal

ADDRESSES = ("10.66.0.1", "10.66.0.2", "10.66.0.3")
SESSIONS_MAX = 12
CAPTURED_MAX = 200
FRESH_MS = 10 * 60 * 1000  # what was overheard is sent again no later: see `message_history_s`
FLOODS = (3, 20, 130)
UNCHANGED = 0.5  # of what is sent again
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Captured(NamedTuple):
    """A user message as it was put on a wire, or a post."""

    now_ms: int
    host: str  # of the machine that it was for
    packet: bytes
    is_posted: bool
    name: str  # its label; empty if that was not looked for


class Guise:
    """A session of the stranger under some GUID. It acknowledges whatever it is given."""

    def __init__(
        self, stranger: Stranger, connection: Connection, guid: bytes, *, called: bool = False
    ) -> None:
        self.guid = guid
        self._called = called  # by a machine that takes it for somebody
        self.is_open = False
        self.is_over = False
        self._stranger = stranger
        self._connection = connection
        self._splitter = PacketSplitter()
        self._received = ReceivedCounts()
        self._sent = self._recoverable_sent = 0
        self._waiting: list[bytes] = []
        connection.on_open = self._begin

    def _begin(self) -> None:
        self._connection.send(establish_connection(self.guid, NULL_GUID, time_stamp=0))

    def say(self, packets: list[bytes]) -> None:
        """Sends messages, once the session is open."""
        if not self.is_open:
            self._waiting += packets
            return
        self._sent += len(packets)
        self._recoverable_sent += sum(
            bool(summarize(packet).user_flags & RECOVERABLE) for packet in packets
        )
        self._connection.send(b"".join(packets))

    def receive(self, data: bytes, now_ms: int) -> bytes:
        """The handshake; then whatever the machine has for the GUID."""
        for packet in self._splitter.feed(data):
            if is_internal(packet):
                self._internal(packet)
            else:
                self._swallow(packet)
        return b"".join(map(session_ack, self._acknowledgments()))

    def _internal(self, packet: bytes) -> None:
        kind = packet_kind(packet)
        if self._called:
            self._answer(packet, kind)
        elif kind is PacketKind.ESTABLISH_CONNECTION:
            if read_establish_connection(packet).refused:
                self.is_over = True
                self._connection.close()
            else:
                self._connection.send(connection_parameters(500, 20_000, 64))
        elif kind is PacketKind.CONNECTION_PARAMETERS:
            self.is_open = True
            self._stranger.opened(self, self._connection.remote.host)
            waiting, self._waiting = self._waiting, []
            self.say(waiting)

    def _answer(self, packet: bytes, kind: PacketKind) -> None:
        """Answers a handshake as the machine that was called, or under a GUID of its own."""
        if kind is PacketKind.ESTABLISH_CONNECTION:
            request = read_establish_connection(packet)
            expected = request.header.server_guid
            guid = self.guid if expected == NULL_GUID else expected
            self._connection.send(establish_connection_response(request, guid))
        elif kind is PacketKind.CONNECTION_PARAMETERS:
            self._connection.send(packet)

    def _swallow(self, packet: bytes) -> None:
        received = self._received
        received.total += 1
        received.safe += 1
        if summarize(packet).user_flags & RECOVERABLE:
            received.recoverable += 1
            received.recoverable_safe += 1
        self._stranger.swallowed.append(packet)

    def _acknowledgments(self) -> list[SessionHeader]:
        if not self._received.unacknowledged:
            return []
        return list(self._received.acknowledgments(self._sent, self._recoverable_sent, 64))

    def closed(self, reason: Reason, now_ms: int) -> None:
        """The machine has had enough of it."""
        self.is_over = True

    def end(self) -> None:
        """The stranger goes."""
        self.is_over = True
        self._connection.close()


class Post:
    """A connection for one HTTP request."""

    def __init__(self, connection: Connection, data: bytes) -> None:
        self._connection = connection
        self.is_over = False
        connection.on_open = lambda: connection.send(data)

    def receive(self, data: bytes, now_ms: int) -> bytes:
        """Whatever the answer is."""
        self.end()
        return b""

    def closed(self, reason: Reason, now_ms: int) -> None:
        """Refused, or cut."""
        self.is_over = True

    def end(self) -> None:
        """No more of it."""
        self.is_over = True
        self._connection.close()


class Sink:
    """The stranger's end of a connection for HTTP that a machine has opened: all is well."""

    def receive(self, data: bytes, now_ms: int) -> bytes:
        """Nothing that is posted to it has a body worth waiting for."""
        return _OK * data.count(b"POST ")

    def closed(self, reason: Reason, now_ms: int) -> None:
        """The machine has gone."""


class Stranger:
    """An attacker: what it has observed, and the attacks that it makes."""

    def __init__(
        self,
        world: World,
        machines: list[SimManager],
        told: Told,
        chance: Random,
        aims: Callable[[tuple[str, ...]], Aim],
        doors: Callable[[Aim], list[SimManager]],
    ) -> None:
        self.world = world
        self.machines = machines
        self.told = told
        self.chance = chance
        self.forger = Forger(chance)
        self.guid = chance.randbytes(16)  # its own
        self.ways = chance.sample(WAYS, chance.randint(1, len(WAYS)))
        self.is_eager = chance.random() < 0.5  # speaks first, whenever it overhears somebody
        self.is_gone = False
        self.acts = 0
        self.swallowed: list[bytes] = []
        self.posing: list[str] = []  # machines that took a session from themselves, or from zero
        self._aims = aims
        self._doors = doors
        self._ordinal = 0
        self._captured: deque[Captured] = deque(maxlen=CAPTURED_MAX)
        self._guises: list[tuple[SimManager, Guise]] = []
        self._posts: list[Post] = []
        for address in ADDRESSES:
            world.network.listen(address, STANDARD_PORT, self._called)
            for port in (HTTP_PORT, *world.forwarded.values()):
                world.network.listen(address, port, lambda connection: Sink())

    def _called(self, connection: Connection) -> Guise:
        """A machine connects to it; it claims to be another machine."""
        others = [machine.manager.machine.identifier for machine in self.machines]
        return Guise(self, connection, self.chance.choice((self.guid, *others)), called=True)

    # -- what it sees

    def overheard(self, connection: Connection, parts: list[bytes]) -> None:
        """A machine puts something on a wire."""
        if self.is_gone or connection.remote.host in ADDRESSES:
            return
        found = self._posted(connection, parts) or self._sent(connection, parts)
        self._captured.extend(found)
        if found and self.is_eager and self.chance.random() < 0.1:
            first = self.chance.choice(found)
            self.world.clock.call_later(0, lambda: self._repeat(first))

    def _sent(self, connection: Connection, parts: list[bytes]) -> list[Captured]:
        if STANDARD_PORT not in (connection.local.port, connection.remote.port):
            return []
        now_ms, host = self.world.clock.now_ms, connection.remote.host
        packets = [part for part in parts if not is_internal(part)]
        return [Captured(now_ms, host, each, False, Packet(each).label) for each in packets]

    def _posted(self, connection: Connection, parts: list[bytes]) -> list[Captured]:
        if connection.remote.port != HTTP_PORT:
            return []
        data = b"".join(parts)
        name = next((n for n in self.told.letters if n.encode() in data), "")
        return [Captured(self.world.clock.now_ms, connection.remote.host, data, True, name)]

    def opened(self, guise: Guise, host: str) -> None:
        """A machine took a session."""
        machine = self._machine_at(host)
        if machine is not None and guise.guid in (NULL_GUID, machine.manager.machine.identifier):
            self.posing.append(machine.name)

    def _machine_at(self, host: str) -> SimManager | None:
        return next((machine for machine in self.machines if machine.address == host), None)

    # -- what it does

    def act(self) -> None:
        """One thing of those that it does in this trial."""
        if not self.is_gone:
            self.acts += 1
            way = self.chance.choice(self.ways)
            way(self)

    def leave(self) -> None:
        """It has gone, and all its connections with it."""
        self.is_gone = True
        for _, guise in self._guises:
            guise.end()
        for post in self._posts:
            post.end()

    def _say(self, aim: Aim, packets: list[bytes], guids: list[bytes] | None = None) -> None:
        """Sends forged messages to the target, or to somebody who may pass them on."""
        if aim.is_posted:
            own = self.chance.choice((receipts_url(ADDRESSES[0]), receipts_url(aim.source.address)))
            for packet in packets:
                self._post(aim.target, posted(packet, own))
            return
        door = self.chance.choice(self._doors(aim))
        self._session(door, guids or self._guids(aim)).say(packets)

    def _guids(self, aim: Aim) -> list[bytes]:
        """GUIDs that it may claim."""
        return [
            self.guid,
            aim.source.manager.machine.identifier,
            aim.source.manager.machine.identifier,
        ]

    def _session(self, door: SimManager, guids: list[bytes]) -> Guise:
        self._guises = [pair for pair in self._guises if not pair[1].is_over]
        guid = self.chance.choice(guids)
        for machine, guise in self._guises:
            if machine is door and guise.guid == guid and self.chance.random() < 0.7:
                return guise
        if len(self._guises) >= SESSIONS_MAX:
            self._guises.pop(0)[1].end()
        made: list[Guise] = []

        def begin(connection: Connection) -> Guise:
            made.append(Guise(self, connection, guid))
            return made[0]

        address = self.chance.choice(ADDRESSES)
        self.world.network.connect(address, Address(door.address, STANDARD_PORT), begin)
        self._guises.append((door, made[0]))
        return made[0]

    def _post(self, door: SimManager, data: bytes) -> None:
        self._posts = [post for post in self._posts if not post.is_over]

        def begin(connection: Connection) -> Post:
            self._posts.append(Post(connection, data))
            return self._posts[-1]

        address = self.chance.choice(ADDRESSES)
        self.world.network.connect(address, Address(door.address, HTTP_PORT), begin)

    # messages in the name of others

    def _speak_in_sequence(self, aim: Aim, slots: list[Slot]) -> None:
        guid = aim.source.manager.machine.identifier
        self._say(
            aim,
            [self.forger.message(aim, guid, s.ordinal, "transactional", s) for s in slots],
        )

    def far_ahead(self) -> None:
        """The last sequence there can be, or one that the source begins in a second or a year."""
        aim, chance = self._aims(SEQUENCED), self.chance
        coming = next_slot(aim)
        ahead_s = chance.choice((1, 60, 86_400, 31_536_000))
        places = (HUGE, (coming.sequence_id + (ahead_s << 32), chance.choice((1, 100))))
        self._speak_in_sequence(aim, [Slot(*chance.choice(places), 0, coming.ordinal)])

    def next_in_sequence(self) -> None:
        """Forges the next messages of a sequence before the source sends them."""
        aim = self._aims(SEQUENCED)
        coming, count = next_slot(aim), self.chance.choice((1, 1, 3, 10))
        slots = [
            Slot(
                coming.sequence_id,
                coming.number + at,
                coming.previous if at == 0 else coming.number + at - 1,
                coming.ordinal + at,
            )
            for at in range(count)
        ]
        self._speak_in_sequence(aim, slots)

    def next_sequence(self) -> None:
        """The sequence after the one that the source is in."""
        aim = self._aims(SEQUENCED)
        coming, number = next_slot(aim), self.chance.choice((1, 3, 50))
        ahead = self.chance.choice((1, 1, 2, 5))
        self._speak_in_sequence(aim, [Slot(coming.sequence_id + ahead, number, 0, coming.ordinal)])

    def given_out_again(self) -> None:
        """Places that messages of the source have."""
        aim = self._aims(SEQUENCED)
        slots = given_out(aim)
        if slots:
            first = self.chance.randrange(len(slots))
            count = self.chance.choice((1, 3))
            bridged = [slots[first]._replace(previous=0)] if self.chance.random() < 0.3 else []
            self._speak_in_sequence(aim, bridged or slots[first : first + count])

    def flood(self) -> None:
        """The message numbers that the source gives out next, to any queue that takes them."""
        aim, chance = self._aims(PLAIN), self.chance
        guid, first = aim.source.manager.machine.identifier, next_ordinal(aim.source)
        kind: Kind = chance.choice(("express", "express", "recoverable"))
        count = chance.choice(FLOODS) if not aim.is_posted else chance.choice(FLOODS[:2])
        ordinals = range(first, first + count)
        self._say(aim, [self.forger.message(aim, guid, each, kind) for each in ordinals])

    # acknowledgments in the name of others

    def acknowledge(self) -> None:
        """Forges acknowledgments to the source, order or final."""
        aim, chance, forger = self._aims(SEQUENCED), self.chance, self.forger
        slots = given_out(aim) or [next_slot(aim)]
        some = chance.sample(slots, min(len(slots), chance.choice((1, 3))))
        is_final = chance.random() < 0.5
        if aim.is_posted:
            make = forger.final_receipt if is_final else forger.stream_receipt
            for slot in some:
                self._post(aim.source, make(aim, slot))
            return
        make = forger.final_ack if is_final else forger.order_ack
        guids = [
            aim.target.manager.machine.identifier,
            self.guid,
            aim.source.manager.machine.identifier,
        ]
        self._session(aim.source, guids).say([make(aim, slot) for slot in some])

    # sessions and messages of others

    def pose(self) -> None:
        """Sits there under the name of another, and acknowledges what it is given."""
        aim = self._aims(SEQUENCED)
        guids = [
            aim.source.manager.machine.identifier,
            aim.target.manager.machine.identifier,
            NULL_GUID,
        ]
        self._session(aim.target, guids)

    def repeat(self) -> None:
        """Something that was overheard."""
        fresh = [one for one in self._captured if self.world.clock.now_ms - one.now_ms < FRESH_MS]
        if fresh:
            self._repeat(self.chance.choice(fresh))

    def _repeat(self, one: Captured) -> None:
        """As it was, or with other content."""
        door = self._machine_at(one.host)
        if door is None or self.is_gone:
            return
        packet = one.packet if self.chance.random() < UNCHANGED else self._changed(one)
        if packet is None or one.name.startswith(STRANGE):
            return
        self.told.copies[one.name] += packet is one.packet
        if one.is_posted:
            self._post(door, packet)
        else:
            source = summarize(packet).source_guid
            self._session(door, [self.guid, source, source]).say([packet])

    def _changed(self, one: Captured) -> bytes | None:
        if not one.is_posted:
            return self.forger.relabelled(one.packet)
        name = self.forger.label()
        if len(name) > len(one.name):
            return None
        return one.packet.replace(one.name.encode(), name.ljust(len(one.name), "-").encode())

    def speak_for_itself(self) -> None:
        """What anybody may do: a message from an unknown machine."""
        aim, chance = self._aims(PLAIN), self.chance
        self._ordinal += 1
        kind: Kind = chance.choice(("express", "recoverable"))
        self._say(aim, [self.forger.message(aim, self.guid, self._ordinal, kind)], [self.guid])


Way = Callable[[Stranger], None]
WAYS: tuple[Way, ...] = (
    Stranger.far_ahead,
    Stranger.next_in_sequence,
    Stranger.next_sequence,
    Stranger.given_out_again,
    Stranger.flood,
    Stranger.acknowledge,
    Stranger.pose,
    Stranger.repeat,
    Stranger.speak_for_itself,
)
