"""A damaged packet costs its reader an error, and nobody else anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.reading import MessageSeekAction
from posthouse.model.errors import IoTimeout, MessageStorageFailed
from posthouse.model.message import (
    ACK_FULL_RECEIVE,
    ACK_POS_ARRIVAL,
    DeliveryGuarantee,
    Message,
)
from posthouse.runtime.driver import Answer
from posthouse.sim import SimDisk
from posthouse.store.settings import StoreSettings
from posthouse.wire.frames import frames, payloads
from tests.protocols.admin.session_rig import Client, TurnDesk
from tests.runtime.disk_home import MOVE, PEEK, PLAIN, RECEIVE, SEND, Home

ADMINISTRATION = r".\private$\administration"
POISON = PLAIN + ";poison"
DEAD_LETTERS = r".\system$;deadletter"
ROTTEN = b"rotten" * 20


def damaged(
    *bodies: bytes, home: Home | None = None, sealed: bool = True, **attributes: Any
) -> Home:
    """A home whose queue holds these messages, the rotten one damaged on the disk."""
    home = home or Home()
    home.create()
    home.send(*bodies, **attributes)
    if sealed:
        home.seal()
    home.damage(ROTTEN)
    return home


def told(home: Home) -> int:
    """How many lines of the operator's log tell of damage."""
    lines = [event for event in home.events if event.name == "message_damaged"]
    return len(lines)


@pytest.mark.parametrize("disk", ["simulated", "real"])
@pytest.mark.parametrize("segment", ["open", "sealed"])
def test_one_reader_is_told_and_the_others_get_their_messages(
    disk: str, segment: str, tmp_path: Path
) -> None:
    home = Home(tmp_path if disk == "real" else None)
    damaged(b"a", ROTTEN, b"b", home=home, sealed=segment == "sealed")
    reader, lookup_id = home.open(RECEIVE), home.lookup_ids()[1]
    assert home.receive(reader) == b"a"
    with pytest.raises(MessageStorageFailed, match=f"lookup id {lookup_id} .* damaged") as caught:
        home.receive(reader)
    assert "posthouse damage list" in caught.value.remedy
    assert told(home) == 1
    assert home.receive(reader) == b"b"
    with pytest.raises(IoTimeout):
        home.receive(reader)
    home.check_books()
    assert books_of(home.queue()).locked == 1
    (listed,) = home.manager.machine.damaged_records()
    home.restart()
    home.check_books()
    assert home.manager.machine.damaged_records() == [listed]
    assert books_of(home.queue()).locked == 1
    with pytest.raises(IoTimeout):
        home.receive(home.open(RECEIVE))
    with pytest.raises(MessageStorageFailed):
        home.driver.read(by_lookup_id(home, lookup_id))


def by_lookup_id(home: Home, lookup_id: int) -> Callable[[QueueManager], Any]:
    reader = home.open(PEEK)
    return lambda m: m.messages.read_message_by_lookup_identifier(reader, lookup_id, peek=True)


def test_a_start_goes_on_without_a_record_that_no_checkpoint_has() -> None:
    home = Home()
    home.create()
    home.send(b"a", ROTTEN, b"b")
    name = home.damage(ROTTEN)
    home.crash()
    (listed,) = home.manager.machine.damaged_records()
    assert (f"{listed.segment:08d}.log", listed.number) == (name, 0)
    assert listed.named
    reader = home.open(RECEIVE)
    (told_of,) = [event.details for event in home.events if event.name == "damage_undecided"]
    assert (told_of["segment"], told_of["offset"]) == (listed.segment, listed.offset)
    assert [home.receive(reader), home.receive(reader)] == [b"a", b"b"]
    home.check_books()
    home.restart()
    assert home.manager.machine.damaged_records() == [listed]
    home.run(lambda m: m.machine.accept_damage([listed], "operator"))
    home.restart()
    assert not home.manager.machine.damaged_records()
    home.check_books()


def test_a_start_lists_what_it_finds_damaged_before_anybody_reads_it() -> None:
    home = damaged(b"a", ROTTEN, b"b", sealed=False)
    lookup_id = home.lookup_ids()[1]
    home.restart()
    (listed,) = home.manager.machine.damaged_records()
    found = home.manager.machine.damaged_message(listed)
    assert found is not None
    assert (found[0], found[1].lookup_id) == (home.queue(), lookup_id)
    reader = home.open(RECEIVE)
    assert [home.receive(reader), home.receive(reader)] == [b"a", b"b"]
    assert told(home) == 0


