"""impacket reads a real server: every method of RemoteRead, under every protection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from impacket.dcerpc.v5 import epm
from impacket.dcerpc.v5.dtypes import NULL
from impacket.dcerpc.v5.rpcrt import DCERPCException

import posthouse
from posthouse.client.remote.transaction_parts import RemoteParts, join_transaction
from tests.process.offices import wait_until
from tests.process.rpc_house import USER, House
from tests.protocols.remote_read import impacket_stubs as stubs
from tests.support.process.impacket_reader import (
    ACK,
    ALL,
    CONNECT,
    INTEGRITY,
    NACK,
    NONE,
    OK,
    PEEK,
    PEEK_ACCESS,
    PEEK_NEXT,
    PRIVACY,
    Reader,
    body,
    sections,
    starting,
)
from tests.support.process.impacket_reader import queue as queue

LEVELS = pytest.mark.parametrize("level", [NONE, INTEGRITY, PRIVACY], ids=["none", "sign", "seal"])

LOOKUP_PEEK, LOOKUP_RECEIVE = 0x40000010, 0x40000020
NO_TRANSACTION = bytes(16)
TOKEN_MAX = 131_072
REJECTED = 0xC004  # MQMSG_CLASS_NACK_RECEIVE_REJECTED

INVALID_HANDLE, OPERATION_CANCELLED, IO_TIMEOUT = 0xC00E0007, 0xC00E0008, 0xC00E001B
TRANSACTION_ENLIST = 0xC00E0058
STATUS_INVALID_HANDLE = 0xC0000008


@pytest.fixture
def reader(house: House, level: int) -> Iterator[Reader]:
    found = Reader(house, level)
    yield found
    found.dce.disconnect()


def left(house: House, name: str) -> list[bytes]:
    return [message.body for message in house.qm.queue(f".\\private$\\{name}").browse()]


@LEVELS
class TestEveryMethod:
    """[MS-MQRR] 3.1.4, opnums 0 and 2 to 15 as a client calls them."""

    @pytest.mark.spec("MS-MQRR 3.1.4.1/1")
    def test_the_port_is_told(self, reader: Reader) -> None:
        assert reader.call("R_GetServerPort")["ReturnValue"] == reader.house.rpc_port

    def test_a_message_is_peeked_received_and_ended(self, reader: Reader, queue: str) -> None:
        handle = reader.open(queue)
        assert body(reader.start(handle, PEEK)) == b"one"
        assert reader.end(handle) == INVALID_HANDLE  # a peek leaves nothing to be ended
        assert body(reader.start(handle)) == b"one"
        assert reader.end(handle) == OK
        assert left(reader.house, queue) == [b"two", b"three"]
        closed = reader.close(handle)
        assert (closed["ErrorCode"], closed["pphContext"]) == (OK, bytes(20))
        assert reader.start(handle)["ErrorCode"] == STATUS_INVALID_HANDLE

    def test_a_message_that_is_not_taken_stays(self, reader: Reader, queue: str) -> None:
        handle = reader.open(queue)
        assert body(reader.start(handle)) == b"one"
        assert reader.end(handle, NACK) == OK
        assert body(reader.start(handle)) == b"one"
        reader.close(handle)
        assert left(reader.house, queue) == [b"one", b"two", b"three"]

    def test_a_cursor_goes_through_the_queue(self, reader: Reader, queue: str) -> None:
        handle = reader.open(queue, PEEK_ACCESS)
        created = reader.call("R_CreateCursor", phContext=handle)
        assert created["ErrorCode"] == OK
        cursor = created["phCursor"]
        assert body(reader.start(handle, PEEK, hCursor=cursor)) == b"one"
        assert body(reader.start(handle, PEEK_NEXT, hCursor=cursor)) == b"two"
        assert body(reader.start(handle, PEEK_NEXT, hCursor=cursor)) == b"three"
        assert reader.start(handle, PEEK_NEXT, hCursor=cursor)["ErrorCode"] == IO_TIMEOUT
        assert reader.result("R_CloseCursor", phContext=handle, hCursor=cursor) == OK
        assert (
            reader.result("R_CloseCursor", phContext=handle, hCursor=cursor)
            == STATUS_INVALID_HANDLE
        )

    def test_a_message_is_found_by_its_lookup_identifier(self, reader: Reader, queue: str) -> None:
        handle = reader.open(queue)
        _, message, _ = reader.house.qm.queue(f".\\private$\\{queue}").browse()
        second = message.lookup_id
        assert body(reader.start(handle, LOOKUP_PEEK, LookupId=second)) == b"two"
        started = reader.start(handle, LOOKUP_RECEIVE, LookupId=second)
        assert (body(started), started["pSequenceId"]) == (b"two", second)
        assert reader.end(handle) == OK
        assert left(reader.house, queue) == [b"one", b"three"]

    def test_a_queue_is_purged(self, reader: Reader, queue: str) -> None:
        assert reader.result("R_PurgeQueue", phContext=reader.open(queue)) == OK
        assert left(reader.house, queue) == []

    @pytest.mark.spec("RPC/17", "RPC/18")
    def test_a_wait_is_cancelled_on_the_same_connection(self, reader: Reader, queue: str) -> None:
        handle = reader.open(queue)
        reader.result("R_PurgeQueue", phContext=handle)
        reader.ask("R_StartReceive", **starting(handle, ulTimeout=ALL, dwRequestId=7))
        reader.ask("R_CancelReceive", phContext=handle, dwRequestId=7)
        answers = sorted((reader.dce.recv() for _ in range(2)), key=len)
        assert stubs.R_CancelReceiveResponse(answers[0])["ErrorCode"] == OK
        waited = stubs.R_StartReceiveResponse(answers[1])
        assert waited["ErrorCode"] == OPERATION_CANCELLED
        assert waited["pdwNumberOfSections"] == 0

    def test_a_wait_ends_with_a_message(self, reader: Reader, queue: str) -> None:
        handle = reader.open(queue)
        reader.result("R_PurgeQueue", phContext=handle)
        reader.ask("R_StartReceive", **starting(handle, ulTimeout=ALL))
        reader.house.qm.queue(f".\\private$\\{queue}").send(b"at last")
        assert body(reader.answer("R_StartReceive")) == b"at last"
        assert reader.end(handle) == OK

    @pytest.mark.spec("MS-MQRR 3.1.4/4", clause="methods")
    def test_a_message_is_moved_to_a_subqueue(self, reader: Reader, queue: str) -> None:
        source = reader.open(queue)
        target, context = reader.open_for_move(f"{queue};later")
        moved = reader.start(source, PEEK)["pSequenceId"]
        parameters = {"phContextFrom": source, "LookupId": moved, "ullContextTo": context}
        assert reader.result("R_MoveMessage", pTransactionId=NO_TRANSACTION, **parameters) == OK
        assert left(reader.house, queue) == [b"two", b"three"]
        handle = reader.open(f"{queue};later")
        assert body(reader.start(handle)) == b"one"
        assert reader.end(handle) == OK
        assert reader.close(target)["ErrorCode"] == OK

    @pytest.mark.spec("Subqueues/1", "Subqueues/2")
    def test_a_subqueue_that_is_not_there_yet_is_opened(self, reader: Reader, queue: str) -> None:
        peeking, early = reader.open(f"{queue};early", PEEK_ACCESS), reader.open(f"{queue};early")
        reader.ask("R_StartReceive", **starting(early, ulTimeout=ALL))
        shown = reader.house.qm.queue(f".\\private$\\{queue}")
        shown.move(shown.peek(timeout=0), shown.subqueue("early"))
        assert body(reader.answer("R_StartReceive")) == b"one"
        assert reader.end(early) == OK
        assert reader.start(peeking, PEEK)["ErrorCode"] == IO_TIMEOUT
        for handle in (peeking, early):
            assert reader.close(handle)["ErrorCode"] == OK

    def test_a_long_message_comes_in_fragments_and_a_limit_in_sections(
        self, reader: Reader, queue: str
    ) -> None:
        long = bytes(range(256)) * 400
        handle = reader.open(queue)
        reader.result("R_PurgeQueue", phContext=handle)
        reader.house.qm.queue(f".\\private$\\{queue}").send(long)
        assert body(reader.start(handle, PEEK)) == long
        first, second = sections(reader.start(handle, PEEK, dwMaxBodySize=10))
        assert (first[0], second[0]) == (1, 2)
        assert first[1] - len(first[2]) == len(long) - 10
        assert first[2].endswith(long[:10])

    @pytest.mark.spec("RPC/11", "RPC/19")
    def test_a_token_of_nobody_enlists_nothing(self, reader: Reader, queue: str) -> None:
        assert offer(reader, queue, b"of nobody") == TRANSACTION_ENLIST
        assert offer(reader, queue, bytes(TOKEN_MAX)) == TRANSACTION_ENLIST
        with pytest.raises(DCERPCException, match="rpc_x_bad_stub_data"):
            offer(reader, queue, bytes(TOKEN_MAX + 1))

    @pytest.mark.spec("RPC/19")
    def test_calls_come_in_the_smallest_fragments(self, reader: Reader, queue: str) -> None:
        reader.dce.set_max_fragment_size(1)
        handle = reader.open(queue)
        assert body(reader.start(handle)) == b"one"
        assert reader.end(handle) == OK

    @pytest.mark.spec("MS-MQRR 3.1.4/5")
    def test_the_opnum_that_is_not_used_is_out_of_range(self, reader: Reader) -> None:
        reader.dce.call(1, b"")
        with pytest.raises(DCERPCException, match="nca_s_op_rng_error"):
            reader.dce.recv()

    @pytest.mark.spec("RPC/10")
    def test_a_queue_that_is_not_there_is_a_fault(self, reader: Reader) -> None:
        with pytest.raises(DCERPCException, match=r"MQ_ERROR_QUEUE_NOT_FOUND|c00e0003"):
            reader.open("nowhere")


def offer(reader: Reader, queue: str, token: bytes) -> int:
    return reader.result(
        "R_QMEnlistRemoteTransaction",
        pTransactionId=b"t" * 16,
        cbPropagationToken=len(token),
        pbPropagationToken=token,
        pQueueFormat=reader.queue_format(queue),
    )


def enlist(reader: Reader, tx: posthouse.Transaction, queue: str) -> bytes:
    """Lets the server take part in a transaction of another one's; what it is named by there."""

    def begin(identifier: bytes, token: bytes) -> None:
        enlisted = reader.result(
            "R_QMEnlistRemoteTransaction",
            pTransactionId=identifier,
            cbPropagationToken=len(token),
            pbPropagationToken=token,
            pQueueFormat=reader.queue_format(queue),
        )
        assert enlisted == OK

    return join_transaction(tx, RemoteParts(), reader, reader.house.name, begin)


