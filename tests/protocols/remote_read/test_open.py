"""R_GetServerPort, R_OpenQueue, R_CloseQueue ([MS-MQRR] 3.1.4.1-3) and their handles (2.2.4)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from posthouse.model.errors import ERROR_CODES, STATUS_CODES, QueueError
from posthouse.model.guids import format_guid
from posthouse.model.names import DirectName, parse_name
from posthouse.model.properties import QueueManagerState
from posthouse.model.roles import Role
from posthouse.protocols.queue_format import QueueFormat, queue_format_of
from posthouse.protocols.remote_read.receiving import result_of
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import Opnum
from posthouse.rpc import statuses
from posthouse.rpc.ndr import NULL_HANDLE, BadStub
from posthouse.rpc.security import Level
from posthouse.security.rights import PEEK_MESSAGE, QUEUE_GENERIC_ALL, RECEIVE_MESSAGE
from posthouse.security.sids import ANONYMOUS
from tests.protocols.remote_read.rig import (
    ACCESS_DENIED,
    ALL,
    INSUFFICIENT_RESOURCES,
    INVALID_PARAMETER,
    MOVE_ACCESS,
    OK,
    PEEK_ACCESS,
    QUEUE_NOT_FOUND,
    RECEIVE_ACCESS,
    SHARING_VIOLATION,
    STATUS_ACCESS_DENIED,
    STATUS_INVALID_HANDLE,
    Reader,
    ServerRig,
)
from tests.protocols.remote_read.rights import grant, revoke

GUID = bytes(range(16))
SERVICE_NOT_AVAILABLE = 0xC00E000B
PEEK_CURRENT = 0x80000000


# -- R_GetServerPort


@pytest.mark.spec("MS-MQRR 3.1.4.1/1", "MS-MQRR 3.1.4.1/3", "MS-MQRR 3.1.4.1/5", "MS-MQRR 3.1.4/3")
@pytest.mark.parametrize("ndr64", [False, True])
def test_the_port_is_the_one_that_is_listened_on(rig, ndr64):
    reader = rig.reader(ndr64=ndr64)
    rig.remote.port = 2114
    assert reader.call(Opnum.GET_SERVER_PORT).response.port == 2114
    assert reader.call(Opnum.GET_SERVER_PORT).response.port == 2114


@pytest.mark.spec("MS-MQRR 3.1.4.1/4")
def test_no_port_is_zero(rig, reader):
    rig.remote.port = 0
    assert reader.call(Opnum.GET_SERVER_PORT).response.port == 0


@pytest.mark.spec("MS-MQRR 3.1.4/4", clause="numbers")
@pytest.mark.spec("MS-MQRR 3.1.4/3", "MS-MQRR 3.1.4/5", "MS-MQRR 1.9/1")
def test_the_interface_has_fifteen_methods_and_no_opnum_1(rig):
    assert sorted(rig.interface.methods) == [0, *range(2, 16)]
    assert rig.interface.syntax.major == 1
    assert rig.interface.syntax.minor == 0
    assert rig.interface.syntax.uuid.hex() == "dd34911a397bba45ad8844d01ca47f28"


# -- R_OpenQueue


@pytest.mark.parametrize("version", [(0, 0, 0), (5, 2, 3790), (10, 0, 26100), (255, 255, 65535)])
@pytest.mark.parametrize("workgroup", [0, 1])
def test_the_version_of_a_client_is_not_looked_at(reader, version, workgroup):
    major, minor, build = version
    opened = reader.opening(
        "orders", major=major, minor=minor, build_number=build, workgroup=workgroup
    )
    assert opened.response.handle != NULL_HANDLE


@pytest.mark.spec("MS-MQRR 3.1.4.2/18", "MS-MQRR 2.2.4/1", "MS-MQRR 2.2.4/3")
@pytest.mark.parametrize("ndr64", [False, True])
def test_an_open_queue_has_a_handle_of_its_own(rig, ndr64):
    reader = rig.reader(ndr64=ndr64)
    first, second = reader.open("orders"), reader.open("orders")
    assert len(first) == len(second) == 20
    assert NULL_HANDLE not in (first, second)
    assert first != second
    assert rig.remote.figures.opened == 2


@pytest.mark.spec("MS-MQRR 2.2.3/1", "MS-MQRR 3.1.4.2/3")
def test_every_kind_of_name_that_can_be_read_is_opened(rig, reader):
    queue = rig.queue("orders")
    guid = rig.manager.machine.identifier
    rig.create(r".\public")
    public = rig.queue(r".\public").definition.identifier
    private = parse_name(f"PRIVATE={format_guid(guid)}\\{queue.definition.number:08x}")
    for name in (
        private,
        parse_name(f"PUBLIC={format_guid(public)}"),
        parse_name(r"DIRECT=OS:ALPHA\private$\orders"),
        parse_name(r"DIRECT=TCP:127.0.0.1\private$\orders"),
        parse_name(f"MACHINE={format_guid(guid)};DEADLETTER"),
    ):
        assert reader.opening(queue_format_of(name)).response.handle != NULL_HANDLE, name


@pytest.mark.spec("Subqueues/1")
@pytest.mark.parametrize("moves", [True, False])
def test_a_subqueue_is_opened_by_its_own_type(rig, reader, moves):
    context = reader.open_for_move("orders;retry") if moves else reader.open("orders;retry")
    name = parse_name(r"DIRECT=OS:ALPHA\private$\orders;retry")
    assert isinstance(name, DirectName)
    found = queue_format_of(name)
    assert found.type == 8
    assert reader.opening(found).response.handle
    assert context


@pytest.mark.spec("MS-MQRR 2.2.3/2", "MS-MQRR 2.2.3/3", "MS-MQRR 3.1.4.2/3", "MS-MQRR 3.1.4.2/21")
@pytest.mark.parametrize(
    "name",
    [
        QueueFormat(0),
        queue_format_of(parse_name("MULTICAST=234.1.1.1:8001")),
        queue_format_of(parse_name("DL=00000000-0000-0000-0000-000000000001")),
        queue_format_of(parse_name("CONNECTOR=00000000-0000-0000-0000-000000000001")),
        queue_format_of(parse_name(r"DIRECT=HTTP://alpha/msmq/private$/orders")),
        queue_format_of(parse_name(r"DIRECT=SPX:00000012:00a0234f7500\private$\orders")),
        QueueFormat(3, 0, None),
        QueueFormat(3, 0, "nothing"),
    ],
    ids=str,
)
@pytest.mark.parametrize("move", [False, True])
def test_other_names_are_invalid(reader, name, move):
    access = MOVE_ACCESS if move else RECEIVE_ACCESS
    assert reader.opening(name, access, move=move).status == INVALID_PARAMETER


@pytest.mark.spec(
    "MS-MQRR 3.1.4.2/8", "MS-MQRR 3.1.4.2/19", "MS-MQRR 3.1.4.2/21", "MS-MQRR 3.1.4.2/23"
)
@pytest.mark.parametrize(
    ("access", "share"), [(0, 0), (2, 0), (4, 0), (0x21, 0), (0x80000000, 0), (1, 2), (1, ALL)]
)
def test_other_accesses_and_share_modes_are_invalid_before_the_name_is_looked_at(
    rig, reader, access, share
):
    for name in ("orders", "nowhere"):
        assert reader.opening(name, access, share).status == INVALID_PARAMETER
    assert rig.manager.machine.refusals["MQ_ERROR_INVALID_PARAMETER"] == 2


@pytest.mark.spec("MS-MQRR 3.1.4.2/19", "MS-MQRR 3.1.4.2/22", "RPC/10")
@pytest.mark.parametrize(
    "name",
    [
        "nowhere",
        r"DIRECT=OS:ALPHA\private$\nowhere",
        r"DIRECT=OS:BRAVO\private$\orders",
        r"DIRECT=TCP:192.0.2.1\private$\orders",
        "PRIVATE=00000000-0000-0000-0000-000000000001\\00000005",
        "PUBLIC=00000000-0000-0000-0000-000000000001",
        "MACHINE=00000000-0000-0000-0000-000000000001;JOURNAL",
        r"nowhere;poison",
    ],
)
def test_a_name_of_no_queue_here_is_a_fault(reader, name):
    assert reader.opening(name).status == QUEUE_NOT_FOUND


@pytest.mark.spec("MS-MQRR 3.1.4.2/2", "MS-MQRR 3.1.4/1")
def test_a_name_that_is_missing_opens_nothing(rig, reader):
    with pytest.raises(BadStub):
        reader.raw(Opnum.OPEN_QUEUE, b"")
    assert reader.opening(QueueFormat(3, 0, None)).status == INVALID_PARAMETER
    assert rig.remote.figures.opened == 0


@pytest.mark.spec("MS-MQRR 3.1.4.2/4", "MS-MQRR 3.1.4.2/23")
def test_receive_access_is_for_peeks_too(rig, reader):
    rig.send("orders", b"one")
    handle = reader.open("orders", RECEIVE_ACCESS)
    assert reader.start(handle, PEEK_CURRENT).body == b"one"
    assert reader.receive(handle) == b"one"


@pytest.mark.spec("MS-MQRR 3.1.4.2/5", "MS-MQRR 3.1.4.7/9", "MS-MQRR 3.1.4.2/23")
def test_peek_access_is_for_peeks_only(rig, reader):
    rig.send("orders", b"one")
    handle = reader.open("orders", PEEK_ACCESS)
    assert reader.start(handle, PEEK_CURRENT).body == b"one"
    assert reader.start(handle).result == STATUS_ACCESS_DENIED
    assert rig.bodies("orders") == [b"one"]
    assert rig.remote.pending.count == 0


@pytest.mark.spec("MS-MQRR 3.1.4.2/6", "MS-MQRR 3.1.4.2/24")
def test_a_queue_is_open_any_number_of_times(rig, reader):
    other = rig.reader()
    handles = [reader.open("orders"), reader.open("orders"), other.open("orders", PEEK_ACCESS)]
    assert len(set(handles)) == 3


@pytest.mark.spec(
    "MS-MQRR 3.1.4.2/7", "MS-MQRR 3.1.4.2/24", "MS-MQRR 3.1.4.2/25", "MS-MQRR 3.1.4.3/3"
)
def test_an_exclusive_reader_keeps_others_out_until_it_closes(rig, reader):
    handle = reader.open("orders", share=1)
    other = rig.reader()
    assert other.opening("orders").status == SHARING_VIOLATION
    assert reader.close(handle).result == OK
    assert other.opening("orders").response.handle


@pytest.mark.spec(
    "MS-MQRR 3.1.4.2/10",
    "MS-MQRR 3.1.4.2/11",
    "MS-MQRR 3.1.4.2/13",
    "MS-MQRR 3.1.4.2/14",
    "MS-MQRR 3.1.4.11/4",
    "MS-MQRR 3.1.4.11/5",
    "MS-MQRR 3.1.4.11/6",
)
@pytest.mark.parametrize("move", [False, True])
@pytest.mark.parametrize(
    "others",
    [
        {"client_id": bytes(16)},
        {"client_id": b"\xff" * 16},
        {"non_routing_server": 0},
        {"major": 0, "minor": 0, "build_number": 0},
        {"major": 255, "minor": 255, "build_number": 65535},
        {"workgroup": 0},
    ],
    ids=str,
)
def test_what_the_client_says_of_itself_changes_nothing(reader, others, move):
    access = MOVE_ACCESS if move else RECEIVE_ACCESS
    assert reader.opening("orders", access, move=move, **others).response.handle


# -- who


@pytest.mark.spec("MS-MQRR 3.1.4.2/26", "MS-MQRR 2.1/4", "MS-MQRR 2.1/5")
def test_opening_needs_the_right_for_it(rig):
    alice = Reader(rig, rig.user("alice"))
    assert alice.opening("orders", PEEK_ACCESS).status == ACCESS_DENIED
    grant(rig, "orders", "alice", PEEK_MESSAGE)
    assert alice.opening("orders", PEEK_ACCESS).response.handle
    assert alice.opening("orders", RECEIVE_ACCESS).status == ACCESS_DENIED
    assert alice.opening("orders", MOVE_ACCESS, move=True).status == ACCESS_DENIED
    grant(rig, "orders", "alice", PEEK_MESSAGE | RECEIVE_MESSAGE)
    assert alice.opening("orders", RECEIVE_ACCESS).response.handle


@pytest.mark.spec("MS-MQRR 2.1/5", "MS-MQRR 3.1.4.6/4")
def test_a_right_that_is_taken_away_is_missed_on_the_next_call(rig):
    rig.send("orders", b"one")
    alice = Reader(rig, rig.user("alice"))
    grant(rig, "orders", "alice", PEEK_MESSAGE | RECEIVE_MESSAGE)
    handle = alice.open("orders")
    assert alice.start(handle, PEEK_CURRENT).body == b"one"
    revoke(rig, "orders", "alice")
    assert alice.start(handle, PEEK_CURRENT).result == STATUS_ACCESS_DENIED
    assert alice.start(handle).result == STATUS_ACCESS_DENIED
    assert alice.call(Opnum.PURGE_QUEUE, handle).result == STATUS_ACCESS_DENIED
    assert rig.bodies("orders") == [b"one"]


@pytest.mark.spec("MS-MQRR 3.1.4.2/17", "RPC/28")
def test_without_a_login_a_queue_has_to_grant_it_to_anonymous(rig):
    nobody = Reader(rig, None, level=Level.NONE)
    assert nobody.opening("orders", PEEK_ACCESS).status == ACCESS_DENIED
    grant(rig, "orders", ANONYMOUS, PEEK_MESSAGE)
    assert nobody.opening("orders", PEEK_ACCESS).response.handle
    assert nobody.opening("orders").status == ACCESS_DENIED


@pytest.mark.spec("MS-MQRR 3.1.4.2/16", "MS-MQRR 3.1.4.11/7", "RPC/28")
def test_the_interface_demands_privacy_unless_configured():
    assert ServerRig().interface.minimum_level is Level.PRIVACY
    for word in ("none", "connect", "integrity"):
        settings = RemoteReadSettings(minimum_authentication=word)
        assert ServerRig(settings).interface.minimum_level is Level[word.upper()]


def test_an_account_that_is_gone_opens_nothing(rig):
    alice = Reader(rig, rig.user("alice"))
    rig.run(lambda m: m.accounts.remove("alice"))
    assert alice.opening("orders").status == ACCESS_DENIED


@pytest.mark.spec("MS-MQRR 1.5/1")
def test_a_queue_manager_that_has_not_started_opens_nothing(rig, reader):
    rig.manager.machine.state = QueueManagerState.INITIALIZING
    assert reader.opening("orders").status == SERVICE_NOT_AVAILABLE
    assert reader.opening("orders", MOVE_ACCESS, move=True).status == SERVICE_NOT_AVAILABLE
    rig.manager.machine.state = QueueManagerState.READY
    assert reader.open("orders")


@pytest.mark.spec("MS-MQRR 1.8/1")
def test_no_code_is_our_own_invention():
    """Every code that a method can answer with is one of the documents'."""

    def kinds(kind: type[QueueError]) -> list[type[QueueError]]:
        return [kind, *(each for sub in kind.__subclasses__() for each in kinds(sub))]

    known = {*ERROR_CODES, *STATUS_CODES}
    for kind in kinds(QueueError):
        code = result_of(kind.__new__(kind))
        assert code in known
        assert code >> 31
        assert not code & 0x20000000


