"""Fuzz target: whatever remote readers do and however they end, the server keeps its books.

An input is a list of steps of eight bytes: calls with parameters that nearly make sense, some with
a damaged stub, cancels and orphans, connections that come and break, messages that arrive, time.
They run on a whole server of remote read with a real engine; turns end where a step ends them.
It runs with its siblings by `make fuzz`; alone, guided by coverage, by
`python -m fuzz.guided read_sessions -max_total_time=600` (see there).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import QueueError
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.names import parse_format_name
from posthouse.model.properties import QueueProperties
from posthouse.protocols.engine_calls import Answer, Release
from posthouse.protocols.engine_calls import Call as Decision
from posthouse.protocols.queue_format import QueueFormat, queue_format_of
from posthouse.protocols.remote_read.actions import ACTIONS, PEEK_CURRENT, PEEK_NEXT
from posthouse.protocols.remote_read.protocol import RemoteRead
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    NO_TRANSACTION,
    REMOTE_READ,
    Ack,
    Opnum,
    Received,
    decode_response,
    encode_request,
)
from posthouse.rpc import pdu
from posthouse.rpc.association import AssociationGroups
from posthouse.rpc.connection import ServerConnection
from posthouse.rpc.interface import BACKLOG_MAX
from posthouse.rpc.settings import RpcSettings
from posthouse.rpc.syntax import NDR, NDR64
from posthouse.runtime.driver import Driver
from posthouse.security.access import Caller, default_queue_descriptor
from posthouse.security.rights import QUEUE_GENERIC_ALL
from posthouse.security.sids import ADMINISTRATORS, ANONYMOUS
from tests.support.memory_store import MemoryStore

RUNS = 1200
STEP = 8
STEPS_MAX = 60
LINES_MAX = 6
UOW = b"unit of work...."
PLAIN, STEADY = r".\private$\plain", r".\private$\steady"
NAMES = ("plain", "plain;later", "steady", "steady;later")
FOR_EVER = 0xFFFFFFFF
SENSIBLE = 0.9
SETTINGS = RemoteReadSettings(minimum_authentication="none", read_ahead=1024)
SMALL = range(6)
ANYTHING: dict[str, list[Any]] = {
    "handle": [bytes(20), b"h" * 20],
    "handle_from": [bytes(20)],
    "action": [*ACTIONS, 9],
    "ack": [Ack.ACK, Ack.ACK, Ack.NACK],
    "access": [1, 0x20, 4, 0, 7],
    "transaction_id": [NO_TRANSACTION, UOW, b"x" * 16],
    "propagation_token": [b"", b"token"],
    "timeout": [0, 10, FOR_EVER],
    "max_body_size": [FOR_EVER, 0, 3],
    "max_compound_message_size": [FOR_EVER, 0],
    "acknowledgement_class": [0, 0xC004, 2],
    "client_id": [bytes(16)],
}
ENDS = (Opnum.END_RECEIVE, Opnum.END_TRANSACTIONAL_RECEIVE)
STARTS = (Opnum.START_RECEIVE, Opnum.START_TRANSACTIONAL_RECEIVE)


class Desk:
    """Turns that a step ends."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._turning = False

    @property
    def manager(self) -> QueueManager:
        """The engine."""
        return self.driver.manager

    def decide(self, call: Decision, release: Release) -> None:
        """A call in the current turn."""
        if not self._turning:
            self.driver.begin_turn()
            self._turning = True
        self.driver.decide(call, release)

    def settle(self) -> None:
        """Ends turns until nothing is left to do."""
        while True:
            if self._turning:
                self._turning = False
                self.driver.end_turn()
            self.driver.sync()
            if not self.driver.release() and not self._turning:
                return


class Asked(NamedTuple):
    """A call under way."""

    opnum: int
    request: Any
    damaged: bool


class Known:
    """What one client, with all its connections, has heard."""

    def __init__(self) -> None:
        self.handles: list[bytes] = []
        self.cursors: list[tuple[bytes, int]] = []
        self.contexts: list[int] = []
        self.locked: dict[tuple[bytes, int], int] = {}  # lookup ids by handle and request


