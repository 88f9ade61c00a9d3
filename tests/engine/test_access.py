"""Who may do what: on open and again on every operation, in one place for all doors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.model.errors import (
    AccessDenied,
    IllegalPropertyValue,
    IllegalSecurityDescriptor,
    InvalidOwner,
    MessageNotAuthenticated,
    PropertyNotAllowed,
)
from posthouse.model.guids import format_guid
from posthouse.model.message import Message, SenderIdentifierType
from posthouse.security.access import Caller, system_queue_descriptor
from posthouse.security.acls import ALLOWED, Ace, Acl
from posthouse.security.descriptors import SELF_RELATIVE, SecurityDescriptor, unpack_descriptor
from posthouse.security.rights import (
    CHANGE_QUEUE_PERMISSIONS,
    DELETE_MESSAGE,
    GET_QUEUE_PROPERTIES,
    PEEK_MESSAGE,
    QUEUE_GENERIC_ALL,
    RECEIVE_MESSAGE,
    SET_QUEUE_PROPERTIES,
    TAKE_QUEUE_OWNERSHIP,
    WRITE_MESSAGE,
)
from posthouse.security.sids import (
    ADMINISTRATORS,
    ANONYMOUS,
    AUTHENTICATED_USERS,
    EVERYONE,
    make_sid,
)
from posthouse.wire.packet.headers import QUEUE_PRIVATE_ON_DESTINATION
from posthouse.wire.packet.message import serialize
from tests.engine.letters import (
    ALICE,
    BOB,
    FAR,
    PEEK_ADMIN,
    RECEIVE_ADMIN,
    SYSTEM_QUEUES,
    PostRig,
    person,
)
from tests.engine.letters import ANONYMOUS as NOBODY
from tests.engine.rig import MOVE, PEEK, RECEIVE, SEND

SALES = make_sid(5, 21, 1, 2, 3, 2000)
CLERK = person(1003, "clerk", SALES)
ADMIN = Caller.administrator()
CLAIMS_ALICE = Caller.unverified(ALICE.sid)
LOCAL_ACCESS = (SEND, PEEK, RECEIVE, MOVE)


@pytest.fixture
def rig() -> Iterator[PostRig]:
    """A queue of Alice's, with what a new queue gets by default."""
    rig = PostRig()
    rig.create("orders", security=SecurityDescriptor(ALICE.sid).pack())
    rig.send("orders", b"first")
    yield rig
    rig.check_books()


def allowed(rig: PostRig, caller: Caller, name: str = "orders") -> set[str]:
    """What a caller can open a queue for; everything else must be refused properly."""
    found = set()
    for access in LOCAL_ACCESS:
        try:
            rig.close(rig.open(name, access, caller))
        except AccessDenied:
            with rig.refused(AccessDenied.code):
                rig.open(name, access, caller)
        else:
            found.add(access.name.lower())
    return found


READS = {"peek", "receive", "move"}