# -- R_CloseQueue


@pytest.mark.spec(
    "MS-MQRR 2.2.4/2",
    "MS-MQRR 3.1.4.3/5",
    "MS-MQRR 3.1.4.3/6",
    "MS-MQRR 3.1.4.7/8",
    "MS-MQRR 3.1.4.8/2",
    "MS-MQRR 3.1.4.9/8",
    "MS-MQRR 3.1.4.15/8",
)
def test_a_closed_handle_is_none_for_any_method(rig, reader):
    rig.send("orders", b"one")
    handle = reader.open("orders")
    closed = reader.close(handle).response
    assert (closed.handle, closed.result) == (NULL_HANDLE, OK)
    assert rig.remote.figures.opened == 0
    unusable(reader, handle)
    assert rig.bodies("orders") == [b"one"]


def unusable(reader: Reader, handle: bytes) -> None:
    assert reader.close(handle).result == STATUS_INVALID_HANDLE
    assert reader.call(Opnum.CREATE_CURSOR, handle).result == STATUS_INVALID_HANDLE
    assert reader.call(Opnum.CLOSE_CURSOR, handle, 1).result == STATUS_INVALID_HANDLE
    assert reader.call(Opnum.PURGE_QUEUE, handle).result == STATUS_INVALID_HANDLE
    assert reader.start(handle).result == STATUS_INVALID_HANDLE
    assert reader.start(handle, tx=GUID).result == STATUS_INVALID_HANDLE
    assert reader.start_without_transaction(handle).result == STATUS_INVALID_HANDLE
    assert reader.cancel(handle, 1).result == STATUS_INVALID_HANDLE
    assert reader.end(handle, 1).result == 0xC00E0007
    assert reader.end_transactional(handle, 1).result == 0xC00E0007
    assert reader.move(handle, 1, 1).result == STATUS_INVALID_HANDLE
    mark = reader.call(Opnum.SET_USER_ACKNOWLEDGEMENT_CLASS, handle, 1, 0)
    assert mark.result == STATUS_INVALID_HANDLE


