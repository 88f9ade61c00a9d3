"""impacket reads a real server: every method of RemoteRead, under every protection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from impacket.dcerpc.v5 import epm, transport
from impacket.dcerpc.v5.dtypes import NULL
from impacket.dcerpc.v5.rpcrt import DCERPCException
from impacket.uuid import bin_to_uuidtup

import posthouse
from posthouse.client.message import body_of
from posthouse.client.remote.parts import RemoteParts, join_transaction
from posthouse.wire.packet.remote_read import read_packet
from tests.process.offices import wait_until
from tests.process.rpc_house import PASSWORD, USER, House
from tests.protocols.remote_read import impacket_stubs as stubs

NONE, CONNECT, INTEGRITY, PRIVACY = 1, 2, 5, 6
LEVELS = pytest.mark.parametrize("level", [NONE, INTEGRITY, PRIVACY], ids=["none", "sign", "seal"])

RECEIVE_ACCESS, MOVE_ACCESS, PEEK_ACCESS = 1, 4, 0x20
RECEIVE, PEEK, PEEK_NEXT = 0, 0x80000000, 0x80000001
LOOKUP_PEEK, LOOKUP_RECEIVE = 0x40000010, 0x40000020
NACK, ACK = 1, 2
DIRECT, SUBQUEUE = (3, 0), (8, 5)  # type and suffix of a QUEUE_FORMAT
NO_TRANSACTION = bytes(16)
ALL = 0xFFFFFFFF
TOKEN_MAX = 131_072
REJECTED = 0xC004  # MQMSG_CLASS_NACK_RECEIVE_REJECTED

OK = 0
INVALID_HANDLE, OPERATION_CANCELLED, IO_TIMEOUT = 0xC00E0007, 0xC00E0008, 0xC00E001B
TRANSACTION_ENLIST = 0xC00E0058
STATUS_INVALID_HANDLE = 0xC0000008


class Reader:
    """A connection of impacket's, and the reader's calls on it."""

    generation = 1  # of its connection: it has one

    def __init__(
        self,
        house: House,
        level: int,
        user: str = USER,
        password: str = PASSWORD,
        *,
        ndr64: bool = False,
        port: int = 0,
    ) -> None:
        self.house = house
        self.ndr64 = ndr64
        binding = f"ncacn_ip_tcp:127.0.0.1[{port or house.rpc_port}]"
        carrier = transport.DCERPCTransportFactory(binding)
        carrier.set_credentials(user, password)
        self.dce = carrier.get_dce_rpc()
        self.dce.set_auth_level(level)
        self.dce.connect()
        syntax = self.dce.NDR64Syntax if ndr64 else self.dce.NDRSyntax
        self.dce.bind(stubs.MSRPC_UUID_REMOTE_READ, transfer_syntax=bin_to_uuidtup(syntax))
        assert self.dce.transfer_syntax == syntax

    def ask(self, name: str, **parameters: Any) -> None:
        """Sends a request; its answer is taken later."""
        request = getattr(stubs, name)()
        if self.ndr64:
            request.changeTransferSyntax(self.dce.NDR64Syntax)
        for key, value in parameters.items():
            request[key] = value
        self.dce.call(request.opnum, request)

    def answer(self, name: str) -> Any:
        """The next answer, which has to be that method's; a fault raises."""
        return getattr(stubs, f"{name}Response")(self.dce.recv(), isNDR64=self.ndr64)

    def call(self, name: str, **parameters: Any) -> Any:
        self.ask(name, **parameters)
        return self.answer(name)

    def result(self, name: str, **parameters: Any) -> int:
        return int(self.call(name, **parameters)["ErrorCode"])

    def open(self, queue: str, access: int = RECEIVE_ACCESS) -> bytes:
        return bytes(self._open("R_OpenQueue", queue, access)["pphContext"])

    def open_for_move(self, queue: str) -> tuple[bytes, int]:
        opened = self._open("R_OpenQueueForMove", queue, MOVE_ACCESS)
        return bytes(opened["pphContext"]), int(opened["pMoveContext"])

    def _open(self, name: str, queue: str, access: int) -> Any:
        return self.call(
            name,
            pQueueFormat=self.queue_format(queue),
            dwAccess=access,
            dwShareMode=0,
            pClientId=bytes(16),
            fNonRoutingServer=1,
            Major=6,
            Minor=1,
            BuildNumber=7601,
            fWorkgroup=1,
        )

    def queue_format(self, queue: str) -> Any:
        kind, suffix = SUBQUEUE if ";" in queue else DIRECT
        found = stubs.QUEUE_FORMAT(isNDR64=self.ndr64)
        found["m_qft"], found["m_SuffixAndFlags"] = kind, suffix
        found["union"]["tag"] = kind
        name = f"OS:{self.house.name}\\private$\\{queue}\0"
        found["union"][stubs.QUEUE_FORMAT_UNION.union[kind][0]] = name
        return found

    def start(self, handle: bytes, action: int = RECEIVE, **more: Any) -> Any:
        name = "R_StartTransactionalReceive" if "pTransactionId" in more else "R_StartReceive"
        return self.call(name, **starting(handle, action, **more))

    def end(self, handle: bytes, ack: int = ACK, name: str = "R_EndReceive") -> int:
        return self.result(name, phContext=handle, dwAck=ack, dwRequestId=1)

    def close(self, handle: bytes) -> Any:
        return self.call("R_CloseQueue", pphContext=handle)


def starting(handle: bytes, action: int = RECEIVE, **more: Any) -> dict[str, Any]:
    usual = {"LookupId": 0, "hCursor": 0, "ulTimeout": 0, "dwRequestId": 1}
    limits = {"dwMaxBodySize": ALL, "dwMaxCompoundMessageSize": ALL}
    return {"phContext": handle, "ulAction": action, **usual, **limits, **more}


def sections(started: Any) -> list[tuple[int, int, bytes]]:
    """Type, SectionSizeAlloc and bytes of each section."""
    assert started["ErrorCode"] == OK, hex(started["ErrorCode"])
    return [
        (each["SectionBufferType"], each["SectionSizeAlloc"], b"".join(each["pSectionBuffer"]))
        for each in started["ppPacketSections"]
    ]


def body(started: Any) -> bytes:
    """The body of a message that was sent whole."""
    ((kind, size, packet),) = sections(started)
    assert (kind, size) == (0, len(packet))
    message = read_packet(packet).message
    return message[body_of(message)]


@pytest.fixture
def reader(house: House, level: int) -> Iterator[Reader]:
    found = Reader(house, level)
    yield found
    found.dce.disconnect()


@pytest.fixture
def queue(house: House, request: pytest.FixtureRequest) -> Iterator[str]:
    """A queue with three messages."""
    name = f"q{abs(hash(request.node.nodeid))}"
    house.qm.create_queue(f".\\private$\\{name}")
    with_messages(house, name)
    yield name
    house.qm.delete_queue(f".\\private$\\{name}")


def with_messages(house: House, name: str) -> None:
    house.qm.queue(f".\\private$\\{name}").send_many([b"one", b"two", b"three"], recoverable=True)


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
        assert mapper.request(request)["num_ents"] == 2
        reader.dce.disconnect()


def deny(house: House, path: str, who: str) -> None:
    quoted = path.replace("\\", "%5C")
    house.qm.call(
        "POST", f"/queues/{quoted}/access/deny", {"who": who, "rights": ["receive", "peek"]}
    )