# -- what a new queue gives to whom


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.5/1",
    "MS-MQDMPR 3.1.7.1.3.1/1",
    "MS-MQDMPR 3.1.7.1.3.1/2",
    "MS-MQDMPR 3.1.7.1.33/3",
)
@pytest.mark.parametrize(
    ("caller", "rights"),
    [
        (ALICE, {"send", *READS}),
        (ADMIN, {"send", *READS}),
        (BOB, {"send"}),
        (NOBODY, {"send"}),
        (CLAIMS_ALICE, {"send"}),
        (Caller.unverified(ADMINISTRATORS), {"send"}),
    ],
    ids=lambda value: ",".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_by_default_the_owner_does_everything_and_the_others_send(
    rig: PostRig, caller: Caller, rights: set[str]
) -> None:
    assert allowed(rig, caller) == rights
    rig.restart()
    assert allowed(rig, caller) == rights


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3.1/4", "MS-MQDMPR 3.1.7.1.3.1/7", "MS-MQDMPR 3.1.7.1.33/3")
def test_whoever_creates_a_queue_without_saying_owns_it(rig: PostRig) -> None:
    creator = Caller.administrator(BOB.sid, "bob")
    security = rig.create("bobs", caller=creator).definition.security
    descriptor = unpack_descriptor(security)
    assert descriptor.owner == BOB.sid
    assert descriptor.control & SELF_RELATIVE
    assert descriptor.pack() == security
    assert allowed(rig, BOB, "bobs") == {"send", *READS}  # administrator no more, but the owner


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3.1/3")
def test_a_supplied_descriptor_keeps_its_parts(rig: PostRig) -> None:
    dacl = Acl((Ace.of(ALLOWED, BOB.sid, PEEK_MESSAGE),))
    sacl = Acl((Ace.of(2, EVERYONE, WRITE_MESSAGE),))
    supplied = SecurityDescriptor(ALICE.sid, SALES).with_sacl(sacl).with_dacl(dacl)
    rig.create("supplied", security=supplied.pack())
    rig.restart()
    kept = rig.security("supplied")
    assert (kept.owner, kept.group) == (ALICE.sid, SALES)
    assert (kept.dacl, kept.sacl) == (dacl, sacl)
    assert allowed(rig, BOB, "supplied") == {"peek"}


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3.1/5")
def test_anonymous_senders_send_until_they_are_denied(rig: PostRig) -> None:
    assert allowed(rig, NOBODY) == {"send"}
    rig.deny("orders", ANONYMOUS, WRITE_MESSAGE)
    assert allowed(rig, NOBODY) == set()
    assert allowed(rig, CLAIMS_ALICE) == set()  # a made-up claim is no way around it
    assert allowed(rig, BOB) == {"send"}


def test_the_default_for_others_is_a_setting() -> None:
    rig = PostRig(default_access={"users": "peek"})
    rig.create("orders", security=SecurityDescriptor(ALICE.sid).pack())
    assert allowed(rig, BOB) == {"peek"}
    assert allowed(rig, NOBODY) == set()
    assert allowed(rig, ALICE) == {"send", *READS}


def test_nobody_in_particular_cannot_own_a_queue(rig: PostRig) -> None:
    for owner in (EVERYONE, ANONYMOUS, AUTHENTICATED_USERS):
        with rig.refused(InvalidOwner.code):
            rig.create("ownerless", security=SecurityDescriptor(owner).pack())


# -- grants and denials


@pytest.mark.parametrize(
    ("who", "gains"),
    [
        (BOB.sid, {BOB}),
        (SALES, {CLERK}),
        (AUTHENTICATED_USERS, {BOB, CLERK}),
        (EVERYONE, {BOB, CLERK, NOBODY, CLAIMS_ALICE}),
        (ANONYMOUS, {NOBODY}),
        (make_sid(5, 21, 9, 9, 9, 1), set()),
    ],
    ids=["user", "group", "users", "everyone", "anonymous", "stranger"],
)
def test_a_grant_reaches_whom_it_names(rig: PostRig, who: bytes, gains: set[Caller]) -> None:
    rig.grant("orders", who, PEEK_MESSAGE)
    for caller in (BOB, CLERK, NOBODY, CLAIMS_ALICE):
        assert ("peek" in allowed(rig, caller)) == (caller in gains), caller


@pytest.mark.parametrize(
    ("who", "loses"),
    [
        (BOB.sid, {BOB}),
        (SALES, {CLERK}),
        (AUTHENTICATED_USERS, {ALICE, BOB, CLERK}),
        (EVERYONE, {ALICE, BOB, CLERK, NOBODY, CLAIMS_ALICE}),
        (ANONYMOUS, {NOBODY, CLAIMS_ALICE}),
        (ALICE.sid, {ALICE, CLAIMS_ALICE}),
    ],
    ids=["user", "group", "users", "everyone", "anonymous", "owner"],
)
def test_a_denial_goes_before_every_grant(rig: PostRig, who: bytes, loses: set[Caller]) -> None:
    rig.deny("orders", who, WRITE_MESSAGE)
    for caller in (ALICE, BOB, CLERK, NOBODY, CLAIMS_ALICE):
        assert ("send" in allowed(rig, caller)) == (caller not in loses), caller
    assert "send" in allowed(rig, ADMIN)


def test_receiving_needs_both_bits(rig: PostRig) -> None:
    rig.grant("orders", BOB, DELETE_MESSAGE)
    assert allowed(rig, BOB) == {"send"}
    rig.grant("orders", BOB, RECEIVE_MESSAGE)
    assert allowed(rig, BOB) == {"send", *READS}


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/44", "MS-MQDMPR 3.1.1.12/45")
def test_a_claim_nobody_proved_counts_for_nothing_more_than_everyone(rig: PostRig) -> None:
    rig.grant("orders", ALICE, QUEUE_GENERIC_ALL)
    for caller in (CLAIMS_ALICE, NOBODY):
        assert allowed(rig, caller) == {"send"}
        with rig.refused(AccessDenied.code):
            rig.set("orders", caller, label="mine")
        with rig.refused(AccessDenied.code):
            rig.delete("orders", caller)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/44")
def test_a_message_without_a_sender_is_nobodys(rig: PostRig) -> None:
    rig.send("orders", b"unnamed", sender_identifier_type=SenderIdentifierType.NONE)
    message = rig.messages("orders")[-1]
    assert message.sender_identifier == b""
    rig.send("orders", b"named")
    assert rig.messages("orders")[-1].sender_identifier == ADMINISTRATORS


def test_a_token_narrows_its_owner(rig: PostRig) -> None:
    narrowed = ALICE.narrowed(((r".\private$\ord*", WRITE_MESSAGE | PEEK_MESSAGE),))
    assert allowed(rig, narrowed) == {"send", "peek"}
    elsewhere = ALICE.narrowed(((r".\private$\else*", QUEUE_GENERIC_ALL),))
    assert allowed(rig, elsewhere) == set()


# -- queues for authenticated or encrypted messages only


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/7")
def test_an_authenticated_queue_takes_authenticated_messages_and_gives_everyone_nothing(
    rig: PostRig,
) -> None:
    rig.from_afar("orders", b"plain")
    rig.from_afar("orders", b"signed", authenticated=True, ordinal=8)
    rig.set("orders", authentication=True)
    rig.from_afar("orders", b"signed too", authenticated=True, ordinal=9)
    with rig.refused(MessageNotAuthenticated.code):
        rig.from_afar("orders", b"plain again", ordinal=10)
    with rig.refused(MessageNotAuthenticated.code):
        rig.send(rig.open("orders", SEND, ADMIN), b"unsigned")
    assert rig.bodies("orders") == [b"first", b"plain", b"signed", b"signed too"]
    assert allowed(rig, BOB) == allowed(rig, NOBODY) == set()
    rig.grant("orders", AUTHENTICATED_USERS, WRITE_MESSAGE)
    assert allowed(rig, BOB) == {"send"}
    assert allowed(rig, ALICE) == {"send", *READS}
    rig.set("orders", authentication=False)
    assert allowed(rig, NOBODY) == {"send"}


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/8")
@pytest.mark.parametrize(
    ("level", "takes_clear", "takes_encrypted"),
    [(0, True, False), (1, True, True), (2, False, True)],
)
def test_the_privacy_level_decides_about_encrypted_messages(
    rig: PostRig, level: int, takes_clear: bool, takes_encrypted: bool
) -> None:
    rig.set("orders", privacy_level=level)
    for encrypted, taken in ((False, takes_clear), (True, takes_encrypted)):
        privacy = {"privacy_level": 3} if encrypted else {}
        if taken:
            rig.from_afar("orders", **privacy)
        else:
            with rig.refused(IllegalPropertyValue.code):
                rig.from_afar("orders", **privacy)


# -- queues of the administrators


@pytest.mark.spec("MS-MQDMPR 3.1.3/17")
@pytest.mark.parametrize("name", [*SYSTEM_QUEUES, r".\private$\orders;journal"])
@pytest.mark.parametrize("caller", [ALICE, BOB, NOBODY, CLAIMS_ALICE], ids=str)
def test_system_queues_and_journals_are_the_administrators(
    rig: PostRig, name: str, caller: Caller
) -> None:
    assert rig.queue(name).definition.security == system_queue_descriptor()
    for access in (PEEK, RECEIVE, MOVE):
        rig.close(rig.open(name, access, ADMIN))
        with rig.refused(AccessDenied.code):
            rig.open(name, access, caller)


def test_an_administrator_can_let_others_read_a_journal(rig: PostRig) -> None:
    rig.grant("orders;journal", BOB, PEEK_MESSAGE)
    assert allowed_reads(rig, BOB, "orders;journal") == {"peek"}
    assert allowed_reads(rig, ALICE, "orders;journal") == set()


def allowed_reads(rig: PostRig, caller: Caller, name: str) -> set[str]:
    found = set()
    for access in (PEEK, RECEIVE):
        try:
            rig.open(name, access, caller)
            found.add(access.name.lower())
        except AccessDenied:
            pass
    return found


def test_outgoing_queues_are_the_administrators_and_known_users_send(rig: PostRig) -> None:
    rig.send(FAR, b"waits")
    for caller in (ALICE, BOB):
        rig.send(rig.open(FAR, SEND, caller), b"more")
        for access in (PEEK_ADMIN, RECEIVE_ADMIN):
            with rig.refused(AccessDenied.code):
                rig.open(FAR, access, caller)
    for caller in (NOBODY, CLAIMS_ALICE):
        with rig.refused(AccessDenied.code):
            rig.open(FAR, SEND, caller)


def test_a_subqueue_has_the_rights_of_its_queue(rig: PostRig) -> None:
    rig.open("orders;poison", MOVE, ALICE)
    for access in (PEEK, RECEIVE, MOVE):
        with rig.refused(AccessDenied.code):
            rig.open("orders;poison", access, BOB)
    with rig.refused(AccessDenied.code):
        rig.open("orders;another", MOVE, BOB)
    rig.grant("orders", BOB, RECEIVE_MESSAGE)
    rig.open("orders;poison", RECEIVE, BOB)
    with rig.refused(PropertyNotAllowed.code):
        rig.set_security("orders;poison", system_queue_descriptor())


# -- rights that change while a queue is open

Operation = Callable[[PostRig, OpenQueueDescriptor], object]
WHILE_OPEN: list[tuple[str, QueueAccessType, int, Operation]] = [
    ("send", SEND, WRITE_MESSAGE, lambda rig, d: rig.send(d, b"x")),
    ("receive", RECEIVE, DELETE_MESSAGE, lambda rig, d: rig.receive(d)),
    ("peek", PEEK, PEEK_MESSAGE, lambda rig, d: rig.peek(d)),
    ("purge", RECEIVE, RECEIVE_MESSAGE, lambda rig, d: rig.run(lambda m: m.queues.purge_queue(d))),
    (
        "lookup",
        PEEK,
        PEEK_MESSAGE,
        lambda rig, d: rig.lookup(d, rig.reads("orders")[0].lookup_id, peek=True),
    ),
    (
        "begin",
        RECEIVE,
        RECEIVE_MESSAGE,
        lambda rig, d: rig.driver.read(
            lambda m: m.messages.dequeue_message(d, timeout_ms=0, two_phase=True)
        ),
    ),
    (
        "many",
        RECEIVE,
        RECEIVE_MESSAGE,
        lambda rig, d: rig.driver.read_many(lambda m: m.messages.dequeue_messages(d, 5)),
    ),
]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/1")
@pytest.mark.parametrize(
    ("access", "right", "operation"),
    [pytest.param(*case[1:], id=case[0]) for case in WHILE_OPEN],
)
def test_a_right_taken_away_ends_what_it_allowed(
    rig: PostRig, access: QueueAccessType, right: int, operation: Operation
) -> None:
    rig.grant("orders", BOB, QUEUE_GENERIC_ALL)
    descriptor = rig.open("orders", access, BOB)
    operation(rig, descriptor)
    rig.send("orders", b"another")
    rig.deny("orders", BOB, right)
    with rig.refused(AccessDenied.code):
        operation(rig, descriptor)
    rig.grant("orders", BOB, right)
    operation(rig, descriptor)
    rig.close(descriptor)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/1")
def test_a_read_that_waits_is_not_served_once_its_right_is_gone(rig: PostRig) -> None:
    rig.receive("orders")
    rig.grant("orders", BOB, RECEIVE_MESSAGE)
    denied = rig.wait(rig.open("orders", RECEIVE, BOB), timeout_ms=60_000)
    served = rig.wait(rig.open("orders", RECEIVE, ALICE), timeout_ms=60_000)
    rig.deny("orders", BOB, DELETE_MESSAGE)
    rig.send("orders", b"for alice")
    assert [type(answer.error) for answer in denied] == [AccessDenied]
    assert [answer.error for answer in served] == [None]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/1")
def test_a_cursor_and_a_move_need_their_rights_each_time(rig: PostRig) -> None:
    rig.grant("orders", BOB, RECEIVE_MESSAGE)
    reader, target = rig.open("orders", RECEIVE, BOB), rig.open("orders;sub", MOVE, BOB)
    cursor = rig.run(lambda m: m.messages.open_cursor(reader))
    rig.send("orders", b"second")
    lookup_id = rig.peek(reader, cursor=cursor).read.lookup_id
    rig.deny("orders", BOB, PEEK_MESSAGE)
    for call in (
        lambda: rig.peek(reader, cursor=cursor),
        lambda: rig.run(lambda m: m.messages.peek_next_message(reader, cursor, timeout_ms=0)),
        lambda: rig.run(lambda m: m.messages.move_message(reader, lookup_id, target)),
    ):
        with rig.refused(AccessDenied.code):
            call()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/1")
def test_a_list_is_checked_element_by_element(rig: PostRig) -> None:
    rig.create("others")
    both = r"DIRECT=OS:ALPHA\private$\orders,DIRECT=OS:ALPHA\private$\others"
    descriptor = rig.open(both, SEND, BOB)
    rig.send(descriptor, b"to both")
    rig.deny("others", BOB, WRITE_MESSAGE)
    with rig.refused(AccessDenied.code):
        rig.send(descriptor, b"to neither")
    with rig.refused(AccessDenied.code):
        rig.open(both, SEND, BOB)
    assert rig.bodies("orders") == [b"first", b"to both"]


# -- queues that a message names


@pytest.mark.parametrize(
    "named",
    [
        {
            "acknowledgements_requested": 0x0F,
            "administration_queue_format_name": r"DIRECT=OS:ALPHA\private$\closed",
        },
        {
            "negative_journaling_requested": True,
            "application_deadletter_queue": r".\private$\closed",
        },
    ],
    ids=["administration", "dead_letter"],
)
def test_a_message_names_no_queue_that_its_sender_could_not_write_to(
    rig: PostRig, named: dict[str, object]
) -> None:
    """Or acknowledgments and dead letters, with body and label, would be a way in."""
    closed = SecurityDescriptor(ALICE.sid).with_dacl(Acl())
    rig.create("closed", security=closed.pack())
    sender = rig.open("orders", SEND, BOB)
    with rig.refused(AccessDenied.code):
        rig.send(sender, b"x", **named)
    rig.send(sender, b"x", **{key: value for key, value in named.items() if "queue" in key})
    rig.grant("closed", BOB, WRITE_MESSAGE)
    rig.send(sender, b"x", **named)


def test_packets_are_held_to_the_same(rig: PostRig) -> None:
    rig.create("closed", security=SecurityDescriptor(ALICE.sid).with_dacl(Acl()).pack())
    message = Message(
        destination_queue_format_name=r"DIRECT=OS:ALPHA\private$\orders",
        acknowledgements_requested=0x0F,
        administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\closed",
    )
    packets, sender = [serialize(message)], rig.open("orders", SEND, BOB)
    with rig.refused(AccessDenied.code):
        rig.run(lambda m: m.messages.send_packets(sender, packets))
    rig.grant("closed", BOB, WRITE_MESSAGE)
    rig.run(lambda m: m.messages.send_packets(sender, packets))
    assert len(rig.messages("closed")) == 1


@pytest.mark.parametrize("forged", ["nothing", "source", "address"])
def test_a_packet_is_held_to_it_whatever_machine_it_names(rig: PostRig, forged: str) -> None:
    """Private names are of the source or of the destination, and we become the source."""
    shut = SecurityDescriptor(ALICE.sid).with_dacl(Acl()).pack()
    number, own = rig.create("closed", security=shut).number, rig.manager.ledger.guid
    message = Message(
        destination_queue_format_name=r"DIRECT=OS:ALPHA\private$\orders",
        acknowledgements_requested=0x02,
        administration_queue_format_name=f"PRIVATE={format_guid(own)}\\{number:08x}",
        source_machine_identifier=own,
    )
    packet, stranger = serialize(message), bytes(range(16))
    packets = [packet]
    if forged == "source":
        packets = [packet[:16] + stranger + packet[32:]]
    elif forged == "address":  # of the queue on the destination, in the first of two
        flags = int.from_bytes(packet[60:64], "little") & ~(7 << 13)
        flags |= QUEUE_PRIVATE_ON_DESTINATION << 13
        on_there = packet[:60] + flags.to_bytes(4, "little") + packet[64:]
        packets = [on_there[:32] + machine + on_there[48:] for machine in (stranger, own)]
    sender = rig.open("orders", SEND, BOB)
    with rig.refused(AccessDenied.code):
        rig.run(lambda m: m.messages.send_packets(sender, packets))


# -- managing


@pytest.mark.parametrize(
    ("right", "call"),
    [
        (SET_QUEUE_PROPERTIES, lambda rig: rig.set("orders", BOB, label="bobs")),
        (
            GET_QUEUE_PROPERTIES,
            lambda rig: rig.run(lambda m: m.queues.queue_properties(r".\private$\orders", BOB)),
        ),
        (
            CHANGE_QUEUE_PERMISSIONS,
            lambda rig: rig.set_security("orders", rig.security("orders").pack(), BOB),
        ),
        (0x10000, lambda rig: rig.delete("orders", BOB)),
    ],
    ids=["set", "get", "permissions", "delete"],
)
def test_managing_a_queue_needs_its_own_right(
    rig: PostRig, right: int, call: Callable[[PostRig], object]
) -> None:
    rig.grant("orders", BOB, QUEUE_GENERIC_ALL & ~right)
    with rig.refused(AccessDenied.code):
        call(rig)
    rig.grant("orders", BOB, right)
    call(rig)


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/10")
def test_entries_with_bits_that_mean_nothing_are_refused(rig: PostRig) -> None:
    bad = SecurityDescriptor(ALICE.sid).with_dacl(Acl((Ace.of(ALLOWED, BOB.sid, 0x100),))).pack()
    with rig.refused(IllegalSecurityDescriptor.code):
        rig.create("bad", security=bad)
    with rig.refused(IllegalSecurityDescriptor.code):
        rig.set_security("orders", bad)


@pytest.mark.parametrize("raw", [b"", b"x", bytes(20), b"\x01\x00\x04\x80" + b"\xff" * 16])
def test_bytes_that_are_no_descriptor_are_refused(rig: PostRig, raw: bytes) -> None:
    with rig.refused(IllegalSecurityDescriptor.code):
        rig.set_security("orders", raw)


def test_a_descriptor_is_kept_byte_for_byte() -> None:
    """Unknown entries, gaps and reserved bits included."""
    entries = (Ace(200, 1, b"unknown!"), Ace.of(ALLOWED, BOB.sid, PEEK_MESSAGE))
    plain = SecurityDescriptor(ALICE.sid, SALES, control=SELF_RELATIVE | 0x0100)
    odd = plain.with_dacl(Acl(entries))._replace(sbz1=7, layout=(b"gap!", ("owner",), b"...."))
    raw = odd.pack()
    assert unpack_descriptor(raw).pack() == raw
    rig = PostRig()
    rig.create("orders")
    rig.set_security("orders", raw)
    rig.restart()
    assert rig.queue("orders").definition.security == raw
    assert allowed(rig, BOB) == {"peek"}


def test_parts_that_a_new_descriptor_leaves_out_stay(rig: PostRig) -> None:
    old = rig.security("orders")
    rig.set_security("orders", SecurityDescriptor(b"", SALES).pack())
    new = rig.security("orders")
    assert (new.owner, new.dacl, new.group) == (old.owner, old.dacl, SALES)
    rig.set_security("orders", SecurityDescriptor(ALICE.sid).with_dacl(Acl()).pack())
    assert allowed(rig, BOB) == allowed(rig, ALICE) == set()
    assert allowed(rig, ADMIN) == {"send", *READS}
    rig.set_security("orders", SecurityDescriptor(ALICE.sid).with_dacl(old.dacl).pack(), ALICE)
    assert allowed(rig, ALICE) == {"send", *READS}  # an owner can always repair the list


def test_taking_a_queue_over_needs_the_right_and_a_name_of_ones_own(rig: PostRig) -> None:
    rig.grant("orders", BOB, CHANGE_QUEUE_PERMISSIONS)
    taken = rig.security("orders").with_owner(BOB.sid).pack()
    with rig.refused(AccessDenied.code):
        rig.set_security("orders", taken, BOB)
    rig.grant("orders", BOB, TAKE_QUEUE_OWNERSHIP)
    given_away = rig.security("orders").with_owner(CLERK.sid).pack()
    with rig.refused(InvalidOwner.code):
        rig.set_security("orders", given_away, BOB)
    rig.set_security("orders", rig.security("orders").with_owner(BOB.sid).pack(), BOB)
    assert rig.security("orders").owner == BOB.sid
    rig.set_security("orders", rig.security("orders").with_owner(CLERK.sid).pack(), ADMIN)
    assert rig.security("orders").owner == CLERK.sid


def test_the_audit_list_is_for_administrators(rig: PostRig) -> None:
    sacl = Acl((Ace.of(2, EVERYONE, WRITE_MESSAGE),))
    audited = rig.security("orders").with_sacl(sacl).pack()
    with rig.refused(AccessDenied.code):
        rig.set_security("orders", audited, ALICE)
    rig.set_security("orders", audited, ADMIN)
    unaudited = SecurityDescriptor(ALICE.sid).with_dacl(rig.security("orders").dacl).pack()
    rig.set_security("orders", unaudited, ALICE)
    assert rig.security("orders").sacl == sacl  # leaving it out does not remove it