class Line:
    """One connection of some client."""

    def __init__(self, house: House, group_id: int, ndr64: bool) -> None:
        self.house = house
        self.ndr64 = ndr64
        self.closed = self.is_stuck = False
        self.calls: dict[int, Asked] = {}
        self._numbers = 1
        self._answers = b""
        self._parts: dict[int, bytes] = {}
        self.connection = ServerConnection(
            [house.remote.interface],
            house.groups,
            None,
            RpcSettings(),
            "192.0.2.7",
            self._take,
            self._close,
            unsent=self._unsent,
            bug=house.bugs.append,
        )
        item = pdu.ContextItem(0, REMOTE_READ, (NDR64 if ndr64 else NDR,))
        bind = pdu.pack_bind(pdu.Bind(1432, 1432, group_id, (item,)))
        self.connection.receive(pdu.pack(pdu.BIND, pdu.WHOLE | pdu.CONC_MPX, 1, bind))
        place = self.connection.association
        assert place is not None
        self.known = house.known.setdefault(place.group.group_id, Known())

    def _close(self) -> None:
        self.closed = True

    def _unsent(self) -> int:
        return 2 * BACKLOG_MAX if self.is_stuck else 0

    def stick(self, hold: bool) -> None:
        """The client no longer reads, or again."""
        self.is_stuck = not self.is_stuck
        if self.is_stuck and hold:
            self.connection.hold()
        elif not self.is_stuck:
            self.connection.go_on()

    def call(self, opnum: int, request: Any, damage: tuple[int, int] | None = None) -> None:
        """One call, perhaps with another byte in its stub."""
        stub = bytearray(encode_request(opnum, request, self.ndr64))
        if damage is not None and stub:
            at, byte = damage
            stub[at % len(stub)] ^= byte
        self._numbers += 1
        self.calls[self._numbers] = Asked(opnum, request, damage is not None)
        body = pdu.pack_request(0, opnum, bytes(stub))
        self.connection.receive(pdu.pack(pdu.REQUEST, pdu.WHOLE, self._numbers, body))

    def gone(self, kind: int, nth: int) -> None:
        """A call is cancelled, or its answer is not wanted."""
        if self.calls:
            number = list(self.calls)[nth % len(self.calls)]
            self.connection.receive(pdu.pack(kind, pdu.WHOLE, number, b""))

    def _take(self, parts: list[bytes]) -> None:
        data = b"".join(parts)
        while data:
            header = pdu.read_header(data)
            whole, data = data[: header.frag_length], data[header.frag_length :]
            stub = whole[pdu.CALL_HEADER_SIZE :]
            if header.kind == pdu.RESPONSE:
                held = self._parts.pop(header.call_id, b"") + stub
                if header.flags & pdu.LAST_FRAG:
                    self._answered(header.call_id, held)
                else:
                    self._parts[header.call_id] = held
            elif header.kind == pdu.FAULT:
                self.calls.pop(header.call_id, None)

    def _answered(self, number: int, stub: bytes) -> None:
        asked = self.calls.pop(number)  # once, and only where something was asked
        answer = decode_response(asked.opnum, stub, self.ndr64)
        self.house.heard(self, asked, answer)


