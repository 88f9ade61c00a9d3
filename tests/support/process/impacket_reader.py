"""Remote read through impacket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from impacket.dcerpc.v5 import transport
from impacket.uuid import bin_to_uuidtup

from posthouse.wire.packet.bodies import body_of
from posthouse.wire.packet.remote_read import read_packet
from tests.process.rpc_house import PASSWORD, USER, House
from tests.protocols.remote_read import impacket_stubs as stubs

NONE, CONNECT, INTEGRITY, PRIVACY = 1, 2, 5, 6


RECEIVE_ACCESS, MOVE_ACCESS, PEEK_ACCESS = 1, 4, 0x20


RECEIVE, PEEK, PEEK_NEXT = 0, 0x80000000, 0x80000001


NACK, ACK = 1, 2


DIRECT, SUBQUEUE = (3, 0), (8, 5)  # type and suffix of a QUEUE_FORMAT


ALL = 0xFFFFFFFF


OK = 0


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
def queue(house: House, request: pytest.FixtureRequest) -> Iterator[str]:
    """A queue with three messages."""
    name = f"q{abs(hash(request.node.nodeid))}"
    house.qm.create_queue(f".\\private$\\{name}")
    with_messages(house, name)
    yield name
    house.qm.delete_queue(f".\\private$\\{name}")


def with_messages(house: House, name: str) -> None:
    house.qm.queue(f".\\private$\\{name}").send_many([b"one", b"two", b"three"], recoverable=True)