def test_damage_that_compaction_meets_is_listed_and_compaction_goes_on() -> None:
    home = Home(store=StoreSettings(store_id=b"0" * 16, segment_size=50_000, garbage_segments=0))
    damaged(ROTTEN, *[bytes(1000)] * 40, home=home)
    home.run(lambda m: m.queues.set_queue(PLAIN, home.admin, label="moves the end of the log on"))
    reader, chosen = home.open(RECEIVE), home.lookup_ids()[1:]
    for lookup_id in chosen:
        home.driver.read(
            lambda m, one=lookup_id: m.messages.read_message_by_lookup_identifier(
                reader, one, peek=False
            )  # type: ignore[misc]
        )
    tidied(home)
    damage = home.store.damage
    assert damage is not None
    home.run(lambda m: m.messages.reading.met_by_upkeep(damage))
    assert home.manager.machine.stops_compaction
    (listed,) = home.manager.machine.damaged_records()
    assert damage.place == (listed.segment, listed.offset, listed.size)
    tidied(home)
    assert home.store.damage is None
    home.run(lambda m: m.messages.reading.met_by_upkeep(None))
    assert not home.manager.machine.stops_compaction
    home.check_books()


def test_accepted_damage_purges_the_message_and_frees_its_segment() -> None:
    home = Home(store=StoreSettings(store_id=b"0" * 16, segment_size=50_000, garbage_segments=0))
    damaged(ROTTEN, *[bytes(1000)] * 40, home=home)
    home.seal()
    reader = home.open(RECEIVE)
    with pytest.raises(MessageStorageFailed):
        home.receive(reader)
    for _ in range(40):
        home.receive(reader)
    (listed,) = home.manager.machine.damaged_records()
    name = f"{listed.segment:08d}.log"
    home.restart()
    tidied(home)
    assert home.disk.exists(name)  # kept until it is decided
    home.run(lambda m: m.machine.accept_damage(home.manager.machine.damaged_records(), "operator"))
    assert books_of(home.queue()).purged == 1
    assert [e.details["by"] for e in home.events if e.name == "damage_accepted"] == ["operator"]
    home.restart()
    tidied(home)
    assert not home.disk.exists(name)
    home.restart()
    assert not home.manager.machine.damage.records  # nothing is left to remember
    home.check_books()


def tidied(home: Home) -> None:
    """Upkeep of an idle store."""
    home.store._begin_segment()
    for _ in range(50):
        home.driver.tidy()
        home.driver.sync()


def test_a_message_that_can_be_read_again_is_off_the_list() -> None:
    home = damaged(b"a", ROTTEN)
    lookup_id = home.lookup_ids()[1]
    with pytest.raises(MessageStorageFailed):
        home.driver.read(by_lookup_id(home, lookup_id))
    assert len(home.manager.machine.damaged_records()) == 1
    home.damage(b"sotten" + ROTTEN[6:])  # the bit as it was
    delivery = home.driver.read(by_lookup_id(home, lookup_id))
    assert home.body(delivery) == ROTTEN
    assert not home.manager.machine.damage.records
    home.restart()
    assert home.receive(home.open(RECEIVE)) == b"a"
    assert home.receive(home.open(RECEIVE)) == ROTTEN


def test_damage_that_ends_with_its_message_needs_no_decision() -> None:
    home = damaged(b"a", ROTTEN)
    lookup_id = home.lookup_ids()[1]
    with pytest.raises(MessageStorageFailed):
        home.driver.read(by_lookup_id(home, lookup_id))
    home.run(lambda m: m.queues.purge_queue(home.open(RECEIVE)))
    assert not home.manager.machine.damaged_records()
    home.restart()
    assert not home.manager.machine.damaged_records()
    home.check_books()


def test_whoever_else_calls_in_the_same_turn_is_served() -> None:
    home = damaged(b"a", ROTTEN, b"b")
    reader = home.open(RECEIVE)
    receive = lambda m: m.messages.dequeue_message(reader, timeout_ms=0)  # noqa: E731
    answers = home.turn(receive, receive, receive)
    assert [type(answer.error) for answer in answers] == [
        type(None),
        MessageStorageFailed,
        type(None),
    ]
    assert [len(answer.packets) for answer in answers] == [1, 0, 1]
    home.check_books()