class House:
    """The server, and the handles and ids that its clients hold."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.bugs: list[Exception] = []
        self.chance = random.Random(1)
        store = MemoryStore()
        state = store.recover().state
        settings = EngineSettings("ALPHA")
        self.manager = QueueManager(
            settings, state, store.read, self.chance.randbytes, store.read_many
        )
        self.manager.start(*self.time())
        self.driver = Driver(self.manager, store, self.time)
        self.admin = Caller.administrator()
        self._make()
        self.desk = Desk(self.driver)
        self.remote = RemoteRead(self.desk, SETTINGS, lambda: self.now_ms)
        self.groups = AssociationGroups(self.chance.randbytes)
        self.lines: list[Line] = []
        self.known: dict[int, Known] = {}  # by group
        self.lookup_ids: list[int] = []
        self.ended: set[int] = set()  # for good
        self.requests = 10
        self.answers = 0

    def time(self) -> tuple[int, int]:
        """Both clocks."""
        return self.now_ms, 1_700_000_000 + self.now_ms // 1000

    def _make(self) -> None:
        security = default_queue_descriptor(ADMINISTRATORS, ((ANONYMOUS, QUEUE_GENERIC_ALL),))
        for path in (PLAIN, STEADY):
            properties = QueueProperties(transactional=path == STEADY)
            self.run(
                lambda m, p=path, q=properties: m.queues.create_queue(
                    p, q, self.admin, security=security
                )
            )

    def run(self, call: Callable[..., Any]) -> None:
        """A decision of somebody else; refusals are none of ours."""
        try:
            self.driver.run(call)
        except QueueError:
            return

    # -- steps

    def step(self, data: bytes) -> None:
        """One of them."""
        kind, which, *values = data
        if kind & 0x80:
            self.desk.settle()
        number = kind & 0x1F
        if number in METHODS:
            self._call(number, which, values)
        elif 16 <= number < len(STEPS) + 16:
            STEPS[number - 16](self, which, values)

    def line(self, which: int) -> Line:
        """One that lives."""
        if not self.lines:
            self.lines.append(Line(self, 0, bool(which & 1)))
        return self.lines[which % len(self.lines)]

    def _call(self, opnum: int, which: int, values: list[int]) -> None:
        """A call; a client that has nothing open opens something first."""
        line, chance = self.line(which), random.Random(bytes(values[:4]))
        if not line.known.handles and opnum not in (0, Opnum.ENLIST_REMOTE_TRANSACTION):
            opnum = Opnum.OPEN_QUEUE
        fields = METHODS[opnum].request.parameters._fields
        given = {name: chance.choice(ANYTHING.get(name, SMALL)) for name in fields}
        if chance.random() < SENSIBLE:
            given |= self._sensible(opnum, line, chance)
        request = METHODS[opnum].request.parameters(**{name: given[name] for name in fields})
        line.call(opnum, request, (values[4], values[5]) if values[5] > 0xC0 else None)

    def _sensible(self, opnum: int, line: Line, chance: random.Random) -> dict[str, Any]:
        """Parameters that go with each other."""
        known = line.known
        if opnum in (Opnum.OPEN_QUEUE, Opnum.OPEN_QUEUE_FOR_MOVE):
            access = 4 if opnum == Opnum.OPEN_QUEUE_FOR_MOVE else chance.choice((1, 1, 1, 0x20))
            name = chance.choice(NAMES[1:4:2] if access == 4 else NAMES)
            return {"access": access, "share_mode": 0, "queue_format": queue_format(name)}
        handle = chance.choice(known.handles[-4:] or [bytes(20)])
        found: dict[str, Any] = {"handle": handle, "handle_from": handle}
        found["lookup_id"] = chance.choice(self.lookup_ids[-4:] or [0])
        found["transaction_id"] = chance.choice((NO_TRANSACTION, UOW, UOW))
        found["context_to"] = chance.choice(known.contexts or [0])
        if opnum in STARTS:
            found |= self._reading(known, handle, chance)
        elif opnum in ENDS and known.locked:
            found["handle"], found["request_id"] = chance.choice(list(known.locked))
        elif opnum == Opnum.CANCEL_RECEIVE:
            waiting = [one.request for one in line.calls.values() if one.opnum in STARTS]
            if waiting:
                one = chance.choice(waiting)
                found |= {"handle": one.handle, "request_id": one.request_id}
        elif opnum == Opnum.CLOSE_CURSOR and known.cursors:
            found["handle"], found["cursor"] = chance.choice(known.cursors)
        return found

    def _reading(self, known: Known, handle: bytes, chance: random.Random) -> dict[str, Any]:
        """By place, by number or by cursor; the request's number is a new one."""
        self.requests += 1
        found: dict[str, Any] = {"request_id": self.requests, "action": 0, "cursor": 0}
        found |= {"max_body_size": FOR_EVER, "max_compound_message_size": FOR_EVER}
        how = chance.randrange(6)
        if how == 0 and self.lookup_ids:
            lookups = [action for action, one in ACTIONS.items() if one.seek is not None]
            return found | {"action": chance.choice(lookups), "timeout": 0}
        if how == 1 and known.cursors:
            found["handle"], found["cursor"] = chance.choice(known.cursors)
            found["action"] = chance.choice((0, PEEK_CURRENT, PEEK_NEXT))
        elif how == 2:
            found["action"] = PEEK_CURRENT
        return found | {"lookup_id": 0, "timeout": chance.choice((0, 10, FOR_EVER))}

    def send(self, which: int, values: list[int]) -> None:
        """A message comes."""
        path = STEADY if which & 1 else PLAIN
        body = bytes(values) * (1 + which % 40 * 10)
        message = Message(body=body, delivery_guarantee=DeliveryGuarantee.RECOVERABLE)

        def enqueue(manager: QueueManager) -> None:
            queue = manager.queues.open_queue(path, QueueAccessType.SEND, self.admin)
            if path == PLAIN:
                manager.messages.enqueue_message_to_an_open_queue(queue, message)
            else:
                uow = self.chance.randbytes(16)
                transaction = manager.transactions.create_transaction(uow)
                manager.messages.enqueue_message_to_an_open_queue(queue, message, transaction)
                manager.transactions.transaction_commit(uow)
            manager.queues.close_queue(queue)

        self.desk.decide(enqueue, ignore)

    def pass_time(self, which: int, values: list[int]) -> None:
        """Timers run out."""
        self.desk.settle()
        self.now_ms += (1, 11, 1000, 61_000, 300_001)[which % 5]
        self.desk.decide(lambda manager: None, ignore)
        self.desk.settle()
        self.remote.tick()

    def lose(self, which: int, values: list[int]) -> None:
        """A connection breaks."""
        if self.lines:
            line = self.lines.pop(which % len(self.lines))
            line.connection.lost()

    def join(self, which: int, values: list[int]) -> None:
        """One more, of a client that is there or of a new one."""
        if len(self.lines) < LINES_MAX:
            known = self.lines[which % len(self.lines)] if self.lines and which & 2 else None
            place = known.connection.association if known is not None else None
            group_id = place.group.group_id if place is not None else 0
            self.lines.append(Line(self, group_id, bool(which & 1)))

    def cancel(self, which: int, values: list[int]) -> None:
        """co_cancel."""
        self.line(which).gone(pdu.CO_CANCEL, values[0])

    def orphan(self, which: int, values: list[int]) -> None:
        """orphaned."""
        self.line(which).gone(pdu.ORPHANED, values[0])

    def begin(self, which: int, values: list[int]) -> None:
        """A transaction of a client, as if it were enlisted."""
        place = self.line(which).connection.association
        if place is not None:
            group = place.group
            self.remote.know(group, "192.0.2.7")
            self.desk.decide(lambda m: m.transactions.create_transaction(UOW, group), ignore)

    def decide(self, which: int, values: list[int]) -> None:
        """Its end."""
        if which & 1:
            self.desk.decide(lambda manager: manager.transactions.transaction_commit(UOW), ignore)
        else:
            self.desk.decide(lambda manager: manager.transactions.transaction_abort(UOW), ignore)

    def settle(self, which: int, values: list[int]) -> None:
        """Everything is answered."""
        self.desk.settle()

    def stick(self, which: int, values: list[int]) -> None:
        """A client stops to read, or goes on."""
        self.line(which).stick(bool(values[0] & 1))

    def wait(self, which: int, values: list[int]) -> None:
        """A client waits for ever at all that it has open."""
        line = self.line(which)
        for handle in line.known.handles[-3:]:
            self.requests += 1
            start = (handle, 0, 0, 0, FOR_EVER, self.requests, FOR_EVER, FOR_EVER)
            line.call(Opnum.START_RECEIVE, METHODS[Opnum.START_RECEIVE].request.parameters(*start))

    def noise(self, which: int, values: list[int]) -> None:
        """Bytes that are not a PDU; that client is no longer heard."""
        self.line(which).connection.receive(bytes(values) * 4)

    # -- answers to clients

    def heard(self, line: Line, asked: Asked, answer: Any) -> None:
        """Keeps what later calls can use, and looks whether it fits."""
        self.answers += 1
        known, request = line.known, asked.request
        if asked.opnum in (Opnum.OPEN_QUEUE, Opnum.OPEN_QUEUE_FOR_MOVE):
            known.contexts += [answer.move_context] if hasattr(answer, "move_context") else []
            known.handles += [answer.handle]
        elif getattr(answer, "result", 0):
            return
        elif asked.opnum == Opnum.CREATE_CURSOR:
            known.cursors.append((request.handle, answer.cursor))
        elif asked.opnum in STARTS:
            self._received(known, asked, answer)
        elif asked.opnum in ENDS:
            lookup_id = known.locked.pop((request.handle, request.request_id), 0)
            if asked == (Opnum.END_RECEIVE, (request.handle, Ack.ACK, request.request_id), False):
                self.ended.add(lookup_id)

    def _received(self, known: Known, asked: Asked, answer: Received) -> None:
        lookup_id, request = answer.sequence_id, asked.request
        assert lookup_id not in self.ended - {0}, "a message that was ended came again"
        self.lookup_ids.append(lookup_id)
        if asked.damaged or not ACTIONS[request.action].peek:
            alone = not asked.damaged and (len(request) == 8 or request[8] == NO_TRANSACTION)
            known.locked[request.handle, request.request_id] = lookup_id if alone else 0

    # -- the end

    def finish(self) -> None:
        """All clients leave; nothing may be left of them."""
        self.desk.settle()
        for line in self.lines:
            line.connection.lost()
        self.desk.settle()
        assert self.bugs == [], self.bugs
        assert not self.driver.failed
        assert self.remote.figures[1:5] == (0, 0, 0, 0), self.remote.figures
        assert len(self.groups) == 0
        assert not self.manager.ledger.locks
        for queue in self.manager.queues.all():
            assert all(books.balanced for books in self.manager.queues.books_apart(queue))


