"""A session that is taken up again: every request once, whatever broke when."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.ledger.records import TABLE_CLIENT_SESSION, WANT_ARRIVAL, WANT_RECEIVE
from posthouse.engine.sessions.resumable import KEPT_S, NAMES_MAX, UNANSWERED_MAX
from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    InvalidHandle,
    InvalidParameter,
    OperationCancelled,
    TransactionSequence,
)
from posthouse.security.access import Caller
from posthouse.sim import SimDisk
from posthouse.sim.clock import SimClock
from posthouse.store.log import LogStore
from posthouse.wire.frames import frames, payloads
from tests.conftest import Dose
from tests.engine.letters import ALICE, BOB
from tests.engine.rig import START_UTC
from tests.engine.settings import engine_settings
from tests.protocols.admin.session_rig import (
    RECEIVE,
    Client,
    SessionRig,
    TurnDesk,
    packet,
    packets,
)
from tests.store.faults.harness import crashed, without_conveniences
from tests.store.faults.world import STORE

NAME = b"session name 16b"
LEDGER = r".\private$\ledger"
ACKS = r"DIRECT=OS:ALPHA\private$\acks"


@pytest.fixture
def rig() -> SessionRig:
    return SessionRig()


def reconnect(rig: SessionRig, client: Client) -> Client:
    """The connection breaks; the same client comes again."""
    client.session.lost()
    rig.desk.settle()
    return rig.client(name=NAME)


# -- answers that were lost


def test_a_repeated_send_sends_nothing(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    sent = client.send(client.open(), packets(b"a", b"b"), request_id=1)
    assert client.send(client.open(), packets(b"a", b"b"), request_id=1) == sent
    client = reconnect(rig, client)
    assert client.send(client.open(), packets(b"a", b"b"), request_id=1) == sent
    rig.restart()
    client = rig.client(name=NAME)
    assert client.send(client.open(), packets(b"a", b"b"), request_id=1) == sent
    assert rig.bodies("orders") == [b"a", b"b"]


def test_a_request_repeated_before_its_answer_is_done_once(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    queue = client.open()
    one = client.put_send(queue, packets(b"a"), request_id=1)
    two = client.put_send(queue, packets(b"a"), request_id=1)
    assert client.answer(one) == client.answer(two)
    assert rig.bodies("orders") == [b"a"]


def test_a_refused_send_can_be_asked_again(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    queue = client.open()
    rig.manager.machine.begin_flow_control("memory")
    assert isinstance(client.send(queue, packets(b"a"), request_id=1), payloads.Refusal)
    rig.manager.machine.end_flow_control("memory")
    assert client.send(queue, packets(b"a"), request_id=1)
    assert rig.bodies("orders") == [b"a"]


def test_express_sends_are_known_until_a_crash(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    batch = packets(b"a", b"b", recoverable=False)
    sent = client.send(client.open(), batch, request_id=1)
    assert not rig.manager.ledger.state.of_table(TABLE_CLIENT_SESSION)
    client = reconnect(rig, client)
    assert client.send(client.open(), batch, request_id=1) == sent
    assert rig.bodies("orders") == [b"a", b"b"]
    rig.restart()
    client = rig.client(name=NAME)
    assert client.send(client.open(), batch, request_id=1) != sent


def test_mixed_and_demanding_batches_are_known_too(rig: SessionRig) -> None:
    rig.create("acks")
    client = rig.client(name=NAME)
    batch = [
        packet(b"a", **DEMANDING),
        packet(b"b", recoverable=False),
        packet(b"c", positive_journaling_requested=True),
        packet(b"d", recoverable=False, **DEMANDING),
        packet(b"e"),
    ]
    sent = client.send(client.open(), batch, request_id=1)
    client = reconnect(rig, client)
    assert client.send(client.open(), batch, request_id=1) == sent
    assert rig.bodies("orders") == [b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.parametrize("tx", [0, payloads.OWN_TRANSACTION])
def test_a_send_of_no_messages_is_answered_and_leaves_nothing(rig: SessionRig, tx: int) -> None:
    client = rig.client(name=NAME)
    assert client.send(client.open(), [], tx=tx, request_id=1) == ()
    assert isinstance(client.send(99, [], request_id=2), payloads.Refusal)
    assert client.send(client.open(), packets(b"a"), request_id=2)
    assert rig.bodies("orders") == [b"a"]


def test_a_send_in_a_transaction_is_not_kept(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    queue, tx = client.open(LEDGER), client.begin()
    batch = packets(b"a", to="ledger", transactional=True)
    first = client.send(queue, batch, tx=tx, request_id=1)
    assert client.send(queue, batch, tx=tx, request_id=1) != first


def test_a_repeated_end_says_the_same(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    client.send(client.open(), packets(b"a", b"b"))
    source = client.open(access=RECEIVE)
    ids = [m.lookup_id for m in client.read(source, count=2)]
    assert client.end(source, ids, request_id=1) == 2
    client = reconnect(rig, client)
    assert client.end(source, ids, request_id=1) == 2
    rig.restart()
    assert rig.client(name=NAME).end(source, ids, request_id=1) == 2


def test_an_end_that_never_came_leaves_the_messages(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    client.send(client.open(), packets(b"a", b"b"))
    source = client.open(access=RECEIVE)
    ids = [m.lookup_id for m in client.read(source, count=2)]
    client = reconnect(rig, client)
    source = client.open(access=RECEIVE)
    answer = client.end(source, ids, request_id=1)
    assert answer.code == TransactionSequence.code
    assert [m.lookup_id for m in client.read(source, count=2)] == ids
    assert client.end(source, ids, request_id=1) == 2


def test_a_repeated_commit_says_the_same(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    tx = client.begin()
    batch = packets(b"a", to="ledger", transactional=True)
    client.send(client.open(LEDGER), batch, tx=tx)
    client.done(payloads.Commit(tx, 1))
    client = reconnect(rig, client)
    client.done(payloads.Commit(tx, 1))
    rig.restart()
    client = rig.client(name=NAME)
    client.done(payloads.Commit(tx, 1))
    assert rig.bodies("ledger") == [b"a"]


def test_a_commit_that_never_came_is_an_abort(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    tx = client.begin()
    batch = packets(b"a", to="ledger", transactional=True)
    client.send(client.open(LEDGER), batch, tx=tx)
    client = reconnect(rig, client)
    client.begin()
    assert client.refused(payloads.Commit(tx, 1)).code == TransactionSequence.code
    assert rig.bodies("ledger") == []


def test_one_request_id_is_one_request(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    queue = client.open()
    client.send(queue, packets(b"a"), request_id=1)
    assert client.send(queue, packets(b"a", b"b"), request_id=1).code == InvalidParameter.code
    assert client.refused(payloads.Commit(1, 1)).code == InvalidParameter.code
    assert client.end(queue, [1], request_id=1).code == InvalidParameter.code


def test_the_last_results_are_kept_and_older_ones_refused(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    queue = client.open()
    for request_id in range(1, UNANSWERED_MAX + 2):
        client.send(queue, packets(b"%d" % request_id), request_id=request_id)
    assert client.send(queue, packets(b"1"), request_id=1).code == InvalidParameter.code
    assert client.send(queue, packets(b"2"), request_id=2)
    assert len(rig.bodies("orders")) == UNANSWERED_MAX + 1


def test_without_a_name_nothing_is_kept(rig: SessionRig) -> None:
    client = rig.client()
    queue = client.open()
    for _ in range(2):
        client.send(queue, packets(b"a"), request_id=1)
    assert rig.bodies("orders") == [b"a", b"a"]
    assert len(rig.manager.sessions) == 0


# -- names


def test_a_name_belongs_to_its_account(rig: SessionRig) -> None:
    alice = rig.client(ALICE, name=NAME)
    alice.send(alice.open(), packets(b"a"), request_id=1)
    for _ in range(2):
        bob = rig.client(BOB, greet=False)
        assert bob.refused(payloads.Hello(session=NAME)).code == AccessDenied.code
        bob.put(payloads.Ping())
        assert bob.closed
        rig.restart()
    assert rig.client(ALICE, name=NAME)


def test_a_new_connection_closes_the_old_one(rig: SessionRig) -> None:
    old = rig.client(name=NAME)
    old.send(old.open(), packets(b"a", b"b"))
    source = old.open(access=RECEIVE)
    old.read(source)
    waiting = old.put_read(old.open(LEDGER, RECEIVE), timeout_ms=-1)
    tx = old.begin()
    new = rig.client(name=NAME)
    assert old.closed
    assert old.answer(0).code == OperationCancelled.code
    assert waiting not in old.answers
    assert rig.queue("orders").locked == 0
    assert new.bodies(new.open(access=RECEIVE)) == [b"a"]
    assert new.refused(payloads.Commit(tx)).code == TransactionSequence.code
    old.session.lost()
    rig.desk.settle()
    assert rig.queue("orders").locked == 1
    assert new.send(new.open(), packets(b"c"), request_id=1)


def test_an_answer_on_its_way_to_the_old_connection_is_asked_again(rig: SessionRig) -> None:
    old = rig.client(name=NAME)
    request = old.put_send(old.open(), packets(b"a"), request_id=1)
    rig.desk.settle()
    sent = old.answers.pop(request)
    new = rig.client(name=NAME)
    assert new.send(new.open(), packets(b"a"), request_id=1) == frames.decode_sent(sent.payload)


def test_results_are_forgotten_a_day_after_their_last_use(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    client.send(client.open(), packets(b"a"), request_id=1)
    client.session.lost()
    rig.advance(KEPT_S - 10)
    rig.client(name=b"another name 16b").session.lost()
    assert len(rig.manager.sessions) == 1
    rig.advance(20)
    rig.client(name=b"another name 16b")
    assert not [key for key in rig.manager.ledger.state.definitions if key[1].startswith(NAME)]
    client = rig.client(name=NAME)
    client.send(client.open(), packets(b"a"), request_id=1)
    assert rig.bodies("orders") == [b"a", b"a"]


def test_the_age_of_results_survives_a_restart(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    client.send(client.open(), packets(b"a"), request_id=1)
    rig.clock.advance((KEPT_S + 1) * 1000)
    rig.restart()
    rig.client(name=b"another name 16b")
    assert len(rig.manager.sessions) == 1


def test_an_open_session_is_not_forgotten(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    client.send(client.open(), packets(b"a"), request_id=1)
    rig.advance(KEPT_S + 10)
    rig.client(name=b"another name 16b")
    assert client.send(client.open(), packets(b"a"), request_id=1)
    assert rig.bodies("orders") == [b"a"]


def test_names_that_did_nothing_leave_no_trace(rig: SessionRig) -> None:
    rig.client(name=NAME).session.lost()
    rig.desk.settle()
    assert len(rig.manager.sessions) == 0


def test_of_too_many_names_the_least_recently_used_goes(rig: SessionRig) -> None:
    sessions, core = rig.manager.sessions, rig.manager.ledger
    client = rig.client(name=NAME)
    client.send(client.open(), packets(b"a"), request_id=1)
    client.session.lost()
    rig.desk.settle()
    account = Caller.administrator().sid
    for number in range(NAMES_MAX):
        sessions.attach(number.to_bytes(16, "big"), account, object())
    assert len(sessions) == NAMES_MAX
    assert not [key for key in core.state.definitions if key[1].startswith(NAME)]
    late = rig.client(greet=False)
    assert isinstance(late.answer(late.put(payloads.Hello(session=NAME))), payloads.Refusal)


def test_nobody_pushes_out_the_names_of_who_has_fewer(rig: SessionRig) -> None:
    client = rig.client(name=NAME)
    client.send(client.open(), packets(b"a"), request_id=1)
    client.session.lost()
    rig.desk.settle()
    rig.restart()  # the name is found again with its account
    sessions = rig.manager.sessions
    greedy = [number.to_bytes(16, "big") for number in range(NAMES_MAX - 1)]
    held = [sessions.attach(name, b"greedy", sessions)[0] for name in greedy]
    with pytest.raises(InsufficientResources):
        sessions.attach(b"one too many 16b", b"greedy", sessions)
    for session in held[:2]:
        sessions.once(session, 1, 2, 0, lambda: None)
        sessions.detach(session, sessions)
    sessions.attach(b"one too many 16b", b"greedy", sessions)
    sessions.attach(b"somebody else 16", b"modest", sessions)
    assert len(sessions) == NAMES_MAX
    again = rig.client(name=NAME)
    again.send(again.open(), packets(b"a"), request_id=1)
    assert rig.bodies("orders") == [b"a"]


# -- power


DEMANDING: dict[str, Any] = {
    "acknowledgements_requested": WANT_ARRIVAL,
    "administration_queue_format_name": ACKS,
}
ENGINE = engine_settings("ALPHA", dns_domain="example.com", transactions_buffer=2500)
BATCHES = {
    "plain": packets(b"0", b"1", b"2"),
    "demanding": packets(b"0", b"1", b"2", **DEMANDING),
    "mixed": [packet(b"0"), packet(b"1", **DEMANDING), packet(b"2")],
    "journaled": packets(b"0", b"1", b"2", positive_journaling_requested=True),
}


def acknowledged_or_not(kind: str) -> int:
    """How many acknowledgments a batch brings."""
    return {"demanding": 3, "mixed": 1}.get(kind, 0)


@pytest.mark.parametrize("kind", BATCHES)
def test_a_batch_cut_at_any_record_is_completed(kind: str) -> None:
    """The log may end behind any record of it; what follows must not make the hole look filled."""
    batch, cut, parts = BATCHES[kind], 0, set[int]()
    while True:
        rig = SessionRig()
        rig.create("acks")
        client = rig.client(name=NAME)
        queue, before = client.open(), rig.store.synced
        sent = client.send(queue, batch, request_id=1)
        if before + cut > rig.store.appended:
            break
        whole = before + cut == rig.store.appended
        rig.restart(rig.store.log[: before + cut])
        parts.add(len(rig.bodies("orders")))
        rig.send("orders", b"between")
        rig.restart()
        for _ in range(2):
            client = rig.client(name=NAME)
            again = client.send(client.open(), batch, request_id=1)
            assert len(again) == 3
            assert again == sent or not whole
            rig.restart()
        bodies = rig.bodies("orders")
        assert sorted(bodies) == [b"0", b"1", b"2", b"between"]
        assert [body for body in bodies if body != b"between"] == [b"0", b"1", b"2"]
        assert len(rig.bodies("acks")) == acknowledged_or_not(kind)
        cut += 1
    assert parts == {0, 1, 2, 3}


@pytest.mark.parametrize("journaling", [False, True])
def test_an_end_or_a_commit_is_whole_or_not_at_all(journaling: bool) -> None:
    """With journals and acknowledgments, each a step of its own outside a session."""
    cut, seen = 0, set[bool]()
    while True:
        rig = SessionRig()
        rig.create("acks")
        rig.create("kept", journaling=journaling)
        client = rig.client(name=NAME)
        wants: dict[str, Any] = DEMANDING | {"acknowledgements_requested": WANT_RECEIVE}
        client.send(client.open(r".\private$\kept"), packets(b"a", b"b", to="kept", **wants))
        source = client.open(r".\private$\kept", RECEIVE)
        ids, before = [m.lookup_id for m in client.read(source, count=2)], rig.store.synced
        assert client.end(source, ids, request_id=1) == 2
        if before + cut > rig.store.appended:
            break
        rig.restart(rig.store.log[: before + cut])
        answer = rig.client(name=NAME).end(source, ids, request_id=1)
        ended = answer == 2
        assert ended or answer.code in (InvalidHandle.code, TransactionSequence.code)
        assert len(rig.bodies("kept")) == (0 if ended else 2)
        assert len(rig.bodies("acks")) == (2 if ended else 0)
        seen.add(ended)
        cut += 1
    assert seen == {False, True}


class DiskRig(SessionRig):
    """The same on a disk that can lose its power."""

    def __init__(self, disk: SimDisk, desk: type[TurnDesk] = TurnDesk) -> None:
        self.settings = ENGINE
        self.clock = SimClock(utc_seconds=START_UTC)
        self.random = random.Random(len(disk.operations))
        self.admin = Caller.administrator()
        self.events = []
        self.active = set()
        self.deleted = []
        self.disk = disk
        self.store: Any = LogStore(disk, STORE)
        self._boot(self.store.recover().state)
        self.desk = desk(self.driver)

    def provision(self) -> DiskRig:
        for name in ("orders", "acks"):
            self.create(name)
        self.create("ledger", transactional=True)
        return self

    def tidy(self, steps: int) -> None:
        for _ in range(steps):
            self.driver.tidy()


def test_a_clean_stop_keeps_what_became_of_express_messages() -> None:
    disk = SimDisk()
    rig = DiskRig(disk).provision()
    client = rig.client(name=NAME)
    batch = packets(b"a", b"b", b"c", recoverable=False)
    sent = client.send(client.open(), batch, request_id=1)
    source = client.open(access=RECEIVE)
    ids = [message.lookup_id for message in client.read(source, count=2)]
    assert client.end(source, ids, request_id=2) == 2
    rig.driver.close()
    rig = DiskRig(disk)
    client = rig.client(name=NAME)
    assert client.send(client.open(), batch, request_id=1) == sent
    assert client.end(source, ids, request_id=2) == 2
    assert rig.bodies("orders") == [b"c"]


ALONE = {7, 8}  # request ids of sends that are a transaction of their own
LARGE = [b"large %d" % n + b"." * 800 for n in range(5)]


class Memory:
    """What a client that never forgets knows: what it asked for, and what it was told."""

    def __init__(self) -> None:
        self.received: list[int] | None = None
        self.commits: dict[int, int] = {}  # transactions by request id
        self.told: dict[int, Any] = {}


class Day:
    """A client at work. Begun again with the memory of an earlier day, it does nothing twice."""

    def __init__(self, rig: DiskRig, memory: Memory) -> None:
        self.rig = rig
        self.memory = memory
        self.client = rig.client(name=NAME)
        self.client.heard = self.heard
        self.asked = 0
        self.queue, self.source = self.client.open(), self.client.open(access=RECEIVE)
        self.ledger = self.client.open(LEDGER)
        self.ledger_source = self.client.open(LEDGER, RECEIVE)

    def check(self) -> Day:
        """What was answered before the power went is there."""
        told = self.memory.told
        orders, ledger = (books_of(self.rig.queue(name)) for name in ("orders", "ledger"))
        answers = [told[request_id] for request_id in sorted(told.keys() - ALONE)]
        sent = sum(len(answer) for answer in answers if isinstance(answer, tuple))
        alone = sum(len(told.get(request_id, ())) for request_id in ALONE)
        committed = sum(isinstance(answer, payloads.Done) for answer in told.values())
        assert orders.accepted >= sent
        assert orders.received >= told.get(3, 0)
        assert ledger.accepted >= 3 * committed + alone
        return self

    def run(self) -> Day:
        for request_id, step in enumerate(
            (
                self.send_plain,
                self.send_demanding,
                self.send_and_receive,
                self.commit_first,
                self.commit_second,
                self.send_more,
                self.send_alone,
                self.send_alone_beyond_the_buffer,
            ),
            1,
        ):
            self.asked = request_id
            step(request_id)
            self.rig.tidy(2)
        return self

    def heard(self, frame: frames.Frame) -> None:
        """Whatever was answered to a request with an id is remembered from that moment on."""
        committed = frame.kind == frames.DONE and self.asked in self.memory.commits
        if self.asked and (committed or frame.kind in (frames.SENT, frames.ENDED)):
            self.told(self.asked, frames.decode(frame.kind, frame.payload))

    def told(self, request_id: int, answer: Any) -> Any:
        """What was told once stays true."""
        known = self.memory.told.setdefault(request_id, answer)
        assert known == answer, f"request {request_id} was {known} and is {answer}"
        return answer

    def _send(self, request_id: int, batch: list[bytes]) -> None:
        sent = self.client.send(self.queue, batch, request_id=request_id)
        assert len(self.told(request_id, sent)) == len(batch)

    def send_plain(self, request_id: int) -> None:
        self._send(request_id, packets(*(b"plain %d" % n + b"." * 200 for n in range(6))))

    def send_demanding(self, request_id: int) -> None:
        batch = packets(b"ask 0", b"ask 1", **DEMANDING)
        self._send(request_id, [*batch, packet(b"plain too"), *packets(b"ask 2", **DEMANDING)])

    def send_more(self, request_id: int) -> None:
        self._send(request_id, packets(*(b"more %d" % n + b"." * 300 for n in range(8))))

    def _send_alone(self, request_id: int, batch: list[bytes]) -> None:
        """Messages that are a transaction of their own."""
        own = payloads.OWN_TRANSACTION
        sent = self.client.send(self.ledger, batch, tx=own, request_id=request_id)
        assert len(self.told(request_id, sent)) == len(batch)

    def send_alone(self, request_id: int) -> None:
        batch = packets(b"alone 0", b"alone 1", to="ledger", transactional=True)
        asking = packet(b"alone 2", to="ledger", transactional=True, **DEMANDING)
        self._send_alone(request_id, [*batch, asking])

    def send_alone_beyond_the_buffer(self, request_id: int) -> None:
        self._send_alone(request_id, packets(*LARGE, to="ledger", transactional=True))

    def send_and_receive(self, request_id: int) -> None:
        memory, client = self.memory, self.client
        if memory.received is not None:
            answer = client.end(self.source, memory.received, request_id=request_id)
            if not isinstance(answer, payloads.Refusal):
                assert self.told(request_id, answer) == 3
                return
            assert request_id not in memory.told
        lookup_ids = [m.lookup_id for m in client.read(self.source, count=3)]
        assert memory.received in (None, lookup_ids), "all of them are back, at their places"
        memory.received = lookup_ids
        assert self.told(request_id, client.end(self.source, lookup_ids, request_id=request_id))

    def commit_first(self, request_id: int) -> None:
        self._commit(request_id, b"first", 0)

    def commit_second(self, request_id: int) -> None:
        self._commit(request_id, b"second" + b"." * 900, 1)

    def _commit(self, request_id: int, body: bytes, received: int) -> None:
        memory, client = self.memory, self.client
        if request_id in memory.commits:
            transaction = memory.commits[request_id]
            asked = client.answer(client.put(payloads.Commit(transaction, request_id)))
            if isinstance(asked, payloads.Done):
                self.told(request_id, asked)
                return
            assert request_id not in memory.told
        transaction = client.begin()
        batch = packets(body, body, body, to="ledger", transactional=True)
        self.asked = 0
        client.send(self.ledger, batch, tx=transaction)
        if received:
            client.read(self.ledger_source, tx=transaction)
        self.asked = request_id
        memory.commits[request_id] = transaction
        answer = client.answer(client.put(payloads.Commit(transaction, request_id)))
        assert isinstance(self.told(request_id, answer), payloads.Done)


def outcome(rig: DiskRig) -> dict[str, Any]:
    """What the day came to."""
    rig.check_books()
    return {
        "orders": rig.bodies("orders"),
        "ledger": rig.bodies("ledger"),
        "acknowledgments": len(rig.bodies("acks")),
    }


def moments(desk: type[TurnDesk] = TurnDesk) -> Iterator[tuple[SimDisk, Memory]]:
    """The disk and the client's memory right after every operation of the disk."""
    disk = SimDisk()
    rig = DiskRig(disk, desk).provision()
    memory, seen = Memory(), list[tuple[SimDisk, Memory]]()
    disk.on_operation = lambda operation: seen.append((disk.clone(), deepcopy(memory)))
    Day(rig, memory).run()
    disk.on_operation = lambda operation: None
    yield from seen


