"""`remote.queue(...).receive(tx=tx)`: another computer's messages in a local transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import posthouse
from posthouse.client.errors import ClientConnectionError, TransactionAborted
from posthouse.model.errors import (
    BufferOverflow,
    IoTimeout,
    QueueError,
    TransactionEnlist,
    TransactionSequence,
    TransactionUsage,
)
from tests.client.neighbours import until
from tests.client.reading_house import CuttingRelay, Houses, houses


@pytest.fixture(scope="module")
def both() -> Iterator[Houses]:
    with houses() as running:
        yield running


def bodies(queue: posthouse.Queue) -> list[bytes]:
    return [message.body for message in queue.browse()]


def settled(both: Houses) -> None:
    """Nothing between the two is undecided or untold."""

    def quiet() -> bool:
        return all(
            house.ask(
                lambda m: (
                    not m.transactions.collection.open and not m.transactions.coordinator.joints
                )
            )
            for house in (both.here, both.there)
        )

    until(quiet)


@pytest.mark.spec(
    "MS-MQRR 3.2.4.2/1", "MS-MQRR 3.2.4.2/2", "MS-MQRR 3.2.4.4.2/1", "MS-MQRR 3.2.4.4.2/2"
)
def test_what_is_received_and_sent_happens_together(both: Houses) -> None:
    queue, kept = both.queue(b"one", b"two"), both.target()
    with both.reader() as far, both.near.transaction() as tx:
        source = far.queue(queue.name[2:])
        for _ in range(2):
            kept.send(source.receive(0, tx=tx).body, tx=tx)
        with pytest.raises(IoTimeout):
            source.receive(0, tx=tx)
        assert bodies(kept) == []
    settled(both)
    assert bodies(kept) == [b"one", b"two"]
    assert bodies(queue) == []


def test_an_abort_brings_everything_back(both: Houses) -> None:
    queue, kept = both.queue(b"one"), both.target()
    with both.reader() as far:
        source = far.queue(queue.name[2:])
        tx = both.near.transaction().begin()
        kept.send(source.receive(0, tx=tx).body, tx=tx)
        tx.abort()
        settled(both)
        assert bodies(kept) == []
        (again,) = queue.browse()
        assert (again.body, again.abort_count, again.in_doubt) == (b"one", 1, False)
        with both.near.transaction() as tx:
            assert source.receive(0, tx=tx).body == b"one"
    settled(both)
    assert bodies(queue) == []


@pytest.mark.spec("MS-MQRR 3.2.4.5/1")
def test_a_message_is_rejected_with_the_commit(both: Houses) -> None:
    queue = both.queue()
    with both.far.transaction() as tx:
        queue.send(b"unwanted", dead_letter=True, tx=tx)
    with both.reader() as far, both.near.transaction() as tx:
        source = far.queue(queue.name[2:])
        source.reject(source.receive(0, tx=tx), tx=tx)
    settled(both)
    assert bodies(queue) == []
    with both.far.transaction() as tx:
        dead = both.far.queue(r".\system$;deadxact").receive(0, tx=tx)
    assert dead.body == b"unwanted"


@pytest.mark.spec("MS-MQRR 3.2.4.6/1", "MS-MQRR 3.2.4.6/2")
@pytest.mark.parametrize("commits", [True, False])
def test_moves_are_part_of_the_transaction(both: Houses, commits: bool) -> None:
    queue = both.queue(b"one", b"two")
    subqueue = f"{queue.name[2:]};poison"
    with both.reader() as far:
        source, target = far.queue(queue.name[2:]), far.queue(subqueue)
        tx = both.near.transaction().begin()
        source.move(source.peek(0), target, tx=tx)
        assert source.receive(0, tx=tx).body == b"two"
        (tx.commit if commits else tx.abort)()
        settled(both)
        assert bodies(queue) == ([] if commits else [b"one", b"two"])
        if commits:
            assert target.peek(0).body == b"one"


@pytest.mark.spec("MS-MQRR 3.2.4.6/2")
def test_outside_transactional_queues_moves_need_no_transaction(both: Houses) -> None:
    queue = both.queue(b"one", transactional=False)
    with both.reader() as far:
        source, target = far.queue(queue.name[2:]), far.queue(f"{queue.name[2:]};poison")
        source.move(source.peek(0), target)
        assert target.receive(0).body == b"one"


def test_one_transaction_reads_by_several_readers(both: Houses) -> None:
    first, second, kept = both.queue(b"one"), both.queue(b"two"), both.target()
    with both.reader() as far, both.near.transaction() as tx:
        for queue in (first, second):
            kept.send(far.queue(queue.name[2:]).receive(0, tx=tx).body, tx=tx)
        by_lookup = far.queue(first.name[2:])
        with pytest.raises(QueueError):
            by_lookup.lookup(12345, receive=True, tx=tx)
    settled(both)
    assert bodies(kept) == [b"one", b"two"]


# -- refusals


def test_a_peer_that_is_none_cannot_take_part(both: Houses) -> None:
    queue = both.queue(b"one")
    with (
        both.reader(peer="NOBODY") as far,
        both.near.transaction() as tx,
        pytest.raises(TransactionEnlist, match="no peer is called 'NOBODY'"),
    ):
        far.queue(queue.name[2:]).receive(0, tx=tx)
    assert bodies(queue) == [b"one"]


def test_a_peer_is_known_by_its_host_too(both: Houses) -> None:
    queue = both.queue(b"one")
    with both.reader(peer=None) as far, both.near.transaction() as tx:
        far.queue(queue.name[2:]).receive(0, tx=tx)
    settled(both)
    assert bodies(queue) == []


def test_only_the_local_queue_manager_decides(both: Houses) -> None:
    queue = both.queue(b"one")
    with both.reader() as far, both.far.transaction() as tx, pytest.raises(TransactionUsage):
        far.queue(queue.name[2:]).receive(0, tx=tx)
    with (
        both.reader(via=None) as far,
        both.near.transaction() as tx,
        pytest.raises(TransactionUsage),
    ):
        far.queue(queue.name[2:]).receive(0, tx=tx)


def test_a_queue_that_is_not_transactional_is_not_read_in_one(both: Houses) -> None:
    queue = both.queue(b"one", transactional=False)
    with (
        both.reader() as far,
        both.near.transaction() as tx,
        pytest.raises(TransactionUsage),
    ):
        far.queue(queue.name[2:]).receive(0, tx=tx)
    assert bodies(queue) == [b"one"]


# -- connections that break


def test_a_part_does_not_outlive_its_connection(both: Houses) -> None:
    queue, kept = both.queue(b"one", b"two"), both.target()
    with both.reader() as far:
        source = far.queue(queue.name[2:])
        tx = both.near.transaction().begin()
        kept.send(source.receive(0, tx=tx).body, tx=tx)
        both.there.break_readers()
        for _ in range(3):
            with pytest.raises((ClientConnectionError, TransactionSequence)) as caught:
                source.receive(0, tx=tx)
        assert isinstance(caught.value, TransactionAborted)
        with pytest.raises(TransactionSequence, match="aborted"):
            tx.commit()
        settled(both)
        assert bodies(kept) == []
        assert bodies(queue) == [b"one", b"two"]


def forward(both: Houses, port: int, queue: posthouse.Queue, kept: posthouse.Queue) -> None:
    """Brings all messages over; whatever fails, it begins again."""
    for _ in range(40):
        settled(both)
        if not bodies(queue):
            return
        with both.reader(port, reconnect=2.0) as far:
            try:
                while True:
                    with both.near.transaction() as tx:
                        body = far.queue(queue.name[2:]).receive(0, tx=tx).body
                        kept.send(body, tx=tx)
            except (QueueError, ClientConnectionError):
                continue
    raise AssertionError("it never ends")


@pytest.mark.spec("MS-MQRR 3.2.4.4.2/3", "MS-MQRR 3.1.4.12/2")
@pytest.mark.parametrize("where", ["before", "behind", "after"])
def test_a_connection_that_breaks_at_any_request_receives_once(both: Houses, where: str) -> None:
    queue, kept = both.queue(b"one", b"two"), both.target()
    with CuttingRelay(both.there.rpc_port) as quiet:
        forward(both, quiet.port, queue, kept)
        requests = quiet.requests
    assert requests >= 7
    for number in range(1, requests + 1):
        queue, kept = both.queue(b"one", b"two"), both.target()
        with CuttingRelay(both.there.rpc_port, (number, where)) as relay:
            forward(both, relay.port, queue, kept)
            assert relay.is_cut
        settled(both)
        assert bodies(queue) == []
        assert sorted(bodies(kept)) == [b"one", b"two"], (number, where)


# -- doubt, without a transaction (decision 42)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/7")
def test_what_a_lost_reader_had_says_so_to_whoever_reads_it_next(both: Houses) -> None:
    queue = both.queue(b"one", transactional=False)
    with (
        CuttingRelay(both.there.rpc_port, (3, "before")) as relay,  # open, start, end
        both.reader(relay.port) as far,
    ):
        handed_out = far.queue(queue.name[2:]).receive(0)
    assert (handed_out.body, handed_out.in_doubt) == (b"one", True)
    again = queue.receive(10)
    assert (again.body, again.in_doubt, again.abort_count) == (b"one", True, 0)
    assert again.lookup_id == handed_out.lookup_id
    assert both.there.ask(lambda m: m.machine.refusals["message_in_doubt"])


def test_a_message_that_its_reader_gave_back_is_in_no_doubt(both: Houses) -> None:
    queue = both.queue(b"a large one", transactional=False)
    with both.reader() as far, pytest.raises(BufferOverflow):
        far.queue(queue.name[2:]).receive(0, body_max=3)
    (again,) = queue.browse()
    assert (again.body, again.in_doubt) == (b"a large one", False)