def ignore(answer: Answer) -> None:
    """It is not waited for."""


def queue_format(name: str) -> QueueFormat:
    """How a client names a queue."""
    return queue_format_of(parse_format_name(rf"DIRECT=OS:ALPHA\private$\{name}"))


STEPS = (
    House.send,
    House.pass_time,
    House.lose,
    House.join,
    House.cancel,
    House.orphan,
    House.begin,
    House.decide,
    House.settle,
    House.noise,
    House.stick,
    House.wait,
)


ANYTHING["queue_format"] = [queue_format(name) for name in (*NAMES, "nowhere")]


def fuzz_one(data: bytes) -> bool:
    """Whether somebody got an answer."""
    house = House()
    for at in range(0, min(len(data), STEP * STEPS_MAX) - STEP + 1, STEP):
        house.step(data[at : at + STEP])
    house.finish()
    return house.answers > 0


# -- what clients do


def said(number: int, which: int = 0, *values: int, settle: bool = True) -> bytes:
    """A step; the turn before it ends first."""
    return bytes((number | (0x80 if settle else 0), which, *values)).ljust(STEP, b"\0")


SEND, TIME, LOSE, JOIN, CANCEL, ORPHAN, BEGIN, DECIDE, SETTLE, NOISE, STICK, WAIT = range(16, 28)
OPEN = said(Opnum.OPEN_QUEUE)
START, END = said(Opnum.START_RECEIVE), said(Opnum.END_RECEIVE)
SEEDS = [
    b"".join((said(SEND), said(SEND), OPEN, START, END, START, said(LOSE))),
    b"".join((OPEN, START, START, said(SEND), END, said(CANCEL), said(TIME, 4))),
    b"".join((OPEN, said(JOIN, 2), said(JOIN, 1), START, said(SEND), said(LOSE), said(SETTLE))),
    b"".join(
        (OPEN, *[said(SEND, 38)] * 3, said(STICK), *[START] * 3, said(STICK), END, said(LOSE))
    ),
    b"".join((said(SEND, 1), said(JOIN), said(BEGIN), OPEN, said(13), said(15), said(DECIDE, 1))),
    b"".join((said(SEND), OPEN, said(11), said(7), said(10), said(6), said(3))),
    b"".join((said(SEND), OPEN, said(4), said(7), said(5), said(8), said(14), said(12), said(0))),
]
KINDS = [*METHODS, *STARTS * 3, *ENDS * 2, Opnum.OPEN_QUEUE, *range(16, 28), SEND, SEND, SETTLE]


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """Steps more, less, twice and elsewhere; and other numbers in them."""
    steps = [bytearray(seed[at : at + STEP]) for at in range(0, len(seed), STEP)]
    for _ in range(chance.choice((2, 6, 12, 30))):
        which = chance.choice((*range(8), 38, 39))
        more = bytearray((chance.choice(KINDS), which, *chance.randbytes(6)))
        more[0] |= 0x80 if chance.random() < 0.6 else 0
        if chance.random() < 0.8:
            more[7] = 0  # as it should be
        steps.insert(chance.randrange(len(steps) + 1), more)
    for _ in range(chance.choice((0, 1, 3))):
        chance.choice(steps)[chance.randrange(STEP)] = chance.randrange(256)
    for _ in range(chance.choice((0, 0, 1, 3))):
        steps.insert(chance.randrange(len(steps) + 1), bytearray(chance.choice(steps)))
    return b"".join(steps)