EXPECTED = {
    "orders": [
        *(b"plain %d" % n + b"." * 200 for n in range(3, 6)),
        b"ask 0",
        b"ask 1",
        b"plain too",
        b"ask 2",
        *(b"more %d" % n + b"." * 300 for n in range(8)),
    ],
    "ledger": [
        *[b"first"] * 2,
        *[b"second" + b"." * 900] * 3,
        *(b"alone %d" % n for n in range(3)),
        *LARGE,
    ],
    "acknowledgments": 4,
}


def test_a_day_without_trouble() -> None:
    assert outcome(Day(DiskRig(SimDisk()).provision(), Memory()).run().rig) == EXPECTED


@pytest.mark.parametrize("bare", [False, True])
def test_power_loss_at_every_operation_and_the_same_requests_again(bare: bool, dose: Dose) -> None:
    count = 0
    for number, (disk, memory) in enumerate(moments()):
        for label, found in crashed(disk, dose(3, 40)):
            if bare:
                found = without_conveniences(found)
            count += 1
            try:
                day = Day(DiskRig(found), deepcopy(memory)).check().run()
                assert outcome(day.rig) == EXPECTED
            except Exception as error:
                error.add_note(f"after operation {number}, {label}")
                raise
    print(count, "crashes")
    assert count > 50


