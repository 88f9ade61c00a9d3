"""RemoteRead as a client meets it: bound by name, in either syntax, over PDUs in memory."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    NO_TRANSACTION,
    REMOTE_READ,
    Opnum,
    decode_response,
    encode_request,
)
from posthouse.rpc import pdu, statuses
from posthouse.rpc.connection import ServerConnection
from posthouse.rpc.interface import Call, Interface
from posthouse.rpc.security import Level
from posthouse.rpc.settings import RpcSettings
from posthouse.rpc.syntax import NDR, NDR64, SyntaxId, syntax
from posthouse.security.rights import QUEUE_GENERIC_ALL
from posthouse.security.sids import ANONYMOUS
from tests.protocols.remote_read.rig import (
    ACK,
    ALL,
    CLIENT_ID,
    INVALID_PARAMETER,
    IO_TIMEOUT,
    MOVE_ACCESS,
    OK,
    QUEUE_NOT_FOUND,
    RECEIVE_ACCESS,
    STATUS_INVALID_HANDLE,
    TRANSACTION_ENLIST,
    TRANSACTION_USAGE,
    ServerRig,
)
from tests.protocols.remote_read.rights import grant
from tests.rpc.toy import answer_of, fault_of, item, pdus_of, request

OTHER = syntax("11111111-2222-3333-4444-555555555555", 1)
SYNTAXES = pytest.mark.parametrize("transfer", [NDR, NDR64], ids=["NDR", "NDR64"])
PEEK_NEXT = 0x80000001


class Bound:
    """A connection to a server of RemoteRead and another interface, at level none."""

    def __init__(self, rig: ServerRig, *items: pdu.ContextItem) -> None:
        self.rig = rig
        self.sent = b""
        self.ndr64 = bool(items) and items[0].transfers[0] == NDR64
        other = Interface(OTHER, "other", {0: open_something}, Level.NONE)
        self.connection = ServerConnection(
            [rig.interface, other],
            rig.groups,
            None,
            RpcSettings(),
            "192.0.2.7",
            self.take,
            lambda: None,
        )
        bind = pdu.pack_bind(pdu.Bind(5840, 5840, 0, items or (item(0, REMOTE_READ, NDR),)))
        ((header, whole),) = self.say(pdu.pack(pdu.BIND, pdu.WHOLE, 1, bind))
        self.results = pdu.read_bind_ack(pdu.body_of(whole, header)[0]).results

    def take(self, parts: list[bytes]) -> None:
        self.sent += b"".join(parts)

    def say(self, data: bytes) -> list[tuple[pdu.Header, bytes]]:
        self.connection.receive(data)
        self.rig.desk.settle()
        found, self.sent = list(pdus_of(self.sent)), b""
        return found

    def raw(self, opnum: int, stub: bytes, context_id: int = 0) -> list[tuple[pdu.Header, bytes]]:
        return self.say(request(opnum, stub, context_id=context_id))

    def ask(self, opnum: int, *parameters: Any) -> list[tuple[pdu.Header, bytes]]:
        value = METHODS[opnum].request.parameters(*parameters)
        return self.raw(opnum, encode_request(opnum, value, self.ndr64))

    def call(self, opnum: int, *parameters: Any) -> Any:
        return decode_response(opnum, answer_of(self.ask(opnum, *parameters)), self.ndr64)

    def opening(self, name: str, access: int = RECEIVE_ACCESS) -> tuple[Any, ...]:
        return (self.rig.format_of(name), access, 0, CLIENT_ID, 1, 6, 1, 7601, 1)


def open_something(call: Call) -> None:
    """A method of another interface that gives out a handle of its own."""
    call.answer(call.association.group.open(object(), lambda: None, call.identity))


@pytest.fixture
def rig() -> ServerRig:
    """Level none is configured, and the queue grants everything to anonymous."""
    made = ServerRig(RemoteReadSettings(minimum_authentication="none"))
    made.create("orders")
    grant(made, "orders", ANONYMOUS, QUEUE_GENERIC_ALL)
    return made


@pytest.mark.spec("MS-MQRR 2.2/1", "MS-MQRR 2.2/2")
@SYNTAXES
def test_a_client_that_offers_one_syntax_is_served_with_it(
    rig: ServerRig, transfer: SyntaxId
) -> None:
    bound = Bound(rig, item(0, REMOTE_READ, transfer))
    ((result, _, accepted),) = bound.results
    assert (result, accepted) == (statuses.ACCEPTANCE, transfer)
    # The name is where the syntaxes differ: a server that took it for the other would refuse it.
    assert bound.call(Opnum.OPEN_QUEUE, *bound.opening("orders")).handle != bytes(20)


@pytest.mark.spec("MS-MQRR 2.2/1")
def test_both_syntaxes_are_taken_side_by_side(rig: ServerRig) -> None:
    bound = Bound(rig, item(0, REMOTE_READ, NDR), item(1, REMOTE_READ, NDR64))
    assert [result.result for result in bound.results] == [statuses.ACCEPTANCE] * 2
    opening = METHODS[2].request.parameters(*bound.opening("orders"))
    for context_id, ndr64 in ((0, False), (1, True)):
        answer = bound.raw(2, encode_request(2, opening, ndr64), context_id)
        assert len(answer_of(answer)) == 20


@pytest.mark.spec("MS-MQRR 1.9/1")
@pytest.mark.parametrize(
    "name",
    [
        REMOTE_READ._replace(major=2),
        REMOTE_READ._replace(major=0),
        syntax("1a9134dd-7b39-45ba-ad88-44d01ca47f29", 1),
        REMOTE_READ._replace(uuid=bytes(16)),
    ],
)
def test_another_name_or_version_is_refused_at_bind(rig: ServerRig, name: SyntaxId) -> None:
    bound = Bound(rig, item(0, name, NDR), item(1, REMOTE_READ, NDR))
    refused, accepted = bound.results
    assert refused.result == statuses.PROVIDER_REJECTION
    assert refused.reason == statuses.ABSTRACT_SYNTAX_NOT_SUPPORTED
    assert accepted.result == statuses.ACCEPTANCE


@pytest.mark.spec("MS-MQRR 3.1.4/5", "MS-MQDMPR 3.1.7.3/1")
@SYNTAXES
@pytest.mark.parametrize("opnum", [1, 16, 0xFFFF])
def test_an_opnum_without_a_method_is_a_fault(
    rig: ServerRig, opnum: int, transfer: SyntaxId
) -> None:
    bound = Bound(rig, item(0, REMOTE_READ, transfer))
    assert fault_of(bound.raw(opnum, b"")) == (statuses.OPNUM_OUT_OF_RANGE, False)


@pytest.mark.spec("RPC/10", "MS-MQRR 3.1.4.2/19", "MS-MQRR 3.1.4.11/11")
@SYNTAXES
@pytest.mark.parametrize(
    ("opnum", "access"),
    [(Opnum.OPEN_QUEUE, RECEIVE_ACCESS), (Opnum.OPEN_QUEUE_FOR_MOVE, MOVE_ACCESS)],
)
def test_a_failing_open_is_a_fault_with_its_hresult(
    rig: ServerRig, opnum: int, access: int, transfer: SyntaxId
) -> None:
    bound = Bound(rig, item(0, REMOTE_READ, transfer))
    missing = fault_of(bound.ask(opnum, *bound.opening("missing", access)))
    assert missing == (QUEUE_NOT_FOUND, True)
    wrong = fault_of(bound.ask(opnum, *bound.opening("orders", 0x99)))
    assert wrong == (INVALID_PARAMETER, True)


@pytest.mark.spec("RPC/11", "MS-MQRR 3.1.4/1")
@SYNTAXES
def test_a_stub_that_contradicts_itself_is_a_fault(rig: ServerRig, transfer: SyntaxId) -> None:
    bound = Bound(rig, item(0, REMOTE_READ, transfer))
    opened = bound.call(Opnum.OPEN_QUEUE, *bound.opening("orders")).handle
    for opnum in (Opnum.END_RECEIVE, Opnum.END_TRANSACTIONAL_RECEIVE):
        status, _ = fault_of(bound.ask(opnum, opened, 3, 1))
        assert status == statuses.BAD_STUB_DATA
    for opnum in METHODS:
        status, _ = fault_of(bound.raw(opnum, b"\xff" * 11))
        assert status == statuses.BAD_STUB_DATA


@SYNTAXES
def test_every_method_answers_in_the_syntax_it_is_asked_in(
    rig: ServerRig, transfer: SyntaxId
) -> None:
    """One message's way through the whole interface."""
    rig.send(".\\private$\\orders", b"first")
    rig.send(".\\private$\\orders", b"second")
    bound = Bound(rig, item(0, REMOTE_READ, transfer))
    call = bound.call
    assert call(Opnum.GET_SERVER_PORT).port == 2103
    handle = call(Opnum.OPEN_QUEUE, *bound.opening("orders")).handle
    cursor = call(Opnum.CREATE_CURSOR, handle).cursor
    peeked = call(Opnum.START_RECEIVE, handle, 0, cursor, 0x80000000, 0, 1, ALL, ALL)
    cut = call(Opnum.START_RECEIVE, handle, 0, cursor, PEEK_NEXT, 0, 1, 2, ALL)
    assert [len(found.sections) for found in (peeked, cut)] == [1, 2]
    assert call(Opnum.CLOSE_CURSOR, handle, cursor).result == OK
    target = call(Opnum.OPEN_QUEUE_FOR_MOVE, *bound.opening("orders;later", MOVE_ACCESS))
    moved = (handle, target.move_context, peeked.sequence_id, NO_TRANSACTION)
    assert call(Opnum.MOVE_MESSAGE, *moved).result == OK
    received = call(Opnum.START_RECEIVE, handle, 0, 0, 0, 0, 2, ALL, ALL)
    assert received.sequence_id == cut.sequence_id
    assert call(Opnum.END_RECEIVE, handle, ACK, 2).result == OK
    start = (handle, 0, 0, 0, 0, 3, ALL, ALL, NO_TRANSACTION)
    assert call(Opnum.START_TRANSACTIONAL_RECEIVE, *start).result == IO_TIMEOUT
    rig.send(".\\private$\\orders", b"third")
    third = call(Opnum.START_TRANSACTIONAL_RECEIVE, *start)
    rejecting = call(Opnum.SET_USER_ACKNOWLEDGEMENT_CLASS, handle, third.sequence_id, 0xC004)
    assert rejecting.result == TRANSACTION_USAGE
    assert call(Opnum.END_TRANSACTIONAL_RECEIVE, handle, ACK, 3).result == OK
    assert call(Opnum.CANCEL_RECEIVE, handle, 4).result & 0x80000000
    enlisting = (b"t" * 16, b"not ours", rig.format_of("orders"))
    assert call(Opnum.ENLIST_REMOTE_TRANSACTION, *enlisting).result == TRANSACTION_ENLIST
    assert call(Opnum.PURGE_QUEUE, handle).result == OK
    assert call(Opnum.CLOSE_QUEUE, target.handle) == (bytes(20), OK)
    assert call(Opnum.CLOSE_QUEUE, handle) == (bytes(20), OK)


@pytest.mark.spec("MS-MQRR 2.2.4.1/2", "MS-MQRR 2.2.4.2/2")
def test_handles_are_strict_but_not_type_strict(rig: ServerRig) -> None:
    """Those of another interface are none here; of the two types either will do."""
    bound = Bound(rig, item(0, REMOTE_READ, NDR), item(1, OTHER, NDR))
    foreign = answer_of(bound.raw(0, b"", context_id=1))
    assert len(foreign) == 20
    assert bound.call(Opnum.PURGE_QUEUE, foreign).result == STATUS_INVALID_HANDLE
    assert bound.call(Opnum.CLOSE_QUEUE, foreign) == (foreign, STATUS_INVALID_HANDLE)
    serialized = bound.call(Opnum.OPEN_QUEUE, *bound.opening("orders")).handle
    assert bound.call(Opnum.PURGE_QUEUE, serialized).result == OK
    assert bound.call(Opnum.CLOSE_QUEUE, serialized).result == OK
