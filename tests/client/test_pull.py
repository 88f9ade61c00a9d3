"""Messages of one queue manager are pulled by another: each once, whatever breaks on the way."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest

import posthouse
from posthouse.client.msmq import login_of
from posthouse.client.remote.login import RemotePlace
from posthouse.client.remote.pull.queue_pull import (
    CHUNK,
    DOUBT_ROUNDS,
    REFUSED_MAX,
    QueuePull,
)
from posthouse.client.remote.pull.run import PullRun, PullSource
from posthouse.client.remote.pull.source import guid_in_name, guid_of_machine, source_name
from posthouse.client.remote.reader import QueueReader, RemoteReader
from posthouse.client.remote.state import DENY_SHARE, PEEK_ACCESS, RECEIVE_ACCESS
from posthouse.model.errors import (
    InsufficientResources,
    RemoteProtocolError,
    SharingViolation,
)
from posthouse.model.names import parse_format_name
from posthouse.protocols.remote_read.stubs import Opnum, Status
from tests.client.read_peer import Break, Peer, packet
from tests.client.read_serving import ReadServing, read_serving
from tests.client.reading_house import REQUEST, CuttingRelay
from tests.client.serving import Serving, serving
from tests.conftest import Dose

NOBODY = login_of(None, None, None, "negotiate")
NUMBERS = count()
OPNUM_AT = 22  # of a request PDU


@pytest.fixture(scope="module")
def far() -> Iterator[ReadServing]:
    with read_serving() as server:
        yield server


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("home") / "here") as running:
        yield running


class Pair:
    """A queue there, one of the same name here."""

    def __init__(self, far: ReadServing, here: Serving, **properties: Any) -> None:
        self.far, self.here = far, here
        self.name = rf"private$\orders-{next(NUMBERS)}"
        self.path = rf".\{self.name}"
        self.theirs = posthouse.connect(far.home)
        self.ours = posthouse.connect(here.home)
        self.theirs.create_queue(self.path, **properties)
        for path in (self.path, self.path + ";journal"):
            self.theirs.call(
                "POST",
                f"/queues/{quote(path, safe='')}/access/grant",
                {"who": "anonymous", "rights": ["full"]},
            )
        self.ours.create_queue(self.path, **properties)
        self.guid = bytes.fromhex(self.theirs.guid.replace("-", ""))

    def close(self) -> None:
        self.theirs.close()
        self.ours.close()

    def send(self, *bodies: bytes, **how: Any) -> None:
        self.theirs.queue(self.path).send_many(bodies, **{"recoverable": True} | how)

    def there(self, ending: str = "") -> list[bytes]:
        return [one.body for one in self.theirs.queue(self.path + ending).browse()]

    def receive_there(self, body: bytes) -> None:
        """As a program does, so that it comes to the journal."""
        with posthouse.connect(self.far.home) as reader:
            queue = reader.queue(self.path)
            queue.send(body, recoverable=True)
            assert queue.receive(0).body == body

    def bodies(self, ending: str = "") -> list[bytes]:
        return [one.body for one in self.ours.queue(self.path + ending).browse()]

    def run(self, ending: str = "") -> PullRun:
        source = PullSource(self.guid, self.name + ending, "far")
        return PullRun(self.ours, source, self.path + ending, 5.0)

    @contextmanager
    def reader(
        self, port: int = 0, *, takes: bool = True, ending: str = ""
    ) -> Iterator[QueueReader]:
        place = RemotePlace("127.0.0.1", port or self.far.rpc_port)
        reader = RemoteReader(place, NOBODY, timeout_s=10.0, reconnect_s=10.0)
        format_name = parse_format_name(rf"DIRECT=OS:localhost\{self.name}{ending}")
        access, share = (RECEIVE_ACCESS, DENY_SHARE) if takes else (PEEK_ACCESS, 0)
        try:
            yield reader.queue(self.name, format_name, access, share)
        finally:
            reader.close()

    def move(self, port: int = 0, *, ending: str = "", **how: Any) -> Any:
        run = self.run(ending)
        run.begin()
        with self.reader(port, ending=ending) as queue:
            try:
                return QueuePull(queue, run, **how).move()
            finally:
                run.end()

    def copy(self, port: int = 0, **how: Any) -> Any:
        run = self.run()
        run.begin()
        with self.reader(port, takes=False) as queue:
            try:
                return QueuePull(queue, run, **how).copy()
            finally:
                run.end()


@pytest.fixture
def pair(far: ReadServing, here: Serving) -> Iterator[Pair]:
    made = Pair(far, here)
    yield made
    made.close()


def bodies(number: int) -> list[bytes]:
    return [b"%05d" % at for at in range(number)]


# -- moving and copying


def test_a_queue_is_moved_in_order(pair: Pair) -> None:
    sent = bodies(3 * CHUNK + 5)
    pair.send(*sent)
    counts = pair.move()
    assert (counts.taken, counts.ended, counts.known) == (len(sent), len(sent), 0)
    assert (pair.bodies(), pair.there()) == (sent, [])
    assert pair.move().read == 0


def test_a_message_stays_what_it_was(pair: Pair) -> None:
    pair.send(
        b"<order/>",
        label="Grüße",
        extension=b"headers",
        priority=6,
        app_specific=77,
        correlation="ab" * 20,
        time_to_be_received=86_400,
    )
    (before,) = list(pair.theirs.queue(pair.path).browse())
    pair.move()
    (after,) = list(pair.ours.queue(pair.path).browse())
    for name in (
        "id", "body", "body_type", "label", "extension", "priority", "app_specific", "delivery",
        "correlation_id", "sent_time", "arrived_time", "message_class", "time_to_be_received",
        "destination",
    ):  # fmt: skip
        assert getattr(after, name) == getattr(before, name), name


def test_what_comes_with_other_priorities_keeps_its_order(pair: Pair) -> None:
    for at, body in enumerate(bodies(CHUNK * 2)):
        pair.send(body, priority=at * 5 % 8)
    order = pair.there()
    pair.move()
    assert pair.bodies() == order


def test_a_transactional_queue_is_moved(far: ReadServing, here: Serving) -> None:
    pair = Pair(far, here, transactional=True)
    sent = bodies(CHUNK + 9)
    with pair.theirs.transaction() as tx:
        pair.theirs.queue(pair.path).send_many(sent, tx=tx)
    pair.move()
    assert (pair.bodies(), pair.there()) == (sent, [])
    assert {one.delivery for one in pair.ours.queue(pair.path).browse()} == {"transactional"}
    pair.close()


def test_copies_leave_the_source_as_it_is(pair: Pair) -> None:
    sent = bodies(2 * CHUNK + 3)
    pair.send(*sent)
    assert pair.copy().taken == len(sent)
    pair.send(b"later")
    assert pair.copy().taken == 1
    assert pair.bodies() == pair.there() == [*sent, b"later"]


def test_what_was_copied_is_not_moved_again(pair: Pair) -> None:
    pair.send(*bodies(20))
    pair.copy()
    pair.send(b"later")
    counts = pair.move()
    assert (counts.taken, counts.known, counts.ended) == (1, 20, 21)
    assert (pair.bodies(), pair.there()) == ([*bodies(20), b"later"], [])


def test_express_messages_are_durable_here(pair: Pair) -> None:
    pair.send(b"express", recoverable=False)
    pair.move()
    (found,) = list(pair.ours.queue(pair.path).browse())
    assert (found.body, found.delivery) == (b"express", "recoverable")


def test_a_limit_ends_it_early(pair: Pair) -> None:
    pair.send(*bodies(100))
    assert pair.move(limit=70).read == 70
    assert (pair.bodies(), pair.there()) == (bodies(100)[:70], bodies(100)[70:])
    assert pair.copy(limit=10).read == 10
    assert (len(pair.bodies()), len(pair.there())) == (80, 30)


def test_late_messages_are_followed(pair: Pair) -> None:
    pair.send(b"first")
    sent = iter([b"second", b"third"])
    told: list[int] = []

    def follow() -> bool:
        """Looked at whenever the source is empty."""
        if len(told) < 3:
            for body in sent:
                pair.send(body)
                break
        return len(pair.bodies()) < 3

    run = pair.run()
    run.begin()
    with pair.reader() as queue:
        counts = QueuePull(queue, run, told=lambda c: told.append(c.read)).move(follow=follow)
    run.end()
    assert counts.taken == 3
    assert (pair.bodies(), pair.there()) == ([b"first", b"second", b"third"], [])


def test_a_rate_bounds_what_is_read_together(pair: Pair) -> None:
    pair.send(*bodies(6))
    told: list[int] = []
    pair.move(rate=3.0, told=lambda counts: told.append(counts.read))
    assert told == [3, 6]


def test_journals_and_dead_letters_are_pulled(far: ReadServing, here: Serving) -> None:
    pair = Pair(far, here, journal=True)
    pair.receive_there(b"read there")
    pair.send(b"moved")
    pair.move()
    counts = pair.move(ending=";journal")
    assert (pair.bodies(), pair.bodies(";journal")) == ([b"moved"], [b"read there"])
    assert (counts.taken, counts.known, counts.stay) == (1, 0, 1)
    assert pair.there(";journal") == [b"moved"]
    pair.close()


def journaled(far: ReadServing, here: Serving, moved: list[bytes], read: list[bytes]) -> Pair:
    """A pair whose source has in its journal what a pull moved, in the middle of what was read."""
    pair = Pair(far, here, journal=True)
    for body in read:
        if body == read[-1]:
            pair.send(*moved)
            pair.move()
        pair.receive_there(body)
    return pair


def test_a_second_pull_leaves_in_a_journal_what_pulls_put_there(
    far: ReadServing, here: Serving
) -> None:
    moved, read = bodies(CHUNK + 3), [b"read one", b"read two"]
    pair = journaled(far, here, moved, read)
    for taken in (2, 0, 0):
        counts = pair.move(ending=";journal")
        assert (counts.taken, counts.ended, counts.stay) == (taken, taken, len(moved))
        assert pair.there(";journal") == moved
    assert (pair.bodies(), pair.bodies(";journal")) == (moved, read)
    pair.close()


def test_a_limit_counts_what_a_journal_gives_and_not_what_stays(
    far: ReadServing, here: Serving
) -> None:
    moved, read = bodies(5), [b"read %d" % at for at in range(5)]
    pair = journaled(far, here, moved, read)
    for more in (2, 2, 1):
        assert pair.move(ending=";journal", limit=2).taken == more
    assert (pair.bodies(";journal"), pair.there(";journal")) == (read, moved)
    pair.close()


def test_a_journal_is_followed(
    far: ReadServing, here: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.client.remote.pull.queue_pull.FOLLOW_S", 0.05)
    moved, late = bodies(3), iter([True, True, False])
    pair = journaled(far, here, moved, [b"read one", b"read two"])
    with pair.reader(ending=";journal") as queue:
        run = pair.run(";journal")
        run.begin()

        def follow() -> bool:
            pair.receive_there(b"late")
            return next(late)

        counts = QueuePull(queue, run).move(follow=follow)
        run.end()
    assert (counts.taken, counts.stay) == (4, 3)
    assert sorted(pair.there(";journal")) == [*moved, b"late"]
    pair.close()


# -- one at a time, and alone at the source


def test_a_second_run_is_refused(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    run = pair.run()
    run.begin()
    other = posthouse.connect(pair.here.home)
    second = PullRun(other, run.source, pair.path, 5.0)
    with monkeypatch.context() as patience:
        patience.setattr("posthouse.client.remote.pull.run.ENDING_S", 0.0)
        with pytest.raises(SharingViolation, match="pulled by another run"):
            second.begin()
    run.end()
    second.begin()
    other.close()  # which ends it, too
    assert pair.run().begin().epoch >= 3


def test_another_reader_of_the_source_is_told_of(pair: Pair) -> None:
    pair.send(b"one")
    with pair.reader() as queue, pair.theirs.queue(pair.path).consume(timeout=0) as consumer:
        assert consumer.next() is not None
        queue.reader.reconnect_s = 0.0
        run = pair.run()
        run.begin()
        with pytest.raises(SharingViolation, match="--shared"):
            QueuePull(queue, run).move()
        run.end()


# -- connections break at each request


def requests_of(pair: Pair, number: int) -> int:
    """How many requests a pull of this many messages takes."""
    pair.send(*bodies(number))
    with CuttingRelay(pair.far.rpc_port) as relay:
        pair.move(relay.port)
        return relay.requests


def test_a_connection_that_breaks_anywhere_costs_nothing(
    far: ReadServing, here: Serving, dose: Dose
) -> None:
    """Before a request, before its answer, after it: opens, reads, ends."""
    sent, first = bodies(6), Pair(far, here)
    total, asked = requests_of(first, len(sent)), 0
    first.close()
    for number in range(1, total + 1, dose(5, 1)):
        for moment in ("before", "behind", "after"):
            pair = Pair(far, here)
            pair.send(*sent)
            with CuttingRelay(far.rpc_port, (number, moment)) as relay:
                counts = pair.move(relay.port)
            assert (pair.bodies(), pair.there()) == (sent, []), (number, moment)
            assert counts.taken == len(sent)
            asked += counts.asked_again
            pair.close()
    assert asked, "no answer to an end was lost"


def test_a_connection_that_breaks_anywhere_leaves_a_journal_what_pulls_put_there(
    far: ReadServing, here: Serving, dose: Dose
) -> None:
    """What came here and was not ended there is ended; what pulls put there never is."""
    moved, read = bodies(3), [b"read one", b"read two"]
    first = journaled(far, here, moved, read)
    with CuttingRelay(far.rpc_port) as relay:
        first.move(relay.port, ending=";journal")
        total = relay.requests
    first.close()
    for number in range(1, total + 1, dose(13, 1)):
        for moment in ("before", "behind", "after"):
            pair = journaled(far, here, moved, read)
            with CuttingRelay(far.rpc_port, (number, moment)) as relay:
                pair.move(relay.port, ending=";journal")
            assert pair.there(";journal") == moved, (number, moment)
            assert (pair.bodies(), pair.bodies(";journal")) == (moved, read), (number, moment)
            pair.close()


class EndsCut(CuttingRelay):
    """Cuts the connection behind each of the first ends, before its answer."""

    cuts = DOUBT_ROUNDS + 2

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        def pass_on(pdu: bytes) -> bool:
            server.sendall(pdu)
            ends = pdu[2] == REQUEST and pdu[OPNUM_AT] == Opnum.END_RECEIVE
            self.cuts -= ends
            return not ends or self.cuts < 0

        self._pump(client, server, pass_on)


@pytest.mark.parametrize("ending", ["", ";journal"])
def test_a_connection_that_breaks_at_many_ends_costs_nothing(
    far: ReadServing, here: Serving, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.client.remote.pull.queue_pull.CHUNK", 1)
    read = bodies(DOUBT_ROUNDS + 4)
    pair = journaled(far, here, [b"moved"], read) if ending else Pair(far, here)
    if not ending:
        pair.send(*read)
    with EndsCut(far.rpc_port) as relay:
        pair.move(relay.port, ending=ending)
        assert relay.cuts < 0
    assert (pair.bodies(ending), pair.there(ending)) == (read, [b"moved"] if ending else [])
    pair.close()


def test_a_copy_goes_on_after_a_broken_connection(pair: Pair) -> None:
    pair.send(*bodies(CHUNK))
    for number in (2, 20, 70, 100):
        with CuttingRelay(pair.far.rpc_port, (number, "behind")) as relay:
            pair.copy(relay.port)
    assert pair.bodies() == pair.there() == bodies(CHUNK)


# -- the queue here


def test_a_full_queue_stops_it_and_the_rest_stays(pair: Pair) -> None:
    pair.send(*[bytes(200)] * 20)
    pair.ours.queue(pair.path).set(quota_kib=2)
    with pytest.raises(InsufficientResources, match="quota"):
        pair.move()
    taken = len(pair.bodies())
    assert 0 < taken < 20
    assert len(pair.there()) == 20 - taken
    pair.ours.queue(pair.path).set(quota_kib=None)
    pair.move()
    assert (len(pair.bodies()), pair.there()) == (20, [])


def test_what_is_refused_here_stays_there(far: ReadServing, here: Serving) -> None:
    pair = Pair(far, here)
    pair.ours.delete_queue(pair.path)
    pair.ours.create_queue(pair.path, transactional=True)
    pair.send(*bodies(3))
    run = pair.run()
    run.begin()
    with pair.reader() as queue:
        pull = QueuePull(queue, run)
        assert pull.move().refused == 3
    run.end()
    assert pull.refusal is not None
    assert "transactional" in pull.refusal.cause
    assert (pair.bodies(), pair.there()) == ([], bodies(3))
    pair.close()


# -- a source that does as it likes


class Hostile:
    """A computer that answers as a test wants, pulled into a queue here."""

    def __init__(self, here: Serving, *contents: bytes) -> None:
        self.peer = Peer(*contents)
        self.path = rf".\private$\hostile-{next(NUMBERS)}"
        self.ours = posthouse.connect(here.home)
        self.ours.create_queue(self.path)

    def __enter__(self) -> Hostile:
        return self

    def __exit__(self, *_: object) -> None:
        self.ours.close()
        self.peer.close()

    def pull(self, *, keep: bool = False) -> Any:
        place = RemotePlace("127.0.0.1", self.peer.port)
        reader = RemoteReader(place, NOBODY, timeout_s=5.0, reconnect_s=1.0)
        name = parse_format_name(r"DIRECT=OS:far\private$\orders")
        source = PullSource(bytes(range(16)), f"{self.path}", "hostile")
        run = PullRun(self.ours, source, self.path, 5.0)
        run.begin()
        try:
            queue = reader.queue("orders", name, RECEIVE_ACCESS, 0)
            pull = QueuePull(queue, run)
            return pull.copy() if keep else pull.move()
        finally:
            reader.close()
            run.end()

    def bodies(self) -> list[bytes]:
        return [one.body for one in self.ours.queue(self.path).browse()]


def test_a_source_that_gives_ended_messages_again_is_left(here: Serving) -> None:
    with Hostile(here, b"aaaa", b"bbbb") as source:
        source.peer.instead[Opnum.END_RECEIVE] = source_forgets(source.peer)
        with pytest.raises(RemoteProtocolError, match="again that it has removed"):
            source.pull()
        assert source.bodies() == [b"aaaa", b"bbbb"]


def source_forgets(peer: Peer) -> Any:
    """R_EndReceive that answers well, and keeps the message."""

    def end(request: Any, call: Any) -> Any:
        peer.locked.pop((request.handle, request.request_id), None)
        return Status(0)

    return end


def test_a_source_that_refuses_each_end_is_left(here: Serving) -> None:
    with Hostile(here, b"aaaa") as source:

        def refuse(request: Any, call: Any) -> Any:
            source.peer.locked.pop((request.handle, request.request_id), None)
            return 0xC00E0001

        source.peer.instead[Opnum.END_RECEIVE] = refuse
        with pytest.raises(RemoteProtocolError, match="does not remove"):
            source.pull()
        assert source.bodies() == [b"aaaa"]
        assert source.peer.bodies == [b"aaaa"]


def test_nothing_is_ended_that_was_not_taken_here(here: Serving) -> None:
    """Two messages under one lookup identifier: the second one stays at its source."""
    with Hostile(here, b"aaaa") as source:
        source.pull()
        source.peer.put(packet(b"zzzz"), lookup_id=100)
        counts = source.pull()
        assert (counts.taken, counts.refused) == (0, 1)
        assert source.bodies() == [b"aaaa"]
        assert source.peer.bodies == [b"zzzz"]


def test_a_lost_answer_is_asked_for_by_lookup_identifier(here: Serving) -> None:
    with Hostile(here, b"aaaa", b"bbbb") as source:
        peer, broken = source.peer, iter([True])

        def end(request: Any, call: Any) -> Any:
            if next(broken, False):
                raise Break
            return peer._end_receive(request, call)

        peer.instead[Opnum.END_RECEIVE] = end
        counts = source.pull()
        assert (counts.taken, counts.known) == (2, 1)
        assert counts.asked_again == 2
        assert source.bodies() == [b"aaaa", b"bbbb"]
        assert peer.bodies == []
        asked = [request.lookup_id for request in peer.asked(Opnum.START_RECEIVE)]
        assert [one for one in asked if one] == [100, 101]


@pytest.mark.parametrize("lookup_id", [0, 1 << 63, (1 << 64) - 1])
def test_an_impossible_lookup_identifier_is_refused(here: Serving, lookup_id: int) -> None:
    with Hostile(here) as source:
        source.peer.put(packet(b"aaaa"), lookup_id=lookup_id)
        with pytest.raises(RemoteProtocolError, match="lookup id"):
            source.pull()
        assert source.bodies() == []
        assert source.peer.bodies == [b"aaaa"]


def test_a_queue_that_lists_a_message_for_ever_is_left(here: Serving) -> None:
    with Hostile(here, b"aaaa") as source:
        peer = source.peer

        def same(request: Any, call: Any) -> Any:
            return peer._answer(request, call, 100)

        peer.instead[Opnum.START_RECEIVE] = same
        with pytest.raises(RemoteProtocolError, match="again"):
            source.pull(keep=True)
        assert source.bodies() in ([], [b"aaaa"])


def test_more_refusals_than_can_be_held_end_it(here: Serving) -> None:
    with Hostile(here, *[b"%04d" % at for at in range(REFUSED_MAX + CHUNK)]) as source:
        source.ours.delete_queue(source.path)
        source.ours.create_queue(source.path, transactional=True)
        with pytest.raises(Exception, match="transactional"):
            source.pull()
        assert len(source.peer.bodies) == REFUSED_MAX + CHUNK


def oversize(size: int = 5 << 20) -> bytes:
    """A message with a body that no packet has room for."""
    data = packet(b"Z" * 1000)
    longer = data.replace((1000).to_bytes(4, "little"), size.to_bytes(4, "little"))
    assert longer != data
    return longer + b"Z" * (size - 1000)


@pytest.mark.parametrize(
    "data",
    [b"", bytes(100), packet(b"aaaa")[:-8], oversize()],
    ids=["empty", "zeros", "torn", "oversize"],
)
def test_what_is_not_a_message_ends_it_and_stays(here: Serving, data: bytes) -> None:
    with Hostile(here, b"good") as source:
        source.peer.put(data)
        with pytest.raises(RemoteProtocolError):
            source.pull()
        assert source.bodies() == [b"good"]
        assert list(source.peer.messages.values()) == [data]


def test_an_endless_queue_ends_with_the_room_here(here: Serving) -> None:
    with Hostile(here, b"aaaa") as source:
        source.ours.queue(source.path).set(quota_kib=50)

        def more(request: Any, call: Any) -> None:
            source.peer.put(packet(b"more"))

        source.peer.before[Opnum.START_RECEIVE] = more
        with pytest.raises(InsufficientResources, match="quota"):
            source.pull()
        assert len(source.bodies()) > CHUNK


# -- which machine it is


def test_a_machine_gives_its_guid(far: ReadServing) -> None:
    with posthouse.connect(far.home) as qm:
        wanted = far.ask(lambda m: m.machine.identifier)
        assert guid_of_machine("127.0.0.1", far.binary_port) == wanted
        assert qm.guid


def test_a_machine_that_is_not_there_is_told_with_a_remedy() -> None:
    with pytest.raises(ConnectionError, match=r"cannot be asked for its GUID.*--guid"):
        guid_of_machine("127.0.0.1", 9, timeout_s=1.0)


def test_names_of_queues_are_those_on_their_machine() -> None:
    for text in (
        r"DIRECT=OS:FAR\Private$\Orders",
        r"DIRECT=TCP:10.0.0.1\private$\orders",
        r"DIRECT=OS:far.example.com\private$\orders",
    ):
        assert source_name(parse_format_name(text)) == r"private$\orders"
    public = parse_format_name("PUBLIC=01234567-89ab-cdef-0123-456789abcdef")
    assert source_name(public, r"FAR\Orders") == source_name(
        parse_format_name(r"DIRECT=OS:far\orders")
    )
    guid = "01234567-89ab-cdef-0123-456789abcdef"
    name = parse_format_name(f"MACHINE={guid};DEADLETTER")
    assert guid_in_name(name) == name.guid  # type: ignore[union-attr]
    assert guid_in_name(public) is None
