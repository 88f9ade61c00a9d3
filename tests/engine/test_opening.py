"""Open Queue and Close Queue: names, access types, share modes, lists, handles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, product

import pytest

from posthouse.directory import objects
from posthouse.engine.queues.open_queues import QueueAccessType, QueueShareMode
from posthouse.engine.queues.queue import OutgoingQueueState, QueueRole
from posthouse.model.errors import (
    AccessDenied,
    IllegalFormatName,
    InsufficientResources,
    InvalidHandle,
    MessageNotFound,
    OperationCancelled,
    QueueError,
    QueueNotFound,
    SharingViolation,
    UnsupportedAccessMode,
    UnsupportedFormatNameOperation,
)
from posthouse.model.guids import format_guid
from posthouse.model.names import parse_format_name
from posthouse.model.properties import MessageSeekAction
from posthouse.security.access import Caller
from posthouse.wire.packet.message import deserialize
from tests.engine.cost import steps
from tests.engine.letters import (
    ALICE,
    ANONYMOUS,
    DEAD_LETTERS,
    FAR,
    JOURNAL,
    PEEK_ADMIN,
    RECEIVE_ADMIN,
    SYSTEM_QUEUES,
    PostRig,
)
from tests.engine.rig import MOVE, PEEK, RECEIVE, SEND

DENY_NONE, DENY_RECEIVE = QueueShareMode.DENY_NONE, QueueShareMode.DENY_RECEIVE
ALL_ACCESS = (SEND, PEEK, RECEIVE, MOVE, PEEK_ADMIN, RECEIVE_ADMIN)
READING = (PEEK, RECEIVE, MOVE)
ADMIN = (PEEK_ADMIN, RECEIVE_ADMIN)
GUID = "12345678-9abc-def0-1234-56789abcdef0"
NEAR = r".\private$\orders"
WEB_NAMES = ("DIRECT=HTTP://BRAVO/msmq/private$/far", "DIRECT=HTTPS://BRAVO/msmq/private$/far")
ALICE_ADMIN = Caller.administrator(ALICE.sid, "alice")


@pytest.fixture
def rig() -> Iterator[PostRig]:
    rig = PostRig()
    rig.create("orders")
    yield rig
    rig.check_books()


def name_of(access: QueueAccessType) -> str:
    return access.name.lower()


# -- every kind of name with every access


def test_a_local_queue_opens_for_everything_but_administration(rig: PostRig) -> None:
    for access in (SEND, *READING):
        assert rig.open(NEAR, access).target() is rig.queue("orders")
    for access in ADMIN:
        with rig.refused(UnsupportedAccessMode.code):
            rig.open(NEAR, access)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/13")
@pytest.mark.parametrize(
    "name",
    [
        r"DIRECT=OS:ALPHA\private$\orders",
        r"DIRECT=OS:alpha.example.com\PRIVATE$\Orders",
        r"DIRECT=OS:localhost\private$\orders",
        r"DIRECT=OS:.\private$\orders",
        r"DIRECT=OS:post\private$\orders",
        r"DIRECT=OS:ALPHA:1801\private$\orders",
        r"DIRECT=TCP:127.0.0.1\private$\orders",
        r"DIRECT=TCP:10.1.2.3\private$\orders",
        r"DIRECT=TCP:10.1.2.3:1801\private$\orders",
        r"DIRECT=TCP:::1\private$\orders",
        r"DIRECT=TCP:0:0:0:0:0:0:0:1\private$\orders",
        r"DIRECT=TCP:[::1]:1801\private$\orders",
        r"DIRECT=TCP:FE80::00AA\private$\orders",
        r"DIRECT=TCP:::ffff:10.1.2.3\private$\orders",
        r"10.1.2.3\private$\orders",
        r"ALPHA:1801\private$\orders",
        "post/private$/orders",
    ],
)
def test_every_name_of_this_machine_leads_to_its_queue(name: str) -> None:
    rig = PostRig(aliases=("Post",), addresses=("127.0.0.1", "::1", "10.1.2.3", "fe80::aa"))
    queue = rig.create("orders")
    for access in (SEND, *READING):
        descriptor = rig.run(lambda m, a=access: m.queues.open_queue(name, a, rig.admin))
        assert descriptor.target() is queue
    assert rig.manager.queues.outgoing_queues() == []


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/13", "MS-MQDMPR 3.1.1.3/9")
@pytest.mark.parametrize(
    "name",
    [
        r"DIRECT=OS:ALPHA:2801\private$\orders",
        r"DIRECT=TCP:127.0.0.1:41801\private$\orders",
        r"ALPHA:2801\private$\orders",
        "DIRECT=HTTP://ALPHA:8080/msmq/private$/orders",
    ],
)
def test_our_address_with_a_port_that_is_not_ours_is_another_queue_manager(
    rig: PostRig, name: str
) -> None:
    assert rig.open(name, SEND).target().definition.role is QueueRole.OUTGOING


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/7")
@pytest.mark.parametrize("scheme", ["HTTP", "HTTPS"])
@pytest.mark.parametrize("host", ["ALPHA", "BRAVO"])
def test_a_web_name_is_for_sending_only(rig: PostRig, scheme: str, host: str) -> None:
    name = f"DIRECT={scheme}://{host}/msmq/private$/orders"
    for access in READING:
        with rig.refused(UnsupportedFormatNameOperation.code):
            rig.open(name, access)
    target = rig.open(name, SEND).target()
    assert (target is rig.queue("orders")) == (host == "ALPHA")


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/8")
@pytest.mark.parametrize("suffix", ["journal", "deadletter", "deadxact"])
@pytest.mark.parametrize("ours", [True, False])
def test_nobody_sends_to_a_machine(rig: PostRig, suffix: str, ours: bool) -> None:
    guid = format_guid(rig.guid) if ours else GUID
    name = f"MACHINE={guid};{suffix}"
    with rig.refused(UnsupportedFormatNameOperation.code):
        rig.open(name, SEND)
    if ours:
        for access in (PEEK, RECEIVE):
            assert rig.open(name, access).target() is rig.queue(rf".\system$;{suffix}")
    else:
        with rig.refused(QueueNotFound.code):
            rig.open(name, RECEIVE)


def test_a_name_of_several_queues_is_no_single_destination(rig: PostRig) -> None:
    for name in (f"DL={GUID}", TWO, f"MACHINE={GUID};journal"):
        with pytest.raises(UnsupportedFormatNameOperation, match="cannot be sent"):
            rig.manager.queues.collection.find_target(parse_format_name(name))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/9")
def test_a_multicast_name_is_for_sending_only(rig: PostRig) -> None:
    for access in READING:
        with rig.refused(UnsupportedFormatNameOperation.code):
            rig.open("MULTICAST=239.1.2.3:4567", access)
    assert rig.open("MULTICAST=239.1.2.3:4567", SEND).target().outgoing is not None


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/10")
@pytest.mark.parametrize(
    "name",
    [
        r"DIRECT=SPX:00000012:00a0234f7500\private$\orders",
        r"DIRECT=IPX:00000012.00a0234f7500\private$\orders",
    ],
)
@pytest.mark.parametrize("access", ALL_ACCESS, ids=name_of)
def test_old_transports_are_refused_with_an_explanation(
    rig: PostRig, name: str, access: QueueAccessType
) -> None:
    with rig.refused(UnsupportedFormatNameOperation.code):
        rig.open(name, access)
    with pytest.raises(UnsupportedFormatNameOperation, match="transport") as caught:
        rig.open(name, access)
    assert "OS:" in caught.value.remedy


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/11")
@pytest.mark.parametrize(
    "name",
    [
        r".\private$\nowhere",
        r"ALPHA\nowhere",
        r".\private$\nowhere;poison",
        r".\private$\nowhere;journal",
        r"BRAVO\private$\orders",
        r"DIRECT=OS:ALPHA\private$\nowhere",
        r"DIRECT=OS:BRAVO\private$\orders",
        r"DIRECT=TCP:10.9.9.9\private$\orders",
        f"PUBLIC={GUID}",
        rf"PRIVATE={GUID}\10",
        f"MACHINE={GUID};journal",
    ],
)
@pytest.mark.parametrize("access", [PEEK, RECEIVE], ids=name_of)
def test_reading_needs_a_queue_of_this_machine(
    rig: PostRig, name: str, access: QueueAccessType
) -> None:
    with rig.refused(QueueNotFound.code):
        rig.open(name, access)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/12")
@pytest.mark.parametrize(
    "name",
    [
        r"DIRECT=OS:ALPHA\private$\nowhere",
        r"DIRECT=TCP:127.0.0.1\nowhere",
        r"DIRECT=OS:localhost:1801\private$\nowhere",
        "DIRECT=HTTP://alpha/msmq/private$/nowhere",
        r".\private$\nowhere",
        r"alpha.example.com\nowhere",
        r"DIRECT=OS:ALPHA\private$\nowhere;journal",
    ],
)
def test_sending_to_a_queue_missing_here_makes_no_outgoing_queue(rig: PostRig, name: str) -> None:
    with rig.refused(QueueNotFound.code):
        rig.open(name, SEND)
    assert rig.manager.queues.outgoing_queues() == []


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/14")
def test_a_public_name_the_directory_does_not_know_is_refused(rig: PostRig) -> None:
    with rig.refused(UnsupportedFormatNameOperation.code):
        rig.open(f"PUBLIC={GUID}", SEND)
    identifier = rig.create(r".\invoices").definition.identifier
    rig.delete(r".\invoices", skip_directory=True)
    with rig.refused(QueueNotFound.code):  # the directory says it is here, and it is not
        rig.open(f"PUBLIC={format_guid(identifier)}", SEND)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/15")
@pytest.mark.parametrize("number", [0, 1, 2, 3, 99])
def test_a_private_number_of_ours_that_names_no_private_queue_is_not_found(
    rig: PostRig, number: int
) -> None:
    name = f"PRIVATE={format_guid(rig.guid)}\\{number:x}"
    for access in (SEND, RECEIVE):
        with rig.refused(QueueNotFound.code):
            rig.open(name, access)


def test_journals_and_public_queues_have_no_private_number(rig: PostRig) -> None:
    public = rig.create(r".\invoices").number
    for number in (rig.queue("orders;journal").number, public):
        with rig.refused(QueueNotFound.code):
            rig.open(f"PRIVATE={format_guid(rig.guid)}\\{number:x}", RECEIVE)
    journal = f"PRIVATE={format_guid(rig.guid)}\\{rig.queue('orders').number:x};journal"
    assert rig.open(journal, RECEIVE).target() is rig.queue("orders;journal")


@pytest.mark.parametrize(
    "name",
    [
        r".\private$\orders;journal",
        *SYSTEM_QUEUES,
        r"DIRECT=OS:ALPHA\system$;deadletter",
        r"DIRECT=OS:BRAVO\private$\orders;journal",
        r"DIRECT=OS:BRAVO\private$\orders;poison",
        r"DIRECT=OS:BRAVO\system$;deadxact",
        rf"PRIVATE={GUID}\10;journal",
    ],
)
def test_nobody_sends_where_only_the_queue_manager_writes(rig: PostRig, name: str) -> None:
    with rig.refused(UnsupportedFormatNameOperation.code):
        rig.open(name, SEND)


@pytest.mark.spec("Subqueues/1", "Subqueues/3")
def test_a_subqueue_is_moved_to_and_read_but_not_sent_to(rig: PostRig) -> None:
    for name in ("orders;poison", r"DIRECT=OS:ALPHA\private$\orders;poison"):
        with rig.refused(UnsupportedFormatNameOperation.code, "cannot be sent to a subqueue"):
            rig.open(name, SEND)  # it does not exist yet
    sub = rig.open("orders;poison", MOVE).target()
    for access in READING:
        assert rig.open("orders;poison", access).target() is sub
    with rig.refused(UnsupportedFormatNameOperation.code, "cannot be sent to a subqueue"):
        rig.open("orders;poison", SEND)
    assert rig.manager.queues.outgoing_queues() == []


@pytest.mark.spec("Subqueues/1")
@pytest.mark.parametrize("access", [PEEK, RECEIVE], ids=name_of)
def test_a_reader_makes_no_subqueue_without_the_right_to_its_queue(
    rig: PostRig, access: QueueAccessType
) -> None:
    masked = rig.admin.seeing_masked((r".\private$\*;poison",))
    for caller in (ALICE, masked):
        with rig.refused(AccessDenied.code):
            rig.open("orders;poison", access, caller)
    assert not rig.queue("orders").subqueues


@pytest.mark.spec("Subqueues/2")
def test_the_subqueues_of_a_reader_are_bounded_by_its_open_handles() -> None:
    rig = PostRig(open_handles_max=4)
    rig.create("orders")
    for number in range(2):
        rig.open(f"orders;sub{number}", PEEK)
    family = rig.queue("orders").subqueues
    assert len(family) == 2
    with rig.refused(InsufficientResources.code):
        rig.open("orders;sub2", PEEK)
    assert len(family) == 2


def test_a_connector_name_of_another_machine_opens_nothing(rig: PostRig) -> None:
    for name in (f"CONNECTOR={GUID}", f"CONNECTOR={GUID};xactonly"):
        with rig.refused(UnsupportedFormatNameOperation.code):
            rig.open(name, SEND)
        for access in (*READING, *ADMIN):
            with rig.refused(QueueNotFound.code):
                rig.open(name, access)


@pytest.mark.parametrize(
    "text", ["DIRECT=", "DIRECT=XYZ:a\\b", "$orders", "", "PUBLIC=1", "DL=x", "MULTICAST=1.2.3.4:5"]
)
def test_a_text_that_is_no_name_opens_nothing(rig: PostRig, text: str) -> None:
    for access in ALL_ACCESS:
        with pytest.raises(QueueError) as caught:
            rig.run(lambda m, a=access: m.queues.open_queue(text, a, rig.admin))
        assert caught.value.code in (0xC00E0014, 0xC00E001E)


# -- outgoing queues


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/16", "MS-MQDMPR 3.1.1.3/9")
def test_a_remote_name_makes_one_outgoing_queue_and_uses_it_again(rig: PostRig) -> None:
    first = rig.open(FAR, SEND).target()
    assert first.outgoing is not None
    assert first.outgoing.state is OutgoingQueueState.INACTIVE
    assert first.outgoing.next_hops == ()
    assert first.definition.label == first.definition.format_name == FAR
    for same in (FAR, r"direct=os:bravo\PRIVATE$\FAR", r"BRAVO\private$\far"):
        assert rig.open(same, SEND).target() is first
    for other in (r"DIRECT=OS:BRAVO:1801\private$\far", r"DIRECT=OS:BRAVO\far"):
        assert rig.open(other, SEND).target() is not first
    rig.restart()
    assert rig.open(FAR, SEND).target().number == first.number
    assert len(rig.manager.queues.outgoing_queues()) == 3


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/17")
def test_an_outgoing_queue_has_the_base_priority_of_the_public_queue(rig: PostRig) -> None:
    created = rig.manager.directory.service.create_directory_object(
        objects.Queue(pathname=r"BRAVO\invoices", base_priority=11), 0, rig.clock.utc_seconds
    )
    name = f"PUBLIC={format_guid(created.identifier)}"
    assert rig.open(name, SEND).target().definition.base_priority == 11
    rig.restart()
    assert rig.open(name, SEND).target().definition.base_priority == 11


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/18", "MS-MQDMPR 3.1.1.3/3")
def test_hardened_mode_locks_all_but_web_names() -> None:
    rig = PostRig(hardened=True)
    for name in (FAR, "MULTICAST=239.1.2.3:4567", rf"PRIVATE={GUID}\10"):
        outgoing = rig.open(name, SEND).target().outgoing
        assert outgoing is not None
        assert outgoing.state is OutgoingQueueState.LOCKED
    outgoing = rig.open("DIRECT=HTTPS://BRAVO/msmq/private$/far", SEND).target().outgoing
    assert outgoing is not None
    assert outgoing.state is OutgoingQueueState.INACTIVE


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/19")
def test_an_outgoing_queue_for_a_group_is_marked_as_multicast(rig: PostRig) -> None:
    assert rig.open("MULTICAST=239.1.2.3:4567", SEND).target().definition.multicast
    assert not rig.open(FAR, SEND).target().definition.multicast
    rig.restart()
    assert rig.open("MULTICAST=239.1.2.3:4567", SEND).target().definition.multicast


def test_administrative_access_finds_outgoing_queues_and_makes_none(rig: PostRig) -> None:
    for access in ADMIN:
        for missing in (FAR, r"BRAVO\private$\far", f"PUBLIC={GUID}"):
            with rig.refused(QueueNotFound.code):
                rig.open(missing, access)
    rig.send(FAR, b"waits")
    for access in ADMIN:
        for name in (FAR, r"BRAVO\private$\far"):
            assert rig.peek(rig.open(name, access)).message.body == b"waits"
        with rig.refused(AccessDenied.code):
            rig.open(FAR, access, ALICE)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/7", "MS-MQDMPR 3.1.7.1.5/9")
@pytest.mark.parametrize("name", [*WEB_NAMES, "MULTICAST=239.1.2.3:4567"])
def test_administrators_look_into_the_outgoing_queue_of_a_peer_of_any_kind(
    rig: PostRig, name: str
) -> None:
    for access in ADMIN:
        with rig.refused(QueueNotFound.code):
            rig.open(name, access)
    rig.send(name, b"waits")
    for access in ADMIN:
        assert rig.peek(rig.open(name, access)).message.body == b"waits"
        with rig.refused(AccessDenied.code):
            rig.open(name, access, ALICE)
    for access in READING:
        with rig.refused(UnsupportedFormatNameOperation.code):
            rig.open(name, access)


@pytest.mark.parametrize("access", ADMIN, ids=name_of)
def test_administrators_look_into_receipts_for_another_machine(
    rig: PostRig, access: QueueAccessType
) -> None:
    name = "DIRECT=HTTP://BRAVO/msmq/private$/order_queue$"
    receipts = rig.run(
        lambda m: m.queues.collection.sending_target(parse_format_name(name))  # type: ignore[arg-type]
    )
    assert rig.open(name, access).target() is receipts
    with rig.refused(AccessDenied.code):
        rig.open(name, SEND)


def test_an_outgoing_queue_is_not_read_like_another(rig: PostRig) -> None:
    rig.send(FAR, b"waits")
    for access in READING:
        with rig.refused(QueueNotFound.code):
            rig.open(FAR, access)


def test_anonymous_senders_make_no_outgoing_queues(rig: PostRig) -> None:
    for name in (FAR, rf"{FAR},DIRECT=OS:ALPHA\private$\orders"):
        with rig.refused(AccessDenied.code):
            rig.open(name, SEND, ANONYMOUS)
    rig.open(FAR, SEND, ALICE)
    with rig.refused(AccessDenied.code):
        rig.open(FAR, SEND, ANONYMOUS)


# -- share modes


def violates(
    first: QueueAccessType,
    first_share: QueueShareMode,
    second: QueueAccessType,
    second_share: QueueShareMode,
) -> bool:
    """3.1.7.1.5 with O3: the second of two opens is refused."""
    receiver = first in (RECEIVE, RECEIVE_ADMIN)
    receiving = second in (RECEIVE, RECEIVE_ADMIN)
    if receiver and first_share is DENY_RECEIVE:
        return second_share is DENY_RECEIVE or receiving
    if first in (PEEK, PEEK_ADMIN) and first_share is DENY_RECEIVE:
        return receiving
    return receiver and second_share is DENY_RECEIVE


SHARES = (DENY_NONE, DENY_RECEIVE)
LOCAL = list(product(product((SEND, *READING), SHARES), repeat=2))
REMOTE = list(product(product((SEND, *ADMIN), SHARES), repeat=2))


def of_pair(value: object) -> str:
    return "-".join(part.name.lower() for part in value) if isinstance(value, tuple) else str(value)


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.5/20",
    "MS-MQDMPR 3.1.7.1.5/21",
    "MS-MQDMPR 3.1.7.1.5/22",
    "MS-MQDMPR 3.1.7.1.5/23",
    "MS-MQDMPR 3.1.1.17/5",
)
@pytest.mark.parametrize(
    ("name", "first", "second"),
    [(NEAR, *pair) for pair in LOCAL] + [(FAR, *pair) for pair in REMOTE],
    ids=of_pair,
)
def test_share_modes_keep_readers_apart(
    rig: PostRig,
    name: str,
    first: tuple[QueueAccessType, QueueShareMode],
    second: tuple[QueueAccessType, QueueShareMode],
) -> None:
    rig.close(rig.open(FAR, SEND))
    opened = rig.open(name, first[0], share=first[1])
    if violates(*first, *second):
        with rig.refused(SharingViolation.code):
            rig.open(name, second[0], share=second[1])
        rig.close(opened)
    rig.open(name, second[0], share=second[1])


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/20", "MS-MQDMPR 3.1.7.1.5/21")
def test_one_of_many_is_enough_to_exclude(rig: PostRig) -> None:
    for _ in range(2):
        rig.open("orders", PEEK)
        rig.open("orders", SEND)
    exclusive = rig.open("orders", PEEK, share=DENY_RECEIVE)
    rig.open("orders", PEEK)
    with rig.refused(SharingViolation.code):
        rig.open("orders", RECEIVE)
    rig.close(exclusive)
    rig.open("orders", RECEIVE, share=DENY_RECEIVE)


def test_an_open_costs_the_same_however_many_have_the_queue_open(rig: PostRig) -> None:
    alone = steps(lambda: rig.open("orders", RECEIVE))
    for _ in range(300):
        rig.open("orders", RECEIVE)
    assert steps(lambda: rig.open("orders", RECEIVE)) < alone + 50


def test_an_exclusive_reader_of_a_deleted_queue_is_forgotten(rig: PostRig) -> None:
    first = rig.open("orders", RECEIVE, share=DENY_RECEIVE)
    rig.run(lambda m: m.queues.delete_queue(r".\private$\orders", rig.admin))
    rig.close(first)
    rig.create("orders")
    second = rig.open("orders", RECEIVE, share=DENY_RECEIVE)
    with rig.refused(SharingViolation.code):
        rig.open("orders", RECEIVE)
    rig.close(second)
    rig.open("orders", RECEIVE)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/24", "MS-MQDMPR 3.1.1.16/1")
def test_an_open_queue_has_a_descriptor_of_its_own(rig: PostRig) -> None:
    queue = rig.queue("orders")
    first = rig.open(NEAR, RECEIVE, ALICE_ADMIN, share=DENY_RECEIVE)
    assert (first.access, first.share) == (RECEIVE, DENY_RECEIVE)
    assert (first.format_name, first.queue) == (NEAR, queue)
    assert queue.descriptors == {first.handle: first}
    others = [rig.open(name, SEND) for name in (NEAR, FAR, NEAR)]
    everything = [first, *others]
    assert len({d.handle for d in everything}) == len({d.context for d in everything}) == 4


# -- what an access permits


OPERATIONS: dict[str, Callable[[PostRig, object], object]] = {
    "send": lambda rig, d: rig.send(d, b"x"),
    "peek": lambda rig, d: rig.peek(d),
    "receive": lambda rig, d: rig.receive(d),
    "purge": lambda rig, d: rig.run(lambda m: m.queues.purge_queue(d)),
    "cursor": lambda rig, d: rig.run(lambda m: m.messages.open_cursor(d)),
    "move": lambda rig, d: move_into(rig, d),
}


def move_into(rig: PostRig, target: object) -> None:
    source = rig.open("orders;sub", RECEIVE)
    lookup_id = rig.peek(source).read.lookup_id
    rig.run(lambda m: m.messages.move_message(source, lookup_id, target))


@pytest.mark.spec("MS-MQDMPR 3.1.1.17/3")
@pytest.mark.parametrize(
    ("access", "permitted"),
    [
        (SEND, {"send"}),
        (PEEK, {"peek", "cursor"}),
        (RECEIVE, {"peek", "receive", "purge", "cursor"}),
        (MOVE, {"move", "cursor"}),
    ],
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_access_permits_its_operations_only(
    rig: PostRig, access: QueueAccessType, permitted: set[str], operation: str
) -> None:
    with_subqueue(rig)
    rig.send("orders", b"x")
    descriptor = rig.open("orders", access)
    if operation in permitted:
        OPERATIONS[operation](rig, descriptor)
    else:
        with rig.refused(AccessDenied.code):
            OPERATIONS[operation](rig, descriptor)


def with_subqueue(rig: PostRig) -> None:
    rig.send("orders", b"moved")
    source, target = rig.open("orders", RECEIVE), rig.open("orders;sub", MOVE)
    lookup_id = rig.peek(source).read.lookup_id
    rig.run(lambda m: m.messages.move_message(source, lookup_id, target))
    rig.close(source)
    rig.close(target)


@pytest.mark.spec("MS-MQDMPR 3.1.1.17/4")
@pytest.mark.parametrize(
    ("access", "permitted"),
    [(PEEK_ADMIN, {"peek", "cursor"}), (RECEIVE_ADMIN, {"peek", "receive", "purge", "cursor"})],
)
@pytest.mark.parametrize("operation", ["send", "peek", "receive", "purge", "cursor"])
def test_administrative_access_permits_the_same_on_outgoing_queues(
    rig: PostRig, access: QueueAccessType, permitted: set[str], operation: str
) -> None:
    rig.send(FAR, b"x")
    descriptor = rig.open(FAR, access)
    if operation in permitted:
        OPERATIONS[operation](rig, descriptor)
    else:
        with rig.refused(AccessDenied.code):
            OPERATIONS[operation](rig, descriptor)


def test_messages_are_moved_out_of_queues_open_for_receiving(rig: PostRig) -> None:
    """Move access to the source would be a way around an exclusive reader."""
    rig.send("orders", b"x")
    target = rig.open("orders;sub", MOVE)
    lookup_id = rig.peek("orders").read.lookup_id
    for access in (MOVE, PEEK):
        source = rig.open("orders", access)
        with rig.refused(AccessDenied.code):
            rig.run(lambda m, s=source: m.messages.move_message(s, lookup_id, target))


@pytest.mark.spec("MS-MQDMPR 3.1.1.17/2")
def test_lookups_know_five_actions(rig: PostRig) -> None:
    for body in (b"1", b"2", b"3"):
        rig.send("orders", body)
    middle = rig.reads("orders")[1].lookup_id
    reader = rig.open("orders", PEEK)
    found = {
        action.name: rig.lookup(reader, middle, action, peek=True).message.body
        for action in MessageSeekAction
    }
    assert found == {
        "FIRST": b"1",
        "PREVIOUS": b"1",
        "CURRENT": b"2",
        "NEXT": b"3",
        "LAST": b"3",
    }


# -- lists of queues


TWO = rf"DIRECT=OS:ALPHA\private$\orders,{FAR}"


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/3")
@pytest.mark.parametrize("access", [*READING, *ADMIN], ids=name_of)
@pytest.mark.parametrize("share", SHARES)
def test_a_list_is_for_sending_only(
    rig: PostRig, access: QueueAccessType, share: QueueShareMode
) -> None:
    with rig.refused(UnsupportedFormatNameOperation.code):
        rig.open(TWO, access, share=share)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/4")
def test_a_list_is_not_opened_exclusively(rig: PostRig) -> None:
    with rig.refused(UnsupportedAccessMode.code):
        rig.open(TWO, SEND, share=DENY_RECEIVE)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/5", "MS-MQDMPR 3.1.1.16/3", "MS-MQDMPR 3.1.1.16/4")
def test_a_list_is_one_descriptor_with_one_for_each_element(rig: PostRig) -> None:
    descriptor = rig.open(TWO, SEND)
    assert (descriptor.access, descriptor.share) == (SEND, DENY_NONE)
    assert descriptor.queue is None
    assert descriptor.nested
    near, far = descriptor.nested
    assert (near.access, near.share, near.queue) == (SEND, DENY_NONE, rig.queue("orders"))
    assert far.target().definition.format_name == FAR
    assert [nested.nested for nested in (near, far)] == [(), ()]
    assert not near.nested
    handles = {descriptor.handle, near.handle, far.handle}
    contexts = {descriptor.context, near.context, far.context}
    assert len(handles) == len(contexts) == 3
    rig.send(descriptor, b"to both")
    assert rig.bodies("orders") == [b"to both"]
    assert far.target().state.count == 1


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/6")
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (r"DIRECT=OS:ALPHA\private$\nowhere", QueueNotFound.code),
        (f"PUBLIC={GUID}", UnsupportedFormatNameOperation.code),
        (r"DIRECT=SPX:00000012:00a0234f7500\q", UnsupportedFormatNameOperation.code),
        (r"DIRECT=OS:BRAVO\private$\far;poison", UnsupportedFormatNameOperation.code),
    ],
)
def test_a_list_with_an_element_that_does_not_open_leaves_nothing_open(
    rig: PostRig, bad: str, code: int
) -> None:
    for name in (f"{TWO},{bad}", f"{bad},{TWO}"):
        with rig.refused(code):
            rig.open(name, SEND)
    assert rig.queue("orders").descriptors == {}
    assert rig.manager.queues.outgoing_queues() == []


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.6/1")
def test_closing_a_list_closes_its_elements(rig: PostRig) -> None:
    descriptor = rig.open(TWO, SEND)
    far = descriptor.nested[1].target()
    assert rig.queue("orders").descriptors
    rig.close(descriptor)
    assert rig.queue("orders").descriptors == far.descriptors == {}
    assert not rig.queue("orders").descriptors


def test_a_session_that_ends_closes_its_lists_once(rig: PostRig) -> None:
    session = object()
    descriptor = rig.open(TWO, SEND, association=session)
    other = rig.open("orders", SEND, association=object())
    rig.run(lambda m: m.end_session(session))
    assert set(rig.queue("orders").descriptors) == {other.handle}
    with rig.refused(InvalidHandle.code):
        rig.close(descriptor)


def test_the_elements_of_a_list_are_nobody_elses(rig: PostRig) -> None:
    session = object()
    descriptor = rig.open(TWO, SEND, association=session)
    opening = rig.manager.queues.opening
    for nested in descriptor.nested:
        with pytest.raises(InvalidHandle):
            opening.descriptor(nested.handle, session)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/2")
def test_distribution_lists_are_expanded_first(rig: PostRig) -> None:
    created = rig.manager.directory.service.create_directory_object(
        objects.DistributionList(name="all", members=tuple(TWO.split(","))), 0, 0
    )
    name = f"DL={format_guid(created.identifier)}"
    descriptor = rig.open(name, SEND)
    assert len(descriptor.nested) == 2
    rig.send(descriptor, b"to all")
    assert rig.bodies("orders") == [b"to all"]
    with rig.refused(UnsupportedFormatNameOperation.code):
        rig.open(name, RECEIVE)
    with rig.refused(IllegalFormatName.code):
        rig.open(f"DL={GUID}", SEND)


# -- close


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.6/2")
def test_closing_ends_the_waiting_reads_of_the_descriptor(rig: PostRig) -> None:
    mine, other = rig.open("orders", RECEIVE), rig.open("orders", RECEIVE)
    tagged = rig.wait(mine, timeout_ms=60_000, tag="tag")
    untagged = rig.wait(mine, "peek_message", timeout_ms=None)
    elsewhere = rig.wait(other, timeout_ms=60_000)
    rig.close(mine)
    assert [type(a.error) for a in tagged + untagged] == [OperationCancelled] * 2
    assert elsewhere == []
    rig.send("orders", b"for the other")
    assert elsewhere[0].error is None


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.6/3")
def test_closing_closes_cursors_and_frees_the_share_mode(rig: PostRig) -> None:
    descriptor = rig.open("orders", RECEIVE, share=DENY_RECEIVE)
    cursors = [rig.run(lambda m: m.messages.open_cursor(descriptor)) for _ in range(3)]
    rig.close(descriptor)
    assert all(cursor.closed for cursor in cursors)
    assert rig.queue("orders").descriptors == {}
    rig.open("orders", RECEIVE, share=DENY_RECEIVE)


def test_a_closed_descriptor_cannot_be_used_or_closed_again(rig: PostRig) -> None:
    descriptor = rig.open("orders", RECEIVE)
    rig.close(descriptor)
    with rig.refused(InvalidHandle.code):
        rig.close(descriptor)
    with rig.refused(0xC00E004B):
        rig.receive(descriptor)


@pytest.mark.spec("MS-MQDMPR 3.1.1.16/6")
def test_the_waiting_reads_of_a_descriptor_are_served_in_order(rig: PostRig) -> None:
    descriptor = rig.open("orders", RECEIVE)
    reads = [rig.wait(descriptor, timeout_ms=60_000) for _ in range(4)]
    for number in range(3):
        rig.send("orders", b"%d" % number)
    assert [len(answers) for answers in reads] == [1, 1, 1, 0]
    assert [deserialize(a[0].packets[0]).body for a in reads[:3]] == [b"0", b"1", b"2"]


# -- handles


@pytest.mark.spec("MS-MQDMPR 3.1.1.16/2")
def test_handles_are_good_only_for_the_session_that_got_them(rig: PostRig) -> None:
    mine, theirs = object(), object()
    descriptor = rig.open("orders", RECEIVE, association=mine)
    cursor = rig.run(lambda m: m.messages.open_cursor(descriptor))
    opening = rig.manager.queues.opening
    assert opening.descriptor(descriptor.handle, mine) is descriptor
    assert opening.move_context(descriptor.context, mine) is descriptor
    assert opening.cursor(cursor.handle, mine) is cursor
    for stranger in (theirs, None):
        with pytest.raises(InvalidHandle):
            opening.descriptor(descriptor.handle, stranger)
        with pytest.raises(InvalidHandle):
            opening.move_context(descriptor.context, stranger)
        with pytest.raises(InvalidHandle):
            opening.cursor(cursor.handle, stranger)
    rig.close(descriptor)
    for call in (
        lambda: opening.descriptor(descriptor.handle, mine),
        lambda: opening.move_context(descriptor.context, mine),
        lambda: opening.cursor(cursor.handle, mine),
    ):
        with pytest.raises(InvalidHandle):
            call()


@pytest.mark.spec("MS-MQDMPR 3.1.1.16/2")
def test_move_contexts_cannot_be_guessed(rig: PostRig) -> None:
    contexts = [rig.open("orders", MOVE).context for _ in range(64)]
    assert len(set(contexts)) == 64
    assert all(context > 1 << 40 for context in contexts)
    steps = {second - first for first, second in pairwise(contexts)}
    assert len(steps) == 63


@pytest.mark.spec("MS-MQDMPR 3.1.1.16/2")
def test_a_move_stays_within_one_session_and_user(rig: PostRig) -> None:
    rig.send("orders", b"x")
    session = object()
    source = rig.open("orders", RECEIVE, association=session)
    lookup_id = rig.peek(source).read.lookup_id
    for target in (
        rig.open("orders;sub", MOVE, association=object()),
        rig.open("orders;sub", MOVE, ALICE_ADMIN, association=session),
    ):
        with rig.refused(AccessDenied.code):
            rig.run(lambda m, t=target: m.messages.move_message(source, lookup_id, t))


def test_open_queues_and_cursors_have_a_limit_of_which_one_user_has_half() -> None:
    rig = PostRig(open_handles_max=6)
    rig.create("orders")
    reader = rig.open("orders", RECEIVE)
    with rig.refused(InsufficientResources.code):
        rig.open(TWO, SEND)  # needs three
    for _ in range(2):
        rig.open("orders", RECEIVE)
    with rig.refused(InsufficientResources.code):
        rig.open("orders", RECEIVE)
    for _ in range(3):
        rig.run(lambda m: m.messages.open_cursor(reader))
    with rig.refused(InsufficientResources.code):
        rig.run(lambda m: m.messages.open_cursor(reader))
    theirs = rig.open("orders", RECEIVE, ALICE_ADMIN)
    rig.run(lambda m: m.messages.open_cursor(theirs))
    rig.close(theirs)
    rig.close(reader)
    rig.open("orders", RECEIVE)


def test_a_list_has_no_cursors_and_nothing_to_read(rig: PostRig) -> None:
    descriptor = rig.open(TWO, SEND)
    for call in (
        lambda: rig.receive(descriptor),
        lambda: rig.peek(descriptor),
        lambda: rig.run(lambda m: m.queues.purge_queue(descriptor)),
        lambda: rig.run(lambda m: m.messages.open_cursor(descriptor)),
    ):
        with rig.refused(AccessDenied.code):
            call()


def test_reading_nothing_by_its_identifier_is_not_found(rig: PostRig) -> None:
    with rig.refused(MessageNotFound.code):
        rig.lookup(rig.open("orders", PEEK), 1, peek=True)


def test_system_queues_are_read_by_their_paths(rig: PostRig) -> None:
    for name in (JOURNAL, DEAD_LETTERS):
        for access in (PEEK, RECEIVE):
            assert rig.open(name, access).target() is rig.queue(name)