@pytest.mark.spec(
    "MS-MQRR 3.1.4.2/1",
    "MS-MQRR 3.1.4.3/2",
    "MS-MQRR 3.1.4.4/1",
    "MS-MQRR 3.1.4.5/2",
    "MS-MQRR 3.1.4.6/1",
    "MS-MQRR 3.1.4.7/8",
    "MS-MQRR 3.1.4.8/2",
    "MS-MQRR 3.1.4.9/5",
    "MS-MQRR 3.1.4.10/10",
    "MS-MQRR 3.1.4.14/4",
    "MS-MQRR 3.1.4.15/5",
)
@pytest.mark.parametrize("handle", [NULL_HANDLE, b"\x07" * 20])
def test_no_method_works_on_a_handle_that_was_never_given(rig, reader, handle):
    rig.send("orders", b"one")
    unusable(reader, handle)
    assert rig.bodies("orders") == [b"one"]


@pytest.mark.spec("MS-MQRR 3.1.4.3/2")
def test_a_refused_close_gives_the_handle_back_as_it_was(reader):
    assert reader.close(b"\x07" * 20).response.handle == b"\x07" * 20


@pytest.mark.spec("MS-MQRR 3.1.4.3/1", "MS-MQRR 3.1.4.11/10")
def test_a_handle_for_moves_is_closed_in_the_same_way(rig, reader):
    context, handle = reader.open_for_move("orders;retry")
    source = reader.open("orders")
    assert reader.close(handle).response == (NULL_HANDLE, OK)
    assert reader.move(source, context, 1).result == 0xC00E0007