@pytest.mark.parametrize("journaling", [False, True])
def test_a_batch_comes_without_the_damaged_one(journaling: bool) -> None:
    home = damaged(b"a", ROTTEN, b"b")
    home.run(lambda m: m.queues.set_queue(PLAIN, home.admin, journaling=journaling))
    reader = home.open(RECEIVE)
    deliveries = home.driver.read_many(lambda m: m.messages.dequeue_messages(reader, 3))
    assert [delivery.message.body for delivery in deliveries] == [b"a", b"b"]
    assert told(home) == 1
    assert home.driver.read_many(lambda m: m.messages.dequeue_messages(reader, 3)) == []
    home.check_books()


def test_a_batch_of_nothing_but_damage_is_an_error() -> None:
    home = damaged(ROTTEN, b"a")
    reader = home.open(RECEIVE)
    with pytest.raises(MessageStorageFailed):
        home.driver.read_many(lambda m: m.messages.dequeue_messages(reader, 1))
    (delivery,) = home.driver.read_many(lambda m: m.messages.dequeue_messages(reader, 1))
    assert delivery.message.body == b"a"


def test_a_batch_in_a_transaction_takes_what_is_sound() -> None:
    home = Home()
    home.create(transactional=True)
    sender = home.open(SEND)
    fill = home.run(lambda m: m.transactions.create_transaction(b"f" * 16))
    for body in (b"a", ROTTEN, b"b"):
        message = home_message(body)
        home.run(
            lambda m, message=message: m.messages.enqueue_message_to_an_open_queue(
                sender, message, fill
            )  # type: ignore[misc]
        )
    home.run(lambda m: m.transactions.transaction_commit(b"f" * 16))
    home.damage(ROTTEN)
    reader = home.open(RECEIVE)
    transaction = home.run(lambda m: m.transactions.create_transaction(b"t" * 16))
    deliveries = home.driver.read_many(
        lambda m: m.messages.dequeue_messages(reader, 3, transaction)
    )
    assert [delivery.message.body for delivery in deliveries] == [b"a", b"b"]
    home.run(lambda m: m.transactions.transaction_abort(b"t" * 16))
    home.check_books()
    assert home.receive(reader) == b"a"


def home_message(body: bytes, **attributes: Any) -> Message:
    return Message(body=body, delivery_guarantee=DeliveryGuarantee.RECOVERABLE, **attributes)


def test_the_first_who_waits_is_told_and_the_next_message_goes_to_the_next() -> None:
    home = Home()
    home.create()
    home.send(ROTTEN)
    holder, answers = home.open(RECEIVE), list[Answer]()
    home.run(lambda m: m.messages.dequeue_message(holder, timeout_ms=0, two_phase=True))
    for reader in (home.open(RECEIVE), home.open(RECEIVE)):
        home.run(lambda m, reader=reader: m.messages.dequeue_message(reader, token=answers.append))  # type: ignore[misc]
    home.damage(ROTTEN)
    home.run(lambda m: m.queues.close_queue(holder))
    assert [type(answer.error) for answer in answers] == [MessageStorageFailed]
    home.send(b"fresh")
    assert len(answers) == 2
    assert b"fresh" in answers[1].packets[0]
    assert told(home) == 1
    home.check_books()


def test_a_cursor_that_waits_goes_on_waiting() -> None:
    home = Home()
    home.create()
    home.send(ROTTEN)
    holder, reader, answers = home.open(RECEIVE), home.open(PEEK), list[Answer]()
    home.run(lambda m: m.messages.dequeue_message(holder, timeout_ms=0, two_phase=True))
    cursor = home.run(lambda m: m.messages.open_cursor(reader))
    home.run(lambda m: m.messages.peek_message(reader, cursor=cursor, token=answers.append))
    home.damage(ROTTEN)
    home.run(lambda m: m.queues.close_queue(holder))
    assert answers == []
    home.send(b"fresh")
    assert len(answers) == 1
    assert b"fresh" in answers[0].packets[0]


