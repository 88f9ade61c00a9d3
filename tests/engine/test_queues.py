"""Queues come and go: create, delete, defaults, properties, subqueues, names in the directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import pytest

from posthouse.directory import objects
from posthouse.directory.base import equals
from posthouse.engine.ledger.records import TABLE_QUEUE
from posthouse.engine.queues.queue import NOTIFY_QUEUE, ORDER_QUEUE, QueueType
from posthouse.model.errors import (
    AccessDenied,
    IllegalFormatName,
    IllegalPropertyValue,
    IllegalQueuePathname,
    LabelTooLong,
    NoDs,
    PropertiesConflict,
    PropertyNotAllowed,
    QueueDeleted,
    QueueExists,
    QueueNotAvailable,
    QueueNotFound,
    QueueQuotaExceeded,
)
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.message import NACK_QUEUE_DELETED
from posthouse.model.properties import (
    UNLIMITED,
    QueueAccessType,
    QueueProperties,
    QueueScope,
)
from posthouse.wire.packet.message import deserialize
from tests.engine.cost import steps
from tests.engine.letters import ALICE, DEAD_LETTERS, DEAD_TRANSACTIONAL, PostRig
from tests.engine.rig import MOVE, PEEK, RECEIVE, SEND, START_UTC
from tests.engine.sessions import SessionRig
from tests.support.machine_books import machine_books

PUBLIC = r"ALPHA\invoices"
EVERYTHING = {
    "label": "orders of today",
    "type_guid": bytes(range(16)),
    "journaling": True,
    "quota_kib": 17,
    "journal_quota_kib": 18,
    "authentication": True,
    "privacy_level": 2,
    "multicast_address": "239.1.2.3:4567",
    "base_priority": -3,
    "code_page": "1251",
    "poison_queue": ";dead",
}
POLICY = {"max_aborts": 5, "retry_delays": (1, 10)}  # of transactional queues only


@pytest.fixture
def rig() -> Iterator[PostRig]:
    rig = PostRig()
    yield rig
    rig.check_books()


def in_directory(rig: PostRig, identifier: bytes) -> objects.Queue | None:
    return rig.manager.directory.service.read_directory(
        objects.Queue, equals("identifier", identifier), rig.manager.machine.now_ms
    ).value


# -- provisioning


@pytest.mark.spec("MS-MQDMPR 3.1.3/15", "MS-MQDMPR 3.1.1.2/14")
def test_every_queue_manager_has_its_three_system_queues(rig: PostRig) -> None:
    for restarted in (False, True):
        if restarted:
            rig.restart()
        for name in (DEAD_LETTERS, DEAD_TRANSACTIONAL, r".\system$;journal"):
            assert rig.queue(name).definition.queue_type is QueueType.SYSTEM
    assert not rig.queue(DEAD_LETTERS).definition.transactional
    assert rig.queue(DEAD_TRANSACTIONAL).definition.transactional


@pytest.mark.spec("MS-MQDMPR 3.1.3/16")
@pytest.mark.parametrize("name", [r".\private$\order_queue$", r".\private$\notify_queue$"])
def test_the_internal_queues_exist_but_nobody_opens_them(rig: PostRig, name: str) -> None:
    assert rig.queue(name).definition.queue_type is QueueType.SYSTEM
    for access in (SEND, RECEIVE, PEEK, MOVE):
        with rig.refused(AccessDenied.code):
            rig.open(name, access)
    with rig.refused(AccessDenied.code):
        rig.delete(name)
    with rig.refused(AccessDenied.code):
        rig.open(f"{name};hidden", MOVE)
    with rig.refused(QueueExists.code):
        rig.create(name)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3/10")
def test_private_number_4_is_the_order_queue_and_is_never_given(rig: PostRig) -> None:
    assert rig.queue(r".\private$\order_queue$").number == ORDER_QUEUE == 4
    assert rig.queue(r".\private$\notify_queue$").number == NOTIFY_QUEUE
    name = f"PRIVATE={format_guid(rig.guid)}\\4"
    with rig.refused(AccessDenied.code):
        rig.open(name, SEND)
    assert all(rig.create(f"q{n}").number not in (ORDER_QUEUE, NOTIFY_QUEUE) for n in range(5))


# -- create


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.33/1",
    "MS-MQDMPR 3.1.7.1.33/2",
    "MS-MQDMPR 3.1.7.1.3/3",
)
def test_what_is_not_set_has_the_documented_default(rig: PostRig) -> None:
    definition = rig.create("orders").definition
    assert (definition.label, definition.type_guid) == ("", NULL_GUID)
    assert (definition.quota_kib, definition.journal_quota_kib) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert (definition.journaling, definition.authentication) == (False, False)
    assert (definition.transactional, definition.privacy_level) == (False, 1)
    assert (definition.multicast_address, definition.base_priority) == ("", 0)


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.3/5",
    "MS-MQDMPR 3.1.1.2/3",
    "MS-MQDMPR 3.1.1.2/9",
    "MS-MQDMPR 3.1.7.1.3/14",
    "MS-MQDMPR 3.1.1.2/1",
)
def test_everything_asked_for_is_kept_over_a_restart(rig: PostRig) -> None:
    asked = {field.name for field in fields(QueueProperties)} - {"pathname", "transactional"}
    assert {*EVERYTHING, *POLICY} == asked
    security = rig.create("model").definition.security
    rig.create("orders", security=security, **EVERYTHING)
    rig.create("payments", transactional=True, **POLICY)
    for _ in range(2):
        definition = rig.queue("orders").definition
        assert {name: getattr(definition, name) for name in EVERYTHING} == EVERYTHING
        paying = rig.queue("payments").definition
        assert {name: getattr(paying, name) for name in POLICY} == POLICY
        assert definition.pathname == r"ALPHA\private$\orders"
        assert definition.security == security
        assert rig.queue("payments").definition.transactional
        rig.restart()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3/6", "MS-MQDMPR 3.1.1.2/14")
def test_the_path_name_decides_the_type(rig: PostRig) -> None:
    rig.create("orders")
    rig.create(PUBLIC)
    for _ in range(2):
        assert rig.queue("orders").definition.queue_type is QueueType.PRIVATE
        assert rig.queue(PUBLIC).definition.queue_type is QueueType.PUBLIC
        rig.restart()
    with rig.refused(IllegalQueuePathname.code):  # the three system queues are all there are
        rig.create(r".\system$;journal")


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3/7", "MS-MQDMPR 3.1.7.1.3/8", "MS-MQDMPR 3.1.1.2/11")
def test_a_new_queue_is_closed_and_empty(rig: PostRig) -> None:
    queue = rig.create("orders")
    assert (queue.state.count, queue.state.bytes) == (0, 0)
    assert (queue.subqueues, queue.descriptors) == ({}, {})
    assert rig.manager.transfer.incoming_of(queue) == []
    definition = queue.definition
    assert definition.create_time == definition.modify_time == START_UTC
    assert (definition.full_path, definition.directory_path) == ("", "")
    assert rig.manager.directory.queues.object_of(definition).scope is QueueScope.ENTERPRISE


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/4", "MS-MQDMPR 3.1.7.1.3/9")
@pytest.mark.parametrize("spelled", [r".\private$\Orders", "alpha.EXAMPLE.com/PRIVATE$/Orders"])
def test_the_path_names_this_computer_however_it_was_spelled(rig: PostRig, spelled: str) -> None:
    queue = rig.run(lambda m: m.queues.create_queue(spelled, QueueProperties(), rig.admin))
    definition = queue.definition
    assert definition.pathname == r"ALPHA\private$\Orders"
    qualified = rig.manager.directory.queues.object_of(definition).qualified_pathname
    assert qualified == r"ALPHA.example.com\private$\Orders"


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3/1")
@pytest.mark.parametrize(
    "name",
    [
        "$orders",
        r".\private$",
        "." + "\\private$\\" + "a" * 125,
        r".\private$\a,b",
        r".\private$\a b",
        r".\private$\orders;journal",
        r".\private$\orders;sub",
        r".\system$;deadletter",
        r"BRAVO\private$\orders",
    ],
)
def test_a_path_that_names_no_queue_here_creates_nothing(rig: PostRig, name: str) -> None:
    with rig.refused(IllegalQueuePathname.code):
        rig.run(lambda m: m.queues.create_queue(name, QueueProperties(), rig.admin))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3/2")
@pytest.mark.parametrize("spelled", [r".\private$\orders", r"alpha\PRIVATE$\ORDERS"])
def test_a_name_in_use_is_refused_and_its_queue_stays(rig: PostRig, spelled: str) -> None:
    queue = rig.create("orders", label="first")
    rig.send("orders", b"kept")
    with rig.refused(QueueExists.code):
        rig.create(spelled, label="second")
    assert rig.queue("orders") is queue
    assert queue.definition.label == "first"
    assert rig.bodies("orders") == [b"kept"]


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"label": "x" * 125}, LabelTooLong.code),
        ({"label": "a\0b"}, IllegalPropertyValue.code),
        ({"quota_kib": 1 << 32}, IllegalPropertyValue.code),
        ({"journal_quota_kib": -1}, IllegalPropertyValue.code),
        ({"base_priority": 40_000}, IllegalPropertyValue.code),
        ({"privacy_level": 3}, IllegalPropertyValue.code),
        ({"type_guid": b"short"}, IllegalPropertyValue.code),
        ({"multicast_address": "10.0.0.1:80"}, IllegalPropertyValue.code),
        (
            {"multicast_address": "239.0.0.1:80", "transactional": True},
            PropertiesConflict.code,
        ),
    ],
)
def test_a_bad_property_creates_nothing(
    rig: PostRig, properties: dict[str, object], code: int
) -> None:
    with rig.refused(code):
        rig.create("orders", **properties)
    with pytest.raises(QueueNotFound):
        rig.queue("orders")


def test_only_administrators_create_queues(rig: PostRig) -> None:
    with rig.refused(AccessDenied.code):
        rig.create("orders", caller=ALICE)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3/4", "MS-MQDMPR 3.1.1.2/19")
def test_a_queue_has_a_journal_and_a_subqueue_has_none(rig: PostRig) -> None:
    rig.create("orders", journal_quota_kib=9)
    rig.send("orders", b"bad")
    source, target = rig.open("orders", RECEIVE), rig.open("orders;poison", MOVE)
    lookup_id = rig.peek(source).read.lookup_id
    rig.run(lambda m: m.messages.move_message(source, lookup_id, target))
    for _ in range(2):
        queue, journal = rig.queue("orders"), rig.queue("orders;journal")
        assert queue.journal is journal
        assert journal.definition.queue_type is QueueType.SYSTEM
        assert journal.definition.quota_kib == 9
        sub = rig.queue("orders;poison")
        assert sub.journal is None
        assert queue.subqueues == {"poison": sub}
        rig.restart()


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/5", "MS-MQDMPR 3.1.7.1.3/10")
def test_private_numbers_are_unique_and_never_come_back(rig: PostRig) -> None:
    numbers = [rig.create(f"q{n}").number for n in range(4)]
    rig.delete("q3")
    rig.restart()
    numbers += [rig.create(f"r{n}").number for n in range(4)]
    numbers.append(rig.create("q3").number)
    assert len(set(numbers)) == len(numbers)
    by_number = f"PRIVATE={format_guid(rig.guid)}\\{rig.queue('q1').number:x}"
    assert rig.open(by_number, PEEK).target() is rig.queue("q1")


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/20")
@pytest.mark.parametrize("name", ["..", "../../etc/passwd", "a/b", ".", "con", "ä" * 60])
def test_a_name_is_kept_in_a_table_under_a_number(rig: PostRig, name: str) -> None:
    queue = rig.create(rf".\private$\{name}")
    keys = [key for key, _ in rig.manager.ledger.state.of_table(TABLE_QUEUE)]
    assert {len(key) for key in keys} == {4}
    rig.restart()
    assert rig.queue(rf".\private$\{name}").number == queue.number


# -- queues of other kinds


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/6")
def test_a_quota_counts_kilobytes(rig: PostRig) -> None:
    rig.create("small", quota_kib=1)
    rig.create("large", quota_kib=UNLIMITED)
    rig.send("large", bytes(3 << 20))
    with rig.refused(QueueQuotaExceeded.code):
        rig.send(rig.open("small"), bytes(1024))
    rig.send("small", bytes(500))
    rig.set("small", quota_kib=3)
    rig.send("small", bytes(1024))
    rig.restart()
    rig.send("large")
    with rig.refused(QueueQuotaExceeded.code):
        rig.send(rig.open("small"), bytes(1500))


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/13")
def test_the_bytes_of_a_queue_are_those_of_its_packets(rig: PostRig) -> None:
    queue = rig.create("orders")
    for size in (0, 10, 3000):
        rig.send("orders", bytes(size), label="a label")
    packets = [len(rig.store.read(n)) for _, n in queue.state.order.forward()]
    assert queue.state.bytes == sum(packets)
    rig.restart()
    assert rig.queue("orders").state.bytes == sum(packets)
    for _ in range(3):
        rig.receive("orders")
    assert rig.queue("orders").state.bytes == 0


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/16", "MS-MQDMPR 3.1.1.2/17", "MS-MQDMPR 3.1.1.2/18")
def test_messages_stand_by_priority_then_by_arrival(rig: PostRig) -> None:
    rig.create("orders")
    reader = rig.open("orders", PEEK)
    cursor = rig.run(lambda m: m.messages.open_cursor(reader))
    waiting = rig.wait(reader, "peek_message", cursor=cursor, timeout_ms=1000)
    assert waiting == []  # before the first message of a queue that has none
    for body, priority in ((b"c", 0), (b"a", 7), (b"d", 0), (b"b", 7)):
        rig.send("orders", body, priority=priority)
    assert waiting[0].packets[0] == rig.store.read(rig.reads("orders")[2].number)
    assert rig.bodies("orders") == [b"a", b"b", b"c", b"d"]
    rig.restart()
    assert rig.bodies("orders") == [b"a", b"b", b"c", b"d"]


# -- delete


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.4/1")
def test_the_messages_of_a_deleted_queue_end_as_such(rig: PostRig) -> None:
    rig.create("orders")
    rig.create("admin")
    name = r"DIRECT=OS:ALPHA\private$\admin"
    rig.send(
        "orders",
        b"one",
        acknowledgements_requested=0x08,
        administration_queue_format_name=name,
        negative_journaling_requested=True,
    )
    rig.send("orders", b"two")
    rig.delete("orders")
    assert rig.classes("admin") == [NACK_QUEUE_DELETED]
    assert rig.reasons(DEAD_LETTERS) == [NACK_QUEUE_DELETED]
    rig.restart()
    assert rig.classes("admin") == [NACK_QUEUE_DELETED]
    assert rig.reasons(DEAD_LETTERS) == [NACK_QUEUE_DELETED]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.4/3")
def test_a_deleted_queue_is_gone_with_its_family_and_stays_gone(rig: PostRig) -> None:
    number = rig.create("orders", journaling=True).number
    rig.send("orders", b"to the journal")
    rig.receive("orders")
    move = rig.open("orders;poison", MOVE)
    rig.delete("orders")
    rig.close(move)
    for _ in range(2):
        for name in ("orders", "orders;journal", "orders;poison"):
            for access in (RECEIVE, PEEK):
                with rig.refused(QueueNotFound.code):
                    rig.open(rf".\private$\{name}", access)
        with rig.refused(QueueNotFound.code):
            rig.open(r".\private$\orders", SEND)
        with rig.refused(QueueNotFound.code):
            rig.open(f"PRIVATE={format_guid(rig.guid)}\\{number:x}", RECEIVE)
        rig.restart()
    rig.create("orders")
    assert rig.bodies("orders;journal") == []


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.4/2", "MS-MQDMPR 3.1.7.1.6/4")
def test_descriptors_of_a_deleted_queue_have_no_queue_any_more(rig: PostRig) -> None:
    rig.create("orders")
    rig.create("others")
    sender, reader = rig.open("orders", SEND), rig.open("orders", RECEIVE)
    bystander = rig.open("others", RECEIVE)
    cursor = rig.run(lambda m: m.messages.open_cursor(reader))
    waiting = rig.wait(reader, timeout_ms=60_000)
    rig.delete("orders")
    assert [type(answer.error) for answer in waiting] == [QueueDeleted]
    assert sender.queue is None
    assert cursor.closed
    for call in (
        lambda: rig.send(sender, b"late"),
        lambda: rig.receive(reader),
        lambda: rig.peek(reader),
        lambda: rig.run(lambda m: m.queues.purge_queue(reader)),
        lambda: rig.run(lambda m: m.messages.open_cursor(reader)),
    ):
        with rig.refused(QueueNotAvailable.code):
            call()
    rig.close(sender)
    rig.close(reader)
    with pytest.raises(Exception, match="no message"):
        rig.receive(bystander)


def test_a_read_that_had_not_ended_ends_with_its_queue(rig: PostRig) -> None:
    rig.create("orders")
    rig.send("orders", b"held", negative_journaling_requested=True)
    reader = rig.open("orders", RECEIVE)
    rig.driver.read(lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True))
    rig.delete("orders")
    assert rig.reasons(DEAD_LETTERS) == [NACK_QUEUE_DELETED]
    assert rig.manager.ledger.locks == {}
    assert not rig.manager.ledger.deleted_queues


@pytest.mark.parametrize("journaling", [False, True])
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("over_restart", [False, True])
def test_messages_held_by_a_prepared_transaction_outlive_their_queue(
    rig: PostRig, journaling: bool, commits: bool, over_restart: bool
) -> None:
    number = rig.create("orders", transactional=True, journaling=journaling).number
    tx = rig.begin()
    rig.send("orders", b"held", tx=tx, negative_journaling_requested=True)
    rig.commit(tx)
    tx = rig.begin("t2")
    rig.receive("orders", transaction=tx)
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    rig.delete("orders")
    with rig.refused(QueueNotFound.code):  # what is left of it has no name
        rig.open(f"PRIVATE={format_guid(rig.guid)}\\{number:x}", RECEIVE)
    assert "orders" not in "".join(machine_books(rig.manager.queues.all()))
    if over_restart:
        rig.restart()
    rig.create("orders", transactional=True, journaling=journaling)
    (rig.commit if commits else rig.abort)(tx)
    assert rig.bodies("orders") == rig.bodies("orders;journal") == []  # another queue's
    assert rig.reasons(DEAD_TRANSACTIONAL) == ([] if commits else [NACK_QUEUE_DELETED])
    rig.restart()
    assert rig.reasons(DEAD_TRANSACTIONAL) == ([] if commits else [NACK_QUEUE_DELETED])
    assert not rig.manager.ledger.deleted_queues
    assert len(rig.manager.ledger.state.table) == len(rig.reads(DEAD_TRANSACTIONAL))


def test_the_last_trace_of_a_deleted_queue_goes_with_its_last_message(rig: PostRig) -> None:
    number = rig.create("orders", transactional=True).number
    tx = rig.begin()
    rig.send("orders", b"held", tx=tx, negative_journaling_requested=True)
    rig.commit(tx)
    tx = rig.begin("t2")
    rig.receive("orders", transaction=tx)
    rig.delete("orders")
    assert number in rig.manager.ledger.queues
    rig.abort(tx)
    assert number not in rig.manager.ledger.queues
    assert number not in rig.manager.ledger.state.queues


def test_a_crash_ends_what_an_open_transaction_held_of_a_deleted_queue(rig: PostRig) -> None:
    rig.create("orders", transactional=True)
    tx = rig.begin()
    rig.send("orders", b"held", tx=tx, negative_journaling_requested=True)
    rig.commit(tx)
    rig.receive("orders", transaction=rig.begin("t2"))
    rig.delete("orders")
    rig.restart()
    assert rig.reasons(DEAD_TRANSACTIONAL) == [NACK_QUEUE_DELETED]
    rig.restart()
    assert rig.reasons(DEAD_TRANSACTIONAL) == [NACK_QUEUE_DELETED]


def test_a_send_whose_queue_is_deleted_before_the_commit_is_a_dead_letter(rig: PostRig) -> None:
    rig.create("orders", transactional=True)
    tx = rig.begin()
    rig.send("orders", b"late", tx=tx, negative_journaling_requested=True)
    rig.send("orders", b"nobody asked", tx=tx)
    rig.create("admin")
    rig.send(
        "orders",
        b"told",
        tx=tx,
        acknowledgements_requested=0x08,
        administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\admin",
    )
    rig.delete("orders")
    rig.commit(tx)
    assert rig.classes("admin") == [NACK_QUEUE_DELETED]
    assert rig.bodies(DEAD_TRANSACTIONAL) == [b"late"]
    assert rig.reasons(DEAD_TRANSACTIONAL) == [NACK_QUEUE_DELETED]
    rig.restart()
    assert rig.bodies(DEAD_TRANSACTIONAL) == [b"late"]


@pytest.mark.parametrize("named", ["admin", "dead_letter"])
def test_a_deleted_queue_takes_nothing_in_while_it_goes(rig: PostRig, named: str) -> None:
    """Its own messages may name it for their acknowledgments or as their dead-letter queue."""
    rig.create("orders")
    if named == "admin":
        attributes = {
            "acknowledgements_requested": 0x08,
            "administration_queue_format_name": r"DIRECT=OS:ALPHA\private$\orders",
        }
    else:
        attributes = {"application_deadletter_queue": r".\private$\orders"}
    rig.send("orders", b"loop", negative_journaling_requested=True, **attributes)
    rig.delete("orders")
    assert not rig.manager.ledger.deleted_queues
    assert rig.bodies(DEAD_LETTERS) == [b"loop"]


@pytest.mark.parametrize("name", ["orders;journal", "orders;poison", DEAD_LETTERS])
def test_parts_of_others_cannot_be_deleted(rig: PostRig, name: str) -> None:
    rig.create("orders")
    rig.open("orders;poison", MOVE)
    with pytest.raises(AccessDenied) as refused:
        rig.delete(name)
    assert "posthouse queue purge" in refused.value.remedy  # the administrator is asking


def test_a_queue_that_is_not_there_cannot_be_deleted(rig: PostRig) -> None:
    for name in ("orders", r"BRAVO\private$\orders", r"DIRECT=OS:ALPHA\private$\orders"):
        with rig.refused(QueueNotFound.code):
            rig.delete(name)


def test_creation_and_deletion_are_one_record_each(rig: PostRig) -> None:
    changes = rig.decide(
        lambda m: m.queues.create_queue(PUBLIC, QueueProperties(), rig.admin)
    ).records
    assert len([r for r in changes if r[0] == 2]) <= 2  # a counter's block may go in front
    rig.send(PUBLIC, b"gone")
    assert len(rig.decide(lambda m: m.queues.delete_queue(PUBLIC, rig.admin)).records) == 1


# -- public queues


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.3/11",
    "MS-MQDMPR 3.1.7.1.3/12",
    "MS-MQDMPR 3.1.1.2/15",
)
def test_a_public_queue_is_in_the_directory_and_known_by_its_identifier(rig: PostRig) -> None:
    rig.create("private")
    identifier = rig.create(PUBLIC, label="invoices").definition.identifier
    assert identifier != NULL_GUID
    for _ in range(2):
        shown, definition = in_directory(rig, identifier), rig.queue(PUBLIC).definition
        assert shown is not None
        assert (shown.pathname, shown.label) == (PUBLIC, "invoices")
        assert definition.full_path == shown.full_path != ""
        assert definition.directory_path == shown.directory_path != ""
        assert rig.open(f"PUBLIC={format_guid(identifier)}", PEEK).target() is rig.queue(PUBLIC)
        rig.restart()
    names = [q.pathname for q in rig.manager.directory.service.read_all(objects.Queue, 0) or []]
    assert names == [PUBLIC]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3/11", "MS-MQDMPR 3.1.7.1.4/4")
def test_the_directory_can_be_left_out(rig: PostRig) -> None:
    queue = rig.run(
        lambda m: m.queues.create_queue(PUBLIC, QueueProperties(), rig.admin, skip_directory=True)
    )
    assert queue.definition.identifier == NULL_GUID
    assert rig.manager.directory.service.read_all(objects.Queue, 0) == []
    rig.delete(PUBLIC)
    identifier = rig.create(PUBLIC).definition.identifier
    rig.delete(PUBLIC, skip_directory=True)
    assert in_directory(rig, identifier) is not None


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3/13")
def test_what_the_directory_refuses_is_not_created(rig: PostRig) -> None:
    rig.create(PUBLIC)
    rig.delete(PUBLIC, skip_directory=True)  # its object is still there
    with rig.refused(QueueExists.code):
        rig.create(PUBLIC)
    with pytest.raises(QueueNotFound):
        rig.queue(PUBLIC)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3/13", "MS-MQDMPR 3.1.7.1.4/5")
def test_without_a_directory_there_are_no_public_queues() -> None:
    rig = PostRig(directory_integrated=False)
    with rig.refused(NoDs.code):
        rig.create(PUBLIC)
    rig.run(
        lambda m: m.queues.create_queue(PUBLIC, QueueProperties(), rig.admin, skip_directory=True)
    )
    rig.send(PUBLIC, b"stays")
    with rig.refused(NoDs.code):
        rig.delete(PUBLIC)
    assert rig.bodies(PUBLIC) == [b"stays"]
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.4/4", "MS-MQDMPR 3.1.7.1.4/3")
def test_a_deleted_public_queue_leaves_the_directory(rig: PostRig) -> None:
    identifier = rig.create(PUBLIC).definition.identifier
    rig.delete(PUBLIC)
    for _ in range(2):
        assert in_directory(rig, identifier) is None
        with rig.refused(QueueNotFound.code):
            rig.open(f"PUBLIC={format_guid(identifier)}", RECEIVE)
        rig.restart()


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/1")
def test_a_public_queues_properties_are_the_directorys(rig: PostRig) -> None:
    identifier = rig.create(PUBLIC, label="old").definition.identifier
    security = rig.create("other", caller=rig.admin).definition.security
    rig.set(PUBLIC, label="new", base_priority=5, quota_kib=99)
    rig.set_security(PUBLIC, security)
    for _ in range(2):
        shown = in_directory(rig, identifier)
        assert shown is not None
        assert (shown.label, shown.base_priority, shown.quota) == ("new", 5, 99)
        assert shown.security == rig.queue(PUBLIC).definition.security
        assert rig.queue(PUBLIC).definition.label == "new"
        rig.restart()


def test_a_property_the_directory_does_not_take_is_not_changed() -> None:
    rig = PostRig()
    rig.create(PUBLIC, label="old")
    rig.manager.directory.queues.directory.connected = False
    with rig.refused(NoDs.code):
        rig.set(PUBLIC, label="new")
    assert rig.queue(PUBLIC).definition.label == "old"


# -- properties


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/2")
def test_each_change_of_a_property_moves_the_time_of_change(rig: PostRig) -> None:
    rig.create("orders")
    for seconds, (name, value) in enumerate(EVERYTHING.items(), 1):
        rig.advance(1)
        rig.set("orders", **{name: value})
        definition = rig.queue("orders").definition
        assert definition.create_time == START_UTC
        assert definition.modify_time == START_UTC + seconds
    rig.restart()
    definition = rig.queue("orders").definition
    assert {name: getattr(definition, name) for name in EVERYTHING} == EVERYTHING
    assert definition.modify_time == START_UTC + len(EVERYTHING)
    rig.set("orders", multicast_address=None)
    assert rig.queue("orders").definition.multicast_address == ""


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"transactional": True}, PropertyNotAllowed.code),
        ({"pathname": r".\private$\other"}, PropertyNotAllowed.code),
        ({"label": "x" * 125}, LabelTooLong.code),
        ({"quota_kib": -1}, IllegalPropertyValue.code),
        ({"label": "fine", "privacy_level": 9}, IllegalPropertyValue.code),
    ],
)
def test_a_refused_property_changes_nothing(
    rig: PostRig, values: dict[str, object], code: int
) -> None:
    rig.create("orders")
    with rig.refused(code):
        rig.set("orders", **values)


def test_a_transactional_queue_gets_no_multicast_address(rig: PostRig) -> None:
    rig.create("orders", transactional=True)
    with rig.refused(PropertiesConflict.code):
        rig.set("orders", multicast_address="239.0.0.1:80")


@pytest.mark.parametrize("name", ["orders;journal", "orders;poison", r".\private$\order_queue$"])
def test_parts_of_a_queue_have_no_properties_of_their_own(rig: PostRig, name: str) -> None:
    rig.create("orders")
    rig.open("orders;poison", MOVE)
    with rig.refused(PropertyNotAllowed.code):
        rig.set(name, label="mine")


def test_system_queues_have_quotas_and_labels_to_set(rig: PostRig) -> None:
    rig.set(DEAD_LETTERS, quota_kib=5, label="failures")
    rig.restart()
    definition = rig.queue(DEAD_LETTERS).definition
    assert (definition.quota_kib, definition.label) == (5, "failures")
    with rig.refused(PropertyNotAllowed.code):
        rig.set(DEAD_LETTERS, journaling=True)


def test_the_journal_quota_is_that_of_the_journal_at_once(rig: PostRig) -> None:
    rig.create("orders", journaling=True)
    rig.set("orders", journal_quota_kib=0)
    rig.send("orders", b"no room")
    rig.receive("orders")
    assert rig.bodies("orders;journal") == []
    rig.restart()
    assert rig.queue("orders;journal").definition.quota_kib == 0


# -- subqueues


@pytest.mark.spec("Subqueues/1", "Subqueues/2")
@pytest.mark.parametrize("first", [PEEK, RECEIVE, MOVE])
def test_a_subqueue_comes_with_its_first_reader_and_goes_when_nothing_is_left(
    rig: PostRig, first: QueueAccessType
) -> None:
    rig.create("orders")
    family = rig.queue("orders").subqueues
    early = rig.open("orders;Poison", first)
    mover = rig.open("ORDERS;poison", MOVE)
    assert early.target() is mover.target() is family["poison"]
    rig.close(early)
    assert list(family) == ["poison"]
    rig.send("orders", b"bad")
    source = rig.open("orders", RECEIVE)
    lookup_id = rig.peek(source).read.lookup_id
    rig.run(lambda m: m.messages.move_message(source, lookup_id, mover))
    rig.close(mover)
    rig.restart()
    assert rig.bodies("orders;poison") == [b"bad"]
    rig.receive("orders;poison")
    assert not rig.queue("orders").subqueues
    with pytest.raises(QueueNotFound, match="there is no subqueue"):
        rig.queue("orders;poison")
    rig.restart()
    assert not rig.queue("orders").subqueues


@pytest.mark.parametrize(
    "name",
    [
        r"BRAVO\private$\orders;poison",
        r"DIRECT=OS:BRAVO\private$\orders;poison",
        r"DIRECT=OS:ALPHA:9999\private$\orders;poison",
        r".\private$\nowhere;poison",
    ],
)
def test_no_subqueue_is_made_for_a_queue_that_is_not_here(rig: PostRig, name: str) -> None:
    rig.create("orders")
    with rig.refused(QueueNotFound.code):
        rig.open(name, MOVE)


def test_a_subqueue_waits_for_the_moves_of_an_open_transaction(rig: PostRig) -> None:
    rig.create("orders", transactional=True)
    tx = rig.begin()
    rig.send("orders", b"bad", tx=tx)
    rig.commit(tx)
    source, target = rig.open("orders", RECEIVE), rig.open("orders;poison", MOVE)
    tx, lookup_id = rig.begin("t2"), rig.peek(source).read.lookup_id
    rig.run(lambda m: m.messages.move_message(source, lookup_id, target, tx))
    rig.close(target)
    rig.commit(tx)
    assert rig.bodies("orders;poison") == [b"bad"]


# -- where a name leads


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/1")
@pytest.mark.parametrize(
    ("name", "machine", "path"),
    [
        (r"DIRECT=OS:bravo\private$\q", "bravo", r"bravo\private$\q"),
        (r"DIRECT=TCP:10.1.2.3\q", "10.1.2.3", r"10.1.2.3\q"),
        (r"DIRECT=OS:bravo:2801\private$\q;sub", "bravo:2801", r"bravo:2801\private$\q;sub"),
        (r"DIRECT=OS:bravo\q;journal", "bravo", r"bravo\q;journal"),
    ],
)
def test_a_direct_name_leads_where_it_says(
    rig: PostRig, name: str, machine: str, path: str
) -> None:
    found = rig.run(lambda m: m.directory.get_queue_path(name))
    assert (found.machine_name, found.path_name) == (machine, path)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/2")
@pytest.mark.parametrize("scheme", ["HTTP", "HTTPS"])
def test_a_web_name_has_a_host_and_no_path(rig: PostRig, scheme: str) -> None:
    found = rig.run(
        lambda m: m.directory.get_queue_path(f"DIRECT={scheme}://bravo:8080/msmq/private$/q")
    )
    assert (found.machine_name, found.path_name) == ("bravo", "")


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/3")
def test_a_public_name_leads_where_the_directory_says(rig: PostRig) -> None:
    name = f"PUBLIC={format_guid(rig.create(PUBLIC).definition.identifier)}"
    found = rig.run(lambda m: m.directory.get_queue_path(name))
    assert (found.machine_name, found.path_name) == ("ALPHA", PUBLIC)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/4")
def test_a_private_name_of_ours_has_a_path_if_the_number_is_known(rig: PostRig) -> None:
    queue, public = rig.create("orders"), rig.create(PUBLIC)
    paths = {queue.number: r"ALPHA\private$\orders", public.number: "", 999: ""}
    for number, path in paths.items():
        name = f"PRIVATE={format_guid(rig.guid)}\\{number:x}"
        found = rig.run(lambda m, name=name: m.directory.get_queue_path(name))
        assert (found.machine_name, found.path_name) == ("ALPHA", path)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/5")
@pytest.mark.parametrize("kind", ["PUBLIC={}", "PRIVATE={}\\10"])
def test_a_name_the_directory_does_not_know_leads_nowhere(rig: PostRig, kind: str) -> None:
    name = kind.format(format_guid(bytes(range(16))))
    with rig.refused(IllegalFormatName.code):
        rig.run(lambda m: m.directory.get_queue_path(name))


def test_outgoing_queues_have_a_limit() -> None:
    rig = PostRig(outgoing_queues_max=2)
    for computer in ("B", "C"):
        rig.open(rf"DIRECT=OS:{computer}\private$\q")
    rig.open(r"DIRECT=OS:b\private$\q")  # there already
    for name in (r"DIRECT=OS:D\private$\q", r"DIRECT=OS:B\private$\q,DIRECT=OS:D\private$\q"):
        with rig.refused(0xC00E0027):
            rig.open(name)


def test_outgoing_queues_that_nobody_uses_make_room_for_others() -> None:
    """A server that answers to queues of one use each must not come to an end some day."""
    rig = PostRig(outgoing_queues_max=3)
    idle, paused, waiting = (rf"DIRECT=OS:{name}\private$\q" for name in ("B", "C", "D"))
    for name in (idle, paused):
        rig.close(rig.open(name))
    rig.send(waiting, b"x")
    rig.run(lambda m: m.transfer.pause_queue(rig.outgoing(paused)[0]))
    gone = rig.outgoing(idle)[0].number
    rig.close(rig.open(r"DIRECT=OS:E\private$\q"))
    names = [q.definition.format_name for q in rig.manager.queues.outgoing_queues()]
    assert sorted(names) == sorted([paused, waiting, r"DIRECT=OS:E\private$\q"])
    rig.restart()
    assert gone not in rig.manager.ledger.queues


def test_who_makes_names_up_has_all_outgoing_queues_looked_at_only_now_and_then() -> None:
    rig = PostRig(outgoing_queues_max=400)
    for number in range(399):
        rig.send(rf"DIRECT=OS:B\private$\q{number}", b"x")
    used = rig.open(r"DIRECT=OS:B\private$\used")

    def refused() -> None:
        with rig.refused(0xC00E0027):
            rig.open(r"DIRECT=OS:C\private$\q")

    first, second = steps(refused), steps(refused)
    assert first > 400 * 4
    assert second < first - 400 * 3
    rig.close(used)
    rig.clock.advance(1_000)
    rig.open(r"DIRECT=OS:C\private$\q")


def test_an_outgoing_queue_that_comes_again_begins_a_new_sequence() -> None:
    rig = SessionRig(outgoing_queues_max=1)
    rig.commit_sends("ab")
    sender = rig.session()
    (first, second) = rig.take(sender)
    info = rig.manager.transfer.outgoing.sequences.info(sender.queue)
    old = info.sequence_id
    assert rig.order_ack(old, 2)
    rig.acknowledge(sender, [first, second])
    rig.end(sender)
    rig.close(rig.open(r"DIRECT=OS:OTHER\private$\q"))  # there is room for one
    rig.commit_sends("c")
    sender = rig.session()
    (third,) = rig.take(sender)
    message = deserialize(third.packet)
    assert message.transaction_sequence_number == 1
    assert rig.manager.transfer.outgoing.sequences.info(sender.queue).sequence_id > old
    rig.restart()
    assert len(rig.manager.queues.outgoing_queues()) == 1