@pytest.mark.spec("MS-MQRR 3.1.4.2/1")
def test_a_handle_for_moves_is_for_nothing_else(rig, reader):
    rig.send("orders", b"one")
    _, handle = reader.open_for_move("orders")
    assert reader.call(Opnum.CREATE_CURSOR, handle).result == STATUS_INVALID_HANDLE
    assert reader.start(handle).result == STATUS_INVALID_HANDLE
    assert reader.start(handle, PEEK_CURRENT).result == STATUS_INVALID_HANDLE
    assert reader.call(Opnum.PURGE_QUEUE, handle).result == STATUS_INVALID_HANDLE
    assert reader.cancel(handle, 1).result == STATUS_INVALID_HANDLE
    assert rig.bodies("orders") == [b"one"]


@pytest.mark.spec("MS-MQRR 3.1.4.3/4")
def test_closing_gives_back_what_was_not_ended(rig, reader):
    rig.send("orders", b"one")
    rig.send("orders", b"two")
    handle = reader.open("orders")
    assert reader.start(handle).body == b"one"
    waiting = None
    assert reader.start(handle).body == b"two"
    waiting = reader.start(handle, timeout=1000)
    assert waiting.waits
    assert reader.close(handle).result == OK
    assert waiting.result == 0xC00E0008
    assert rig.remote.pending.count == 0
    assert rig.remote.waiting == 0
    assert reader.receive(reader.open("orders")) == b"one"
    rig.check_books()