def test_a_cursor_steps_past_the_damaged_message() -> None:
    home = damaged(b"a", ROTTEN, b"b")
    reader = home.open(PEEK)
    cursor = home.run(lambda m: m.messages.open_cursor(reader))
    assert home.peek(reader, cursor=cursor) == b"a"
    with pytest.raises(MessageStorageFailed):
        home.driver.read(lambda m: m.messages.peek_next_message(reader, cursor, timeout_ms=0))
    delivery = home.driver.read(
        lambda m: m.messages.peek_next_message(reader, cursor, timeout_ms=0)
    )
    assert home.body(delivery) == b"b"
    home.check_books()


def test_by_its_lookup_identifier_it_is_tried_again_each_time() -> None:
    home = damaged(b"a", ROTTEN, b"b")
    reader = home.open(RECEIVE)
    first, second, _ = home.lookup_ids()
    for _ in range(2):
        with pytest.raises(MessageStorageFailed):
            home.driver.read(
                lambda m: m.messages.read_message_by_lookup_identifier(reader, second, peek=False)
            )
    delivery = home.driver.read(
        lambda m: m.messages.read_message_by_lookup_identifier(
            reader, first, MessageSeekAction.NEXT, peek=False
        )
    )
    assert home.body(delivery) == b"b"


def test_a_disk_that_fails_one_read_costs_one_message_until_it_works() -> None:
    home = Home()
    home.create()
    home.send(b"a", b"b")
    (lookup_id, _), reader = home.lookup_ids(), home.open(RECEIVE)
    assert isinstance(home.disk, SimDisk)
    home.disk.fail_at(1, "read")
    with pytest.raises(MessageStorageFailed):
        home.receive(reader)
    assert home.receive(reader) == b"b"
    delivery = home.driver.read(
        lambda m: m.messages.read_message_by_lookup_identifier(reader, lookup_id, peek=False)
    )
    assert home.body(delivery) == b"a"
    home.check_books()


# -- what needs no packet


def _purge(home: Home) -> Callable[[QueueManager], object]:
    reader = home.open(RECEIVE)
    return lambda m: m.queues.purge_queue(reader)


def _delete(home: Home) -> Callable[[QueueManager], object]:
    return lambda m: m.queues.delete_queue(PLAIN, home.admin)


def _expire(home: Home) -> Callable[[QueueManager], object]:
    return lambda m: home.clock.advance(10_000)


@pytest.mark.parametrize("met", [False, True])
@pytest.mark.parametrize("end", [_purge, _delete, _expire])
def test_it_can_be_ended_without_being_read(
    end: Callable[[Home], Callable[[QueueManager], object]], met: bool
) -> None:
    home = damaged(b"a", ROTTEN, b"b", time_to_be_received=10, negative_journaling_requested=True)
    if met:
        reader = home.open(RECEIVE)
        lookup_id = home.lookup_ids()[1]
        with pytest.raises(MessageStorageFailed):
            home.driver.read(
                lambda m: m.messages.read_message_by_lookup_identifier(
                    reader, lookup_id, peek=False
                )
            )
    home.run(end(home))
    home.turn()
    assert home.queue(DEAD_LETTERS).state.count == 3
    home.check_books()
    home.restart()
    assert home.queue(DEAD_LETTERS).state.count == 3
    home.check_books()


@pytest.mark.parametrize("end", [_purge, _delete, _expire])
def test_an_acknowledgment_that_cannot_be_written_is_dropped(
    end: Callable[[Home], Callable[[QueueManager], object]],
) -> None:
    home = Home()
    home.create(ADMINISTRATION)
    damaged(
        b"a",
        ROTTEN,
        b"b",
        home=home,
        time_to_be_received=10,
        acknowledgements_requested=ACK_FULL_RECEIVE,
        administration_queue_format_name=rf"DIRECT=OS:ALPHA{ADMINISTRATION[1:]}",
    )
    home.run(end(home))
    home.turn()
    assert home.queue(ADMINISTRATION).state.count == 2
    assert home.manager.machine.refusals["acknowledgment_dropped"] == 1
    assert told(home) == 1
    home.check_books()


@pytest.mark.parametrize("met", [False, True])
def test_an_administrator_can_move_it_away_and_purge_that(met: bool) -> None:
    home = damaged(b"a", ROTTEN, b"b")
    reader, target = home.open(RECEIVE), home.open(MOVE, POISON)
    if met:
        home.receive(reader)
        with pytest.raises(MessageStorageFailed):
            home.receive(reader)
    lookup_id = home.lookup_ids()[0 if met else 1]
    home.run(lambda m: m.messages.move_message(reader, lookup_id, target))
    poison = home.open(RECEIVE, POISON)
    with pytest.raises(MessageStorageFailed):
        home.receive(poison)
    assert home.run(lambda m: m.queues.purge_queue(poison)) == 1
    assert home.queue().state.count == (1 if met else 2)
    home.check_books()
    home.restart()
    home.check_books()
    assert not [queue for queue in home.manager.queues.all() if queue.name.endswith(";poison")]