@LEVELS
class TestTransactions:
    """A second server decides; this one takes part, through R_QMEnlistRemoteTransaction."""

    @pytest.fixture
    def ledger(self, house: House, request: pytest.FixtureRequest) -> str:
        name = f"ledger{abs(hash(request.node.nodeid))}"
        house.qm.create_queue(f".\\private$\\{name}", transactional=True)
        with house.qm.transaction() as tx:
            house.qm.queue(f".\\private$\\{name}").send_many([b"one", b"two", b"three"], tx=tx)
        return name

    def test_receives_are_of_the_transaction(
        self, reader: Reader, strict_house: House, ledger: str
    ) -> None:
        handle = reader.open(ledger)
        with strict_house.qm.transaction() as tx:
            identifier = enlist(reader, tx, ledger)
            started = reader.start(handle, pTransactionId=identifier)
            assert body(started) == b"one"
            assert reader.end(handle, ACK, "R_EndTransactionalReceive") == OK
            second = reader.start(handle, pTransactionId=identifier)
            assert body(second) == b"two"
            assert reader.end(handle, NACK, "R_EndTransactionalReceive") == OK
        wait_until(lambda: left(reader.house, ledger) == [b"two", b"three"], lambda: ledger)

    @pytest.mark.spec("MS-MQRR 3.1.4/4", clause="methods")
    def test_a_message_is_rejected_in_a_transaction(
        self, reader: Reader, strict_house: House, ledger: str
    ) -> None:
        handle = reader.open(ledger)
        with strict_house.qm.transaction() as tx:
            identifier = enlist(reader, tx, ledger)
            lookup_id = reader.start(handle, pTransactionId=identifier)["pSequenceId"]
            assert reader.end(handle, ACK, "R_EndTransactionalReceive") == OK
            rejected = reader.result(
                "R_SetUserAcknowledgementClass",
                phContext=handle,
                LookupId=lookup_id,
                usClass=REJECTED,
            )
            assert rejected == OK
        wait_until(lambda: left(reader.house, ledger) == [b"two", b"three"], lambda: ledger)


