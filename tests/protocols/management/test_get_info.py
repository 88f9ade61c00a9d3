"""R_QMMgmtGetInfo ([MS-MQMR] 3.1.4.1): every property of machines and queues."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest

from posthouse.engine.queues.queue import ConnectionAttempt
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.message import Message, MessageId, TxSequenceId
from posthouse.model.names import parse_format_name
from posthouse.model.properties import (
    MACHINE_MANAGEMENT_PROPERTIES,
    QUEUE_MANAGEMENT_PROPERTIES,
    OutgoingQueueState,
    QueueShareMode,
)
from posthouse.model.property_ids import Vt
from posthouse.protocols.management.properties import MACHINE_VALUES, QUEUE_VALUES
from posthouse.protocols.management.stubs import MACHINE, Asked, ManagedObject, ObjectType
from posthouse.protocols.queue_format import QueueFormat
from posthouse.rpc.propvariant import NULL, Variant
from posthouse.security.rights import PEEK_MESSAGE, RECEIVE_MESSAGE
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet_fields import summarize_all
from tests.engine.letters import FAR, FAR_GUID, RECEIVE_ADMIN
from tests.engine.rig import MOVE, RECEIVE, START_UTC
from tests.engine.sessions import sequence_of
from tests.protocols.management.rig import (
    ACCESS_DENIED,
    GET_INFO,
    ILLEGAL_PROPID,
    INVALID_PARAMETER,
    OK,
    QUEUE_NOT_FOUND,
    ManagedRig,
    queue_object,
)

TEXTS, UI4 = Vt.VECTOR | Vt.LPWSTR, Vt.UI4
SESSION = ManagedObject(ObjectType.SESSION)
WEB = "DIRECT=HTTP://bravo/msmq/private$/far"
GROUP = "MULTICAST=239.1.2.3:4567"
EOD = range(13, 24)
SEQUENCE_INFO = struct.Struct("<QII")  # [MS-MQMQ] 2.2.5: identifier, number, the one before


@pytest.fixture
def rig() -> ManagedRig:
    made = ManagedRig()
    made.create("orders", journaling=True, transactional=False)
    return made


def text(value: str) -> Variant:
    return Variant(Vt.LPWSTR, value)


# -- what may be asked


@pytest.mark.spec("MS-MQMR 3.1.4/3")
def test_there_are_two_methods_and_their_calls_are_counted(rig: ManagedRig) -> None:
    assert rig.interface.methods.keys() == {0, 1}
    rig.machine(4)
    rig.act(MACHINE, "TIDY")
    assert rig.management.calls == {"R_QMMgmtGetInfo": 1, "R_QMMgmtAction": 1}


@pytest.mark.spec("MS-MQMR 2.2.3.1/1", "MS-MQMR 2.2.3.2/1", "MS-MQMR 3.1.4.1/3")
@pytest.mark.spec("MS-MQMR 3.1.4.1/4")
def test_every_property_is_answered_with_its_type_or_null(rig: ManagedRig) -> None:
    assert MACHINE_VALUES.keys() == MACHINE_MANAGEMENT_PROPERTIES.keys()
    assert QUEUE_VALUES.keys() == QUEUE_MANAGEMENT_PROPERTIES.keys()
    rig.commit_sends("ab")
    for of, table in (
        (MACHINE, MACHINE_MANAGEMENT_PROPERTIES),
        (queue_object("orders"), QUEUE_MANAGEMENT_PROPERTIES),
        (queue_object(FAR), QUEUE_MANAGEMENT_PROPERTIES),
    ):
        backwards = sorted(table, reverse=True)
        for ndr64 in (False, True):
            answer = rig.info(of, *backwards, ndr64=ndr64)
            assert answer.result == OK
            for propid, variant in zip(backwards, answer.variants, strict=True):
                assert variant.vt in (table[propid].vt, Vt.NULL), table[propid].name


@pytest.mark.spec("MS-MQMR 3.1.4.1/5", "MS-MQMR 3.1.4.1/6", "MS-MQMR 3.1.4.1/7")
@pytest.mark.spec("MS-MQMR 3.1.4/4", "MS-MQMR 1.8/1")
@pytest.mark.parametrize(
    ("of", "propid"),
    [(MACHINE, 7), (MACHINE, 0), (queue_object("orders"), 28), (queue_object("orders"), 0)],
    ids=["machine 7", "machine 0", "queue 28", "queue 0"],
)
def test_another_identifier_is_illegal_and_nothing_is_set(
    rig: ManagedRig, of: ManagedObject, propid: int
) -> None:
    asked = (Asked(1), Asked(propid, Variant(UI4, 99)))
    answer = rig.call(GET_INFO, of, asked)
    assert answer.result == ILLEGAL_PROPID
    assert answer.variants == (NULL, Variant(UI4, 99))


@pytest.mark.spec("MS-MQMR 3.1.4.1/8")
def test_sessions_are_not_managed(rig: ManagedRig) -> None:
    assert rig.info(SESSION, 1).result == INVALID_PARAMETER


@pytest.mark.spec("MS-MQMR 3.1.4.1/18", "MS-MQMR 3.1.4.1/5")
@pytest.mark.parametrize("name", ["nowhere", FAR, r"DIRECT=OS:BRAVO\private$\orders"])
def test_a_queue_that_there_is_not_is_an_error(rig: ManagedRig, name: str) -> None:
    answer = rig.info(queue_object(name), 7)
    assert (answer.result, answer.variants) == (QUEUE_NOT_FOUND, (NULL,))


@pytest.mark.parametrize(
    "queue",
    [None, QueueFormat(0), QueueFormat(3, 0, None), QueueFormat(3, 0x40, "OS:ALPHA\\private$\\q")],
    ids=["no pointer", "unknown", "no text", "flags"],
)
def test_what_names_no_queue_is_an_invalid_parameter(rig: ManagedRig, queue: Any) -> None:
    assert rig.info(ManagedObject(ObjectType.QUEUE, queue), 7).result == INVALID_PARAMETER


# -- rights


@pytest.mark.spec("MS-MQMR 3/1", "MS-MQMR 3/2", "MS-MQMR 3.1.4.1/16")
def test_machines_are_for_administrators_queues_for_their_readers(rig: ManagedRig) -> None:
    alice = rig.user("alice")
    sid = alice.account
    rig.send("orders", b"one")
    rig.commit_sends("a")
    assert rig.info(MACHINE, 2, by=alice).result == ACCESS_DENIED
    assert rig.info(queue_object("orders"), 7, by=alice).result == ACCESS_DENIED
    rig.grant("orders", sid, PEEK_MESSAGE)
    assert rig.info(queue_object("orders"), 7, by=alice).result == ACCESS_DENIED
    rig.grant("orders", sid, PEEK_MESSAGE | RECEIVE_MESSAGE)
    assert rig.of("orders", 7, by=alice) == Variant(UI4, 1)
    assert rig.info(MACHINE, 2, by=alice).result == ACCESS_DENIED
    assert rig.info(queue_object(FAR), 7, by=alice).result == ACCESS_DENIED
    for of in (MACHINE, queue_object("orders"), queue_object(FAR)):
        assert rig.info(of, 1, anonymous=True).result == ACCESS_DENIED


@pytest.mark.spec("MS-MQMR 3.1.4.1/17")
def test_who_has_a_queue_for_himself_keeps_nobody_from_counting(rig: ManagedRig) -> None:
    rig.open("orders", RECEIVE, share=QueueShareMode.DENY_RECEIVE)
    assert rig.of("orders", 7) == Variant(UI4, 0)


# -- the machine


@pytest.mark.spec("MS-MQMR 3.1.4.1/9", "MS-MQMR 3.1.4.1/10")
def test_active_and_private_queues_are_listed(rig: ManagedRig) -> None:
    rig.create("idle")
    assert rig.machine(1) == Variant(TEXTS, ())
    assert rig.machine(2) == Variant(TEXTS, (r"ALPHA\private$\orders", r"ALPHA\private$\idle"))
    rig.open("idle")
    rig.send("orders", b"one")
    rig.commit_sends("a")
    active = rig.machine(1)
    assert active.vt == TEXTS
    assert set(active.value) == {  # type: ignore[call-overload]
        r"DIRECT=OS:ALPHA\private$\orders",
        r"DIRECT=OS:ALPHA\private$\idle",
        FAR,
    }


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/12", clause="open")
def test_a_queue_is_active_while_it_is_open(rig: ManagedRig) -> None:
    opened = [rig.open("orders"), rig.open("orders")]
    for descriptor in opened:
        assert rig.machine(1).value == (r"DIRECT=OS:ALPHA\private$\orders",)
        rig.close(descriptor)
    assert rig.machine(1).value == ()


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/12", clause="messages")
@pytest.mark.spec("MS-MQDMPR 3.1.1.2/12", clause="outgoing")
@pytest.mark.parametrize("name", [r"DIRECT=OS:ALPHA\private$\orders", FAR])
def test_a_queue_is_active_while_it_holds_messages(rig: ManagedRig, name: str) -> None:
    rig.send(name, b"one")
    assert rig.machine(1).value == (name,)
    descriptor = rig.open(name, RECEIVE_ADMIN if name == FAR else RECEIVE)
    rig.run(lambda m: m.queues.purge_queue(descriptor))
    rig.close(descriptor)
    assert rig.machine(1).value == ()


@pytest.mark.spec("MS-MQMR 3.1.4.1/12")
def test_a_workgroup_has_no_directory_server(rig: ManagedRig) -> None:
    assert rig.machine(3) == NULL


@pytest.mark.spec("MS-MQMR 3.1.4.1/11")
@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("ldap://dc1.example.com:389/DC=example,DC=com", r"\\dc1.example.com"),
        ("ldaps://[2001:db8::7]:636", r"\\2001:db8::7"),
        ("/srv/directory.toml", None),
    ],
    ids=["ldap", "ldaps", "file"],
)
def test_the_directory_server_is_that_of_the_settings(
    rig: ManagedRig, source: str, shown: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirroring = type(rig.manager.directory.mirroring)
    monkeypatch.setattr(mirroring, "source", property(lambda self: source))
    assert rig.machine(3) == (NULL if shown is None else text(shown))


@pytest.mark.spec("MS-MQMR 3.1.4.1/13")
def test_the_machine_tells_whether_it_is_online(rig: ManagedRig) -> None:
    assert rig.machine(4) == text("CONNECTED")
    rig.run(lambda m: m.transfer.take_offline())
    assert rig.machine(4) == text("DISCONNECTED")


@pytest.mark.spec("MS-MQMR 3.1.4.1/14", "MS-MQMR 3.1.4.1/15")
def test_the_machine_tells_its_version_and_its_bytes(rig: ManagedRig) -> None:
    assert rig.machine(5) == text("Posthouse 9.9")
    assert rig.machine(6) == Variant(Vt.I8, 0)
    rig.send("orders", b"x" * 1000)
    rig.commit_sends("ab")
    here, far = rig.queue("orders").state.bytes, rig.outgoing(FAR)[0].state.bytes
    assert here > 1000
    assert rig.machine(6) == Variant(Vt.I8, here + far)


# -- queues of this machine


@pytest.mark.spec("MS-MQMR 3.1.4.1/19", "MS-MQMR 3.1.4.1/20", "MS-MQMR 3.1.4.1/21")
@pytest.mark.spec("MS-MQMR 3.1.4.1/22", "MS-MQMR 3.1.4.1/23", "MS-MQMR 3.1.4.1/30")
def test_a_queue_tells_what_it_is(rig: ManagedRig) -> None:
    rig.create("ledger", transactional=True)
    answer = rig.info(queue_object("ledger"), 1, 2, 3, 4, 5, 11, 12)
    assert answer.variants == (
        text(r"ALPHA\private$\ledger"),
        text(r"DIRECT=OS:ALPHA\private$\ledger"),
        text("PRIVATE"),
        text("LOCAL"),
        text("YES"),
        text("LOCAL CONNECTION"),
        NULL,
    )
    assert rig.of("orders", 5) == text("NO")
    assert rig.of(r"DIRECT=OS:ALPHA\system$;deadletter", 3) == text("MACHINE")


@pytest.mark.spec("MS-MQMR 3.1.4.1/26", "MS-MQMR 3.1.4.1/27", "MS-MQMR 3.1.4.1/28")
@pytest.mark.spec("MS-MQMR 3.1.4.1/29")
def test_messages_and_bytes_are_counted_in_queue_and_journal(rig: ManagedRig) -> None:
    for body in (b"one", b"two", b"three"):
        rig.send("orders", body)
    rig.receive("orders")
    queue = rig.queue("orders")
    assert queue.journal is not None
    answer = rig.info(queue_object("orders"), 7, 8, 9, 10)
    assert answer.variants == (
        Variant(UI4, 2),
        Variant(UI4, queue.state.bytes),
        Variant(UI4, 1),
        Variant(UI4, queue.journal.state.bytes),
    )
    assert queue.state.bytes > 0 < queue.journal.state.bytes
    rig.create("plain")
    assert rig.info(queue_object("plain"), 9, 10).variants == (Variant(UI4, 0),) * 2


@pytest.mark.spec("MS-MQMR 3.1.4.1/24", "MS-MQMR 3.1.4.1/25")
def test_a_queue_is_foreign_as_its_machine_is(
    rig: ManagedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rig.of("orders", 6) == text("NO")
    directory = rig.manager.directory
    own = directory.own_queue_manager()
    strange = msgspec.structs.replace(own, foreign_system=True)
    monkeypatch.setattr(type(directory), "own_queue_manager", lambda self: strange)
    assert rig.of("orders", 6) == text("YES")
    away = directory.state()._replace(source="ldap://dc", online=False)
    monkeypatch.setattr(type(directory), "state", lambda self: away)
    assert rig.of("orders", 6) == text("NO")
    assert rig.of(r"DIRECT=OS:ALPHA\system$;deadletter", 6) == text("UNKNOWN")


@pytest.mark.spec("MS-MQMR 3.1.4.1/45", "MS-MQMR 3.1.4.1/46")
def test_subqueues_are_counted_and_named(rig: ManagedRig) -> None:
    assert rig.of("orders", 26) == Variant(UI4, 0)
    assert rig.of("orders", 27) == Variant(TEXTS, ())
    for name in ("retry", "poison"):
        rig.open(rf".\private$\orders;{name}", MOVE)
    assert rig.of("orders", 26) == Variant(UI4, 2)
    assert rig.of("orders", 27) == Variant(TEXTS, ("retry", "poison"))


@pytest.mark.spec("MS-MQMR 3.1.4.1/43")
def test_sequences_of_senders_are_six_vectors(rig: ManagedRig) -> None:
    rig.create("ledger", transactional=True)
    empty = rig.of("ledger", 24)
    assert [one.vt for one in empty.value] == [  # type: ignore[attr-defined]
        TEXTS,
        Vt.VECTOR | Vt.CLSID,
        Vt.VECTOR | Vt.UI8,
        Vt.VECTOR | Vt.UI4,
        Vt.VECTOR | Vt.I4,
        Vt.VECTOR | Vt.UI4,
    ]
    assert all(one.value == () for one in empty.value)  # type: ignore[attr-defined]
    arrived(rig)
    names, guids, ids, numbers, times, rejected = [
        one.value
        for one in rig.of("ledger", 24).value  # type: ignore[attr-defined]
    ]
    assert names == (r"DIRECT=OS:ALPHA\private$\ledger",)
    assert (guids, ids, numbers) == ((FAR_GUID,), (77 << 32 | 5,), (1,))
    assert (times, rejected) == ((START_UTC,), (0,))


def arrived(rig: ManagedRig) -> None:
    """A transactional message of another machine."""
    packet = serialize(
        Message(
            body=b"one",
            identifier=MessageId(FAR_GUID, 1),
            source_machine_identifier=FAR_GUID,
            sent_time=START_UTC,
            destination_queue_format_name=r"DIRECT=OS:ALPHA\private$\ledger",
            transaction_identifier=1,
            transactional_message_sequence_identifier=TxSequenceId(77, 5),
            transaction_sequence_number=1,
        )
    )
    peer, looks = Peer(FAR_GUID, "192.0.2.7"), summarize_all([packet])
    rig.run(lambda m: m.transfer.receive_packets(peer, [packet], looks))


# -- outgoing queues


@pytest.mark.spec("MS-MQMR 2.2.1.5/1", "MS-MQMR 3.1.4.1/21", "MS-MQMR 3.1.4.1/22")
@pytest.mark.parametrize(
    ("name", "kind"),
    [(FAR, "PRIVATE"), (WEB, "PRIVATE"), (GROUP, "MULTICAST")],
    ids=["direct", "url", "multicast"],
)
def test_an_outgoing_queue_tells_where_it_leads(rig: ManagedRig, name: str, kind: str) -> None:
    rig.send(name, b"one")
    answer = rig.info(queue_object(name), 2, 3, 4, 7)
    assert answer.variants == (text(name), text(kind), text("REMOTE"), Variant(UI4, 1))


@pytest.mark.spec("MS-MQMR 3.1.4.1/31", "MS-MQMR 3.1.4.1/32", "MS-MQMR 3.1.4.1/33")
def test_states_and_next_hops_are_those_of_the_queue(rig: ManagedRig) -> None:
    rig.send(FAR, b"one")
    _, outgoing = rig.outgoing(FAR)
    outgoing.next_hops = ("IP=10.0.0.2", "IP=10.0.0.3")
    hops = Variant(TEXTS, outgoing.next_hops)
    on_the_way = {OutgoingQueueState.CONNECTED, OutgoingQueueState.WAITING}
    for state in OutgoingQueueState:
        outgoing.state = state
        assert rig.of(FAR, 11) == text(state.value)
        assert rig.of(FAR, 12) == (hops if state in on_the_way else NULL)
    rig.send(GROUP, b"one")
    group = rig.manager.queues.find_outgoing(parse_format_name(GROUP))
    assert group is not None
    assert group.outgoing is not None
    group.outgoing.state = OutgoingQueueState.CONNECTED
    assert rig.of(GROUP, 12) == Variant(TEXTS, (GROUP,))


def place(sequence: int, number: int) -> Variant:
    return Variant(Vt.BLOB, SEQUENCE_INFO.pack(sequence, number, number - 1))


@pytest.mark.spec("MS-MQMR 3.1.4.1/34", "MS-MQMR 3.1.4.1/35", "MS-MQMR 3.1.4.1/36")
@pytest.mark.spec("MS-MQMR 3.1.4.1/37", "MS-MQMR 3.1.4.1/38", "MS-MQMR 3.1.4.1/39")
@pytest.mark.spec("MS-MQMR 3.1.4.1/40", "MS-MQMR 3.1.4.1/41")
def test_the_sequence_of_an_outgoing_queue_is_told(rig: ManagedRig) -> None:
    rig.commit_sends("abcd", final_ack_required=True)
    sender = rig.session()
    sequence = sequence_of(deserialize(rig.take(sender)[0].packet))
    rig.advance(5)
    assert rig.run(lambda m: m.transfer.outgoing.order_acknowledged(sequence, 1))
    first, *others = rig.info(queue_object(FAR), *EOD).variants
    assert first == place(sequence, 1)
    assert others[0] == Variant(Vt.I4, START_UTC + 5)
    assert others[1] == Variant(UI4, 1)
    assert others[2:5] == [place(sequence, 2), place(sequence, 4), place(sequence, 5)]
    assert others[5:7] == [Variant(UI4, 1), Variant(UI4, 3)]
    assert rig.run(lambda m: m.transfer.outgoing.order_acknowledged(sequence, 4))
    assert rig.of(FAR, 13) == NULL  # nothing waits for an acknowledgment
    assert rig.of(FAR, 16) == Variant(Vt.BLOB, bytes(16))
    for propid in EOD:
        assert rig.of("orders", propid) == NULL


@pytest.mark.spec("MS-MQMR 3.1.4.1/42")
def test_the_plan_to_send_again_is_told(rig: ManagedRig) -> None:
    rig.commit_sends("a")
    queue = rig.outgoing(FAR)[0]
    rig.run(lambda m: m.transfer.outgoing.resend_planned(queue, 3, 30, START_UTC + 30))
    answer = rig.info(queue_object(FAR), 21, 22, 23)
    assert answer.variants == (
        Variant(Vt.I4, START_UTC + 30),
        Variant(UI4, 30),
        Variant(UI4, 3),
    )


@pytest.mark.spec("MS-MQMR 3.1.4.1/44")
def test_the_connection_history_is_four_vectors(rig: ManagedRig) -> None:
    assert rig.of("orders", 25) == NULL
    rig.send(FAR, b"one")
    queue = rig.outgoing(FAR)[0]
    attempt = ConnectionAttempt(0x80000004, START_UTC, 111, ("10.0.0.2",))
    rig.run(lambda m: m.transfer.connection_attempted(queue, attempt))
    history = rig.of(FAR, 25)
    assert history == Variant(
        Vt.VECTOR | Vt.VARIANT,
        (
            Variant(Vt.VECTOR | UI4, (0x80000004,)),
            Variant(Vt.VECTOR | Vt.I4, (START_UTC,)),
            Variant(Vt.VECTOR | Vt.I4, (111,)),
            Variant(Vt.VECTOR | Vt.VARIANT, (Variant(TEXTS, ("10.0.0.2",)),)),
        ),
    )


def test_numbers_that_do_not_fit_are_the_largest_that_do(rig: ManagedRig) -> None:
    state = rig.queue("orders").state
    state.count, state.bytes = 1 << 40, 1 << 40
    try:
        answer = rig.info(queue_object("orders"), 7, 8)
        assert answer.variants == (Variant(UI4, 0xFFFFFFFF),) * 2
    finally:
        state.count = state.bytes = 0