# -- handles and clients


@pytest.mark.spec("RPC/15", "MS-MQRR 2.2.4.1/2")
def test_a_handle_is_good_on_every_connection_of_its_group_and_nowhere_else(rig, reader):
    rig.send("orders", b"one")
    handle = reader.open("orders")
    stranger = rig.reader()
    unusable(stranger, handle)
    second = rig.reader(group_id=reader.group_id)
    assert second.start(handle, PEEK_CURRENT).body == b"one"


def test_a_handle_is_good_for_its_own_user_only(rig, reader):
    handle = reader.open("orders")
    other = Reader(rig, rig.user("alice"), group_id=reader.group_id)
    unusable(other, handle)
    nobody = Reader(rig, None, group_id=reader.group_id)
    unusable(nobody, handle)


@pytest.mark.spec("MS-MQRR 2.2.4.1/2", "MS-MQRR 2.2.4.2/2")
def test_a_handle_of_another_interface_is_refused(rig, reader):
    group = reader.association.group
    foreign = group.open(object(), lambda: None, reader.identity)
    unusable(reader, foreign)


@pytest.mark.spec("MS-MQRR 2.2.4.2/1")
def test_of_two_closes_the_second_finds_the_handle_closed(rig, reader):
    handle = reader.open("orders")
    reader.settle = False
    first, second = reader.close(handle), reader.close(handle)
    rig.desk.settle()
    assert (first.result, second.result) == (OK, STATUS_INVALID_HANDLE)