class HastyDesk(TurnDesk):
    """Lets answers out as soon as they are decided, as no desk may."""

    def settle(self) -> None:
        while self.turning or self.driver.waiting_answers:
            self.append()
            while self.driver.outbox:
                _, release, value = self.driver.outbox.popleft()
                release(value)


def test_answers_before_their_sync_would_be_noticed() -> None:
    broken = set[frozenset[int]]()
    for disk, memory in moments(HastyDesk):
        try:
            Day(DiskRig(disk.crash("nothing")), memory).check()
        except AssertionError:
            broken.add(frozenset(memory.told))
    assert broken >= {frozenset(range(1, last + 1)) for last in range(1, 6)}


def test_results_outlive_the_segments_of_their_messages() -> None:
    """Compaction drops what was received; the log alone still says that it was sent."""
    disk = SimDisk()
    rig = DiskRig(disk).provision()
    client = rig.client(name=NAME)
    queue, source = client.open(), client.open(access=RECEIVE)

    def pass_by() -> None:
        client.send(queue, packets(b"x" * 500, b"y" * 500))
        client.end(source, [m.lookup_id for m in client.read(source, count=100)])

    for _ in range(4):  # out of the first segment, which has definitions that stay
        pass_by()
    sent = client.send(queue, packets(b"once"), request_id=1)
    segment = max(name for name in disk.names() if name.endswith(".log"))
    for _ in range(20):
        pass_by()
        rig.tidy(20)
        rig.driver.sync()
    assert segment not in disk.names()
    rig = DiskRig(without_conveniences(disk.clone().crash("everything")))
    client = rig.client(name=NAME)
    assert client.send(client.open(), packets(b"once"), request_id=1) == sent
    assert rig.bodies("orders") == []