@pytest.mark.parametrize("deleted", [False, True])
def test_a_commit_goes_without_the_copies_of_what_it_cannot_read_any_more(deleted: bool) -> None:
    home = Home(transactions_buffer=1)
    home.create(transactional=True)
    home.create(ADMINISTRATION)
    sender = home.open(SEND)
    transaction = home.run(lambda m: m.transactions.create_transaction(b"t" * 16))
    for body in (b"a", ROTTEN):
        message = home_message(
            body,
            positive_journaling_requested=True,
            negative_journaling_requested=True,
            acknowledgements_requested=ACK_POS_ARRIVAL | ACK_FULL_RECEIVE,
            administration_queue_format_name=rf"DIRECT=OS:ALPHA{ADMINISTRATION[1:]}",
        )
        home.run(
            lambda m, message=message: m.messages.enqueue_message_to_an_open_queue(  # type: ignore[misc]
                sender, message, transaction
            )
        )
    home.damage(ROTTEN)
    if deleted:
        home.run(lambda m: m.queues.delete_queue(PLAIN, home.admin))
    home.run(lambda m: m.transactions.transaction_commit(b"t" * 16))
    arrived = r".\system$;deadxact" if deleted else PLAIN
    assert home.queue(arrived).state.count == 2
    assert home.queue(ADMINISTRATION).state.count == 1
    assert home.queue(r".\system$;journal").state.count == (0 if deleted else 1)
    assert told(home) == 1
    home.check_books()


def test_a_page_of_a_browsing_session_goes_past_damage() -> None:
    home = damaged(b"a", ROTTEN, b"b", b"c")
    client = Client(TurnDesk(home.driver))
    queue = client.open(PLAIN, PEEK)
    cursor = client.ask(payloads.OpenCursor(queue), payloads.CursorOpened).cursor
    first = client.bodies(queue, kind=frames.PEEK, cursor=cursor, count=2)
    rest = client.bodies(queue, kind=frames.PEEK, cursor=cursor, count=2, flags=frames.READ_NEXT)
    assert (first, rest) == ([b"a", b"b"], [b"c"])
    assert told(home) == 1


@pytest.mark.parametrize("seed", range(12))
def test_a_loss_of_power_while_damage_is_accepted_leaves_each_record_decided_or_not(
    seed: int,
) -> None:
    """Each with its message: purged where it is accepted, set aside where it is not."""
    home = Home(store=StoreSettings(store_id=b"0" * 16, segment_size=3_000))
    home.create()
    rotten = [ROTTEN + b"%d" % number for number in range(4)]
    for body in rotten:
        home.send(body, b"sound", bytes(900))
    home.seal()
    for body in rotten:
        home.damage(body)
    home.restart()
    reader = home.open(RECEIVE)
    for _ in rotten:
        with pytest.raises(MessageStorageFailed):
            home.receive(reader)
        home.receive(reader)
        home.receive(reader)
    chosen = home.manager.machine.damaged_records()
    assert len(chosen) == 4
    home.driver.begin_turn()
    for one in chosen:  # as four calls of one turn: each is a record of its own
        home.driver.decide(
            lambda m, one=one: m.machine.accept_damage([one], "root"), lambda a: None
        )  # type: ignore[misc]
    home.driver.end_turn()
    disk = home.disk
    assert isinstance(disk, SimDisk)
    home.disk = disk.crash("random", seed=seed)
    home.open_store()
    undecided = home.manager.machine.damaged_records()
    decided = [one for one in home.manager.machine.damage.records.values() if one.accepted]
    assert len(undecided) + len(decided) == 4
    assert home.queue().state.count == len(undecided)
    assert books_of(home.queue()).purged == len(decided)
    home.check_books()
    home.run(lambda m: m.machine.accept_damage(m.machine.damaged_records(), "root"))
    home.restart()
    assert not home.manager.machine.damaged_records()
    assert home.queue().state.count == 0
    assert books_of(home.queue()).purged == 4
    home.check_books()