def test_a_client_with_too_many_handles_gets_no_more(rig, reader):
    rig.groups.handles_max = 3
    reader.open("orders")
    reader.open("orders")
    assert reader.opening("orders").status == INSUFFICIENT_RESOURCES
    assert len(rig.queue("orders").descriptors) == 2


# -- the call timeout


@pytest.mark.spec("MS-MQRR 3.1.2/1", "MS-MQRR 3.1.2.1/1", "MS-MQRR 3.1.2.1/3")
def test_an_open_that_takes_too_long_is_broken_off(rig):
    assert RemoteReadSettings().call_timeout_ms == 300_000
    reader = rig.reader(settle=False)
    call = reader.opening("orders", share=1)
    rig.desk.append()
    rig.clock.advance(299_999)
    rig.remote.tick()
    assert call.waits
    rig.clock.advance(1)
    rig.remote.tick()
    assert call.status == statuses.CANCELLED
    rig.desk.settle()
    assert call.status == statuses.CANCELLED, "it is answered once"
    assert not rig.queue("orders").descriptors
    assert rig.remote.figures.opened == 0


def test_an_open_of_a_client_that_is_gone_is_broken_off_once(rig):
    reader = rig.reader(settle=False)
    reader.opening("orders")
    rig.desk.append()
    reader.association.end()
    rig.clock.advance(300_000)
    rig.remote.tick()
    rig.desk.settle()
    assert rig.remote.figures[1:5] == (0, 0, 0, 0)
    assert not rig.queue("orders").descriptors


def test_an_answered_open_leaves_no_timer(rig, reader):
    reader.open("orders")
    assert rig.remote.calls_running.running == 0
    rig.pass_time(300_000)


@pytest.mark.parametrize("role", list(Role))
def test_a_role_limits_what_the_access_list_gives(rig: ServerRig, role: Role) -> None:
    """`metrics` and `look` read nothing, `read` peeks, `operate` and `administer` do all."""
    alice = Reader(rig, rig.user("alice", role=role))
    grant(rig, "orders", "alice", QUEUE_GENERIC_ALL)
    may_peek, may_take = role.includes(Role.READ), role.includes(Role.OPERATE)
    for call, may in (
        (alice.opening("orders", PEEK_ACCESS), may_peek),
        (alice.opening("orders", RECEIVE_ACCESS), may_take),
        (alice.opening("orders", MOVE_ACCESS, move=True), may_take),
    ):
        (answer,) = call.answers
        assert (answer != ACCESS_DENIED) is may


@pytest.mark.parametrize("role", [Role.METRICS, Role.LOOK, Role.READ])
def test_a_role_that_is_given_later_counts_for_open_queues(rig: ServerRig, role: Role) -> None:
    rig.send("orders", b"1")
    alice = Reader(rig, rig.user("alice"))
    grant(rig, "orders", "alice", QUEUE_GENERIC_ALL)
    handle = alice.open("orders")
    account = rig.manager.accounts.find("alice")
    rig.run(lambda m: m.accounts.replace(replace(account, role=role)))
    assert alice.start(handle).result == STATUS_ACCESS_DENIED
    assert alice.call(Opnum.PURGE_QUEUE, handle).result == STATUS_ACCESS_DENIED