@pytest.mark.parametrize("level", [NONE, PRIVACY], ids=["none", "seal"])
def test_a_message_is_received_in_ndr64(house: House, queue: str, level: int) -> None:
    reader = Reader(house, level, ndr64=True)
    handle = reader.open(queue)
    assert body(reader.start(handle)) == b"one"
    assert reader.end(handle) == OK
    assert reader.close(handle)["ErrorCode"] == OK
    assert left(house, queue) == [b"two", b"three"]


class TestProtection:
    @pytest.mark.spec("MS-MQRR 2.1/4", "RPC/22")
    @pytest.mark.parametrize("level", [CONNECT, INTEGRITY, PRIVACY])
    def test_who_cannot_prove_himself_may_connect_and_call_nothing(
        self, house: House, level: int
    ) -> None:
        stranger = Reader(house, level, "stranger", "whatever")
        for _ in range(2):
            with pytest.raises(DCERPCException, match="rpc_s_access_denied"):
                stranger.call("R_GetServerPort")
        stranger.dce.disconnect()

    def test_a_call_in_the_clear_is_refused_where_calls_are_sealed(self, house: House) -> None:
        reader = Reader(house, PRIVACY)
        assert reader.call("R_GetServerPort")["ReturnValue"] == house.rpc_port
        reader.dce.set_auth_level(NONE)
        with pytest.raises(DCERPCException, match="rpc_s_access_denied"):
            reader.call("R_GetServerPort")
        reader.dce.disconnect()

    @pytest.mark.spec("MS-MQRR 2.1/5")
    def test_rights_are_of_who_calls_and_asked_again(self, house: House) -> None:
        path = r".\private$\guarded"
        house.qm.create_queue(path)
        house.qm.queue(path).send(b"secret")
        deny(house, path, "anonymous")
        with pytest.raises(DCERPCException, match=r"MQ_ERROR_ACCESS_DENIED|c00e0025"):
            Reader(house, NONE).open("guarded")
        with pytest.raises(DCERPCException, match=r"MQ_ERROR_ACCESS_DENIED|c00e0025"):
            Reader(house, NONE).open("guarded;early")
        reader = Reader(house, PRIVACY)
        handle = reader.open("guarded")
        assert body(reader.start(handle, PEEK)) == b"secret"
        deny(house, path, USER)
        assert reader.start(handle, PEEK)["ErrorCode"] != OK

    @pytest.mark.spec("RPC/15")
    def test_a_handle_of_another_client_is_unknown(self, house: House) -> None:
        house.qm.create_queue(r".\private$\shared")
        owner, thief = Reader(house, PRIVACY), Reader(house, PRIVACY)
        handle = owner.open("shared")
        assert thief.start(handle)["ErrorCode"] == STATUS_INVALID_HANDLE
        assert owner.start(handle)["ErrorCode"] == IO_TIMEOUT

    @pytest.mark.spec("RPC/14")
    def test_a_second_login_on_the_same_connection(self, house: House) -> None:
        reader = Reader(house, PRIVACY)
        mapper = reader.dce.alter_ctx(epm.MSRPC_UUID_PORTMAP)
        request = epm.ept_lookup()
        request["inquiry_type"], request["vers_option"], request["max_ents"] = 0, 1, 500
        request["object"] = request["Ifid"] = NULL
        assert mapper.request(request)["num_ents"] == 3
        reader.dce.disconnect()


def deny(house: House, path: str, who: str) -> None:
    quoted = path.replace("\\", "%5C")
    house.qm.call(
        "POST", f"/queues/{quoted}/access/deny", {"who": who, "rights": ["receive", "peek"]}
    )
